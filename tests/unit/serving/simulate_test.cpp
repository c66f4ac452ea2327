// The event loop: closed forms of queues, identities, and stretches taken at once against single
// steps.

#include "tessera/serving/simulate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "serving_logs.h"
#include "tessera/core/rng.h"

namespace tessera::serving::simulate_test {
namespace {

Deployment one_replica(EngineOptions engine, std::int64_t kv_blocks, LinearStepCost cost) {
  Replica replica;
  replica.name = "replica";
  replica.engine = std::move(engine);
  replica.kv_blocks = kv_blocks;
  replica.cost = std::make_shared<LinearStepCost>(cost);
  Deployment deployment;
  deployment.replicas = {replica};
  return deployment;
}

LinearStepCost cost_of(double base_s, double per_token_s, double per_sequence_s,
                       double per_context_s) {
  LinearStepCost cost;
  cost.base = to_ticks(base_s, "base_s");
  cost.per_token = to_ticks(per_token_s, "per_token_s");
  cost.per_sequence = to_ticks(per_sequence_s, "per_sequence_s");
  cost.per_context_token = to_ticks(per_context_s, "per_context_token_s");
  return cost;
}

EngineOptions plain_engine() {
  EngineOptions engine;
  engine.enable_prefix_caching = false;
  return engine;
}

Traffic equal_requests(std::int64_t count, std::int64_t prompt_tokens, std::int64_t output_tokens) {
  Request r;
  r.prompt_tokens = prompt_tokens;
  r.output_tokens = output_tokens;
  Traffic traffic;
  traffic.requests.assign(static_cast<std::size_t>(count), r);
  return traffic;
}

// Small enough that everything happens: preemptions, refusals, prefixes, chunks.
struct Case {
  Deployment deployment;
  Traffic traffic;
};

Case random_case(std::uint64_t seed) {
  Rng rng(seed);
  const auto pick = [&](std::initializer_list<std::int64_t> from) {
    return *(from.begin() + rng.integer(0, std::ssize(from) - 1));
  };
  Case c;
  EngineOptions engine;
  engine.max_num_seqs = pick({1, 2, 5, 16, 64});
  engine.max_num_batched_tokens = pick({17, 64, 256, 2048});
  engine.block_size = pick({1, 4, 16});
  engine.enable_prefix_caching = rng.uniform() < 0.5;
  engine.enable_chunked_prefill = engine.max_num_batched_tokens < 300 || rng.uniform() < 0.8;
  engine.long_prefill_token_threshold = pick({0, 0, 0, 32});
  engine.policy = rng.uniform() < 0.3 ? QueuePolicy::priority : QueuePolicy::fcfs;
  const auto cost = cost_of(0.01, rng.uniform() * 1e-4, rng.uniform() * 1e-3, rng.uniform() * 1e-6);
  const std::int64_t count = pick({1, 5, 30});
  std::int64_t longest = 0;
  Ticks at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    Request r;
    at += to_ticks(rng.uniform() * static_cast<double>(pick({0, 0, 1, 3})), "gap");
    r.arrival = at;
    r.prompt_tokens = pick({1, 7, 16, 33, 100, 200});
    r.output_tokens = pick({1, 2, 16, 50, 333});
    r.priority = static_cast<std::int32_t>(pick({0, 0, 1}));
    if (rng.uniform() < 0.5) {
      r.prefix_group = pick({0, 1});
      r.prefix_tokens = std::min<std::int64_t>(r.prompt_tokens, pick({16, 64, 100}));
    }
    longest = std::max(longest, r.prompt_tokens + r.output_tokens);
    c.traffic.requests.push_back(r);
  }
  const std::int64_t need = longest / engine.block_size + 2;
  const std::int64_t replicas = pick({1, 1, 3});
  c.deployment = one_replica(engine, need + pick({0, 5, 40, 1000}), cost);
  for (std::int64_t i = 1; i < replicas; ++i) {
    c.deployment.replicas.push_back(c.deployment.replicas.front());
  }
  const char* routers[] = {"round_robin", "least_requests", "least_tokens", "kv_aware"};
  c.deployment.router.name = routers[pick({0, 1, 2, 3})];
  return c;
}

void expect_same(const Log& a, const Log& b, std::uint64_t seed) {
  ASSERT_EQ(driven::difference(a, b), "") << "seed " << seed;
}

/// Runs a case with stretches and step by step, which have to agree; the log with stretches.
Log same_with_and_without_stretches(const Case& c, std::uint64_t seed) {
  Log skipped = simulate(c.deployment, c.traffic);
  SimulationOptions options;
  options.skip = false;
  expect_same(skipped, simulate(c.deployment, c.traffic, std::move(options)), seed);
  return skipped;
}

TEST(Simulate, StretchesAreWhatSingleStepsAre) {
  std::int64_t preemptions = 0, hits = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Case c = random_case(seed);
    const Log skipped = same_with_and_without_stretches(c, seed);
    if (HasFatalFailure()) return;
    EXPECT_EQ(skipped.cut_off, "");
    for (const ReplicaRecord& replica : skipped.replicas) {
      preemptions += replica.num_preemptions;
      hits += replica.prefix_hits;
    }
  }
  EXPECT_GT(preemptions, 500);  // the cases are worth it
  EXPECT_GT(hits, 500);
}

// Decided ahead, with ends that were foreseen and ends that were not.
TEST(Simulate, StretchesDecidedAheadAreWhatSingleStepsAre) {
  std::int64_t preemptions = 0, hits = 0, in_vain = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Case c = random_case(seed);
    for (Replica& replica : c.deployment.replicas) {
      replica.engine.async_scheduling = true;
      replica.kv_blocks += 4;
    }
    Rng rng(seed + 1);
    for (Request& r : c.traffic.requests) {
      if (rng.uniform() < 0.3) r.max_tokens = r.output_tokens + rng.integer(1, 4);
    }
    const Log skipped = same_with_and_without_stretches(c, seed);
    if (HasFatalFailure()) return;
    EXPECT_EQ(skipped.cut_off, "") << "seed " << seed;
    std::int64_t computed = 0, wanted = 0;
    for (const ReplicaRecord& replica : skipped.replicas) {
      preemptions += replica.num_preemptions;
      hits += replica.prefix_hits;
      computed += replica.scheduled_tokens - replica.recomputed_tokens;
    }
    for (std::size_t i = 0; i < skipped.requests.size(); ++i) {
      const Request& r = c.traffic.requests[i];
      const RequestRecord& record = skipped.requests[i];
      ASSERT_EQ(record.outcome, Outcome::finished) << "seed " << seed;
      ASSERT_EQ(record.output_tokens, r.output_tokens);
      wanted += r.prompt_tokens - record.cached_tokens + r.output_tokens - 1;
    }
    in_vain += std::max<std::int64_t>(0, computed - wanted);
  }
  EXPECT_GT(preemptions, 500);  // the cases are worth it
  EXPECT_GT(hits, 500);
  EXPECT_GT(in_vain, 500);
}

// Steps of one second. A request comes while step 1 of the one before runs; step 2 is decided, so
// it is in step 3. With step by step deciding it is in step 2.
TEST(Simulate, DecidedAheadARequestIsInTheStepAfterNext) {
  for (const bool ahead : {false, true}) {
    EngineOptions engine = plain_engine();
    engine.async_scheduling = ahead;
    Traffic traffic = equal_requests(2, 10, 5);
    traffic.requests[1].arrival = kTicksPerSecond / 2;
    const Log log = simulate(one_replica(engine, 100, cost_of(1, 0, 0, 0)), traffic);
    EXPECT_EQ(log.requests[0].first_token, kTicksPerSecond);
    EXPECT_EQ(log.requests[0].last_token, 5 * kTicksPerSecond);
    EXPECT_EQ(log.requests[1].first_token, (ahead ? 3 : 2) * kTicksPerSecond);
    EXPECT_EQ(log.requests[1].last_token, (ahead ? 7 : 6) * kTicksPerSecond);
  }
}

// An end that max_tokens foretells costs nothing; another one a token in vain, in the step that was
// decided before it was seen.
TEST(Simulate, DecidedAheadAnUnforeseenEndIsComputedOnceMore) {
  for (const std::int64_t max_tokens : {5, 9}) {
    EngineOptions engine = plain_engine();
    engine.async_scheduling = true;
    Traffic traffic = equal_requests(1, 10, 5);
    traffic.requests[0].max_tokens = max_tokens;
    const Log log = simulate(one_replica(engine, 100, cost_of(1, 0, 0, 0)), traffic);
    EXPECT_EQ(log.requests[0].last_token, 5 * kTicksPerSecond);
    EXPECT_EQ(log.requests[0].output_tokens, 5);
    EXPECT_EQ(log.replicas[0].scheduled_tokens, max_tokens == 5 ? 14 : 15);
    EXPECT_EQ(log.end, (max_tokens == 5 ? 5 : 6) * kTicksPerSecond);
  }
}

TEST(Simulate, StretchesOfEverySchedulerAreWhatSingleStepsAre) {
  for (const Card& card : schedulers().cards()) {
    SCOPED_TRACE(card.name);
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      Case c = random_case(seed);
      for (Replica& replica : c.deployment.replicas) {
        replica.kv_bytes_per_token = 1e5;
        EngineOptions& engine = replica.engine;
        engine.scheduler = card.name;
        engine.delay_factor = seed % 3 == 0 ? 2 : 0;
        if (card.name == "vllm_v1" && seed % 4 == 0) {
          engine.prefill_wait_steps = 5;
          (seed % 8 == 0 ? engine.prefill_wait_tokens : engine.prefill_wait_parts) = 3;
        }
        engine.static_slots = seed % 2 == 0 ? StaticSlots::idle : StaticSlots::shrink;
        if (seed % 2 == 0) engine.preemption_mode = PreemptionMode::swap;
        if (seed % 5 < 3) engine.enable_chunked_prefill.reset();
      }
      same_with_and_without_stretches(c, seed);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Simulate, TokensAreConserved) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Case c = random_case(seed);
    const Log log = simulate(c.deployment, c.traffic);
    std::int64_t scheduled = 0, wanted = 0;
    for (const ReplicaRecord& replica : log.replicas) {
      scheduled += replica.scheduled_tokens - replica.recomputed_tokens;
    }
    for (std::size_t i = 0; i < log.requests.size(); ++i) {
      const Request& r = c.traffic.requests[i];
      const RequestRecord& record = log.requests[i];
      ASSERT_EQ(record.outcome, Outcome::finished);
      ASSERT_EQ(record.output_tokens, r.output_tokens);
      ASSERT_LE(record.arrival, record.first_scheduled);
      ASSERT_LT(record.first_scheduled, record.first_token);
      ASSERT_LE(record.first_token, record.last_token);
      Ticks waited = 0;
      for (const Ticks ticks : record.waited) waited += ticks;
      ASSERT_EQ(waited, record.first_scheduled - record.arrival) << "seed " << seed;
      wanted += r.prompt_tokens - record.cached_tokens + r.output_tokens - 1;
    }
    // Blocks found again after a preemption are not computed anew.
    EXPECT_LE(scheduled, wanted) << "seed " << seed;
    const bool caches = c.deployment.replicas.front().engine.enable_prefix_caching;
    if (!caches) {
      EXPECT_EQ(scheduled, wanted) << "seed " << seed;
    }
  }
}

// One seat, one step per request: the step is the service.
double mean_wait(std::int64_t count, double rate, bool exponential, std::uint64_t seed) {
  EngineOptions engine = plain_engine();
  engine.max_num_seqs = 1;
  engine.max_num_batched_tokens = 1'000'000'000;
  Traffic traffic;
  Rng rng(seed);
  double at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    at += -std::log1p(-rng.uniform()) / rate;
    Request r;
    r.arrival = to_ticks(at, "arrival");
    const double service = exponential ? -std::log1p(-rng.uniform()) : 1;
    r.prompt_tokens = std::max<std::int64_t>(1, std::llround(service * 1e5));
    traffic.requests.push_back(r);
  }
  const Log log = simulate(one_replica(engine, 1'000'000'000, cost_of(0, 1e-5, 0, 0)), traffic);
  double sum = 0;
  for (const RequestRecord& record : log.requests) {
    sum += to_seconds(record.first_scheduled - record.arrival);
  }
  return sum / static_cast<double>(count);
}

// M/M/1: W_q = rho / (1 - rho). The variance of the mean of n waits is rho (2 + 5 rho - 4 rho^2 +
// rho^3) / (1 - rho)^4 / n; three standard deviations.
TEST(Simulate, WaitsAsOneExponentialServer) {
  for (const double rho : {0.5, 0.8}) {
    const std::int64_t count = 400'000;
    const double variance =
        rho * (2 + 5 * rho - 4 * rho * rho + rho * rho * rho) / std::pow(1 - rho, 4);
    EXPECT_NEAR(mean_wait(count, rho, true, 7), rho / (1 - rho),
                3 * std::sqrt(variance / static_cast<double>(count)));
  }
}

// M/D/1: W_q = rho / (2 (1 - rho)). Its waits vary less than those of M/M/1, whose bound is taken.
TEST(Simulate, WaitsAsOneServerOfFixedService) {
  for (const double rho : {0.5, 0.8, 0.9}) {
    const std::int64_t count = 400'000;
    const double variance =
        rho * (2 + 5 * rho - 4 * rho * rho + rho * rho * rho) / std::pow(1 - rho, 4);
    EXPECT_NEAR(mean_wait(count, rho, false, 7), rho / (2 * (1 - rho)),
                3 * std::sqrt(variance / static_cast<double>(count)));
  }
}

TEST(Simulate, OneRequestTakesTheSumOfItsSteps) {
  EngineOptions engine = plain_engine();
  Traffic traffic;
  Request r;
  r.prompt_tokens = 100;
  r.output_tokens = 5;
  r.arrival = kTicksPerSecond;
  traffic.requests = {r};
  const Log log = simulate(one_replica(engine, 100, cost_of(1, 0.01, 0.1, 0.001)), traffic);
  const RequestRecord& record = log.requests[0];
  EXPECT_EQ(record.first_token - record.arrival, to_ticks(1 + 1 + 0.1, ""));
  // Contexts 100, 101, 102, 103.
  EXPECT_EQ(record.last_token - record.first_token, to_ticks(4 * (1 + 0.01 + 0.1) + 0.406, ""));
}

// What steps had done by the horizon a stretch has done too; and those that never were in a step
// have waited until the end.
TEST(Simulate, AHorizonCutsStretchesWhereItCutsSteps) {
  EngineOptions engine = plain_engine();
  engine.max_num_seqs = 1;
  const Deployment deployment = one_replica(engine, 100, cost_of(0.01, 1e-4, 0, 1e-6));
  const Traffic traffic = equal_requests(3, 100, 1000);
  Log logs[2];
  for (const bool skip : {false, true}) {
    SimulationOptions options;
    options.skip = skip;
    options.horizon_s = 3;
    logs[skip ? 1 : 0] = simulate(deployment, traffic, std::move(options));
  }
  expect_same(logs[1], logs[0], 0);
  EXPECT_GT(logs[0].requests[0].output_tokens, 200);
  EXPECT_NE(logs[0].cut_off, "");
  const RequestRecord& waiting = logs[0].requests[1];
  EXPECT_EQ(waiting.first_scheduled, kNever);
  EXPECT_EQ(waiting.waited[static_cast<std::size_t>(Limit::seats)], logs[0].end);
}

// 100 + 61 tokens, of which the last is never computed, fill ten blocks of 16; orca sets memory
// aside for the last one too.
TEST(Simulate, EverySchedulerTakesWhatJustFits) {
  for (const Card& card : schedulers().cards()) {
    EngineOptions engine = plain_engine();
    engine.scheduler = card.name;
    engine.watermark = 0;
    const Log log =
        simulate(one_replica(engine, card.name == "orca" ? 11 : 10, cost_of(0.01, 0, 0, 0)),
                 equal_requests(1, 100, 61));
    EXPECT_EQ(log.requests[0].outcome, Outcome::finished) << card.name << ": " << log.cut_off;
    EXPECT_EQ(log.cut_off, "") << card.name;
  }
}

// Prompts of whole blocks that fill the decode engine's cache, each short of its first new slot.
TEST(Simulate, DecodePoolsGoOnWithFullCaches) {
  Deployment deployment = one_replica(plain_engine(), 2000, cost_of(0.01, 1e-5, 0, 0));
  deployment.replicas.push_back(deployment.replicas.front());
  deployment.replicas[0].role = Role::prefill;
  deployment.replicas[1].role = Role::decode;
  deployment.replicas[1].kv_blocks = 320;
  for (Replica& replica : deployment.replicas) replica.kv_bytes_per_token = 1e5;
  deployment.transfer.bytes_per_s = 1e9;
  const Log log = simulate(deployment, equal_requests(20, 512, 16));
  EXPECT_EQ(log.cut_off, "");
  for (const RequestRecord& record : log.requests) EXPECT_EQ(record.outcome, Outcome::finished);
}

// Requests that have come hold the blocks that the first in the queue, which was preempted, needs:
// the last of them gives its up, and is computed here.
TEST(Simulate, DecodePoolsGoOnWhereWaitingRequestsHoldAllBlocks) {
  Deployment deployment = one_replica(EngineOptions{}, 2000, cost_of(0.01, 0, 0, 0));
  deployment.replicas.push_back(deployment.replicas.front());
  deployment.replicas[0].role = Role::prefill;
  deployment.replicas[1].role = Role::decode;
  deployment.replicas[1].kv_blocks = 8;
  Traffic traffic = equal_requests(200, 1, 100);
  for (std::size_t i = 0; i < traffic.requests.size(); ++i) {
    traffic.requests[i].arrival = static_cast<Ticks>(i) * kTicksPerSecond;
  }
  for (const Card& card : schedulers().cards()) {
    deployment.replicas[1].engine.scheduler = card.name;
    const Log log = simulate(deployment, traffic);
    EXPECT_EQ(log.cut_off, "") << card.name;
    for (const RequestRecord& record : log.requests) {
      ASSERT_EQ(record.outcome, Outcome::finished) << card.name;
    }
  }
}

// A prompt is read in 1 s and its keys and values take 1 s to a decode engine, whose steps take
// 0.1 s.
Deployment pools_of(std::size_t prefill, std::size_t decode) {
  Deployment deployment;
  for (std::size_t i = 0; i < prefill + decode; ++i) {
    const bool reads = i < prefill;
    deployment.replicas.push_back(
        one_replica(plain_engine(), 1000, cost_of(reads ? 1 : 0.1, 0, 0, 0)).replicas.front());
    deployment.replicas.back().role = reads ? Role::prefill : Role::decode;
  }
  deployment.transfer.latency_s = 1;
  return deployment;
}

TEST(Simulate, PoolsLoseNoRequestOfAnEngineThatGoes) {
  const Traffic traffic = equal_requests(1, 100, 11);
  const Log undisturbed = simulate(pools_of(1, 1), traffic);
  EXPECT_EQ(undisturbed.requests[0].last_token, 3 * kTicksPerSecond);
  struct Gone {
    bool prefill;
    double until_s, last_s;  ///< where it gives back what it has; else nothing changes
  };
  const Gone cases[] = {
      {true, 0.5, 3.5},   // while it is read: read again at once
      {true, 1.5, 4.4},   // on the way: read again with its first token, then ten steps less one
      {true, 2.5, 3},     // its keys and values are elsewhere
      {false, 1.5, 4.4},  // on the way there
      {false, 2.55, 4.95}};
  for (const Gone& gone : cases) {
    for (const bool drops : {false, true}) {
      Deployment deployment = pools_of(2, 2);
      Replica& goes = deployment.replicas[gone.prefill ? 0 : 2];
      goes.until_s = gone.until_s;
      goes.drops = drops;
      const Log log = simulate(deployment, traffic);
      EXPECT_EQ(log.cut_off, "");
      EXPECT_EQ(log.requests[0].output_tokens, 11);
      EXPECT_EQ(to_seconds(log.requests[0].last_token), drops ? gone.last_s : 3)
          << gone.until_s << (drops ? ", drops" : "");
    }
  }
}

// What was read waits, with its blocks, until somebody comes to decode it.
TEST(Simulate, PoolsWaitForADecodeEngineToCome) {
  Deployment deployment = pools_of(1, 1);
  deployment.replicas[1].from_s = 5;
  const Traffic traffic = equal_requests(2, 100, 11);
  const Log log = simulate(deployment, traffic);
  EXPECT_EQ(log.cut_off, "");
  EXPECT_EQ(to_seconds(log.requests[0].first_token), 1);
  EXPECT_EQ(to_seconds(log.requests[0].last_token), 7);
  deployment.replicas[1].from_s = 0;
  deployment.replicas[1].until_s = 0.5;
  const Log never = simulate(deployment, traffic);
  EXPECT_TRUE(never.stuck);
  EXPECT_EQ(never.cut_off, "2 requests that were read wait for a decode engine to come");
}

// The seat of a request that is read and waits, once its client has left, is the next one's.
TEST(Simulate, SharedQueueGetsTheSeatOfWhoLeaves) {
  Deployment deployment = pools_of(1, 1);
  deployment.router.name = "shared_queue";
  deployment.replicas[0].engine.max_num_seqs = 1;
  deployment.replicas[1].from_s = 8;
  Traffic traffic = equal_requests(2, 100, 11);
  traffic.requests[0].cancel_after = 5 * kTicksPerSecond;
  const Log log = simulate(deployment, traffic);
  EXPECT_EQ(log.requests[0].outcome, Outcome::cancelled);
  EXPECT_EQ(to_seconds(log.requests[1].first_scheduled), 5);
  EXPECT_EQ(to_seconds(log.requests[1].last_token), 10);
}

TEST(Simulate, SeveralRequestsMayWaitForOne) {
  Traffic traffic = equal_requests(3, 10, 2);
  traffic.requests[1].after = traffic.requests[2].after = 0;
  const Log log = simulate(one_replica(plain_engine(), 100, cost_of(0.01, 0, 0, 0)), traffic);
  EXPECT_EQ(log.cut_off, "");
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(log.requests[i].arrival, log.requests[0].last_token);
    EXPECT_EQ(log.requests[i].outcome, Outcome::finished);
  }
}

TEST(Simulate, EndsAfterSoManySteps) {
  SimulationOptions options;
  options.skip = false;
  options.most_steps = 5;
  const Log log = simulate(one_replica(plain_engine(), 100, cost_of(0.01, 0, 0, 0)),
                           equal_requests(1, 10, 100), std::move(options));
  EXPECT_EQ(log.cut_off, "5 steps were taken");
}

}  // namespace
}  // namespace tessera::serving::simulate_test
