#pragma once

#include <atomic>
#include <boost/asio.hpp>
#include <mutex>
#include <utility>

#include "event_queue.h"
#include "frame_stream.h"
#include "tessera/run/handshake.h"
#include "tessera/run/transport.h"

namespace tessera::run {

/// A link that is being opened.
struct Attempt {
  Peer to = kMaster;
  Address address;
  Nanoseconds deadline = 0;
  std::int64_t number = 0;
};

struct Link {
  enum class Phase { greets, open, closed };

  Link(boost::asio::ip::tcp::socket s, Greeting g) : socket(std::move(s)), greeting(std::move(g)) {}
  boost::asio::ip::tcp::socket socket;
  Phase phase = Phase::greets;
  Peer peer = kMaster;
  Address address;
  Greeting greeting;
  Attempt attempt;  ///< that opened it from here
  Nanoseconds since = clock_now(), heard = clock_now(), asked = 0;
  std::atomic<Nanoseconds> offset{0};
  Nanoseconds round_trip = kNoTime;
  FrameReader in;
  std::mutex out_mutex;
  FrameWriter out;
  bool is_waiting = false;  // for room, on the thread of the links
};

}  // namespace tessera::run
