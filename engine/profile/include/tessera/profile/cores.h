#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/record.h"

namespace tessera::profile {

/// The processor that this process may use.
struct Cpu {
  std::string name;         ///< "AMD EPYC"
  std::vector<int> cores;   ///< numbers of the system, ascending
  double memory_bytes = 0;  ///< free for this process: of the machine, and of its control group
  double cache_bytes = 0;   ///< of the largest cache; 0: not known

  std::int64_t num_cores() const { return static_cast<std::int64_t>(cores.size()); }
};
Cpu this_cpu();

}  // namespace tessera::profile

namespace tessera {

template <>
struct Fields<profile::Cpu> {
  using C = profile::Cpu;
  static constexpr auto list = std::tuple{
      field<&C::name>({.name = "name", .doc = "As the system calls it"}),
      field<&C::num_cores>({.name = "cores", .doc = "That this process may run on"}),
      field<&C::memory_bytes>({.name = "memory_bytes", .doc = "Free memory", .unit = "bytes"}),
      field<&C::cache_bytes>({.name = "cache_bytes", .doc = "Largest cache", .unit = "bytes"})};
};

}  // namespace tessera

namespace tessera::profile {

/// Keeps the calling thread, and those that it starts, on the first `count` of the cores, until it
/// goes. 0: leaves them where they are.
class Pinned {
 public:
  Pinned(const Cpu& cpu, std::int64_t count);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  std::vector<int> before_;
};

/// Threads on the cores behind the first `first`, at most `count`, each of which runs `load(i)`
/// again and again from now on until this goes. All have run once when the constructor returns.
/// What a load throws, `stop` throws.
class OtherCores {
 public:
  OtherCores(const Cpu& cpu, std::int64_t first, std::int64_t count,
             std::function<void(std::int64_t)> load);
  ~OtherCores();
  OtherCores(const OtherCores&) = delete;
  OtherCores& operator=(const OtherCores&) = delete;

  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::profile
