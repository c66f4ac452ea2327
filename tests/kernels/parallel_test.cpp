#include "tessera/kernels/parallel.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "support.h"

namespace tessera::kernels::parallel_test {
namespace {

TEST(ForSlices, GivesTheSameSlicesToAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3, 8}) {
    for (const std::int64_t count : {1, 7, 64, 1000}) {
      for (const std::int64_t grain : {std::int64_t{1}, std::int64_t{7}, INT64_MAX}) {
        std::mutex mutex;
        std::set<std::pair<std::int64_t, std::int64_t>> slices;
        for_slices(threads, count, grain, [&](std::int64_t first, std::int64_t last) {
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(slices.insert({first, last}).second);
        });
        std::int64_t next = 0;
        for (const auto& [first, last] : slices) {
          EXPECT_EQ(first, next);
          EXPECT_EQ(last, count - first < grain ? count : first + grain);
          next = last;
        }
        EXPECT_EQ(next, count);
      }
    }
  }
}

TEST(ForSlices, DoesNothingWithoutWork) {
  const auto never = [](std::int64_t, std::int64_t) { FAIL(); };
  for_slices(2, 0, 1, never);
  for_slices(2, 5, 0, never);
  for_slices(0, 5, 1, never);
  for_slices(-1, 5, 1, never);
}

TEST(ForSlices, MayBeNestedAndUsedByManyThreads) {
  std::atomic<std::int64_t> sum{0};
  const auto use = [&] {
    for (int i = 0; i < 100; ++i) {
      for_slices(3, 10, 1, [&](std::int64_t first, std::int64_t) {
        for_slices(2, 10, 3, [&](std::int64_t a, std::int64_t b) { sum += first * (b - a); });
      });
    }
  };
  std::thread other(use);
  use();
  other.join();
  EXPECT_EQ(sum, 2 * 100 * 45 * 10);
}

// A pool's threads sleep after a while and must wake up again.
TEST(ForSlices, WakesUpAgain) {
  for (int i = 0; i < 20; ++i) {
    std::atomic<int> calls{0};
    for_slices(2, 8, 1, [&](std::int64_t, std::int64_t) { ++calls; });
    EXPECT_EQ(calls, 8);
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 5));
  }
}

// Threads do not survive fork(); the child has to make its own.
TEST(ForSlices, WorksInAForkedChild) {
  for_slices(2, 8, 1, [](std::int64_t, std::int64_t) {});
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::atomic<int> calls{0};
    for_slices(2, 8, 1, [&](std::int64_t, std::int64_t) { ++calls; });
    _exit(calls == 8 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(HardwareThreads, AreAtLeastOne) { EXPECT_GE(hardware_threads(), 1); }

}  // namespace
}  // namespace tessera::kernels::parallel_test
