// What each scheduler does in cases small enough to be worked out by hand. Steps are counted from
// 0, a prompt's last step gives the first output token.

#include "tessera/serving/scheduler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "serving_driver.h"

namespace tessera::serving::scheduler_test {
namespace {

using driven::DrivenRequest;
using driven::Driver;

EngineOptions engine(const std::string& scheduler) {
  EngineOptions options;
  options.scheduler = scheduler;
  options.enable_prefix_caching = false;
  options.watermark = 0;
  return options;
}

Driver driver(const EngineOptions& options, std::int64_t num_blocks,
              std::vector<DrivenRequest> requests) {
  BlockManager::Options kv;
  kv.num_blocks = num_blocks;
  kv.prefix_caching = options.enable_prefix_caching;
  kv.allocation = options.kv_allocation;
  kv.max_model_len = options.max_model_len;
  kv.host_blocks = num_blocks;
  return Driver(make_scheduler(options, kv), std::move(requests));
}

/// The next `count` steps: "0+64 1+1", blank where nothing was scheduled.
std::vector<std::string> steps(Driver& driver, int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) {
    std::string text;
    for (const auto& [request, tokens] : driver.advance().scheduled) {
      text += fmt::format("{}{}+{}", text.empty() ? "" : " ", request, tokens);
    }
    texts.push_back(text);
  }
  return texts;
}

using Steps = std::vector<std::string>;

// The lecture on serving: four slots, S1 to S4 end at T6, T8, T5 and T7; then S5, S6, S7 wait.
std::vector<DrivenRequest> lecture() {
  std::vector<DrivenRequest> requests;
  for (const std::int64_t length : {6, 8, 5, 7, 9, 9, 9}) {
    requests.push_back({.output_tokens = length});
  }
  return requests;
}

TEST(StaticScheduler, KeepsTheLecturesSlotsUntilTheLastEnds) {
  EngineOptions options = engine("static");
  options.max_num_seqs = 4;
  Driver run = driver(options, 100, lecture());
  std::int64_t used = 0, paid = 0;
  for (int t = 1; t <= 8; ++t) {
    used += std::ssize(run.advance().scheduled);
    paid += run.batch().load.tokens;
    EXPECT_EQ(run.batch().limit, t == 1 ? Limit::seats : Limit::policy);
  }
  EXPECT_EQ(used, 26);  // 81.25 % of
  EXPECT_EQ(paid, 32);  // what the step costs
  EXPECT_EQ(steps(run, 1), Steps({"4+1 5+1 6+1"}));

  options.static_slots = StaticSlots::shrink;
  Driver shrinking = driver(options, 100, lecture());
  paid = 0;
  for (int t = 1; t <= 8; ++t) {
    shrinking.advance();
    paid += shrinking.batch().load.tokens;
  }
  EXPECT_EQ(paid, 26);
}

TEST(StaticScheduler, PadsWithContextsThatGrow) {
  EngineOptions options = engine("static");
  Driver run = driver(
      options, 100,
      {{.prompt_tokens = 10, .output_tokens = 1}, {.prompt_tokens = 20, .output_tokens = 9}});
  for (int t = 0; t <= 2; ++t) run.advance();
  const StepLoad& load = run.batch().load;  // contexts of 20 + 1 and 10 + 1
  EXPECT_EQ(load.num_idle, 1);
  EXPECT_EQ(load.num_decodes, 2);
  EXPECT_EQ(load.decode_context_tokens, 21 + 11);
}

TEST(OrcaScheduler, FillsTheLecturesSlotsAtOnce) {
  EngineOptions options = engine("orca");
  options.max_num_seqs = 4;
  Driver run = driver(options, 100, lecture());
  std::int64_t used = 0;
  for (int t = 1; t <= 8; ++t) used += std::ssize(run.advance().scheduled);
  EXPECT_EQ(used, 32);
  EXPECT_EQ(run.outcome(4).first_step, 5);  // T6
  EXPECT_EQ(run.outcome(5).first_step, 6);  // T7
  EXPECT_EQ(run.outcome(6).first_step, 7);  // T8
}

TEST(OrcaScheduler, SetsMemoryForTheLongestAside) {
  EngineOptions options = engine("orca");
  options.max_model_len = 160;
  Driver run = driver(options, 25, std::vector<DrivenRequest>(3, {.output_tokens = 3}));
  run.advance();
  EXPECT_EQ(run.batch().limit, Limit::blocks);  // two of ten blocks each, and five are left
  EXPECT_EQ(run.scheduler().kv().num_free(), 5);
  options.max_model_len = 0;
  Driver unlimited = driver(options, 25, std::vector<DrivenRequest>(3, {.output_tokens = 3}));
  unlimited.advance();
  EXPECT_EQ(unlimited.scheduler().kv().num_free(), 22);
  EXPECT_THAT(unlimited.scheduler().note(), ::testing::HasSubstr("max_model_len is not given"));
}

TEST(VllmV0Scheduler, LetsPromptsStallDecodes) {
  EngineOptions options = engine("vllm_v0");
  options.max_num_batched_tokens = 80;
  Driver run = driver(options, 100,
                      {{.prompt_tokens = 10, .output_tokens = 9},
                       {.arrival = 2, .prompt_tokens = 50, .output_tokens = 9},
                       {.arrival = 2, .prompt_tokens = 50, .output_tokens = 9}});
  EXPECT_EQ(steps(run, 5), Steps({"0+10", "0+1", "1+50", "2+50", "0+1 1+1 2+1"}));
  options.enable_chunked_prefill = true;
  Driver chunked = driver(options, 100,
                          {{.prompt_tokens = 10, .output_tokens = 9},
                           {.arrival = 2, .prompt_tokens = 50, .output_tokens = 9},
                           {.arrival = 2, .prompt_tokens = 50, .output_tokens = 9}});
  EXPECT_EQ(steps(chunked, 4), Steps({"0+10", "0+1", "0+1 1+50 2+29", "0+1 1+1 2+21"}));
}

TEST(VllmV0Scheduler, WaitsForOthersToJoinAPrompt) {
  EngineOptions options = engine("vllm_v0");
  options.delay_factor = 3;  // times the prompt step of one unit
  Driver run = driver(options, 100,
                      {{.prompt_tokens = 10, .output_tokens = 20},
                       {.arrival = 1, .prompt_tokens = 5, .output_tokens = 9}});
  // It came at 1, and more than 3 later is 5.
  EXPECT_EQ(steps(run, 6), Steps({"0+10", "0+1", "0+1", "0+1", "0+1", "1+5"}));
}

// Of 10 tokens that a step is to have: 1 + 5 wait, at most 3 steps; 1 + 5 + 4 do not.
TEST(VllmV1Scheduler, HoldsPromptsBackUntilAStepIsFull) {
  EngineOptions options = engine("vllm_v1");
  options.prefill_wait_steps = 3;
  options.prefill_wait_tokens = 10;
  const DrivenRequest first{.prompt_tokens = 8, .output_tokens = 20};
  const DrivenRequest second{.arrival = 1, .prompt_tokens = 5, .output_tokens = 9};
  Driver alone = driver(options, 100, {first, second});
  EXPECT_EQ(steps(alone, 6), Steps({"0+8", "0+1", "0+1", "0+1", "0+1 1+5", "0+1 1+1"}));
  Driver joined =
      driver(options, 100, {first, second, {.arrival = 2, .prompt_tokens = 4, .output_tokens = 9}});
  EXPECT_EQ(steps(joined, 4), Steps({"0+8", "0+1", "0+1 1+5 2+4", "0+1 1+1 2+1"}));
}

// Requests 0, 2 are the first part's, 1, 3 the second's. Steps without a full set are counted from
// the first in which both decode; with `patience` 4 the fourth of them reads what there is.
TEST(VllmV1Scheduler, HoldsPromptsBackUntilEachPartHasOne) {
  EngineOptions options = engine("vllm_v1");
  options.prefill_wait_steps = 3;
  options.prefill_wait_parts = 2;
  const std::vector<DrivenRequest> both(2, {.prompt_tokens = 8, .output_tokens = 30});
  std::vector<DrivenRequest> requests = both;
  requests.push_back({.arrival = 1, .prompt_tokens = 5, .output_tokens = 9});
  Driver alone = driver(options, 100, requests);
  EXPECT_EQ(steps(alone, 5), Steps({"0+8 1+8", "0+1 1+1", "0+1 1+1", "0+1 1+1", "0+1 1+1 2+5"}));
  requests.push_back({.arrival = 2, .prompt_tokens = 6, .output_tokens = 9});
  Driver joined = driver(options, 100, requests);
  EXPECT_EQ(steps(joined, 3), Steps({"0+8 1+8", "0+1 1+1", "0+1 1+1 2+5 3+6"}));
  Driver idle =
      driver(options, 100, {both[0], {.arrival = 1, .prompt_tokens = 5, .output_tokens = 9}});
  EXPECT_EQ(steps(idle, 2), Steps({"0+8", "0+1 1+5"})) << "the second part decodes nothing";
}

TEST(VllmV1Scheduler, PromptsWaitForOneThingUnderOneScheduler) {
  const auto refused = [](EngineOptions options, const char* why) {
    test::expect_error(ErrorCode::invalid_argument, {why},
                       [&] { check_record(options, FieldPath{"engine"}); });
  };
  EngineOptions options = engine("vllm_v1");
  options.prefill_wait_parts = 2;
  refused(options, "prefill_wait_parts says what prompts wait for; say how many steps at most");
  options.prefill_wait_steps = 3;
  options.prefill_wait_tokens = 10;
  refused(options, "give one of prefill_wait_tokens, prefill_wait_parts");
  options.prefill_wait_tokens.reset();
  options.scheduler = "orca";
  refused(options, "prompts do not wait under scheduler orca; vllm_v1 has it");
}

TEST(VllmV0Scheduler, SwapsInsteadOfComputingAgain) {
  EngineOptions options = engine("vllm_v0");
  const std::vector<DrivenRequest> two(2, {.prompt_tokens = 30, .output_tokens = 40});
  Driver again = driver(options, 6, two);  // each comes to five blocks
  again.run();
  EXPECT_GT(again.outcome(1).recomputed, 0);
  options.preemption_mode = PreemptionMode::swap;
  Driver swapping = driver(options, 6, two);
  swapping.run();
  EXPECT_EQ(swapping.outcome(1).recomputed, 0);
  EXPECT_EQ(swapping.outcome(1).num_preemptions, 1);
  EXPECT_EQ(swapping.outcome(0).num_preemptions, 0);
  EXPECT_EQ(swapping.scheduler().counts().num_swaps, 1);
}

TEST(VllmV0Scheduler, MakesWayForPriority) {
  EngineOptions options = engine("vllm_v0");
  options.policy = QueuePolicy::priority;
  options.max_num_seqs = 1;
  Driver run = driver(options, 100,
                      {{.prompt_tokens = 8, .output_tokens = 9, .priority = 2},
                       {.arrival = 2, .prompt_tokens = 5, .priority = 1}});
  EXPECT_EQ(steps(run, 5), Steps({"0+8", "0+1", "", "1+5", "0+10"}));
}

TEST(VllmV0Scheduler, RefusesWhatCouldNotComeBack) {
  EngineOptions options = engine("vllm_v0");
  options.max_num_batched_tokens = 100;
  options.watermark = 0.1;
  Driver run = driver(options, 20, {});
  EXPECT_EQ(run.scheduler().why_never(50, 50), "");
  EXPECT_THAT(run.scheduler().why_never(50, 51), ::testing::HasSubstr("enable_chunked_prefill"));
  options.enable_chunked_prefill = true;
  Driver chunked = driver(options, 20, {});
  EXPECT_EQ(chunked.scheduler().why_never(200, 89), "");  // 18 blocks, 2 are kept free
  EXPECT_THAT(chunked.scheduler().why_never(200, 90), ::testing::HasSubstr("watermark"));
}

TEST(SarathiScheduler, FillsChunksBesideDecodes) {
  EngineOptions options = engine("sarathi");
  options.chunk_size = 64;
  Driver run = driver(options, 100,
                      {{.prompt_tokens = 10, .output_tokens = 20},
                       {.arrival = 1, .prompt_tokens = 150, .output_tokens = 9}});
  EXPECT_EQ(steps(run, 2), Steps({"0+10", "0+1 1+63"}));
  EXPECT_EQ(run.scheduler().kv().num_free(), 100 - 1 - 10);  // of the whole prompt at once
  EXPECT_EQ(steps(run, 3), Steps({"0+1 1+63", "0+1 1+24", "0+1 1+1"}));
}

TEST(SglangScheduler, PutsPromptsFirstAndOneInPieces) {
  EngineOptions options = engine("sglang");
  options.max_num_batched_tokens = 64;
  const std::vector<DrivenRequest> requests = {
      {.prompt_tokens = 16, .output_tokens = 20},
      {.arrival = 1, .prompt_tokens = 100, .output_tokens = 9},
      {.arrival = 1, .prompt_tokens = 100, .output_tokens = 9}};
  Driver run = driver(options, 100, requests);
  // What is left of a budget goes in whole blocks to the next one.
  EXPECT_EQ(steps(run, 6), Steps({"0+16", "1+64", "1+36 2+16", "2+64", "2+20", "0+1 1+1 2+1"}));
  options.mixed_chunk = true;
  Driver mixed = driver(options, 100, requests);
  EXPECT_EQ(steps(mixed, 3), Steps({"0+16", "0+1 1+48", "0+1 1+52"}));
}

TEST(SglangScheduler, KeepsMemoryForOutputs) {
  // 20 blocks. The first holds one and may generate 199 more; 0.7 of them are kept: of 304 free
  // slots 164.7 are left. The second takes a block, a block for the rounding, and its max_tokens.
  const auto second = [](std::int64_t max_tokens) {
    Driver run = driver(engine("sglang"), 20,
                        {{.prompt_tokens = 16, .output_tokens = 50, .max_tokens = 200},
                         {.arrival = 1, .prompt_tokens = 16, .max_tokens = max_tokens}});
    run.advance();
    run.advance();
    return run.batch().limit;
  };
  EXPECT_EQ(second(132), Limit::none);
  EXPECT_EQ(second(133), Limit::blocks);
}

TEST(SglangScheduler, RetractsTheFewestOutputs) {
  EngineOptions options = engine("sglang");
  options.schedule_conservativeness = 0;
  // Both come to eight blocks of seven in the end.
  Driver run = driver(options, 7,
                      {{.prompt_tokens = 16, .output_tokens = 60},
                       {.arrival = 3, .prompt_tokens = 16, .output_tokens = 44}});
  run.run();
  EXPECT_EQ(run.outcome(0).num_preemptions, 0);
  EXPECT_EQ(run.outcome(1).num_preemptions, 1);
}

TEST(SglangScheduler, LetsOneFillTheCacheForOthers) {
  EngineOptions options = engine("sglang");
  options.enable_prefix_caching = true;
  options.max_num_seqs = 2;
  DrivenRequest shared{
      .prompt_tokens = 70, .output_tokens = 1, .prefix_group = 0, .prefix_tokens = 64};
  Driver run = driver(options, 100, {shared, shared, {.prompt_tokens = 40}});
  EXPECT_EQ(steps(run, 2), Steps({"0+70 2+40", "1+6"}));
}

TEST(SglangScheduler, OrdersItsQueue) {
  const auto first = [](SglangOrder order) {
    EngineOptions options = engine("sglang");
    options.schedule_policy = order;
    options.max_num_seqs = 1;
    Driver run = driver(options, 100,
                        {{.prompt_tokens = 50, .output_tokens = 5},
                         {.prompt_tokens = 9, .output_tokens = 7},
                         {.prompt_tokens = 30, .output_tokens = 40}});
    return run.advance().scheduled.at(0).request;
  };
  EXPECT_EQ(first(SglangOrder::fcfs), 0);
  EXPECT_EQ(first(SglangOrder::lpm), 0);  // nothing is cached
  EXPECT_EQ(first(SglangOrder::shortest), 1);
  EXPECT_EQ(first(SglangOrder::lof), 2);
}

TEST(Schedulers, AreListedAndNamed) {
  EXPECT_EQ(schedulers().cards().size(), 7u);
  test::expect_error(ErrorCode::not_found, {"vllm_v2", "vllm_v"}, [] {
    EngineOptions options;
    options.scheduler = "vllm_v2";
    make_scheduler(options, {});
  });
}

}  // namespace
}  // namespace tessera::serving::scheduler_test
