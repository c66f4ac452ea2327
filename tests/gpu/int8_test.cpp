#include "tessera/kernels/cuda/int8.h"

#include "gpu_support.h"

namespace tessera::kernels::test::int8_test {
namespace {

std::vector<std::int8_t> random_codes(std::int64_t count, std::mt19937_64& random) {
  std::vector<std::int8_t> codes;
  for (std::int64_t i = 0; i < count; ++i)
    codes.push_back(static_cast<std::int8_t>(uniform(random, -127, 127)));
  return codes;
}

std::vector<float> random_scales(std::int64_t count, std::mt19937_64& random) {
  std::vector<float> scales;
  for (std::int64_t i = 0; i < count; ++i)
    scales.push_back(static_cast<float>(uniform(random, 1, 1000)) * 1e-4f);
  return scales;
}

TEST(CudaInt8, GemmMatchesTheReference) {
  for_each_device([](const cuda::Device& device) {
    std::mt19937_64 random(gpu_seed());
    for (const std::int64_t tokens : {1, 7, 16, 65, 200}) {
      const std::int64_t rows = uniform(random, 1, 200);
      const std::int64_t columns =
          uniform(random, 0, 1) == 0 ? 16 * uniform(random, 1, 20) : uniform(random, 1, 300);
      SCOPED_TRACE(std::to_string(tokens) + " x " + std::to_string(rows) + " x " +
                   std::to_string(columns));
      const auto codes = random_codes(tokens * columns, random),
                 weights = random_codes(rows * columns, random);
      const auto token_scale = random_scales(tokens, random),
                 row_scale = random_scales(rows, random);
      const DeviceArray<std::int8_t> device_codes(codes), device_weights(weights);
      const DeviceArray<float> device_token_scale(token_scale), device_row_scale(row_scale);
      DeviceArray<float> out(tokens * rows);
      ASSERT_EQ(cuda::int8_gemm(device, device_codes.data(), device_token_scale.data(), tokens,
                                {rows, columns, device_weights.data(), device_row_scale.data()},
                                out.data(), rows, nullptr),
                Status::ok);
      ASSERT_EQ(device_synchronise(), "");
      std::vector<double> expected;
      for (std::int64_t token = 0; token < tokens; ++token)
        for (std::int64_t row = 0; row < rows; ++row) {
          std::int64_t sum = 0;
          for (std::int64_t k = 0; k < columns; ++k)
            sum += codes[static_cast<std::size_t>(token * columns + k)] *
                   weights[static_cast<std::size_t>(row * columns + k)];
          expected.push_back(static_cast<double>(sum) *
                             double{token_scale[static_cast<std::size_t>(token)]} *
                             row_scale[static_cast<std::size_t>(row)]);
        }
      EXPECT_LE(nmse(out.download(), expected), 1e-13);
      EXPECT_EQ(out.num_touched(), 0);
    }
  });
}

TEST(CudaInt8, OutliersAndRowsAreTheCpus) {
  for_each_device([](const cuda::Device&) {
    std::mt19937_64 random(gpu_seed() + 1);
    for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
      const std::int64_t tokens = uniform(random, 1, 40), columns = uniform(random, 1, 600),
                         rows = 70;
      const RandomMatrix x(type, tokens, columns, columns + 3, random),
          w(type, rows, columns, columns, random);
      const Matrix host = x.on(x.bytes.data());
      std::vector<std::uint8_t> is_outlier(static_cast<std::size_t>(columns));
      std::int64_t num_outliers = 0;
      ASSERT_EQ(find_outlier_columns(host, 2.5f, is_outlier.data(), &num_outliers), Status::ok);
      std::vector<std::int8_t> codes(static_cast<std::size_t>(tokens * columns));
      std::vector<float> scale(static_cast<std::size_t>(tokens));
      ASSERT_EQ(quantise_rows(host, {0, tokens}, is_outlier.data(), codes.data(), scale.data()),
                Status::ok);
      std::vector<double> expected;
      for (std::int64_t token = 0; token < tokens; ++token)
        for (std::int64_t row = 0; row < rows; ++row) {
          double sum = 1;
          for (std::int64_t k = 0; k < columns; ++k)
            if (is_outlier[static_cast<std::size_t>(k)] != 0)
              sum += double{x.at(token, k)} * w.at(row, k);
          expected.push_back(sum);
        }

      const DeviceArray<unsigned char> data(x.bytes), weights(w.bytes);
      DeviceArray<std::uint8_t> got_outlier(columns);
      DeviceArray<std::int64_t> got_count(1);
      DeviceArray<std::int8_t> got_codes(tokens * columns);
      DeviceArray<float> got_scale(tokens);
      DeviceArray<unsigned char> workspace(cuda::outlier_workspace_bytes(columns));
      DeviceArray<float> out(std::vector<float>(static_cast<std::size_t>(tokens * rows), 1.0f));
      ASSERT_EQ(cuda::find_outlier_columns(x.on(data.data()), 2.5f, got_outlier.data(),
                                           got_count.data(), nullptr),
                Status::ok);
      ASSERT_EQ(cuda::quantise_rows(x.on(data.data()), got_outlier.data(), got_codes.data(),
                                    got_scale.data(), nullptr),
                Status::ok);
      ASSERT_EQ(
          cuda::add_outlier_product(x.on(data.data()), got_outlier.data(), w.on(weights.data()),
                                    out.data(), rows, workspace.data(), nullptr),
          Status::ok);
      ASSERT_EQ(device_synchronise(), "");
      EXPECT_EQ(got_outlier.download(), is_outlier);
      EXPECT_EQ(got_count.download()[0], num_outliers);
      EXPECT_EQ(got_codes.download(), codes);
      EXPECT_EQ(got_scale.download(), scale);
      EXPECT_LE(nmse(out.download(), expected), 1e-11);
      EXPECT_EQ(out.num_touched() + workspace.num_touched() + got_codes.num_touched() +
                    got_outlier.num_touched(),
                0);
    }
  });
}

// Every token as if it were alone, by the CPU's functions for columns.
TEST(CudaInt8, OutliersTokenByToken) {
  for_each_device([](const cuda::Device&) {
    std::mt19937_64 random(gpu_seed() + 2);
    for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
      const std::int64_t tokens = uniform(random, 2, 40), columns = uniform(random, 1, 600),
                         rows = 300;
      const float threshold = 2.5f;
      const RandomMatrix x(type, tokens, columns, columns + 3, random);
      const auto weights = random_codes(rows * columns, random);
      const auto row_scale = random_scales(rows, random);
      std::vector<std::uint8_t> is_outlier(static_cast<std::size_t>(columns));
      std::vector<std::int8_t> codes(static_cast<std::size_t>(tokens * columns));
      std::vector<float> scale(static_cast<std::size_t>(tokens));
      std::vector<double> expected;
      for (std::int64_t token = 0; token < tokens; ++token) {
        for (std::int64_t k = 0; k < columns; ++k)
          is_outlier[static_cast<std::size_t>(k)] = std::abs(x.at(token, k)) >= threshold ? 1 : 0;
        ASSERT_EQ(quantise_rows(x.on(x.bytes.data()), {token, token + 1}, is_outlier.data(),
                                codes.data(), scale.data()),
                  Status::ok);
        for (std::int64_t row = 0; row < rows; ++row) {
          double sum = 0;
          for (std::int64_t k = 0; k < columns; ++k)
            if (is_outlier[static_cast<std::size_t>(k)] != 0)
              sum += double{x.at(token, k)} * weights[static_cast<std::size_t>(row * columns + k)];
          expected.push_back(1 + sum * row_scale[static_cast<std::size_t>(row)]);
        }
      }

      const DeviceArray<unsigned char> data(x.bytes);
      const DeviceArray<std::int8_t> device_weights(weights);
      const DeviceArray<float> device_row_scale(row_scale);
      DeviceArray<std::int8_t> got_codes(tokens * columns);
      DeviceArray<float> got_scale(tokens);
      DeviceArray<unsigned char> workspace(cuda::token_outliers_workspace_bytes(tokens, columns));
      DeviceArray<float> out(std::vector<float>(static_cast<std::size_t>(tokens * rows), 1.0f));
      const Matrix on_device = x.on(data.data());
      ASSERT_EQ(
          cuda::quantise_tokens(on_device, threshold, got_codes.data(), got_scale.data(), nullptr),
          Status::ok);
      ASSERT_EQ(
          cuda::add_token_outliers(on_device, threshold,
                                   {rows, columns, device_weights.data(), device_row_scale.data()},
                                   out.data(), rows, workspace.data(), nullptr),
          Status::ok);
      ASSERT_EQ(device_synchronise(), "");
      EXPECT_EQ(got_codes.download(), codes);
      EXPECT_EQ(got_scale.download(), scale);
      EXPECT_LE(nmse(out.download(), expected), 1e-11);
      EXPECT_EQ(out.num_touched() + workspace.num_touched() + got_codes.num_touched() +
                    got_scale.num_touched(),
                0);
    }
  });
}

TEST(CudaInt8, AnInfiniteActivationIsAnOutlierAndATokenWithoutAnyStaysAsItIs) {
  for_each_device([](const cuda::Device&) {
    const DeviceArray<float> x(std::vector<float>{INFINITY, 1, -2, 3, 2, 1});
    const DeviceArray<std::int8_t> weights(std::vector<std::int8_t>{1, 1, 1});
    const DeviceArray<float> row_scale(std::vector<float>{1});
    DeviceArray<std::int8_t> codes(6);
    DeviceArray<float> scale(2), out(std::vector<float>{5, 5});
    DeviceArray<unsigned char> workspace(cuda::token_outliers_workspace_bytes(2, 3));
    const Matrix tokens{x.data(), Real::f32, 2, 3, 3};
    const cuda::Int8Weights matrix{1, 3, weights.data(), row_scale.data()};
    ASSERT_EQ(cuda::quantise_tokens(tokens, 6, codes.data(), scale.data(), nullptr), Status::ok);
    ASSERT_EQ(cuda::add_token_outliers(tokens, 6, matrix, out.data(), 1, workspace.data(), nullptr),
              Status::ok);
    ASSERT_EQ(device_synchronise(), "");
    EXPECT_EQ(codes.download(), (std::vector<std::int8_t>{0, 64, -127, 127, 85, 42}));
    EXPECT_EQ(scale.download(), (std::vector<float>{2.0f / 127, 3.0f / 127}));
    EXPECT_EQ(out.download(), (std::vector<float>{INFINITY, 5}));
  });
}

TEST(CudaInt8, RefusesWhatItCannotDo) {
  const float one = 1;
  const std::int8_t code = 1;
  std::int8_t codes[1];
  float out[1];
  std::int64_t workspace[1];
  const Matrix x{&one, Real::f32, 1, 1, 1};
  const cuda::Int8Weights weights{1, 1, &code, &one};
  EXPECT_EQ(cuda::quantise_tokens(x, -1, codes, out, nullptr), Status::invalid_argument);
  EXPECT_EQ(cuda::quantise_tokens(x, std::nanf(""), codes, out, nullptr), Status::invalid_argument);
  EXPECT_EQ(cuda::add_token_outliers(x, 0, weights, out, 1, workspace, nullptr),
            Status::invalid_argument);
  EXPECT_EQ(cuda::add_token_outliers(x, 6, {1, 2, &code, &one}, out, 1, workspace, nullptr),
            Status::invalid_argument);
  // One more column than 32 bits can sum, here as on the CPU.
  const std::int64_t columns = kMaxInt8Columns + 1;
  EXPECT_EQ(cuda::int8_gemm({80, 1}, &code, &one, 1, {1, columns, &code, &one}, out, 1, nullptr),
            Status::unsupported);
  alignas(64) const std::int8_t packed[64] = {};
  EXPECT_EQ(int8_gemm(&code, &one, 1, {1, columns, packed, &one}, {0, 1}, out, 1),
            Status::unsupported);
}

TEST(CudaInt8, ARowOfZerosAndARowWithNaN) {
  for_each_device([](const cuda::Device&) {
    std::vector<float> values(80, 0.0f);
    values[50] = std::nanf("");
    const DeviceArray<float> data(values);
    DeviceArray<std::int8_t> codes(80);
    DeviceArray<float> scale(2);
    ASSERT_EQ(cuda::quantise_rows({data.data(), Real::f32, 2, 40, 40}, nullptr, codes.data(),
                                  scale.data(), nullptr),
              Status::ok);
    ASSERT_EQ(device_synchronise(), "");
    EXPECT_EQ(scale.download()[0], 1.0f);
    EXPECT_TRUE(std::isnan(scale.download()[1]));
  });
}

}  // namespace
}  // namespace tessera::kernels::test::int8_test
