// Packing is exact and quantisation stays within half a step, whatever the shape and the values.
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tessera/kernels/pack.h"
#include "tessera/kernels/quantise.h"

namespace tessera::kernels::kernels_property_test {
namespace {

const auto bitwidths = rc::gen::element(3, 4, 8);

RC_GTEST_PROP(KernelsProperty, UnpackUndoesPack, ()) {
  const int bitwidth = *bitwidths;
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 6);
  const auto columns = *rc::gen::inRange<std::int64_t>(1, 200);
  const auto codes = *rc::gen::container<std::vector<std::uint8_t>>(
      static_cast<std::size_t>(rows * columns),
      rc::gen::map(rc::gen::inRange(0, 1 << bitwidth),
                   [](int code) { return static_cast<std::uint8_t>(code); }));
  std::vector<std::uint8_t> back(codes.size());
  std::vector<std::uint8_t> packed(
      static_cast<std::size_t>(rows * packed_row_bytes(columns, bitwidth)));
  RC_ASSERT(pack(codes.data(), {0, rows}, columns, bitwidth, packed.data()) == Status::ok);
  RC_ASSERT(unpack(packed.data(), {0, rows}, columns, bitwidth, back.data()) == Status::ok);
  RC_ASSERT(back == codes);
}

RC_GTEST_PROP(KernelsProperty, DequantisedValuesAreWithinHalfAStep, ()) {
  const QuantFormat format{*bitwidths, *rc::gen::arbitrary<bool>(),
                           *rc::gen::inRange<std::int64_t>(0, 70),
                           *rc::gen::element(Real::f32, Real::f16, Real::bf16)};
  const auto columns = *rc::gen::inRange<std::int64_t>(1, 150);
  const auto x = *rc::gen::container<std::vector<float>>(
      static_cast<std::size_t>(columns),
      rc::gen::map(rc::gen::inRange(-1000000, 1000000),
                   [](int i) { return static_cast<float>(i) * 1e-3f; }));
  const Matrix matrix{x.data(), Real::f32, 1, columns, columns};
  const auto groups = static_cast<std::size_t>(num_groups(columns, format.group_size));
  std::vector<float> scale(groups), back(x.size());
  std::vector<std::uint8_t> zero_point(groups), codes(x.size());
  RC_ASSERT(choose_scales(matrix, {0, 1}, format, scale.data(), zero_point.data()) == Status::ok);
  RC_ASSERT(quantise(matrix, {0, 1}, format, scale.data(), zero_point.data(), Rounding::nearest, 0,
                     codes.data()) == Status::ok);
  RC_ASSERT(dequantise(codes.data(), {0, 1}, columns, format, scale.data(), zero_point.data(),
                       back.data()) == Status::ok);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t group =
        format.group_size == 0 ? 0 : i / static_cast<std::size_t>(format.group_size);
    const double error = std::fabs(double{back[i]} - double{x[i]});
    RC_ASSERT(error <= scale[group] / 2.0 + 2e-7 * std::fabs(double{x[i]}));
  }
}

}  // namespace
}  // namespace tessera::kernels::kernels_property_test
