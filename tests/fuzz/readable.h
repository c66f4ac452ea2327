#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "target.h"
#include "tessera/weights/weights.h"

namespace tessera::fuzz {

enum class Bytes { own, shared };

/// What holds for weights that were accepted: every tensor lies in its file, they share no byte
/// where each has its own, each has the size of its shape, and what is readable can be read.
inline void require_readable(const weights::Weights& weights, Bytes bytes = Bytes::own) {
  std::string file;
  std::uint64_t reached = 0;
  for (const weights::TensorInfo& tensor : weights.tensors()) {
    const std::uint64_t end = tensor.offset_bytes + tensor.size_bytes;
    if (tensor.file != file) reached = 0;
    file = tensor.file;
    const bool apart = bytes == Bytes::shared || tensor.offset_bytes >= reached;
    require(apart && end >= tensor.offset_bytes, "tensors overlap");
    require(end <= std::filesystem::file_size(tensor.file), "a tensor beyond the file");
    require(size_bytes(tensor.dtype, tensor.shape) == tensor.size_bytes, "a size of its own");
    require(weights.find(tensor.name) == &tensor, "a name that is not found");
    reached = end;
    if (!info_of(tensor.dtype).readable) continue;
    std::vector<float> ends(
        static_cast<std::size_t>(std::min<std::int64_t>(tensor.num_elements(), 300)));
    read_f32(weights, tensor, 0, ends);
    read_f32(weights, tensor, tensor.num_elements() - static_cast<std::int64_t>(ends.size()), ends);
    weights.release(tensor);
  }
}

}  // namespace tessera::fuzz
