// Landlock by its raw system calls: kernels have known it since 5.13, C libraries not yet. The
// numbers are the kernel's ABI (linux/landlock.h), written out because older headers lack them.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "walls.h"

namespace tessera::sandbox {
namespace {

constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;  // on every architecture
constexpr unsigned kAskVersion = 1;
constexpr int kPathBeneath = 1;

constexpr std::uint64_t kWriteFile = 1u << 1, kReadFile = 1u << 2, kReadDir = 1u << 3;
constexpr std::uint64_t kRemoveFile = 1u << 5, kMakeDir = 1u << 7, kMakeFile = 1u << 8;
constexpr std::uint64_t kRefer = 1u << 13, kTruncate = 1u << 14, kRemoveDir = 1u << 4;
// Of a file that is no folder, as opposed to what a folder holds.
constexpr std::uint64_t kOnFiles = kWriteFile | kReadFile | kTruncate;

struct Ruleset {
  std::uint64_t files, network, scopes;
};
struct __attribute__((packed)) PathRule {
  std::uint64_t rights;
  std::int32_t folder;
};

// Everything that this version of Landlock can forbid.
Ruleset everything(long version) {
  Ruleset all{(1u << 13) - 1, 0, 0};  // version 1: execute to make_sym
  if (version >= 2) all.files |= kRefer;
  if (version >= 3) all.files |= kTruncate;
  if (version >= 4) all.network = 3;        // bind and connect TCP
  if (version >= 5) all.files |= 1u << 15;  // ioctl of devices
  if (version >= 6) all.scopes = 3;         // abstract Unix sockets, signals
  return all;
}

std::size_t size_of_ruleset(long version) {
  return version >= 6 ? sizeof(Ruleset) : version >= 4 ? 16 : 8;
}

// What the C and C++ libraries read while a program runs: the number of CPUs, locales, time zones.
constexpr const char* kSystemFiles[] = {"/usr/lib",
                                        "/usr/lib64",
                                        "/lib",
                                        "/lib64",
                                        "/usr/share/lua",
                                        "/usr/share/luajit-2.1",
                                        "/usr/local/share/lua",
                                        "/usr/share/zoneinfo",
                                        "/usr/share/locale",
                                        "/etc/localtime",
                                        "/etc/ld.so.cache",
                                        "/sys/devices/system/cpu",
                                        "/proc/cpuinfo",
                                        "/proc/meminfo",
                                        "/proc/stat",
                                        "/dev/urandom",
                                        "/dev/zero"};

// A path that is not there needs no rule.
void allow(int ruleset, const std::string& path, std::uint64_t rights) {
  const int folder = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (folder < 0) return;
  struct stat info {};
  if (::fstat(folder, &info) == 0) {
    PathRule rule{S_ISDIR(info.st_mode) ? rights : rights & kOnFiles, folder};
    ::syscall(kAddRule, ruleset, kPathBeneath, &rule, 0);
  }
  ::close(folder);
}

}  // namespace

Missing build_landlock(const Confinement& confinement) {
  const long version = ::syscall(kCreateRuleset, nullptr, 0, kAskVersion);
  if (version < 1) return fmt::format("Landlock ({})", std::strerror(errno));
  const Ruleset all = everything(version);
  const int ruleset =
      static_cast<int>(::syscall(kCreateRuleset, &all, size_of_ruleset(version), 0));
  if (ruleset < 0) return fmt::format("Landlock ({})", std::strerror(errno));
  const std::uint64_t read = kReadFile | kReadDir;
  const std::uint64_t write =
      read | kWriteFile | kRemoveFile | kRemoveDir | kMakeDir | kMakeFile | kRefer | kTruncate;
  allow(ruleset, confinement.write_root, write & all.files);
  for (const std::string& root : confinement.read_roots) allow(ruleset, root, read);
  for (const char* path : kSystemFiles) allow(ruleset, path, read);
  allow(ruleset, "/dev/null", (read | kWriteFile) & all.files);
  const bool done = ::syscall(kRestrictSelf, ruleset, 0) == 0;
  const int error = errno;
  ::close(ruleset);
  if (!done) return fmt::format("Landlock ({})", std::strerror(error));
  if (version < 4) return fmt::format("Landlock's network rules (version {} of 4)", version);
  return std::nullopt;
}

}  // namespace tessera::sandbox
