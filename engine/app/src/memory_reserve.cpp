#include "memory_reserve.h"

#include <cstddef>
#include <memory>
#include <new>

namespace tessera::app {
namespace {

constexpr std::size_t kBytes = 4u << 20;  // large enough that freeing it returns it to the system

std::unique_ptr<std::byte[]>& reserve() {
  static std::unique_ptr<std::byte[]> bytes;
  return bytes;
}

void give_up_reserve() {
  reserve().reset();
  throw std::bad_alloc();
}

}  // namespace

void keep_memory_back() {
  reserve() = std::make_unique_for_overwrite<std::byte[]>(kBytes);
  std::set_new_handler(give_up_reserve);
}

}  // namespace tessera::app
