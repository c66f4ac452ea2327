// Engines on the same devices take turns; engines come and go while a run goes on.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "expect_error.h"
#include "serving_logs.h"
#include "tessera/core/rng.h"
#include "tessera/serving/simulate.h"

namespace tessera::serving::serving_clocks_property_test {
namespace {

using Devices = std::vector<std::vector<std::int32_t>>;

Replica engine(const std::string& name, Devices devices = {}) {
  LinearStepCost cost;
  cost.base = kTicksPerSecond / 100;
  cost.per_token = kTicksPerSecond / 10'000;
  Replica replica;
  replica.name = name;
  replica.cost = std::make_shared<LinearStepCost>(cost);
  replica.kv_blocks = 10'000;
  replica.devices = std::move(devices);
  return replica;
}

Traffic random_traffic(Rng& rng, std::int64_t count = 40) {
  Traffic traffic;
  Ticks at = kTicksPerSecond / 10;
  for (std::int64_t i = 0; i < count; ++i) {
    Request r;
    at += kTicksPerSecond / 100 * rng.integer(0, 30);
    r.arrival = at;
    r.prompt_tokens = rng.integer(1, 200);
    r.output_tokens = rng.integer(1, 60);
    traffic.requests.push_back(r);
  }
  return traffic;
}

Log run(const Deployment& deployment, const Traffic& traffic, bool steps) {
  SimulationOptions options;
  options.record_steps = steps;
  return simulate(deployment, traffic, std::move(options));
}

void expect_all_answered(const Traffic& traffic, const Log& log) {
  EXPECT_EQ(log.cut_off, "");
  for (std::size_t i = 0; i < traffic.requests.size(); ++i) {
    ASSERT_EQ(log.requests[i].outcome, Outcome::finished) << i;
    ASSERT_EQ(log.requests[i].output_tokens, traffic.requests[i].output_tokens) << i;
  }
}

// Two at a time never; and while somebody has work nobody is idle.
TEST(DeviceClocks, ComputeOneStepAtATimeWithoutAPause) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    Deployment deployment;
    const std::int64_t count = rng.integer(2, 4);
    for (std::int64_t i = 0; i < count; ++i) {
      deployment.replicas.push_back(engine(fmt::format("e{}", i), {{7, 8}}));
      deployment.replicas.back().engine.max_num_seqs = rng.integer(1, 8);
    }
    const Traffic traffic = random_traffic(rng);
    const Log log = run(deployment, traffic, true);
    expect_all_answered(traffic, log);
    for (std::size_t i = 1; i < log.steps.size(); ++i) {
      const StepRecord& before = log.steps[i - 1];
      const Ticks end = before.start + before.duration;
      ASSERT_GE(log.steps[i].start, end) << "seed " << seed;
      for (const RequestRecord& r : log.requests) {
        const bool waits = r.arrival < end && r.last_token > end;
        ASSERT_FALSE(waits && log.steps[i].start > end) << "seed " << seed;
      }
    }
  }
}

// A stage on several devices waits for all of them, and none else waits for it.
TEST(DeviceClocks, AreHeldByAllStagesThatNameThem) {
  Deployment deployment;
  deployment.replicas = {engine("wide", {{0, 1}}), engine("left", {{0}}), engine("right", {{1}})};
  Traffic traffic;
  for (int i = 0; i < 3; ++i) {
    Request r;
    r.prompt_tokens = 100;
    traffic.requests.push_back(r);
  }
  const Log log = run(deployment, traffic, true);
  ASSERT_EQ(log.steps.size(), 3u);
  const Ticks step = log.steps[0].duration;
  EXPECT_EQ(log.steps[0].replica, 0);
  EXPECT_EQ(log.steps[1].start, step);
  EXPECT_EQ(log.steps[2].start, step);
  EXPECT_EQ(log.end, 2 * step);
}

Deployment some_engines(Rng& rng) {
  Deployment deployment;
  const std::int64_t count = rng.integer(1, 3);
  const bool shared = rng.uniform() < 0.5;
  for (std::int64_t i = 0; i < count; ++i) {
    deployment.replicas.push_back(engine(fmt::format("e{}", i), shared ? Devices{{0}} : Devices{}));
    deployment.replicas.back().engine.async_scheduling = rng.uniform() < 0.5;
  }
  deployment.router.name = rng.uniform() < 0.5 ? "least_requests" : "round_robin";
  return deployment;
}

RC_GTEST_PROP(DeviceClocksProperty, AnIdleEngineThatComesAndGoesChangesNothing, ()) {
  Rng rng(*rc::gen::resize(1000, rc::gen::arbitrary<std::uint64_t>()));
  const Deployment alone = some_engines(rng);
  const Traffic traffic = random_traffic(rng);
  Deployment with = alone;
  with.replicas.push_back(engine("idle", alone.replicas.front().devices));
  with.replicas.back().from_s = rng.uniform() < 0.5 ? 0 : 0.01;
  with.replicas.back().until_s = 0.05;
  with.replicas.back().drops = rng.uniform() < 0.5;
  Log log = simulate(with, traffic);
  RC_ASSERT(log.replicas.back().num_steps == 0);
  log.replicas.pop_back();
  RC_ASSERT(driven::difference(simulate(alone, traffic), log) == "");
}

// Whoever goes ends what it has, or others do; nobody sends it anything from then on.
RC_GTEST_PROP(DeviceClocksProperty, EngineThatGoesLosesNoRequest, ()) {
  Rng rng(*rc::gen::resize(1000, rc::gen::arbitrary<std::uint64_t>()));
  Deployment deployment = some_engines(rng);
  const Traffic traffic = random_traffic(rng);
  deployment.replicas.push_back(engine("goes", deployment.replicas.front().devices));
  Replica& goes = deployment.replicas.back();
  goes.until_s = rng.uniform() * 5 + 0.05;
  goes.drops = rng.uniform() < 0.5;
  deployment.replicas.push_back(engine("comes", goes.devices));
  deployment.replicas.back().from_s = rng.uniform() * 5 + 0.05;
  const bool gap = rng.uniform() < 0.3;  // nobody is there for a while
  if (gap) deployment.replicas.erase(deployment.replicas.begin(), deployment.replicas.end() - 2);
  const Log log = simulate(deployment, traffic);
  expect_all_answered(traffic, log);
  const auto number = static_cast<std::int32_t>(std::ssize(deployment.replicas) - 2);
  const Ticks until = to_ticks(*deployment.replicas[static_cast<std::size_t>(number)].until_s, "");
  for (const RequestRecord& r : log.requests) {
    RC_ASSERT(r.replica != number || r.arrival < until);
    const bool dropped = deployment.replicas[static_cast<std::size_t>(number)].drops;
    RC_ASSERT(!dropped || r.replica != number || r.last_token <= until);
  }
  SimulationOptions plain;
  plain.skip = false;
  RC_ASSERT(driven::difference(log, simulate(deployment, traffic, std::move(plain))) == "");
}

TEST(DeviceClocks, RefuseWhatCannotBe) {
  Rng rng(1);
  const Traffic traffic = random_traffic(rng, 2);
  const auto refuses = [&](const std::string& why, auto&& change) {
    Deployment deployment;
    deployment.replicas = {engine("a")};
    change(deployment.replicas.front());
    const auto run_it = [&] { simulate(deployment, traffic); };
    test::expect_error(ErrorCode::invalid_argument, {why}, run_it);
  };
  refuses("a goes at 1 s, before it comes at 2 s", [](Replica& r) { r.from_s = 2, r.until_s = 1; });
  refuses("a has 1 stages, and devices of 2", [](Replica& r) { r.devices = {{0}, {1}}; });
}

}  // namespace
}  // namespace tessera::serving::serving_clocks_property_test
