// Content by real tokens: what is found, and that equal hashes are not taken for equal tokens.

#include "tessera/serving/token_chain.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tessera/serving/block_manager.h"

namespace tessera::serving::token_chain_test {
namespace {

std::vector<Token> tokens(std::size_t count, Token first = 0) {
  std::vector<Token> list(count);
  std::iota(list.begin(), list.end(), first);
  return list;
}

Content content_of(const std::vector<Token>& list, const std::string& salt = {}) {
  Content content;
  content.tokens = std::make_shared<TokenChain>(4, salt);
  content.tokens->append(list);
  return content;
}

BlockManager cache() {
  BlockManager::Options options;
  options.num_blocks = 20;
  options.block_size = 4;
  options.prefix_caching = true;
  return BlockManager(options);
}

void compute(BlockManager& kv, const Content& content, std::int64_t count) {
  BlockTable table;
  ASSERT_TRUE(kv.admit(table, content, count, count, 0));
  kv.publish(table, content, count);
  kv.release(table);
}

TEST(TokenChain, FindsTheBlocksThatTwoPromptsShare) {
  BlockManager kv = cache();
  compute(kv, content_of(tokens(14)), 14);
  std::vector<Token> other = tokens(14);
  EXPECT_EQ(kv.find_prefix(content_of(other), 13), 3);
  other[9] = 99;
  EXPECT_EQ(kv.find_prefix(content_of(other), 13), 2);
  other[0] = 99;
  EXPECT_EQ(kv.find_prefix(content_of(other), 13), 0);
}

// The next turn has prompt and answer of the one before in its prompt.
TEST(TokenChain, GrowsByWhatIsGenerated) {
  BlockManager kv = cache();
  const Content turn = content_of(tokens(6));
  const std::vector<Token> answer = tokens(7, 6);
  for (const Token& token : answer) turn.tokens->append({&token, 1});
  compute(kv, turn, 12);
  EXPECT_EQ(kv.find_prefix(content_of(tokens(20)), 19), 3);
}

TEST(TokenChain, FindsNothingOfAnotherSalt) {
  BlockManager kv = cache();
  compute(kv, content_of(tokens(8), "a"), 8);
  EXPECT_EQ(kv.find_prefix(content_of(tokens(8), "a"), 8), 2);
  EXPECT_EQ(kv.find_prefix(content_of(tokens(8), "b"), 8), 0);
  EXPECT_EQ(kv.find_prefix(content_of(tokens(8)), 8), 0);
}

TEST(TokenChain, ComparesTokensWhereHashesAreEqual) {
  const auto block = [](std::shared_ptr<const ChainBlock> before, std::vector<Token> list) {
    return std::make_shared<const ChainBlock>(std::move(before), std::move(list), 7);
  };
  const auto a = block(nullptr, {1, 2}), b = block(nullptr, {1, 3});
  EXPECT_FALSE(same_tokens(a.get(), b.get()));
  EXPECT_TRUE(same_tokens(a.get(), block(nullptr, {1, 2}).get()));
  // The same block behind another one is another one.
  EXPECT_FALSE(same_tokens(block(a, {5, 6}).get(), block(b, {5, 6}).get()));
  EXPECT_TRUE(same_tokens(block(a, {5, 6}).get(), block(a, {5, 6}).get()));
  // A block under a hash whose tokens are others is not found.
  BlockManager kv = cache();
  compute(kv, content_of(tokens(4)), 4);
  const Content wanted = content_of(tokens(4, 50));
  const std::uint64_t hash = content_of(tokens(4)).tokens->block(0)->hash;
  wanted.tokens->adopt(0, std::make_shared<const ChainBlock>(nullptr, tokens(4, 50), hash));
  EXPECT_EQ(kv.find_prefix(wanted, 4), 0);
}

// A chain of a million blocks goes without a call for each.
TEST(TokenChain, GoesWithoutRecursion) {
  TokenChain chain(1);
  const std::vector<Token> list = tokens(1'000'000);
  chain.append(list);
  EXPECT_EQ(chain.num_blocks(), 1'000'000);
}

TEST(TokenChain, IsForgottenAfterALoss) {
  BlockManager kv = cache();
  compute(kv, content_of(tokens(8)), 8);
  kv.forget_all();
  EXPECT_EQ(kv.find_prefix(content_of(tokens(8)), 8), 0);
  kv.check();
  compute(kv, content_of(tokens(8)), 8);
  EXPECT_EQ(kv.find_prefix(content_of(tokens(8)), 8), 2);
}

}  // namespace
}  // namespace tessera::serving::token_chain_test
