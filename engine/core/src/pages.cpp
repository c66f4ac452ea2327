#include "tessera/core/pages.h"

#include <sys/mman.h>

#include <atomic>

namespace tessera {

void advise_huge_pages(void* data, std::int64_t bytes) {
  constexpr std::int64_t kHugePage = 2 << 20, kWorthHuge = 4 * kHugePage;
  if (bytes < kWorthHuge) return;
  const auto skipped =
      (kHugePage - static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data)) % kHugePage) %
      kHugePage;
  const std::int64_t whole = (bytes - skipped) / kHugePage * kHugePage;
  ::madvise(static_cast<char*>(data) + skipped, static_cast<std::size_t>(whole), MADV_HUGEPAGE);
}

void make_resident(void* data, std::int64_t bytes) {
  constexpr std::uintptr_t kSmallPage = 4096;
  if (bytes <= 0) return;
  const auto first = reinterpret_cast<std::uintptr_t>(data),
             last = first + static_cast<std::uintptr_t>(bytes) - 1;
  const std::uintptr_t begin = first / kSmallPage * kSmallPage,
                       end = (last / kSmallPage + 1) * kSmallPage;
  if (::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE) == 0) return;
  // Before Linux 5.14: each page is written to as it is.
  for (std::uintptr_t page = begin; page < end; page += kSmallPage) {
    auto* const byte = reinterpret_cast<unsigned char*>(page < first ? first : page);
    std::atomic_ref<unsigned char>(*byte).fetch_or(0, std::memory_order_relaxed);
  }
}

}  // namespace tessera
