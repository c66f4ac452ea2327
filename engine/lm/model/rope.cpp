#include "rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::lm {
namespace {

constexpr double kTau = 2 * std::numbers::pi;

// Long waves are stretched by the factor, short ones stay, those between are blended.
// Source: rope_type "llama3" of transformers, modeling_rope_utils.py.
void scale_llama3(Rope& rope, JsonFields& fields) {
  const double factor = fields.number("factor", 1, 1e6);
  const double low = fields.number("low_freq_factor", 1e-6, 1e6);
  const double high = fields.number("high_freq_factor", 1e-6, 1e6);
  const double context = fields.number("original_max_position_embeddings", 1, 1e9);
  if (high < low) {
    refuse(fields.path_of("high_freq_factor"), "{} is below low_freq_factor = {}", high, low);
  }
  for (double& frequency : rope.inverse_frequencies) {
    const double waves = context * frequency / kTau;  // in the context of training
    // Where the two are one, as in Llama 4 Scout, nothing lies between.
    const double blend = high > low     ? std::clamp((waves - low) / (high - low), 0.0, 1.0)
                         : waves >= low ? 1.0
                                        : 0.0;
    frequency *= blend + (1 - blend) / factor;
  }
}

// The pair whose wave turns `rotations` times in the context of training.
double pair_of(double rotations, double width, double theta, double context) {
  return width * std::log(context / (rotations * kTau)) / (2 * std::log(theta));
}

void scale_yarn(Rope& rope, JsonFields& fields, const RopeRequest& request) {
  const double factor = fields.number("factor", 1, 1e6);
  const double context = fields.number("original_max_position_embeddings", 1, 1e9,
                                       static_cast<double>(request.max_context_tokens));
  const double fast = fields.number("beta_fast", 1e-6, 1e6, 32);
  const double slow = fields.number("beta_slow", 1e-6, 1e6, 1);
  const bool truncate = fields.boolean("truncate", true);
  const double width = static_cast<double>(rope.width);
  double first = pair_of(fast, width, request.theta, context);
  double last = pair_of(slow, width, request.theta, context);
  if (truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, width - 1);
  if (first == last) last += 0.001;
  for (std::size_t i = 0; i < rope.inverse_frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
    rope.inverse_frequencies[i] *= (1 - ramp) + ramp / factor;
  }
  const auto magnitude = [&](double by) {
    return factor <= 1 ? 1.0 : 0.1 * by * std::log(factor) + 1.0;
  };
  const auto mscale = fields.optional_number("mscale", 0, 1e3);
  const auto mscale_all = fields.optional_number("mscale_all_dim", 0, 1e3);
  const double usual =
      mscale && mscale_all ? magnitude(*mscale) / magnitude(*mscale_all) : magnitude(1);
  rope.attention_factor = fields.number("attention_factor", 1e-6, 1e6, usual);
  if (mscale_all) rope.score_factor = magnitude(*mscale_all) * magnitude(*mscale_all);
}

// A factor for each pair, in sequences up to the length of training and past it.
void scale_longrope(Rope& rope, JsonFields& fields, const RopeRequest& request) {
  double context = static_cast<double>(request.original_tokens);
  if (fields.has("original_max_position_embeddings"))
    context = fields.number("original_max_position_embeddings", 1, 1e9);
  const double written = static_cast<double>(request.max_context_tokens);
  double factor = written / context;
  if (context == 0) {
    context = written;
    factor = fields.number("factor", 1e-6, 1e6, 1);
  }
  const auto divided = [&](const char* key) {
    const auto factors = json_numbers(fields.at(key), fields.path_of(key), 1e-9, 1e9);
    if (factors.size() != rope.inverse_frequencies.size()) {
      refuse(fields.path_of(key), "{} factors for {} pairs", factors.size(),
             rope.inverse_frequencies.size());
    }
    std::vector<double> found = rope.inverse_frequencies;
    for (std::size_t i = 0; i < found.size(); ++i) found[i] /= factors[i];
    return found;
  };
  rope.long_frequencies = divided("long_factor");
  rope.inverse_frequencies = divided("short_factor");
  rope.short_tokens = static_cast<std::int64_t>(context);
  const double usual = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(context));
  rope.attention_factor = fields.number("attention_factor", 1e-6, 1e6, usual);
}

std::vector<double> frequencies(double theta, std::int64_t width) {
  std::vector<double> found;
  for (std::int64_t i = 0; i < width / 2; ++i) {
    found.push_back(std::pow(theta, -2 * static_cast<double>(i) / static_cast<double>(width)));
  }
  return found;
}

}  // namespace

Rope make_rope(const RopeRequest& request, const Json& scaling, const std::string& path) {
  Rope rope;
  rope.width = request.width;
  rope.theta = request.theta;
  rope.inverse_frequencies = frequencies(request.theta, request.width);
  for (std::size_t i = 0; i < request.factors.size(); ++i) {
    rope.inverse_frequencies[i] /= static_cast<double>(request.factors[i]);
  }
  if (scaling.is_null()) return rope;
  JsonFields fields(scaling, path);
  const std::string type =
      fields.has("rope_type") ? fields.text("rope_type") : fields.text("type", "default");
  if (type == "linear") {
    const double factor = fields.number("factor", 1e-6, 1e6);
    for (double& frequency : rope.inverse_frequencies) frequency /= factor;
  } else if (type == "proportional") {
    const double factor = fields.number("factor", 1e-6, 1e6, 1);
    const auto turning =
        static_cast<std::size_t>(std::floor(request.part * static_cast<double>(request.width)) / 2);
    for (std::size_t i = 0; i < rope.inverse_frequencies.size(); ++i) {
      double& frequency = rope.inverse_frequencies[i];
      frequency = i < turning ? frequency / factor : 0;
    }
  } else if (type == "dynamic") {
    rope.factor = fields.number("factor", 1, 1e6, 1);
    if (request.width > 2 && rope.factor > 1) rope.short_tokens = request.max_context_tokens;
  } else if (type == "llama3") {
    scale_llama3(rope, fields);
  } else if (type == "yarn") {
    scale_yarn(rope, fields, request);
  } else if (type == "longrope" || type == "su") {
    scale_longrope(rope, fields, request);
  } else if (type != "default") {
    refuse(ErrorCode::unsupported, fields.path_of("rope_type"),
           "{} is not understood; known: default, linear, dynamic, llama3, longrope, proportional, "
           "yarn",
           quote(type));
  }
  return rope;
}

std::vector<double> long_frequencies_at(const Rope& rope, std::int64_t sequence_tokens) {
  if (!rope.long_frequencies.empty()) return rope.long_frequencies;
  // Dynamic NTK: a base at which the longest wave is stretched by how far the sequence has grown.
  const double grown =
      static_cast<double>(sequence_tokens) / static_cast<double>(rope.short_tokens);
  const double width = static_cast<double>(rope.width);
  const double theta =
      rope.theta * std::pow(rope.factor * grown - (rope.factor - 1), width / (width - 2));
  return frequencies(theta, rope.width);
}

void rope_row(const Rope& rope, const std::vector<double>& frequencies, std::int64_t position,
              float* row) {
  const std::size_t pairs = frequencies.size();
  for (std::size_t i = 0; i < pairs; ++i) {
    // In f32, as every implementation that models were trained with has it.
    const float angle = static_cast<float>(position) * static_cast<float>(frequencies[i]);
    row[i] = static_cast<float>(std::cos(static_cast<double>(angle)) * rope.attention_factor);
    row[pairs + i] =
        static_cast<float>(std::sin(static_cast<double>(angle)) * rope.attention_factor);
  }
}

}  // namespace tessera::lm
