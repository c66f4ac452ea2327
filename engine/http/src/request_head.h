#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::http {

inline constexpr std::size_t kMostHead = 16 << 10;  ///< bytes of request line and header fields

/// A request without its body.
struct RequestHead {
  std::string method, path;  ///< of the target, what comes before '?'
  std::vector<std::pair<std::string, std::string>> fields;  ///< names in lower case
  bool is_1_1 = true;
  bool keep_alive = true;
  bool is_chunked = false;
  std::optional<std::uint64_t> content_length;
  bool expects_continue = false;

  /// Of the first field of this name; null: there is none.
  const std::string* find(std::string_view name) const;
};

/// Strict, so that whoever stands before the server reads the same: no folded, doubled or
/// contradictory lengths, no blank before a colon, no control characters, one Host.
/// @param text as far as the empty line, with it
/// @throws Refusal
RequestHead read_head(std::string_view text);

/// Whether a Host names this machine: localhost, an address of its loopback, or `listens_on`.
bool is_own_host(std::string_view host, std::string_view listens_on);

}  // namespace tessera::http
