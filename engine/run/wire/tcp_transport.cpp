#include "tessera/run/tcp_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio.hpp>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "event_queue.h"
#include "tcp_link.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/run/handshake.h"

namespace tessera::run {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kTimer = std::chrono::milliseconds(250);
constexpr Nanoseconds kHandshake = 5 * kSecond;  // for a stranger to show who it is
constexpr Nanoseconds kConnect = 10 * kSecond;   // for a peer to listen
constexpr std::ptrdiff_t kMostStrangers = 64;    // at once
constexpr std::size_t kMostWhy = 300;            // characters of a reason

}  // namespace

class TcpTransport::State {
 public:
  explicit State(const TcpOptions& options)
      : options_(options), acceptor_(io_), timer_(io_), work_(asio::make_work_guard(io_)) {
    listen();
  }

  void start() {
    accept();
    watch();
    thread_ = std::thread([this] { io_.run(); });
  }
  void stop() {
    asio::post(io_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      timer_.cancel();
      for (const auto& link : std::vector(all_.begin(), all_.end())) close(link);
      io_.stop();
    });
    thread_.join();
  }

  std::int32_t port() const { return port_; }

  EventQueue& events() { return events_; }

  void send(Peer to, Header header, std::vector<std::byte> body) {
    const std::shared_ptr<Link> link = find(to);
    if (!link) return;
    header.length = body.size();
    send_on(link, header, std::move(body));
  }

  void connect(Peer to, const Address& address) {
    asio::post(io_, [this, to, address] {
      open({to, address, clock_now() + kConnect, ++attempts_[to]});
    });
  }

  void disconnect(Peer from) {
    asio::post(io_, [this, from] { ++attempts_[from]; });
    if (const std::shared_ptr<Link> link = take(from)) {
      asio::post(io_, [this, link] { close(link); });
    }
  }

  Nanoseconds clock_of(Peer peer, Nanoseconds at) const {
    const std::shared_ptr<Link> link = find(peer);
    return link ? at + link->offset.load(std::memory_order_relaxed) : at;
  }

  void flush(Nanoseconds most) {
    const Nanoseconds end = clock_now() + most;
    for (;;) {
      bool empty = true;
      {
        const std::lock_guard lock(links_mutex_);
        for (const auto& [peer, link] : links_) {
          const std::lock_guard queue(link->out_mutex);
          empty = empty && link->out.is_empty();
        }
      }
      if (empty || clock_now() > end) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::int64_t num_refused() const { return num_refused_; }
  std::string last_refused() const {
    const std::lock_guard lock(links_mutex_);
    return last_refused_;
  }
  std::int64_t sent_bytes() const { return sent_bytes_; }

 private:
  using Phase = Link::Phase;
  using LinkPtr = std::shared_ptr<Link>;

  void listen() {
    const auto fail = [&](const std::string& why) {
      throw Error(ErrorCode::io,
                  fmt::format("cannot listen on {}:{}: {}", options_.host, options_.port, why));
    };
    error_code error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(options_.host, std::to_string(options_.port),
                                        tcp::resolver::passive, error);
    if (error || found.empty()) fail(error ? error.message() : "no such host");
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) fail(error.message());
    port_ = acceptor_.local_endpoint().port();
  }

  void accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (!error) {
        const auto link =
            add(std::move(socket), Greeting::accepting(options_.secret, options_.build));
        // Who belongs to the run says so at once: of too many those go that have been here longest.
        make_room();
        read(link);
      }
      accept();
    });
  }

  void make_room() {
    const auto is_stranger = [](const LinkPtr& l) {
      return l->phase != Phase::open && !l->greeting.opens();
    };
    while (std::ranges::count_if(all_, is_stranger) > kMostStrangers) {
      LinkPtr oldest;
      for (const LinkPtr& link : all_) {
        if (is_stranger(link) && (!oldest || link->since < oldest->since)) oldest = link;
      }
      refuse_link(oldest, "one of too many who did not say who they are");
    }
  }

  LinkPtr add(tcp::socket socket, Greeting greeting) {
    auto link = std::make_shared<Link>(std::move(socket), std::move(greeting));
    error_code ignored;
    link->socket.set_option(tcp::no_delay(true), ignored);
    link->socket.native_non_blocking(true, ignored);
    all_.insert(link);
    return link;
  }

  // Nobody has given it up since.
  bool is_wanted(const Attempt& attempt) {
    return acceptor_.is_open() && attempts_[attempt.to] == attempt.number;
  }

  void open(const Attempt& attempt) {
    auto resolver = std::make_shared<tcp::resolver>(io_);
    resolver->async_resolve(attempt.address.host, std::to_string(attempt.address.port),
                            [this, attempt, resolver](const error_code& error, const auto& found) {
                              if (error) return retry(attempt, error);
                              auto socket = std::make_shared<tcp::socket>(io_);
                              asio::async_connect(*socket, found,
                                                  [this, attempt, socket](const error_code& failed,
                                                                          const tcp::endpoint&) {
                                                    if (failed) return retry(attempt, failed);
                                                    if (is_wanted(attempt))
                                                      greet(attempt, std::move(*socket));
                                                  });
                            });
  }

  void retry(const Attempt& attempt, const error_code& error) {
    retry(attempt, fmt::format("cannot be reached at {}:{}: {}", attempt.address.host,
                               attempt.address.port, error.message()));
  }
  void retry(const Attempt& attempt, const std::string& why) {
    if (!is_wanted(attempt)) return;
    if (clock_now() > attempt.deadline) {
      Event event{.type = Event::Type::unreachable, .peer = attempt.to};
      event.why = why;
      return events_.push(std::move(event));
    }
    auto later = std::make_shared<asio::steady_timer>(io_, std::chrono::milliseconds(50));
    later->async_wait([this, attempt, later](const error_code& cancelled) {
      if (!cancelled && is_wanted(attempt)) open(attempt);
    });
  }

  void greet(const Attempt& attempt, tcp::socket socket) {
    const Hello mine{options_.build, options_.self, "", port_, ::getpid()};
    const LinkPtr link = add(std::move(socket), Greeting::opening(options_.secret, mine));
    link->peer = attempt.to;
    link->address = attempt.address;
    link->attempt = attempt;
    say(link, link->greeting.first());
    read(link);
  }

  static bool is_greeting(const Link& link) {
    return link.phase == Phase::greets && link.greeting.opens();
  }
  void greet_again(const LinkPtr& link, const std::string& why) {
    close(link);
    retry(link->attempt, why);
  }

  void say(const LinkPtr& link, Greeting::Saying saying) {
    const Header header{.kind = saying.kind, .length = saying.body.size()};
    send_on(link, header, std::move(saying.body));
  }

  void send_on(const LinkPtr& link, const Header& header, std::vector<std::byte> body) {
    const std::lock_guard lock(link->out_mutex);
    if (link->phase == Phase::closed) return;
    link->out.push(header, std::move(body));
    if (link->out.size() > 1) return;  // who waits for room sends it
    write_some(*link);
    if (!link->out.is_empty()) wait_for_room(link);
  }

  // What the system takes now; with the queue's mutex held.
  void write_some(Link& link) { sent_bytes_ += link.out.write(link.socket.native_handle()); }

  void wait_for_room(const LinkPtr& link) {
    if (link->is_waiting) return;
    link->is_waiting = true;
    asio::post(io_, [this, link] {
      if (!link->socket.is_open()) return;
      link->socket.async_wait(tcp::socket::wait_write, [this, link](const error_code& error) {
        const std::lock_guard lock(link->out_mutex);
        link->is_waiting = false;
        if (error || link->phase == Phase::closed) return;
        write_some(*link);
        if (!link->out.is_empty()) wait_for_room(link);
      });
    });
  }

  void read(const LinkPtr& link) {
    link->socket.async_wait(tcp::socket::wait_read, [this, link](const error_code& error) {
      if (error || link->phase == Phase::closed) return;
      try {
        const auto check = [&](const Header& header) { check_turn(*link, header.kind); };
        while (auto message = link->in.read(link->socket.native_handle(), check)) {
          take_message(link, std::move(*message));
          if (link->phase == Phase::closed) return;
        }
        if (link->in.take_heard()) link->heard = clock_now();
      } catch (const Error& wrong) {
        // Closed without a word by who was too busy with others: it is asked again.
        if (wrong.code() == ErrorCode::io && is_greeting(*link))
          return greet_again(link, wrong.what());
        return fail(link, wrong.what());
      } catch (const std::bad_alloc&) {
        return fail(link, "sent more than there is memory for");
      }
      if (link->phase != Phase::closed) read(link);
    });
  }

  // Before a link is open only who it is may be said, and then nothing of that.
  static void check_turn(const Link& link, Kind kind) {
    if (kind == Kind::refused) return;
    const bool greets = kind == Kind::hello || kind == Kind::welcome || kind == Kind::proof;
    if (greets == (link.phase != Phase::open)) return;
    refuse("message", "{} is out of turn", name_of(kind));
  }

  void take_message(const LinkPtr& link, Message message) {
    if (message.header.kind == Kind::refused) {
      throw Error(ErrorCode::invalid_argument,
                  "refused this one, which " + quote(text_of(message), kMostWhy));
    }
    if (link->phase == Phase::greets) return take_greeting(link, message);
    if (message.header.kind == Kind::ping) return answer(link, message);
    if (message.header.kind == Kind::pong) return note_clock(*link, message);
    events_.push({.type = Event::Type::message, .peer = link->peer, .message = std::move(message)});
  }

  void take_greeting(const LinkPtr& link, const Message& message) {
    auto saying = link->greeting.take(message);
    if (saying) say(link, std::move(*saying));
    if (!link->greeting.opens()) {
      const Hello& hello = link->greeting.hello();
      error_code ignored;
      link->peer = hello.rank;
      link->address = {link->socket.remote_endpoint(ignored).address().to_string(), hello.port};
    }
    if (link->greeting.is_over()) establish(link);
  }

  void establish(const LinkPtr& link) {
    if (!link->greeting.opens() && (link->peer < 0 || link->peer >= options_.num_ranks)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("is rank {} of a run that has ranks 0 to {}", link->peer,
                              options_.num_ranks - 1));
    }
    LinkPtr old;
    {
      const std::lock_guard lock(links_mutex_);
      LinkPtr& place = links_[link->peer];
      if (place && !options_.lets_replace) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("is rank {}, which is there already", link->peer));
      }
      old = std::exchange(place, link);
      const std::lock_guard queue(link->out_mutex);
      link->phase = Phase::open;
    }
    if (old) close(old);
    link->heard = clock_now();
    Event event{.type = Event::Type::joined, .peer = link->peer};
    event.address = link->address;
    event.process = link->greeting.hello().process;
    events_.push(std::move(event));
  }

  void answer(const LinkPtr& link, const Message& message) {
    BodyReader reader(message.body, Kind::ping);
    const auto theirs = reader.get<Nanoseconds>();
    reader.finish();
    BodyWriter writer;
    writer.put(theirs);
    writer.put(clock_now());
    say(link, {Kind::pong, writer.take()});
  }

  // The clock of a peer by the answer that was the fastest.
  void note_clock(Link& link, const Message& message) {
    BodyReader reader(message.body, Kind::pong);
    const auto asked = reader.get<Nanoseconds>(), theirs = reader.get<Nanoseconds>();
    reader.finish();
    const Nanoseconds now = clock_now(), round_trip = now - asked;
    if (round_trip < 0 || round_trip >= link.round_trip) return;
    link.round_trip = round_trip;
    link.offset = theirs - (asked + round_trip / 2);
  }

  void watch() {
    const Nanoseconds due = clock_now() + std::chrono::nanoseconds(kTimer).count();
    timer_.expires_after(kTimer);
    timer_.async_wait([this, due](const error_code& cancelled) {
      if (cancelled) return;
      const Nanoseconds now = clock_now();
      // Who was stopped itself heard nobody meanwhile.
      const bool was_away = now - due > kSecond;
      for (const LinkPtr& link : std::vector(all_.begin(), all_.end()))
        look_at(link, now, was_away);
      watch();
    });
  }

  void look_at(const LinkPtr& link, Nanoseconds now, bool was_away) {
    if (link->phase != Phase::open) {
      if (now - link->since > kHandshake) fail(link, "did not say who it is within 5 s");
      return;
    }
    if (was_away) link->heard = now;
    if (now - link->heard > kSilence) return fail(link, "did not answer for 4 s");
    if (!asks(*link) || now - link->asked < kSecond) return;
    link->asked = now;
    BodyWriter writer;
    writer.put(now);
    say(link, {Kind::ping, writer.take()});
  }

  // The master its workers, and they those that they feed.
  bool asks(const Link& link) const {
    return options_.self == kMaster || (link.peer != kMaster && link.greeting.opens());
  }

  void fail(const LinkPtr& link, const std::string& why) {
    if (link->phase == Phase::closed) return;
    const bool was_open = link->phase == Phase::open, opened = !was_open && link->greeting.opens();
    if (!was_open && !opened) return refuse_link(link, why);
    if (opened && link->greeting.knows_peer()) tell(link, why);
    {
      const std::lock_guard lock(links_mutex_);
      const auto it = links_.find(link->peer);
      if (it != links_.end() && it->second == link) links_.erase(it);
    }
    Event event{.type = was_open ? Event::Type::lost : Event::Type::unreachable,
                .peer = link->peer,
                .why = why};
    close(link);
    events_.push(std::move(event));
  }

  void refuse_link(const LinkPtr& link, const std::string& why) {
    ++num_refused_;
    {
      const std::lock_guard lock(links_mutex_);
      last_refused_ = why;
    }
    // Who has said a hello is told why.
    if (link->greeting.knows_peer()) tell(link, why);
    close(link);
  }

  void tell(const LinkPtr& link, const std::string& why) {
    say(link, {Kind::refused, body_of(why.substr(0, kMostWhy))});
  }

  void close(const LinkPtr& link) {
    {
      const std::lock_guard lock(link->out_mutex);
      if (link->phase == Phase::closed) return;
      link->phase = Phase::closed;
    }
    error_code ignored;
    link->socket.shutdown(tcp::socket::shutdown_both, ignored);
    link->socket.close(ignored);
    all_.erase(link);
  }

  LinkPtr find(Peer peer) const {
    const std::lock_guard lock(links_mutex_);
    const auto it = links_.find(peer);
    return it == links_.end() ? nullptr : it->second;
  }
  LinkPtr take(Peer peer) {
    const std::lock_guard lock(links_mutex_);
    auto node = links_.extract(peer);
    return node.empty() ? nullptr : std::move(node.mapped());
  }

  const TcpOptions options_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer timer_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
  std::int32_t port_ = 0;
  // Of the links' thread.
  std::set<LinkPtr> all_;
  std::map<Peer, std::int64_t> attempts_;  ///< to open a link, or to close one

  mutable std::mutex links_mutex_;
  std::map<Peer, LinkPtr> links_;  ///< that are open
  std::string last_refused_;

  EventQueue events_;
  std::atomic<std::int64_t> num_refused_{0}, sent_bytes_{0};
};

TcpTransport::TcpTransport(const TcpOptions& options) : state_(std::make_unique<State>(options)) {
  state_->start();
}
TcpTransport::~TcpTransport() { state_->stop(); }

std::int32_t TcpTransport::port() const { return state_->port(); }
std::optional<Event> TcpTransport::next(Nanoseconds deadline) {
  return state_->events().next(deadline);
}
void TcpTransport::deliver(Event event) { state_->events().push(std::move(event)); }
void TcpTransport::wake() { state_->events().wake(); }
std::int64_t TcpTransport::num_refused() const { return state_->num_refused(); }
std::string TcpTransport::last_refused() const { return state_->last_refused(); }
std::int64_t TcpTransport::sent_bytes() const { return state_->sent_bytes(); }
void TcpTransport::flush(Nanoseconds most) { state_->flush(most); }
Nanoseconds TcpTransport::now() const { return clock_now(); }
void TcpTransport::send(Peer to, Header header, std::vector<std::byte> body) {
  state_->send(to, header, std::move(body));
}
void TcpTransport::connect(Peer to, const Address& address) { state_->connect(to, address); }
void TcpTransport::disconnect(Peer from) { state_->disconnect(from); }
std::optional<Event> TcpTransport::await(const std::function<Wanted(const Event&)>& judge,
                                         Nanoseconds deadline) {
  return state_->events().await(judge, deadline);
}
Nanoseconds TcpTransport::clock_of(Peer peer, Nanoseconds at) const {
  return state_->clock_of(peer, at);
}

}  // namespace tessera::run
