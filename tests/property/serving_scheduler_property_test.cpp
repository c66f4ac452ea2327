// Every scheduler over random traffic: invariants after every step, nothing waits for ever, tokens
// are conserved, and stretches of decodes taken at once are what single steps give.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "serving_driver.h"
#include "tessera/core/rng.h"

namespace tessera::serving {
namespace {

using testing::DrivenOutcome;
using testing::DrivenRequest;
using testing::Driver;

template <class Value>
Value one_of(Rng& rng, std::initializer_list<Value> values) {
  return values.begin()[rng.integer(0, std::ssize(values) - 1)];
}

struct RandomRun {
  EngineOptions options;
  BlockManager::Options kv;
  std::vector<DrivenRequest> requests;

  Driver driver() const { return Driver(make_scheduler(options, kv), requests); }
};

std::vector<DrivenRequest> random_requests(Rng& rng, bool with_prefixes) {
  std::vector<DrivenRequest> requests(static_cast<std::size_t>(rng.integer(1, 40)));
  Ticks time = 0;
  for (DrivenRequest& r : requests) {
    time += one_of<Ticks>(rng, {0, 0, 1, 2, 5, 30});
    r.arrival = time;
    r.prompt_tokens = one_of<std::int64_t>(rng, {1, 15, 16, 17, 48, 100, 300});
    r.output_tokens = one_of<std::int64_t>(rng, {1, 2, 16, 33, 120});
    r.max_tokens = r.output_tokens + one_of<std::int64_t>(rng, {0, 0, 10, 150});
    r.priority = static_cast<std::int32_t>(rng.integer(0, 2));
    if (!with_prefixes || rng.uniform() > 0.7) continue;
    r.prefix_group = rng.integer(0, 2);
    r.prefix_tokens = one_of<std::int64_t>(rng, {64, 200});
    r.prompt_tokens = r.prefix_tokens + one_of<std::int64_t>(rng, {0, 0, 1, 16, 40});
  }
  return requests;
}

RandomRun random_run(const std::string& scheduler, std::uint64_t seed) {
  Rng rng(seed);
  RandomRun run;
  EngineOptions& o = run.options;
  o.scheduler = scheduler;
  o.enable_prefix_caching = rng.uniform() < 0.5;
  run.requests = random_requests(rng, o.enable_prefix_caching);
  o.max_num_seqs = one_of<std::int64_t>(rng, {1, 3, 8, 64});
  o.max_num_batched_tokens = one_of<std::int64_t>(rng, {64, 700, 2048});
  o.block_size = one_of<std::int64_t>(rng, {1, 8, 16});
  o.max_model_len = one_of<std::int64_t>(rng, {0, 0, 600});
  o.long_prefill_token_threshold = one_of<std::int64_t>(rng, {0, 0, 50});
  o.policy = one_of(rng, {QueuePolicy::fcfs, QueuePolicy::priority});
  // Whole prompts are for budgets that hold every request.
  if (rng.uniform() < 0.6) o.enable_chunked_prefill = o.max_num_batched_tokens < 600;
  if (o.max_num_batched_tokens < 600) o.enable_chunked_prefill = true;
  o.watermark = one_of(rng, {0.0, 0.01, 0.1});
  o.delay_factor = one_of(rng, {0.0, 0.0, 3.0});
  o.preemption_mode = one_of(rng, {PreemptionMode::recompute, PreemptionMode::swap});
  o.static_slots = one_of(rng, {StaticSlots::idle, StaticSlots::shrink});
  o.chunk_size = one_of<std::int64_t>(rng, {4, 64, 512});
  o.schedule_policy = one_of(rng, {SglangOrder::lpm, SglangOrder::fcfs, SglangOrder::lof,
                                   SglangOrder::random, SglangOrder::shortest, SglangOrder::hrrn});
  o.schedule_conservativeness = one_of(rng, {0.1, 1.0});
  o.mixed_chunk = rng.uniform() < 0.5;
  o.kv_allocation = one_of(rng, {KvAllocation::paged, KvAllocation::paged, KvAllocation::paged,
                                 KvAllocation::contiguous, KvAllocation::maximum});
  std::int64_t longest = o.max_model_len;
  for (const DrivenRequest& r : run.requests) {
    longest = std::max(longest, r.prompt_tokens + r.max_tokens);
  }
  const std::int64_t need = (longest * 10 / 9) / o.block_size + 3;  // the watermark is at most 1/10
  BlockManager::Options& kv = run.kv;
  kv.block_size = o.block_size;
  kv.num_blocks = need + one_of<std::int64_t>(rng, {0, 0, 3, 20, 1000});
  kv.prefix_caching = o.enable_prefix_caching;
  kv.allocation = o.kv_allocation;
  kv.max_model_len = o.max_model_len;
  kv.host_blocks = one_of<std::int64_t>(rng, {0, 10, 1000});
  return run;
}

/// Little memory, and many requests with one prompt and hence one answer: blocks under one hash,
/// and requests that find what others generate.
RandomRun random_twins(const std::string& scheduler, std::uint64_t seed) {
  RandomRun run = random_run(scheduler, seed);
  Rng rng(seed);
  for (DrivenRequest& r : run.requests) {
    r.arrival = r.arrival / 4;
    r.prefix_group = rng.integer(0, 1);
    r.prompt_tokens = r.prefix_tokens = 40;
    r.output_tokens = rng.integer(20, 120);
    r.max_tokens = 120;
  }
  run.options.max_num_seqs = 64;
  run.options.block_size = run.kv.block_size = one_of<std::int64_t>(rng, {4, 8, 16});
  run.options.kv_allocation = run.kv.allocation = KvAllocation::paged;
  run.options.enable_prefix_caching = run.kv.prefix_caching = true;
  run.options.watermark = 0;
  run.options.max_model_len = run.kv.max_model_len = 0;
  run.kv.num_blocks = 160 / run.kv.block_size + rng.integer(1, 40);
  return run;
}

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
  for (const SchedulerCard& card : scheduler_cards()) names.push_back(card.name);
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
  const bool sets_aside = GetParam() == "orca" || GetParam() == "static";
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
  EXPECT_GT(skipped, steps / 4);  // of tests that skip nothing nothing follows
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
}  // namespace tessera::serving
