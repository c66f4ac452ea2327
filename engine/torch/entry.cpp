// What the module with LibTorch exports.
#include "tessera/lm/module.h"
#include "tessera/lm/module_entry.h"
#include "tessera/torch/torch_backend.h"
#ifdef TESSERA_TORCH_C10D
#include "tessera/torch/process_group.h"
#endif
#ifdef TESSERA_TORCH_CUDA
#include "tessera/torch/cuda_kernels.h"
#endif

namespace {

tessera::lm::DeviceKernels kernels_of([[maybe_unused]] const std::string& device) {
#ifdef TESSERA_TORCH_CUDA
  if (device.starts_with("cuda")) return tessera::lm::cuda_kernels(device);
#endif
  return {};
}

}  // namespace

extern "C" std::shared_ptr<const tessera::lm::Backend> TESSERA_MODULE_ENTRY(tessera_torch_backend)(
    const std::string& device, int num_threads) {
  return tessera::lm::make_torch_backend(device, num_threads, kernels_of(device));
}

#ifdef TESSERA_TORCH_C10D
extern "C" std::unique_ptr<tessera::run::ProcessGroup> TESSERA_MODULE_ENTRY(
    tessera_torch_process_group)(const tessera::run::ProcessGroupRequest& request) {
  return tessera::run::make_process_group(request);
}
#endif
