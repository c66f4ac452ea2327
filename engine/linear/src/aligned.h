#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "weight_memory.h"

namespace tessera::linear {

/// Bytes at the start of a cache line, as the kernels want packed weights.
class Aligned {
 public:
  Aligned() = default;
  explicit Aligned(std::int64_t size) : size_(size), data_(weight_memory(size)) {}
  Aligned(Aligned&&) = default;
  Aligned& operator=(Aligned&&) = default;

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::int64_t size() const { return size_; }

 private:
  std::int64_t size_ = 0;
  std::shared_ptr<std::byte> data_;
};

}  // namespace tessera::linear
