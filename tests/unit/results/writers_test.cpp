// Several writers at once, and writers that are killed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "folder.h"
#include "mutate.h"
#include "results_rows.h"
#include "tessera/core/error.h"
#include "tessera/results/store.h"

namespace tessera::results::writers_test {
namespace {

using test::all_rows;
using test::row_of;
using test::run_of;
using ::testing::SizeIs;

class ResultsWriters : public test::FolderTest {};

// Runs `body` in a process of its own.
pid_t start(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    _exit(1);
  }
  _exit(0);
}

int status_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(ResultsWriters, WhoOpensAFileThatIsJustBeingMadeTakesItForOurs) {
  for (int round = 0; round < 40; ++round) {
    const std::string name = path("new" + std::to_string(round) + ".db");
    std::vector<pid_t> openers;
    for (int i = 0; i < 6; ++i) openers.push_back(start([&] { Store store(name); }));
    for (const pid_t pid : openers) ASSERT_EQ(status_of(pid), 0) << "round " << round;
  }
}

TEST_F(ResultsWriters, ManyStartOnANewFileTogether) {
  constexpr int kWriters = 6, kRows = 60;
  std::vector<pid_t> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.push_back(start([&, w] {
      Store store(path("r.db"));
      const std::int64_t run = store.start_run(run_of("e" + std::to_string(w)));
      for (int i = 0; i < kRows; ++i) {
        // A new column now and then, so that views change under the others.
        const Json columns = {{"c" + std::to_string(i / 20), i}, {"w", w}};
        store.add(run, row_of(Json{{"i", i}}.dump(), columns.dump()));
      }
    }));
  }
  for (const pid_t pid : writers) EXPECT_EQ(status_of(pid), 0);
  Store store(path("r.db"), {.read_only = true});
  EXPECT_THAT(store.runs(), SizeIs(kWriters));
  for (const results::Run& run : store.runs()) {
    const std::vector<Row> rows = all_rows(store, run.id);
    ASSERT_THAT(rows, SizeIs(kRows));
    for (const Row& row : rows) {
      EXPECT_EQ("e" + std::to_string(row.columns["w"].get<int>()), run.spec.experiment);
    }
  }
}

// Closing a connection that fork() copied would remove the log under the one who uses it.
TEST_F(ResultsWriters, ACopyByForkKeepsItsHandsOff) {
  Store store(path("r.db"));
  store.start_run(run_of("e"));
  store.add(1, row_of(R"({"i": 1})", "{}"));
  EXPECT_EQ(status_of(start([&store] {
              try {
                store.add(1, row_of(R"({"i": 2})", "{}"));
              } catch (const Error& error) {
                if (std::string(error.what()).find("was opened by process") == std::string::npos) {
                  throw;
                }
                store.close();
                return;
              }
              throw std::runtime_error("the copy was used");
            })),
            0);
  store.add(1, row_of(R"({"i": 3})", "{}"));
  store.close();
  Store again(path("r.db"), {.read_only = true});
  EXPECT_THAT(again.keys(1), SizeIs(2));
}

TEST_F(ResultsWriters, ShareARun) {
  Store(path("r.db")).start_run(run_of("e"));
  std::vector<pid_t> writers;
  for (int w = 0; w < 2; ++w) {
    writers.push_back(start([&, w] {
      Store store(path("r.db"));
      for (int i = w; i < 400; i += 2) store.add(1, row_of(Json{{"i", i}}.dump(), "{}"));
    }));
  }
  for (const pid_t pid : writers) EXPECT_EQ(status_of(pid), 0);
  Store store(path("r.db"), {.read_only = true});
  EXPECT_THAT(store.keys(1), SizeIs(400));
}

// The writer reports each row after `add` returned; what was reported before SIGKILL is there.
TEST_F(ResultsWriters, AKilledWriterLosesNothingItHasAdded) {
  constexpr int kKills = 40;
  Rng rng(test::test_seed());
  std::set<int> reported;
  int next = 0, killed = 0;
  for (int k = 0; k < kKills; ++k) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t pid = start([&, first = next] {
      close(ends[0]);
      Store store(path("r.db"));
      if (store.runs().empty()) store.start_run(run_of("e"));
      for (int i = first; i < first + 4000; ++i) {
        Json columns = {{"text", std::string(static_cast<std::size_t>(i) * 37 % 3000, 'x')}};
        columns["c" + std::to_string(i / 50)] = i;
        store.add(1, row_of(Json{{"i", i}}.dump(), columns.dump()));
        if (write(ends[1], &i, sizeof i) != sizeof i) _exit(2);
      }
    });
    close(ends[1]);
    const auto wanted = static_cast<int>(rng.integer(0, 60));
    int i = 0;
    for (int n = 0; n < wanted && ::read(ends[0], &i, sizeof i) == sizeof i; ++n)
      reported.insert(i);
    usleep(static_cast<useconds_t>(rng.integer(0, 2000)));
    kill(pid, SIGKILL);
    while (::read(ends[0], &i, sizeof i) == sizeof i) reported.insert(i);
    close(ends[0]);
    killed += status_of(pid) == 128 + SIGKILL;
    next += 4000;

    if (reported.empty()) continue;
    Store store(path("r.db"), {.read_only = k % 2 == 0});
    std::set<int> stored;
    for (const Row& row : all_rows(store, 1)) {
      EXPECT_TRUE(stored.insert(row.point["i"].get<int>()).second) << "a row came twice";
      EXPECT_TRUE(row.columns.contains("text"));
    }
    for (const int r : reported) ASSERT_TRUE(stored.contains(r)) << "row " << r << " is lost";
    EXPECT_LE(stored.size(), reported.size() + static_cast<std::size_t>(k) + 1)
        << "at most the row in flight of each writer is there unreported";
  }
  EXPECT_EQ(killed, kKills);
  EXPECT_GT(reported.size(), 100u);
}

}  // namespace
}  // namespace tessera::results::writers_test
