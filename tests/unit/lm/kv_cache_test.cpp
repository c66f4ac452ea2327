// What a cache takes of the machine.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "decoders.h"

namespace tessera::lm::kv_cache_test {
namespace {

std::int64_t resident_bytes() {
  std::int64_t mapped = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> mapped >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST(KvCache, HasItsMemoryOnceItIsTouched) {
  constexpr std::int64_t kBytes = 64 << 20;
  for (const std::int32_t kv_bitwidth : {16, 8}) {
    const auto model = load_decoder({.path = decoder_path("llama2"), .kv_bitwidth = kv_bitwidth});
    const std::int64_t block_bytes =
        model->make_cache(1, kBlockTokens)->block_bytes(0, model->shape().num_layers);
    const auto cache = model->make_cache(kBytes / block_bytes, kBlockTokens);
    const std::int64_t before = resident_bytes();
    cache->touch();
    const std::int64_t taken = resident_bytes() - before;
    EXPECT_GT(taken, 0.95 * static_cast<double>(cache->bytes())) << kv_bitwidth;
    EXPECT_LT(taken, 1.05 * static_cast<double>(cache->bytes())) << kv_bitwidth;
  }
}

}  // namespace
}  // namespace tessera::lm::kv_cache_test
