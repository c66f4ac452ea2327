#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace tessera::linear {

/// Bytes at the start of a cache line, as the kernels want packed weights; not initialised.
class Aligned {
 public:
  static constexpr std::align_val_t kLine{64};

  Aligned() = default;
  explicit Aligned(std::int64_t size)
      : size_(size),
        data_(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(size), kLine))) {}

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* data) const { ::operator delete(data, kLine); }
  };
  std::int64_t size_ = 0;
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace tessera::linear
