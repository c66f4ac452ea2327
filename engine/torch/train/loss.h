#pragma once

#include <ATen/ATen.h>

#include "parameters.h"

namespace tessera::lm::train {

/// How the products with matrices are computed.
enum class Products {
  f32,
  bf16,  ///< operands and results are rounded to bf16; sums, the rest and attention stay f32
};

/// Mean negative log probability, in nats, of tokens 1 ... T of each window given those before.
/// @param windows [batch][T + 1] int64, T <= max_context_tokens
at::Tensor loss_of(const Parameters& parameters, std::int64_t num_heads, const at::Tensor& windows,
                   Products products = Products::f32);

}  // namespace tessera::lm::train
