// Named blocks, moves and cancels against a slow model of the cache: a table of what every slot of
// every block holds. Each step has to find its own tokens where its table says, whoever left, was
// swapped out or shares a prefix meanwhile.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "serving_driver.h"
#include "serving_random_runs.h"

namespace tessera::serving::serving_cache_property_test {
namespace {

using driven::DrivenRequest;
using driven::Driver;
using driven::random_run;
using driven::random_twins;
using driven::RandomRun;

/// What stands at a position: the same for two requests where traffic.h says so.
Token token_of(const std::vector<DrivenRequest>& requests, std::size_t request,
               std::int64_t position) {
  const DrivenRequest& r = requests[request];
  const auto group = static_cast<std::uint64_t>(r.prefix_group);
  const auto at = static_cast<std::uint64_t>(position);
  std::uint64_t hash = mixed_hash(3, request);
  if (position < r.prefix_tokens) {
    hash = mixed_hash(1, group);
  } else if (r.prefix_tokens > 0 && r.prefix_tokens == r.prompt_tokens) {
    hash = mixed_hash(mixed_hash(2, group), static_cast<std::uint64_t>(r.prefix_tokens));
  }
  return static_cast<Token>(mixed_hash(hash, at) >> 34);
}

class ModelCache {
 public:
  ModelCache(const Scheduler& scheduler, const std::vector<DrivenRequest>& requests)
      : scheduler_(scheduler), requests_(requests) {}

  void run(const Batch& batch) {
    for (const auto& [from, to] : batch.moves.swap_out) host_[to] = device_[from];
    for (const auto& [from, to] : batch.moves.swap_in) device_[to] = host_[from];
    num_moves_ += std::ssize(batch.moves.swap_in);
    for (const BatchItem& item : batch.items) compute(item);
  }
  std::int64_t num_moves() const { return num_moves_; }

 private:
  void compute(const BatchItem& item) {
    const auto request = static_cast<std::size_t>(item.request);
    const std::vector<Block> table = scheduler_.kv().names(scheduler_.sequence(item.slot).kv);
    const std::int64_t size = scheduler_.kv().block_size();
    for (std::int64_t p = 0; p < item.context + item.tokens; ++p) {
      std::vector<Token>& block = device_[table.at(static_cast<std::size_t>(p / size))];
      block.resize(static_cast<std::size_t>(size), -1);
      Token& slot = block[static_cast<std::size_t>(p % size)];
      const Token token = token_of(requests_, request, p);
      if (p < item.context) {
        ASSERT_EQ(slot, token) << "request " << request << " at " << p;
      } else {
        slot = token;
      }
    }
  }

  const Scheduler& scheduler_;
  const std::vector<DrivenRequest>& requests_;
  std::map<Block, std::vector<Token>> device_, host_;
  std::int64_t num_moves_ = 0;
};

RandomRun run_with_cancels(const std::string& scheduler, std::uint64_t seed) {
  RandomRun run = seed % 3 == 0 ? random_twins(scheduler, seed) : random_run(scheduler, seed);
  Rng rng(seed + 99);
  for (DrivenRequest& r : run.requests) {
    if (rng.uniform() < 0.4) r.cancelled = r.arrival + rng.integer(0, 60);
  }
  if (seed % 4 == 1) {
    Speculation drafts;
    drafts.method = seed % 8 == 1 ? DraftMethod::ngram : DraftMethod::draft_model;
    drafts.num_tokens = rng.integer(1, 4);
    run.options.speculative = drafts;
    run.options.max_model_len = run.kv.max_model_len = 0;
    run.kv.num_blocks += 16;
  }
  run.kv.named = true;
  return run;
}

/// Every step as text, each of its tables checked; then nothing is left behind.
std::vector<std::string> steps_of(const RandomRun& run, std::uint64_t seed, bool by_tokens,
                                  std::int64_t* num_moves = nullptr) {
  Driver driver = run.driver();
  driver.depth = 1 + static_cast<std::int64_t>(seed % 3);
  ModelCache cache(driver.scheduler(), run.requests);
  if (run.kv.named) driver.on_decided = [&](const Batch& batch) { cache.run(batch); };
  if (by_tokens) {
    driver.token_at = [&](std::size_t r, std::int64_t p) { return token_of(run.requests, r, p); };
  }
  std::vector<std::string> steps;
  while (!driver.done() && !::testing::Test::HasFatalFailure()) {
    const StepRecord step = driver.advance();
    std::string text = fmt::format("{}, {} free, preempted {}:", step.step, step.free_blocks,
                                   fmt::join(step.preempted, " "));
    for (const auto& [request, tokens] : step.scheduled) {
      text += fmt::format(" {}+{}", request, tokens);
    }
    steps.push_back(std::move(text));
  }
  const Scheduler& scheduler = driver.scheduler();
  EXPECT_EQ(scheduler.num_unfinished(), 0u);
  EXPECT_EQ(scheduler.kv().num_free(), scheduler.kv().num_blocks());
  EXPECT_EQ(scheduler.kv().num_free_host(), run.kv.host_blocks);
  EXPECT_EQ(scheduler.pending_tokens(), 0);
  EXPECT_EQ(scheduler.slots_held(), 0);
  if (num_moves != nullptr) *num_moves += cache.num_moves();
  return steps;
}

class EveryCache : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryCache, HoldsWhatEachStepReads) {
  std::int64_t num_moves = 0;
  for (std::uint64_t seed = 1; seed <= 250; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomRun run = run_with_cancels(GetParam(), seed);
    const std::vector<std::string> named = steps_of(run, seed, false, &num_moves);
    ASSERT_FALSE(HasFailure());
    run.kv.named = false;
    ASSERT_EQ(steps_of(run, seed, false), named);  // names change no count
  }
  if (GetParam() == "vllm_v0") {
    EXPECT_GT(num_moves, 100);
  }
}

// What is found by real tokens is what is found by groups and streams, which stand for them.
TEST_P(EveryCache, FindsRealTokensWhereGroupsStandForThem) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RandomRun run = run_with_cancels(GetParam(), 500 + seed);
    ASSERT_EQ(steps_of(run, seed, true), steps_of(run, seed, false));
    ASSERT_FALSE(HasFailure());
  }
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const Card& card : schedulers().cards()) names.push_back(card.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, EveryCache, ::testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tessera::serving::serving_cache_property_test
