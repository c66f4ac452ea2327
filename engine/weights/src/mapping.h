#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tessera::weights {

/// A regular file, mapped for reading as long as this lives.
class Mapping {
 public:
  /// @throws Error{not_found, io} naming the path and the system's reason
  explicit Mapping(const std::string& path);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  /// @throws Error{io} where the file is no longer as long or as old as it was
  void check_unchanged() const;

  /// The pages that lie wholly or in part in these bytes are no longer needed.
  void release(std::uint64_t offset, std::uint64_t size) const;
  /// These will soon be needed.
  void prefetch(std::uint64_t offset, std::uint64_t size) const;

 private:
  void advise(std::uint64_t offset, std::uint64_t size, int advice) const;
  std::string path_;
  int fd_ = -1;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::int64_t modified_s_ = 0, modified_ns_ = 0;
};

}  // namespace tessera::weights
