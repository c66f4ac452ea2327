#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/run/transport.h"

namespace tessera::run {

struct TcpOptions {
  Peer self = kMaster;
  std::string host = "127.0.0.1";  ///< to listen on
  std::int32_t port = 0;           ///< 0: any that is free
  std::string secret = {};         ///< that both sides have
  std::string build = {};          ///< version of the program: a peer of another one is refused
  /// Whether a peer that comes again takes the place of the one that is there; else it is refused.
  bool lets_replace = false;
  std::int32_t num_ranks = 65536;  ///< of the run: others are refused
};

/// The address from which this machine reaches another. @throws Error{io} where it has none
std::string local_address(const Address& other);

/// How long a peer may be silent. The master asks each second.
inline constexpr Nanoseconds kSilence = 4 * kSecond;

/// Links over TCP, served by a thread of their own, which never computes: it answers the master's
/// questions whether this process is alive, and notices when nobody asks any more. What is sent
/// goes to the system from the thread that sends it, where there is room.
class TcpTransport final : public Transport {
 public:
  /// Listens. @throws Error{io} naming host and port, with the system's reason
  explicit TcpTransport(const TcpOptions& options);
  ~TcpTransport() override;

  std::int32_t port() const;  ///< where it listens
  /// The next event; nothing until our time `deadline`, or after wake().
  std::optional<Event> next(Nanoseconds deadline);
  /// An event of another link than these, from any thread: it comes behind those that wait.
  void deliver(Event event);
  /// Ends a wait of `next`, from any thread or a signal handler's flag.
  void wake();
  std::int64_t num_refused() const;  ///< strangers, peers of another build, second ones
  std::string last_refused() const;  ///< why
  std::int64_t sent_bytes() const;
  /// Sends what is queued, for so long at most.
  void flush(Nanoseconds most);

  Nanoseconds now() const override;
  void send(Peer to, Header header, std::vector<std::byte> body) override;
  void connect(Peer to, const Address& address) override;
  void disconnect(Peer from) override;
  std::optional<Event> await(const std::function<Wanted(const Event&)>& judge,
                             Nanoseconds deadline) override;
  Nanoseconds clock_of(Peer peer, Nanoseconds at) const override;

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// Runs an actor until it is done, and sends what it left.
void run_actor(Actor& actor, TcpTransport& transport);

}  // namespace tessera::run
