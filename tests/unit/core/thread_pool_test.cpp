#include "tessera/core/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tessera::thread_pool_test {
namespace {

using std::chrono::milliseconds;

// Numbers of the threads that had a task of a run of 17, each of which takes a millisecond.
std::set<std::size_t> threads_of_run(ThreadPool& pool) {
  std::vector<std::atomic<int>> runs(17);
  std::vector<std::size_t> thread_of(runs.size());
  pool.run(runs.size(), [&](std::size_t thread, std::size_t task) {
    std::this_thread::sleep_for(milliseconds(1));
    EXPECT_LT(thread, pool.size());
    thread_of[task] = thread;
    ++runs[task];
  });
  for (const auto& count : runs) EXPECT_EQ(count, 1);
  return {thread_of.begin(), thread_of.end()};
}

TEST(ThreadPool, SharesOutEveryTaskOnce) {
  for (const std::size_t num_threads : {1, 2, 4, 40}) {
    ThreadPool pool(num_threads);
    std::set<std::size_t> seen;
    for (int round = 0; round < 20; ++round) seen.merge(threads_of_run(pool));
    EXPECT_EQ(seen.size() > 1, num_threads > 1);
    EXPECT_LE(*seen.rbegin(), 16u) << "more threads than tasks";
  }
}

TEST(ThreadPool, WorksAloneAtFirst) {
  ThreadPool pool(4, milliseconds(200));
  const auto start = std::chrono::steady_clock::now();
  const std::set<std::size_t> early = threads_of_run(pool);
  if (std::chrono::steady_clock::now() - start < milliseconds(200)) {
    EXPECT_EQ(early, std::set<std::size_t>{0});
  }
  std::this_thread::sleep_for(milliseconds(200));
  std::set<std::size_t> late;
  for (int round = 0; round < 20; ++round) late.merge(threads_of_run(pool));
  EXPECT_GT(late.size(), 1u);
}

TEST(ThreadPool, RunsNoTaskWhereThereIsNone) {
  ThreadPool pool(3);
  pool.run(0, [](std::size_t, std::size_t) { FAIL(); });
}

// All tasks run; the first in number of those that threw is heard, and the pool goes on.
TEST(ThreadPool, RethrowsWhatTheFirstTaskThrew) {
  for (const std::size_t num_threads : {1, 3}) {
    ThreadPool pool(num_threads);
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> runs{0};
      try {
        pool.run(12, [&](std::size_t, std::size_t task) {
          ++runs;
          if (task == 3 || task == 9) throw std::runtime_error(std::to_string(task));
        });
        FAIL() << "nothing was thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "3");
      }
      EXPECT_EQ(runs, 12);
      EXPECT_NO_THROW(pool.run(5, [](std::size_t, std::size_t) {}));
    }
  }
}

TEST(ThreadPool, HasAsManyThreadsAsTheMachineUnlessTold) {
  EXPECT_GE(hardware_threads(), 1u);
  EXPECT_EQ(ThreadPool(0).size(), hardware_threads());
  EXPECT_EQ(ThreadPool(5).size(), 5u);
}

}  // namespace
}  // namespace tessera::thread_pool_test
