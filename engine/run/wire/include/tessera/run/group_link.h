#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tessera/run/process_group.h"
#include "tessera/run/transport.h"

namespace tessera::run {

/// What a rank of a group tells the others.
struct GroupKey {
  std::string key;
  KeyStore::Value value;

  friend bool operator==(const GroupKey&, const GroupKey&) = default;
};
std::vector<std::byte> body_of(const GroupKey& told);
/// @throws Error{invalid_argument} for a body that is none
GroupKey group_key_of(const Message& message);

struct GroupOptions {
  std::vector<Peer> ranks;   ///< of the group, in its order
  Peer self = 0;             ///< one of these
  std::optional<Peer> from;  ///< whose frames come here
  std::uint32_t epoch = 0;   ///< of the run, in which the group lives
  std::string device, host;  ///< as ProcessGroupRequest has them
};

/// What a group link asks of those around it; called from threads of its own.
struct GroupHooks {
  std::function<ProcessGroupEntry> open;
  /// To the other ranks, which `learn` it.
  std::function<void(std::vector<std::byte> body)> tell;
  /// `joined` of each other rank, or `unreachable` of this one; then the messages that come.
  std::function<void(Event event)> deliver;
  /// Before that is said: of a rank that is lost meanwhile the master hears within 5 s, and says
  /// what is to be done.
  std::chrono::milliseconds patience = std::chrono::seconds(6);
};

/// Frames between the ranks of a process group. Whether a peer lives is what the transport's own
/// links say: of one that is lost a group tells neither who it is nor, for half an hour, that.
class GroupLink {
 public:
  /// Joins, on a thread of its own.
  GroupLink(GroupOptions options, GroupHooks hooks);
  /// Leaves; what is under way is given up.
  ~GroupLink();
  GroupLink(const GroupLink&) = delete;
  GroupLink& operator=(const GroupLink&) = delete;

  /// What another rank told.
  void learn(GroupKey told);
  /// Returns at once.
  void send(Peer to, Header header, std::vector<std::byte> body);
  const GroupOptions& options() const { return options_; }

 private:
  class Keys;
  struct Frame {
    std::int32_t to = 0;  ///< rank in the group
    Header header;
    std::vector<std::byte> body;
  };

  std::int32_t index_of(Peer peer) const;
  bool join();
  void receive();
  void send_queued();
  void deliver(Event event) const;

  const GroupOptions options_;
  const GroupHooks hooks_;
  std::shared_ptr<Keys> keys_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<ProcessGroup> group_;  ///< once all ranks are there
  std::deque<Frame> queue_;
  bool is_leaving_ = false;
  std::thread receiver_, sender_;
};

}  // namespace tessera::run
