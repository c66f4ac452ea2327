#include "weight_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "tessera/core/pages.h"

namespace tessera::linear {
namespace {

constexpr std::int64_t kLineBytes = 64;
// Slabs grow as they follow each other, so that a small model takes little more than it needs.
constexpr std::int64_t kFirstSlab = 2 << 20, kLargestSlab = 32 << 20;

class Slab {
 public:
  explicit Slab(std::int64_t bytes) : bytes_(bytes) {
    void* const data = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(data);
    advise_huge_pages(data_, bytes);
  }
  ~Slab() { ::munmap(data_, static_cast<std::size_t>(bytes_)); }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  std::int64_t bytes() const { return bytes_; }
  /// Null: it has no room for so much.
  std::byte* take(std::int64_t bytes) {
    if (bytes > bytes_ - used_) return nullptr;
    std::byte* const piece = data_ + used_;
    used_ += (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
    used_ = std::min(used_, bytes_);
    return piece;
  }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_, used_ = 0;
};

std::shared_ptr<std::byte> piece_of(const std::shared_ptr<Slab>& slab, std::int64_t bytes) {
  std::byte* const piece = slab->take(bytes);
  return piece == nullptr ? nullptr : std::shared_ptr<std::byte>(slab, piece);
}

}  // namespace

std::shared_ptr<std::byte> weight_memory(std::int64_t bytes) {
  static std::mutex mutex;
  static std::weak_ptr<Slab> filling;  // gone with its last piece
  bytes = std::max<std::int64_t>(bytes, 1);
  if (bytes > kLargestSlab / 4) return piece_of(std::make_shared<Slab>(bytes), bytes);
  const std::lock_guard lock(mutex);
  std::shared_ptr<Slab> slab = filling.lock();
  if (slab) {
    if (auto piece = piece_of(slab, bytes)) return piece;
  }
  const std::int64_t grown = slab ? std::min(2 * slab->bytes(), kLargestSlab) : kFirstSlab;
  slab = std::make_shared<Slab>(std::max(grown, bytes));
  filling = slab;
  return piece_of(slab, bytes);
}

}  // namespace tessera::linear
