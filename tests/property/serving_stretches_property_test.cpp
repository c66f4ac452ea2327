// A run is the same to the tick whether steps are taken one by one or decode steps of the same
// requests as stretches: with pools, sessions, closed loops, cancels, every scheduler and router,
// engines that take turns on devices, and that come and go.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "serving_logs.h"
#include "tessera/core/rng.h"
#include "tessera/serving/simulate.h"

namespace tessera::serving::serving_stretches_property_test {
namespace {

template <class Value>
Value one_of(Rng& rng, std::initializer_list<Value> values) {
  return values.begin()[rng.integer(0, std::ssize(values) - 1)];
}

struct Case {
  Deployment deployment;
  Traffic traffic;
};

/// Times of few digits, so that things often happen at the same tick.
std::shared_ptr<const StepCost> random_cost(Rng& rng) {
  LinearStepCost cost;
  const auto times = [&](Ticks most, Ticks of) { return rng.integer(0, most) * of; };
  cost.base = kTicksPerSecond / 100 * rng.integer(1, 2);
  cost.per_token = times(2, 100'000'000);
  cost.per_sequence = times(1, 1'000'000'000);
  cost.per_context_token = times(1, 1'000'000);
  return std::make_shared<LinearStepCost>(cost);
}

EngineOptions random_engine(Rng& rng) {
  EngineOptions engine;
  engine.max_num_seqs = one_of<std::int64_t>(rng, {2, 5, 64});
  engine.max_num_batched_tokens = one_of<std::int64_t>(rng, {64, 2048});
  engine.block_size = one_of<std::int64_t>(rng, {1, 4, 16});
  engine.enable_prefix_caching = rng.uniform() < 0.6;
  engine.policy = one_of(rng, {QueuePolicy::fcfs, QueuePolicy::fcfs, QueuePolicy::priority});
  if (rng.uniform() < 0.3) {
    engine.scheduler = one_of<const char*>(
        rng, {"vllm_v0", "sarathi", "sglang", "orca", "static", "micro_batches"});
    engine.enable_chunked_prefill = true;
    engine.preemption_mode = one_of(rng, {PreemptionMode::recompute, PreemptionMode::swap});
  } else if (rng.uniform() < 0.5) {
    engine.async_scheduling = true;
  }
  return engine;
}

void add_sessions(Rng& rng, Traffic& traffic) {
  for (std::size_t i = 1; i < traffic.requests.size(); ++i) {
    Request& r = traffic.requests[i];
    const std::int64_t before = static_cast<std::int64_t>(i) - rng.integer(1, 3);
    if (before < 0 || rng.uniform() < 0.4) continue;
    const Request& first = traffic.requests[static_cast<std::size_t>(before)];
    r.after = before;
    r.arrival = one_of<Ticks>(rng, {0, kTicksPerSecond / 100, kTicksPerSecond / 3});
    r.stream = first.stream >= 0 ? first.stream : static_cast<std::int64_t>(i);
    r.prefix_group = first.prefix_group;
    r.prefix_tokens = std::min(first.prefix_tokens, r.prompt_tokens);
  }
}

Traffic random_traffic(Rng& rng) {
  Traffic traffic;
  const std::int64_t count = one_of<std::int64_t>(rng, {5, 30, 60});
  Ticks at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    Request r;
    at += kTicksPerSecond / 100 * one_of<Ticks>(rng, {0, 0, 1, 7, 40});
    r.arrival = at;
    r.prompt_tokens = one_of<std::int64_t>(rng, {1, 7, 16, 33, 100});
    r.output_tokens = one_of<std::int64_t>(rng, {1, 2, 16, 50, 150});
    r.priority = static_cast<std::int32_t>(rng.integer(0, 1));
    if (rng.uniform() < 0.6) {
      r.prefix_group = rng.integer(0, 2);
      r.prefix_tokens = std::min(r.prompt_tokens, one_of<std::int64_t>(rng, {16, 64, 100}));
    }
    if (rng.uniform() < 0.3) r.max_tokens = r.output_tokens + rng.integer(1, 4);
    traffic.requests.push_back(r);
  }
  if (rng.uniform() < 0.4) {
    for (Request& r : traffic.requests) {
      if (rng.uniform() < 0.3) r.cancel_after = kTicksPerSecond / 100 * rng.integer(0, 150);
    }
  }
  const double kind = rng.uniform();
  if (kind < 0.3) add_sessions(rng, traffic);
  if (kind > 0.7) {
    traffic.concurrency = rng.integer(1, 8);
    for (Request& r : traffic.requests) r.arrival = 0;
  }
  return traffic;
}

Case random_case(std::uint64_t seed) {
  Rng rng(seed);
  Case c;
  c.traffic = random_traffic(rng);
  EngineOptions engine = random_engine(rng);
  Replica replica;
  replica.engine = engine;
  replica.cost = random_cost(rng);
  replica.kv_bytes_per_token = 1e5;
  const std::int64_t need = 260 / engine.block_size + 8;
  const bool pools = rng.uniform() < 0.5;
  const std::int64_t replicas = rng.integer(pools ? 2 : 1, 4);
  for (std::int64_t i = 0; i < replicas; ++i) {
    replica.name = fmt::format("r{}", i);
    replica.kv_blocks = need + one_of<std::int64_t>(rng, {0, 5, 40, 1000});
    if (pools)
      replica.role = i == 0                          ? Role::prefill
                     : i == 1 || rng.uniform() < 0.7 ? Role::decode
                                                     : Role::mixed;
    if (rng.uniform() < 0.3) replica.cost = random_cost(rng);
    if (rng.uniform() < 0.3) replica.share = one_of(rng, {0.5, 2.0, 3.0});
    c.deployment.replicas.push_back(replica);
  }
  const std::vector<Card>& cards = routers().cards();
  const auto card = static_cast<std::size_t>(rng.integer(0, std::ssize(cards) - 1));
  c.deployment.router.name = cards[card].name;
  c.deployment.router.match_ratio = 0.1;
  c.deployment.router.signal_age_s = one_of(rng, {0.0, 0.0, 0.05});
  c.deployment.transfer.bytes_per_s = one_of(rng, {0.0, 1e9});
  c.deployment.transfer.latency_s = one_of(rng, {0.0, 0.01});
  c.deployment.api_s = one_of(rng, {0.0, 0.01});
  return c;
}

std::string skipped_and_not(const Case& c) {
  SimulationOptions plain, few;
  plain.skip = false;
  few.least_in_step = 2;  // else a run has to be large for any lockstep
  const Log stretched = simulate(c.deployment, c.traffic);
  const std::string difference =
      driven::difference(stretched, simulate(c.deployment, c.traffic, std::move(few)));
  if (!difference.empty()) return "in lockstep: " + difference;
  return driven::difference(stretched, simulate(c.deployment, c.traffic, std::move(plain)));
}

/// Requests that come nearly at once to a scheduler that keeps decodes in lockstep: beside prompts,
/// until blocks or budget are short or clients leave.
Case crowded_case(std::uint64_t seed) {
  Case c = random_case(seed);
  for (Request& r : c.traffic.requests) r.arrival /= 20;
  for (Replica& replica : c.deployment.replicas) {
    replica.engine.scheduler = "vllm_v1";
    replica.engine.enable_prefix_caching = false;
    replica.engine.max_num_seqs = 64;
    replica.kv_blocks *= seed % 2 == 0 ? 1 : 4;
  }
  return c;
}

/// Engines come and go, and some share a device. Of those that take prompts, and of those that go
/// on with them, one stays once it has come.
Case restless_case(std::uint64_t seed) {
  Case c = random_case(seed);
  Rng rng(seed);
  const bool shared = rng.uniform() < 0.6;
  std::vector<Replica>& replicas = c.deployment.replicas;
  const std::size_t staying = replicas.front().role == Role::mixed ? 1 : 2;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    Replica& replica = replicas[i];
    if (shared && rng.uniform() < 0.7) replica.devices = {{one_of(rng, {0, 0, 1})}};
    if (shared && rng.uniform() < 0.2) replica.devices = {{0, 1}};
    if (rng.uniform() < 0.4) replica.from_s = one_of(rng, {0.01, 0.05, 0.5, 2.0});
    const double stays_s = one_of(rng, {0.01, 0.1, 0.7, 3.0});
    const bool goes = rng.uniform() < 0.8;
    replica.drops = rng.uniform() < 0.6;
    if (i >= staying && goes) replica.until_s = replica.from_s + stays_s;
  }
  if (staying == 2) {  // the one that reads prompts may go where others do
    replicas.push_back(replicas.front());
    replicas.back().until_s = replicas.back().from_s + one_of(rng, {0.05, 0.3, 1.0});
    replicas.push_back(replicas[1]);
    replicas.back().until_s = replicas.back().from_s + one_of(rng, {0.05, 0.3, 1.0});
  }
  return c;
}

RC_GTEST_PROP(StretchesProperty, AreWhatSingleStepsAre, ()) {
  const auto seed = *rc::gen::resize(1000, rc::gen::arbitrary<std::uint64_t>());
  RC_LOG() << "seed " << seed;
  RC_ASSERT(skipped_and_not(random_case(seed)) == "");
}

TEST(Stretches, AreWhatSingleStepsAreInManyRuns) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    ASSERT_EQ(skipped_and_not(random_case(seed)), "") << "seed " << seed;
  }
}

TEST(Lockstep, IsWhatSingleStepsAre) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    ASSERT_EQ(skipped_and_not(crowded_case(seed)), "") << "seed " << seed;
  }
}

TEST(EnginesThatComeAndGo, AreWhatTheyAreInSingleSteps) {
  for (std::uint64_t seed = 0; seed < 1200; ++seed) {
    ASSERT_EQ(skipped_and_not(restless_case(seed)), "") << "seed " << seed;
  }
}

// Where a request was when its engine went: all of it is generated, once.
TEST(EnginesThatComeAndGo, LoseNoRequest) {
  std::int64_t handed_over = 0, read_again = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Case c = restless_case(seed);
    const Log log = simulate(c.deployment, c.traffic);
    ASSERT_EQ(log.cut_off, "") << "seed " << seed;
    std::int64_t prompts = 0, read = 0;
    for (std::size_t i = 0; i < log.requests.size(); ++i) {
      const RequestRecord& record = log.requests[i];
      ASSERT_NE(record.outcome, Outcome::unfinished) << "seed " << seed;
      ASSERT_NE(record.outcome, Outcome::rejected) << "seed " << seed;
      handed_over += record.transferred > 0 ? 1 : 0;
      if (record.outcome == Outcome::cancelled) continue;
      ASSERT_EQ(record.output_tokens, c.traffic.requests[i].output_tokens) << "seed " << seed;
      const Replica& last = c.deployment.replicas[static_cast<std::size_t>(record.replica)];
      ASSERT_FALSE(last.drops && last.until_s && record.last_token > to_ticks(*last.until_s, ""))
          << "seed " << seed;
      ASSERT_GE(record.first_scheduled, record.arrival) << "seed " << seed;
    }
    for (const ReplicaRecord& replica : log.replicas) read += replica.prompt_tokens;
    for (const Request& r : c.traffic.requests) prompts += r.prompt_tokens;
    read_again += read > prompts ? 1 : 0;
  }
  EXPECT_GT(handed_over, 1000);
  EXPECT_GT(read_again, 100);
}

// Whoever leaves, wherever a request is: the others end, and nothing of it stays behind.
TEST(Cancels, EndARunInWhichEveryRequestIsAccountedFor) {
  std::int64_t cancelled = 0, handed_over = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    const Case c = random_case(seed);
    const Log log = simulate(c.deployment, c.traffic);
    ASSERT_EQ(log.cut_off, "") << "seed " << seed;
    std::int64_t by_engines = 0;
    for (const ReplicaRecord& replica : log.replicas) by_engines += replica.num_cancelled;
    for (std::size_t i = 0; i < log.requests.size(); ++i) {
      const RequestRecord& record = log.requests[i];
      const bool left = record.outcome == Outcome::cancelled;
      ASSERT_NE(record.outcome, Outcome::unfinished) << "seed " << seed;
      ASSERT_EQ(left, record.cancelled != kNever) << "seed " << seed;
      if (!left) continue;
      const Ticks after = c.traffic.requests[i].cancel_after;
      ASSERT_GE(record.cancelled - record.arrival, after) << "seed " << seed;
      ASSERT_LT(record.output_tokens, c.traffic.requests[i].output_tokens) << "seed " << seed;
      ++cancelled;
      handed_over += record.transferred > 0 ? 1 : 0;
    }
    ASSERT_LE(by_engines, std::ssize(log.requests));
  }
  EXPECT_GT(cancelled, 1000);
  EXPECT_GT(handed_over, 10);
}

}  // namespace
}  // namespace tessera::serving::serving_stretches_property_test
