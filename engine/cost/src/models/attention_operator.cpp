#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "additive.h"
#include "attention_correction.h"
#include "attention_model.h"
#include "correction.h"
#include "models.h"
#include "tessera/core/error.h"

namespace tessera::cost::models {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using Samples = std::vector<const Sample*>;

// From this many points on the terms are corrected by what they leave over.
constexpr std::size_t kCorrectedSamples = 200;
// Of a donor's correction: most of it is its own choice of kernels. As of products, and no share
// does much better between the three GPUs that vLLM's kernels were measured on.
constexpr double kDonorShare = 0.25;
constexpr double kTiles[] = {64, 128};
constexpr GroupedShape kGroupedShapes[] = {{128, 1, 0.25},
                                           {128, 1, 0},
                                           {64, 2, 0.25},
                                           {64, 2, 0},
                                           {64, 3, 0},
                                           {128, 2, 0, GroupedKernel::flash},
                                           {32, 1, 0, GroupedKernel::per_query}};

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

// Fewer points than terms take another GPU's form, which has to be named; a kernel that no point
// ran on takes the typical one.
VectorXd fitted(const Rows& rows, const std::vector<Term>& terms) {
  if (rows.seconds.size() > 0 && rows.seconds.size() < rows.terms.cols()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("attention: {} points for a kernel of {} terms; measure more, or "
                            "calibrate from a donor",
                            rows.seconds.size(), rows.terms.cols()),
                "samples");
  }
  return fit_additive(rows.terms, rows.seconds, typical_of(terms));
}

AttentionVariant fit_prefill(const AttentionDevice& device, double tile, const Samples& samples) {
  AttentionVariant variant;
  variant.tile = tile;
  const Rows rows = prefill_rows(device, tile, samples);
  variant.prefill = fitted(rows, prefill_terms());
  return variant;
}

AttentionVariant fit_decode(const AttentionDevice& device, const GroupedShape& shape,
                            const Samples& samples) {
  AttentionVariant variant;
  variant.grouped = shape;
  const ByKernel kernels = by_kernel(device, shape, samples);
  const Rows per_head = per_head_rows(device, kernels.per_head);
  variant.per_head = fitted(per_head, per_head_terms());
  const Rows grouped = grouped_rows(device, shape, kernels.grouped);
  variant.by_group = fitted(grouped, grouped_terms());
  return variant;
}

double mean_error(const AttentionDevice& device, Phase phase, const AttentionVariant& variant,
                  const Samples& samples) {
  double sum = 0;
  for (const Sample* sample : samples) {
    sum += std::abs(attention_s(device, phase, variant, sample->query) / sample->latency_s - 1);
  }
  return sum / static_cast<double>(samples.size());
}

// How a kernel cuts its work is no coefficient: each way is fitted and the best one kept. A way
// that leaves one of its kernels fewer points than terms is passed over.
AttentionVariant fit_variant(const AttentionDevice& device, Phase phase, const Samples& samples) {
  std::optional<AttentionVariant> best;
  std::optional<Error> last;
  double least = 0;
  const auto consider = [&](auto&& fit) {
    try {
      AttentionVariant candidate = fit();
      const double error = mean_error(device, phase, candidate, samples);
      if (best && error >= least) return;
      best = std::move(candidate);
      least = error;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
      last = error;
    }
  };
  if (phase == Phase::prefill) {
    for (const double tile : kTiles) consider([&] { return fit_prefill(device, tile, samples); });
  } else {
    for (const GroupedShape& shape : kGroupedShapes) {
      consider([&] { return fit_decode(device, shape, samples); });
    }
  }
  if (!best) throw *last;
  return *std::move(best);
}

// What the terms of a variant leave over at its samples.
VectorXd correction_of(const AttentionDevice& device, Phase phase, const AttentionVariant& variant,
                       const Samples& samples) {
  FeatureRows rows(samples.size());
  VectorXd target(static_cast<Index>(samples.size()));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    attention_features(samples[i]->query, rows[i]);
    target(static_cast<Index>(i)) =
        std::log(samples[i]->latency_s / attention_s(device, phase, variant, samples[i]->query));
  }
  return rounded_correction(fit_correction(rows, target, num_attention_features(phase)));
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
                    VectorXd AttentionVariant::*coefficients, double otherwise, RowsOf&& rows_of) {
  if (samples.empty()) return VectorXd::Constant(num_terms, otherwise);
  MatrixXd terms(static_cast<Index>(samples.size()), num_terms);
  VectorXd seconds(terms.rows());
  for (Index i = 0; i < terms.rows(); ++i) {
    const Sample* sample = samples[static_cast<std::size_t>(i)];
    const AttentionVariant& variant = donor.variant_for(sample->query);
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
    predicted(i) =
        attention_s(device, donor.phase(), donor.variant_for(sample.query), sample.query);
    measured(i) = sample.latency_s;
  }
  return common_factor(predicted, measured);
}

// What another device is believed to share of a donor: its terms, and a part of its correction; of
// the same chip all of it.
std::vector<AttentionVariant> believed(const AttentionDevice& device,
                                       const AttentionOperator& donor) {
  std::vector<AttentionVariant> variants = donor.variants();
  if (device.compute_capability == donor.device().compute_capability &&
      device.multiprocessors == donor.device().multiprocessors) {
    return variants;
  }
  for (AttentionVariant& variant : variants) {
    if (variant.correction.size() == 0) continue;
    variant.correction = rounded_correction(kDonorShare * variant.correction);
  }
  return variants;
}

std::vector<AttentionVariant> adapt(const AttentionDevice& device, Phase phase,
                                    const AttentionOperator& donor, const Samples& samples) {
  std::vector<AttentionVariant> variants = believed(device, donor);
  const double scale = scale_of(device, donor, samples);
  if (phase == Phase::prefill) {
    const VectorXd factors = factors_of(donor, samples, static_cast<Index>(prefill_terms().size()),
                                        &AttentionVariant::prefill, scale,
                                        [&](const AttentionVariant& v, const Samples& s) {
                                          return prefill_rows(device, v.tile, s);
                                        });
    for (AttentionVariant& v : variants) v.prefill = v.prefill.cwiseProduct(factors);
    return variants;
  }
  ByKernel kernels;
  for (const Sample* sample : samples) {
    const AttentionVariant& variant = donor.variant_for(sample->query);
    (grouped_chosen(device, variant.grouped, sample->query) ? kernels.grouped : kernels.per_head)
        .push_back(sample);
  }
  const VectorXd per_head = factors_of(
      donor, kernels.per_head, static_cast<Index>(per_head_terms().size()),
      &AttentionVariant::per_head, scale,
      [&](const AttentionVariant&, const Samples& s) { return per_head_rows(device, s); });
  const VectorXd grouped = factors_of(
      donor, kernels.grouped, static_cast<Index>(grouped_terms().size()),
      &AttentionVariant::by_group, scale, [&](const AttentionVariant& v, const Samples& s) {
        return grouped_rows(device, v.grouped, s);
      });
  for (AttentionVariant& v : variants) {
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
    return std::make_unique<AttentionOperator>(
        device, known->dtype(), known->phase(),
        believed(attention_device(device, known->dtype()), *known));
  }
  const OpQuery& first = checked_first(samples);
  const AttentionDevice seen_as = attention_device(device, first.dtype);
  std::map<std::pair<double, bool>, Samples> by_variant;
  Samples all;
  for (const Sample& sample : samples) {
    all.push_back(&sample);
    by_variant[{sample.query.head_dim, sample.query.window > 0}].push_back(&sample);
  }
  std::vector<AttentionVariant> variants;
  if (known != nullptr) {
    variants = adapt(seen_as, first.phase, *known, all);
  } else {
    for (const auto& [key, group] : by_variant) {
      variants.push_back(fit_variant(seen_as, first.phase, group));
      if (group.size() >= kCorrectedSamples) {
        variants.back().correction = correction_of(seen_as, first.phase, variants.back(), group);
      }
      variants.back().head_dim = key.first;
      variants.back().windowed = key.second;
    }
  }
  return std::make_unique<AttentionOperator>(device, first.dtype, first.phase, std::move(variants));
}

}  // namespace

const FitMethod& attention_operator() {
  static const FitMethod method{"operator", fit, read_attention_operator};
  return method;
}

}  // namespace tessera::cost::models
