#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace tessera::linear {

/// Bytes at the start of a cache line, as the kernels want packed weights; not initialised. Large
/// ones lie in huge pages where the system has them: it makes a page at a time as they are filled,
/// which for an LM head of 56 MB takes as long as packing it.
class Aligned {
 public:
  static constexpr std::align_val_t kLine{64};

  Aligned() = default;
  explicit Aligned(std::int64_t size)
      : size_(size),
        data_(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(size), kLine))) {
    advise_huge_pages();
  }

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::int64_t size() const { return size_; }

 private:
  void advise_huge_pages() const {
    constexpr std::int64_t kHuge = 2 << 20, kLarge = 4 * kHuge;
    if (size_ < kLarge) return;
    const auto at = reinterpret_cast<std::uintptr_t>(data_.get());
    const auto skipped = static_cast<std::int64_t>((kHuge - at % kHuge) % kHuge);
    const std::int64_t whole = (size_ - skipped) / kHuge * kHuge;
    ::madvise(data_.get() + skipped, static_cast<std::size_t>(whole), MADV_HUGEPAGE);
  }

  struct Free {
    void operator()(std::byte* data) const { ::operator delete(data, kLine); }
  };
  std::int64_t size_ = 0;
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace tessera::linear
