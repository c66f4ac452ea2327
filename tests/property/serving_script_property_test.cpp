// A policy from outside may ask for anything: it is refused, or every invariant holds.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "serving_driver.h"
#include "tessera/core/rng.h"
#include "tessera/serving/script_scheduler.h"

namespace tessera::serving::serving_script_property_test {
namespace {

using driven::DrivenRequest;
using driven::Driver;

std::vector<DrivenRequest> random_traffic(Rng& rng) {
  std::vector<DrivenRequest> requests(static_cast<std::size_t>(rng.integer(1, 30)));
  Ticks time = 0;
  for (DrivenRequest& r : requests) {
    r.arrival = time += rng.integer(0, 4);
    r.prompt_tokens = rng.integer(1, 150);
    r.output_tokens = rng.integer(1, 60);
    r.prefix_group = rng.integer(-1, 1);
    r.prefix_tokens = r.prefix_group < 0 ? 0 : std::min<std::int64_t>(r.prompt_tokens, 48);
  }
  return requests;
}

EngineOptions engine(Rng& rng) {
  EngineOptions options;
  options.scheduler = "outside";
  options.max_num_seqs = rng.integer(1, 12);
  options.max_num_batched_tokens = rng.integer(16, 300);
  return options;
}

BlockManager::Options cache(Rng& rng) {
  BlockManager::Options kv;
  kv.num_blocks = 14 + rng.integer(0, 20);  // the longest takes 14 of 16 tokens
  kv.prefix_caching = rng.uniform() < 0.5;
  return kv;
}

/// Draws calls, good and bad; a bad one must say whose fault it is and change nothing.
struct RandomPolicy {
  Rng rng;
  std::int64_t num_refused = 0, num_done = 0;

  void operator()(ScriptDecision& d) {
    const std::int64_t all = d.num_running() + d.num_waiting();
    for (std::int64_t i = rng.integer(0, 2 * all); i > 0; --i) {
      const auto handle = static_cast<std::int32_t>(rng.integer(-1, all));
      const double tokens = rng.uniform() < 0.8 ? static_cast<double>(rng.integer(1, 200))
                                                : static_cast<double>(rng.integer(-3, 0));
      const std::int64_t free = d.free_blocks(), left = d.tokens_left(), seats = d.seats_left();
      try {
        if (rng.uniform() < 0.05) {
          d.preempt(handle);
          ++num_done;
          continue;
        }
        const std::int64_t done = d.schedule(handle, tokens);
        ASSERT_LE(done, std::min<std::int64_t>(left, static_cast<std::int64_t>(tokens)));
        ASSERT_EQ(d.tokens_left(), left - done);
        num_done += done > 0 ? 1 : 0;
        if (done > 0) continue;
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::invalid_argument);
        ASSERT_THAT(error.what(), ::testing::HasSubstr("scheduler 'outside'"));
        ++num_refused;
      }
      ASSERT_EQ(std::tuple(d.free_blocks(), d.tokens_left(), d.seats_left()),
                std::tuple(free, left, seats));
    }
    // Whatever came before, the oldest goes on, so that the run ends.
    for (std::int64_t i = 0; i < d.num_running(); ++i) {
      const ScriptRequest& r = *d.running(i);
      if (!r.is_running || r.scheduled_tokens > 0 || r.left_tokens == 0) continue;
      if (d.tokens_left() > 0) {
        d.schedule(r.handle, std::min(r.left_tokens, static_cast<double>(d.tokens_left())));
      }
    }
  }
};

TEST(ScriptScheduler, HoldsAgainstARandomPolicy) {
  std::int64_t num_refused = 0, num_done = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    const auto policy = std::make_shared<RandomPolicy>(RandomPolicy{Rng(seed + 1)});
    const EngineOptions options = engine(rng);
    Driver driver(make_script_scheduler(options, cache(rng),
                                        {.name = "outside",
                                         .decide = [=](ScriptDecision& d) { (*policy)(d); },
                                         .every_step = true}),
                  random_traffic(rng));
    driver.depth = rng.integer(1, 3);
    for (int i = 0; i < 400 && !driver.done(); ++i) {
      ASSERT_NO_THROW(driver.advance());  // checks the scheduler
      ASSERT_LE(driver.batch().load.tokens, options.max_num_batched_tokens);
      if (HasFatalFailure()) return;
    }
    num_refused += policy->num_refused;
    num_done += policy->num_done;
  }
  EXPECT_GT(num_refused, 10000);
  EXPECT_GT(num_done, 10000);
}

/// vLLM V1's rule, first come first served, by the calls that scripts have.
void first_come(ScriptDecision& d) {
  bool preempted = false;
  std::int64_t last = d.num_running() - 1;
  for (std::int64_t i = 0; i <= last && d.tokens_left() > 0; ++i) {
    const ScriptRequest& r = *d.running(i);
    if (r.left_tokens == 0) continue;
    const double tokens = std::min(r.left_tokens, static_cast<double>(d.tokens_left()));
    while (r.is_running && d.schedule(r.handle, tokens) == 0) {
      preempted = true;
      d.preempt(d.running(last--)->handle);
    }
  }
  for (std::int64_t i = 0; !preempted && i < d.num_waiting(); ++i) {
    if (d.tokens_left() == 0 || d.seats_left() == 0) return;
    const ScriptRequest& r = *d.waiting(i);
    const double tokens = std::min(r.left_tokens - static_cast<double>(d.cached_tokens(r.handle)),
                                   static_cast<double>(d.tokens_left()));
    if (d.schedule(r.handle, tokens) == 0) return;
  }
}

TEST(ScriptScheduler, DecidesAsTheEngineDoesByTheSameRule) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    const EngineOptions options = engine(rng);
    const BlockManager::Options kv = cache(rng);
    const auto requests = random_traffic(rng);
    EngineOptions own = options;
    own.scheduler = "vllm_v1";
    Driver engine_driver(make_scheduler(own, kv), requests);
    Driver script(make_script_scheduler(options, kv, {.name = "outside", .decide = first_come}),
                  requests);
    script.skips = seed % 3 == 0;
    engine_driver.run();
    script.run();
    ASSERT_EQ(engine_driver.outcomes(), script.outcomes());
  }
}

TEST(ScriptScheduler, SaysWhatIsWrong) {
  EngineOptions options;
  options.max_num_seqs = 1;
  options.max_num_batched_tokens = 20;
  BlockManager::Options kv;
  kv.num_blocks = 10;
  const auto refused = [&](const std::vector<std::string>& parts,
                           const std::function<void(ScriptDecision&)>& decide) {
    Driver driver(
        make_script_scheduler(options, kv, {.name = "mine", .decide = decide, .every_step = true}),
        {{.prompt_tokens = 30, .output_tokens = 5}, {.prompt_tokens = 3}});
    test::expect_error(ErrorCode::invalid_argument, parts, [&] { driver.advance(); });
  };
  refused({"scheduler 'mine'", "request 0", "30 tokens; 20 of 20 are left"},
          [](ScriptDecision& d) { d.schedule(0, 30); });
  refused({"scheduler 'mine'", "request 1", "all 1 seats are taken"}, [](ScriptDecision& d) {
    d.schedule(0, 10);
    d.schedule(1, 1);
  });
  refused({"request 0", "in the step already"}, [](ScriptDecision& d) {
    d.schedule(0, 10);
    d.schedule(0, 1);
  });
  refused({"request 0", "0 tokens; at least 1"}, [](ScriptDecision& d) { d.schedule(0, 0); });
  refused({"handle 2 is none of the 2 requests"}, [](ScriptDecision& d) { d.schedule(2, 1); });
  refused({"request 0", "does not run"}, [](ScriptDecision& d) { d.preempt(0); });
}

}  // namespace
}  // namespace tessera::serving::serving_script_property_test
