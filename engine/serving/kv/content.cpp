#include "tessera/serving/content.h"

namespace tessera::serving {
namespace {

// SplitMix64's finaliser: every bit of the input reaches every bit of the result.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

template <class... Parts>
std::uint64_t hash_of(std::uint64_t kind, Parts... parts) {
  std::uint64_t hash = kind;
  ((hash = mixed_hash(hash, static_cast<std::uint64_t>(parts))), ...);
  return hash;
}

enum Kind : std::uint64_t { prefix = 1, id, own_stream, all_prefix, shared_stream };

}  // namespace

std::uint64_t mixed_hash(std::uint64_t hash, std::uint64_t part) {
  return mixed(hash ^ mixed(part));
}

bool Content::is_own(std::int64_t block, std::int64_t block_size) const {
  const std::int64_t end = (block + 1) * block_size;
  if (tokens || end <= prefix_tokens || stream >= 0) return false;
  if (num_block_ids > 0 && end <= prompt_tokens && (end - 1) / block_id_tokens < num_block_ids) {
    return false;
  }
  return prefix_tokens == 0 || prefix_tokens != prompt_tokens;
}

std::uint64_t Content::block_hash(std::int64_t block, std::int64_t block_size) const {
  if (tokens) return tokens->block(block)->hash;
  const std::int64_t end = (block + 1) * block_size;
  if (end <= prefix_tokens) return hash_of(prefix, prefix_group, block);
  if (num_block_ids > 0 && end <= prompt_tokens) {
    const std::int64_t index = (end - 1) / block_id_tokens;
    if (index < num_block_ids) return hash_of(id, block_ids[index], block);
  }
  if (stream >= 0) return hash_of(shared_stream, stream, prefix_group, prefix_tokens, block);
  if (prefix_tokens > 0 && prefix_tokens == prompt_tokens) {
    return hash_of(all_prefix, prefix_group, prefix_tokens, block);
  }
  return hash_of(own_stream, own, block);
}

}  // namespace tessera::serving
