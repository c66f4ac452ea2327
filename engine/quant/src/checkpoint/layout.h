#pragma once

#include <string>
#include <vector>

#include "tessera/quant/quantise.h"
#include "tessera/weights/writer.h"

// How compressed-tensors stores the weight of one Linear.
namespace tessera::quant {

/// "model.layers.0.self_attn.q_proj" of "model.layers.0.self_attn.q_proj.weight".
std::string module_of(const std::string& tensor);

/// The tensors that take the place of a weight [rows, columns]. `as_int8`: for W8A8.
std::vector<weights::TensorSpec> specs_of(const std::string& module, std::int64_t rows,
                                          std::int64_t columns, const Scheme& scheme, bool as_int8);

/// Their contents.
void append(weights::SafetensorsWriter& writer, const std::string& module,
            const Quantised& quantised, bool as_int8);

}  // namespace tessera::quant
