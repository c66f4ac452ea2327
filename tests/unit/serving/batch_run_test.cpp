#include "tessera/serving/batch_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/serving/served.h"

namespace tessera::serving::batch_run_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Every stage takes `prefill` or `decode` seconds, links and returns nothing.
BatchPipeline even(std::size_t num_stages, double prefill, double decode) {
  BatchPipeline p;
  p.stage_names.assign(num_stages, "stage");
  p.stage_s = [=](std::size_t, BatchPhase phase, const MicroBatch&, std::int64_t) {
    return phase == BatchPhase::prefill ? prefill : decode;
  };
  p.link_s = [](std::size_t, BatchPhase, const MicroBatch&, std::int64_t) { return 0.0; };
  p.return_s = [](std::int64_t) { return 0.0; };
  return p;
}

BatchPipeline batch(BatchPipeline p, std::int64_t size, std::int64_t prefill, std::int64_t decode,
                    std::int64_t tokens) {
  p.batch_size = size;
  p.prefill_micro_batch_size = prefill;
  p.decode_micro_batch_size = decode;
  p.output_tokens = tokens;
  return p;
}

TEST(MicroBatches, AreAsEvenAsPossible) {
  EXPECT_THAT(micro_batch_sizes(32, 6), ElementsAre(6, 6, 5, 5, 5, 5));
  EXPECT_THAT(micro_batch_sizes(4, 9), ElementsAre(4));
  EXPECT_THAT(micro_batch_sizes(3, 1), ElementsAre(1, 1, 1));
  EXPECT_THROW(micro_batch_sizes(0, 1), Error);
  EXPECT_THROW(micro_batch_sizes(1, 0), Error);
}

TEST(Simulation, OneStageIsASum) {
  const auto run = simulate_batch(batch(even(1, 2, 0.5), 4, 1, 2, 3), false);
  EXPECT_DOUBLE_EQ(run.total_s, 4 * 2 + 2 * 2 * 0.5);
  EXPECT_DOUBLE_EQ(run.prefill_s, 8);
  EXPECT_DOUBLE_EQ(run.decode_s, 2);
  EXPECT_DOUBLE_EQ(run.ttft_s, (2 + 4 + 6 + 8) / 4.0);
  EXPECT_DOUBLE_EQ(run.ttft_max_s, 8);
  // First pair: rounds at 8.5 and 9.5; the second: at 9 and 10.
  EXPECT_DOUBLE_EQ(run.decode_round_s, 1);
  EXPECT_DOUBLE_EQ(run.tpot_s, ((9.5 - 2) + (9.5 - 4) + (10 - 6) + (10 - 8)) / 4 / 2);
  EXPECT_DOUBLE_EQ(run.throughput_tok_s, 4 * 3 / 10.0);
  EXPECT_DOUBLE_EQ(run.stages[0].busy_s, 10);
  EXPECT_DOUBLE_EQ(run.stages[0].idle_ratio, 0);
}

TEST(Simulation, FillsAndDrainsThePipeline) {
  const auto run = simulate_batch(batch(even(3, 1, 0.25), 4, 1, 1, 1), false);
  EXPECT_DOUBLE_EQ(run.total_s, 4 - 1 + 3);
  EXPECT_DOUBLE_EQ(run.tpot_s, 0);
  EXPECT_DOUBLE_EQ(run.decode_round_s, 0);
  EXPECT_DOUBLE_EQ(run.stages[1].idle_ratio, 1 - 4 / 6.0);
}

TEST(Simulation, ChunksFollowEachOtherThroughTheStages) {
  BatchPipeline p = batch(even(3, 1, 0), 2, 1, 1, 1);
  p.num_chunks = 4;
  const auto run = simulate_batch(p, false);
  EXPECT_DOUBLE_EQ(run.total_s, 2 * 4 - 1 + 3);
  EXPECT_DOUBLE_EQ(run.ttft_s, (6 + 10) / 2.0);
}

TEST(Simulation, TransfersOverlapAndCanBeTheBottleneck) {
  BatchPipeline p = batch(even(2, 1, 0), 3, 1, 1, 1);
  p.link_s = [](std::size_t, BatchPhase, const MicroBatch&, std::int64_t) { return 2.0; };
  EXPECT_DOUBLE_EQ(simulate_batch(p, false).total_s, 1 + 3 * 2 + 1);
}

TEST(Simulation, TokensReturnBeforeTheNextRound) {
  BatchPipeline p = batch(even(2, 1, 1), 1, 1, 1, 3);
  p.return_s = [](std::int64_t) { return 0.5; };
  EXPECT_DOUBLE_EQ(simulate_batch(p, false).total_s, 2 + 2 * (0.5 + 2));
}

TEST(Simulation, StagesWithoutLayersPassThrough) {
  BatchPipeline p = batch(even(3, 1, 1), 2, 1, 1, 2);
  p.stage_s = [](std::size_t stage, BatchPhase, const MicroBatch&, std::int64_t) {
    return stage == 1 ? 0.0 : 1.0;
  };
  const auto run = simulate_batch(p, true);
  for (const BatchSpan& span : run.spans) EXPECT_NE(span.track, 2u);
  EXPECT_DOUBLE_EQ(run.total_s, 5);  // 3 for the prefill, then rounds end at 4 and 5
  EXPECT_DOUBLE_EQ(run.stages[1].idle_ratio, 1);
}

TEST(Simulation, DecodeWaitsForEveryRequestOfItsMicroBatch) {
  // Sizes 2, 1 in prefill and 2, 1 in decode, then one decode micro-batch of all three.
  const auto apart = simulate_batch(batch(even(1, 1, 0.1), 3, 2, 2, 2), true);
  EXPECT_EQ(apart.spans.back().phase, BatchPhase::decode);
  EXPECT_NEAR(apart.total_s, 2.2, 1e-12);
  const auto together = simulate_batch(batch(even(1, 1, 0.1), 3, 2, 3, 2), true);
  EXPECT_NEAR(together.spans.back().start_s, 2, 1e-12);
}

TEST(Simulation, APipelineWithoutTimeEnds) {
  const auto run = simulate_batch(batch(even(2, 0, 0), 4, 2, 2, 10'000), true);
  EXPECT_EQ(run.total_s, 0);
  EXPECT_EQ(run.throughput_tok_s, 0);
  EXPECT_TRUE(run.spans.empty());
}

TEST(Simulation, IsDeterministic) {
  const BatchPipeline p = batch(even(4, 0.3, 0.07), 13, 2, 3, 20);
  const auto a = simulate_batch(p, true), b = simulate_batch(p, true);
  ASSERT_EQ(a.spans.size(), b.spans.size());
  for (std::size_t i = 0; i < a.spans.size(); ++i) {
    ASSERT_EQ(a.spans[i].start_s, b.spans[i].start_s);
    ASSERT_EQ(a.spans[i].track, b.spans[i].track);
  }
}

ErrorCode code_of(const BatchPipeline& p, std::int64_t max_events = 1'000'000) {
  try {
    simulate_batch(p, false, max_events);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::interrupted;
}

TEST(Simulation, RefusesTimesThatAreNone) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, -1.0, infinity}) {
    EXPECT_EQ(code_of(even(2, bad, 1)), ErrorCode::internal);
    EXPECT_EQ(code_of(batch(even(2, 1, bad), 1, 1, 1, 2)), ErrorCode::internal);
    BatchPipeline slow_return = batch(even(2, 1, 1), 1, 1, 1, 2);
    slow_return.return_s = [=](std::int64_t) { return bad; };
    EXPECT_EQ(code_of(slow_return), ErrorCode::internal);
  }
  BatchPipeline p = even(2, 1, 1);
  p.batch_size = 0;
  EXPECT_EQ(code_of(p), ErrorCode::out_of_range);
  p = even(0, 1, 1);
  EXPECT_EQ(code_of(p), ErrorCode::invalid_argument);
}

TEST(Simulation, CountsItsEventsFirst) {
  const BatchPipeline p = batch(even(4, 1, 1), 1'000'000'000'000, 1, 1, 1'000'000'000'000);
  EXPECT_EQ(code_of(p, 200'000'000), ErrorCode::out_of_range);
  try {
    simulate_batch(batch(even(2, 1, 1), 4, 1, 1, 11), false, 100);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("132 events"));
  }
}

class BatchTrace : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = ::testing::TempDir() + "tessera_trace_" + info->name() + ".json";
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_;
};

BatchPipeline traced() {
  BatchPipeline p = batch(even(2, 0.1, 0.013), 5, 2, 3, 4);
  p.stage_names = {"stage 0: T4-16G (layers 0-11)", "stage 1: \"V100\"\n\xff"};
  p.link_s = [](std::size_t, BatchPhase, const MicroBatch&, std::int64_t) { return 1e-3 / 3; };
  return p;
}

TEST_F(BatchTrace, IsChromeTraceJson) {
  const BatchPipeline p = traced();
  const auto run = simulate_batch(p, true);
  save_chrome_trace(run, p, path_);
  const Json json = read_json_file(path_);
  std::map<int, std::string> tracks;
  std::map<int, long long> end;
  std::size_t events = 0;
  long long last = 0;
  for (const Json& event : json.at("traceEvents")) {
    const int tid = event.at("tid").get<int>();
    if (event.at("ph") == "M") {
      if (event.at("name") == "thread_name") tracks[tid] = event.at("args").at("name");
      continue;
    }
    ASSERT_EQ(event.at("ph"), "X");
    const auto begin = std::llround(event.at("ts").get<double>() * 1e3);
    const auto duration = std::llround(event.at("dur").get<double>() * 1e3);
    EXPECT_GE(begin, end[tid]);
    end[tid] = begin + duration;
    last = std::max(last, end[tid]);
    EXPECT_TRUE(tracks.count(tid));
    EXPECT_GE(event.at("args").at("requests").get<int>(), 1);
    ++events;
  }
  EXPECT_EQ(events, run.spans.size());
  EXPECT_NEAR(static_cast<double>(last) * 1e-9, run.total_s, 1e-9);
  ASSERT_EQ(tracks.size(), 3u);
  EXPECT_EQ(tracks[0], "stage 0: T4-16G (layers 0-11)");
  EXPECT_EQ(tracks[1], "link 0 to 1");
  EXPECT_THAT(tracks[2], HasSubstr("stage 1: \"V100\"\n"));
}

TEST_F(BatchTrace, NamesUnitsAndTheirSizes) {
  const BatchPipeline p = traced();
  save_chrome_trace(simulate_batch(p, true), p, path_);
  const std::string text = read_file(path_);
  EXPECT_THAT(text, HasSubstr("\"name\":\"prefill mb 2 chunk 0\""));
  EXPECT_THAT(text, HasSubstr("\"name\":\"decode mb 1 token 3\""));
  EXPECT_THAT(text, HasSubstr("\"args\":{\"micro_batch\":1,\"requests\":2,\"token\":3}"));
}

TEST_F(BatchTrace, RefusesARunWithoutSpansAndAPathThatCannotBeWritten) {
  const BatchPipeline p = traced();
  EXPECT_THROW(save_chrome_trace(simulate_batch(p, false), p, path_), Error);
  EXPECT_THROW(save_chrome_trace(simulate_batch(p, true), p, "/nonexistent/folder/trace.json"),
               Error);
}

}  // namespace
}  // namespace tessera::serving::batch_run_test
