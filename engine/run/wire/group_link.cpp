#include "tessera/run/group_link.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <map>
#include <span>
#include <utility>

#include "tessera/core/error.h"

namespace tessera::run {

std::vector<std::byte> body_of(const GroupKey& told) {
  BodyWriter writer;
  writer.put_list(std::span(told.key));
  writer.put_list(std::span(told.value));
  return writer.take();
}

GroupKey group_key_of(const Message& message) {
  BodyReader reader(message.body, Kind::group);
  const std::vector<char> key = reader.get_list<char>();
  GroupKey told{{key.begin(), key.end()}, reader.get_list<std::uint8_t>()};
  reader.finish();
  return told;
}

class GroupLink::Keys final : public KeyStore {
 public:
  explicit Keys(std::function<void(std::vector<std::byte>)> tell) : tell_(std::move(tell)) {}

  void set(const std::string& key, Value value) override {
    GroupKey told{key, std::move(value)};
    tell_(body_of(told));
    learn(std::move(told));
  }
  Value get(const std::string& key) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_closed_ || values_.contains(key); });
    if (is_closed_) throw Error(ErrorCode::io, "the group was given up");
    return values_.at(key);
  }
  bool has(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    return values_.contains(key);
  }
  void learn(GroupKey told) {
    const std::lock_guard lock(mutex_);
    values_.insert_or_assign(std::move(told.key), std::move(told.value));
    changed_.notify_all();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
  }

 private:
  const std::function<void(std::vector<std::byte>)> tell_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Value> values_;
  bool is_closed_ = false;
};

GroupLink::GroupLink(GroupOptions options, GroupHooks hooks)
    : options_(std::move(options)),
      hooks_(std::move(hooks)),
      keys_(std::make_shared<Keys>(hooks_.tell)) {
  receiver_ = std::thread([this] {
    if (join() && options_.from) receive();
  });
  sender_ = std::thread([this] { send_queued(); });
}

GroupLink::~GroupLink() {
  keys_->close();
  {
    const std::lock_guard lock(mutex_);
    is_leaving_ = true;
    if (group_) group_->abort();
    changed_.notify_all();
  }
  receiver_.join();
  sender_.join();
}

std::int32_t GroupLink::index_of(Peer peer) const {
  return static_cast<std::int32_t>(std::ranges::find(options_.ranks, peer) -
                                   options_.ranks.begin());
}

void GroupLink::deliver(Event event) const {
  event.message.header.epoch = options_.epoch;
  hooks_.deliver(std::move(event));
}

bool GroupLink::join() {
  try {
    auto group = hooks_.open({options_.device, options_.host, index_of(options_.self),
                              static_cast<std::int32_t>(options_.ranks.size()), keys_});
    const std::lock_guard lock(mutex_);
    group_ = std::move(group);
    changed_.notify_all();
    if (is_leaving_) return false;
  } catch (const std::exception& error) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, hooks_.patience, [this] { return is_leaving_; })) return false;
    deliver({.type = Event::Type::unreachable,
             .peer = options_.self,
             .why = fmt::format("ranks {} do not find each other by c10d: {}",
                                fmt::join(options_.ranks, ", "), error.what())});
    return false;
  }
  for (const Peer peer : options_.ranks) {
    if (peer != options_.self) deliver({.type = Event::Type::joined, .peer = peer});
  }
  return true;
}

void GroupLink::receive() {
  const std::int32_t from = index_of(*options_.from);
  try {
    for (;;) {
      std::array<std::byte, kHeaderBytes> header;
      group_->receive(from, header);
      Event event{.peer = *options_.from};
      event.message.header = decode_header(header);
      event.message.body.resize(event.message.header.length);
      if (!event.message.body.empty()) group_->receive(from, event.message.body);
      hooks_.deliver(std::move(event));
    }
  } catch (const std::exception&) {
    // The peer is gone, of which the master hears too, or this side leaves.
  }
}

void GroupLink::learn(GroupKey told) { keys_->learn(std::move(told)); }

void GroupLink::send(Peer to, Header header, std::vector<std::byte> body) {
  header.length = body.size();
  const std::lock_guard lock(mutex_);
  queue_.push_back({index_of(to), header, std::move(body)});
  changed_.notify_all();
}

void GroupLink::send_queued() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_leaving_ || (group_ && !queue_.empty()); });
    if (is_leaving_) return;
    const Frame frame = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    try {
      group_->send(frame.to, encode(frame.header));
      if (!frame.body.empty()) group_->send(frame.to, frame.body);
    } catch (const std::exception&) {
      return;  // as receive() has it
    }
    lock.lock();
  }
}

}  // namespace tessera::run
