#pragma once

#include <memory>
#include <string>

#include "tessera/lm/backend.h"

namespace tessera::lm {

/// LibTorch's operators on "cpu", "cuda" or "cuda:N". Matrices in codes are multiplied as the
/// numbers that they stand for.
/// @throws Error{unsupported} for a device that this LibTorch does not know
std::shared_ptr<const Backend> make_torch_backend(const std::string& device, int num_threads);

}  // namespace tessera::lm
