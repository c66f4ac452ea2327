#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "descriptor.h"
#include "scratch.h"
#include "tessera/core/access.h"
#include "tessera/core/output.h"
#include "tessera/core/terminal_text.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera {
namespace fs = std::filesystem;

namespace detail {
namespace {

constexpr std::string_view kPartial = ".partial.", kRandom = "XXXXXX";
constexpr std::size_t kLongestName = 255;  // NAME_MAX of every file system in use

// Of the names of scratch files and folders for `target`.
std::string scratch_prefix(const fs::path& target) {
  const std::string name = target.filename().string();
  return name.substr(0, kLongestName - kPartial.size() - kRandom.size()) + std::string(kPartial);
}

}  // namespace

bool is_scratch_of(const std::string& name, const std::string& target) {
  const std::string prefix = scratch_prefix(target);
  return name.size() == prefix.size() + kRandom.size() && name.starts_with(prefix);
}

std::string scratch_name(const std::string& target) {
  const fs::path path(target);
  return (path.parent_path() / scratch_prefix(path)).string() + std::string(kRandom);
}

void sync_folder(const std::string& folder, const std::string& path) {
  const Descriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.get() < 0 || ::fsync(file.get()) == 0) return;
  // Some file systems cannot, and some folders may be written but not read.
  if (errno == EINVAL || errno == ENOTSUP || errno == EBADF || errno == EROFS) return;
  fail_file("write", path, errno);
}

void sync_folder_of(const std::string& target, const std::string& path) {
  const std::string folder = fs::path(target).parent_path().string();
  sync_folder(folder.empty() ? "." : folder, path);
}

}  // namespace detail

namespace {

using detail::Descriptor;
using detail::fail_file;

/// The lock that says that a process works in a folder.
struct FolderLock {
  int fd = -1;  ///< -1: another process holds it, the folder is gone, or there are no locks
  bool has_locks = true;  ///< whether the file system has any
};

FolderLock lock_folder(const std::string& path) {
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() < 0) return {};
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) return {-1, errno == EWOULDBLOCK};
  struct stat held {
  }, named{};
  const bool is_that = ::fstat(folder.get(), &held) == 0 && ::lstat(path.c_str(), &named) == 0 &&
                       held.st_ino == named.st_ino && held.st_dev == named.st_dev;
  return {is_that ? folder.release() : -1, true};
}

bool is_own(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
}

std::uint64_t bytes_in(const std::string& folder) {
  std::uint64_t sum = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored)) sum += it->file_size(ignored);
  }
  return sum;
}

}  // namespace

OutputFolder::OutputFolder(const std::string& path) : path_(path) {
  detail::refuse_nul(path);
  check_may_write(path);
  std::error_code error;
  fs::path place = fs::absolute(path, error).lexically_normal();
  if (place.filename().empty()) place = place.parent_path();  // "out/"
  target_ = place.string();
  if (!fs::is_directory(place.parent_path(), error)) {
    fail_file("write", path,
              fmt::format("there is no folder {}", quote(place.parent_path().string(), 300)));
  }
  check_may_write(detail::scratch_name(target_));
  remove_leftovers();
  make_scratch();
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!is_committed_) fs::remove_all(scratch_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

void OutputFolder::make_scratch() {
  constexpr int kTries = 8;  // whoever tidies up may take a folder for left that is not locked yet
  for (int i = 0; i < kTries; ++i) {
    scratch_ = detail::scratch_name(target_);
    if (::mkdtemp(scratch_.data()) == nullptr) fail_file("write", path_, errno);
    const FolderLock lock = lock_folder(scratch_);
    if (lock.fd < 0 && lock.has_locks) continue;
    lock_ = lock.fd;
    // As mkdir would: a parent that is open to all (/tmp) opens nothing of ours.
    struct stat made {};
    const Descriptor folder(::open(scratch_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (::fstat(folder.get(), &made) == 0) {
      ::fchmod(folder.get(), (made.st_mode & 07000) | (0777 & ~detail::mask_of_new_files()));
    }
    return;
  }
  fail_file("write", path_, "its scratch folder goes away again and again");
}

void OutputFolder::remove_leftovers() const {
  const fs::path place(target_);
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(place.parent_path(), error), end; !error && it != end;
       it.increment(error)) {
    if (detail::is_scratch_of(it->path().filename().string(), target_)) {
      found.push_back(it->path().string());
    }
  }
  for (const std::string& folder : found) {
    const Descriptor lock(is_own(folder) ? lock_folder(folder).fd : -1);
    if (lock.get() < 0) continue;
    const std::uint64_t bytes = bytes_in(folder);
    fs::remove_all(folder, error);
    if (error) continue;
    write_text(stderr,
               fmt::format("tessera: removed {} ({}), which a process that was killed had left\n",
                           quote(folder, 300), format_bytes(static_cast<double>(bytes))));
  }
}

void OutputFolder::require_space(std::uint64_t bytes) const {
  std::error_code error;
  const fs::space_info space = fs::space(scratch_, error);
  if (error || space.available >= bytes) return;
  fail_file("write", path_,
            fmt::format("the result takes {}, the disk has {} left",
                        format_bytes(static_cast<double>(bytes)),
                        format_bytes(static_cast<double>(space.available))));
}

void OutputFolder::commit(bool replaces) {
  detail::sync_folder(scratch_, path_);
  std::string old;
  if (!replaces) {
    if (::rename(scratch_.c_str(), target_.c_str()) != 0) fail_file("write", path_, errno);
  } else if (::renameat2(AT_FDCWD, scratch_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) ==
             0) {
    old = scratch_;
  } else {
    // File systems that cannot exchange. The name is not one that a later run removes: killed
    // between the two, this is the only result that is complete.
    old = target_ + ".replaced" + scratch_.substr(scratch_.rfind('.'));
    if (::rename(target_.c_str(), old.c_str()) != 0) fail_file("write", path_, errno);
    if (::rename(scratch_.c_str(), target_.c_str()) != 0) {
      const int error = errno;
      ::rename(old.c_str(), target_.c_str());
      fail_file("write", path_, error);
    }
  }
  is_committed_ = true;
  detail::sync_folder_of(target_, path_);
  std::error_code ignored;
  if (!old.empty()) fs::remove_all(old, ignored);
}

}  // namespace tessera
