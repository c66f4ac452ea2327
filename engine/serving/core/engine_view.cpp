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

std::vector<ViewedRequest> requests_of(const EngineCore& core) {
  std::vector<const Sequence*> all;
  core.for_each_request([&](const Sequence& s) { all.push_back(&s); });
  const std::size_t count = std::min(all.size(), kMostRequests);
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(),
                    comes_first);
  std::vector<ViewedRequest> requests;
  for (const Sequence* s : std::span(all).first(count)) {
    requests.push_back({.request = s->request,
                        .state = s->state,
                        .prompt_tokens = s->prompt_tokens,
                        .computed_tokens = s->computed,
                        .output_tokens = s->generated() - s->expected,
                        .blocks = runs_of(core.scheduler().kv().names(s->kv))});
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

EngineView EngineViewer::take(const EngineCore& core, Ticks now) {
  const Scheduler& scheduler = core.scheduler();
  const Ledger& ledger = core.ledger();
  return {.time_s = to_seconds(now),
          .num_waiting = static_cast<std::int64_t>(scheduler.num_waiting()),
          .num_running = scheduler.num_running(),
          .kv_blocks = scheduler.kv().num_blocks(),
          .used_blocks = scheduler.kv().num_blocks() - scheduler.kv().num_free(),
          .block_size = scheduler.kv().block_size(),
          .prompt_tokens = ledger.prompt_tokens(),
          .output_tokens = ledger.output_tokens(),
          .steps_so_far = ledger.num_steps(),
          .preemptions = scheduler.counts().num_preemptions,
          .prefix_queries = scheduler.counts().prefix_queries,
          .prefix_hits = scheduler.counts().prefix_hits,
          .drafted = ledger.drafted_tokens(),
          .accepted = ledger.accepted_tokens(),
          .requests = requests_of(core),
          .steps = std::exchange(steps_, {})};
}

std::string json_line(const EngineView& view) { return json_text(json_of(view)); }

}  // namespace tessera::serving
