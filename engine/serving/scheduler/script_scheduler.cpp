#include "tessera/serving/script_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/core/error.h"

namespace tessera::serving {
namespace {

constexpr std::size_t kPage = 256;
using Page = std::array<ScriptRequest, kPage>;

/// Pages outlive the schedulers that they served: a script may look at a record that it should have
/// forgotten, and must then read a wrong record, not freed memory.
class Pages {
 public:
  Page* take() {
    if (free_.empty()) free_.push_back(all_.emplace_back(std::make_unique<Page>()).get());
    Page* page = free_.back();
    free_.pop_back();
    return page;
  }
  void give_back(Page* page) { free_.push_back(page); }

 private:
  std::vector<std::unique_ptr<Page>> all_;
  std::vector<Page*> free_;
};

Pages& pages() {
  thread_local auto* all = new Pages;  // never destroyed
  return *all;
}

/// Records that stay where they are.
class Records {
 public:
  Records() = default;
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;
  ~Records() {
    for (Page* page : pages_) pages().give_back(page);
  }
  std::size_t size() const { return size_; }
  void clear() { size_ = 0; }
  ScriptRequest& operator[](std::size_t i) const { return (*pages_[i / kPage])[i % kPage]; }
  ScriptRequest& add() {
    if (size_ == pages_.size() * kPage) pages_.push_back(pages().take());
    return (*this)[size_++];
  }

 private:
  std::vector<Page*> pages_;
  std::size_t size_ = 0;
};

class ScriptScheduler final : public Scheduler, public ScriptDecision {
 public:
  ScriptScheduler(const EngineOptions& options, const BlockManager::Options& kv,
                  ScriptPolicy policy)
      : Scheduler(options, kv), policy_(std::move(policy)) {}

  std::int64_t repeats(const Batch& batch, std::int64_t most) const override {
    return !policy_.every_step && is_all_decodes(batch) ? decode_repeats(batch, most) : 0;
  }

  double now_s() const override { return to_seconds(now_); }
  double epoch() const override { return epoch_; }
  std::int64_t free_blocks() const override { return kv_.num_free(); }
  std::int64_t tokens_left() const override { return budget_; }
  std::int64_t seats_left() const override { return options_.max_num_seqs - std::ssize(running_); }
  std::int64_t block_size() const override { return kv_.block_size(); }
  std::int64_t num_running() const override { return num_running_; }
  std::int64_t num_waiting() const override { return std::ssize(slots_) - num_running_; }

  const ScriptRequest* running(std::int64_t i) const override {
    return i >= 0 && i < num_running_ ? &record_at(i) : nullptr;
  }
  const ScriptRequest* waiting(std::int64_t i) const override {
    return i >= 0 && i < num_waiting() ? &record_at(num_running_ + i) : nullptr;
  }

  std::int64_t cached_tokens(std::int32_t handle) const override {
    const Slot slot = waiting_slot(handle, "cached_tokens");
    return find_prefix(sequence(slot)) * kv_.block_size();
  }
  std::int64_t blocks_needed(std::int32_t handle) const override {
    const Sequence& s = sequence(waiting_slot(handle, "blocks_needed"));
    if (s.kv.num_blocks > 0) {
      return std::max<std::int64_t>(0, kv_.blocks_for(s.known) - s.kv.num_blocks);
    }
    return kv_.blocks_needed(s.content, s.known, s.most_tokens(), find_prefix(s));
  }

  std::int64_t schedule(std::int32_t handle, double tokens) override {
    ScriptRequest& record = record_of(handle, "schedule");
    const Slot slot = slots_[static_cast<std::size_t>(handle)];
    if (record.scheduled_tokens > 0) fail(record, "schedule", "it is in the step already");
    if (!(tokens >= 1))
      fail(record, "schedule", fmt::format("{} tokens; at least 1 belongs here", tokens));
    if (was_preempted(handle)) fail(record, "schedule", "it was preempted in this step");
    const double most = std::min(tokens, 1e15);
    const auto wanted = static_cast<std::int64_t>(most);
    const std::int64_t done =
        record.is_running ? go_on(record, slot, wanted) : start(record, slot, wanted);
    if (done > 0) {
      put(*batch_, slot, done);
      budget_ -= done;
      record.scheduled_tokens = static_cast<double>(done);
      refresh(record, at(slot));
    }
    return done;
  }

  void preempt(std::int32_t handle) override {
    ScriptRequest& record = record_of(handle, "preempt");
    const Slot slot = slots_[static_cast<std::size_t>(handle)];
    if (!record.is_running) fail(record, "preempt", "it does not run");
    if (record.scheduled_tokens > 0)
      fail(record, "preempt", "it is in the step that is being decided");
    if (at(slot).is_under_way())
      fail(record, "preempt", "its step is under way (left_tokens is 0)");
    Scheduler::preempt(*batch_, slot);
    preempted_.push_back(handle);
    record.is_running = false;
    refresh(record, at(slot));
  }

 private:
  void removed(Slot slot) override {
    if (policy_.removed) policy_.removed(sequence(slot).request);
  }

  void schedule(Ticks now, Batch& batch) override {
    now_ = now;
    batch_ = &batch;
    budget_ = options_.max_num_batched_tokens;
    ++epoch_;
    preempted_.clear();
    records_.clear();
    slots_ = running_;
    num_running_ = std::ssize(running_);
    waiting_.append(0, waiting_.size(), slots_);
    if (num_running_ > 0) record_at(num_running_ - 1);
    policy_.decide(*this);
    batch_ = nullptr;
    set_limit(batch);
  }

  // Records are made when they are asked for: a queue may be long. All before it come along.
  ScriptRequest& record_at(std::int64_t handle) const {
    while (records_.size() <= static_cast<std::size_t>(handle)) {
      const std::size_t i = records_.size();
      const Sequence& s = sequence(slots_[i]);
      ScriptRequest& record = records_.add();
      record.handle = static_cast<std::int32_t>(i);
      record.epoch = epoch_;
      record.request = static_cast<double>(s.request);
      record.arrival_s = to_seconds(s.arrival);
      record.prompt_tokens = static_cast<double>(s.prompt_tokens);
      record.max_tokens = static_cast<double>(s.max_tokens);
      record.priority = s.priority;
      record.slo_class = s.slo_class;
      record.scheduled_tokens = 0;
      record.is_running = s.state == SequenceState::running;
      refresh(record, s);
    }
    return records_[static_cast<std::size_t>(handle)];
  }

  // What holds the queue back, as far as that can be told from outside.
  void set_limit(Batch& batch) const {
    if (waiting_.empty()) return;
    batch.limit = Limit::policy;
    const Sequence& s = sequence(waiting_.front());
    if (seats_left() == 0)
      batch.limit = Limit::seats;
    else if (budget_ == 0)
      batch.limit = Limit::tokens;
    else if (!fits_whole(s, find_prefix(s)))
      batch.limit = Limit::blocks;
  }

  void refresh(ScriptRequest& record, const Sequence& s) const {
    record.known_tokens = static_cast<double>(s.known);
    record.computed_tokens = static_cast<double>(std::min(s.computed, s.known));
    record.generated_tokens = static_cast<double>(s.generated());
    record.left_tokens = static_cast<double>(std::max<std::int64_t>(0, next_tokens(s)));
    record.num_blocks = static_cast<double>(s.kv.num_blocks);
    record.num_preemptions = s.num_preemptions;
  }

  [[noreturn]] void fail(const ScriptRequest& record, const char* what,
                         const std::string& why) const {
    refuse(fmt::format("scheduler '{}'", policy_.name), "{} request {}: {}", what, record.request,
           why);
  }

  ScriptRequest& record_of(std::int32_t handle, const char* what) const {
    if (batch_ == nullptr || handle < 0 || handle >= std::ssize(slots_)) {
      refuse(fmt::format("scheduler '{}'", policy_.name),
             "{}: handle {} is none of the {} requests of this decision", what, handle,
             batch_ == nullptr ? 0 : std::ssize(slots_));
    }
    return record_at(handle);
  }

  Slot waiting_slot(std::int32_t handle, const char* what) const {
    const ScriptRequest& record = record_of(handle, what);
    if (record.is_running) fail(record, what, "it runs; only those that wait are asked for");
    return slots_[static_cast<std::size_t>(handle)];
  }

  bool was_preempted(std::int32_t handle) const {
    return std::find(preempted_.begin(), preempted_.end(), handle) != preempted_.end();
  }

  void check_budget(const ScriptRequest& record, std::int64_t tokens) const {
    if (tokens <= budget_) return;
    fail(record, "schedule",
         fmt::format("{} tokens; {} of {} are left (max_num_batched_tokens)", tokens, budget_,
                     options_.max_num_batched_tokens));
  }

  std::int64_t go_on(const ScriptRequest& record, Slot slot, std::int64_t wanted) {
    Sequence& s = at(slot);
    const std::int64_t tokens = std::min(wanted, next_tokens(s));
    if (tokens < 1) fail(record, "schedule", "it has no tokens left; its step is under way");
    check_budget(record, tokens);
    return extend(s, room_until(s, s.computed + tokens)) ? tokens : 0;
  }

  // The whole request has to fit, not only its first piece, lest prompts take each other's blocks.
  std::int64_t start(const ScriptRequest& record, Slot slot, std::int64_t wanted) {
    const Sequence& s = at(slot);
    if (seats_left() <= 0) {
      fail(record, "schedule",
           fmt::format("all {} seats are taken (max_num_seqs)", options_.max_num_seqs));
    }
    if (s.is_under_way()) fail(record, "schedule", "its step is under way");
    const std::int64_t found = find_prefix(s), whole = uncached(s, found);
    const std::int64_t tokens = std::min(wanted, whole);
    check_budget(record, tokens);
    const std::int64_t end = room_until(s, s.known - whole + tokens);
    return fits_whole(s, found) && admit(*batch_, slot, end, found) ? tokens : 0;
  }

  ScriptPolicy policy_;
  Ticks now_ = 0;
  Batch* batch_ = nullptr;  ///< while a decision is made
  std::int64_t budget_ = 0, num_running_ = 0;
  double epoch_ = 0;
  std::vector<Slot> slots_;  ///< by handle: those that run, and those that wait
  mutable Records records_;  ///< by handle
  std::vector<std::int32_t> preempted_;
};

}  // namespace

std::unique_ptr<Scheduler> make_script_scheduler(const EngineOptions& options,
                                                 const BlockManager::Options& kv,
                                                 ScriptPolicy policy) {
  return std::make_unique<ScriptScheduler>(options, kv, std::move(policy));
}

}  // namespace tessera::serving
