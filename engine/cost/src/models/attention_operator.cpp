#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "additive.h"
#include "attention_terms.h"
#include "models.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera::cost::models {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using Samples = std::vector<const Sample*>;

constexpr double kTiles[] = {64, 128};
constexpr GroupedShape kGroupedShapes[] = {
    {128, 1, 0.25}, {128, 1, 0}, {64, 2, 0.25}, {64, 2, 0}, {64, 3, 0}};

/// Kernels are compiled per head size, and other ones serve a window.
struct Variant {
  double head_dim = 128;
  bool windowed = false;
  double tile = 128;     // prefill
  GroupedShape grouped;  // decode
  VectorXd prefill, per_head, by_group;
};

double prefill_s(const AttentionDevice& device, const Variant& variant, const OpQuery& query) {
  return prefill_terms(device, variant.tile, query).dot(variant.prefill);
}

// Below the runtime's threshold it takes the other kernel, which may be the slower one; the smaller
// time of both there keeps the prediction from falling when the threshold is crossed.
double decode_s(const AttentionDevice& device, const Variant& variant, const OpQuery& query) {
  const double per_head = per_head_terms(device, query).dot(variant.per_head);
  if (!grouped_fits(query)) return per_head;
  const double by_group = grouped_terms(device, variant.grouped, query).dot(variant.by_group);
  if (grouped_chosen(device, variant.grouped, query)) return by_group;
  return std::min(per_head, by_group);
}

double seconds_of(const AttentionDevice& device, Phase phase, const Variant& variant,
                  const OpQuery& query) {
  return phase == Phase::prefill ? prefill_s(device, variant, query)
                                 : decode_s(device, variant, query);
}

class AttentionOperator final : public OpModel {
 public:
  AttentionOperator(const Device& device, std::string dtype, Phase phase,
                    std::vector<Variant> variants)
      : dtype_(std::move(dtype)),
        phase_(phase),
        device_(attention_device(device, dtype_)),
        variants_(std::move(variants)) {}

  double seconds(const OpQuery& query) const override {
    check_query(query);
    return seconds_of(device_, phase_, variant_for(query), query);
  }

  Json coefficients() const override {
    Json list = Json::array();
    for (const Variant& variant : variants_) list.push_back(to_json(variant));
    return {{"dtype", dtype_}, {"phase", to_string(phase_)}, {"variants", list}};
  }

  /// The nearest head size; with a window where the query has one and there is such a variant.
  const Variant& variant_for(const OpQuery& query) const {
    const auto distance = [&](const Variant& v) {
      return std::pair(std::abs(std::log(v.head_dim / query.head_dim)),
                       v.windowed != (query.window > 0));
    };
    return *std::min_element(
        variants_.begin(), variants_.end(),
        [&](const Variant& a, const Variant& b) { return distance(a) < distance(b); });
  }

  Phase phase() const { return phase_; }
  const std::string& dtype() const { return dtype_; }
  const std::vector<Variant>& variants() const { return variants_; }

 private:
  Json to_json(const Variant& variant) const {
    Json json = {{"head_dim", variant.head_dim}, {"windowed", variant.windowed}};
    if (phase_ == Phase::prefill) {
      json["tile_tokens"] = variant.tile;
      json["prefill"] = models::to_json(prefill_terms(), variant.prefill);
      return json;
    }
    json["tile_tokens"] = variant.grouped.tile_tokens;
    json["occupancy"] = variant.grouped.occupancy;
    json["min_blocks"] = variant.grouped.min_blocks;
    json["per_head"] = models::to_json(per_head_terms(), variant.per_head);
    json["grouped"] = models::to_json(grouped_terms(), variant.by_group);
    return json;
  }

  std::string dtype_;
  Phase phase_;
  AttentionDevice device_;
  std::vector<Variant> variants_;
};

// [sample, term] and [sample].
struct Rows {
  template <class TermsOf>
  Rows(const Samples& samples, Index num_terms, TermsOf&& terms_of)
      : terms(static_cast<Index>(samples.size()), num_terms),
        seconds(static_cast<Index>(samples.size())) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      terms.row(static_cast<Index>(i)) = terms_of(samples[i]->query).transpose();
      seconds(static_cast<Index>(i)) = samples[i]->latency_s;
    }
  }
  MatrixXd terms;
  VectorXd seconds;
};

Rows prefill_rows(const AttentionDevice& device, double tile, const Samples& samples) {
  return {samples, static_cast<Index>(prefill_terms().size()),
          [&](const OpQuery& q) { return prefill_terms(device, tile, q); }};
}

Rows per_head_rows(const AttentionDevice& device, const Samples& samples) {
  return {samples, static_cast<Index>(per_head_terms().size()),
          [&](const OpQuery& q) { return per_head_terms(device, q); }};
}

Rows grouped_rows(const AttentionDevice& device, const GroupedShape& shape,
                  const Samples& samples) {
  return {samples, static_cast<Index>(grouped_terms().size()),
          [&](const OpQuery& q) { return grouped_terms(device, shape, q); }};
}

struct ByKernel {
  Samples per_head, grouped;
};

ByKernel by_kernel(const AttentionDevice& device, const GroupedShape& shape,
                   const Samples& samples) {
  ByKernel result;
  for (const Sample* sample : samples) {
    (grouped_chosen(device, shape, sample->query) ? result.grouped : result.per_head)
        .push_back(sample);
  }
  return result;
}

Variant fit_prefill(const AttentionDevice& device, double tile, const Samples& samples) {
  Variant variant;
  variant.tile = tile;
  const Rows rows = prefill_rows(device, tile, samples);
  variant.prefill = fit_additive(rows.terms, rows.seconds, typical_of(prefill_terms()));
  return variant;
}

Variant fit_decode(const AttentionDevice& device, const GroupedShape& shape,
                   const Samples& samples) {
  Variant variant;
  variant.grouped = shape;
  const ByKernel kernels = by_kernel(device, shape, samples);
  const Rows per_head = per_head_rows(device, kernels.per_head);
  variant.per_head = fit_additive(per_head.terms, per_head.seconds, typical_of(per_head_terms()));
  const Rows grouped = grouped_rows(device, shape, kernels.grouped);
  variant.by_group = fit_additive(grouped.terms, grouped.seconds, typical_of(grouped_terms()));
  return variant;
}

double mean_error(const AttentionDevice& device, Phase phase, const Variant& variant,
                  const Samples& samples) {
  double sum = 0;
  for (const Sample* sample : samples) {
    sum += std::abs(seconds_of(device, phase, variant, sample->query) / sample->latency_s - 1);
  }
  return sum / static_cast<double>(samples.size());
}

// How a kernel cuts its work is no coefficient: each way is fitted and the best one kept.
Variant fit_variant(const AttentionDevice& device, Phase phase, const Samples& samples) {
  std::vector<Variant> candidates;
  if (phase == Phase::prefill) {
    for (const double tile : kTiles) candidates.push_back(fit_prefill(device, tile, samples));
  } else {
    for (const GroupedShape& shape : kGroupedShapes) {
      candidates.push_back(fit_decode(device, shape, samples));
    }
  }
  return *std::min_element(
      candidates.begin(), candidates.end(), [&](const Variant& a, const Variant& b) {
        return mean_error(device, phase, a, samples) < mean_error(device, phase, b, samples);
      });
}

const OpQuery& checked_first(const std::vector<Sample>& samples) {
  if (samples.empty()) {
    throw Error(ErrorCode::invalid_argument, "attention: no samples to fit", "samples");
  }
  const OpQuery& first = samples.front().query;
  for (const Sample& sample : samples) {
    check_query(sample.query);
    const OpQuery& query = sample.query;
    if (query.phase == first.phase && query.dtype == first.dtype &&
        query.kv_dtype == first.kv_dtype) {
      continue;
    }
    throw Error(ErrorCode::invalid_argument,
                fmt::format("attention: {} and {} in one fit; fit phases and dtypes apart",
                            describe(first), describe(query)),
                "samples");
  }
  return first;
}

using Factors = std::pair<VectorXd, VectorXd>;

// The donor's kernels times one factor per term, the same for all its variants.
template <class RowsOf>
VectorXd factors_of(const AttentionOperator& donor, const Samples& samples, Index num_terms,
                    VectorXd Variant::*coefficients, double otherwise, RowsOf&& rows_of) {
  if (samples.empty()) return VectorXd::Constant(num_terms, otherwise);
  MatrixXd terms(static_cast<Index>(samples.size()), num_terms);
  VectorXd seconds(terms.rows());
  for (Index i = 0; i < terms.rows(); ++i) {
    const Sample* sample = samples[static_cast<std::size_t>(i)];
    const Variant& variant = donor.variant_for(sample->query);
    const Rows row = rows_of(variant, Samples{sample});
    terms.row(i) = row.terms.row(0).cwiseProduct((variant.*coefficients).transpose());
    seconds(i) = sample->latency_s;
  }
  return adapt_additive(terms, seconds);
}

// A kernel that no sample ran on is scaled as all of them are on the whole.
double scale_of(const AttentionDevice& device, const AttentionOperator& donor,
                const Samples& samples) {
  const auto count = static_cast<Index>(samples.size());
  VectorXd predicted(count), measured(count);
  for (Index i = 0; i < count; ++i) {
    const Sample& sample = *samples[static_cast<std::size_t>(i)];
    predicted(i) = seconds_of(device, donor.phase(), donor.variant_for(sample.query), sample.query);
    measured(i) = sample.latency_s;
  }
  return common_factor(predicted, measured);
}

std::vector<Variant> adapt(const AttentionDevice& device, Phase phase,
                           const AttentionOperator& donor, const Samples& samples) {
  std::vector<Variant> variants = donor.variants();
  const double scale = scale_of(device, donor, samples);
  if (phase == Phase::prefill) {
    const VectorXd factors = factors_of(
        donor, samples, static_cast<Index>(prefill_terms().size()), &Variant::prefill, scale,
        [&](const Variant& v, const Samples& s) { return prefill_rows(device, v.tile, s); });
    for (Variant& v : variants) v.prefill = v.prefill.cwiseProduct(factors);
    return variants;
  }
  ByKernel kernels;
  for (const Sample* sample : samples) {
    const Variant& variant = donor.variant_for(sample->query);
    (grouped_chosen(device, variant.grouped, sample->query) ? kernels.grouped : kernels.per_head)
        .push_back(sample);
  }
  const VectorXd per_head = factors_of(
      donor, kernels.per_head, static_cast<Index>(per_head_terms().size()), &Variant::per_head,
      scale, [&](const Variant&, const Samples& s) { return per_head_rows(device, s); });
  const VectorXd grouped = factors_of(
      donor, kernels.grouped, static_cast<Index>(grouped_terms().size()), &Variant::by_group, scale,
      [&](const Variant& v, const Samples& s) { return grouped_rows(device, v.grouped, s); });
  for (Variant& v : variants) {
    v.per_head = v.per_head.cwiseProduct(per_head);
    v.by_group = v.by_group.cwiseProduct(grouped);
  }
  return variants;
}

const AttentionOperator* checked_donor(const OpModel* donor, const std::vector<Sample>& samples) {
  const auto* known = dynamic_cast<const AttentionOperator*>(donor);
  if (known != nullptr && (samples.empty() || known->phase() == samples.front().query.phase)) {
    return known;
  }
  throw Error(ErrorCode::invalid_argument,
              "attention: the donor is no operator model of the same phase; fit it by the method "
              "\"operator\" first",
              "donor");
}

std::unique_ptr<OpModel> fit(const Device& device, const std::vector<Sample>& samples,
                             const OpModel* donor) {
  const AttentionOperator* known = donor == nullptr ? nullptr : checked_donor(donor, samples);
  if (known != nullptr && samples.empty()) {  // by data sheet alone
    return std::make_unique<AttentionOperator>(device, known->dtype(), known->phase(),
                                               known->variants());
  }
  const OpQuery& first = checked_first(samples);
  const AttentionDevice seen_as = attention_device(device, first.dtype);
  std::map<std::pair<double, bool>, Samples> by_variant;
  Samples all;
  for (const Sample& sample : samples) {
    all.push_back(&sample);
    by_variant[{sample.query.head_dim, sample.query.window > 0}].push_back(&sample);
  }
  std::vector<Variant> variants;
  if (known != nullptr) {
    variants = adapt(seen_as, first.phase, *known, all);
  } else {
    for (const auto& [key, group] : by_variant) {
      variants.push_back(fit_variant(seen_as, first.phase, group));
      variants.back().head_dim = key.first;
      variants.back().windowed = key.second;
    }
  }
  return std::make_unique<AttentionOperator>(device, first.dtype, first.phase, std::move(variants));
}

Variant read_variant(const Json& json, const std::string& path, Phase phase) {
  JsonFields fields(json, path);
  Variant variant;
  variant.head_dim = fields.number("head_dim", 1, 4096);
  variant.windowed = fields.boolean("windowed", false);
  const double tile = fields.number("tile_tokens", 1, 65536);
  if (phase == Phase::prefill) {
    variant.tile = tile;
    variant.prefill =
        coefficients_from_json(prefill_terms(), fields.at("prefill"), fields.path_of("prefill"));
  } else {
    variant.grouped = {tile, fields.number("occupancy", 1, 64),
                       fields.number("min_blocks", 0, 1024)};
    variant.per_head =
        coefficients_from_json(per_head_terms(), fields.at("per_head"), fields.path_of("per_head"));
    variant.by_group =
        coefficients_from_json(grouped_terms(), fields.at("grouped"), fields.path_of("grouped"));
  }
  fields.finish();
  return variant;
}

std::unique_ptr<OpModel> read(const Device& device, const Json& coefficients,
                              const std::string& path) {
  JsonFields fields(coefficients, path);
  const std::string dtype = fields.text("dtype");
  dtype_traits(dtype);
  const std::string phase_name = fields.text("phase");
  const auto phase = phase_from_string(phase_name);
  if (!phase) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: \"{}\" is no phase; use prefill or decode",
                            fields.path_of("phase"), phase_name),
                "phase");
  }
  const Json& list = fields.at("variants");
  if (!list.is_array() || list.empty()) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: an array of at least one variant is needed", fields.path_of("variants")),
        "variants");
  }
  std::vector<Variant> variants;
  for (std::size_t i = 0; i < list.size(); ++i) {
    variants.push_back(
        read_variant(list[i], fmt::format("{}[{}]", fields.path_of("variants"), i), *phase));
  }
  fields.finish();
  return std::make_unique<AttentionOperator>(device, dtype, *phase, std::move(variants));
}

}  // namespace

const FitMethod& attention_operator() {
  static const FitMethod method{"operator", fit, read};
  return method;
}

}  // namespace tessera::cost::models
