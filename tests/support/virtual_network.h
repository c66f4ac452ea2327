#pragma once

// Processes of a run in one process, on a clock of their own: links with delays, and what goes
// wrong with them, all by a seed. The actors are the product's.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/rng.h"
#include "tessera/run/transport.h"

namespace tessera::run {

class VirtualNetwork {
 public:
  explicit VirtualNetwork(std::uint64_t seed) : rng_(seed) {}

  class Node final : public Transport {
   public:
    Node(VirtualNetwork& network, Peer self, std::int64_t process)
        : network_(network), self_(self), process_(process) {}

    Nanoseconds now() const override { return network_.now_ + ahead_; }
    /// What is computed takes so long: what is sent after it leaves later.
    void spend(Nanoseconds time) { ahead_ += time; }
    void send(Peer to, Header header, std::vector<std::byte> body) override {
      header.length = body.size();
      network_.send(*this, to, {header, std::move(body)});
    }
    void connect(Peer to, const Address& address) override {
      network_.connect(*this, to, address.port);
    }
    void disconnect(Peer from) override { network_.close(*this, from, false); }
    std::optional<Event> await(const std::function<Wanted(const Event&)>& judge,
                               Nanoseconds deadline) override {
      return network_.await(*this, judge, deadline);
    }
    Nanoseconds clock_of(Peer, Nanoseconds at) const override { return at; }

   private:
    friend class VirtualNetwork;
    VirtualNetwork& network_;
    Peer self_;
    std::int64_t process_;  ///< also its port
    std::unique_ptr<Actor> actor_;
    std::map<Peer, std::int64_t> links_;  ///< to processes, by the name that they have here
    Nanoseconds ahead_ = 0, busy_until_ = 0;
    bool is_dead_ = false, is_stopped_ = false, is_waiting_ = false;
    std::vector<Event> inbox_;
  };

  /// A process begins: `make` is given its transport, and makes what runs in it.
  Node& start(Peer self, const std::function<std::unique_ptr<Actor>(Node&)>& make) {
    auto node = std::make_unique<Node>(*this, self, ++last_process_);
    Node& added = *node;
    nodes_[added.process_] = std::move(node);
    by_name_[self] = added.process_;
    added.actor_ = make(added);
    wake(added);
    return added;
  }

  Nanoseconds now() const { return now_; }
  Rng& rng() { return rng_; }
  /// From now on messages take between these.
  void set_delays(Nanoseconds least, Nanoseconds most) {
    least_delay_ = least;
    most_delay_ = most;
  }
  /// At a time from now on.
  void at(Nanoseconds time, std::function<void()> what) {
    queue_.push({std::max(time, now_), ++last_event_, std::move(what)});
  }

  /// Something outside its links has come to it: it looks for work.
  void nudge(Peer peer) {
    if (Node* node = find(peer)) wake(*node);
  }

  bool is_alive(Peer peer) { return find(peer) != nullptr; }

  void kill(Peer peer) {
    Node* node = find(peer);
    if (node == nullptr) return;
    node->is_dead_ = true;
    while (!node->links_.empty()) close(*node, node->links_.begin()->first, true);
  }
  /// As SIGSTOP does; the master notices after 4 s, a shorter pause nobody.
  void pause(Peer peer, Nanoseconds time) {
    Node* node = find(peer);
    if (node == nullptr || node->is_stopped_) return;
    node->is_stopped_ = true;
    const std::int64_t process = node->process_;
    at(now_ + time, [this, process] { resume(process); });
    if (time < 4 * kSecond) return;
    at(now_ + 4 * kSecond, [this, process] {
      Node& silent = *nodes_.at(process);
      const auto link = by_name_.find(kMaster);
      if (silent.is_dead_ || link == by_name_.end()) return;
      if (silent.links_.contains(kMaster)) {
        close(*nodes_.at(link->second), silent.self_, true, "did not answer for 4 s", true);
      }
    });
  }
  /// The link between two breaks; both notice.
  void cut(Peer a, Peer b) {
    Node* node = find(a);
    if (node != nullptr && node->links_.contains(b)) {
      close(*node, b, true, "was cut", true);
    }
  }

  /// Until `done`, or nothing is left to happen, or this time. Whether it was done.
  bool run(const std::function<bool()>& done, Nanoseconds most) {
    done_ = done;
    while (!done()) {
      if (queue_.empty() || queue_.top().time > most) return false;
      step();
    }
    return true;
  }

 private:
  struct Item {
    Nanoseconds time = 0;
    std::int64_t number = 0;
    std::function<void()> what;
    bool operator<(const Item& other) const {
      return std::pair(time, number) > std::pair(other.time, other.number);
    }
  };

  Node* find(Peer peer) {
    const auto it = by_name_.find(peer);
    if (it == by_name_.end()) return nullptr;
    Node& node = *nodes_.at(it->second);
    return node.is_dead_ ? nullptr : &node;
  }

  Nanoseconds delay() { return rng_.integer(least_delay_, most_delay_); }

  // Of a link everything comes in order.
  Nanoseconds arrival(const Node& from, std::int64_t to) {
    Nanoseconds& last = last_arrival_[{from.process_, to}];
    last = std::max(last + 1, from.now() + delay());
    return last;
  }

  void deliver(std::int64_t process, Event event, Nanoseconds time) {
    at(time, [this, process, event = std::move(event)]() mutable {
      Node& node = *nodes_.at(process);
      if (node.is_dead_) return;
      node.inbox_.push_back(std::move(event));
      wake(node);
    });
  }

  void send(Node& from, Peer to, Message message) {
    const auto link = from.links_.find(to);
    if (link == from.links_.end()) return;
    const std::int64_t target = link->second;
    deliver(target,
            {.type = Event::Type::message, .peer = from.self_, .message = std::move(message)},
            arrival(from, target));
  }

  void connect(Node& from, Peer to, std::int64_t port) {
    const std::int64_t process =
        to == kMaster && by_name_.contains(kMaster) ? by_name_.at(kMaster) : port;
    const std::int64_t asked = from.process_;
    at(now_ + delay(), [this, asked, process, to] {
      Node& opener = *nodes_.at(asked);
      if (opener.is_dead_) return;
      const auto it = nodes_.find(process);
      if (it == nodes_.end() || it->second->is_dead_) {
        return deliver(asked,
                       {.type = Event::Type::unreachable, .peer = to, .why = "cannot be reached"},
                       now_ + 10 * kSecond);
      }
      Node& other = *it->second;
      opener.links_[to] = process;
      other.links_[opener.self_] = asked;
      const auto joined = [](Peer peer, const Node& node) {
        Event event{.type = Event::Type::joined, .peer = peer};
        event.address = {"virtual", static_cast<std::int32_t>(node.process_)};
        event.process = node.process_;
        return event;
      };
      deliver(asked, joined(to, other), arrival(other, asked));
      deliver(process, joined(opener.self_, opener), arrival(opener, process));
    });
  }

  void close(Node& node, Peer peer, bool tells, const char* why = "closed its end",
             bool tells_itself = false) {
    const auto link = node.links_.find(peer);
    if (link == node.links_.end()) return;
    const std::int64_t process = link->second;
    node.links_.erase(link);
    Node& other = *nodes_.at(process);
    const auto back = other.links_.find(node.self_);
    if (back != other.links_.end() && back->second == node.process_) {
      other.links_.erase(back);
      deliver(process, {.type = Event::Type::lost, .peer = node.self_, .why = why},
              arrival(node, process));
    }
    if (tells && tells_itself) {
      deliver(node.process_, {.type = Event::Type::lost, .peer = peer, .why = why},
              arrival(other, node.process_));
    }
  }

  void resume(std::int64_t process) {
    Node& node = *nodes_.at(process);
    node.is_stopped_ = false;
    if (!node.is_dead_) wake(node);
  }

  // Everybody else goes on meanwhile. What the process has computed so far it goes on computing.
  std::optional<Event> await(Node& node, const std::function<Wanted(const Event&)>& judge,
                             Nanoseconds deadline) {
    const Nanoseconds computed = node.now();
    at(computed, [] {});
    if (deadline != kNoTime) at(deadline, [] {});
    node.is_waiting_ = true;
    std::optional<Event> taken;
    while (!node.is_dead_) {
      if (!node.is_stopped_ && now_ >= computed) {
        const auto found = std::ranges::find_if(
            node.inbox_, [&](const Event& event) { return judge(event) != Wanted::no; });
        if (found != node.inbox_.end()) {
          if (judge(*found) == Wanted::ends) break;
          taken = std::move(*found);
          node.inbox_.erase(found);
          break;
        }
        if (now_ >= deadline) break;
      }
      if (queue_.empty() || done_()) break;
      step();
    }
    node.is_waiting_ = false;
    node.ahead_ = std::max<Nanoseconds>(0, computed - now_);
    return taken;
  }

  void step() {
    const Item item = queue_.top();
    queue_.pop();
    now_ = item.time;
    item.what();
  }

  // One turn of a process: an event, else a piece of work.
  void wake(Node& node) {
    const std::int64_t process = node.process_;
    at(std::max(now_, node.busy_until_), [this, process] { turn(*nodes_.at(process)); });
  }

  void turn(Node& node) {
    if (node.is_dead_ || node.is_stopped_ || node.is_waiting_ || node.actor_->is_done() ||
        now_ < node.busy_until_)
      return;
    bool did = true;
    if (node.actor_->wake_at() <= now_) node.actor_->tick();
    if (!node.actor_->is_done()) {
      if (!node.inbox_.empty()) {
        Event event = std::move(node.inbox_.front());
        node.inbox_.erase(node.inbox_.begin());
        node.actor_->on(std::move(event));
      } else {
        did = node.actor_->work();
      }
    }
    node.busy_until_ = now_ + std::exchange(node.ahead_, 0);
    if (node.actor_->is_done()) return leave(node);
    if (did) return wake(node);
    const Nanoseconds again = node.actor_->wake_at();
    if (again == kNoTime) return;
    const std::int64_t process = node.process_;
    at(std::max(again, now_ + 1), [this, process] { turn(*nodes_.at(process)); });
  }

  // A process that is done ends, and its links with it.
  void leave(Node& node) {
    if (node.self_ == kMaster) return;
    node.is_dead_ = true;
    while (!node.links_.empty()) close(node, node.links_.begin()->first, true);
  }

  Rng rng_;
  std::function<bool()> done_;  ///< of the run under way
  Nanoseconds now_ = 0, least_delay_ = 10'000, most_delay_ = 400'000;
  std::int64_t last_process_ = 0, last_event_ = 0;
  std::map<std::int64_t, std::unique_ptr<Node>> nodes_;
  std::map<Peer, std::int64_t> by_name_;
  std::map<std::pair<std::int64_t, std::int64_t>, Nanoseconds> last_arrival_;
  std::priority_queue<Item> queue_;
};

}  // namespace tessera::run
