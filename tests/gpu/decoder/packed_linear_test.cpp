// Products of quantised matrices by the CUDA kernels, as a decoder has them, against the CPU's of
// the very same codes.
#include "packed_linear.h"

#include <cmath>

#include "../../unit/linear/products.h"
#include "../gpu_support.h"
#include "target.h"

namespace tessera::lm::packed_linear_test {
namespace {

using namespace linear;  // the products that its tests compare
using kernels::Real;
using test::random_matrix;

template <class F>
void on_devices(F&& f) {
  kernels::test::for_each_device(
      [&](const kernels::cuda::Device& device) { f(std::make_shared<TestDevice>(device)); });
}

/// The product by device memory; rows of activations and outputs are longer than they need to be.
RowMatrix product_on(const TestDevice& device, const Linear& linear, const RowMatrix& x) {
  constexpr float kUntouched = -12345;
  constexpr std::int64_t kGap = 3;
  RowMatrix wide = RowMatrix::Constant(x.rows(), x.cols() + kGap, std::nanf(""));
  wide.leftCols(x.cols()) = x;
  RowMatrix out = RowMatrix::Constant(x.rows(), linear.out_features() + kGap, kUntouched);
  const Memory in = device.allocate(wide.size() * 4), result = device.allocate(out.size() * 4);
  device.upload(wide.data(), wide.size() * 4, in.get());
  device.upload(out.data(), out.size() * 4, result.get());
  linear.apply(static_cast<const float*>(in.get()), wide.cols(), x.rows(),
               static_cast<float*>(result.get()), out.cols(), 1);
  device.download(result.get(), out.size() * 4, out.data());
  EXPECT_TRUE((out.rightCols(kGap).array() == kUntouched).all());
  return out.leftCols(linear.out_features());
}

float rounded(float value, Real type) {
  if (type == Real::f32) return value;
  return type == Real::f16 ? kernels::f16_to_f32(kernels::f32_to_f16(value))
                           : kernels::bf16_to_f32(kernels::f32_to_bf16(value));
}

double nmse(const RowMatrix& found, const RowMatrix& expected) {
  return (found - expected).cast<double>().squaredNorm() / expected.cast<double>().squaredNorm();
}

LinearForm form_of(int bitwidth, std::int64_t group_size, bool symmetric) {
  LinearForm form;
  form.bitwidth = bitwidth;
  form.scheme.symmetric = symmetric;
  form.scheme.granularity =
      group_size == 0 ? quant::Granularity::channel : quant::Granularity::group;
  if (group_size != 0) form.scheme.group_size = static_cast<std::int32_t>(group_size);
  return form;
}

/// Half the distance of neighbours at 1: what rounding moves a number by, at most, relatively.
double half_step(Real type) { return type == Real::f16 ? 0x1p-11 : 0x1p-8; }

// Bounds of the squared error over the squared result. Of rounding: a number between 1 and 2 is
// off by a uniform draw from [-h, h], so a seventh of h^2 on the whole, never above h^2. Of the
// sums: 5e-8 with tensor cores (kernels/cuda/README.md), else that of f32.
void expect_product(const TestDevice& device, const Linear& cpu, const Linear& packed,
                    const RowMatrix& x, Real type) {
  const RowMatrix found = product_on(device, packed, x);
  const RowMatrix near = x.unaryExpr([&](float value) { return rounded(value, type); });
  const bool tensor_cores = device.properties().compute_capability >= 70 && type != Real::f32;
  EXPECT_LE(nmse(found, product(cpu, near)), tensor_cores ? 5e-8 : 1e-11);
  const double lost = nmse(found, product(cpu, x));
  if (type == Real::f32) {
    EXPECT_LE(lost, 1e-11);
    return;
  }
  const double h = half_step(type);
  EXPECT_LE(lost, h * h);
  EXPECT_GE(lost, h * h / 40) << "activations that should have been rounded were not";
}

TEST(PackedLinear, IsTheCpusProductOfTheSameCodes) {
  on_devices([](const std::shared_ptr<TestDevice>& device) {
    Rng rng(kernels::test::gpu_seed());
    const RowMatrix weight = random_matrix(72, 288, rng);
    for (const int bitwidth : {3, 4, 8}) {
      for (const std::int64_t group_size : {32, 64, 128, 0}) {
        const bool symmetric = (bitwidth + group_size / 32) % 2 == 0;
        const auto cpu = make(weight, form_of(bitwidth, group_size, symmetric));
        for (const Real type : {Real::f16, Real::bf16, Real::f32}) {
          std::string why;
          const auto packed = make_packed_linear(*cpu, type, device, why);
          if (type == Real::bf16 && device->properties().compute_capability < 80) {
            EXPECT_EQ(packed, nullptr);
            EXPECT_NE(why.find("need sm_80"), std::string::npos) << why;
            continue;
          }
          ASSERT_NE(packed, nullptr) << why;
          SCOPED_TRACE(packed->describe());
          EXPECT_EQ(values_of(*packed), values_of(*cpu));
          for (const std::int64_t tokens : {1, 7, 65})
            expect_product(*device, *cpu, *packed, random_matrix(tokens, 288, rng), type);
        }
      }
    }
  });
}

TEST(PackedLinear, TakesTheBytesOfItsCodes) {
  on_devices([](const std::shared_ptr<TestDevice>& device) {
    Rng rng(kernels::test::gpu_seed());
    const auto cpu = make(random_matrix(64, 256, rng), form_of(4, 128, true));
    std::string why;
    const auto packed = make_packed_linear(*cpu, Real::f16, device, why);
    ASSERT_NE(packed, nullptr) << why;
    EXPECT_EQ(packed->bytes(), 64 * 256 / 2 + 64 * 2 * 2);
    EXPECT_EQ(packed->describe(), "4-bit rtn, group 128, f16 activations, CUDA kernels");
  });
}

TEST(PackedLinear, DividesByTheScalesOfAwq) {
  on_devices([](const std::shared_ptr<TestDevice>& device) {
    Rng rng(kernels::test::gpu_seed());
    const RowMatrix weight = random_matrix(64, 128, rng);
    const RowMatrix x = test::random_inputs(65, 128, rng);
    const quant::LinearStatistics inputs = test::statistics_of(x);
    LinearForm form = form_of(4, 32, false);
    form.method = quant::Method::awq;
    const auto cpu = make(weight, form, &inputs);
    ASSERT_FALSE(cpu->codes()->input_scales.empty());
    std::string why;
    for (const Real type : {Real::f32, Real::f16}) {
      const auto packed = make_packed_linear(*cpu, type, device, why);
      ASSERT_NE(packed, nullptr) << why;
      EXPECT_EQ(values_of(*packed), values_of(*cpu));
      const double lost = nmse(product_on(*device, *packed, x), product(*cpu, x));
      EXPECT_LE(lost, type == Real::f32 ? 1e-11 : 0x1p-22);
      EXPECT_GE(lost, type == Real::f32 ? 0 : 0x1p-22 / 40);
    }
  });
}

// Activations with columns that are far larger than the others, as models have them.
RowMatrix with_outliers(RowMatrix x) {
  for (std::int64_t j = 5; j < x.cols(); j += 97) x.col(j) *= 12;
  return x;
}

TEST(PackedLinear, W8A8IsTheCpus) {
  on_devices([](const std::shared_ptr<TestDevice>& device) {
    Rng rng(kernels::test::gpu_seed());
    const RowMatrix weight = random_matrix(80, 300, rng);
    std::string why;
    for (const double threshold : {0.0, 6.0}) {
      const auto cpu = make(weight, int8(threshold));
      const auto packed = make_packed_linear(*cpu, Real::f16, device, why);
      ASSERT_NE(packed, nullptr) << why;
      EXPECT_EQ(values_of(*packed), values_of(*cpu));
      EXPECT_EQ(packed->bytes(), 80 * 300 + 80 * 4);
      for (const std::int64_t tokens : {1, 7, 65}) {
        const RowMatrix calm = random_matrix(tokens, 300, rng), wild = with_outliers(calm);
        EXPECT_LE(nmse(product_on(*device, *packed, calm), product(*cpu, calm)), 1e-12);
        EXPECT_LE(nmse(product_on(*device, *packed, wild), product(*cpu, wild)), 1e-12);
      }
    }
  });
}

// What outliers apart are for: the codes of the others keep their steps.
TEST(PackedLinear, W8A8LosesLessWithOutliersApart) {
  on_devices([](const std::shared_ptr<TestDevice>& device) {
    Rng rng(kernels::test::gpu_seed());
    const RowMatrix weight = random_matrix(80, 300, rng);
    const RowMatrix x = with_outliers(random_matrix(7, 300, rng));
    std::string why;
    const auto lost = [&](double threshold) {
      const auto cpu = make(weight, int8(threshold));
      const auto packed = make_packed_linear(*cpu, Real::f32, device, why);
      return linear::nmse(product_on(*device, *packed, x), x, values_of(*cpu));
    };
    const double together = lost(0), apart = lost(6);
    EXPECT_LT(apart, together / 4);
    EXPECT_GT(apart, 1e-9);  // the rest is rounded all the same
  });
}

TEST(PackedLinear, W8A8OfATokenDoesNotDependOnTheOthers) {
  on_devices([](const std::shared_ptr<TestDevice>& device) {
    Rng rng(kernels::test::gpu_seed());
    const auto cpu = make(random_matrix(48, 160, rng), int8(3));
    std::string why;
    const auto packed = make_packed_linear(*cpu, Real::f32, device, why);
    const RowMatrix x = random_matrix(9, 160, rng), all = product_on(*device, *packed, x);
    for (std::int64_t t = 0; t < x.rows(); ++t)
      EXPECT_EQ(product_on(*device, *packed, x.row(t)), all.row(t)) << "token " << t;
  });
}

TEST(PackedLinear, SaysWhatTheKernelsDoNotTake) {
  on_devices([](const std::shared_ptr<TestDevice>& device) {
    Rng rng(kernels::test::gpu_seed());
    const RowMatrix weight = random_matrix(32, 96, rng);
    std::string why;
    EXPECT_EQ(make_packed_linear(*make(weight, form_of(4, 24, true)), Real::f16, device, why),
              nullptr);
    EXPECT_NE(why.find("multiple of 32 columns"), std::string::npos) << why;
    EXPECT_EQ(make_packed_linear(*make(weight, dense(Real::bf16)), Real::f16, device, why),
              nullptr);
    EXPECT_EQ(why, "");
    EXPECT_EQ(device->launches, 0);
  });
}

}  // namespace
}  // namespace tessera::lm::packed_linear_test
