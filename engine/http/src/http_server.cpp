#include "http_server.h"

#include <fmt/format.h>

#include <csignal>
#include <utility>

#include "server_state.h"
#include "tessera/core/error.h"

namespace tessera::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kWatch = std::chrono::milliseconds(250);  // how often time limits are looked at
constexpr auto kFlush = std::chrono::milliseconds(500);  // for what was written before the end

}  // namespace

HttpServer::State::State(const std::string& host, std::int32_t port, const Limits& given)
    : limits(given) {
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorCode::io, fmt::format("cannot listen on {}:{}: {}", host, port, why), "host");
  };
  error_code error;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (error || found.empty()) fail(error.message());
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) fail(error.message());
}

bool HttpServer::State::is_loopback() const {
  return acceptor.local_endpoint().address().is_loopback();
}

void HttpServer::State::start(Handler& with) {
  handler = &with;
  accept();
  watch();
  thread = std::thread([this] { io.run(); });
}

void HttpServer::State::accept() {
  is_accepting = true;
  acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
    if (!acceptor.is_open()) return;
    is_accepting = false;
    if (error) return;  // out of descriptors: it is tried again when time limits are looked at
    const auto connection = std::make_shared<Connection>(*this, std::move(socket));
    connections.insert(connection);
    connection->start();
    if (connections.size() > limits.max_connections) {
      connection->refuse_and_close(503, "there are too many connections");
    }
    accept();
  });
}

void HttpServer::State::watch() {
  timer.expires_after(kWatch);
  timer.async_wait([this](const error_code&) {
    if (is_stopping) return;
    const auto now = std::chrono::steady_clock::now();
    const std::vector all(connections.begin(), connections.end());
    for (const auto& connection : all) connection->check_time(now);
    if (!is_accepting) accept();
    watch();
  });
}

void HttpServer::State::wait_for_signal() {
  signals.async_wait([this](const error_code& error, int) {
    if (error) return;
    called_at_signal();
    wait_for_signal();
  });
}

void HttpServer::State::drain() {
  is_draining = true;
  const std::vector all(connections.begin(), connections.end());
  for (const auto& connection : all) connection->end_when_idle();
}

void HttpServer::State::stop() {
  is_stopping = true;
  error_code ignored;
  acceptor.close(ignored);
  signals.cancel(ignored);
  const std::vector all(connections.begin(), connections.end());
  for (const auto& connection : all) connection->close();
  work.reset();
  io.stop();
}

HttpServer::HttpServer(const std::string& host, std::int32_t port, const Limits& limits)
    : state_(std::make_unique<State>(host, port, limits)) {}

HttpServer::~HttpServer() { stop(); }

std::int32_t HttpServer::port() const { return state_->acceptor.local_endpoint().port(); }

bool HttpServer::is_loopback() const { return state_->is_loopback(); }

std::string HttpServer::address() const {
  const auto address = state_->acceptor.local_endpoint().address();
  return address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
}

void HttpServer::start(Handler& handler) { state_->start(handler); }

void HttpServer::post(std::function<void()> run) { asio::post(state_->io, std::move(run)); }

void HttpServer::post_after(Seconds wait, std::function<void()> run) {
  auto timer = std::make_shared<asio::steady_timer>(state_->io);
  timer->expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(wait));
  timer->async_wait([timer, run = std::move(run)](const error_code& error) {
    if (!error) run();
  });
}

void HttpServer::on_signal(std::function<void()> called) {
  state_->called_at_signal = std::move(called);
  error_code ignored;
  state_->signals.add(SIGTERM, ignored);
  state_->signals.add(SIGINT, ignored);
  state_->wait_for_signal();
}

void HttpServer::drain() { state_->drain(); }

void HttpServer::stop() {
  if (!state_->thread.joinable()) return;
  const auto until = std::chrono::steady_clock::now() + kFlush;
  std::function<void()> try_to_stop = [&] {
    const bool waits = !state_->connections.empty() && std::chrono::steady_clock::now() < until;
    if (waits) return post_after(std::chrono::milliseconds(10), try_to_stop);
    state_->stop();
  };
  post([&] {
    state_->drain();
    try_to_stop();
  });
  state_->thread.join();
}

}  // namespace tessera::http
