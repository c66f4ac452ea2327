#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "exchange.h"

namespace tessera::http {

/// A socket that listens, its connections, and the thread that they live on.
class HttpServer {
 public:
  using Seconds = std::chrono::duration<double>;
  struct Limits {
    std::size_t max_body = 16 << 20, max_connections = 16384;
    Seconds request_timeout{60};       ///< from a request's first byte to its last
    Seconds idle_timeout{300};         ///< between requests
    std::size_t max_unsent = 1 << 20;  ///< bytes of a stream that wait for its client
    Seconds send_timeout{30};          ///< without a byte taken
  };

  /// Takes the address; who connects waits until it is started.
  /// @throws Error{io} where it is none of this machine, or in use
  HttpServer(const std::string& host, std::int32_t port, const Limits& limits);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::int32_t port() const;
  bool is_loopback() const;
  std::string address() const;  ///< "127.0.0.1", or "[::1]"

  /// @param handler stays as long as this
  void start(Handler& handler);
  /// Runs it on the I/O thread, in the order of the calls. From any thread.
  void post(std::function<void()> run);
  /// The same after a while.
  void post_after(Seconds wait, std::function<void()> run);
  /// Calls it on the I/O thread at each SIGTERM and SIGINT, from now on.
  void on_signal(std::function<void()> called);
  /// Ends what is idle, then each connection with its answer. On the I/O thread.
  void drain();
  /// Closes everything, once what was written has gone or half a second has passed, and ends the
  /// thread. Not on the I/O thread.
  void stop();

  class Connection;
  class State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace tessera::http
