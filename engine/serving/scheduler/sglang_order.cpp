#include "sglang_order.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "tessera/core/rng.h"

namespace tessera::serving {
namespace {

constexpr std::size_t kMostSorted = 128;    // beyond it matching prefixes takes too long
constexpr std::int64_t kSharedTokens = 32;  // IN_BATCH_PREFIX_CACHING_*_THRESHOLD

}  // namespace

void SglangQueue::enter(Slot slot) {
  const auto i = static_cast<std::size_t>(slot);
  if (entered_.size() <= i) entered_.resize(i + 1);
  entered_[i] = computed_;
}

double SglangQueue::key_of(const Sequence& s, Slot slot, std::int64_t cached_tokens) const {
  switch (order_) {
    case SglangOrder::lpm:
      return -static_cast<double>(cached_tokens);
    case SglangOrder::shortest:
      return static_cast<double>(std::max<std::int64_t>(1, s.known - cached_tokens));
    case SglangOrder::lof:
      return -static_cast<double>(s.max_tokens);
    case SglangOrder::random:  // of the request and how often was drawn, and nothing before
      return static_cast<double>(
          Rng(num_sorted_ * 0x9E3779B97F4A7C15ull + static_cast<std::uint64_t>(s.request))
              .uniform());
    case SglangOrder::hrrn: {  // waiting, in tokens computed since, per token to compute
      const std::int64_t uncached = s.prompt_tokens - cached_tokens;
      if (uncached <= 0) return -std::numeric_limits<double>::infinity();
      const std::int64_t waited = computed_ - entered_[static_cast<std::size_t>(slot)];
      return -static_cast<double>(waited) / static_cast<double>(uncached);
    }
    case SglangOrder::fcfs:
      break;
  }
  return 0;
}

const std::vector<Slot>& SglangQueue::sorted(const WaitQueue& waiting,
                                             const std::vector<Sequence>& sequences,
                                             const BlockManager& kv,
                                             const std::function<std::int64_t(Slot)>& found_of) {
  ++num_sorted_;
  slots_.clear();
  waiting.for_each([&](Slot slot) { slots_.push_back(slot); });
  const bool matches = order_ == SglangOrder::lpm || order_ == SglangOrder::hrrn;
  if (order_ == SglangOrder::fcfs || (matches && slots_.size() > kMostSorted)) return slots_;
  const bool looks = matches || order_ == SglangOrder::shortest;
  const std::int64_t shared_block = (kSharedTokens + kv.block_size() - 1) / kv.block_size() - 1;
  std::unordered_set<std::uint64_t> prefixes;
  entries_.clear();
  for (const Slot slot : slots_) {
    const Sequence& s = sequences[static_cast<std::size_t>(slot)];
    const std::int64_t cached = looks ? found_of(slot) * kv.block_size() : 0;
    double last = 0;
    // Of several with one prefix that is not cached the first fills the cache for the others.
    if (looks && kv.caches_prefixes() && cached <= kSharedTokens &&
        s.known >= (shared_block + 1) * kv.block_size()) {
      last = prefixes.insert(s.content.block_hash(shared_block, kv.block_size())).second ? 0 : 1;
    }
    entries_.push_back({last, last > 0 ? 0 : key_of(s, slot, cached), slot});
  }
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.last, a.key) < std::pair(b.last, b.key);
  });
  std::transform(entries_.begin(), entries_.end(), slots_.begin(),
                 [](const Entry& entry) { return entry.slot; });
  return slots_;
}

}  // namespace tessera::serving
