// What a cache takes of the machine.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <stop_token>
#include <vector>

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

TEST(KvCache, KeepsWhatIsInItAndStopsWhenToldTo) {
  const auto model = load_decoder({.path = decoder_path("llama2")});
  const std::int64_t layers = model->shape().num_layers;
  const std::int64_t block_bytes = model->make_cache(1, kBlockTokens)->block_bytes(0, layers);
  const auto cache = model->make_cache((160 << 20) / block_bytes, kBlockTokens);
  std::vector<std::byte> in(static_cast<std::size_t>(3 * block_bytes)), out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(1 + i % 251);
  const std::int32_t last = static_cast<std::int32_t>(cache->num_blocks()) - 1;
  const std::vector<std::int32_t> blocks{0, 7, last};
  cache->write(blocks, 0, layers, in);
  std::stop_source stop;
  stop.request_stop();
  const std::int64_t before = resident_bytes();
  cache->touch(stop.get_token());
  EXPECT_LT(resident_bytes() - before, 4 << 20);  // most of it comes untouched, some is reused
  cache->touch();
  cache->read(blocks, 0, layers, out);
  EXPECT_EQ(in, out);
}

// What a server divides the machine's memory by.
TEST(KvCache, TakesWhatTheModelSaysOfABlock) {
  for (const char* name : {"llama2", "qwen3_next", "granitemoehybrid", "gemma3"}) {
    const auto model = load_decoder({.path = decoder_path(name)});
    const std::int64_t layers = model->shape().num_layers;
    for (const std::int64_t block_size : {1, 16, 48}) {
      const std::int64_t counts = 8 * layers;  // at most, beside each state
      const auto taken =
          static_cast<double>(model->make_cache(2, block_size)->block_bytes(0, layers));
      EXPECT_GE(taken, model->block_bytes(block_size)) << name;
      EXPECT_LE(taken, model->block_bytes(block_size) + static_cast<double>(counts)) << name;
    }
  }
}

}  // namespace
}  // namespace tessera::lm::kv_cache_test
