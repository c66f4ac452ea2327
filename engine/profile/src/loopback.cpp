// What TCP takes from one thread to another of this machine.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/profile/rates.h"

namespace tessera::profile {
namespace {

[[noreturn]] void refuse_socket(const char* what) {
  refuse(ErrorCode::io, "loopback", "no TCP on 127.0.0.1: {} answers: {}", what,
         std::strerror(errno));
}

class Socket {
 public:
  explicit Socket(int fd, const char* what) : fd_(fd) {
    if (fd_ < 0) refuse_socket(what);
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~Socket() {
    ::shutdown(fd_, SHUT_RDWR);
    ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int fd() const { return fd_; }

  /// False where the other side has gone.
  bool send(const std::vector<std::byte>& data) const {
    for (std::size_t done = 0; done < data.size();) {
      const auto n = ::send(fd_, data.data() + done, data.size() - done, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      done += static_cast<std::size_t>(n);
    }
    return true;
  }
  bool receive(std::vector<std::byte>& data) const {
    for (std::size_t done = 0; done < data.size();) {
      const auto n = ::recv(fd_, data.data() + done, data.size() - done, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      done += static_cast<std::size_t>(n);
    }
    return true;
  }

 private:
  int fd_;
};

/// A port that the system chooses, and a connection to it.
class Loopback {
 public:
  Loopback()
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"),
        here_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket") {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_.fd(), any, size) != 0) refuse_socket("bind");
    if (::listen(listener_.fd(), 1) != 0) refuse_socket("listen");
    if (::getsockname(listener_.fd(), any, &size) != 0) refuse_socket("getsockname");
    if (::connect(here_.fd(), any, size) != 0) refuse_socket("connect");
  }

  const Socket& here() const { return here_; }
  int accept() const { return ::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC); }

 private:
  Socket listener_, here_;
};

}  // namespace

std::vector<Transfer> measure_loopback(const std::vector<std::int64_t>& bytes,
                                       const TimingOptions& options, const Clock& clock) {
  std::vector<Transfer> transfers;
  for (const std::int64_t size : bytes) {
    std::vector<std::byte> sent(static_cast<std::size_t>(size)), echoed(sent.size());
    std::thread echo;
    {
      const Loopback loopback;
      const Socket there(loopback.accept(), "accept");
      echo = std::thread([&] {
        while (there.receive(echoed) && there.send(echoed)) {
        }
      });
      const auto round_trip = [&] {
        if (!loopback.here().send(sent) || !loopback.here().receive(sent)) refuse_socket("recv");
      };
      Timing timing = time_of(round_trip, options, clock);
      for (double* seconds : {&timing.median_s, &timing.low_s, &timing.high_s}) *seconds /= 2;
      transfers.push_back({static_cast<double>(size), timing});
      ::shutdown(loopback.here().fd(), SHUT_RDWR);
      echo.join();
    }
  }
  return transfers;
}

}  // namespace tessera::profile
