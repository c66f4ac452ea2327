#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

// Sums over the tensor-parallel ranks of a model.
namespace tessera::lm {

/// One rank's end. It goes through its sums on one thread.
class Reducer {
 public:
  virtual ~Reducer() = default;
  virtual std::int32_t rank() const = 0;
  virtual std::int32_t ranks() const = 0;

  /// `values` of rank 0 + those of rank 1 + ..., in this order and so with the same bits on every
  /// rank, in place. All ranks call it, with as many values, in the same order.
  /// @throws Error{io} naming the rank that did not come in time, or when a rank gave up;
  /// Error{invalid_argument} for ranks that sum different numbers of values. Nothing is summed with
  /// these ranks afterwards, since they are no longer at the same sum.
  virtual void sum(std::span<float> values) = 0;
  /// Gives up: sums of all ranks, those under way too, throw. From any thread; who hears that a
  /// rank is gone (its connection ended) need not wait for the deadline.
  virtual void abort() noexcept = 0;
};

/// Memory in which the ranks of one host meet, processes or threads. Nothing of it is left when the
/// last of them is gone, however it ended.
class SharedRanks {
 public:
  /// @param ranks >= 1
  /// @throws Error{out_of_range}, Error{io} when the system has no memory to share
  static std::shared_ptr<SharedRanks> create(std::int32_t ranks);
  /// What another process of the same user has made, by its `path()`, while that process lives.
  /// @throws Error{io} when it cannot be opened, Error{invalid_argument} when it is something else
  static std::shared_ptr<SharedRanks> open(const std::string& path);

  virtual ~SharedRanks() = default;
  virtual std::int32_t ranks() const = 0;
  /// "/proc/PID/fd/N". A child process that was forked has the memory already.
  virtual std::string path() const = 0;

  /// The end of one rank, which nobody else takes. It waits awake for some microseconds, then
  /// asleep.
  /// @param deadline how long one sum waits for each rank
  /// @throws Error{out_of_range} for a rank that is none
  virtual std::unique_ptr<Reducer> reducer(std::int32_t rank,
                                           std::chrono::milliseconds deadline) const = 0;
};

}  // namespace tessera::lm
