#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>

#include "tessera/core/output.h"
#include "tessera/serving/ticks.h"

namespace tessera::serving {

/// Microseconds with three digits; rounding is monotone, so slices that touch do not overlap.
inline std::string microseconds(Ticks ticks) {
  const Ticks ns = (ticks + 500) / 1000;
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

inline constexpr std::string_view kTraceHead = R"({"displayTimeUnit":"ms","traceEvents":[)";

/// A file of events, a block at a time, each event a line.
class EventFile {
 public:
  explicit EventFile(const std::string& path) : file_(path) {
    file_.append(std::string(kTraceHead) + "\n");
  }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (!first_) fmt::format_to(std::back_inserter(block_), ",\n");
    first_ = false;
    fmt::format_to(std::back_inserter(block_), format, std::forward<Args>(args)...);
    if (block_.size() > kBlock) flush();
  }

  void commit() {
    flush();
    file_.append("\n]}\n");
    file_.commit();
  }

 private:
  static constexpr std::size_t kBlock = 1 << 20;

  void flush() {
    file_.append({block_.data(), block_.size()});
    block_.clear();
  }

  OutputFile file_;
  fmt::memory_buffer block_;
  bool first_ = true;
};

}  // namespace tessera::serving
