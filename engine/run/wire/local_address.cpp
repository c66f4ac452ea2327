#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "tessera/core/error.h"
#include "tessera/run/tcp_transport.h"

namespace tessera::run {

// A datagram socket that is connected sends nothing, and has the address that the route there
// begins with.
std::string local_address(const Address& other) {
  const auto fail = [&](const char* why) {
    throw Error(ErrorCode::io,
                fmt::format("no way leads to {}:{}: {}", other.host, other.port, why));
  };
  addrinfo asked{}, *found = nullptr;
  asked.ai_socktype = SOCK_DGRAM;
  const std::string port = std::to_string(other.port);
  const int error = ::getaddrinfo(other.host.c_str(), port.c_str(), &asked, &found);
  if (error != 0) fail(::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, ::freeaddrinfo);
  const int file = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  const bool is_known = file >= 0 && ::connect(file, found->ai_addr, found->ai_addrlen) == 0 &&
                        ::getsockname(file, reinterpret_cast<sockaddr*>(&own), &length) == 0;
  const int why = errno;
  if (file >= 0) ::close(file);
  if (!is_known) fail(std::strerror(why));
  char text[NI_MAXHOST];
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&own), length, text, sizeof text, nullptr, 0,
                NI_NUMERICHOST);
  return text;
}

}  // namespace tessera::run
