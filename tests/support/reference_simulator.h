#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

namespace tessera::test {

struct TickRequest {
  std::int64_t arrival = 0, num_chunks = 1, output_tokens = 1;
};

/// A pipeline whose every time is a whole number of ticks, as tables.
struct TickPipeline {
  std::size_t num_stages = 1;
  std::int64_t batch_size = 1, prefill_size = 1, decode_size = 1, num_chunks = 1, output_tokens = 1;
  /// ticks(track, is_decode, size, index): stage s is track 2 s, the link after it 2 s + 1
  std::int64_t (*ticks)(const TickPipeline&, std::size_t track, bool decode, std::int64_t size,
                        std::int64_t index) = nullptr;
  std::int64_t return_ticks = 0;
  std::vector<std::int64_t> table;    ///< for `ticks` to look into
  std::vector<TickRequest> requests;  ///< [batch_size]; empty: all have what stands above
};

struct TickResult {
  std::int64_t total = 0, prefill = 0;
  std::vector<std::int64_t> ttft, e2e;  ///< per request
  std::vector<std::int64_t> busy;       ///< per track
};

/// The slow way, written apart from the simulator and unlike it: one tick after another, every
/// track with a queue of its own that is sorted before it serves, every request followed by name.
class TickSimulator {
 public:
  explicit TickSimulator(const TickPipeline& pipeline) : p_(pipeline) {
    num_tracks_ = 2 * p_.num_stages - 1;
    queues_.resize(num_tracks_);
    serving_.resize(num_tracks_);
    result_.busy.assign(num_tracks_, 0);
    result_.ttft.assign(static_cast<std::size_t>(p_.batch_size), -1);
    result_.e2e.assign(static_cast<std::size_t>(p_.batch_size), -1);
    prefill_of_ = numbering(p_.prefill_size);
    decode_of_ = numbering(p_.decode_size);
    started_.assign(static_cast<std::size_t>(p_.batch_size), false);
    requests_ = p_.requests;
    if (requests_.empty()) {
      requests_.assign(static_cast<std::size_t>(p_.batch_size),
                       {0, p_.num_chunks, p_.output_tokens});
    }
  }

  TickResult run() {
    for (std::int64_t m = 0; m <= prefill_of_.back(); ++m) {
      const std::int64_t chunks = most(prefill_of_, m, &TickRequest::num_chunks);
      const std::int64_t arrival = most(prefill_of_, m, &TickRequest::arrival);
      for (std::int64_t k = 0; k < chunks; ++k) send({false, m, k, 0, 0}, arrival);
    }
    for (now_ = 0; !done(); ++now_) {
      complete();
      deliver();
      serve();
    }
    result_.total = *std::max_element(result_.e2e.begin(), result_.e2e.end());
    result_.prefill = *std::max_element(result_.ttft.begin(), result_.ttft.end());
    return result_;
  }

 private:
  struct Unit {
    bool decode = false;
    std::int64_t micro_batch = 0, index = 0;
    std::size_t track = 0;
    std::int64_t time = 0;  ///< of arrival, or of completion while served
    auto order() const { return std::tie(time, decode, micro_batch, index); }
  };

  // Which micro-batch each request is in: the larger ones first.
  std::vector<std::int64_t> numbering(std::int64_t largest) const {
    const std::int64_t number = (p_.batch_size + largest - 1) / largest;
    std::vector<std::int64_t> of;
    for (std::int64_t i = 0; i < number; ++i) {
      const std::int64_t size = p_.batch_size / number + (i < p_.batch_size % number ? 1 : 0);
      of.insert(of.end(), static_cast<std::size_t>(size), i);
    }
    return of;
  }

  std::int64_t ticks(const Unit& unit) const {
    const auto& of = unit.decode ? decode_of_ : prefill_of_;
    return p_.ticks(p_, unit.track, unit.decode, std::count(of.begin(), of.end(), unit.micro_batch),
                    unit.index);
  }

  // The largest figure among the requests of a micro-batch.
  std::int64_t most(const std::vector<std::int64_t>& of, std::int64_t micro_batch,
                    std::int64_t TickRequest::*figure) const {
    std::int64_t largest = 0;
    for (std::size_t r = 0; r < of.size(); ++r) {
      if (of[r] == micro_batch) largest = std::max(largest, requests_[r].*figure);
    }
    return largest;
  }

  void send(Unit unit, std::int64_t time) {
    unit.time = time;
    in_flight_.push_back(unit);
  }

  // Arrivals due by now go to their track, or past tracks that take no time, or out.
  void deliver() {
    for (std::size_t i = 0; i < in_flight_.size(); ++i) {  // grows while it runs
      Unit unit = in_flight_[i];
      if (unit.time > now_) continue;
      in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(i--));
      while (unit.track < num_tracks_ && ticks(unit) == 0) ++unit.track;
      if (unit.track < num_tracks_) {
        queues_[unit.track].push_back(unit);
      } else {
        leave(unit);
      }
    }
  }

  void leave(const Unit& unit) {
    const auto& of = unit.decode ? decode_of_ : prefill_of_;
    const std::int64_t chunks = most(of, unit.micro_batch, &TickRequest::num_chunks);
    const std::int64_t tokens = most(of, unit.micro_batch, &TickRequest::output_tokens);
    if (!unit.decode && unit.index + 1 < chunks) return;
    for (std::size_t r = 0; r < of.size(); ++r) {
      if (of[r] != unit.micro_batch) continue;
      if (!unit.decode) result_.ttft[r] = unit.time;
      const std::int64_t last = requests_[r].output_tokens - 1;
      if ((unit.decode ? unit.index : 0) == last) result_.e2e[r] = unit.time;
    }
    if (unit.decode && unit.index + 1 < tokens) {
      send({true, unit.micro_batch, unit.index + 1, 0, 0}, unit.time + p_.return_ticks);
    }
    if (!unit.decode) start_ready();
  }

  void start_ready() {
    for (std::int64_t q = 0; q <= decode_of_.back(); ++q) {
      std::int64_t ready = 0;
      bool all = true;
      for (std::size_t r = 0; r < decode_of_.size(); ++r) {
        if (decode_of_[r] != q) continue;
        all = all && result_.ttft[r] >= 0;
        ready = std::max(ready, result_.ttft[r]);
      }
      if (!all || started_[static_cast<std::size_t>(q)]) continue;
      if (most(decode_of_, q, &TickRequest::output_tokens) == 1) continue;
      started_[static_cast<std::size_t>(q)] = true;
      send({true, q, 1, 0, 0}, ready + p_.return_ticks);
    }
  }

  void serve() {
    for (std::size_t track = 0; track < num_tracks_; ++track) {
      if (queues_[track].empty() || !serving_[track].empty()) continue;
      auto& queue = queues_[track];
      const auto next = std::min_element(queue.begin(), queue.end(),
                                         [](auto& a, auto& b) { return a.order() < b.order(); });
      Unit unit = *next;
      queue.erase(next);
      unit.time = now_ + ticks(unit);
      result_.busy[track] += ticks(unit);
      serving_[track].push_back(unit);
    }
  }

  void complete() {
    for (std::size_t track = 0; track < num_tracks_; ++track) {
      if (serving_[track].empty() || serving_[track].front().time > now_) continue;
      Unit unit = serving_[track].front();
      serving_[track].clear();
      ++unit.track;
      send(unit, now_);
    }
  }

  bool done() const {
    return std::none_of(result_.e2e.begin(), result_.e2e.end(), [](auto t) { return t < 0; });
  }

  const TickPipeline& p_;
  std::size_t num_tracks_ = 0;
  std::int64_t now_ = 0;
  std::vector<std::vector<Unit>> queues_;
  std::vector<std::vector<Unit>> serving_;  ///< zero or one unit each
  std::vector<Unit> in_flight_;
  std::vector<std::int64_t> prefill_of_, decode_of_;
  std::vector<bool> started_;
  std::vector<TickRequest> requests_;
  TickResult result_;
};

}  // namespace tessera::test
