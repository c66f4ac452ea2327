#include "tessera/run/traffic_tokens.h"

#include "tessera/serving/content.h"

namespace tessera::run {
namespace {

enum Kind : std::uint64_t { kPrefix = 1, kId, kStream, kOwn };

}  // namespace

TrafficTokens::TrafficTokens(const serving::Traffic& traffic, std::uint64_t seed,
                             std::int64_t vocab_size)
    : traffic_(traffic), seed_(seed), vocab_size_(static_cast<std::uint64_t>(vocab_size)) {}

TrafficTokens::Stream TrafficTokens::stream_of(const serving::Request& r) const {
  return {r.stream, r.prefix_group, r.prefix_group >= 0 ? r.prefix_tokens : 0};
}

std::int32_t TrafficTokens::draw(std::uint64_t kind, std::int64_t of, std::int64_t position) const {
  std::uint64_t hash = serving::mixed_hash(seed_, kind);
  hash = serving::mixed_hash(hash, static_cast<std::uint64_t>(of));
  hash = serving::mixed_hash(hash, static_cast<std::uint64_t>(position));
  return static_cast<std::int32_t>(hash % vocab_size_);
}

std::vector<std::int32_t> TrafficTokens::prompt_of(std::int64_t request) const {
  const serving::Request& r = traffic_.requests[static_cast<std::size_t>(request)];
  const auto stream = streams_.find(stream_of(r));
  std::vector<std::int32_t> tokens;
  for (std::int64_t p = 0; p < r.prompt_tokens; ++p) {
    const std::int64_t block = p / traffic_.block_id_tokens;
    if (r.prefix_group >= 0 && p < r.prefix_tokens) {
      tokens.push_back(draw(kPrefix, r.prefix_group, p));
    } else if (block < r.num_block_ids) {
      tokens.push_back(
          draw(kId, traffic_.block_ids[static_cast<std::size_t>(r.first_block_id + block)], p));
    } else if (r.stream < 0) {
      tokens.push_back(draw(kOwn, request, p));
    } else if (stream != streams_.end() && p < std::ssize(stream->second)) {
      tokens.push_back(stream->second[static_cast<std::size_t>(p)]);
    } else {
      tokens.push_back(draw(kStream, r.stream, p));
    }
  }
  return tokens;
}

void TrafficTokens::keep(std::int64_t request, std::span<const std::int32_t> tokens) {
  const serving::Request& r = traffic_.requests[static_cast<std::size_t>(request)];
  if (r.stream < 0) return;
  std::vector<std::int32_t>& kept = streams_[stream_of(r)];
  if (std::ssize(tokens) > std::ssize(kept)) kept.assign(tokens.begin(), tokens.end());
}

}  // namespace tessera::run
