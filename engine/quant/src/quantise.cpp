#include "tessera/quant/quantise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "awq.h"
#include "gptq.h"
#include "rtn.h"
#include "tessera/core/error.h"
#include "tessera/kernels/moments.h"
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
  for (std::int64_t r = 0; r < weight.rows; ++r) {
    kernels::Range range{};
    kernels::group_ranges({weight.row(r), kernels::Real::f32, 1, weight.columns, weight.columns},
                          {0, 1}, 0, &range);
    if (std::isfinite(range.min)) continue;
    const float* bad = std::find_if_not(weight.row(r), weight.row(r + 1),
                                        [](float value) { return std::isfinite(value); });
    throw Error(ErrorCode::invalid_argument,
                fmt::format("weight [{}, {}] is {}; quantising needs finite weights", r,
                            bad - weight.row(r), *bad),
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

// `error` and `rtn_error` are of all matrices together: of one, they are its own.
std::vector<Quantised> awq(const std::vector<MatrixView>& weights, const Scheme& scheme,
                           const LinearStatistics& inputs, int num_threads) {
  const std::vector<Scheme> schemes(weights.size(), scheme);
  const AwqScales found = search_awq_scales(weights, schemes, inputs, num_threads);
  std::vector<Quantised> all;
  for (const MatrixView& weight : weights) {
    Quantised out = quantise_scaled(weight, found.scales, scheme, num_threads);
    out.method = Method::awq;
    if (weights.size() == 1) {
      out.output_error = found.error;
      out.rtn_output_error = found.rtn_error;
    } else {
      out.output_error = output_error(weight, out, inputs);
    }
    all.push_back(std::move(out));
  }
  return all;
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

Quantised quantise_alone(Method method, MatrixView weight, const Scheme& scheme,
                         const LinearStatistics* inputs, int num_threads) {
  if (method == Method::gptq) return gptq(weight, scheme, *inputs, num_threads);
  Quantised out = round_to_nearest(weight, scheme, num_threads);
  out.method = method;
  if (inputs != nullptr) out.output_error = output_error(weight, out, *inputs);
  return out;
}

void check_method(const Scheme& scheme, Method method) {
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
}

}  // namespace

Quantised quantise(MatrixView weight, const Scheme& scheme, Method method,
                   const LinearStatistics* inputs, int num_threads) {
  return std::move(quantise(std::vector{weight}, scheme, method, inputs, num_threads).front());
}

std::vector<Quantised> quantise(const std::vector<MatrixView>& weights, const Scheme& scheme,
                                Method method, const LinearStatistics* inputs, int num_threads) {
  check(scheme);
  for (const MatrixView& weight : weights) {
    check_weight(weight);
    check_inputs(weight, method, inputs);
  }
  check_method(scheme, method);
  if (num_threads <= 0) num_threads = kernels::hardware_threads();
  std::vector<Quantised> all;
  if (method == Method::awq) {
    all = awq(weights, scheme, *inputs, num_threads);
  } else {
    for (const MatrixView& weight : weights)
      all.push_back(quantise_alone(method, weight, scheme, inputs, num_threads));
  }
  for (const Quantised& one : all) check_error(one);
  return all;
}

}  // namespace tessera::quant
