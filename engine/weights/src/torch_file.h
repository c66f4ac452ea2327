#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tessera/weights/weights.h"

namespace tessera::weights {

/// The tensors of a state dictionary that torch.save wrote (1.6 or newer): by its pickle, of which
/// nothing is executed, and by the storages that lie beside it in the archive, as they are. Several
/// tensors may share a storage.
/// @param path named in errors
/// @throws Error{invalid_argument} naming the tensor, or file and byte, Error{unsupported} for
/// transposed tensors and pickles that hold more than tensors
std::vector<TensorInfo> parse_torch_file(std::span<const std::byte> file, const std::string& path);

}  // namespace tessera::weights
