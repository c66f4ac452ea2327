#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stack.h"
#include "tessera/core/error.h"
#include "tessera/linear/linear.h"
#include "tessera/quant/stored.h"

// The forms of a matrix; make_linear chooses.
namespace tessera::linear {

/// Numbers as form.dtype, or in the 16 bits that the file has them in.
/// @param of what they were, " of codes", where the stack does not know it
std::unique_ptr<Linear> make_dense(const Stack& stack, const LinearForm& form, int num_threads,
                                   const std::string& of = "");

/// Codes of 3, 4 or 8 bits.
std::unique_ptr<Linear> make_codes(const Stack& stack, const LinearForm& form,
                                   const quant::LinearStatistics* inputs, int num_threads);
/// Of a checkpoint; the parts have one scheme.
std::unique_ptr<Linear> make_codes(const Stack& stack, const LinearForm& form,
                                   const std::vector<quant::Quantised>& parts, int num_threads);

/// W8A8.
std::unique_ptr<Linear> make_int8(const Stack& stack, const LinearForm& form,
                                  const quant::LinearStatistics* inputs, int num_threads);
std::unique_ptr<Linear> make_int8(const Stack& stack, const LinearForm& form,
                                  const std::vector<quant::Quantised>& parts, int num_threads);

/// Whether the kernels multiply blocks of the type as they are.
bool has_block_kernel(weights::DType dtype);
/// Blocks of GGUF; the parts have one type, which has a kernel.
std::unique_ptr<Linear> make_blocks(const Stack& stack, const LinearForm& form, int num_threads);

/// As the file has them, whatever that is.
std::unique_ptr<Linear> make_stored(const Stack& stack, const LinearForm& form, int num_threads);

/// Numbers of what a file has as codes.
std::unique_ptr<Linear> make_dense_of_codes(const Stack& stack, const LinearForm& form,
                                            int num_threads);

/// What a product is asked for is there. @throws Error{invalid_argument} naming the stride
void check_product(const Linear& linear, const float* x, std::int64_t x_stride, std::int64_t tokens,
                   const float* out, std::int64_t out_stride);

/// "group 128", "per channel"
std::string describe(const quant::Scheme& scheme);

/// The error with the name of the matrix before it.
[[noreturn]] void rethrow_with(const std::string& name, const Error& error);

}  // namespace tessera::linear
