#include <fmt/format.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>

#include "tessera/core/error.h"
#include "tessera/run/tcp_transport.h"

namespace tessera::run {

// A datagram socket that is connected sends nothing, and has the address that the route there
// begins with.
std::string local_address(const Address& other) {
  using boost::asio::ip::udp;
  boost::asio::io_context io;
  udp::resolver resolver(io);
  udp::socket socket(io);
  try {
    boost::asio::connect(socket, resolver.resolve(other.host, std::to_string(other.port)));
    return socket.local_endpoint().address().to_string();
  } catch (const boost::system::system_error& error) {
    throw Error(ErrorCode::io, fmt::format("no way leads to {}:{}: {}", other.host, other.port,
                                           error.code().message()));
  }
}

}  // namespace tessera::run
