// One engine that reads prompts and one that decodes them, in processes of a virtual network:
// requests come, are cancelled, and lose the workers that have them.
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "fake_stage.h"
#include "random_run.h"
#include "tessera/run/job.h"
#include "tessera/run/worker.h"
#include "tessera/serving/replay.h"
#include "tessera/serving/served.h"
#include "virtual_network.h"

namespace tessera::run::pools_property_test {
namespace {

constexpr Nanoseconds kMillisecond = kSecond / 1000;

struct Client {
  Prompt prompt;
  Nanoseconds comes = 0, leaves = kNoTime;
};

// Some layers over some stages.
std::vector<LoadOrder> random_stages(Rng& rng, std::int64_t layers) {
  std::vector<LoadOrder> stages;
  for (std::int64_t first = 0; first < layers;) {
    LoadOrder order;
    order.first_layer = first;
    order.last_layer = first + rng.integer(1, layers - first);
    order.with_embedding = first == 0;
    order.with_head = order.last_layer == layers;
    first = order.last_layer;
    stages.push_back(order);
  }
  return stages;
}

JobOptions random_pools(Rng& rng, std::int64_t layers) {
  const std::vector<std::string> schedulers{"vllm_v1", "sarathi", "sglang", "orca"};
  serving::EngineOptions engine;
  engine.scheduler = schedulers[static_cast<std::size_t>(rng.integer(0, 3))];
  engine.max_num_seqs = rng.integer(1, 8);
  engine.block_size = rng.integer(1, 8);
  engine.enable_prefix_caching = rng.integer(0, 1) == 1 && engine.scheduler != "orca";
  engine.max_model_len = kContext;
  engine.max_num_batched_tokens = engine.chunk_size = rng.integer(kContext, 3 * kContext);
  if (rng.integer(0, 1) == 1 && engine.scheduler == "vllm_v1")
    engine.max_num_batched_tokens = rng.integer(8, 30);
  JobOptions options;
  options.max_context_tokens = kContext;
  options.serves = true;
  options.start_limit = 10 * kSecond;
  if (rng.integer(0, 1) == 1) options.stop_tokens = {7, 23};
  const std::int64_t one = kContext / engine.block_size + 2;  // a request's blocks
  for (const EngineRole role : {EngineRole::prefill, EngineRole::decode}) {
    EngineSpec spec;
    spec.stages = random_stages(rng, layers);
    spec.options = engine;
    spec.role = role;
    spec.kv_blocks = one + rng.integer(0, 3 * one);
    options.engines.push_back(std::move(spec));
  }
  return options;
}

std::vector<Client> random_clients(Rng& rng) {
  std::vector<Client> clients;
  const std::int64_t count = rng.integer(1, 25);
  for (std::int64_t i = 0; i < count; ++i) {
    Client client;
    const std::int64_t shared = rng.integer(0, 25), own = rng.integer(1, 20);
    for (std::int64_t t = 0; t < shared; ++t)
      client.prompt.tokens.push_back(static_cast<std::int32_t>(t % kFakeVocabulary));
    for (std::int64_t t = 0; t < own; ++t) {
      client.prompt.tokens.push_back(
          static_cast<std::int32_t>(rng.integer(0, kFakeVocabulary - 1)));
    }
    client.prompt.max_tokens = rng.integer(1, kContext - shared - own);
    client.prompt.sampling.seed = static_cast<std::uint64_t>(rng.integer(0, 1000));
    client.comes = rng.integer(0, 60) * kMillisecond;
    if (rng.integer(0, 3) == 0) client.leaves = client.comes + rng.integer(0, 40) * kMillisecond;
    clients.push_back(std::move(client));
  }
  std::ranges::stable_sort(clients, {}, &Client::comes);  // as requests are numbered
  return clients;
}

class Harness {
 public:
  Harness(Rng& rng, std::uint64_t seed, bool recovers)
      : layers_(rng.integer(1, 6)), clients_(random_clients(rng)), network_(seed) {
    options_ = random_pools(rng, layers_);
    options_.recover = recovers;
    options_.most_restarts_per_minute = 1000;
    network_.set_delays(20'000, rng.integer(30'000, 3'000'000));
    for (const EngineSpec& spec : options_.engines) num_ranks_ += std::ssize(spec.stages);
    JobHooks hooks;
    hooks.restart = [this](std::int32_t rank) {
      network_.kill(rank);
      if (!starting_.insert(rank).second) return true;
      network_.at(network_.now() + 50 * kMillisecond, [this, rank] {
        starting_.erase(rank);
        start_worker(rank);
      });
      return true;
    };
    // Also one that ends before it has joined: there is no link that could say so.
    hooks.ended = [this](std::int32_t rank) -> std::string {
      return starting_.contains(rank) || network_.is_alive(rank) ? "" : "was killed";
    };
    hooks.work = [this] { return take_inbox(); };
    hooks.ready = [this] { begin(); };
    hooks.over = [this](std::int64_t request, const Session& session, Ending how) {
      over(request, session, how);
    };
    network_.start(kMaster, [&](VirtualNetwork::Node& node) {
      auto job = std::make_unique<Job>(options_, answers_, node, hooks);
      job_ = job.get();
      return job;
    });
    for (std::int32_t rank = 0; rank < num_ranks_; ++rank) start_worker(rank);
  }

  bool run() {
    const bool ended = network_.run(
        [this] { return ends_.size() == clients_.size() && !is_busy(); }, 4000 * kSecond);
    job_->end();
    return ended;
  }

  // Every request ended once, with the tokens of one that is alone, up to where its client left.
  void check_ends() const {
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      const auto& [how, tokens] = ends_.at(static_cast<std::int64_t>(i));
      const Answer wanted = undisturbed(clients_[i].prompt, layers_, options_.stop_tokens);
      RC_ASSERT(how != Ending::rejected);
      RC_ASSERT(how == Ending::finished || clients_[i].leaves != kNoTime);
      RC_ASSERT(tokens.size() <= wanted.tokens.size());
      RC_ASSERT(std::equal(tokens.begin(), tokens.end(), wanted.tokens.begin()));
      RC_ASSERT(how == Ending::cancelled || tokens == wanted.tokens);
    }
    for (const serving::EngineCore* core : job_->cores()) {
      RC_ASSERT(core->scheduler().kv().num_free() == core->scheduler().kv().num_blocks());
      RC_ASSERT(core->requests().empty());
    }
  }

  // The run as a server keeps it.
  serving::Served served() const {
    serving::Served served;
    served.log = job_->log();
    served.log.steps_recorded = true;
    serving::Traffic traffic;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      const Prompt& prompt = clients_[i].prompt;
      serving::Request request;
      request.arrival = served.log.requests[i].arrival;
      request.prompt_tokens = std::ssize(prompt.tokens);
      request.output_tokens = request.max_tokens = prompt.max_tokens;
      traffic.requests.push_back(request);
      const auto& [how, tokens] = ends_.at(static_cast<std::int64_t>(i));
      served.outputs.push_back({.prompt = prompt.tokens, .tokens = tokens});
    }
    served.traffic = std::make_shared<const serving::Traffic>(std::move(traffic));
    serving::Deployment deployment;
    for (const EngineSpec& spec : options_.engines) {
      deployment.replicas.push_back({.name = std::string(name_of(spec.role)),
                                     .engine = spec.options,
                                     .cost = std::make_shared<NoCost>(spec.stages.size()),
                                     .kv_blocks = spec.kv_blocks,
                                     .role = spec.role});
    }
    served.deployment = std::make_shared<const serving::Deployment>(std::move(deployment));
    return served;
  }

  Job& job() { return *job_; }
  VirtualNetwork& network() { return network_; }
  std::int64_t num_ranks() const { return num_ranks_; }
  /// Ranks of which one sends the other blocks, or hidden states.
  Peer first_decoder() const { return static_cast<Peer>(options_.engines[0].stages.size()); }
  std::int64_t num_cancelled() const {
    return std::ranges::count(ends_, Ending::cancelled,
                              [](const auto& end) { return end.second.first; });
  }

 private:
  struct NoCost final : serving::StepCost {
    explicit NoCost(std::size_t stages) : stages_(stages) {}
    std::size_t num_stages() const override { return stages_; }
    serving::Ticks stage(const serving::StepLoad&, std::size_t) const override { return 1; }
    std::optional<serving::DecodeLine> decode_line(std::int64_t, std::int64_t) const override {
      return {};
    }

   private:
    std::size_t stages_;
  };

  void start_worker(std::int32_t rank) {
    network_.start(rank, [&](VirtualNetwork::Node& node) {
      node.connect(kMaster, {});
      return std::make_unique<Worker>(
          rank, node,
          [&node](const LoadOrder& order, std::unique_ptr<StagePart> before,
                  std::shared_ptr<lm::HeadsElsewhere> elsewhere) {
            node.spend(30 * kMillisecond);
            return std::make_unique<FakeStage>(
                order, before.get(), [&node](Nanoseconds time) { node.spend(time); },
                std::move(elsewhere));
          });
    });
  }

  void begin() {
    if (std::exchange(has_begun_, true)) return;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      const auto post = [&](Nanoseconds time, bool is_cancel) {
        if (time == kNoTime) return;
        network_.at(network_.now() + time, [this, i, is_cancel] {
          (is_cancel ? cancels_ : orders_).push_back(static_cast<std::int64_t>(i));
          network_.nudge(kMaster);
        });
      };
      post(clients_[i].comes, false);
      post(clients_[i].leaves, true);
    }
  }

  bool take_inbox() {
    if (orders_.empty() && cancels_.empty()) return false;
    for (const std::int64_t request : std::exchange(cancels_, {})) {
      if (!ends_.contains(request)) job_->cancel(request);
    }
    for (const std::int64_t request : std::exchange(orders_, {})) {
      const Prompt& prompt = clients_[static_cast<std::size_t>(request)].prompt;
      serving::Sequence sequence;
      sequence.request = request;
      sequence.arrival = job_->time();
      sequence.max_tokens = prompt.max_tokens;
      job_->cores().front()->ledger().record(request).arrival = job_->time();
      job_->submit(std::move(sequence), prompt, "");
    }
    job_->go_on();
    return true;
  }

  void over(std::int64_t request, const Session& session, Ending how) {
    RC_ASSERT(!ends_.contains(request));
    const auto tokens = session.answer();
    ends_[request] = {how, {tokens.begin(), tokens.end()}};
  }

  // What was cancelled on the wire still comes, and a step under way ends.
  bool is_busy() const {
    return std::ranges::any_of(job_->cores(), [](const serving::EngineCore* core) {
      return !core->requests().empty() || !core->is_idle();
    });
  }

  std::int64_t layers_;
  std::vector<Client> clients_;
  VirtualNetwork network_;
  JobOptions options_;
  Answers answers_;
  Job* job_ = nullptr;
  std::int64_t num_ranks_ = 0;
  bool has_begun_ = false;
  std::set<std::int32_t> starting_;  ///< ranks of workers that are about to
  std::vector<std::int64_t> orders_, cancels_;
  std::map<std::int64_t, std::pair<Ending, std::vector<std::int32_t>>> ends_;
};

RC_GTEST_PROP(PoolsProperty, AnswerAsOneProcessAndAreSimulatedAlike, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  Rng rng(seed);
  Harness harness(rng, seed, false);
  const bool ended = harness.run();
  RC_LOG() << name_of(harness.job().state()) << ": " << harness.job().why() << "\n";
  RC_ASSERT(ended);
  RC_ASSERT(harness.job().faults().empty());
  harness.check_ends();
  const serving::Served served = harness.served();
  const auto preempted = served.log.replicas.at(1).num_preemptions;
  const auto handed_over = std::ranges::count_if(
      served.log.requests, [](const serving::RequestRecord& r) { return r.transferred > 0; });
  RC_TAG(handed_over > 0, preempted > 0, harness.num_cancelled() > 0);
  const serving::Replay replay = serving::replay(serving::replay_card(served), served.log);
  RC_LOG() << replay.first_difference.value_or("") << "\n";
  RC_ASSERT(replay.identical);
}

RC_GTEST_PROP(PoolsProperty, RecoverWhateverIsLost, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  Rng rng(seed);
  Harness harness(rng, seed, true);
  VirtualNetwork& network = harness.network();
  const std::int64_t faults = rng.integer(1, 5);
  for (std::int64_t i = 0; i < faults; ++i) {
    const Nanoseconds when = rng.integer(5, 300) * kMillisecond;
    const auto rank = static_cast<Peer>(rng.integer(0, harness.num_ranks() - 1));
    const std::int64_t kind = rng.integer(0, 3);
    network.at(when, [&network, &harness, rank, kind] {
      if (kind == 0) network.kill(rank);
      if (kind == 1) network.pause(rank, 6 * kSecond);
      if (kind == 2) network.cut(kMaster, rank);
      if (kind == 3) network.cut(0, harness.first_decoder());  // what blocks go over, for one
    });
  }
  const bool ended = harness.run();
  RC_LOG() << name_of(harness.job().state()) << ": " << harness.job().why() << "\n";
  for (const Fault& fault : harness.job().faults())
    RC_LOG() << fault.rank << " at " << fault.at << ": " << fault.why << "\n";
  RC_TAG(harness.job().faults().size());
  RC_ASSERT(ended);
  harness.check_ends();
}

}  // namespace
}  // namespace tessera::run::pools_property_test
