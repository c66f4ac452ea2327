#include "tessera/core/units.h"

#include <fmt/format.h>

#include <cmath>

namespace tessera {

std::string format_bytes(double bytes) {
  const double size = std::fabs(bytes);
  if (size >= kGiB) return fmt::format("{:.2f} GiB", bytes / kGiB);
  if (size >= kMiB) return fmt::format("{:.1f} MiB", bytes / kMiB);
  if (size >= 1024) return fmt::format("{:.1f} KiB", bytes / 1024);
  return fmt::format("{:.0f} B", bytes);
}

std::string format_seconds(double seconds) {
  const double size = std::fabs(seconds);
  if (!std::isfinite(seconds)) return fmt::format("{} s", seconds);
  if (size >= 3600) {
    const auto minutes = static_cast<std::int64_t>(std::llround(size / 60));
    return fmt::format("{}{} h {:02} min", seconds < 0 ? "-" : "", minutes / 60, minutes % 60);
  }
  constexpr double kNothing = 0.5e-7;  // 0.0 us
  if (size < kNothing) return "0.00 s";
  if (size >= 1) return fmt::format("{:.2f} s", seconds);
  if (size >= 1e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string format_count(double count) {
  const double size = std::fabs(count);
  if (size >= 1e12) return fmt::format("{:.2f} T", count / 1e12);
  if (size >= 1e9) return fmt::format("{:.2f} B", count / 1e9);
  if (size >= 1e6) return fmt::format("{:.1f} M", count / 1e6);
  return fmt::format("{:.0f}", count);
}

std::string format_number(double value, int digits) {
  if (std::floor(value) == value && std::fabs(value) < 1e15) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}g}", value, digits);
}

}  // namespace tessera
