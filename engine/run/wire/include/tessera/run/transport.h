#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tessera/run/message.h"

/// Links and time, as interfaces: what masters and workers do is the same over sockets and in one
/// process on a virtual clock.
namespace tessera::run {

/// Nanoseconds from some start, never backwards.
using Nanoseconds = std::int64_t;
inline constexpr Nanoseconds kNoTime = std::numeric_limits<Nanoseconds>::max();
inline constexpr Nanoseconds kSecond = 1'000'000'000;

/// A process of a run as others name it: a worker by its rank, and the master.
using Peer = std::int32_t;
inline constexpr Peer kMaster = -1;

struct Address {
  std::string host;
  std::int32_t port = 0;

  friend bool operator==(const Address&, const Address&) = default;
};

struct Event {
  enum class Type {
    joined,
    message,
    lost,
    unreachable,  ///< what was to be connected is not there
  };
  Type type = Type::message;
  Peer peer = kMaster;
  Message message = {};
  std::string why = {};      ///< of the last two: "closed its end", "did not answer for 4 s"
  Address address = {};      ///< of joined: where others reach it
  std::int64_t process = 0;  ///< of joined: its process id
};

/// What somebody makes of an event who waits for one: it stays where it is, is taken, or stays and
/// ends the wait.
enum class Wanted { no, yes, ends };

/// All links of one process. Messages of a link come in the order in which they were sent.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual Nanoseconds now() const = 0;
  /// Returns at once. To a peer that is not there (any more) nothing is sent.
  virtual void send(Peer to, Header header, std::vector<std::byte> body) = 0;
  /// Opens a link; `joined` or `unreachable` comes of it.
  virtual void connect(Peer to, const Address& address) = 0;
  /// Closes the link, without an event.
  virtual void disconnect(Peer from) = 0;
  /// For an actor in the middle of its work: the first event that is wanted, before others that
  /// came earlier; nothing at our time `deadline`, to the microsecond, or where an event ends the
  /// wait.
  virtual std::optional<Event> await(const std::function<Wanted(const Event&)>& judge,
                                     Nanoseconds deadline) = 0;
  /// What a peer's clock shows at our time `at`.
  virtual Nanoseconds clock_of(Peer peer, Nanoseconds at) const = 0;
};

/// What a process of a run does: it is told of events and of the time, and sends.
class Actor {
 public:
  virtual ~Actor() = default;
  virtual void on(Event event) = 0;
  /// Called where no event waits: does one piece of work, if there is any; whether it did.
  virtual bool work() { return false; }
  /// When to call `tick` at the latest; kNoTime: never.
  virtual Nanoseconds wake_at() const { return kNoTime; }
  virtual void tick() {}
  virtual bool is_done() const = 0;
};

}  // namespace tessera::run
