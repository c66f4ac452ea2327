#include "tessera/core/runtime_version.h"

#include <charconv>

#include "tessera/core/error.h"

namespace tessera {

RuntimeVersion runtime_version(const std::string& text, const std::string& path) {
  RuntimeVersion version;
  const char* const end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, version.major);
  if (major.ec == std::errc{} && major.ptr != end && *major.ptr == '.') {
    const auto minor = std::from_chars(major.ptr + 1, end, version.minor);
    const bool ends = minor.ptr == end || *minor.ptr == '.';
    if (minor.ec == std::errc{} && ends && version >= RuntimeVersion{} && version.minor >= 0) {
      return version;
    }
  }
  refuse(path, "'{}' is no version of vLLM; write it as {}", text, kVllmVersion);
}

}  // namespace tessera
