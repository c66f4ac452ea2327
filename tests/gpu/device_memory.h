#pragma once

// The GPU as the tests see it: device_memory.cpp is the CUDA runtime, emulator/device_memory.cpp
// the CPU.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/kernels/cuda/device.h"

namespace tessera::kernels::test {

/// Devices to run every case on: those that the emulator plays, or the one that is here. Empty
/// without a GPU.
std::vector<cuda::Device> devices();
bool emulated();
/// Makes `device` the one that later launches run on.
void use_device(const cuda::Device& device);

void* device_allocate(std::int64_t num_bytes);
void device_free(void* data);
void copy_to_device(void* to, const void* from, std::int64_t num_bytes);
void copy_from_device(void* to, const void* from, std::int64_t num_bytes);
/// Waits for everything; the error's text, empty if there is none.
std::string device_synchronise();

cuda::Stream make_stream();
void destroy_stream(cuda::Stream stream);

}  // namespace tessera::kernels::test
