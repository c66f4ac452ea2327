#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/record.h"

/// Work in other processes, so that a crash, an endless loop or a full memory costs one item and
/// never the program. The pool knows nothing of what the items are: texts go out, texts come back.
namespace tessera::workers {

struct PoolSettings {
  std::vector<std::string> command;  ///< a program that opens a Channel, and its arguments
  std::string setup;                 ///< the first message of every worker
  int jobs = 1;                      ///< processes at the same time
  double time_limit_s = 300;         ///< of one item, by the wall
  double grace_s = 3;                ///< past the limit, for a worker that stops by itself
  double start_limit_s = 120;        ///< from the start of a process until it is ready
  double memory_bytes = 0;           ///< of data, per process; 0: no limit
};

enum class Outcome {
  done,           ///< `text` is the answer
  crashed,        ///< the process ended: a signal, or an exit without an answer
  time_limit,     ///< ended past the time limit, by itself or by the pool
  out_of_memory,  ///< the process ended at its memory limit
};

/// What became of one item.
struct Event {
  std::uint64_t id = 0;
  Outcome outcome = Outcome::done;
  std::string text;     ///< the answer
  std::string message;  ///< what happened, where the outcome is not `done`
  std::string log;      ///< what the item printed, its last 64 KiB
  double duration_s = 0;
};

}  // namespace tessera::workers

namespace tessera {

template <>
inline constexpr auto kEnumNames<workers::Outcome> =
    enum_names<workers::Outcome>({{workers::Outcome::done, "done"},
                                  {workers::Outcome::crashed, "crashed"},
                                  {workers::Outcome::time_limit, "time_limit"},
                                  {workers::Outcome::out_of_memory, "out_of_memory"}});

template <>
struct Fields<workers::PoolSettings> {
  using Settings = workers::PoolSettings;
  static constexpr auto list = std::tuple{
      field<&Settings::jobs>({.name = "jobs",
                              .doc = "Processes at the same time",
                              .min = 1,
                              .max = 4096,
                              .as_option = AsOption::required}),
      field<&Settings::setup>(
          {.name = "setup", .doc = "First message of each", .as_option = AsOption::required}),
      field<&Settings::time_limit_s>({.name = "time_limit_s",
                                      .doc = "Of one item",
                                      .unit = "s",
                                      .min = 0.001,
                                      .max = 1e7,
                                      .as_option = AsOption::required}),
      field<&Settings::memory_bytes>({.name = "memory_bytes",
                                      .doc = "Of one process; 0 for no limit",
                                      .unit = "bytes",
                                      .min = 0,
                                      .max = 1e15,
                                      .as_option = AsOption::defaulted})};
};

template <>
struct Fields<workers::Event> {
  using Event = workers::Event;
  static constexpr auto list = std::tuple{
      field<&Event::id>({.name = "id", .doc = "Of the item"}),
      field<&Event::outcome>({.name = "outcome", .doc = "What became of it"}),
      field<&Event::text>({.name = "text", .doc = "The answer"}),
      field<&Event::message>(
          {.name = "message", .doc = "What happened, where the outcome is not done"}),
      field<&Event::log>({.name = "log", .doc = "What it printed"}),
      field<&Event::duration_s>({.name = "duration_s", .doc = "Time it took", .unit = "s"})};
};

}  // namespace tessera

namespace tessera::workers {

/// Processes that take items one after the other. A process that ends is replaced; items that it
/// had not begun go to another. Each is the leader of a process group of its own, so that Ctrl-C on
/// the terminal reaches the parent alone, and dies with the thread that made the pool.
class Pool {
 public:
  explicit Pool(PoolSettings settings);
  ~Pool();  ///< kills the processes and what they started
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Ids are the caller's and differ; items begin in the order of submission.
  void submit(std::uint64_t id, std::string text);
  /// Runs the items until at least one has an outcome, `timeout_s` has passed, or a signal came.
  /// @throws Error{io} when processes cannot be started, or end before they are ready.
  std::vector<Event> wait(double timeout_s);
  /// Forgets the items that no process has begun; their number.
  std::size_t withdraw();
  /// Items that have no outcome yet.
  std::size_t num_open() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// Bytes of memory that this machine, or the control group that the process is in, has.
double machine_memory_bytes();
/// What of it is free, or holds files that can be read again.
double free_memory_bytes();

}  // namespace tessera::workers
