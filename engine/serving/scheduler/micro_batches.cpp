// A plan's micro-batches (LLM-PQ's and SplitQuant's micro-batch manager): a batch is cut into
// micro-batches for its prompts and into others for its tokens, and each step is one of them. Who
// waits when nothing runs is the next batch, with memory for all that it may come to.
//
// Prompts go in chunks, one behind the other. A decode micro-batch starts when all prompts of the
// micro-batches that its requests were in are through; its round r when round r - 1 is. They are
// served as they become ready, prompts first, then by number.

#include "tessera/serving/micro_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "policies.h"
#include "tessera/core/error.h"

namespace tessera::serving {
namespace {

class MicroBatches final : public Scheduler {
 public:
  using Scheduler::Scheduler;
  MicroBatches(const EngineOptions& options, const BlockManager::Options& kv, MicroBatchPlan plan)
      : Scheduler(options, kv),
        is_planned_(true),
        place_(std::move(plan.place)),
        return_ticks_(std::move(plan.return_ticks)) {
    cut(plan.prefill, plan.decode);
  }

  std::string note() const override {
    return "micro_batches computes a micro-batch a step, whatever max_num_batched_tokens is";
  }
  std::size_t most_under_way(std::size_t) const override {
    return std::numeric_limits<std::size_t>::max();  // the queue of the first stage is its own
  }

 private:
  /// A step to be, ordered as they are served.
  struct Unit {
    Ticks ready = 0;
    bool decodes = false;
    std::int64_t micro_batch = 0, index = 0;  ///< 0-based chunk, or round from 1
    auto operator<=>(const Unit&) const = default;
  };
  struct MicroBatch {
    std::vector<Slot> slots;
    std::vector<std::int64_t> requests;
    std::vector<std::int64_t> ends;  ///< of their prompts, or of all that was known
    std::int64_t size = 0;
    std::int64_t num_chunks = 0;       ///< of a prompt's
    std::int64_t num_done = 0;         ///< of these
    std::vector<std::size_t> waiters;  ///< of a prompt's: decode micro-batches
    std::int64_t num_waits = 0;        ///< of a decode's: prompts' micro-batches not through
    std::int64_t round = 0;            ///< of a decode's: that was done last
  };

  void cut(const std::vector<std::int64_t>& prefill, const std::vector<std::int64_t>& decode) {
    const auto fill = [](std::vector<MicroBatch>& parts, std::vector<std::size_t>& part_of,
                         const std::vector<std::int64_t>& sizes) {
      parts.assign(sizes.size(), {});
      part_of.clear();
      for (std::size_t m = 0; m < sizes.size(); ++m) {
        parts[m].size = sizes[m];
        part_of.insert(part_of.end(), static_cast<std::size_t>(sizes[m]), m);
      }
    };
    fill(prefill_, prefill_of_, prefill);
    fill(decode_, decode_of_, decode);
    for (std::size_t i = 0; i < prefill_of_.size(); ++i) {
      std::vector<std::size_t>& waiters = prefill_[prefill_of_[i]].waiters;
      const std::size_t q = decode_of_[i];
      if (!waiters.empty() && waiters.back() == q) continue;
      waiters.push_back(q);
      ++decode_[q].num_waits;
    }
  }

  void schedule(Ticks now, Batch& batch) override {
    for (const std::size_t q : done_) {
      const auto micro_batch = static_cast<std::int64_t>(q);
      const Ticks back = return_ticks_ ? return_ticks_(micro_batch) : 0;
      units_.push({now + back, true, micro_batch, ++decode_[q].round});
    }
    done_.clear();
    if (is_planned_) {
      take_planned(batch, now);
    } else if (running_.empty() && num_under_way_ == 0) {
      start(batch, now);
    }
    if (!waiting_.empty() && batch.limit == Limit::none) batch.limit = Limit::policy;
    while (batch.items.empty() && !units_.empty() && units_.top().ready <= now) {
      const Unit unit = units_.top();
      units_.pop();
      compute(batch, unit);
      if (batch.items.empty()) pass(unit, now);  // all of its requests have left
    }
    if (batch.items.empty() && !units_.empty()) batch.decide_again = units_.top().ready;
  }

  // Blocks for all that a request may come to, so that a batch never runs out of them.
  bool take(Batch& batch, Slot slot) {
    const Sequence& s = sequence(slot);
    const std::int64_t most = std::min(s.most_tokens() - 1, model_len());
    return admit(batch, slot, most, find_prefix(s));
  }

  void start(Batch& batch, Ticks now) {
    units_ = {};
    while (!waiting_.empty() && batch.limit == Limit::none) {
      if (!has_seat()) {
        batch.limit = Limit::seats;
      } else if (!take(batch, waiting_.front())) {
        batch.limit = Limit::blocks;
      }
    }
    if (running_.empty()) return;
    const std::int64_t size = std::ssize(running_);
    const auto sizes = [&](std::int64_t largest) {
      return micro_batch_sizes(size, largest > 0 ? largest : size);
    };
    cut(sizes(options_.prefill_micro_batch_size), sizes(options_.decode_micro_batch_size));
    for (std::size_t i = 0; i < running_.size(); ++i) place(running_[i], i, now);
  }

  void take_planned(Batch& batch, Ticks now) {
    while (!waiting_.empty()) {
      const Slot slot = waiting_.front();
      const auto request = static_cast<std::size_t>(sequence(slot).request);
      if (!has_seat()) return void(batch.limit = Limit::seats);
      if (!take(batch, slot)) return void(batch.limit = Limit::blocks);
      place(slot, static_cast<std::size_t>(place_.at(request)), now);
    }
  }

  // A request stands at its place in the batch; the last one of a micro-batch lets it begin.
  void place(Slot slot, std::size_t position, Ticks now) {
    const Sequence& s = sequence(slot);
    const std::size_t m = prefill_of_.at(position);
    MicroBatch &prompts = prefill_[m], &tokens = decode_[decode_of_[position]];
    for (MicroBatch* part : {&prompts, &tokens}) {
      part->slots.push_back(slot);
      part->requests.push_back(s.request);
      part->ends.push_back(s.known);
    }
    prompts.num_chunks = std::max(prompts.num_chunks, chunks_of(s));
    if (std::ssize(prompts.slots) < prompts.size) return;
    for (std::int64_t chunk = 0; chunk < prompts.num_chunks; ++chunk) {
      units_.push({now, false, static_cast<std::int64_t>(m), chunk});
    }
  }

  std::int64_t chunks_of(const Sequence& s) const {
    const std::int64_t chunk = options_.chunk_tokens, left = s.known - s.computed;
    return chunk > 0 ? std::max<std::int64_t>(1, (left + chunk - 1) / chunk) : 1;
  }

  void compute(Batch& batch, const Unit& unit) {
    const auto m = static_cast<std::size_t>(unit.micro_batch);
    const MicroBatch& part = unit.decodes ? decode_[m] : prefill_[m];
    for (std::size_t i = 0; i < part.slots.size(); ++i) {
      const Sequence& s = sequence(part.slots[i]);
      if (s.request != part.requests[i] || s.state != SequenceState::running) continue;
      const std::int64_t room = s.kv.num_blocks * kv_.block_size() - s.computed;
      std::int64_t tokens = std::min(next_tokens(s), room);  // drafts may pass its end
      if (!unit.decodes) tokens = std::min(tokens, part.ends[i] - s.computed);
      if (!unit.decodes && options_.chunk_tokens > 0) {
        tokens = std::min(tokens, options_.chunk_tokens);
      }
      if (tokens > 0) put(batch, part.slots[i], tokens);
    }
    batch.load.unit = {unit.micro_batch, unit.index, unit.decodes};
    num_under_way_ += batch.items.empty() ? 0 : 1;
  }

  void completed(const Batch& batch) override {
    if (batch.items.empty()) return;
    --num_under_way_;
    const StepUnit& unit = batch.load.unit;
    done({0, unit.decodes, unit.micro_batch, unit.index});
  }

  // Whose requests wait again, and begin a batch of their own.
  void lost_steps() override {
    num_under_way_ = 0;
    done_.clear();
    units_ = {};
  }

  void pass(const Unit& unit, Ticks now) {
    done(unit);
    for (const std::size_t q : done_) {
      units_.push({now, true, static_cast<std::int64_t>(q), ++decode_[q].round});
    }
    done_.clear();
  }

  void done(const Unit& unit) {
    const auto m = static_cast<std::size_t>(unit.micro_batch);
    if (unit.decodes) {
      if (has_any(decode_[m])) done_.push_back(m);
      return;
    }
    if (++prefill_[m].num_done < prefill_[m].num_chunks) return;
    for (const std::size_t q : prefill_[m].waiters) {
      if (--decode_[q].num_waits == 0 && has_any(decode_[q])) done_.push_back(q);
    }
  }

  bool has_any(const MicroBatch& part) const {
    for (std::size_t i = 0; i < part.slots.size(); ++i) {
      const Sequence& s = sequence(part.slots[i]);
      if (s.request == part.requests[i] && s.state == SequenceState::running) return true;
    }
    return false;
  }

  bool is_planned_ = false;
  std::vector<std::int64_t> place_;
  std::function<Ticks(std::int64_t)> return_ticks_;
  std::vector<MicroBatch> prefill_, decode_;
  std::vector<std::size_t> prefill_of_, decode_of_;  ///< by place in the batch
  std::priority_queue<Unit, std::vector<Unit>, std::greater<>> units_;
  std::int64_t num_under_way_ = 0;  ///< steps
  std::vector<std::size_t> done_;   ///< decode micro-batches ready for a round since the last step
};

}  // namespace

std::vector<std::int64_t> micro_batch_sizes(std::int64_t batch_size, std::int64_t largest) {
  if (batch_size < 1 || largest < 1) {
    throw Error(
        ErrorCode::out_of_range,
        fmt::format("cannot cut {} requests into micro-batches of at most {}", batch_size, largest),
        "batch_size");
  }
  const std::int64_t number = batch_size / largest + (batch_size % largest != 0 ? 1 : 0);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(number), batch_size / number);
  for (std::int64_t i = 0; i < batch_size % number; ++i) ++sizes[static_cast<std::size_t>(i)];
  return sizes;
}

std::unique_ptr<Scheduler> make_micro_batches(const EngineOptions& options,
                                              const BlockManager::Options& kv) {
  return std::make_unique<MicroBatches>(options, kv);
}

std::unique_ptr<Scheduler> make_planned_batch(const EngineOptions& options,
                                              const BlockManager::Options& kv,
                                              MicroBatchPlan plan) {
  return std::make_unique<MicroBatches>(options, kv, std::move(plan));
}

}  // namespace tessera::serving
