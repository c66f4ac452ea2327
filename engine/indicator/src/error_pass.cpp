#include <cstdint>

#include "hessian.h"
#include "passes.h"
#include "tessera/quant/quantise.h"

namespace tessera::indicator {
namespace {

using quant::LinearStatistics;
using weights::LinearWeight;

// What one operator adds, and the seconds that a thread spent on it.
struct OperatorErrors {
  std::vector<double> omega;  ///< per bitwidth
  double weights_s = 0, statistics_s = 0;
};

bool is_published_hessian(const WeightsRequest& request) {
  return request.kind == "hessian" && request.variant == kPublishedCode;
}

// What the statistics say of an operator for all bitwidths alike.
double factor_of(const WeightsRequest& request, const LinearStatistics& inputs) {
  if (request.kind != "hessian") return 1;
  return is_published_hessian(request) ? top_eigenvalue_of_inverse_factor(*inputs.hessian)
                                       : top_eigenvalue(*inputs.hessian);
}

double error_of(const WeightsRequest& request, quant::MatrixView weight, std::int32_t bitwidth,
                const LinearStatistics& inputs) {
  if (bitwidth == 16) return 0;  // the weights stay as they are
  quant::Scheme scheme = request.scheme;
  scheme.bitwidth = bitwidth;
  const bool gptq = request.kind == "gptq_error" || is_published_hessian(request);
  if (request.kind == "hessian" && !gptq) {
    const quant::Quantised quantised =
        quant::quantise(weight, scheme, quant::Method::rtn, nullptr, 1);
    return quant::weight_error(weight, quantised).mse *
           static_cast<double>(weight.rows * weight.columns);
  }
  const quant::Quantised quantised =
      quant::quantise(weight, scheme, gptq ? quant::Method::gptq : quant::Method::rtn, &inputs, 1);
  return quantised.output_error ? *quantised.output_error
                                : quant::output_error(weight, quantised, inputs);
}

OperatorErrors errors_of(const Source& source, const LinearWeight& linear,
                         const std::vector<std::int32_t>& bitwidths) {
  OperatorErrors part;
  LinearStatistics inputs;
  double factor = 1;
  {
    const Stopwatch watch(part.statistics_s);
    inputs = require_statistics(source, linear, true);
    factor = factor_of(source.request, inputs);
  }
  const Stopwatch watch(part.weights_s);
  std::vector<float> weight(static_cast<std::size_t>(linear.parameters()));
  weights::read_linear_f32(source.weights, linear, weight);
  const quant::MatrixView view{weight.data(), linear.num_rows, linear.in_features};
  for (const std::int32_t bitwidth : bitwidths) {
    part.omega.push_back(factor * error_of(source.request, view, bitwidth, inputs));
  }
  return part;
}

}  // namespace

void add_errors(const Source& source, const Layer& layer, Indicator& result) {
  std::vector<OperatorErrors> parts(layer.size());
  double wall_s = 0;
  {
    const Stopwatch watch(wall_s);
    source.threads.run(layer.size(), [&](std::size_t, std::size_t i) {
      parts[i] = errors_of(source, layer[i], result.bitwidths);
    });
  }
  OperatorErrors sum;
  sum.omega.resize(result.bitwidths.size());
  for (const OperatorErrors& part : parts) {
    for (std::size_t b = 0; b < sum.omega.size(); ++b) sum.omega[b] += part.omega[b];
    sum.weights_s += part.weights_s;
    sum.statistics_s += part.statistics_s;
  }
  result.omega.insert(result.omega.end(), sum.omega.begin(), sum.omega.end());
  // Threads do both at once: the time that passed is shared out as theirs was.
  const double share = sum.statistics_s / (sum.statistics_s + sum.weights_s);
  result.statistics_s += share * wall_s;
  result.weights_s += (1 - share) * wall_s;
}

}  // namespace tessera::indicator
