#include <algorithm>
#include <cstdint>

#include "passes.h"
#include "ranges.h"
#include "tessera/indicator/variance.h"

namespace tessera::indicator {
namespace {

using quant::LinearStatistics;
using weights::LinearWeight;

std::vector<double> sums_of(const Source& source, const LinearWeight& linear) {
  const kernels::Rounding rounding = source.request.scheme.rounding;
  if (source.statistics == nullptr) return input_sums({}, linear.in_features, rounding);
  const LinearStatistics found = require_statistics(source, linear, false);
  const auto span = [](const Eigen::VectorXf& v) {
    return std::span<const float>(v.data(), static_cast<std::size_t>(v.size()));
  };
  return input_sums({span(found.mean), span(found.variance)}, linear.in_features, rounding);
}

bool is_ffn(const LinearWeight& linear) {
  return linear.linear.ends_with("gate_proj") || linear.linear.ends_with("up_proj") ||
         linear.linear.ends_with("down_proj");
}

// c V of the published code.
double published_input_term(const Source& source, const LinearWeight& linear) {
  const LinearStatistics found = require_statistics(source, linear, false);
  const auto samples =
      static_cast<double>(std::max<std::int64_t>(source.statistics->num_samples(), 1));
  return (is_ffn(linear) ? 4 : 1) * found.token_variance * static_cast<double>(found.num_tokens) /
         samples;
}

}  // namespace

void add_variance(const Source& source, const Layer& layer, Indicator& result) {
  const WeightsRequest& request = source.request;
  const bool published = request.variant == kPublishedCode;
  quant::Scheme scheme = request.scheme;
  if (published) {
    scheme.symmetric = true;
    scheme.granularity = quant::Granularity::channel;
  }
  std::vector<RangeJob> jobs;
  std::vector<double> published_terms;
  {
    const Stopwatch watch(result.statistics_s);
    for (const LinearWeight& linear : layer) {
      jobs.push_back({&linear, published ? input_sums({}, linear.in_features, scheme.rounding)
                                         : sums_of(source, linear)});
      if (published) published_terms.push_back(published_input_term(source, linear));
    }
  }
  const Stopwatch watch(result.weights_s);
  const std::vector<Ranges> ranges = ranges_of(source.weights, jobs, scheme, source.threads);
  double sum = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const double widest = ranges[i].widest_row;
    sum += published ? widest * widest * published_terms[i] : ranges[i].weighted;
  }
  const StepForm form = request.variant == "llm-pq" ? StepForm::llm_pq : StepForm::splitquant;
  for (const std::int32_t bitwidth : result.bitwidths) {
    const double levels = num_levels(bitwidth, scheme.symmetric, form);
    result.omega.push_back(sum / (levels * levels));
  }
}

}  // namespace tessera::indicator
