// An engine driven by hand, as a server drives it: an executor that is a list, a clock that is a
// number.

#include "tessera/serving/engine_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::serving::engine_core_test {
namespace {

using ::testing::ElementsAre;

/// Runs a step in one unit of time; each request that samples gets a token, its `length` in all.
class HandMadeExecutor final : public Executor {
 public:
  void launch(const Work& work) override { works.push_back(work); }
  std::optional<Done> finished() override {
    if (works.empty() || !lets_finish) return std::nullopt;
    const Work work = works.front();
    works.erase(works.begin());
    Done done;
    done.step = work.step;
    done.times = StepTimes::of(now - 1, now);
    for (const BatchItem& item : work.batch.items) {
      Generated g;
      if (item.samples) {
        g.tokens = 1;
        g.ended = ++generated[item.request] == length;
      }
      done.generated.push_back(g);
    }
    return done;
  }

  std::vector<Work> works;
  std::map<std::int64_t, std::int64_t> generated;
  std::int64_t length = 3;
  bool lets_finish = true;
  Ticks now = 0;
};

Sequence request(std::int64_t number, std::int64_t prompt_tokens, std::int64_t max_tokens = 3) {
  Sequence s;
  s.request = number;
  s.prompt_tokens = prompt_tokens;
  s.max_tokens = max_tokens;
  return s;
}

struct Inbox {
  std::vector<std::int64_t> transferred = {}, cancelled = {};
  std::vector<Sequence> arrived = {};
};

class EngineCoreTest : public ::testing::Test {
 protected:
  EngineCore core(std::size_t num_stages = 1, std::int64_t num_blocks = 100,
                  EngineOptions options = {}) {
    BlockManager::Options kv;
    kv.num_blocks = num_blocks;
    kv.named = true;
    kv.prefix_caching = options.enable_prefix_caching;
    return EngineCore(make_scheduler(options, kv), Ledger(log_, 0, true),
                      {.num_stages = num_stages, .with_tables = true});
  }
  std::vector<Ended> at(EngineCore& core, Ticks now, Inbox inbox = {}) {
    executor_.now = now;
    std::vector<Ended> ended = core.take_ends(now, executor_);
    for (const std::int64_t request : inbox.transferred) core.finish_loading(request);
    for (const std::int64_t request : inbox.cancelled) core.cancel(request, now);
    for (Sequence& sequence : inbox.arrived) core.submit(std::move(sequence), now);
    core.decide_all(now, executor_);
    core.scheduler().check({});
    return ended;
  }

  Log log_;
  HandMadeExecutor executor_;
};

TEST_F(EngineCoreTest, RunsARequestAndWritesItsLog) {
  EngineCore engine = core();
  at(engine, 1, {.arrived = {request(0, 20)}});
  ASSERT_EQ(executor_.works.size(), 1u);
  EXPECT_EQ(executor_.works[0].batch.items[0].tokens, 20);
  EXPECT_EQ(executor_.works[0].tables, std::vector<std::vector<Block>>({{0, 1}}));
  EXPECT_TRUE(at(engine, 2).empty());
  EXPECT_TRUE(at(engine, 3).empty());
  const std::vector<Ended> ended = at(engine, 4);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].request, 0);
  engine.ledger().close(engine.scheduler(), 4, false, {.name = "by hand"}, {3});
  EXPECT_EQ(log_.requests[0].first_scheduled, 1);
  EXPECT_EQ(log_.requests[0].first_token, 2);
  EXPECT_EQ(log_.requests[0].last_token, 4);
  EXPECT_EQ(log_.requests[0].output_tokens, 3);
  ASSERT_EQ(log_.steps.size(), 3u);
  EXPECT_THAT(log_.steps[2].finished, ElementsAre(0));
  EXPECT_EQ(log_.replicas[0].num_steps, 3);
  EXPECT_EQ(log_.replicas[0].scheduled_tokens, 22);
  EXPECT_EQ(log_.replicas[0].busy, 3);
  EXPECT_EQ(log_.replicas[0].block_ticks, 6);
}

// Of two that come at the moment at which a step ends and a third leaves, both are in the step that
// is decided then.
TEST_F(EngineCoreTest, TakesEndsCancelsAndArrivalsBeforeItDecides) {
  EngineOptions options;
  options.max_num_seqs = 2;
  EngineCore engine = core(1, 100, options);
  executor_.length = 5;
  at(engine, 1, {.arrived = {request(0, 5, 5), request(1, 6, 5)}});
  at(engine, 2, {.arrived = {request(2, 7, 5)}});
  EXPECT_EQ(executor_.works[0].batch.items.size(), 2u);
  EXPECT_EQ(executor_.works[0].num_waiting, 1);
  at(engine, 3, {.cancelled = {1}, .arrived = {request(3, 8, 5)}});
  ASSERT_EQ(executor_.works[0].batch.items.size(), 2u);
  EXPECT_EQ(executor_.works[0].batch.items[0].request, 0);
  EXPECT_EQ(executor_.works[0].batch.items[1].request, 2);
  EXPECT_EQ(log_.requests[1].outcome, Outcome::cancelled);
  EXPECT_EQ(log_.requests[1].cancelled, 3);
  EXPECT_EQ(log_.requests[1].output_tokens, 2);
}

TEST_F(EngineCoreTest, DropsWhatAStepBringsForACancelledRequest) {
  EngineCore engine = core(3);
  executor_.lets_finish = false;
  at(engine, 1, {.arrived = {request(0, 5), request(1, 6)}});
  EXPECT_EQ(executor_.works.size(), 1u);  // nothing more can be decided before it is done
  at(engine, 2, {.cancelled = {0}});
  // Its slot and its number of blocks are another's by the time that the step is done.
  at(engine, 3, {.arrived = {request(2, 7)}});
  EXPECT_EQ(executor_.works.size(), 2u);
  executor_.lets_finish = true;
  at(engine, 4);
  EXPECT_EQ(log_.requests[0].output_tokens, 0);
  EXPECT_EQ(log_.requests[1].first_token, 4);
  std::vector<Ended> ended;
  for (Ticks now = 5; ended.size() < 2 && now < 20; ++now) {
    for (const Ended& e : at(engine, now)) ended.push_back(e);
  }
  EXPECT_EQ(engine.scheduler().num_unfinished(), 0u);
  EXPECT_EQ(engine.scheduler().kv().num_free(), 100);
  EXPECT_FALSE(engine.cancel(0, 30));  // it is gone
  EXPECT_FALSE(engine.cancel(7, 30));  // it never was
}

TEST_F(EngineCoreTest, RejectsWhatCanNeverRun) {
  EngineCore engine = core(1, 4);
  at(engine, 1, {.arrived = {request(0, 500)}});
  EXPECT_EQ(log_.requests[0].outcome, Outcome::rejected);
  EXPECT_TRUE(executor_.works.empty());
}

// A stage is lost: the step under way brings nothing, and all begin anew, in the same order.
TEST_F(EngineCoreTest, StartsAnewAfterALoss) {
  EngineCore engine = core();
  executor_.length = 6;
  at(engine, 1, {.arrived = {request(0, 40, 6), request(1, 30, 6)}});
  at(engine, 2);
  at(engine, 3);
  executor_.works.clear();
  engine.lose_steps(3);
  engine.scheduler().check({});
  EXPECT_EQ(engine.scheduler().kv().num_free(), 100);
  at(engine, 4);
  ASSERT_EQ(executor_.works.size(), 1u);
  const std::vector<BatchItem>& items = executor_.works[0].batch.items;
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].request, 0);
  EXPECT_EQ(items[0].tokens, 42);  // two tokens of output had come; nothing is found
  EXPECT_EQ(items[0].context, 0);
  EXPECT_EQ(items[1].tokens, 32);
}

}  // namespace
}  // namespace tessera::serving::engine_core_test
