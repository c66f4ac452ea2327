// What lies beside a results file, or in its place, and is not ours.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect_error.h"
#include "mutate.h"
#include "results_files.h"
#include "results_journal.h"
#include "tessera/results/store.h"

namespace tessera::results::beside_test {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::run_of;
using test::run_sql;
using ::testing::SizeIs;

class ResultsBeside : public test::ResultsFilesTest {
 protected:
  // What each file holds, as a number: messages about bytes that differ stay short.
  std::map<std::string, std::size_t> contents() const {
    std::map<std::string, std::size_t> found;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const bool regular = entry.symlink_status().type() == fs::file_type::regular;
      found[entry.path()] = regular ? std::hash<std::string>()(read(entry.path())) : 0;
    }
    return found;
  }
  // Both ways of opening refuse in these words, and every file stays as it was.
  void refused(const std::string& opened, const std::vector<std::string>& parts,
               const std::vector<bool>& read_only = {true, false}) {
    const auto before = contents();
    for (const bool how : read_only) {
      expect_error(ErrorCode::io, parts, [&] {
        Store store(opened, {.read_only = how});
        store.start_run(run_of("more"));
      });
    }
    EXPECT_EQ(before, contents());
  }
};

TEST_F(ResultsBeside, AJournalThatNamesAFileDoesNotRemoveIt) {
  const std::string victim = file("precious.txt", "precious\n");
  const std::string db = filled();
  const auto pages = static_cast<std::uint32_t>(fs::file_size(db) / 4096);
  file("r.db-journal", test::journal_that_removes(victim, pages));
  refused(db, {"r.db'", "r.db-journal'", "Remove it"});
  EXPECT_EQ(read(victim), "precious\n");
  // The journal is what it says it is: SQLite alone does remove the file.
  run_sql(db, "CREATE TABLE t (x)");
  EXPECT_FALSE(fs::exists(victim));
}

TEST_F(ResultsBeside, AJournalIsRefusedWhereTheFileIsNotThereOrEmptyToo) {
  const std::string journal = test::journal_that_removes(file("precious.txt", "p"), 1);
  file("r.db-journal", journal);
  refused(path("r.db"), {"r.db-journal'", "Remove it"}, {false});
  file("r.db", "");
  refused(path("r.db"), {"r.db-journal'", "Remove it"});
  fs::remove(path("r.db-journal"));
  filled();
}

TEST_F(ResultsBeside, AJournalThatComesLaterIsNotPlayedBackEither) {
  const std::string victim = file("precious.txt", "precious\n");
  const std::string db = filled();
  const auto pages = static_cast<std::uint32_t>(fs::file_size(db) / 4096);
  Store reader(db, {.read_only = true});
  file("r.db-journal", test::journal_that_removes(victim, pages));
  expect_error(ErrorCode::io, {"r.db-journal'"}, [&] {
    fs::last_write_time(db, fs::file_time_type::clock::now());  // it looks again
    reader.runs();
  });
  EXPECT_EQ(read(victim), "precious\n");
}

TEST_F(ResultsBeside, LogsAreRegularFilesOfOurOwn) {
  const std::string db = filled();
  const std::string victim = file("precious.txt", "precious\n");
  for (const char* log : {"r.db-wal", "r.db-shm"}) {
    SCOPED_TRACE(log);
    fs::create_symlink(victim, path(log));
    refused(db, {log, "is a link", "remove it"});
    fs::remove(path(log));
    fs::create_symlink(path("nowhere"), path(log));
    refused(db, {log, "is a link"});
    fs::remove(path(log));
    fs::create_hard_link(victim, path(log));
    refused(db, {log, "hard links"});
    fs::remove(path(log));
    ASSERT_EQ(mkfifo(path(log).c_str(), 0600), 0);
    refused(db, {log, "no regular file"});
    fs::remove(path(log));
    fs::create_directory(path(log));
    refused(db, {log, "no regular file"});
    fs::remove(path(log));
  }
  EXPECT_EQ(read(victim), "precious\n");
  if (geteuid() == 0) {
    file("r.db-wal", "x");
    ASSERT_EQ(chown(path("r.db-wal").c_str(), 65534, 65534), 0);
    refused(db, {"r.db-wal", "another user"});
  }
}

TEST_F(ResultsBeside, WhatIsWrittenGoesIntoTheFileThatIsNamed) {
  const std::string db = filled();
  fs::create_symlink(db, path("link.db"));
  refused(path("link.db"), {"link.db': is a link to", "r.db'"}, {false});
  EXPECT_THAT(Store(path("link.db"), {.read_only = true}).runs(), SizeIs(1));
  fs::create_symlink(path("elsewhere.db"), path("dangling.db"));
  refused(path("dangling.db"), {"dangling.db': is a link to", "elsewhere.db'"}, {false});
  fs::create_hard_link(db, path("hard.db"));
  refused(path("hard.db"), {"2 names"}, {false});
  fs::remove(path("hard.db"));
  // Beside a link that is read, what counts is what lies beside the file it leads to.
  file("r.db-journal", "x");
  refused(path("link.db"), {"r.db-journal'"}, {true});
}

TEST_F(ResultsBeside, AFolderMayBeALink) {
  fs::create_directory(path("real"));
  fs::create_directory_symlink(path("real"), path("via"));
  filled("via/r.db");
  EXPECT_TRUE(fs::exists(path("real/r.db")));
}

// However a process that makes a file is ended, the next one goes on with it.
TEST_F(ResultsBeside, AKilledMakerLocksNobodyOut) {
  Rng rng(test::test_seed());
  for (int round = 0; round < 150; ++round) {
    const std::string db = path("new" + std::to_string(round) + ".db");
    const bool was_rollback = round % 3 == 0;
    if (was_rollback) {  // as after work with another program
      filled("new" + std::to_string(round) + ".db");
      run_sql(db, "PRAGMA journal_mode = DELETE");
    }
    const auto wait_us = static_cast<useconds_t>(rng.integer(0, 6000));
    const pid_t pid = fork();
    if (pid == 0) {
      try {
        Store store(db);
        store.start_run(run_of("e"));
      } catch (const std::exception&) {
        _exit(1);
      }
      pause();
    }
    usleep(wait_us);
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    ASSERT_FALSE(fs::exists(db + "-journal")) << "after " << wait_us << " us";
    EXPECT_NO_THROW(Store(db).start_run(run_of("e"))) << "after " << wait_us << " us";
  }
}

}  // namespace
}  // namespace tessera::results::beside_test
