// Every scheduler over random traffic: invariants after every step, nothing waits for ever, tokens
// are conserved, and stretches of decodes taken at once are what single steps give.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "serving_driver.h"
#include "serving_random_runs.h"
#include "tessera/core/rng.h"

namespace tessera::serving::serving_scheduler_property_test {
namespace {

using driven::DrivenOutcome;
using driven::DrivenRequest;
using driven::Driver;
using driven::random_run;
using driven::random_twins;
using driven::RandomRun;

void expect_conserved(Driver& driver, const RandomRun& run) {
  EXPECT_EQ(driver.num_ended() + std::ssize(driver.never()), std::ssize(run.requests));
  EXPECT_TRUE(driver.never().empty());
  for (std::size_t i = 0; i < run.requests.size(); ++i) {
    SCOPED_TRACE(fmt::format("request {}", i));
    const DrivenRequest& r = run.requests[i];
    const DrivenOutcome& o = driver.outcome(i);
    // All but the last output token are computed once, unless they were found.
    EXPECT_EQ(o.reached, r.prompt_tokens + r.output_tokens - 1);
    EXPECT_EQ(o.tokens, o.reached - o.found + o.again + o.wasted);
    EXPECT_EQ(o.recomputed, o.again);
    EXPECT_GE(o.found, o.cached);
    EXPECT_EQ(o.num_preemptions == 0 ? o.found : o.cached, o.cached);
  }
  const BlockManager& kv = driver.scheduler().kv();
  EXPECT_EQ(kv.num_free(), kv.num_blocks());
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const Card& card : schedulers().cards()) names.push_back(card.name);
  return names;
}

class EveryScheduler : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryScheduler, FinishesAllRequestsAndComputesEveryTokenOnce) {
  std::int64_t num_preemptions = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RandomRun run =
        seed % 5 == 0 ? random_twins(GetParam(), seed) : random_run(GetParam(), seed);
    Driver driver = run.driver();
    driver.depth = seed % 2 == 0 ? 1 : 1 + static_cast<std::int64_t>(seed % 4);
    ASSERT_NO_THROW(driver.run());
    expect_conserved(driver, run);
    num_preemptions += driver.scheduler().counts().num_preemptions;
    if (HasFailure()) return;
  }
  const bool sets_aside =
      GetParam() == "orca" || GetParam() == "static" || GetParam() == "micro_batches";
  EXPECT_EQ(num_preemptions == 0, sets_aside);
}

TEST_P(EveryScheduler, VerifiesDrafts) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomRun run = random_run(GetParam(), 1000 + seed);
    Speculation speculation;
    speculation.method = seed % 3 == 0   ? DraftMethod::eagle
                         : seed % 3 == 1 ? DraftMethod::ngram
                                         : DraftMethod::draft_model;
    speculation.num_tokens = static_cast<std::int64_t>(seed % 5);
    run.options.speculative = speculation;
    run.options.max_model_len = run.kv.max_model_len = 0;
    run.kv.num_blocks += 16;  // for drafts beyond the last token
    Driver driver = run.driver();
    ASSERT_NO_THROW(driver.run());
    expect_conserved(driver, run);
    if (HasFailure()) return;
  }
}

TEST_P(EveryScheduler, KeepsItsBudget) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RandomRun run = random_run(GetParam(), 2000 + seed);
    Driver driver = run.driver();
    while (!driver.done()) {
      driver.advance();
      const StepLoad& load = driver.batch().load;
      if (GetParam() == "vllm_v1" || GetParam() == "vllm_v0") {
        ASSERT_LE(load.tokens, run.options.max_num_batched_tokens);
      } else if (GetParam() == "sarathi") {
        ASSERT_LE(load.tokens, std::max(run.options.chunk_size, load.num_requests));
      } else if (GetParam() == "sglang" && run.options.enable_chunked_prefill.value_or(true)) {
        ASSERT_LE(load.tokens - load.decode_tokens, run.options.max_num_batched_tokens);
      }
    }
  }
}

std::string text_of(const StepRecord& step) {
  std::string text;
  for (const auto& [request, tokens] : step.scheduled) {
    text += fmt::format(" {}+{}", request, tokens);
  }
  return text + fmt::format("; limit {}; preempted {}", static_cast<int>(step.limit),
                            fmt::join(step.preempted, " "));
}

TEST_P(EveryScheduler, TakesStretchesOfDecodesAsSingleStepsWould) {
  std::int64_t skipped = 0, steps = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RandomRun run =
        seed % 2 == 0 ? random_twins(GetParam(), 3000 + seed) : random_run(GetParam(), 3000 + seed);
    Driver single = run.driver(), skipping = run.driver();
    skipping.skips = true;
    while (!skipping.done()) {
      const StepRecord step = skipping.advance();
      StepRecord same;
      do {
        ASSERT_FALSE(single.done());
        same = single.advance();
        ++steps;
      } while (same.step < step.step);
      ASSERT_EQ(same.step, step.step);
      ASSERT_EQ(text_of(same), text_of(step)) << "step " << step.step;
    }
    while (!single.done()) single.advance();
    ASSERT_EQ(single.outcomes(), skipping.outcomes());
    skipped += skipping.num_skipped;
  }
  if (GetParam() == "micro_batches") {
    EXPECT_EQ(skipped, 0);
  } else {
    EXPECT_GT(skipped, steps / 4);  // of tests that skip nothing nothing follows
  }
}

/// Decided ahead: two steps under way, with and without drafts. The driver has the scheduler check
/// itself after every decision.
TEST(DecidedAhead, KeepsItsInvariantsAndEndsEveryRequest) {
  std::int64_t preemptions = 0, drafted = 0;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomRun run =
        seed % 2 == 0 ? random_twins("vllm_v1", 7000 + seed) : random_run("vllm_v1", 7000 + seed);
    run.options.kv_allocation = run.kv.allocation = KvAllocation::paged;
    run.options.async_scheduling = true;
    if (seed % 3 != 0) {
      Speculation drafts;
      drafts.method = seed % 3 == 1 ? DraftMethod::eagle : DraftMethod::mtp;
      drafts.num_tokens = static_cast<std::int64_t>(seed % 5);
      drafts.acceptance.assign(static_cast<std::size_t>(drafts.num_tokens), 0.5);
      run.options.speculative = drafts;
      run.kv.num_blocks += 2 * (2 * drafts.num_tokens + 2);  // a step in vain, and what is ahead
      drafted += drafts.num_tokens;
    }
    Driver driver = run.driver();
    driver.depth = 2;
    driver.queues_empty_steps = true;
    driver.run();
    EXPECT_TRUE(driver.never().empty());
    EXPECT_EQ(driver.num_ended(), std::ssize(run.requests));
    for (std::size_t i = 0; i < run.requests.size(); ++i) {
      ASSERT_EQ(driver.outcome(i).generated, run.requests[i].output_tokens);
      preemptions += driver.outcome(i).num_preemptions;
    }
    EXPECT_EQ(driver.scheduler().num_unfinished(), 0U);
    EXPECT_EQ(driver.scheduler().kv().num_free(), driver.scheduler().kv().num_blocks());
    EXPECT_EQ(driver.scheduler().pending_tokens(), 0);
    EXPECT_EQ(driver.scheduler().slots_held(), 0);
  }
  EXPECT_GT(preemptions, 500);  // the cases are worth it
  EXPECT_GT(drafted, 500);
}

INSTANTIATE_TEST_SUITE_P(All, EveryScheduler, ::testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tessera::serving::serving_scheduler_property_test
