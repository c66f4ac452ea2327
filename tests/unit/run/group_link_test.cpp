#include "tessera/run/group_link.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>

#include "expect_error.h"
#include "tessera/core/error.h"

namespace tessera::run::group_link_test {
namespace {

/// Bytes between the ranks of a group in one process.
class Exchange {
 public:
  class Rank final : public ProcessGroup {
   public:
    Rank(Exchange& all, std::int32_t rank) : all_(all), rank_(rank) {}
    void send(std::int32_t to, std::span<const std::byte> bytes) override {
      const std::lock_guard lock(all_.mutex_);
      all_.between_[{rank_, to}].emplace_back(bytes.begin(), bytes.end());
      all_.changed_.notify_all();
    }
    void receive(std::int32_t from, std::span<std::byte> bytes) override {
      std::unique_lock lock(all_.mutex_);
      auto& queue = all_.between_[{from, rank_}];
      all_.changed_.wait(lock, [&] { return is_aborted_ || !queue.empty(); });
      if (is_aborted_) throw std::runtime_error("aborted");
      ASSERT_EQ(queue.front().size(), bytes.size());
      std::ranges::copy(queue.front(), bytes.begin());
      queue.pop_front();
    }
    void abort() noexcept override {
      const std::lock_guard lock(all_.mutex_);
      is_aborted_ = true;
      all_.changed_.notify_all();
    }

   private:
    Exchange& all_;
    std::int32_t rank_;
    bool is_aborted_ = false;
  };

  /// As a process group does: each rank says something, and waits for what the others say.
  std::unique_ptr<ProcessGroup> open(const ProcessGroupRequest& request) {
    request.store->set(std::to_string(request.rank), {1, 2, 3});
    for (std::int32_t r = 0; r < request.size; ++r) {
      EXPECT_EQ(request.store->get(std::to_string(r)), (KeyStore::Value{1, 2, 3}));
    }
    return std::make_unique<Rank>(*this, request.rank);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::deque<std::vector<std::byte>>> between_;
};

/// What links deliver.
class Inbox {
 public:
  void push(Event event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_all();
  }
  Event next() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(20), [&] { return !events_.empty(); }));
    if (events_.empty()) return {};
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  bool is_empty() {
    const std::lock_guard lock(mutex_);
    return events_.empty();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
};

const std::vector<Peer> kRanks{4, 5, 6};

GroupOptions options_of(Peer self) {
  GroupOptions options;
  options.ranks = kRanks;
  options.self = self;
  options.epoch = 3;
  if (self > 4) options.from = self - 1;
  return options;
}

/// Three ranks whose words go to each other as the master passes them on.
struct Pipeline {
  Exchange exchange;
  std::map<Peer, Inbox> inboxes;
  std::mutex mutex;
  std::map<Peer, std::unique_ptr<GroupLink>> links;

  ~Pipeline() { stop(); }
  // Not under the lock, which their threads take.
  void stop() {
    std::map<Peer, std::unique_ptr<GroupLink>> gone;
    {
      const std::lock_guard lock(mutex);
      gone.swap(links);
    }
  }
  GroupHooks hooks_of(Peer self) {
    return {.open = [this](const ProcessGroupRequest& r) { return exchange.open(r); },
            .tell = [this, self](std::vector<std::byte> body) { pass_on(self, std::move(body)); },
            .deliver = [this, self](Event event) { inboxes[self].push(std::move(event)); }};
  }
  void start(std::vector<Peer> ranks) {
    const std::lock_guard lock(mutex);
    for (const Peer rank : ranks) inboxes[rank];
    for (const Peer rank : ranks) {
      links[rank] = std::make_unique<GroupLink>(options_of(rank), hooks_of(rank));
    }
  }
  void pass_on(Peer from, std::vector<std::byte> body) {
    const std::lock_guard lock(mutex);
    const GroupKey told = group_key_of({{.kind = Kind::group}, std::move(body)});
    for (const auto& [rank, link] : links) {
      if (rank != from) link->learn(told);
    }
  }
};

TEST(GroupLink, FramesComeInOrderFromTheRankBefore) {
  Pipeline pipeline;
  pipeline.start(kRanks);
  for (const Peer rank : kRanks) {
    for (int other = 0; other < 2; ++other) {
      const Event joined = pipeline.inboxes[rank].next();
      EXPECT_EQ(joined.type, Event::Type::joined);
      EXPECT_NE(joined.peer, rank);
      EXPECT_EQ(joined.message.header.epoch, 3u);
    }
  }
  for (const Peer rank : {4, 5}) {
    for (int i = 0; i < 50; ++i) {
      pipeline.links[rank]->send(rank + 1, {.kind = Kind::hidden, .epoch = 3, .step = i},
                                 std::vector<std::byte>(static_cast<std::size_t>(i % 5) * 1000,
                                                        static_cast<std::byte>(rank + i)));
    }
  }
  for (const Peer rank : {5, 6}) {
    for (int i = 0; i < 50; ++i) {
      const Event event = pipeline.inboxes[rank].next();
      ASSERT_EQ(event.type, Event::Type::message);
      EXPECT_EQ(event.peer, rank - 1);
      EXPECT_EQ(event.message.header.step, i);
      EXPECT_EQ(event.message.header.epoch, 3u);
      EXPECT_EQ(event.message.body, std::vector<std::byte>(static_cast<std::size_t>(i % 5) * 1000,
                                                           static_cast<std::byte>(rank - 1 + i)));
    }
  }
}

TEST(GroupLink, WhatIsSentBeforeAllAreThereIsNotLost) {
  Pipeline pipeline;
  pipeline.start(kRanks);
  pipeline.links[4]->send(5, {.kind = Kind::hidden, .step = 7}, {});
  Inbox& inbox = pipeline.inboxes[5];
  while (inbox.next().type != Event::Type::message) {
  }
}

TEST(GroupLink, LeavesWhileOthersHaveNotCome) {
  Pipeline pipeline;
  pipeline.start({4, 6});
  const auto begin = std::chrono::steady_clock::now();
  pipeline.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  EXPECT_TRUE(pipeline.inboxes[4].is_empty());
  EXPECT_TRUE(pipeline.inboxes[6].is_empty());
}

TEST(GroupLink, SaysOfAGroupThatDoesNotFormWhichRanksItHas) {
  Inbox inbox;
  GroupHooks hooks{.open = [](const ProcessGroupRequest&) -> std::unique_ptr<ProcessGroup> {
                     throw std::runtime_error("connection refused");
                   },
                   .tell = [](std::vector<std::byte>) {},
                   .deliver = [&](Event event) { inbox.push(std::move(event)); },
                   .patience = std::chrono::milliseconds(20)};
  const GroupLink link(options_of(5), std::move(hooks));
  const Event event = inbox.next();
  EXPECT_EQ(event.type, Event::Type::unreachable);
  EXPECT_EQ(event.peer, 5);
  EXPECT_EQ(event.why, "ranks 4, 5, 6 do not find each other by c10d: connection refused");
}

TEST(GroupLink, KeysAreReadBack) {
  const GroupKey told{"gloo/rank 0", {0, 255, 7}};
  EXPECT_EQ(group_key_of({{.kind = Kind::group}, body_of(told)}), told);
  std::vector<std::byte> cut = body_of(told);
  cut.pop_back();
  test::expect_error(ErrorCode::invalid_argument, {"group ends within a list"}, [&] {
    group_key_of({{.kind = Kind::group}, cut});
  });
}

}  // namespace
}  // namespace tessera::run::group_link_test
