// Reading what is no regular file: pipes are waited for aloud, and nothing hangs or never ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "expect_error.h"
#include "folder.h"
#include "tessera/core/files.h"

namespace tessera::read_file_test {
namespace {

using test::expect_error;
using testing::HasSubstr;

class ReadFile : public test::FolderTest {
 protected:
  ReadFile() { EXPECT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0); }
};

TEST_F(ReadFile, APipeIsReadToItsEnd) {
  for (const std::string& text : {std::string("text"), std::string(300'000, 'x'), std::string()}) {
    std::thread writer([&] { std::ofstream(path("pipe")) << text; });
    EXPECT_EQ(read_file(path("pipe")), text) << text.size();
    writer.join();
  }
}

TEST_F(ReadFile, AWriterMayPause) {
  std::thread writer([&] {
    std::ofstream stream(path("pipe"));
    stream << "a" << std::flush;
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    stream << "b";
  });
  EXPECT_EQ(read_file(path("pipe")), "ab");
  writer.join();
}

TEST_F(ReadFile, APipeWithoutANameIsReadByItsNumber) {
  for (const std::string& text : {std::string("text"), std::string()}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(ends[1]);  // as <(...) of a shell whose command has ended
    EXPECT_EQ(read_file("/dev/fd/" + std::to_string(ends[0])), text);
    ::close(ends[0]);
  }
}

TEST_F(ReadFile, SaysWhatItWaitsForUntilItIsStopped) {
  int heard[2];
  ASSERT_EQ(::pipe(heard), 0);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(heard[1], STDERR_FILENO);
  std::atomic<bool> stop = false;
  std::string said(300, '\0');
  std::thread user([&] {  // presses Ctrl-C when the word has come
    const ssize_t n = ::read(heard[0], said.data(), said.size());
    said.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    stop = true;
  });
  stop_waiting_when(&stop);
  expect_error(ErrorCode::interrupted, {"interrupted while waiting for", "pipe"},
               [&] { read_file(path("pipe")); });
  stop_waiting_when(nullptr);
  user.join();
  ::dup2(before, STDERR_FILENO);
  EXPECT_EQ(said, "tessera: waiting for '" + path("pipe") +
                      "': it is a pipe that holds nothing to read (Ctrl-C ends the wait)\n");
}

TEST_F(ReadFile, WhatHoldsNoTextIsRefused) {
  expect_error(ErrorCode::io, {"Is a directory"}, [&] { read_file(folder_.string()); });
  expect_error(ErrorCode::io, {"or more, the limit is 1.0 MiB"},
               [] { read_file("/dev/zero", 1 << 20); });
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path("socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  expect_error(ErrorCode::io, {"it is a socket"}, [&] { read_file(path("socket")); });
  ::close(fd);
}

TEST_F(ReadFile, KindsAreToldApartWithoutOpening) {
  EXPECT_EQ(file_kind(file("a", "")), FileKind::file);
  EXPECT_EQ(file_kind(folder_.string()), FileKind::folder);
  EXPECT_EQ(file_kind(path("pipe")), FileKind::pipe);
  EXPECT_EQ(file_kind("/dev/null"), FileKind::device);
  EXPECT_EQ(file_kind(path("none")), FileKind::none);
}

}  // namespace
}  // namespace tessera::read_file_test
