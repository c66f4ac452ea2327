#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/kernels/ggml_weights.h"

namespace tessera::weights {

/// Types of elements, named as the files name them: those of safetensors and those of ggml. Types
/// in blocks (`q4_0`, `q6_k`, ...) hold a fixed number of elements in a fixed number of bytes.
enum class DType : std::uint8_t {
  // of safetensors; some of GGUF
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  f6_e2m3,
  f6_e3m2,
  f4,
  c64,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  // of GGUF only
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q8_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  q8_k,
  iq1_s,
  iq1_m,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  iq4_nl,
  iq4_xs,
  tq1_0,
  tq2_0,
  mxfp4,
  nvfp4,
  q1_0,
  q2_0
};

struct DTypeInfo {
  DType dtype;
  const char* name;             ///< "F16", "BOOL", "Q4_K"
  std::int64_t block_elements;  ///< 1, or the elements of a block
  std::int64_t block_bytes;
  bool readable;  ///< read_f32 understands it
};

const DTypeInfo& info_of(DType dtype);
const char* to_string(DType dtype);  ///< "F16"

/// By the name that safetensors writes; empty for others, those of ggml among them.
std::optional<DType> dtype_of_safetensors(std::string_view name);
/// By the number that GGUF writes; empty for numbers that ggml has not given or has taken back.
std::optional<DType> dtype_of_ggml(std::uint32_t type);

/// Of a type in blocks, the kernels' name of it; empty for others, and for Q8_1, which ggml keeps
/// in memory only.
std::optional<kernels::GgmlType> ggml_type_of(DType dtype);

/// Elements of a tensor; empty where the product leaves 63 bits or a size is negative.
std::optional<std::int64_t> num_elements(const std::vector<std::int64_t>& shape);

/// Bytes of a tensor; empty where the size leaves 63 bits or the rows are no whole blocks.
std::optional<std::uint64_t> size_bytes(DType dtype, const std::vector<std::int64_t>& shape);

/// "[576, 1536]"
std::string describe_shape(const std::vector<std::int64_t>& shape);

}  // namespace tessera::weights
