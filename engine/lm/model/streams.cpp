#include "streams.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "description.h"
#include "short_convolution.h"
#include "tessera/core/error.h"

namespace tessera::lm {
namespace {

// Where so large a share of a normal distribution lies below, in deviations.
double normal_quantile(double share) {
  double low = -40, high = 40;
  while (high - low > 1e-12) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::numbers::sqrt2) / 2 < share ? low : high) = middle;
  }
  return low;
}

// What the router makes of a row: a number in (-1, 1) of each stream.
std::vector<float> routed(const StreamWeights& weights, const float* x) {
  const std::int64_t hidden = std::ssize(weights.router_norm);
  const auto streams = static_cast<std::size_t>(std::ssize(weights.router) / hidden);
  const float factor = rms_factor(x, hidden, weights.epsilon) / static_cast<float>(hidden);
  std::vector<float> found(streams);
  for (std::size_t s = 0; s < streams; ++s) {
    const float* row = weights.router.data() + static_cast<std::int64_t>(s) * hidden;
    float sum = 0;
    for (std::int64_t i = 0; i < hidden; ++i)
      sum += row[i] * x[i] * weights.router_norm[static_cast<std::size_t>(i)];
    found[s] = std::tanh(sum * factor);
  }
  return found;
}

float dot(const float* weights, const std::vector<float>& x) {
  float sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += weights[i] * x[i];
  return sum;
}

const float* row_of(Rows2d x, std::int64_t row) { return x.data + row * x.stride; }
float* room_of(Rows2d x, std::int64_t row) { return x.data + row * x.stride; }

double mean_square(const float* x, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum / static_cast<double>(count);
}

}  // namespace

void describe_streams(JsonFields& fields, const Arithmetic& family, Description& description) {
  if (family.num_streams == nullptr) return;
  description.num_streams = fields.integer(family.num_streams, 1, 64, 4);
  if (fields.integer("altup_active_idx", 0, 63, 0) != 0) {
    refuse(ErrorCode::unsupported, fields.path_of("altup_active_idx"),
           "layers that read another hidden state than the first are not understood");
  }
  // Where the class has it nowhere, and in models of more than these in the first alone.
  constexpr std::size_t kUsualLayers = 10;
  constexpr double kUsualShare = 0.95;
  const auto layers = static_cast<std::size_t>(description.shape.num_layers);
  std::vector<double> shares(layers, 0.0);
  if (fields.has(family.sparsity)) {
    const std::string path = fields.path_of(family.sparsity);
    shares = json_numbers(fields.at(family.sparsity), path, 0, 1 - 1e-9);
    if (shares.size() != layers) refuse(path, "{} numbers for {} layers", shares.size(), layers);
  } else if (layers > kUsualLayers) {
    std::fill_n(shares.begin(), kUsualLayers, kUsualShare);
  }
  for (const double share : shares) {
    description.gate_spread.push_back(
        share > 0 ? std::optional(static_cast<float>(normal_quantile(share))) : std::nullopt);
  }
}

void predict_streams(const StreamWeights& weights, std::span<const Rows2d> states,
                     std::span<const Rows2d> predicted) {
  const std::size_t streams = states.size();
  const std::int64_t hidden = states.front().columns;
  for (std::int64_t row = 0; row < states.front().rows; ++row) {
    const std::vector<float> by = routed(weights, row_of(states.front(), row));
    const float* coefficients = weights.prediction.data();
    for (std::size_t to = 0; to < streams; ++to) {
      float* out = room_of(predicted[to], row);
      std::copy_n(row_of(states[to], row), hidden, out);
      for (std::size_t from = 0; from < streams; ++from, coefficients += streams) {
        const float factor = dot(coefficients, by);
        const float* in = row_of(states[from], row);
        for (std::int64_t i = 0; i < hidden; ++i) out[i] += factor * in[i];
      }
    }
  }
}

void correct_streams(const StreamWeights& weights, std::span<const Rows2d> predicted,
                     std::span<const Rows2d> states) {
  const std::int64_t hidden = states.front().columns;
  std::vector<float> news(static_cast<std::size_t>(hidden));
  for (std::int64_t row = 0; row < states.front().rows; ++row) {
    const float* made = row_of(states.front(), row);
    const std::vector<float> by = routed(weights, made);
    std::transform(made, made + hidden, row_of(predicted.front(), row), news.begin(),
                   std::minus<>());
    for (std::size_t to = 0; to < states.size(); ++to) {
      const float factor = 1 + dot(weights.correction.data() + to * by.size(), by);
      const float* before = row_of(predicted[to], row);
      float* out = room_of(states[to], row);
      for (std::int64_t i = 0; i < hidden; ++i)
        out[i] = before[i] + factor * news[static_cast<std::size_t>(i)];
    }
  }
}

void match_magnitude(Rows2d like, Rows2d x) {
  constexpr double kLeast = 1e-5;  // of a mean square
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const double wanted = mean_square(row_of(like, row), like.columns);
    const double own = std::max(mean_square(row_of(x, row), x.columns), kLeast);
    const auto factor = static_cast<float>(std::sqrt(wanted / own));
    std::for_each_n(room_of(x, row), x.columns, [factor](float& number) { number *= factor; });
  }
}

void open_above(float spread, Rows2d x) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    float* const own = room_of(x, row);
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < x.columns; ++i) sum += own[i];
    const double mean = sum / static_cast<double>(x.columns);
    for (std::int64_t i = 0; i < x.columns; ++i) squares += (own[i] - mean) * (own[i] - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(x.columns));
    const auto least = static_cast<float>(mean + spread * deviation);
    for (std::int64_t i = 0; i < x.columns; ++i) own[i] = std::max(0.0f, own[i] - least);
  }
}

}  // namespace tessera::lm
