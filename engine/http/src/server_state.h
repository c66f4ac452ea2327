#pragma once

#include <array>
#include <boost/asio.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "http_server.h"

namespace tessera::http {

using SocketTime = std::chrono::steady_clock::time_point;

/// What connections share.
class HttpServer::State {
 public:
  State(const std::string& host, std::int32_t port, const Limits& given);

  void start(Handler& with);
  void accept();
  void watch();
  void drain();
  void stop();
  void wait_for_signal();
  bool is_loopback() const;

  Limits limits;
  boost::asio::io_context io{1};
  boost::asio::ip::tcp::acceptor acceptor{io};
  boost::asio::steady_timer timer{io};
  boost::asio::signal_set signals{io};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
      boost::asio::make_work_guard(io)};
  Handler* handler = nullptr;
  std::function<void()> called_at_signal = {};
  std::set<std::shared_ptr<Connection>> connections = {};
  bool is_accepting = false, is_draining = false, is_stopping = false;
  std::array<char, 64 << 10> scratch{};  ///< that all read into
  std::thread thread = {};
};

/// A socket, and the requests that come over it one after the other.
class HttpServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(State& server, boost::asio::ip::tcp::socket socket);
  ~Connection();

  void start();
  void check_time(SocketTime now);
  bool is_idle() const;
  void end_when_idle();
  void close();
  /// Refuses whoever comes, in so many words, and closes.
  void refuse_and_close(int status, const std::string& message, const std::string& param = {});

  // Of the exchange under way.
  void write_head(int status, std::string_view type, const HeaderFields& fields,
                  std::ptrdiff_t length);  ///< -1: a stream
  void write_piece(std::string_view piece);
  void end_answer();
  bool has_left() const { return phase_ == Phase::closed; }

 private:
  enum class Phase { head, body, answering, lingering, closed };
  class Answer;
  class Body;

  void read();
  void took(std::size_t size);
  void process();
  void take_head();
  void take_body();
  void hand_over();
  void write(std::string text);
  void write_some();
  void wrote(std::size_t size);
  void lose(bool too_slow);

  State& server_;
  boost::asio::ip::tcp::socket socket_;
  Phase phase_ = Phase::head;
  std::string in_ = {};
  std::size_t looked_at_ = 0;  ///< of in_, for the end of the head
  RequestHead head_ = {};
  std::unique_ptr<Body> body_;
  std::deque<std::string> out_ = {};
  std::size_t out_front_ = 0, out_bytes_ = 0;
  bool is_writing_ = false, is_reading_ = false, closes_ = false, is_chunked_ = false,
       is_processing_ = false;
  SocketTime deadline_, sent_at_;
  std::weak_ptr<Answer> answer_;
};

}  // namespace tessera::http
