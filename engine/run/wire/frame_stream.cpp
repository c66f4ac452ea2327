#include "frame_stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tessera/core/error.h"

namespace tessera::run {

void FrameWriter::push(const Header& header, std::vector<std::byte> body) {
  frames_.push_back({encode(header), std::move(body), 0});
}

std::int64_t FrameWriter::write(int socket) {
  std::int64_t written = 0;
  while (!frames_.empty()) {
    Frame& frame = frames_.front();
    iovec parts[2];
    std::size_t count = 0;
    const auto add = [&](std::byte* data, std::size_t size, std::size_t skip) {
      if (skip < size) parts[count++] = {data + skip, size - skip};
    };
    add(frame.header.data(), kHeaderBytes, frame.sent);
    add(frame.body.data(), frame.body.size(),
        frame.sent > kHeaderBytes ? frame.sent - kHeaderBytes : 0);
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    const ssize_t n = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    written += n;
    frame.sent += static_cast<std::size_t>(n);
    if (frame.sent == kHeaderBytes + frame.body.size()) frames_.pop_front();
  }
  return written;
}

std::optional<Message> FrameReader::read(int socket,
                                         const std::function<void(const Header&)>& check) {
  for (;;) {
    const bool in_header = got_ < kHeaderBytes;
    std::vector<std::byte>& body = message_.body;
    std::byte* to = in_header ? header_.data() + got_ : body.data() + (got_ - kHeaderBytes);
    const std::size_t wanted =
        in_header ? kHeaderBytes - got_ : body.size() - (got_ - kHeaderBytes);
    const ssize_t n = ::recv(socket, to, wanted, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(ErrorCode::io, std::strerror(errno));
    if (n == 0) throw Error(ErrorCode::io, "closed its end");
    heard_ = true;
    got_ += static_cast<std::size_t>(n);
    if (in_header && got_ == kHeaderBytes) {
      message_.header = decode_header(header_);
      check(message_.header);
      body.resize(message_.header.length);
    }
    if (got_ < kHeaderBytes || got_ < kHeaderBytes + body.size()) continue;
    got_ = 0;
    return std::exchange(message_, {});
  }
}

}  // namespace tessera::run
