#include "tessera/run/tcp_transport.h"

#include <gtest/gtest.h>

#include <boost/asio.hpp>
#include <numeric>
#include <thread>

#include "expect_error.h"
#include "tessera/core/error.h"

namespace tessera::run::tcp_transport_test {
namespace {

using boost::asio::ip::tcp;

/// The next event within 20 s.
Event next(TcpTransport& transport) {
  auto event = transport.next(transport.now() + 20 * kSecond);
  EXPECT_TRUE(event.has_value());
  return event ? std::move(*event) : Event{};
}

TcpOptions options_of(Peer self, const std::string& secret = "a secret of the run") {
  return {.self = self, .host = "127.0.0.1", .port = 0, .secret = secret, .build = "1.0 abc"};
}

/// Waits until so many were refused.
void wait_for_refused(const TcpTransport& transport, std::int64_t count) {
  for (int i = 0; i < 2000 && transport.num_refused() < count; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(transport.num_refused(), count);
}

struct Pair {
  TcpTransport master{options_of(kMaster)};
  TcpTransport worker{options_of(3)};
  void connect() {
    worker.connect(kMaster, {"127.0.0.1", master.port()});
    const Event at_worker = next(worker), at_master = next(master);
    EXPECT_EQ(at_worker.type, Event::Type::joined);
    EXPECT_EQ(at_master.type, Event::Type::joined);
    EXPECT_EQ(at_master.peer, 3);
    EXPECT_EQ(at_master.address.port, worker.port());
    EXPECT_EQ(at_master.process, ::getpid());
  }
};

TEST(TcpTransport, MessagesComeInOrderWhateverTheirSize) {
  Pair pair;
  pair.connect();
  constexpr int kCount = 60;
  for (int i = 0; i < kCount; ++i) {
    std::vector<std::byte> body(
        i % 7 == 0 ? std::size_t{3} << 20 : static_cast<std::size_t>(i * 11),
        static_cast<std::byte>(i));
    pair.worker.send(kMaster, {.kind = Kind::hidden, .epoch = 5, .step = i}, std::move(body));
  }
  for (int i = 0; i < kCount; ++i) {
    const Event event = next(pair.master);
    ASSERT_EQ(event.type, Event::Type::message);
    EXPECT_EQ(event.message.header.step, i);
    EXPECT_EQ(event.message.header.epoch, 5u);
    const std::size_t wanted = i % 7 == 0 ? std::size_t{3} << 20 : static_cast<std::size_t>(i * 11);
    ASSERT_EQ(event.message.body.size(), wanted);
    for (const std::byte byte : event.message.body) ASSERT_EQ(byte, static_cast<std::byte>(i));
  }
  // The clocks of a machine are one.
  EXPECT_LT(std::abs(pair.master.clock_of(3, 0)), kSecond);
}

TEST(TcpTransport, AwaitsWhatIsWantedAndLeavesTheRest) {
  Pair pair;
  pair.connect();
  const auto is_step = [](std::int64_t step) {
    return [step](const Event& event) {
      if (event.type != Event::Type::message) return Wanted::ends;
      return event.message.header.step == step ? Wanted::yes : Wanted::no;
    };
  };
  for (int i = 0; i < 4; ++i) pair.worker.send(kMaster, {.kind = Kind::hidden, .step = i}, {});
  const auto found = pair.master.await(is_step(2), pair.master.now() + 20 * kSecond);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->message.header.step, 2);
  const Nanoseconds deadline = pair.master.now() + kSecond / 50;
  EXPECT_FALSE(pair.master.await(is_step(9), deadline).has_value());
  EXPECT_GE(pair.master.now(), deadline);
  for (const std::int64_t left : {0, 1, 3}) {
    EXPECT_EQ(next(pair.master).message.header.step, left);
  }
  pair.worker.disconnect(kMaster);
  EXPECT_FALSE(pair.master.await(is_step(9), kNoTime).has_value());
  EXPECT_EQ(next(pair.master).type, Event::Type::lost);
}

TEST(TcpTransport, NoticesWhoCloses) {
  auto pair = std::make_unique<Pair>();
  pair->connect();
  pair->worker.disconnect(kMaster);
  const Event event = next(pair->master);
  EXPECT_EQ(event.type, Event::Type::lost);
  EXPECT_EQ(event.peer, 3);
  EXPECT_EQ(event.why, "closed its end");
}

TEST(TcpTransport, RefusesWhoLacksTheSecret) {
  TcpTransport master(options_of(kMaster));
  TcpTransport stranger(options_of(0, "another secret"));
  stranger.connect(kMaster, {"127.0.0.1", master.port()});
  const Event refused = next(stranger);
  EXPECT_EQ(refused.type, Event::Type::unreachable);
  EXPECT_EQ(refused.why, "does not know the secret of this run");
  wait_for_refused(master, 1);
  EXPECT_EQ(master.last_refused(),
            "refused this one, which 'does not know the secret of this run'");
  // Nobody joined, and the next one does.
  TcpTransport worker(options_of(0));
  worker.connect(kMaster, {"127.0.0.1", master.port()});
  EXPECT_EQ(next(worker).type, Event::Type::joined);
  EXPECT_EQ(next(master).type, Event::Type::joined);
}

TEST(TcpTransport, RefusesAnotherBuildAndASecondOfARank) {
  Pair pair;
  pair.connect();
  TcpOptions other = options_of(4);
  other.build = "1.1 def";
  TcpTransport old(other), second(options_of(3));
  old.connect(kMaster, {"127.0.0.1", pair.master.port()});
  wait_for_refused(pair.master, 1);
  EXPECT_NE(pair.master.last_refused().find("'1.1 def'"), std::string::npos);
  second.connect(kMaster, {"127.0.0.1", pair.master.port()});
  wait_for_refused(pair.master, 2);
  EXPECT_EQ(pair.master.last_refused(), "is rank 3, which is there already");
  EXPECT_EQ(next(old).why,
            "refused this one, which 'is of build '1.1 def', the run of build '1.0 abc''");
  EXPECT_EQ(next(second).type, Event::Type::joined);  // by what it knows
  EXPECT_EQ(next(second).why, "refused this one, which 'is rank 3, which is there already'");
  pair.worker.send(kMaster, {.kind = Kind::ready}, {});
  EXPECT_EQ(next(pair.master).message.header.kind, Kind::ready);
}

TEST(TcpTransport, RefusesARankThatTheRunDoesNotHave) {
  TcpOptions options = options_of(kMaster);
  options.num_ranks = 2;
  TcpTransport master(options), third(options_of(2)), second(options_of(1)), none(options_of(-1));
  none.connect(kMaster, {"127.0.0.1", master.port()});
  wait_for_refused(master, 1);
  third.connect(kMaster, {"127.0.0.1", master.port()});
  EXPECT_EQ(next(third).type, Event::Type::joined);  // by what it knows
  EXPECT_EQ(next(third).why, "refused this one, which 'is rank 2 of a run that has ranks 0 to 1'");
  second.connect(kMaster, {"127.0.0.1", master.port()});
  EXPECT_EQ(next(second).type, Event::Type::joined);
  EXPECT_EQ(next(master).peer, 1);
  master.flush(kSecond);
}

// However many are there who say nothing, who belongs to the run gets in.
TEST(TcpTransport, LetsWorkersInPastManyWhoSayNothing) {
  TcpTransport master(options_of(kMaster));
  boost::asio::io_context io;
  const tcp::endpoint endpoint(boost::asio::ip::make_address("127.0.0.1"),
                               static_cast<std::uint16_t>(master.port()));
  std::vector<tcp::socket> silent;
  for (int i = 0; i < 200; ++i) silent.emplace_back(io).connect(endpoint);
  TcpTransport worker(options_of(0));
  worker.connect(kMaster, {"127.0.0.1", master.port()});
  EXPECT_EQ(next(worker).type, Event::Type::joined);
  EXPECT_EQ(next(master).type, Event::Type::joined);
  EXPECT_GE(master.num_refused(), 200 - 64);
  EXPECT_EQ(master.last_refused(), "one of too many who did not say who they are");
}

// What no worker says ends one connection, and changes nothing else.
TEST(TcpTransport, SurvivesStrangers) {
  Pair pair;
  pair.connect();
  boost::asio::io_context io;
  const tcp::endpoint endpoint(boost::asio::ip::make_address("127.0.0.1"),
                               static_cast<std::uint16_t>(pair.master.port()));
  std::vector<std::string> sayings = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n                    ",
                                      std::string(4096, '\xff')};
  const auto hidden = encode({.kind = Kind::hidden, .length = 1 << 30});
  sayings.emplace_back(reinterpret_cast<const char*>(hidden.data()), hidden.size());
  const auto hello = encode({.kind = Kind::hello, .length = 3});
  sayings.push_back(std::string(reinterpret_cast<const char*>(hello.data()), hello.size()) + "{]}");
  std::int64_t count = 0;
  for (const std::string& saying : sayings) {
    tcp::socket socket(io);
    socket.connect(endpoint);
    boost::asio::write(socket, boost::asio::buffer(saying));
    wait_for_refused(pair.master, ++count);
  }
  pair.worker.send(kMaster, {.kind = Kind::ready}, {});
  EXPECT_EQ(next(pair.master).message.header.kind, Kind::ready);
}

TEST(TcpTransport, GivesUpAConnectionThatIsWithdrawn) {
  TcpTransport worker(options_of(0)), first(options_of(1)), second(options_of(1));
  const std::int32_t nowhere = [] {
    TcpTransport gone(options_of(7));
    return gone.port();
  }();
  worker.connect(1, {"127.0.0.1", nowhere});
  worker.disconnect(1);
  worker.connect(1, {"127.0.0.1", second.port()});
  const Event event = next(worker);
  EXPECT_EQ(event.type, Event::Type::joined);
  EXPECT_EQ(event.address.port, second.port());
}

TEST(TcpTransport, SaysWhichPortIsTaken) {
  TcpTransport first(options_of(kMaster));
  TcpOptions options = options_of(kMaster);
  options.port = first.port();
  test::expect_error(ErrorCode::io, {"cannot listen on 127.0.0.1:", "in use"},
                     [&] { TcpTransport second(options); });
  options.host = "no host at all";
  test::expect_error(ErrorCode::io, {"cannot listen on no host at all:"},
                     [&] { TcpTransport second(options); });
}

TEST(TcpTransport, WakesUp) {
  TcpTransport transport(options_of(kMaster));
  std::thread other([&] { transport.wake(); });
  EXPECT_FALSE(transport.next(kNoTime).has_value());
  other.join();
  const Nanoseconds start = transport.now();
  EXPECT_FALSE(transport.next(start + kSecond / 50).has_value());
  EXPECT_GE(transport.now(), start + kSecond / 50);
}

}  // namespace
}  // namespace tessera::run::tcp_transport_test
