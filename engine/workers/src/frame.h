#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// What goes over the line between a pool and a worker: a header in the machine's own byte order,
/// then `length` bytes.
namespace tessera::workers {

struct FrameHeader {
  std::uint32_t length = 0;
  std::uint32_t flags = 0;
  std::uint64_t id = 0;
};

struct Frame {
  FrameHeader header;
  std::string text;
};

enum FrameFlag : std::uint32_t {
  kReady = 1,  ///< no answer: the worker takes items from now on
  kLast = 2    ///< the worker ends after this answer
};

constexpr int kChannelFd = 3;
/// Longer messages are a defect or a script that meddles with the line.
constexpr std::uint32_t kMaxFrameBytes = 64u << 20;
/// Kept of what one item prints.
constexpr std::size_t kMaxLogBytes = 64u << 10;

/// Stands in the worker's output where an item ended, followed by its id in 16 hex digits and a
/// line end: the output is read as it comes, and only this tells whose it is.
constexpr std::string_view kLogMark("\0\x1etessera-item ", 15);
constexpr std::size_t kLogMarkBytes = kLogMark.size() + 17;

}  // namespace tessera::workers
