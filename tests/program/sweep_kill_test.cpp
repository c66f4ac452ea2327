// A sweep that is killed again and again loses nothing that it has stored.

#include <fcntl.h>
#include <sys/wait.h>

#include <random>

#include "sweep.h"

namespace tessera::sweep_kill_test {
namespace {

using SweepKill = test::SweepTest;

pid_t start(const std::string& folder) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const int nothing = open("/dev/null", O_RDWR);
  for (const int fd : {0, 1, 2}) dup2(nothing, fd);
  if (chdir(folder.c_str()) != 0) _exit(126);
  execl(TESSERA_PROGRAM, "tessera", "run", "kills.lua", "--jobs", "2", nullptr);
  _exit(127);
}

TEST_F(SweepKill, HundredKillsLoseAndRepeatNothing) {
  constexpr int kNumPoints = 1500;
  experiment("kills", kNumPoints, R"(
    local core = require "tessera.core"
    local stop = core.clock() + 0.006
    while core.clock() < stop do end
    return { x = 3 * point.i, nonce = ("%s %.9f"):format(tostring({}), core.clock()) })");
  const unsigned seed = std::random_device{}();
  RecordProperty("seed", static_cast<int>(seed));
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> moment_us(20'000, 300'000);
  std::map<int, nlohmann::json> stored;
  const auto look = [&] {
    const auto now = rows("kills");
    for (const auto& [i, row] : stored) {
      ASSERT_EQ(now.count(i), 1u) << "lost: " << row;
      ASSERT_EQ(now.at(i), row) << "run twice";
    }
    stored = now;
  };
  for (int kill_index = 0; kill_index < 100; ++kill_index) {
    const pid_t pid = start(folder_.string());
    usleep(static_cast<useconds_t>(moment_us(random)));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    if (kill_index % 10 != 9) continue;
    for (int i = 0; i < 100 && test::num_workers_of(pid) > 0; ++i) usleep(10'000);
    EXPECT_EQ(test::num_workers_of(pid), 0) << "a worker outlived the sweep";
    look();
  }
  const test::Process p = tessera({"run", "kills.lua", "--jobs", "2"});
  EXPECT_EQ(p.status, 0) << p.err;
  look();
  EXPECT_EQ(stored.size(), static_cast<std::size_t>(kNumPoints));
  for (const auto& [i, row] : stored) EXPECT_EQ(row["x"], 3 * i);
}

}  // namespace
}  // namespace tessera::sweep_kill_test
