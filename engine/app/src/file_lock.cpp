#include "file_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <map>

#include "tessera/core/access.h"
#include "tessera/core/text.h"

namespace tessera::app {
namespace {

// Open files by path: the system's lock lasts as long as its file is open.
std::map<std::string, int>& held_locks() {
  static std::map<std::string, int> locks;
  return locks;
}

// Whether the path still leads to the open file: its last holder may have removed it meanwhile.
bool is_still_there(const std::string& path, int file) {
  struct stat by_path {
  }, by_file{};
  return ::lstat(path.c_str(), &by_path) == 0 && ::fstat(file, &by_file) == 0 &&
         by_path.st_ino == by_file.st_ino && by_path.st_dev == by_file.st_dev;
}

std::string own_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {};
  return fmt::format("process {} on {} since {:%Y-%m-%d %H:%M:%S} UTC", ::getpid(), host.data(),
                     fmt::gmtime(std::time(nullptr)));
}

std::string holder_of(int file) {
  std::array<char, 512> text{};
  const ssize_t length = ::pread(file, text.data(), text.size(), 0);
  return length > 0 ? printable({text.data(), static_cast<std::size_t>(length)}) : std::string();
}

void write_own_name(int file) {
  const std::string name = own_name();
  // Without room for it the file is a lock all the same.
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, name.data(), name.size(), 0) < 0) return;
}

}  // namespace

std::optional<std::string> lock_file(const std::string& path) {
  check_may_write(path);
  for (;;) {
    constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    const int file = ::open(path.c_str(), kFlags, 0644);
    if (file < 0) return std::nullopt;
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
      const bool is_taken = errno == EWOULDBLOCK;  // else a file system without locks
      std::string holder = holder_of(file);
      ::close(file);
      if (is_taken) return holder;
      return std::nullopt;
    }
    if (is_still_there(path, file)) {
      write_own_name(file);
      held_locks()[path] = file;
      return std::nullopt;
    }
    ::close(file);
  }
}

void unlock_file(const std::string& path) {
  const auto held = held_locks().find(path);
  if (held == held_locks().end()) return;
  ::unlink(path.c_str());
  ::close(held->second);
  held_locks().erase(held);
}

}  // namespace tessera::app
