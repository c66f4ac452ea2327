#include "tessera/quant/quantise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "awq.h"
#include "gptq.h"
#include "rtn.h"
#include "tessera/core/error.h"
#include "tessera/kernels/parallel.h"

namespace tessera::quant {
namespace {

void check_weight(MatrixView weight) {
  if (weight.rows < 1 || weight.columns < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the weight is [{}, {}]; a matrix with rows and columns is needed",
                            weight.rows, weight.columns),
                "weight");
  }
  for (std::int64_t i = 0; i < weight.rows * weight.columns; ++i) {
    if (std::isfinite(weight.data[i])) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("weight [{}, {}] is {}; quantising needs finite weights",
                            i / weight.columns, i % weight.columns, weight.data[i]),
                "weight");
  }
}

void check_inputs(MatrixView weight, Method method, const LinearStatistics* inputs) {
  const bool needed = method == Method::gptq || method == Method::awq;
  if (inputs == nullptr) {
    if (!needed) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("method {} needs calibration: give activations or a statistics file",
                            name_of(method)),
                "statistics");
  }
  if (inputs->in_features() != weight.columns) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the statistics are of {} input features, the weight has {} columns",
                            inputs->in_features(), weight.columns),
                "statistics");
  }
  if (method == Method::gptq && !inputs->hessian) {
    throw Error(
        ErrorCode::invalid_argument,
        "gptq needs the Hessian, which these statistics do not hold: write them with Hessians, "
        "or use awq or rtn",
        "statistics");
  }
}

Quantised awq(MatrixView weight, const Scheme& scheme, const LinearStatistics& inputs,
              int num_threads) {
  const AwqScales found = search_awq_scales({weight}, {scheme}, inputs, num_threads);
  Quantised out = quantise_scaled(weight, found.scales, scheme, num_threads);
  out.method = Method::awq;
  out.output_error = found.error;
  out.rtn_output_error = found.rtn_error;
  return out;
}

// Sums over statistics near the largest numbers overflow, and what was chosen by them is no choice.
void check_error(const Quantised& quantised) {
  for (const auto& error : {quantised.output_error, quantised.rtn_output_error}) {
    if (!error || std::isfinite(*error)) continue;
    throw Error(
        ErrorCode::invalid_argument,
        "the output error of the quantised weights is not finite: the statistics hold numbers "
        "that are too large, collect them again",
        "statistics");
  }
}

Quantised quantise_by(Method method, MatrixView weight, const Scheme& scheme,
                      const LinearStatistics* inputs, int num_threads) {
  if (method == Method::gptq) return gptq(weight, scheme, *inputs, num_threads);
  if (method == Method::awq) return awq(weight, scheme, *inputs, num_threads);
  Quantised out = round_to_nearest(weight, scheme, num_threads);
  out.method = method;
  if (inputs != nullptr) out.output_error = output_error(weight, out, *inputs);
  return out;
}

}  // namespace

Quantised quantise(MatrixView weight, const Scheme& scheme, Method method,
                   const LinearStatistics* inputs, int num_threads) {
  check(scheme);
  check_weight(weight);
  check_inputs(weight, method, inputs);
  if (method == Method::gptq && scheme.rounding != kernels::Rounding::nearest) {
    throw Error(ErrorCode::invalid_argument,
                "gptq rounds to the nearest code; stochastic rounding goes with rtn and awq",
                "rounding");
  }
  if (scheme.act_order != ActOrder::none && method != Method::gptq) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("act_order is an order of GPTQ's columns; method {} has none", name_of(method)),
        "act_order");
  }
  if (num_threads <= 0) num_threads = kernels::hardware_threads();
  Quantised out = quantise_by(method, weight, scheme, inputs, num_threads);
  check_error(out);
  return out;
}

}  // namespace tessera::quant
