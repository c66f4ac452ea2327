#include "rtn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"
#include "tessera/kernels/moments.h"
#include "tessera/kernels/parallel.h"
#include "tessera/kernels/quantise.h"

namespace tessera::quant {
namespace {

constexpr std::int64_t kRtnRows = 64;  // rows

kernels::Matrix as_matrix(MatrixView weight) {
  return {weight.data, kernels::Real::f32, weight.rows, weight.columns, weight.columns};
}

void choose_one_scale(MatrixView weight, Quantised& out) {
  kernels::Moments all{};
  kernels::moments(weight.data, kernels::Real::f32, weight.rows * weight.columns, &all);
  kernels::scale_of_range(all.min, all.max, format_of(out.scheme), out.scales.data(),
                          out.zero_points.data());
}

}  // namespace

void choose_scales(MatrixView weight, int num_threads, Quantised& out) {
  const bool one = out.scheme.granularity == Granularity::tensor;
  const auto count = static_cast<std::size_t>(one ? 1 : weight.rows * out.groups());
  out.scales.resize(count);
  out.zero_points.resize(count);
  if (one) {
    choose_one_scale(weight, out);
  } else {
    kernels::for_slices(num_threads, weight.rows, kRtnRows, [&](std::int64_t i, std::int64_t last) {
      kernels::choose_scales(as_matrix(weight), {i, last}, format_of(out.scheme), out.scales.data(),
                             out.zero_points.data());
    });
  }
  check_scales(out);
}

Quantised round_to_nearest(MatrixView weight, const Scheme& scheme, int num_threads) {
  Quantised out;
  out.rows = weight.rows;
  out.columns = weight.columns;
  out.scheme = scheme;
  out.scheme.act_order = ActOrder::none;
  choose_scales(weight, num_threads, out);
  out.codes.resize(static_cast<std::size_t>(weight.rows * weight.columns));
  const bool one = scheme.granularity == Granularity::tensor;
  // The kernels want a scale per row.
  const std::vector<float> scales =
      one ? std::vector<float>(static_cast<std::size_t>(weight.rows), out.scales[0]) : out.scales;
  const std::vector<std::uint8_t> zero_points =
      one ? std::vector<std::uint8_t>(static_cast<std::size_t>(weight.rows), out.zero_points[0])
          : out.zero_points;
  kernels::for_slices(num_threads, weight.rows, kRtnRows, [&](std::int64_t i, std::int64_t last) {
    kernels::quantise(as_matrix(weight), {i, last}, format_of(scheme), scales.data(),
                      zero_points.data(), scheme.rounding, scheme.seed, out.codes.data());
  });
  return out;
}

void round_rows(const kernels::Matrix& rows, const Scheme& scheme, Quantised& out) {
  out.rows = rows.rows;
  out.columns = rows.columns;
  out.scheme = scheme;
  out.scheme.act_order = ActOrder::none;
  const auto groups = static_cast<std::size_t>(rows.rows * out.groups());
  out.scales.resize(groups);
  out.zero_points.resize(groups);
  out.codes.resize(static_cast<std::size_t>(rows.rows * rows.columns));
  const kernels::Rows all{0, rows.rows};
  kernels::choose_scales(rows, all, format_of(scheme), out.scales.data(), out.zero_points.data());
  check_scales(out);
  kernels::quantise(rows, all, format_of(scheme), out.scales.data(), out.zero_points.data(),
                    scheme.rounding, scheme.seed, out.codes.data());
}

void check_scales(const Quantised& quantised) {
  // Of weights near the largest float, the largest code would stand for infinity.
  const float codes = std::ldexp(1.0F, quantised.scheme.bitwidth);
  const auto bad = std::find_if_not(quantised.scales.begin(), quantised.scales.end(),
                                    [&](float scale) { return std::isfinite(scale * codes); });
  if (bad == quantised.scales.end()) return;
  const char* why = std::isfinite(*bad) ? "makes numbers beyond what a float holds"
                                        : "does not fit the 16 bits it is stored in";
  throw Error(ErrorCode::invalid_argument,
              fmt::format("a scale of row {} {}; its weights are too large for {} bits",
                          (bad - quantised.scales.begin()) / quantised.groups(), why,
                          quantised.scheme.bitwidth));
}

}  // namespace tessera::quant
