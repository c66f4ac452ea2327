#include "tessera/serving/engine_view.h"

#include <algorithm>
#include <span>
#include <utility>

#include "tessera/core/record_json.h"

namespace tessera::serving {
namespace {

constexpr std::size_t kMostRequests = 256, kMostSteps = 400;

std::vector<std::int64_t> runs_of(const std::vector<Block>& blocks) {
  std::vector<std::int64_t> runs;
  for (const Block block : blocks) {
    if (!runs.empty() && runs[runs.size() - 2] + runs.back() == block) {
      ++runs.back();
    } else {
      runs.insert(runs.end(), {block, 1});
    }
  }
  return runs;
}

bool comes_first(const Sequence* a, const Sequence* b) {
  const auto rank = [](const Sequence* s) {
    return std::pair(s->state != SequenceState::running, s->request);
  };
  return rank(a) < rank(b);
}

/// A request, and at which engine it is.
struct Placed {
  const Sequence* sequence = nullptr;
  const BlockManager* kv = nullptr;
  std::int64_t first_block = 0;  ///< of the engine
};

std::vector<ViewedRequest> requests_of(std::span<const EngineCore* const> engines) {
  std::vector<Placed> all;
  std::int64_t first_block = 0;
  for (const EngineCore* core : engines) {
    const BlockManager& kv = core->scheduler().kv();
    core->for_each_request([&](const Sequence& s) { all.push_back({&s, &kv, first_block}); });
    first_block += kv.num_blocks();
  }
  const std::size_t count = std::min(all.size(), kMostRequests);
  std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(count), comes_first,
                            &Placed::sequence);
  std::vector<ViewedRequest> requests;
  for (const auto& [s, kv, first] : std::span(all).first(count)) {
    std::vector<Block> blocks = kv->names(s->kv);
    for (Block& block : blocks) block += static_cast<Block>(first);
    requests.push_back({.request = s->request,
                        .state = s->state,
                        .prompt_tokens = s->prompt_tokens,
                        .computed_tokens = s->computed,
                        .output_tokens = s->generated() - s->expected,
                        .blocks = runs_of(blocks)});
  }
  return requests;
}

}  // namespace

void EngineViewer::step(const Work& work, const StepTimes& times) {
  if (steps_.size() == kMostSteps) steps_.erase(steps_.begin());
  ViewedStep step{.step = work.step,
                  .start_s = to_seconds(times.start),
                  .duration_s = to_seconds(times.end - times.start),
                  .requests = std::ssize(work.batch.items),
                  .preempted = std::ssize(work.batch.preempted)};
  for (const BatchItem& item : work.batch.items) {
    (item.decodes ? step.decode_tokens : step.prompt_tokens) += item.tokens;
  }
  steps_.push_back(step);
}

EngineView EngineViewer::take(std::span<const EngineCore* const> engines, Ticks now) {
  EngineView view{.time_s = to_seconds(now)};
  for (const EngineCore* core : engines) {
    const Scheduler& scheduler = core->scheduler();
    const Ledger& ledger = core->ledger();
    view.num_waiting += static_cast<std::int64_t>(scheduler.num_waiting());
    view.num_running += scheduler.num_running();
    view.kv_blocks += scheduler.kv().num_blocks();
    view.used_blocks += scheduler.kv().num_blocks() - scheduler.kv().num_free();
    view.block_size = scheduler.kv().block_size();
    view.prompt_tokens += ledger.prompt_tokens();
    view.output_tokens += ledger.output_tokens();
    view.steps_so_far += ledger.num_steps();
    view.preemptions += scheduler.counts().num_preemptions;
    view.prefix_queries += scheduler.counts().prefix_queries;
    view.prefix_hits += scheduler.counts().prefix_hits;
    view.drafted += ledger.drafted_tokens();
    view.accepted += ledger.accepted_tokens();
  }
  view.requests = requests_of(engines);
  view.steps = std::exchange(steps_, {});
  return view;
}

std::string json_line(const EngineView& view) { return json_text(json_of(view)); }

}  // namespace tessera::serving
