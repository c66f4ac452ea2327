// SGLang's scheduler (python/sglang/srt/managers/schedule_policy.py, schedule_batch.py): a step of
// prompts goes before decodes where one can be formed, in an order that looks at the prefix cache.
// Admission keeps blocks back for a share of what running requests may still generate; where they
// run short all the same, requests with the fewest outputs give theirs back.
//
// Differences: the cache finds whole blocks of block_size tokens where SGLang's default page is one
// token; what SGLang would cut to fit (max_tokens beyond the cache) is admitted when it is alone.

#include <algorithm>

#include "policies.h"
#include "sglang_order.h"

namespace tessera::serving {
namespace {

constexpr std::int64_t kMostReserved = 4096;  // CLIP_MAX_NEW_TOKENS
constexpr double kFirstRatio = 0.7;           // SGLANG_INIT_NEW_TOKEN_RATIO
constexpr double kLeastRatio = 0.14;          // SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR, of the first
constexpr double kDecaySteps = 600;           // SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS
constexpr std::int64_t kRetractSteps = 20;    // SGLANG_RETRACT_DECODE_STEPS

/// The share of max_tokens that running requests are taken to use: falls with every step of
/// decodes, and jumps where it was too low.
struct NewTokenRatio {
  explicit NewTokenRatio(double conservativeness)
      : first(std::min(kFirstRatio * conservativeness, 1.0)), from(first) {}

  double least() const { return first * kLeastRatio; }
  double now() const {
    const double decay = (first - least()) / kDecaySteps;
    return std::max(from - decay * static_cast<double>(steps), least());
  }
  void restart(double ratio) { from = ratio, steps = 0; }

  double first, from;
  std::int64_t steps = 0;  ///< of decodes since
};

class Sglang final : public Scheduler {
 public:
  Sglang(const EngineOptions& options, const BlockManager::Options& kv)
      : Scheduler(options, kv),
        chunks_(options.enable_chunked_prefill.value_or(true)),
        ratio_(options.schedule_conservativeness) {}

  // With the queue empty, or not looked at until somebody ends, nothing but decodes can follow.
  std::int64_t repeats(const Batch& batch, std::int64_t most) const override {
    const bool rests = waiting_.empty() || (is_full_ && running_.size() >= full_size_);
    return is_all_decodes(batch) && rests ? decode_repeats(batch, most) : 0;
  }

 private:
  void added(Slot slot) override { order_.enter(slot); }
  void removed(Slot slot) override {
    if (is_mid_prompt(slot)) mid_prompt_ = -1;
  }
  void repeated(const Batch&, std::int64_t steps) override { ratio_.steps += steps; }

  void schedule(Ticks, Batch& batch) override {
    if (running_.empty() || running_.size() < full_size_) is_full_ = false;
    if (running_.empty()) ratio_.restart(ratio_.first);
    budget_ = options_.max_num_batched_tokens;
    std::size_t num_decodes = 0;
    if (options_.mixed_chunk) num_decodes = decode(batch);
    if (batch.preempted.empty()) {
      continue_prompt(batch);
      admit_prompts(batch, num_decodes);
    }
    const bool has_prompts = batch.items.size() > num_decodes;
    if (!options_.mixed_chunk && !has_prompts) decode(batch);
    if (!has_prompts && !batch.items.empty() && batch.preempted.empty()) ++ratio_.steps;
    if (is_full_ && batch.limit == Limit::none && !waiting_.empty()) batch.limit = full_limit_;
  }

  bool is_mid_prompt(Slot slot) const { return slot == mid_prompt_; }

  // All that decode get a slot; while blocks are short for it, requests are retracted.
  std::size_t decode(Batch& batch) {
    while (!make_room_for_decodes()) retract(batch);
    for (const Slot slot : running_) {
      const std::int64_t tokens = next_tokens(at(slot));
      if (tokens <= 0 || is_mid_prompt(slot)) continue;
      extend(at(slot), room_until(at(slot), at(slot).computed + tokens));
      put(batch, slot, tokens);
      budget_ -= tokens;
    }
    return batch.items.size();
  }

  bool make_room_for_decodes() const {
    std::int64_t need = 0;
    for (const Slot slot : running_) {
      const Sequence& s = sequence(slot);
      const std::int64_t tokens = next_tokens(s);
      if (tokens <= 0 || is_mid_prompt(slot)) continue;
      const std::int64_t end = room_until(s, s.computed + tokens);
      need += std::max<std::int64_t>(0, kv_.blocks_for(end) - s.kv.num_blocks);
    }
    return need == 0 || need <= kv_.num_free();
  }

  // The one with the fewest outputs, of these that with the longest prompt; the last decode stays
  // where a prompt under way can go instead. Nobody whose step is under way.
  void retract(Batch& batch) {
    Slot victim = -1;
    std::size_t num_decodes = 0;
    const auto rank = [&](Slot slot) {
      return std::pair(at(slot).generated(), -at(slot).prompt_tokens);
    };
    for (const Slot slot : running_) {
      if (left(at(slot)) <= 0 || is_mid_prompt(slot)) continue;
      ++num_decodes;
      if (victim < 0 || rank(slot) <= rank(victim)) victim = slot;
    }
    if (num_decodes == 1 && mid_prompt_ >= 0) victim = mid_prompt_;
    if (is_mid_prompt(victim)) mid_prompt_ = -1;
    preempt(batch, victim, false);
    order_.enter(victim);
    is_full_ = false;
    std::int64_t outputs = 0, most = 0;
    for (const Slot slot : running_) {
      outputs += at(slot).generated() + kRetractSteps;
      most += at(slot).max_tokens;
    }
    const double estimate = static_cast<double>(outputs) / static_cast<double>(most + 1);
    ratio_.restart(std::min(1.0, estimate));
  }

  /// Tokens that may still be handed out: the free ones, without those kept back.
  double free_tokens() const {
    double tokens = static_cast<double>(kv_.num_free() * kv_.block_size());
    if (!kv_.is_paged()) return tokens;  // its memory is set aside anyway
    const double ratio = ratio_.now();
    for (const Slot slot : running_) {
      if (!is_mid_prompt(slot)) tokens -= static_cast<double>(reserve(sequence(slot))) * ratio;
    }
    return tokens;
  }

  static std::int64_t reserve(const Sequence& s) {
    return std::clamp<std::int64_t>(s.max_tokens - s.generated(), 0, kMostReserved);
  }

  // A prompt of which a part is done goes on first; as far as blocks allow.
  void continue_prompt(Batch& batch) {
    if (mid_prompt_ < 0) return;
    Sequence& s = at(mid_prompt_);
    const std::int64_t room = (s.kv.num_blocks + kv_.num_free()) * kv_.block_size() - s.computed;
    const std::int64_t tokens = std::min({left(s), budget_, room});
    if (tokens <= 0) return;
    const std::int64_t end = s.computed + tokens;
    if (!extend(s, std::max(end, std::min(room_until(s, end), s.computed + room)))) return;
    put(batch, mid_prompt_, tokens);
    order_.computed(tokens);
    budget_ -= tokens;
    if (left(s) <= 0) mid_prompt_ = -1;
  }

  void admit_prompts(Batch& batch, std::size_t num_decodes) {
    if (is_full_ || waiting_.empty()) return;
    double rest = free_tokens();
    bool has_any = batch.items.size() > num_decodes;
    const auto found_of = [&](Slot slot) { return find_prefix(at(slot)); };
    for (const Slot slot : order_.sorted(waiting_, sequences_, kv_, found_of)) {
      if (budget_ <= 0 || mid_prompt_ >= 0) return void(batch.limit = Limit::tokens);
      if (!has_seat()) return stay_full(batch, Limit::seats);
      Sequence& s = at(slot);
      const std::int64_t found = find_prefix(s);
      const std::int64_t whole = uncached(s, found);
      const std::int64_t tokens = chunks_ ? piece(whole, has_any) : whole;
      if (tokens <= 0 || (!chunks_ && has_any && whole >= budget_)) {
        return void(batch.limit = Limit::tokens);
      }
      const double need = tokens_needed(s, found, whole);
      const bool keeps_back = kv_.is_paged() && !running_.empty();
      if (keeps_back && need >= rest) return stay_full(batch, Limit::blocks);
      const std::int64_t end = s.known - whole + tokens;
      if (!fits_whole(s, found) || !admit(batch, slot, room_until(s, end), found)) {
        return stay_full(batch, Limit::blocks);
      }
      put(batch, slot, tokens);
      order_.computed(tokens);
      has_any = true;
      budget_ -= tokens;
      rest -= tokens == whole ? need : static_cast<double>(tokens + kv_.block_size());
      if (tokens < whole) mid_prompt_ = slot;
    }
  }

  /// A piece ends at the end of a block, where the budget holds one.
  std::int64_t piece(std::int64_t whole, bool has_any) const {
    if (whole <= budget_) return whole;
    const std::int64_t blocks = budget_ / kv_.block_size() * kv_.block_size();
    return blocks > 0 || has_any ? blocks : budget_;
  }

  // What it takes of the free ones now, what it may generate, and a block for the rounding.
  double tokens_needed(const Sequence& s, std::int64_t found, std::int64_t whole) const {
    if (s.kv.num_blocks > 0) return static_cast<double>(whole + reserve(s) + kv_.block_size());
    const std::int64_t blocks = kv_.blocks_needed(s.content, s.known, s.most_tokens(), found);
    return static_cast<double>((blocks + 1) * kv_.block_size() + reserve(s));
  }

  // The queue is not looked at again before somebody has ended.
  void stay_full(Batch& batch, Limit limit) {
    is_full_ = true;
    full_size_ = running_.size();
    full_limit_ = batch.limit = limit;
  }

  bool chunks_;
  NewTokenRatio ratio_;
  SglangQueue order_{options_.schedule_policy};
  std::int64_t budget_ = 0;
  Slot mid_prompt_ = -1;  ///< the one request of which a part is done
  bool is_full_ = false;
  std::size_t full_size_ = 0;
  Limit full_limit_ = Limit::none;
};

}  // namespace

std::unique_ptr<Scheduler> make_sglang(const EngineOptions& options,
                                       const BlockManager::Options& kv) {
  return std::make_unique<Sglang>(options, kv);
}

}  // namespace tessera::serving
