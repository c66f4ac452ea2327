#include "tessera/serving/ticks.h"

#include <fmt/format.h>

namespace tessera::serving {

Ticks to_ticks(double seconds, const std::string& path) {
  if (!(seconds >= 0) || seconds > kLongestRun_s) {
    throw Error(
        ErrorCode::out_of_range,
        fmt::format("{}: {} s, the allowed range is 0 to {} s", path, seconds, kLongestRun_s),
        path);
  }
  return static_cast<Ticks>(std::llround(seconds * 1e12));
}

}  // namespace tessera::serving
