#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace tessera::serving {

/// Blocks by hash: open addressing with linear probing, which a step's worth of look-ups keeps in
/// the cache. Grows as it fills; hashes are well mixed already.
class BlockIndex {
 public:
  static constexpr std::int32_t none = -1;

  /// The block under a hash, or none.
  std::int32_t find(std::uint64_t hash) const {
    for (std::size_t at = hash & mask_;; at = (at + 1) & mask_) {
      if (entries_[at].block == none || entries_[at].hash == hash) return entries_[at].block;
    }
  }

  /// Puts a block under a hash, in place of what is there.
  void set(std::uint64_t hash, std::int32_t block) {
    std::size_t at = hash & mask_;
    while (entries_[at].block != none && entries_[at].hash != hash) at = (at + 1) & mask_;
    if (entries_[at].block == none && 2 * ++num_entries_ > entries_.size()) {
      grow();
      return put({hash, block});
    }
    entries_[at] = {hash, block};
  }

  void clear() { *this = BlockIndex(); }

  /// Takes a hash out that is there. What was pushed behind it moves up.
  void erase(std::uint64_t hash) {
    std::size_t hole = hash & mask_;
    while (entries_[hole].hash != hash || entries_[hole].block == none) hole = (hole + 1) & mask_;
    for (std::size_t at = (hole + 1) & mask_; entries_[at].block != none; at = (at + 1) & mask_) {
      const std::size_t home = entries_[at].hash & mask_;
      if (((at - home) & mask_) < ((at - hole) & mask_)) continue;  // it is not behind the hole
      entries_[hole] = entries_[at];
      hole = at;
    }
    entries_[hole] = {};
    --num_entries_;
  }

 private:
  struct Entry {
    std::uint64_t hash = 0;
    std::int32_t block = none;
  };

  void put(const Entry& entry) {
    std::size_t at = entry.hash & mask_;
    while (entries_[at].block != none) at = (at + 1) & mask_;
    entries_[at] = entry;
  }
  void grow() {
    const std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(2 * entries_.size()));
    mask_ = entries_.size() - 1;
    for (const Entry& entry : old) {
      if (entry.block != none) put(entry);
    }
  }

  std::vector<Entry> entries_{1024};
  std::uint64_t mask_ = entries_.size() - 1;
  std::size_t num_entries_ = 0;
};

}  // namespace tessera::serving
