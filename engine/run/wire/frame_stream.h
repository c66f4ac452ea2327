#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "tessera/run/message.h"

namespace tessera::run {

/// Messages into a socket that does not block, and what of them it has not taken yet.
class FrameWriter {
 public:
  void push(const Header& header, std::vector<std::byte> body);
  /// Gives the system what it takes now. @return bytes; what is broken reading will tell
  std::int64_t write(int socket);
  bool is_empty() const { return frames_.empty(); }
  std::size_t size() const { return frames_.size(); }

 private:
  struct Frame {
    std::array<std::byte, kHeaderBytes> header;
    std::vector<std::byte> body;
    std::size_t sent = 0;  ///< of both
  };
  std::deque<Frame> frames_;
};

/// Messages out of a socket that does not block.
class FrameReader {
 public:
  /// Reads until a message is whole, or nothing more is there now.
  /// @param check of each header, before anything is allocated for its body
  /// @throws Error{io} where the other side closed or the link broke, with the system's words; as
  /// decode_header and check
  std::optional<Message> read(int socket, const std::function<void(const Header&)>& check);
  /// Whether anything came since it was asked last.
  bool take_heard() { return std::exchange(heard_, false); }

 private:
  std::array<std::byte, kHeaderBytes> header_;
  std::size_t got_ = 0;  ///< of the header, then of both
  Message message_;
  bool heard_ = false;
};

}  // namespace tessera::run
