// Where weights lie: many matrices take what they need, and give it back.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <vector>

#include "products.h"

namespace tessera::linear::weight_memory_test {
namespace {

std::int64_t resident_bytes() {
  std::int64_t mapped = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> mapped >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST(WeightMemory, IsWhatMatricesNeedAndIsGivenBack) {
  constexpr std::int64_t kRows = 512, kColumns = 512, kMatrices = 64;  // of 1 MiB in f32
  constexpr std::int64_t kMiB = 1 << 20;
  const std::vector<float> values(kRows * kColumns, 0.5f);
  const auto make = [&] { return make_linear(values, kRows, kColumns, {}, nullptr, 1); };
  std::vector<float> x(kColumns, 1.0f), out(kRows);
  make()->apply(x.data(), kColumns, 1, out.data(), kRows, 1);
  const std::int64_t before = resident_bytes();
  std::vector<std::unique_ptr<Linear>> all;
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < kMatrices; ++i) bytes += all.emplace_back(make())->bytes();
  EXPECT_GT(resident_bytes() - before, bytes * 95 / 100);
  EXPECT_LT(resident_bytes() - before, bytes + 6 * kMiB);
  // Every other one gone: those that stay are what they were.
  for (std::size_t i = 0; i < all.size(); i += 2) all[i].reset();
  for (std::size_t i = 1; i < all.size(); i += 2) {
    all[i]->apply(x.data(), kColumns, 1, out.data(), kRows, 1);
    EXPECT_EQ(out, std::vector<float>(kRows, 256.0f));
  }
  all.clear();
  EXPECT_LT(resident_bytes() - before, 2 * kMiB);
}

}  // namespace
}  // namespace tessera::linear::weight_memory_test
