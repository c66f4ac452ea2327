// A connection: one read is always under way, so that a client that leaves is noticed whatever it
// waits for. Beast reads bodies; heads were read before, more strictly than it does.

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http.hpp>
#include <utility>

#include "refusal.h"
#include "server_state.h"

namespace tessera::http {
namespace {

namespace asio = boost::asio;
namespace beast_http = boost::beast::http;
using boost::system::error_code;

// What a client may send ahead while it is answered.
constexpr std::size_t kMostAhead = 64 << 10;
// How long what is still sent of a request that was refused is read and dropped, so that the
// refusal arrives.
constexpr auto kLinger = std::chrono::seconds(2);

std::string_view reason_of(int status) {
  return beast_http::obsolete_reason(static_cast<beast_http::status>(status));
}

SocketTime after(HttpServer::Seconds wait) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(wait);
}

}  // namespace

/// One exchange, which outlives its connection where somebody holds it.
class HttpServer::Connection::Answer final : public Exchange {
 public:
  explicit Answer(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  ~Answer() override {
    if (connection_) connection_->close();  // nobody will answer
  }

  void respond(int status, std::string body, std::string_view type,
               const HeaderFields& fields) override {
    if (!connection_) return;
    connection_->write_head(status, type, fields, std::ssize(body));
    connection_->write_piece(body);
    finish();
  }
  void begin_events() override {
    if (!connection_) return;
    connection_->write_head(200, "text/event-stream; charset=utf-8",
                            {{"Cache-Control", "no-cache"}}, -1);
  }
  void send(std::string_view piece) override {
    if (connection_) connection_->write_piece(piece);
  }
  void finish() override {
    if (const auto connection = std::exchange(connection_, nullptr)) connection->end_answer();
  }
  void lost() {
    connection_ = nullptr;
    if (on_left) std::exchange(on_left, nullptr)();
  }

 private:
  std::shared_ptr<Connection> connection_;
};

/// What Beast knows of a body.
class HttpServer::Connection::Body {
 public:
  explicit Body(std::size_t limit) {
    parser_.header_limit(2 * kMostHead);
    parser_.body_limit(limit);
    parser_.eager(true);
  }
  /// @return bytes that were taken. @throws Refusal
  std::size_t put(std::string_view text) {
    error_code error;
    const std::size_t taken = parser_.put(asio::buffer(text.data(), text.size()), error);
    if (!error || error == beast_http::error::need_more) return taken;
    if (error == beast_http::error::body_limit) throw Refusal(413, "the body is too large");
    throw Refusal(400, fmt::format("the request cannot be read: {}", error.message()));
  }
  bool is_done() const { return parser_.is_done(); }
  std::string take() { return std::move(parser_.get().body()); }

 private:
  beast_http::request_parser<beast_http::string_body> parser_;
};

HttpServer::Connection::Connection(State& server, asio::ip::tcp::socket socket)
    : server_(server),
      socket_(std::move(socket)),
      deadline_(after(server.limits.idle_timeout)),
      sent_at_(std::chrono::steady_clock::now()) {}

HttpServer::Connection::~Connection() = default;

void HttpServer::Connection::start() {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  read();
}

bool HttpServer::Connection::is_idle() const { return phase_ == Phase::head && in_.empty(); }

void HttpServer::Connection::end_when_idle() {
  closes_ = true;
  if (is_idle() && out_.empty()) close();
}

// ----------------------------------------------------------------------------------------- reading

void HttpServer::Connection::read() {
  if (is_reading_ || phase_ == Phase::closed) return;
  is_reading_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const error_code& failed) {
                       self->is_reading_ = false;
                       if (self->phase_ == Phase::closed) return;
                       error_code error = failed;
                       std::size_t size = 0;
                       if (!error) {
                         size = self->socket_.read_some(asio::buffer(self->server_.scratch), error);
                       }
                       if (error == asio::error::would_block) return self->read();
                       if (error) return self->lose(false);
                       self->took(size);
                       self->read();
                     });
}

void HttpServer::Connection::took(std::size_t size) {
  if (phase_ == Phase::lingering) return;
  if (is_idle()) deadline_ = after(server_.limits.request_timeout);
  in_.append(server_.scratch.data(), size);
  process();
}

// One request at a time; what is sent behind it waits.
void HttpServer::Connection::process() {
  if (std::exchange(is_processing_, true)) return;
  try {
    std::size_t before = 0;
    do {
      before = in_.size();
      if (phase_ == Phase::head) take_head();
      if (phase_ == Phase::body) take_body();
    } while (phase_ == Phase::head && !in_.empty() && in_.size() < before);
    if (phase_ == Phase::answering && in_.size() > kMostAhead) lose(false);
  } catch (const Refusal& refusal) {
    refuse_and_close(refusal.status(), refusal.message(), refusal.where());
  }
  is_processing_ = false;
}

void HttpServer::Connection::take_head() {
  const std::size_t from = looked_at_ < 3 ? 0 : looked_at_ - 3;
  const std::size_t end = in_.find("\r\n\r\n", from);
  const std::size_t size = end == std::string::npos ? in_.size() : end + 4;
  if (size > kMostHead) throw Refusal(431, fmt::format("the head is over {} bytes", kMostHead));
  for (std::size_t at = in_.find('\n', looked_at_); at < size; at = in_.find('\n', at + 1)) {
    if (at == 0 || in_[at - 1] != '\r') throw Refusal(400, "a line does not end in CR LF");
  }
  looked_at_ = in_.size();
  if (end == std::string::npos) return;
  looked_at_ = 0;
  head_ = read_head(std::string_view(in_).substr(0, size));
  if (head_.content_length > server_.limits.max_body) {
    throw Refusal(413, fmt::format("the body is {} bytes, the limit is {}", *head_.content_length,
                                   server_.limits.max_body));
  }
  body_ = std::make_unique<Body>(server_.limits.max_body);
  in_.erase(0, body_->put(std::string_view(in_).substr(0, size)));
  phase_ = Phase::body;
  if (head_.expects_continue && !body_->is_done() && in_.empty())
    write("HTTP/1.1 100 Continue\r\n\r\n");
}

void HttpServer::Connection::take_body() {
  while (!body_->is_done() && !in_.empty()) {
    const std::size_t taken = body_->put(in_);
    in_.erase(0, taken);
    if (taken == 0) break;
  }
  if (in_.size() > kMostAhead && !body_->is_done())
    throw Refusal(400, "a chunk's head is too long");
  if (body_->is_done()) hand_over();
}

void HttpServer::Connection::hand_over() {
  phase_ = Phase::answering;
  HttpRequest request{std::move(head_), body_->take()};
  head_ = {};
  head_.is_1_1 = request.head.is_1_1;
  head_.keep_alive = request.head.keep_alive;
  head_.method = request.head.method;
  body_.reset();
  sent_at_ = std::chrono::steady_clock::now();
  const auto answer = std::make_shared<Answer>(shared_from_this());
  answer_ = answer;
  server_.handler->handle(std::move(request), answer);
}

void HttpServer::Connection::check_time(SocketTime now) {
  if (!out_.empty() && now > sent_at_ + server_.limits.send_timeout) return lose(true);
  if (phase_ == Phase::answering || now < deadline_) return;
  if (phase_ == Phase::lingering || is_idle()) return close();
  refuse_and_close(408, "the request did not come whole in time");
}

// ----------------------------------------------------------------------------------------- writing

void HttpServer::Connection::write_head(int status, std::string_view type,
                                        const HeaderFields& fields, std::ptrdiff_t length) {
  if (phase_ == Phase::closed) return;
  is_chunked_ = length < 0 && head_.is_1_1;
  closes_ = closes_ || !head_.keep_alive || server_.is_draining || (length < 0 && !is_chunked_);
  std::string text = fmt::format("HTTP/1.1 {} {}\r\nServer: tessera\r\nContent-Type: {}\r\n",
                                 status, reason_of(status), type);
  for (const auto& [name, value] : fields) text += fmt::format("{}: {}\r\n", name, value);
  if (length >= 0) text += fmt::format("Content-Length: {}\r\n", length);
  if (is_chunked_) text += "Transfer-Encoding: chunked\r\n";
  if (closes_) text += "Connection: close\r\n";
  if (!closes_ && !head_.is_1_1) text += "Connection: keep-alive\r\n";
  write(text + "\r\n");
}

void HttpServer::Connection::write_piece(std::string_view piece) {
  if (piece.empty() || head_.method == "HEAD") return;
  write(is_chunked_ ? fmt::format("{:x}\r\n{}\r\n", piece.size(), piece) : std::string(piece));
}

void HttpServer::Connection::end_answer() {
  if (phase_ != Phase::answering) return;
  if (is_chunked_) write("0\r\n\r\n");
  is_chunked_ = false;
  phase_ = Phase::head;
  deadline_ = after(in_.empty() ? server_.limits.idle_timeout : server_.limits.request_timeout);
  if (!closes_) return process();
  phase_ = Phase::lingering;
  deadline_ = after(server_.limits.send_timeout);
  if (out_.empty()) close();
}

void HttpServer::Connection::write(std::string text) {
  if (phase_ == Phase::closed) return;
  if (out_.empty()) sent_at_ = std::chrono::steady_clock::now();
  out_bytes_ += text.size();
  out_.push_back(std::move(text));
  // A stream has a bound; a whole answer is one piece, whatever its size.
  if (is_chunked_ && out_bytes_ > server_.limits.max_unsent) return lose(true);
  write_some();
}

void HttpServer::Connection::write_some() {
  if (is_writing_ || out_.empty() || phase_ == Phase::closed) return;
  is_writing_ = true;
  const std::string_view front = std::string_view(out_.front()).substr(out_front_);
  socket_.async_write_some(asio::buffer(front.data(), front.size()),
                           [self = shared_from_this()](const error_code& error, std::size_t size) {
                             self->is_writing_ = false;
                             if (error) return self->lose(false);
                             self->wrote(size);
                           });
}

void HttpServer::Connection::wrote(std::size_t size) {
  if (phase_ == Phase::closed) return;
  sent_at_ = std::chrono::steady_clock::now();
  out_bytes_ -= size;
  out_front_ += size;
  if (out_front_ == out_.front().size()) {
    out_.pop_front();
    out_front_ = 0;
  }
  if (!out_.empty()) return write_some();
  if (phase_ == Phase::lingering) {
    error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    deadline_ = after(kLinger);
  } else if (closes_ && is_idle()) {
    close();
  }
}

// ------------------------------------------------------------------------------------------ the
// end

void HttpServer::Connection::refuse_and_close(int status, const std::string& message,
                                              const std::string& param) {
  if (phase_ == Phase::closed) return;
  closes_ = true;
  const std::string body = error_body(status, message, param);
  phase_ = Phase::lingering;
  deadline_ = after(server_.limits.send_timeout);
  in_.clear();
  in_.shrink_to_fit();
  body_.reset();
  head_.is_1_1 = true;
  write_head(status, "application/json", {}, std::ssize(body));
  write_piece(body);
}

void HttpServer::Connection::lose(bool too_slow) {
  const auto answer = answer_.lock();
  const bool was_answering = phase_ == Phase::answering;
  if (was_answering && too_slow) server_.handler->too_slow();
  close();
  if (was_answering && answer) answer->lost();
}

void HttpServer::Connection::close() {
  if (std::exchange(phase_, Phase::closed) == Phase::closed) return;
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
  // What a write under way reads stays until it has ended.
  if (!is_writing_) out_.clear();
  server_.connections.erase(shared_from_this());
}

}  // namespace tessera::http
