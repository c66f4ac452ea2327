#include "tessera/weights/dtype.h"

#include <fmt/format.h>

#include <array>
#include <limits>

namespace tessera::weights {
namespace {

constexpr int kNone = -1;

struct Row {
  DTypeInfo info;
  int ggml = kNone;         ///< number in GGUF
  bool safetensors = true;  ///< the name is one of safetensors'
};

// Names: safetensors 0.6 (tensor.rs) and ggml (ggml.c, type_traits); the order is DType's.
constexpr std::array<Row, 47> kTypes = {{
    {{DType::f64, "F64", 1, 8, true}, 28},
    {{DType::f32, "F32", 1, 4, true}, 0},
    {{DType::f16, "F16", 1, 2, true}, 1},
    {{DType::bf16, "BF16", 1, 2, true}, 30},
    {{DType::f8_e4m3, "F8_E4M3", 1, 1, true}},
    {{DType::f8_e5m2, "F8_E5M2", 1, 1, true}},
    {{DType::f8_e8m0, "F8_E8M0", 1, 1, true}},
    {{DType::f6_e2m3, "F6_E2M3", 4, 3, false}},
    {{DType::f6_e3m2, "F6_E3M2", 4, 3, false}},
    {{DType::f4, "F4", 2, 1, false}},
    {{DType::c64, "C64", 1, 8, false}},
    {{DType::i64, "I64", 1, 8, true}, 27},
    {{DType::i32, "I32", 1, 4, true}, 26},
    {{DType::i16, "I16", 1, 2, true}, 25},
    {{DType::i8, "I8", 1, 1, true}, 24},
    {{DType::u64, "U64", 1, 8, true}},
    {{DType::u32, "U32", 1, 4, true}},
    {{DType::u16, "U16", 1, 2, true}},
    {{DType::u8, "U8", 1, 1, true}},
    {{DType::boolean, "BOOL", 1, 1, true}},
    {{DType::q4_0, "Q4_0", 32, 18, true}, 2, false},
    {{DType::q4_1, "Q4_1", 32, 20, true}, 3, false},
    {{DType::q5_0, "Q5_0", 32, 22, true}, 6, false},
    {{DType::q5_1, "Q5_1", 32, 24, true}, 7, false},
    {{DType::q8_0, "Q8_0", 32, 34, true}, 8, false},
    {{DType::q8_1, "Q8_1", 32, 36, false}, 9, false},
    {{DType::q2_k, "Q2_K", 256, 84, true}, 10, false},
    {{DType::q3_k, "Q3_K", 256, 110, true}, 11, false},
    {{DType::q4_k, "Q4_K", 256, 144, true}, 12, false},
    {{DType::q5_k, "Q5_K", 256, 176, true}, 13, false},
    {{DType::q6_k, "Q6_K", 256, 210, true}, 14, false},
    {{DType::q8_k, "Q8_K", 256, 292, true}, 15, false},
    {{DType::iq1_s, "IQ1_S", 256, 50, true}, 19, false},
    {{DType::iq1_m, "IQ1_M", 256, 56, true}, 29, false},
    {{DType::iq2_xxs, "IQ2_XXS", 256, 66, true}, 16, false},
    {{DType::iq2_xs, "IQ2_XS", 256, 74, true}, 17, false},
    {{DType::iq2_s, "IQ2_S", 256, 82, true}, 22, false},
    {{DType::iq3_xxs, "IQ3_XXS", 256, 98, true}, 18, false},
    {{DType::iq3_s, "IQ3_S", 256, 110, true}, 21, false},
    {{DType::iq4_nl, "IQ4_NL", 32, 18, true}, 20, false},
    {{DType::iq4_xs, "IQ4_XS", 256, 136, true}, 23, false},
    {{DType::tq1_0, "TQ1_0", 256, 54, true}, 34, false},
    {{DType::tq2_0, "TQ2_0", 256, 66, true}, 35, false},
    {{DType::mxfp4, "MXFP4", 32, 17, true}, 39, false},
    {{DType::nvfp4, "NVFP4", 64, 36, true}, 40, false},
    {{DType::q1_0, "Q1_0", 128, 18, true}, 41, false},
    {{DType::q2_0, "Q2_0", 64, 18, true}, 42, false},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (static_cast<std::size_t>(kTypes[i].info.dtype) != i) return false;
  }
  return true;
}
static_assert(in_order(), "kTypes is indexed by DType");

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

}  // namespace

const DTypeInfo& info_of(DType dtype) { return kTypes[static_cast<std::size_t>(dtype)].info; }

const char* to_string(DType dtype) { return info_of(dtype).name; }

std::optional<DType> dtype_of_safetensors(std::string_view name) {
  for (const Row& row : kTypes) {
    if (row.safetensors && name == row.info.name) return row.info.dtype;
  }
  return std::nullopt;
}

std::optional<DType> dtype_of_ggml(std::uint32_t type) {
  for (const Row& row : kTypes) {
    if (row.ggml != kNone && type == static_cast<std::uint32_t>(row.ggml)) return row.info.dtype;
  }
  return std::nullopt;
}

std::optional<std::int64_t> num_elements(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    empty = empty || size == 0;
    // A zero further on would hide the overflow, so the others are multiplied without it.
    const std::int64_t factor = size == 0 ? 1 : size;
    if (product > kMost / factor) return std::nullopt;
    product *= factor;
  }
  return empty ? 0 : product;
}

std::optional<std::uint64_t> size_bytes(DType dtype, const std::vector<std::int64_t>& shape) {
  const DTypeInfo& info = info_of(dtype);
  const auto count = num_elements(shape);
  const std::int64_t columns = shape.empty() ? 1 : shape.back();
  if (!count || columns % info.block_elements != 0) return std::nullopt;
  const std::int64_t blocks = *count / info.block_elements;
  if (blocks > kMost / info.block_bytes) return std::nullopt;
  return static_cast<std::uint64_t>(blocks * info.block_bytes);
}

std::string describe_shape(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace tessera::weights
