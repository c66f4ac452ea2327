#pragma once

#include <cstdint>
#include <string>

#include "tessera/weights/weights.h"

namespace tessera::weights {

struct Unpacked {
  std::int64_t num_tensors = 0;
  std::uint64_t size_bytes = 0;  ///< as written
};

/// A GGUF file as Hugging Face has such models: config.json and model.safetensors in `folder`,
/// which exists. Blocks become the numbers that they stand for, rounded to f16; matrices whose rows
/// llama.cpp permutes for its rotary embeddings have them in Hugging Face's order again. Its
/// vocabulary is tokenizer/gguf.h's.
/// @throws Error{unsupported} naming the architecture, tensor or scaling that is not among what
/// Llama, Qwen2 and Qwen3 have, Error{out_of_range} for a number beyond f16
Unpacked unpack_gguf(const Weights& weights, const std::string& folder);

}  // namespace tessera::weights
