#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace tessera {

/// Of a runtime whose memory or flags hang on it: "0.24.0", of which the first two numbers count.
struct RuntimeVersion {
  std::int64_t major = 0, minor = 0;
  auto operator<=>(const RuntimeVersion&) const = default;
};

/// vLLM's that is meant where nobody says another: the newest that kernel set `vllm` was measured
/// with.
inline constexpr const char* kVllmVersion = "0.24.0";

/// @throws Error{invalid_argument} for what is none; `path` names it
RuntimeVersion runtime_version(const std::string& text, const std::string& path);

}  // namespace tessera
