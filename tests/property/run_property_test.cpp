// Masters, workers and their protocol in one process, on a virtual clock: whatever is lost on the
// way, every prompt is answered once, with the tokens of a computation that nothing disturbed.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <set>

#include "fake_stage.h"
#include "random_run.h"
#include "tessera/run/job.h"
#include "tessera/run/worker.h"
#include "tessera/serving/batch_run.h"
#include "virtual_network.h"

namespace tessera::run::run_property_test {
namespace {

class Harness {
 public:
  Harness(Setup setup, std::uint64_t seed, bool recover, Nanoseconds interrupt = kNoTime,
          std::int64_t most_restarts = 1000)
      : setup_(std::move(setup)), network_(seed) {
    setup_.options.recover = recover;
    setup_.options.most_restarts_per_minute = most_restarts;
    setup_.options.start_limit = 10 * kSecond;
    for (const EngineSpec& spec : setup_.options.engines) {
      ranks_left_.emplace_back();
      for (const LoadOrder& stage : spec.stages) {
        ranks_left_.back().push_back(static_cast<std::int32_t>(num_ranks_));
        num_ranks_ += stage.tensor_ranks + (stage.attention_elsewhere > 0 ? 1 : 0);
      }
    }
    JobHooks hooks;
    hooks.replan = [this](std::size_t engine, std::int32_t rank) { return replan(engine, rank); };
    hooks.restart = [this](std::int32_t rank) {
      network_.kill(rank);
      Rng& rng = network_.rng();
      const Nanoseconds delay = by_others_ ? rng.integer(0, 15'000) * 1'000'000 : 50'000'000;
      const bool comes = !by_others_ || rng.integer(0, 3) > 0;
      if (comes) network_.at(network_.now() + delay, [this, rank] { start_worker(rank); });
      return !by_others_;
    };
    hooks.interrupted = [this, interrupt] { return network_.now() >= interrupt; };
    hooks.answered = [this](std::size_t prompt, const Answer&) { ++times_answered_[prompt]; };
    network_.start(kMaster, [&](VirtualNetwork::Node& node) {
      auto job = std::make_unique<Job>(setup_.options, setup_.answers, node, hooks);
      job_ = job.get();
      return job;
    });
    for (std::int32_t rank = 0; rank < num_ranks_; ++rank) start_worker(rank);
  }

  bool run() {
    return network_.run([this] { return job_->is_done(); }, 4000 * kSecond);
  }

  void check_answers() {
    for (std::size_t i = 0; i < setup_.answers.prompts.size(); ++i) {
      RC_ASSERT(setup_.answers.done[i].has_value());
      RC_ASSERT(times_answered_[i] == 1);
      // Engines may have different numbers of stages, and so different tokens.
      bool same = false;
      for (const std::int64_t stages : setup_.stages) {
        const Answer wanted =
            undisturbed(setup_.answers.prompts[i], stages, setup_.options.stop_tokens);
        same = same || (wanted.tokens == setup_.answers.done[i]->tokens &&
                        wanted.stop_reason == setup_.answers.done[i]->stop_reason);
      }
      RC_ASSERT(same);
    }
  }

  const Job& job() const { return *job_; }
  VirtualNetwork& network() { return network_; }
  /// Every step of a stage takes so much longer.
  void slow_down(Nanoseconds delay) { delay_ = delay; }
  /// Who starts workers again does so when he likes, too late for the limit of 10 s, or never.
  void leave_to_others() { by_others_ = true; }
  std::int64_t num_ranks() const { return num_ranks_; }
  /// How often nothing was left of an engine.
  std::int64_t num_given_up() const { return num_given_up_; }
  Answers& answers() { return setup_.answers; }

 private:
  void start_worker(std::int32_t rank) {
    network_.start(rank, [&](VirtualNetwork::Node& node) {
      node.connect(kMaster, {});
      return std::make_unique<Worker>(
          rank, node,
          [this, &node](const LoadOrder& order, std::unique_ptr<StagePart> before,
                        std::shared_ptr<lm::HeadsElsewhere> elsewhere) {
            node.spend(30'000'000);
            return std::make_unique<FakeStage>(
                order, before.get(), [this, &node](Nanoseconds time) { node.spend(time + delay_); },
                std::move(elsewhere));
          });
    });
  }

  // The layers over some of those that are left, in any order.
  std::vector<MovedStage> replan(std::size_t engine, std::int32_t lost) {
    std::vector<std::int32_t>& left = ranks_left_[engine];
    std::erase(left, lost);
    if (left.empty()) ++num_given_up_;
    for (std::size_t i = 1; i < left.size(); ++i) {
      const auto other =
          static_cast<std::size_t>(network_.rng().integer(0, static_cast<std::int64_t>(i)));
      std::swap(left[i], left[other]);
    }
    const std::int64_t layers = setup_.stages[engine];
    if (!left.empty())
      left.resize(static_cast<std::size_t>(network_.rng().integer(1, std::ssize(left))));
    std::vector<MovedStage> stages;
    for (std::size_t k = 0; k < left.size(); ++k) {
      const auto cut = [&](std::size_t at) {
        return layers * static_cast<std::int64_t>(at) / std::ssize(left);
      };
      LoadOrder order;
      order.first_layer = cut(k);
      order.last_layer = cut(k + 1);
      order.with_embedding = k == 0;
      order.with_head = k + 1 == left.size();
      stages.push_back({left[k], order});
    }
    return stages;
  }

  Setup setup_;
  VirtualNetwork network_;
  Job* job_ = nullptr;
  std::int64_t num_ranks_ = 0;
  std::map<std::size_t, int> times_answered_;
  std::vector<std::vector<std::int32_t>> ranks_left_;  ///< by engine
  std::int64_t num_given_up_ = 0;
  Nanoseconds delay_ = 0;
  bool by_others_ = false;
};

// A fault at any time until then, of any kind.
void break_something(Harness& harness, Rng& rng, std::int64_t most_ms) {
  VirtualNetwork& network = harness.network();
  // Workers have come after some milliseconds; before, the run waits for them.
  const Nanoseconds when = rng.integer(5, most_ms) * 1'000'000;
  const auto rank = static_cast<Peer>(rng.integer(0, harness.num_ranks() - 1));
  const auto next = static_cast<Peer>(rank + 1 < harness.num_ranks() ? rank + 1 : kMaster);
  switch (rng.integer(0, 4)) {
    case 0:
      return network.at(when, [&network, rank] { network.kill(rank); });
    case 1:
      return network.at(when, [&network, rank] { network.pause(rank, 6 * kSecond); });
    case 2:
      return network.at(when, [&network, rank] { network.pause(rank, 3 * kSecond / 2); });
    case 3:
      return network.at(when, [&network, rank, next] { network.cut(rank, next); });
    default:
      return network.at(when, [&network, rank] { network.cut(kMaster, rank); });
  }
}

RC_GTEST_PROP(RunProperty, StagesAnswerAsOneProcessDoes, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  Rng rng(seed);
  Harness harness(random_setup(rng), seed, false);
  RC_ASSERT(harness.run());
  RC_ASSERT(harness.job().state() == JobState::done);
  RC_ASSERT(harness.job().faults().empty());
  harness.check_answers();
}

/// A pipeline whose units take times of their own: stages 20 to 60 ms, links up to 20.
serving::BatchPipeline random_pipeline(Rng& rng, std::uint64_t seed) {
  serving::BatchPipeline pipeline;
  pipeline.stage_names.resize(static_cast<std::size_t>(rng.integer(1, 8)));
  pipeline.batch_size = rng.integer(1, 8);
  pipeline.prefill_micro_batch_size = rng.integer(1, 8);
  pipeline.decode_micro_batch_size = rng.integer(1, 8);
  pipeline.output_tokens = rng.integer(1, 10);
  const auto share = [seed](std::size_t track, serving::BatchPhase phase, std::int64_t size,
                            std::int64_t index) {
    std::uint64_t value = mixed(seed, track * 2 + (phase == serving::BatchPhase::decode ? 1 : 0));
    value = mixed(value, static_cast<std::uint64_t>(size * 100 + index));
    return static_cast<double>(value % 1000) / 1000;
  };
  pipeline.stage_s = [share](std::size_t k, serving::BatchPhase phase,
                             const serving::MicroBatch& part, std::int64_t index) {
    return 0.02 + 0.04 * share(2 * k, phase, part.size, index);
  };
  pipeline.link_s = [share](std::size_t k, serving::BatchPhase phase,
                            const serving::MicroBatch& part, std::int64_t index) {
    return 0.02 * share(2 * k + 1, phase, part.size, index);
  };
  pipeline.return_s = [](std::int64_t) { return 0.001; };
  return pipeline;
}

void add_times(const serving::BatchPipeline& pipeline, serving::BatchPhase phase,
               std::int64_t largest, std::int64_t first, std::int64_t last, Emulated& emulated) {
  const bool decodes = phase == serving::BatchPhase::decode;
  std::int64_t number = 0;
  for (const std::int64_t size : serving::micro_batch_sizes(pipeline.batch_size, largest)) {
    for (std::int64_t index = first; index <= last; ++index) {
      std::vector<double> times{decodes ? pipeline.return_s(size) : 0};
      for (std::size_t k = 0; k < pipeline.stage_names.size(); ++k) {
        times.push_back(pipeline.stage_s(k, phase, {0, size}, index));
        times.push_back(pipeline.link_s(k, phase, {0, size}, index));
      }
      std::vector<Nanoseconds>& unit = emulated[{decodes, number, index}];
      for (const double time : times) unit.push_back(static_cast<Nanoseconds>(time * kSecond));
    }
    ++number;
  }
}

// The schedule of a run is the simulated one, but for what messages take.
RC_GTEST_PROP(RunProperty, TakesWhatIsSimulatedWhereTimesAreGiven, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  Rng rng(seed);
  const serving::BatchPipeline pipeline = random_pipeline(rng, seed);
  Setup setup = random_setup(rng);
  setup.options.stop_tokens.clear();
  EngineSpec& spec = setup.options.engines.front();
  setup.options.engines.resize(1);
  const auto stages = std::ssize(pipeline.stage_names);
  setup.stages = {stages};
  LoadOrder order;
  spec.attention.clear();
  spec.stages.assign(static_cast<std::size_t>(stages), order);
  for (std::int64_t k = 0; k < stages; ++k) {
    LoadOrder& stage = spec.stages[static_cast<std::size_t>(k)];
    stage.first_layer = k;
    stage.last_layer = k + 1;
    stage.with_embedding = k == 0;
    stage.with_head = k + 1 == stages;
  }
  spec.share = spec.options.max_num_seqs = pipeline.batch_size;
  spec.kv_blocks = pipeline.batch_size * kContext;
  spec.options.prefill_micro_batch_size = pipeline.prefill_micro_batch_size;
  spec.options.decode_micro_batch_size = pipeline.decode_micro_batch_size;
  spec.options.chunk_tokens = 0;
  add_times(pipeline, serving::BatchPhase::prefill, pipeline.prefill_micro_batch_size, 0, 0,
            spec.emulated);
  add_times(pipeline, serving::BatchPhase::decode, pipeline.decode_micro_batch_size, 1,
            pipeline.output_tokens - 1, spec.emulated);
  const Prompt prompt{.tokens = {1, 2, 3}, .max_tokens = pipeline.output_tokens, .sampling = {}};
  const auto batch = static_cast<std::size_t>(pipeline.batch_size);
  setup.answers.prompts.assign(batch, prompt);
  setup.answers.done.assign(batch, std::nullopt);
  Harness harness(std::move(setup), seed, false);
  harness.network().set_delays(0, 0);
  RC_ASSERT(harness.run());
  RC_ASSERT(harness.job().state() == JobState::done);
  harness.check_answers();
  const double simulated = serving::simulate_batch(pipeline, false).total_s;
  const double took = static_cast<double>(harness.job().duration()) / kSecond;
  RC_LOG() << took << " s, simulated " << simulated << " s\n";
  RC_ASSERT(std::abs(took / simulated - 1) < 1e-6);
}

// In any state: loading, running, recovering from another one.
RC_GTEST_PROP(RunProperty, RecoversWhateverIsLost, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  Rng rng(seed);
  Harness harness(random_setup(rng), seed, true);
  const std::int64_t faults = rng.integer(1, 6);
  for (std::int64_t i = 0; i < faults; ++i) break_something(harness, rng, 400);
  const bool ended = harness.run();
  RC_LOG() << name_of(harness.job().state()) << ": " << harness.job().why() << "\n";
  for (const Fault& fault : harness.job().faults()) {
    RC_LOG() << fault.rank << " at " << fault.at << ": " << fault.why << "\n";
  }
  RC_ASSERT(ended);
  RC_ASSERT(harness.job().state() == JobState::done);
  harness.check_answers();
}

// Who is lost for good leaves its layers to the others of its engine, or its prompts to other
// engines, who go on with the same tokens.
RC_GTEST_PROP(RunProperty, GoesOnWithTheStagesThatAreLeft, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  Rng rng(seed);
  Setup setup = random_setup(rng);
  const bool may_move = rng.integer(0, 2) > 0;  // ranks that share layers stay where they are
  for (EngineSpec& spec : setup.options.engines) {
    if (may_move) spec.attention.clear();
    for (LoadOrder& stage : spec.stages) {
      if (may_move) stage.tensor_ranks = 1;
      if (may_move) stage.attention_elsewhere = 0;
    }
  }
  const auto engines = static_cast<std::int64_t>(setup.options.engines.size());
  Harness harness(std::move(setup), seed, true, kNoTime, rng.integer(0, 1));
  const bool by_others = rng.integer(0, 1) == 1;
  if (by_others) harness.leave_to_others();
  const std::int64_t faults = rng.integer(1, 4);
  for (std::int64_t i = 0; i < faults; ++i) break_something(harness, rng, 100);
  const bool ended = harness.run();
  RC_LOG() << name_of(harness.job().state()) << ": " << harness.job().why() << "\n";
  for (const Fault& fault : harness.job().faults()) {
    RC_LOG() << fault.rank << " at " << fault.at << ": " << fault.why << "\n";
    RC_ASSERT(fault.remedy != (by_others ? Remedy::restarted : Remedy::awaited));
  }
  RC_ASSERT(ended);
  RC_ASSERT(harness.network().now() < 300 * kSecond);  // and no step had to be given up
  const auto handed_on =
      std::ranges::count(harness.job().faults(), Remedy::handed_on, &Fault::remedy);
  RC_TAG(harness.job().num_replans(), handed_on);
  if (harness.job().state() == JobState::failed) {
    RC_ASSERT(!may_move || harness.num_given_up() > 0);
    RC_ASSERT(handed_on == engines - 1);  // none is left
    return;
  }
  RC_ASSERT(handed_on < engines);
  RC_ASSERT(harness.job().state() == JobState::done);
  harness.check_answers();
}

// Without recovery the run ends, names the stage, and keeps what was answered.
RC_GTEST_PROP(RunProperty, FailsByName, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  Rng rng(seed);
  Harness harness(random_setup(rng), seed, false);
  VirtualNetwork& network = harness.network();
  const auto rank = static_cast<Peer>(rng.integer(0, harness.num_ranks() - 1));
  network.at(rng.integer(2, 60) * 1'000'000, [&network, rank] { network.kill(rank); });
  RC_ASSERT(harness.run());
  if (harness.job().state() == JobState::done) return;  // it was over before
  RC_ASSERT(harness.job().state() == JobState::failed);
  RC_ASSERT(harness.job().faults().size() == 1u);
  RC_ASSERT(harness.job().faults()[0].rank == rank);
  RC_ASSERT(harness.job().why().find(fmt::format("(rank {}", rank)) != std::string::npos);
}

// A link between two stages that both live, which the master does not see.
RC_GTEST_PROP(RunProperty, NamesWhoseLinkIsGone, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  Rng rng(seed);
  const bool recover = rng.integer(0, 1) == 1;
  Harness harness(random_setup(rng), seed, recover);
  VirtualNetwork& network = harness.network();
  const auto rank = static_cast<Peer>(rng.integer(0, harness.num_ranks() - 1));
  network.at(rng.integer(20, 100) * 1'000'000, [&network, rank] { network.cut(rank, rank + 1); });
  RC_ASSERT(harness.run());
  RC_ASSERT(harness.network().now() < 5 * kSecond);
  const std::vector<Fault>& faults = harness.job().faults();
  RC_CLASSIFY(faults.empty(), "nothing was lost");
  RC_ASSERT(harness.job().state() ==
            (recover || faults.empty() ? JobState::done : JobState::failed));
  if (recover) harness.check_answers();
  if (faults.empty()) return;
  RC_ASSERT(faults.size() == 1u);
  RC_ASSERT(faults[0].rank == rank);
  RC_ASSERT(faults[0].remedy == (recover ? Remedy::relinked : Remedy::none));
  RC_ASSERT(faults[0].why == fmt::format("its link to rank {} was cut", rank + 1));
}

// A step may take 30 s and ten times its prediction.
RC_GTEST_PROP(RunProperty, WaitsForAStepAsLongAsItsPredictionSays, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  Rng rng(seed);
  const std::int64_t predicted_s = rng.integer(-1, 20);
  Setup setup = random_setup(rng);
  for (EngineSpec& spec : setup.options.engines) {
    spec.prefill_step = spec.decode_step = predicted_s * kSecond;
  }
  Harness harness(std::move(setup), seed, false);
  harness.slow_down(2000 * kSecond);
  RC_ASSERT(harness.run());
  RC_ASSERT(harness.job().state() == JobState::failed);
  const std::int64_t limit_s = predicted_s < 0 ? 600 : 30 + 10 * predicted_s;
  RC_ASSERT(harness.network().now() >= limit_s * kSecond);
  RC_ASSERT(harness.network().now() < (limit_s + 1) * kSecond);
  RC_ASSERT(harness.job().why().find(fmt::format("within {} s", limit_s)) != std::string::npos);
}

// Ctrl-C ends it within a tenth of a second and a step, whatever comes meanwhile, and keeps what
// was answered.
RC_GTEST_PROP(RunProperty, StopsWhenItIsInterrupted, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  Rng rng(seed);
  const Nanoseconds when = rng.integer(0, 300) * 1'000'000;
  Harness harness(random_setup(rng), seed, false, when);
  RC_ASSERT(harness.run());
  if (harness.job().state() == JobState::done) return;  // it was over before
  RC_ASSERT(harness.job().state() == JobState::interrupted);
  RC_ASSERT(harness.network().now() - when < kSecond / 5);
  for (const auto& answer : harness.answers().done) {
    if (answer) RC_ASSERT(answer->first_token != serving::kNever);
  }
}

// Answers that are there already are not asked again.
RC_GTEST_PROP(RunProperty, GoesOnWithWhatIsLeft, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  Rng rng(seed);
  Setup setup = random_setup(rng);
  std::size_t given = 0;
  for (std::size_t i = 0; i < setup.answers.done.size(); ++i) {
    if (rng.integer(0, 1) == 0) continue;
    setup.answers.done[i] = Answer{.tokens = {1, 2, 3}};
    ++given;
  }
  const std::size_t count = setup.answers.done.size();
  Harness harness(std::move(setup), seed, false);
  RC_ASSERT(harness.run());
  RC_ASSERT(harness.job().state() == JobState::done);
  std::size_t kept = 0;
  for (const auto& answer : harness.answers().done) {
    RC_ASSERT(answer.has_value());
    kept += answer->first_token == serving::kNever ? 1 : 0;
  }
  RC_ASSERT(kept == given);
  RC_ASSERT(count >= given);
}

}  // namespace
}  // namespace tessera::run::run_property_test
