#include "tessera/profile/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <stdexcept>

namespace tessera::profile::cores_cases {
namespace {

TEST(Cores, OfThisProcess) {
  const Cpu cpu = this_cpu();
  EXPECT_FALSE(cpu.name.empty());
  EXPECT_GE(cpu.num_cores(), 1);
  EXPECT_GT(cpu.memory_bytes, 0);
}

TEST(Cores, PinnedForAWhile) {
  const Cpu cpu = this_cpu();
  {
    const Pinned pinned(cpu, 1);
    EXPECT_EQ(this_cpu().cores, std::vector<int>{cpu.cores.front()});
    EXPECT_EQ(sched_getcpu(), cpu.cores.front());
  }
  EXPECT_EQ(this_cpu().cores, cpu.cores);
}

// A machine of three cores; threads that cannot be pinned to one run where they are.
Cpu three_cores() {
  Cpu cpu;
  cpu.cores = {0, 1, 2};
  return cpu;
}

TEST(OtherCores, AllHaveRunAndRunOnUntilTheyAreStopped) {
  std::atomic<int> first = 0, second = 0;
  OtherCores others(three_cores(), 1, 5, [&](std::int64_t i) { ++(i == 0 ? first : second); });
  EXPECT_GE(first, 1);
  EXPECT_GE(second, 1);
  const int before = first;
  while (first == before) sched_yield();
  others.stop();
  const int after = first;
  EXPECT_EQ(first, after);
}

TEST(OtherCores, AreAtMostAsManyAsAskedFor) {
  std::atomic<std::int64_t> most = -1;
  OtherCores(three_cores(), 0, 1, [&](std::int64_t i) { most = std::max(most.load(), i); });
  EXPECT_EQ(most, 0);
  OtherCores(three_cores(), 3, 2, [&](std::int64_t) { most = 7; });
  EXPECT_EQ(most, 0);
}

TEST(OtherCores, WhatOneThrowsIsThrownAtTheEnd) {
  OtherCores others(three_cores(), 2, 1, [](std::int64_t) { throw std::runtime_error("full"); });
  EXPECT_THROW(others.stop(), std::runtime_error);
}

}  // namespace
}  // namespace tessera::profile::cores_cases
