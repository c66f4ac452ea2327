// Ctrl-C during a sweep.

#include <csignal>

#include "sweep.h"

namespace tessera::sweep_interrupt_test {
namespace {

using testing::HasSubstr;
using SweepInterrupt = test::SweepTest;

constexpr const char* kSlow = R"(
  local core = require "tessera.core"
  local stop = core.clock() + 0.3
  io.stderr:write("at work\n")
  while core.clock() < stop do end
  return { x_s = point.i })";

TEST_F(SweepInterrupt, OnceEndsWhatIsUnderWayAndStoresIt) {
  experiment("slow", 40, kSlow);
  test::ProcessSetup setup;
  setup.wait_for = "at work";
  setup.then = [](pid_t pid) { kill(pid, SIGINT); };
  const test::Process p = tessera({"run", "slow.lua", "--jobs", "2"}, setup);
  EXPECT_EQ(p.status, 130) << p.err;
  EXPECT_THAT(p.err, HasSubstr("the same command goes on"));
  const std::size_t stored = rows("slow").size();
  EXPECT_GE(stored, 2u);
  EXPECT_LE(stored, 8u);
  EXPECT_THAT(p.err, HasSubstr(std::to_string(stored) + " of 40 points are stored"));
  const test::Process next = tessera({"run", "slow.lua", "--dry-run"});
  EXPECT_THAT(next.out, HasSubstr(std::to_string(stored) + " stored"));
}

TEST_F(SweepInterrupt, TwiceEndsAtOnce) {
  experiment("stuck", 4, "if point.i > 1 then while true do end end print 'at work' return {}");
  test::ProcessSetup setup;
  pid_t sweep = 0;
  setup.wait_for = "at work";
  setup.then = [&](pid_t pid) {
    sweep = pid;
    kill(pid, SIGINT);
    usleep(300'000);
    kill(pid, SIGINT);
  };
  const test::Process p = tessera({"run", "stuck.lua", "--jobs", "2"}, setup);
  EXPECT_EQ(p.status, 130) << p.err;
  for (int i = 0; i < 100 && test::num_workers_of(sweep) > 0; ++i) usleep(10'000);
  EXPECT_EQ(test::num_workers_of(sweep), 0);
  EXPECT_EQ(rows("stuck").size(), 1u);
}

TEST_F(SweepInterrupt, InThisProcessItStopsAfterThePoint) {
  experiment("here", 10, kSlow);
  test::ProcessSetup setup;
  setup.wait_for = "at work";
  setup.then = [](pid_t pid) { kill(pid, SIGINT); };
  const test::Process p = tessera({"run", "here.lua", "--jobs", "0"}, setup);
  EXPECT_EQ(p.status, 130) << p.err;
  EXPECT_LT(rows("here").size(), 9u);
}

}  // namespace
}  // namespace tessera::sweep_interrupt_test
