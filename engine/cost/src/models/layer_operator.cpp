#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>
#include <utility>

#include "../counts.h"
#include "../work.h"
#include "additive.h"
#include "models.h"
#include "tessera/core/error.h"
#include "tessera/core/record_json.h"

namespace tessera::cost::models {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// What one layer size cannot tell from the time of its weights: launches, in a runtime without CUDA
// graphs about a dozen kernels of 5 us each.
constexpr double kAssumedLaunchS = 60e-6;
// Scores and values of a prompt run at about half of the peak. Tables of batches that hold many
// short prompts as if they were one long one have no such time: there it is 0.
constexpr double kAttention = 2;
constexpr double kClearlyBetter = 0.9;
constexpr double kBigBatch = 128;  // sequences

// Coefficients are shares of the data sheet: 1.25 of weight_bytes / bandwidth is 80 % of the peak.
const std::vector<Term>& layer_terms() {
  static const std::vector<Term> terms = {{"weights", 1.2},
                                          {"weights_above_16_rows", 0.1},
                                          {"weights_above_32_rows", 0.05},
                                          {"weights_above_64_rows", 0.1},
                                          {"weights_above_128_rows", 0.05},
                                          {"products", 1.5},
                                          {"products_to_1024_rows", 0.1},
                                          {"products_above_128_rows", 0},
                                          {"products_above_1024_rows", 0.05},
                                          {"products_above_2048_rows", 0.05},
                                          {"products_above_4096_rows", 0.05},
                                          {"products_above_8192_rows", 0.05},
                                          {"kv", 1.2},
                                          {"kv_above_128_sequences", 0.2}};
  return terms;
}

struct MatrixWork {
  double flop_per_row = 0;
  double weight_bytes = 0;
};

// All copies that the rows can touch are read; each row passes through the active ones.
MatrixWork matrix_work(const OpQuery& q, double rows) {
  MatrixWork work;
  for (const LinearShape& linear : q.layer->linears) {
    const double copies = std::min(count(linear.num_copies), rows * count(linear.num_active));
    work.flop_per_row += 2 * count(linear.active_parameters());
    work.weight_bytes += copies * count(linear.in_features * linear.out_features) * q.bitwidth / 8;
  }
  return work;
}

// Matrix tiles are 16, 32, 64 or 128 rows high: with more rows than a tile the kernel changes and
// reads or waits more, in steps that stay. Prompts run at a rate that settles after about 1024
// rows and falls again where the data shows it. Sequences read their own keys and values.
VectorXd terms_of(const Device& device, const OpQuery& q) {
  const double rows = q.batch_size * q.tokens;
  const MatrixWork matrices = matrix_work(q, rows);
  const double flop_per_s = device.flop_per_s.at("fp16");
  const double weights_s = matrices.weight_bytes / device.memory_bytes_per_s;
  const double row_s = matrices.flop_per_row / flop_per_s;
  const AttentionShape shape = attention_shape(*q.layer);
  const double sequence_kv_s =
      attention_work(shape, 16, 1, q.tokens, q.context_tokens).bytes / device.memory_bytes_per_s;
  const auto step = [&](double height) { return rows > height ? weights_s : 0; };
  const auto above = [&](double limit) { return std::max(rows - limit, 0.0) * row_s; };
  VectorXd terms(static_cast<Index>(layer_terms().size()));
  terms << weights_s, step(16), step(32), step(64), step(128), above(0),
      std::min(rows, 1024.0) * row_s, above(128), above(1024), above(2048), above(4096),
      above(8192), q.batch_size * sequence_kv_s,
      std::max(q.batch_size - kBigBatch, 0.0) * sequence_kv_s;
  return terms;
}

// What is assumed and not fitted.
double assumed_s(const Device& device, double attention, const OpQuery& q) {
  const AttentionWork work =
      attention_work(attention_shape(*q.layer), 16, q.batch_size, q.tokens, q.context_tokens);
  return kAssumedLaunchS + attention * work.flop / device.flop_per_s.at("fp16");
}

/// One decoder layer, never faster than its data sheet allows: rates and overheads against the data
/// sheet, so that they hold for layers of other shapes.
class LayerOperator final : public OpModel {
 public:
  LayerOperator(Device device, Phase phase, double attention, VectorXd coefficients)
      : device_(std::move(device)),
        phase_(phase),
        attention_(attention),
        coefficients_(std::move(coefficients)) {}

  double seconds(const OpQuery& query) const override {
    check_query(query);
    const double fitted =
        assumed_s(device_, attention_, query) + terms_of(device_, query).dot(coefficients_);
    return std::max(fitted, work_of(device_, query).floor_s());
  }
  Json coefficients() const override {
    return {{"phase", name_of(phase_)},
            {"attention", attention_},
            {"terms", to_json(layer_terms(), coefficients_)}};
  }

  Phase phase() const { return phase_; }
  double attention() const { return attention_; }
  const VectorXd& values() const { return coefficients_; }

 private:
  Device device_;
  Phase phase_;
  double attention_;  ///< of its operations at the peak rate
  VectorXd coefficients_;
};

void check_samples(const std::vector<Sample>& samples) {
  if (samples.empty()) {
    throw Error(ErrorCode::invalid_argument, "layer: no samples to fit", "samples");
  }
  const OpQuery& first = samples.front().query;
  for (const Sample& sample : samples) {
    const OpQuery& query = sample.query;
    check_query(query);
    if (query.phase == first.phase && query.bitwidth == first.bitwidth) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("layer: {} and {} in one fit; fit phases and bitwidths apart",
                            describe(first), describe(query)),
                "samples");
  }
}

const LayerOperator* checked_donor(const OpModel* donor, const std::vector<Sample>& samples) {
  const auto* known = dynamic_cast<const LayerOperator*>(donor);
  if (known != nullptr && (samples.empty() || known->phase() == samples.front().query.phase)) {
    return known;
  }
  throw Error(ErrorCode::invalid_argument,
              "layer: the donor is no operator model of the same phase; fit it by the method "
              "\"operator\" first",
              "donor");
}

// Rows of a batch multiply weights and read their own keys and values, both in proportion. Where a
// table cannot tell which, a prompt's time is that of the products, and a decode step's that of the
// cache; unless the table has no context axis.
void leave_out_the_unknowable(const std::vector<Sample>& samples, MatrixXd& terms) {
  const bool decode = samples.front().query.phase == Phase::decode;
  const bool cached = std::any_of(samples.begin(), samples.end(), [](const Sample& sample) {
    return sample.query.context_tokens > 0;
  });
  for (std::size_t i = 0; i < layer_terms().size(); ++i) {
    const std::string_view name = layer_terms()[i].name;
    const bool of_cache = name.starts_with("kv"), of_products = name.starts_with("products");
    const bool of_decode = name == "products_above_128_rows";
    const bool left_out = decode ? (cached ? of_products : of_cache) : of_cache || of_decode;
    if (left_out) terms.col(static_cast<Index>(i)).setZero();
  }
}

std::unique_ptr<LayerOperator> fit_with(const Device& device, double attention,
                                        const std::vector<Sample>& samples,
                                        const LayerOperator* donor) {
  const auto num_samples = static_cast<Index>(samples.size());
  MatrixXd terms(num_samples, static_cast<Index>(layer_terms().size()));
  VectorXd seconds(num_samples);
  for (Index i = 0; i < num_samples; ++i) {
    const Sample& sample = samples[static_cast<std::size_t>(i)];
    terms.row(i) = terms_of(device, sample.query).transpose();
    // A measurement below what is assumed leaves a little for the rest.
    seconds(i) = std::max(sample.latency_s - assumed_s(device, attention, sample.query),
                          0.1 * sample.latency_s);
  }
  if (donor == nullptr) leave_out_the_unknowable(samples, terms);
  const VectorXd known = donor == nullptr ? typical_of(layer_terms()) : donor->values();
  const VectorXd coefficients =
      donor == nullptr ? fit_additive(terms, seconds, known)
                       : known.cwiseProduct(adapt_additive(terms * known.asDiagonal(), seconds));
  return std::make_unique<LayerOperator>(device, samples.front().query.phase, attention,
                                         coefficients);
}

double mean_error(const OpModel& model, const std::vector<Sample>& samples) {
  double sum = 0;
  for (const Sample& sample : samples) {
    sum += std::abs(model.seconds(sample.query) / sample.latency_s - 1);
  }
  return sum / static_cast<double>(samples.size());
}

std::unique_ptr<OpModel> fit(const Device& device, const std::vector<Sample>& samples,
                             const OpModel* donor) {
  const LayerOperator* known = donor == nullptr ? nullptr : checked_donor(donor, samples);
  if (known != nullptr && samples.empty()) {  // by data sheet alone
    return std::make_unique<LayerOperator>(device, known->phase(), known->attention(),
                                           known->values());
  }
  check_samples(samples);
  auto with = fit_with(device, kAttention, samples, known);
  auto without = fit_with(device, 0, samples, known);
  if (mean_error(*without, samples) < kClearlyBetter * mean_error(*with, samples)) return without;
  return with;
}

std::unique_ptr<OpModel> read(const Device& device, const Json& coefficients,
                              const std::string& path) {
  JsonFields fields(coefficients, path);
  const Phase phase = read_field<Phase>(fields, "phase");
  auto model = std::make_unique<LayerOperator>(
      device, phase, fields.number("attention", 0, 1e6),
      coefficients_from_json(layer_terms(), fields.at("terms"), fields.path_of("terms")));
  fields.finish();
  return model;
}

}  // namespace

const FitMethod& layer_operator() {
  static const FitMethod method{"operator", fit, read};
  return method;
}

}  // namespace tessera::cost::models
