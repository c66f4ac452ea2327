// Blocks: what they waste, and what is found again.

#include "tessera/serving/block_manager.h"

#include <gtest/gtest.h>

#include "serving_driver.h"

namespace tessera::serving::block_manager_test {
namespace {

using driven::Driver;

BlockManager cache(KvAllocation allocation, std::int64_t tokens, bool prefixes = false) {
  BlockManager::Options options;
  options.num_blocks = tokens / 16;
  options.prefix_caching = prefixes;
  options.allocation = allocation;
  options.max_model_len = 8192;
  return BlockManager(options);
}

// The lecture on serving: 200 tokens take 13 blocks and waste 8 slots, token 201 needs none; 4,096
// take 256 and waste nothing, token 4,097 takes the next and wastes 15.
TEST(BlockManager, WastesLessThanABlockPerRequest) {
  BlockManager kv = cache(KvAllocation::paged, 16384);
  const auto waste = [](const BlockTable& table, std::int64_t tokens) {
    return table.num_blocks * 16 - tokens;
  };
  BlockTable small, large;
  ASSERT_TRUE(kv.admit(small, {}, 200, 300, 0));
  EXPECT_EQ(small.num_blocks, 13);
  EXPECT_EQ(waste(small, 200), 8);
  ASSERT_TRUE(kv.extend(small, 201));
  EXPECT_EQ(small.num_blocks, 13);
  ASSERT_TRUE(kv.admit(large, {}, 4096, 5000, 0));
  EXPECT_EQ(large.num_blocks, 256);
  EXPECT_EQ(waste(large, 4096), 0);
  ASSERT_TRUE(kv.extend(large, 4097));
  EXPECT_EQ(large.num_blocks, 257);
  EXPECT_EQ(waste(large, 4097), 15);
}

// The same requests in regions of 8,192: 7,991 slots after 201 tokens, 4,095 after 4,097.
TEST(BlockManager, WastesMostOfARegionForTheLongest) {
  BlockManager kv = cache(KvAllocation::maximum, 16384);
  BlockTable small, large;
  ASSERT_TRUE(kv.admit(small, {}, 201, 300, 0));
  ASSERT_TRUE(kv.admit(large, {}, 4097, 5000, 0));
  EXPECT_EQ(small.num_blocks * 16 - 201, 7991);
  EXPECT_EQ(large.num_blocks * 16 - 4097, 4095);
  EXPECT_FALSE(kv.fits({}, 1, 1, 0));
}

TEST(BlockManager, LeavesHolesBetweenRegions) {
  BlockManager kv = cache(KvAllocation::contiguous, 160);
  BlockTable a, b, c;
  ASSERT_TRUE(kv.admit(a, {}, 1, 48, 0));  // blocks 0 to 2
  ASSERT_TRUE(kv.admit(b, {}, 1, 64, 0));  // 3 to 6
  ASSERT_TRUE(kv.admit(c, {}, 1, 48, 0));  // 7 to 9
  kv.release(a);
  kv.release(c);
  EXPECT_EQ(kv.num_free(), 6);
  EXPECT_FALSE(kv.fits({}, 1, 64, 0));  // six are free, but no four side by side
  EXPECT_EQ(kv.unusable_blocks(64), 6);
  EXPECT_TRUE(kv.fits({}, 1, 48, 0));
  kv.release(b);
  EXPECT_TRUE(kv.fits({}, 1, 160, 0));  // the holes have grown together
  kv.check();
}

// Of two equal prompts that come one after the other, what the second finds.
std::int64_t found(std::int64_t prompt_tokens, std::optional<DraftMethod> drafts = {}) {
  EngineOptions options;
  if (drafts) options.speculative.emplace().method = *drafts;
  BlockManager::Options kv;
  kv.num_blocks = 100;
  kv.prefix_caching = true;
  Driver driver(
      make_scheduler(options, kv),
      {{.prompt_tokens = prompt_tokens, .prefix_group = 0, .prefix_tokens = prompt_tokens},
       {.arrival = 10,
        .prompt_tokens = prompt_tokens,
        .prefix_group = 0,
        .prefix_tokens = prompt_tokens}});
  driver.run();
  EXPECT_EQ(driver.outcome(0).cached, 0);
  return driver.outcome(1).cached;
}

// The last token is always computed, as vLLM has it; EAGLE goes without one more block.
TEST(BlockManager, FindsWholeBlocksBeforeTheLastToken) {
  EXPECT_EQ(found(64), 48);
  EXPECT_EQ(found(65), 64);
  EXPECT_EQ(found(64, DraftMethod::ngram), 48);
  EXPECT_EQ(found(64, DraftMethod::eagle), 32);
  EXPECT_EQ(found(15), 0);
}

}  // namespace
}  // namespace tessera::serving::block_manager_test
