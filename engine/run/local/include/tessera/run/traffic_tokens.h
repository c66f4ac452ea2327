#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "tessera/serving/traffic.h"

namespace tessera::run {

/// Token ids for a traffic, which has lengths alone: drawn by seed, alike where the traffic says
/// that tokens are the same. A turn of a session goes on with what was really generated before it.
class TrafficTokens {
 public:
  TrafficTokens(const serving::Traffic& traffic, std::uint64_t seed, std::int64_t vocab_size);

  std::vector<std::int32_t> prompt_of(std::int64_t request) const;
  /// A request is over, with these tokens from the start of its prompt on.
  void keep(std::int64_t request, std::span<const std::int32_t> tokens);

 private:
  using Stream = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  ///< with its prefix
  Stream stream_of(const serving::Request& request) const;
  std::int32_t draw(std::uint64_t kind, std::int64_t of, std::int64_t position) const;

  const serving::Traffic& traffic_;
  std::uint64_t seed_, vocab_size_;
  std::map<Stream, std::vector<std::int32_t>> streams_;
};

}  // namespace tessera::run
