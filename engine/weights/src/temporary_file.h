#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::weights {

/// A file under a temporary name beside its own, gone unless `commit` renamed it.
class TemporaryFile {
 public:
  /// @throws Error{io}, as all of its functions, naming `path`
  explicit TemporaryFile(const std::string& path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::uint64_t offset, const void* data, std::size_t size);
  void flush();   ///< to the disk; nothing is written afterwards
  void commit();  ///< gives it its name

 private:
  std::string path_, temporary_;
  int fd_ = -1;
  bool committed_ = false;
};

}  // namespace tessera::weights
