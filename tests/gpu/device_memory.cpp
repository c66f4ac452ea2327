#include "device_memory.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

namespace tessera::kernels::test {
namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::abort();
}

}  // namespace

std::vector<cuda::Device> devices() {
  cuda::Device device;
  if (cuda::current_device(&device) != Status::ok) return {};
  return {device};
}

bool emulated() { return false; }
void use_device(const cuda::Device&) {}

void* device_allocate(std::int64_t num_bytes) {
  void* data = nullptr;
  check(cudaMalloc(&data, static_cast<std::size_t>(num_bytes)), "cudaMalloc");
  return data;
}
void device_free(void* data) { cudaFree(data); }
void copy_to_device(void* to, const void* from, std::int64_t num_bytes) {
  check(cudaMemcpy(to, from, static_cast<std::size_t>(num_bytes), cudaMemcpyHostToDevice),
        "copy to the device");
}
void copy_from_device(void* to, const void* from, std::int64_t num_bytes) {
  check(cudaMemcpy(to, from, static_cast<std::size_t>(num_bytes), cudaMemcpyDeviceToHost),
        "copy from the device");
}
std::string device_synchronise() {
  const cudaError_t error = cudaDeviceSynchronize();
  return error == cudaSuccess ? "" : cudaGetErrorString(error);
}

cuda::Stream make_stream() {
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return stream;
}
void destroy_stream(cuda::Stream stream) { cudaStreamDestroy(static_cast<cudaStream_t>(stream)); }

}  // namespace tessera::kernels::test
