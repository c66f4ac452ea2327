#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/weights/linears.h"
#include "tessera/weights/weights.h"

// Checkpoints that are quantised already. Their values count only together with scales that lie in
// tensors of their own, and would be read as if they had none.
namespace tessera::weights {

struct QuantisedPart {
  const TensorInfo* tensor = nullptr;
  const char* format = "";  ///< "GPTQ or AWQ"
};

/// What shows that a matrix is quantised; empty where nothing does.
/// @param weight name that the matrix has in 16 bits: "model.layers.0.self_attn.q_proj.weight"
std::optional<QuantisedPart> quantised_part(const Weights& weights, const std::string& weight);

/// @throws Error{unsupported} that names the tensor, the format and what to do
[[noreturn]] void refuse_quantised(const Weights& weights, const QuantisedPart& part);

/// A configuration that names a quantisation has it in its matrices.
/// @throws Error{invalid_argument} where all of these are plain numbers
void check_named_quantisation(const Weights& weights, const std::vector<LinearWeight>& linears);

}  // namespace tessera::weights
