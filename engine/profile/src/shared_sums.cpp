// What a sum takes over tensor-parallel ranks of this machine.

#include <cstddef>
#include <thread>
#include <vector>

#include "tessera/core/cpu_cores.h"
#include "tessera/core/error.h"
#include "tessera/lm/reducer.h"
#include "tessera/profile/rates.h"

namespace tessera::profile {
namespace {

constexpr std::chrono::seconds kDeadline(10);

/// The ranks beside the first one: each sums, on a core of its own, until the first one gives up.
class OtherRanks {
 public:
  OtherRanks(const lm::SharedRanks& shared, const Cpu& cpu, std::int64_t cores, std::size_t count) {
    for (std::int32_t rank = 1; rank < shared.ranks(); ++rank) {
      threads_.emplace_back([&shared, rank, count, core = core_of(cpu, rank * cores)] {
        keep_to_cores({core});
        const auto end = shared.reducer(rank, kDeadline);
        std::vector<float> values(count, 0);
        try {
          for (;;) end->sum(values);
        } catch (const Error&) {  // the first one gave up
        }
      });
    }
  }
  ~OtherRanks() {
    for (std::thread& thread : threads_) thread.join();
  }
  OtherRanks(const OtherRanks&) = delete;
  OtherRanks& operator=(const OtherRanks&) = delete;

 private:
  static std::int32_t core_of(const Cpu& cpu, std::int64_t at) {
    return cpu.cores.at(static_cast<std::size_t>(at));
  }
  std::vector<std::thread> threads_;
};

}  // namespace

std::vector<Transfer> measure_sums(const Cpu& cpu, std::int64_t cores, std::int32_t ranks,
                                   const std::vector<std::int64_t>& bytes,
                                   const TimingOptions& options, const Clock& clock) {
  if (ranks < 2 || ranks * cores > cpu.num_cores()) {
    refuse(ErrorCode::out_of_range, "ranks", "{} ranks of {} cores on a CPU of {}", ranks, cores,
           cpu.num_cores());
  }
  std::vector<Transfer> sums;
  for (const std::int64_t size : bytes) {
    const auto shared = lm::SharedRanks::create(ranks);
    std::vector<float> values(static_cast<std::size_t>(size) / sizeof(float), 0);
    const OtherRanks others(*shared, cpu, cores, values.size());
    const auto own = shared->reducer(0, kDeadline);
    const Pinned pinned(cpu, 1);
    try {
      sums.push_back(
          {static_cast<double>(size), time_of([&] { own->sum(values); }, options, clock)});
    } catch (...) {
      own->abort();
      throw;
    }
    own->abort();
  }
  return sums;
}

}  // namespace tessera::profile
