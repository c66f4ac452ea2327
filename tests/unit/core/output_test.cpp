// The one writer of files and folders: all or nothing, on the disk, with nothing left behind.

#include "tessera/core/output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <thread>

#include "expect_error.h"
#include "folder.h"
#include "tessera/core/files.h"

namespace {

// What fsync was asked for, as "path" or "path = content of `watched` at that moment".
std::vector<std::string> synced;
std::string watched;

std::string text_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

// Stands in for the C library's, and does the same.
extern "C" int fsync(int fd) {
  std::error_code ignored;
  const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), ignored);
  if (!watched.empty()) synced.push_back(path.filename().string() + ": " + text_of(watched));
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace tessera::output_test {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class Output : public test::FolderTest {
 protected:
  ~Output() override { watched.clear(); }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_))
      found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }
  mode_t mode_of(const std::string& name) const {
    struct stat info {};
    EXPECT_EQ(::stat(path(name).c_str(), &info), 0);
    return info.st_mode & 07777;
  }
};

TEST_F(Output, AFileIsOnTheDiskBeforeItsNameAndTheNameBeforeTheEnd) {
  file("a.txt", "old");
  watched = path("a.txt");
  synced.clear();
  write_file(path("a.txt"), "new");
  EXPECT_THAT(synced,
              ElementsAre(StartsWith("a.txt.partial."), folder_.filename().string() + ": new"));
  EXPECT_THAT(synced.front(), testing::EndsWith(": old"));
}

TEST_F(Output, WithoutCommitNothingStays) {
  file("a.txt", "old");
  {
    OutputFile output(path("a.txt"));
    output.append("new");
    EXPECT_EQ(names().size(), 2u);
    EXPECT_THAT(names()[1], StartsWith("a.txt.partial."));
    output.flush();
  }
  EXPECT_THAT(names(), ElementsAre("a.txt"));
  EXPECT_EQ(read(path("a.txt")), "old");
}

TEST_F(Output, AStreamIsWrittenInAnyOrder) {
  OutputFile output(path("a.bin"));
  output.write(4, "cd", 2);
  output.write(0, "ab", 2);
  output.append("e");
  output.commit();
  EXPECT_EQ(read(path("a.bin")), std::string("ab\0\0cde", 7));
  EXPECT_THAT(names(), ElementsAre("a.bin"));
}

TEST_F(Output, WhatDidNotArriveIsMissed) {
  file("a.txt", "old");
  expect_error(ErrorCode::io, {"cannot write", "a.txt'", "2 bytes of 3 have arrived"}, [&] {
    OutputFile output(path("a.txt"));
    output.append("new");
    ASSERT_EQ(::truncate(path(names()[1]).c_str(), 2), 0);
    output.commit();
  });
  EXPECT_THAT(names(), ElementsAre("a.txt"));
  EXPECT_EQ(read(path("a.txt")), "old");
}

TEST_F(Output, ALibraryWritesToTheScratchName) {
  OutputFile output(path("a.txt"));
  std::ofstream(output.scratch_path()) << "by name";
  output.commit();
  EXPECT_EQ(read(path("a.txt")), "by name");
  EXPECT_THAT(names(), ElementsAre("a.txt"));
}

TEST_F(Output, ModesAndLinksStay) {
  const mode_t before = ::umask(027);
  write_file(path("new.txt"), "1");
  {
    OutputFile hidden(path("private.txt"), 0600);
    hidden.commit();
  }
  ::umask(before);
  EXPECT_EQ(mode_of("new.txt"), 0640u);
  EXPECT_EQ(mode_of("private.txt"), 0600u);
  ASSERT_EQ(::chmod(path("new.txt").c_str(), 0604), 0);
  fs::create_symlink("new.txt", path("link"));
  write_file(path("link"), "2");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read(path("new.txt")), "2");
  EXPECT_EQ(mode_of("new.txt"), 0604u);
}

TEST_F(Output, AFolderIsNoMoreOpenThanTheUmaskSaysWhateverItLiesIn) {
  ASSERT_EQ(::chmod(folder_.c_str(), 01777), 0);  // as /tmp
  const mode_t before = ::umask(077);
  OutputFolder output(path("result"));
  output.commit(false);
  ::umask(before);
  EXPECT_EQ(mode_of("result"), 0700u);
}

TEST_F(Output, NamesOfEveryLengthHaveRoomForAScratchName) {
  for (const std::size_t length : {239u, 240u, 241u, 248u, 249u, 255u}) {
    const std::string name(length, 'n');
    write_file(path(name), "long");
    EXPECT_EQ(read(path(name)), "long") << length;
  }
  EXPECT_EQ(num_files(), 6u);
}

TEST_F(Output, WhatNothingCanBeRenamedToIsWrittenInto) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const std::string large(300'000, 'x');  // more than a pipe holds
  for (const bool by_name : {false, true}) {
    std::string got;
    std::thread reader([&] { got = read_file(path("pipe")); });
    if (by_name) {
      OutputFile output(path("pipe"));
      std::ofstream(output.scratch_path()) << large;
      output.commit();
    } else {
      write_file(path("pipe"), large);
    }
    reader.join();
    EXPECT_EQ(got, large) << by_name;
  }
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  fs::create_symlink("/dev/null", path("null"));
  OutputFile nothing(path("null"));
  nothing.append("x");
  nothing.commit();
  EXPECT_TRUE(fs::is_character_file(path("null")));
  expect_error(ErrorCode::io, {"No space left on device"}, [] { write_file("/dev/full", "x"); });
  expect_error(ErrorCode::io, {"Is a directory"}, [&] { OutputFile output(folder_.string()); });
  expect_error(ErrorCode::not_found, {"No such file"}, [&] { OutputFile output(path("no/a")); });
}

TEST_F(Output, ALimitOnSizesIsAnError) {
  file("a.txt", "old");
  const auto write_under_the_limit = [&] {
    std::signal(SIGXFSZ, SIG_IGN);  // as the program does
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    expect_error(ErrorCode::io, {"a.txt", "File too large"},
                 [&] { write_file(path("a.txt"), std::string(1001, 'x')); });
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(write_under_the_limit(), testing::ExitedWithCode(0), "");
  EXPECT_THAT(names(), ElementsAre("a.txt"));
  EXPECT_EQ(read(path("a.txt")), "old");
}

TEST_F(Output, AFolderAppearsCompleteAndOnTheDisk) {
  watched = path("out/a.txt");
  synced.clear();
  OutputFolder folder(path("out"));
  EXPECT_FALSE(fs::exists(path("out")));
  write_file(folder.scratch_path() + "/a.txt", "1");
  folder.commit(false);
  EXPECT_EQ(read(path("out/a.txt")), "1");
  EXPECT_EQ(synced.back(), folder_.filename().string() + ": 1");
  ASSERT_GE(synced.size(), 4u);  // file, its folder twice, the folder above
  EXPECT_THAT(synced[synced.size() - 2], StartsWith("out.partial."));
}

TEST_F(Output, AFolderThatIsThereGoesOnlyWhenItMay) {
  file("out/old.txt", "old");
  expect_error(ErrorCode::io, {"out"}, [&] {
    OutputFolder folder(path("out"));
    write_file(folder.scratch_path() + "/new.txt", "new");
    folder.commit(false);
  });
  EXPECT_EQ(read(path("out/old.txt")), "old");
  EXPECT_THAT(names(), ElementsAre("out"));
  OutputFolder folder(path("out/"));
  write_file(folder.scratch_path() + "/new.txt", "new");
  folder.commit(true);
  EXPECT_THAT(names(), ElementsAre("out"));
  EXPECT_EQ(read(path("out/new.txt")), "new");
  EXPECT_FALSE(fs::exists(path("out/old.txt")));
}

// Ends as by kill -9 with a folder that holds 1000 bytes.
void die_at_work(const std::string& out) {
  const pid_t child = ::fork();
  if (child == 0) {
    OutputFolder folder(out);
    write_file(folder.scratch_path() + "/part", std::string(1000, 'x'));
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
}

TEST_F(Output, WhatAKilledProcessLeftGoesWithTheNext) {
  die_at_work(path("out"));
  die_at_work(path("other"));
  ASSERT_EQ(names().size(), 2u);
  for (const char* mine : {"out.partial.notes", "out.partial.longer1", "xout.partial.abcdef"})
    file(std::string(mine) + "/mine", "mine");
  file("out.partial.abcdef", "a file");
  testing::internal::CaptureStderr();
  { OutputFolder folder(path("out")); }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, StartsWith("tessera: removed '" + path("out.partial.")));
  EXPECT_THAT(said, HasSubstr("(1000 B), which a process that was killed had left\n"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
  EXPECT_THAT(names(),
              ElementsAre(StartsWith("other.partial."), "out.partial.abcdef", "out.partial.longer1",
                          "out.partial.notes", "xout.partial.abcdef"));
}

TEST_F(Output, WhereAProcessStillWorksNothingIsRemoved) {
  OutputFolder working(path("out"));
  die_at_work(path("out"));
  testing::internal::CaptureStderr();
  { OutputFolder second(path("out")); }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_TRUE(fs::exists(working.scratch_path()));
  write_file(working.scratch_path() + "/a", "1");
  working.commit(false);
  EXPECT_THAT(names(), ElementsAre("out"));
}

TEST_F(Output, CopiesWholeFiles) {
  const std::string large(3'000'000, 'y');
  copy_file(file("from", large), path("to"));
  EXPECT_EQ(read(path("to")), large);
  expect_error(ErrorCode::io, {"no regular file"}, [&] { copy_file("/dev/zero", path("to")); });
  EXPECT_EQ(read(path("to")).size(), large.size());
}

}  // namespace
}  // namespace tessera::output_test
