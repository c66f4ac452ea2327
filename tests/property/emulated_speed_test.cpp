// Workers of other speeds than this machine's, and their links, on a virtual clock.

#include <gtest/gtest.h>

#include "fake_stage.h"
#include "tessera/run/job.h"
#include "tessera/run/worker.h"
#include "virtual_network.h"

namespace tessera::run::emulated_speed_test {
namespace {

constexpr std::int64_t kLongest = 96, kPrompt = 5, kSteps = 7;

/// How long one request takes: its prompt, then a token a step. Messages take no time of their own.
Nanoseconds time_of(const std::vector<LoadOrder>& stages,
                    std::map<std::size_t, LoadOrder> attention) {
  Answers answers;
  answers.prompts = {{.tokens = {1, 2, 3, 4, 5}, .max_tokens = kSteps, .sampling = {}}};
  answers.done.resize(1);
  EngineSpec spec;
  spec.stages = stages;
  spec.attention = std::move(attention);
  spec.options.scheduler = "micro_batches";
  spec.options.enable_prefix_caching = false;
  spec.options.max_model_len = kLongest;
  spec.kv_blocks = kLongest;
  const auto ranks = static_cast<std::int32_t>(spec.stages.size() + spec.attention.size());
  JobOptions options;
  options.max_context_tokens = kLongest;
  options.engines = {std::move(spec)};
  VirtualNetwork network(1);
  network.set_delays(0, 0);
  Job* job = nullptr;
  network.start(kMaster, [&](VirtualNetwork::Node& node) {
    auto made = std::make_unique<Job>(options, answers, node, JobHooks{});
    job = made.get();
    return made;
  });
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    network.start(rank, [rank](VirtualNetwork::Node& node) {
      node.connect(kMaster, {});
      return std::make_unique<Worker>(
          rank, node,
          [&node](const LoadOrder& order, std::unique_ptr<StagePart> before,
                  std::shared_ptr<lm::HeadsElsewhere> elsewhere) {
            return std::make_unique<FakeStage>(
                order, before.get(), [&node](Nanoseconds time) { node.spend(time); },
                std::move(elsewhere));
          });
    });
  }
  EXPECT_TRUE(network.run([&] { return job->is_done(); }, 1000 * kSecond));
  EXPECT_EQ(job->state(), JobState::done) << job->why();
  return job->duration();
}

LoadOrder stage_at(std::int64_t first, std::int64_t last, double speed) {
  LoadOrder order;
  order.first_layer = first;
  order.last_layer = last;
  order.emulated = {speed, 1e4, 0.003};
  return order;
}

// What fake stages compute: 200 us and 20 a token; who attends 100 us and 10 a number.
double stage_time(std::int64_t tokens) { return 200e3 + 20e3 * static_cast<double>(tokens); }
double heads_time(std::int64_t tokens) { return 100e3 + 10e3 * static_cast<double>(tokens); }
// 3 ms, and numbers of 4 bytes at 10 kB/s.
double link_time(std::int64_t tokens) { return 3e6 + 400e3 * static_cast<double>(tokens); }

template <class F>
double sum_over_steps(const F& time_of_step) {
  double sum = 0;
  for (std::int64_t step = 0; step < kSteps; ++step) sum += time_of_step(step == 0 ? kPrompt : 1);
  return sum;
}

// Never earlier, and not later either.
void expect_near(Nanoseconds took, double wanted) {
  const double ratio = static_cast<double>(took) / wanted;
  EXPECT_GE(ratio, 1 - 1e-9) << took << " ns, at least " << wanted;
  EXPECT_LT(ratio, 1.0001) << took << " ns, " << wanted;
}

TEST(EmulatedSpeed, StretchesWhatStagesCompute) {
  for (const double speed : {1.0, 0.5, 0.1}) {
    SCOPED_TRACE(speed);
    LoadOrder first = stage_at(0, 1, 1), second = stage_at(1, 2, speed);
    first.with_embedding = second.with_head = true;
    expect_near(time_of({first, second}, {}), sum_over_steps([&](std::int64_t tokens) {
                  return stage_time(tokens) * (1 + 1 / speed) + link_time(tokens);
                }));
  }
}

TEST(EmulatedSpeed, StretchesWhatIsAskedAndWhatIsAttended) {
  const std::vector<std::pair<double, double>> speeds = {{1, 1}, {1, 0.1}, {0.5, 0.1}, {0.1, 0.5}};
  for (const auto& [asks, attends] : speeds) {
    SCOPED_TRACE(std::to_string(asks) + " and " + std::to_string(attends));
    constexpr std::int64_t kLayers = 3;
    LoadOrder stage = stage_at(0, kLayers, asks);
    stage.attention_elsewhere = 1;
    LoadOrder heads = stage;
    heads.attends = true;
    heads.emulated.speed = attends;
    stage.with_embedding = stage.with_head = true;
    expect_near(time_of({stage}, {{0, heads}}), sum_over_steps([&](std::int64_t tokens) {
                  return stage_time(tokens) / asks +
                         kLayers * (heads_time(tokens) / attends + 2 * link_time(tokens));
                }));
  }
}

}  // namespace
}  // namespace tessera::run::emulated_speed_test
