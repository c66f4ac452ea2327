// An engine that serves with a model: its log is the simulator's to the tick where time is the
// latency model's, and by itself where time is real; its tokens are those of one text by itself.

#include "tessera/run/serve_traffic.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "expect_error.h"
#include "fake_language_model.h"
#include "serving_logs.h"
#include "tessera/core/rng.h"
#include "tessera/lm/generate.h"
#include "tessera/serving/replay.h"

namespace tessera::run::serve_traffic_test {
namespace {

using serving::Deployment;
using serving::kTicksPerSecond;
using serving::Log;
using serving::Outcome;
using serving::Replica;
using serving::Request;
using serving::SimulationOptions;
using serving::Ticks;
using serving::Traffic;

template <class Value>
Value one_of(Rng& rng, std::initializer_list<Value> values) {
  return values.begin()[rng.integer(0, std::ssize(values) - 1)];
}

/// What follows a token, given the one before it, which is read from the cache: few texts, that
/// repeat themselves.
std::shared_ptr<lm::fakes::FakeModel> repeating_model() {
  auto model = std::make_shared<lm::fakes::FakeModel>(
      lm::fakes::FakeModel::Options{.num_layers = 2, .max_context_tokens = 400});
  model->logit = [](std::int32_t before, std::int32_t last, std::int32_t token) {
    return token == (5 * last + 3 * std::max(before, 0) + 1) % 11 ? 9.0f : 0.0f;
  };
  return model;
}

/// Guesses as that model does, but for some tokens.
std::shared_ptr<lm::fakes::FakeModel> guessing_model() {
  auto model = std::make_shared<lm::fakes::FakeModel>(
      lm::fakes::FakeModel::Options{.num_layers = 1, .max_context_tokens = 300});
  model->logit = [](std::int32_t before, std::int32_t last, std::int32_t token) {
    const std::int32_t wrong = last % 4 == 1 ? 1 : 0;
    return token == (5 * last + 3 * std::max(before, 0) + 1 + wrong) % 11 ? 9.0f : 0.0f;
  };
  return model;
}

/// What follows depends on the first token, the last two, and the place.
std::shared_ptr<lm::fakes::FakeModel> plain_model() {
  return std::make_shared<lm::fakes::FakeModel>(
      lm::fakes::FakeModel::Options{.num_layers = 2, .max_context_tokens = 400});
}

/// A pipeline, in which several steps are under way.
struct PipelineCost final : serving::StepCost {
  std::size_t num_stages() const override { return 3; }
  Ticks stage(const serving::StepLoad& load, std::size_t k) const override {
    return kTicksPerSecond / 100 * (k == 1 ? 2 : 1) + 100'000'000 * load.tokens;
  }
  Ticks hop(const serving::StepLoad&, std::size_t) const override { return 1'000'000'000; }
  std::optional<serving::DecodeLine> decode_line(std::int64_t, std::int64_t) const override {
    return std::nullopt;
  }
};

struct Case {
  std::string scheduler;
  bool speculates = false;
  Deployment deployment;
  Traffic traffic;
};

void add_turns(Rng& rng, Traffic& traffic) {
  for (std::size_t i = 1; i < traffic.requests.size(); ++i) {
    Request &r = traffic.requests[i], &before = traffic.requests[i - 1];
    if (rng.uniform() < 0.4 || before.prompt_tokens > 100) continue;
    r.after = static_cast<std::int64_t>(i) - 1;
    r.arrival = one_of<Ticks>(rng, {0, kTicksPerSecond / 100, kTicksPerSecond / 3});
    if (before.stream < 0) before.stream = static_cast<std::int64_t>(i) - 1;
    r.stream = before.stream;
    r.prefix_group = before.prefix_group;
    r.prefix_tokens = before.prefix_tokens;
    r.prompt_tokens = before.prompt_tokens + before.output_tokens + rng.integer(1, 20);
  }
}

Traffic random_traffic(Rng& rng) {
  Traffic traffic;
  Ticks at = 0;
  for (std::int64_t i = 0; i < 24; ++i) {
    Request r;
    at += kTicksPerSecond / 100 * one_of<Ticks>(rng, {0, 0, 1, 7, 20});
    r.arrival = at;
    r.prompt_tokens = one_of<std::int64_t>(rng, {9, 16, 33, 70});
    r.output_tokens = one_of<std::int64_t>(rng, {1, 2, 16, 40, 80});
    r.priority = static_cast<std::int32_t>(rng.integer(0, 1));
    if (rng.uniform() < 0.6) {
      r.prefix_group = rng.integer(0, 2);
      r.prefix_tokens = std::min(r.prompt_tokens - 8, one_of<std::int64_t>(rng, {8, 32, 50}));
    }
    if (rng.uniform() < 0.3) r.max_tokens = r.output_tokens + rng.integer(1, 4);
    if (rng.uniform() < 0.2) r.cancel_after = kTicksPerSecond / 100 * rng.integer(0, 60);
    traffic.requests.push_back(r);
  }
  const double kind = rng.uniform();
  if (kind < 0.4) add_turns(rng, traffic);
  if (kind > 0.8) {
    traffic.concurrency = rng.integer(1, 8);
    for (Request& r : traffic.requests) r.arrival = 0;
  }
  return traffic;
}

Case random_case(std::uint64_t seed) {
  Rng rng(seed);
  Case c;
  c.traffic = random_traffic(rng);
  Replica replica;
  replica.name = "engine";
  serving::EngineOptions& engine = replica.engine;
  engine.scheduler =
      one_of<const char*>(rng, {"vllm_v1", "vllm_v1", "vllm_v0", "vllm_v0", "sarathi", "sglang",
                                "orca", "static", "micro_batches"});
  c.scheduler = engine.scheduler;
  engine.max_num_seqs = one_of<std::int64_t>(rng, {2, 5, 64});
  engine.max_num_batched_tokens = one_of<std::int64_t>(rng, {64, 2048});
  engine.max_model_len = 200;
  engine.block_size = one_of<std::int64_t>(rng, {4, 16});
  engine.enable_prefix_caching = rng.uniform() < 0.7;
  engine.enable_chunked_prefill = true;
  engine.policy = one_of(rng, {serving::QueuePolicy::fcfs, serving::QueuePolicy::priority});
  engine.preemption_mode =
      one_of(rng, {serving::PreemptionMode::recompute, serving::PreemptionMode::swap});
  engine.delay_factor = one_of(rng, {0.0, 0.0, 0.5});
  if (engine.scheduler == "vllm_v1" && rng.uniform() < 0.2) {
    engine.prefill_wait_steps = rng.integer(1, 6);
    engine.prefill_wait_tokens = rng.integer(8, 64);
  }
  c.speculates =
      rng.uniform() < 0.4 && engine.scheduler != "static" && engine.scheduler != "micro_batches";
  if (c.speculates) {
    engine.speculative = serving::Speculation{.num_tokens = rng.integer(1, 4)};
  } else if (engine.scheduler == "vllm_v1" && rng.uniform() < 0.5) {
    engine.async_scheduling = true;
  }
  serving::LinearStepCost cost;
  cost.base = kTicksPerSecond / 100 * rng.integer(1, 2);
  cost.per_token = rng.integer(0, 2) * 100'000'000;
  cost.per_context_token = rng.integer(0, 1) * 1'000'000;
  replica.cost = std::make_shared<serving::LinearStepCost>(cost);
  if (!engine.async_scheduling && rng.uniform() < 0.3) {
    replica.cost = std::make_shared<PipelineCost>();
  }
  replica.kv_bytes_per_token = 1e5;
  replica.kv_blocks = 200 / engine.block_size + one_of<std::int64_t>(rng, {3, 3, 6, 20, 400});
  c.deployment.replicas.push_back(replica);
  c.deployment.api_s = one_of(rng, {0.0, 0.01});
  return c;
}

// Has a speculating engine ask a model for drafts.
void guess_by_model(Case& c, ServeRequest& request) {
  if (!c.speculates) return;
  c.deployment.replicas.front().engine.speculative->method = serving::DraftMethod::draft_model;
  request.draft_model = guessing_model();
}

SimulationOptions recording() {
  SimulationOptions options;
  options.record_steps = true;
  return options;
}

std::string difference(const Log& a, const Log& b) {
  const std::string steps = serving::first_difference(a, b);
  return steps.empty() ? serving::driven::difference(a, b) : steps;
}

/// The tokens of every request, and what the model says to its prompt by itself.
void expect_own_tokens(const lm::LanguageModel& model, const Log& log,
                       const std::vector<serving::Output>& outputs, const std::string& of) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const serving::Output& output = outputs[i];
    if (output.tokens.empty()) continue;
    const lm::Generation alone = lm::generate(model, output.prompt,
                                              {.sampling = {.temperature = 0},
                                               .max_tokens = std::ssize(output.tokens),
                                               .ignore_stop_tokens = true});
    ASSERT_EQ(output.tokens, alone.tokens) << of << ", request " << i;
    ASSERT_EQ(std::ssize(output.tokens), log.requests[i].output_tokens) << of;
  }
}

serving::Served served_of(const Case& c, serving::Ran ran) {
  return {.log = std::move(ran.log),
          .outputs = std::move(ran.outputs),
          .traffic = std::make_shared<const Traffic>(c.traffic),
          .deployment = std::make_shared<const Deployment>(c.deployment)};
}

TEST(ServeTraffic, ByTheModelsClockIsTheSimulation) {
  std::map<std::string, std::int64_t> seen;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Case c = random_case(seed);
    const std::string of = fmt::format("seed {}, {}", seed, c.scheduler);
    SCOPED_TRACE(of);
    const auto model = c.speculates ? repeating_model() : plain_model();
    ServeRequest request{.model = model, .clock = ServeClock::model};
    if (seed % 2 == 0) guess_by_model(c, request);
    const serving::Ran ran = serve_traffic(request, c.deployment, c.traffic, recording());
    // How many tokens were guessed and passed only the model knows.
    serving::Recorded recorded{.log = &ran.log, .with_times = false};
    SimulationOptions options = recording();
    if (c.speculates) options.recorded = &recorded;
    ASSERT_EQ(difference(serving::simulate(c.deployment, c.traffic, options), ran.log), "") << of;
    expect_own_tokens(*model, ran.log, ran.outputs, of);
    const serving::Served served = served_of(c, ran);
    const serving::Replay replay = serving::replay(serving::replay_card(served), served.log);
    ASSERT_EQ(replay.first_difference.value_or(""), "") << of;
    ASSERT_TRUE(replay.identical);
    ++seen[c.scheduler];
    seen["pipelines"] += c.deployment.replicas.front().num_stages() > 1 ? 1 : 0;
    const serving::ReplicaRecord& sums = ran.log.replicas.front();
    seen["preemptions"] += sums.num_preemptions;
    seen["swaps"] += sums.num_swaps;
    seen["found tokens"] += sums.prefix_hits;
    const bool by_model = request.draft_model != nullptr;
    seen[by_model ? "accepted of a model" : "accepted"] += sums.accepted_tokens;
    seen[by_model ? "refused of a model" : "refused"] += sums.drafted_tokens - sums.accepted_tokens;
    for (const serving::RequestRecord& r : ran.log.requests) {
      seen["cancelled"] += r.outcome == Outcome::cancelled ? 1 : 0;
    }
  }
  for (const char* what : {"vllm_v1", "vllm_v0", "sarathi", "sglang", "orca", "static",
                           "micro_batches", "pipelines"}) {
    EXPECT_GE(seen[what], 10) << what;
  }
  for (const char* what : {"preemptions", "swaps", "found tokens", "accepted", "refused",
                           "accepted of a model", "refused of a model", "cancelled"}) {
    EXPECT_GE(seen[what], 100) << what;
  }
}

TEST(ServeTraffic, ByTheWallsClockIsReplayedAlike) {
  std::int64_t cancelled = 0, accepted = 0, preempted = 0;
  for (std::uint64_t seed = 1000; seed < 1040; ++seed) {
    Case c = random_case(seed);
    const std::string of = fmt::format("seed {}, {}", seed, c.scheduler);
    // A hundred times as fast, so that arrivals and cancels meet steps of about 0.1 ms; or nearly
    // all at once, so that blocks get short on any machine.
    for (Request& r : c.traffic.requests) {
      r.arrival /= seed % 2 == 0 ? 100 : 10'000;
      if (r.cancel_after != serving::kNever) r.cancel_after /= 100;
    }
    const auto model = c.speculates ? repeating_model() : plain_model();
    const serving::Ran ran = serve_traffic({.model = model}, c.deployment, c.traffic, recording());
    EXPECT_EQ(ran.log.cut_off, "") << of;
    expect_own_tokens(*model, ran.log, ran.outputs, of);
    const serving::Served served = served_of(c, ran);
    const serving::Replay replay = serving::replay(serving::replay_card(served), served.log);
    ASSERT_EQ(replay.first_difference.value_or(""), "") << of;
    for (const serving::RequestRecord& r : ran.log.requests) {
      cancelled += r.outcome == Outcome::cancelled ? 1 : 0;
    }
    accepted += ran.log.replicas.front().accepted_tokens;
    preempted += ran.log.replicas.front().num_preemptions;
  }
  EXPECT_GT(cancelled, 0);
  EXPECT_GT(accepted, 100);
  EXPECT_GT(preempted, 0);
}

// A replay that could not fail would show nothing.
TEST(ServeTraffic, ReplaySeesEveryChange) {
  std::int64_t found = 0;
  const Case c = random_case(3);
  const serving::Served served =
      served_of(c, serve_traffic({.model = plain_model(), .clock = ServeClock::model}, c.deployment,
                                 c.traffic, recording()));
  const serving::ReplayCard card = serving::replay_card(served);
  ASSERT_GT(served.log.steps.size(), 10u);
  for (std::size_t i = 0; i < served.log.steps.size(); i += 5) {
    for (int what = 0; what < 4; ++what) {
      Log log = served.log;
      serving::StepRecord& step = log.steps[i];
      if (what == 0 && !step.scheduled.empty()) ++step.scheduled.front().tokens;
      if (what == 1) --step.free_blocks;
      if (what == 2) step.preempted.push_back(0);
      if (what == 3) step.finished.push_back(0);
      const serving::Replay replay = serving::replay(card, log);
      EXPECT_FALSE(replay.identical) << i << " " << what;
      const std::string where = fmt::format("step {}:", i);
      EXPECT_TRUE(replay.first_difference.value_or("").starts_with(where))
          << *replay.first_difference;
      ++found;
    }
  }
  EXPECT_GE(found, 8);
  serving::ReplayCard other = card;
  other.engine.max_num_seqs = 1;
  EXPECT_FALSE(serving::replay(other, served.log).identical);
}

TEST(ServeTraffic, StreamsTokensAsTheyCome) {
  Case c = random_case(5);
  std::vector<std::vector<std::int32_t>> streamed(c.traffic.requests.size());
  ServeRequest request{.model = plain_model(), .clock = ServeClock::model};
  request.on_tokens = [&](std::int64_t id, std::span<const std::int32_t> tokens) {
    auto& all = streamed[static_cast<std::size_t>(id)];
    all.insert(all.end(), tokens.begin(), tokens.end());
  };
  const serving::Ran ran = serve_traffic(request, c.deployment, c.traffic, recording());
  for (std::size_t i = 0; i < streamed.size(); ++i) {
    EXPECT_EQ(streamed[i], ran.outputs[i].tokens) << i;
  }
}

TEST(ServeTraffic, EndsWhereTheModelDoes) {
  auto model = std::make_shared<lm::fakes::FakeModel>();
  model->logit = [](std::int32_t before, std::int32_t last, std::int32_t token) {
    const std::int32_t next = (before + last) % 7 == 3 ? lm::fakes::kEnd : (last + 1) % 200;
    return token == next ? 9.0f : 0.0f;
  };
  const Case c = random_case(8);
  const serving::Ran ran =
      serve_traffic({.model = model, .clock = ServeClock::model, .ignore_stop_tokens = false},
                    c.deployment, c.traffic, recording());
  std::int64_t stopped = 0;
  for (std::size_t i = 0; i < ran.outputs.size(); ++i) {
    const serving::Output& output = ran.outputs[i];
    if (output.stop_reason.empty()) continue;
    const lm::Generation alone = lm::generate(
        *model, output.prompt,
        {.sampling = {.temperature = 0}, .max_tokens = c.traffic.requests[i].output_tokens});
    EXPECT_EQ(output.tokens, alone.tokens) << i;
    EXPECT_EQ(output.stop_reason, name_of(alone.stop_reason)) << i;
    stopped += output.stop_reason == "stop_token" ? 1 : 0;
  }
  EXPECT_GT(stopped, 3);
  const serving::Served served = served_of(c, ran);
  const serving::Replay replay = serving::replay(serving::replay_card(served), served.log);
  EXPECT_EQ(replay.first_difference.value_or(""), "");
}

// The same draws in any batch: they depend on seed and place alone.
TEST(ServeTraffic, SamplesWhatOneTextSamples) {
  for (const bool speculates : {false, true}) {
    Case c = random_case(13);
    c.deployment.replicas.front().engine.speculative.reset();
    if (speculates) {
      c.deployment.replicas.front().engine.async_scheduling.reset();
      c.deployment.replicas.front().engine.speculative = serving::Speculation{.num_tokens = 3};
    }
    const auto model = repeating_model();
    const lm::SamplingOptions sampling{.temperature = 3, .top_k = 20, .seed = 40};
    const serving::Ran ran =
        serve_traffic({.model = model, .clock = ServeClock::model, .sampling = sampling},
                      c.deployment, c.traffic, recording());
    std::int64_t compared = 0;
    for (std::size_t i = 0; i < ran.outputs.size(); ++i) {
      if (ran.outputs[i].stop_reason.empty()) continue;
      lm::GenerateRequest alone{.sampling = sampling,
                                .max_tokens = std::ssize(ran.outputs[i].tokens),
                                .ignore_stop_tokens = true};
      alone.sampling.seed += i;
      EXPECT_EQ(ran.outputs[i].tokens, lm::generate(*model, ran.outputs[i].prompt, alone).tokens);
      ++compared;
    }
    EXPECT_GT(compared, 10);
  }
}

// What the model says two tokens long, counted over many seeds, beside what it says of them: drafts
// of another distribution change nothing. Chi-square with 15 degrees of freedom is above 44.3 once
// in 10,000 times; without the rule, taking all drafts, it is far above.
TEST(ServeTraffic, DrawsByTheModelsDistributionUnderDrafts) {
  constexpr int kLetters = 4, kRequests = 6000;
  const auto model = std::make_shared<lm::fakes::FakeModel>(),
             drafts = std::make_shared<lm::fakes::FakeModel>();
  const auto of = [](std::int32_t last, std::int32_t token, std::uint64_t key) {
    if (token < 'a' || token >= 'a' + kLetters) return -50.0f;
    return 2 * lm::fakes::noise(static_cast<std::uint64_t>(last), static_cast<std::uint64_t>(token),
                                key);
  };
  model->logit = [&](std::int32_t, std::int32_t last, std::int32_t token) {
    return of(last, token, 1);
  };
  drafts->logit = [&](std::int32_t, std::int32_t last, std::int32_t token) {
    return of(last, token, 2);
  };
  Case c;
  for (int i = 0; i < kRequests; ++i) {
    Request r;
    r.prompt_tokens = 4;
    r.output_tokens = 4;
    r.prefix_group = 0;
    r.prefix_tokens = 4;
    c.traffic.requests.push_back(r);
  }
  Replica replica;
  replica.name = "engine";
  replica.engine.max_num_seqs = 200;
  replica.engine.max_model_len = 16;
  replica.engine.speculative =
      serving::Speculation{.method = serving::DraftMethod::draft_model, .num_tokens = 3};
  serving::LinearStepCost cost;
  cost.base = kTicksPerSecond / 100;
  replica.cost = std::make_shared<serving::LinearStepCost>(cost);
  replica.kv_blocks = 400;
  c.deployment.replicas.push_back(replica);
  const serving::Ran ran = serve_traffic({.model = model,
                                          .draft_model = drafts,
                                          .clock = ServeClock::model,
                                          .sampling = {.temperature = 1, .seed = 5}},
                                         c.deployment, c.traffic, recording());
  const serving::ReplicaRecord& sums = ran.log.replicas.front();
  const double passed =
      static_cast<double>(sums.accepted_tokens) / static_cast<double>(sums.drafted_tokens);
  EXPECT_GT(passed, 0.4);
  EXPECT_LT(passed, 0.95);
  // Tokens 2 and 3 of each answer, behind its first one: drafts, or what took their place.
  std::array<std::array<std::array<double, kLetters>, kLetters>, kLetters> seen{};
  for (const serving::Output& output : ran.outputs) {
    ASSERT_EQ(output.tokens.size(), 4u);
    const auto at = [&](std::size_t i) { return static_cast<std::size_t>(output.tokens[i] - 'a'); };
    ++seen[at(0)][at(1)][at(2)];
  }
  const auto probability = [&](std::size_t last, std::size_t token) {
    double sum = 0;
    const auto weight = [&](std::size_t t) {
      return std::exp(
          double{of(static_cast<std::int32_t>('a' + last), static_cast<std::int32_t>('a' + t), 1)});
    };
    for (std::size_t t = 0; t < kLetters; ++t) sum += weight(t);
    return weight(token) / sum;
  };
  for (std::size_t first = 0; first < kLetters; ++first) {
    double total = 0, distance = 0;
    for (const auto& row : seen[first]) total = std::accumulate(row.begin(), row.end(), total);
    ASSERT_GT(total, 500) << first;
    for (std::size_t a = 0; a < kLetters; ++a) {
      for (std::size_t b = 0; b < kLetters; ++b) {
        const double expected = total * probability(first, a) * probability(a, b);
        distance += (seen[first][a][b] - expected) * (seen[first][a][b] - expected) / expected;
      }
    }
    EXPECT_LT(distance, 44.3) << first;
    EXPECT_GT(distance, 2) << first;  // as seldom below
  }
}

TEST(ServeTraffic, RefusesByNameWhatDoesNotRun) {
  const ServeRequest request{.model = plain_model(), .clock = ServeClock::model};
  const auto refused = [&](ErrorCode code, const std::string& part, auto&& change) {
    Case c = random_case(1);
    change(c.deployment);
    test::expect_error(code, {part},
                       [&] { serve_traffic(request, c.deployment, c.traffic, recording()); });
  };
  refused(ErrorCode::unsupported, "2 engines",
          [](Deployment& d) { d.replicas.push_back(d.replicas.front()); });
  refused(ErrorCode::unsupported, "comes or goes",
          [](Deployment& d) { d.replicas.front().from_s = 1; });
  refused(ErrorCode::unsupported, "eagle", [](Deployment& d) {
    d.replicas.front().engine.async_scheduling.reset();
    d.replicas.front().engine.speculative =
        serving::Speculation{.method = serving::DraftMethod::eagle};
  });
  refused(ErrorCode::out_of_range, "max_model_len = 400",
          [](Deployment& d) { d.replicas.front().engine.max_model_len = 401; });
}

TEST(ServeTraffic, StopsAtItsHorizonAndSaysSo) {
  const Case c = random_case(2);
  SimulationOptions options = recording();
  options.horizon_s = 0.05;
  const serving::Ran ran = serve_traffic({.model = plain_model(), .clock = ServeClock::model},
                                         c.deployment, c.traffic, options);
  const Log simulated = serving::simulate(c.deployment, c.traffic, options);
  EXPECT_EQ(ran.log.cut_off, simulated.cut_off);
  EXPECT_EQ(difference(simulated, ran.log), "");
}

}  // namespace
}  // namespace tessera::run::serve_traffic_test
