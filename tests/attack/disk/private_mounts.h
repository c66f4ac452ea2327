#pragma once

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

namespace tessera::test {

/// Makes mounts of this process, and of those that it starts, its own; once. Needs root, or a
/// system that gives users namespaces. @returns "" or why not
inline const std::string& private_mounts() {
  static const std::string obstacle = []() -> std::string {
    const auto user = ::geteuid();
    const auto group = ::getegid();
    if (::unshare(CLONE_NEWNS) != 0) {
      if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return std::string("no private mounts here: ") + std::strerror(errno);
      std::ofstream("/proc/self/setgroups") << "deny";
      std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
      std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
    }
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return std::string("mounts cannot be made private: ") + std::strerror(errno);
    return "";
  }();
  return obstacle;
}

/// A disk of memory at a folder, for as long as it lives.
class SmallDisk {
 public:
  SmallDisk(std::string folder, int kib) : folder_(std::move(folder)) {
    const std::string size = "size=" + std::to_string(kib) + "k";
    if (::mount("none", folder_.c_str(), "tmpfs", 0, size.c_str()) != 0)
      obstacle_ = std::string("no disk of memory here: ") + std::strerror(errno);
  }
  ~SmallDisk() {
    if (obstacle_.empty()) ::umount2(folder_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  const std::string& obstacle() const { return obstacle_; }
  bool make_read_only() {
    return ::mount("none", folder_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }

 private:
  std::string folder_, obstacle_;
};

}  // namespace tessera::test
