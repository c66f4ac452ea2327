#include "device_memory.h"

#include <cstdlib>
#include <cstring>

#include "cuda_emulator.h"

namespace tessera::kernels::test {

// One for each way in which the kernels differ: no tensor cores, the first ones, f16 only, bf16 and
// asynchronous copies.
std::vector<cuda::Device> devices() { return {{60, 3}, {70, 3}, {75, 3}, {80, 3}}; }
bool emulated() { return true; }
void use_device(const cuda::Device& device) {
  cuda_emulator::arch = device.compute_capability;
  ++cuda_emulator::order_seed;
}

void* device_allocate(std::int64_t num_bytes) {
  return std::aligned_alloc(256, static_cast<std::size_t>(num_bytes + 255) / 256 * 256);
}
void device_free(void* data) { std::free(data); }
void copy_to_device(void* to, const void* from, std::int64_t num_bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(num_bytes));
}
void copy_from_device(void* to, const void* from, std::int64_t num_bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(num_bytes));
}
std::string device_synchronise() { return ""; }
cuda::Stream make_stream() { return nullptr; }
void destroy_stream(cuda::Stream) {}

}  // namespace tessera::kernels::test
