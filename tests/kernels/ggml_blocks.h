#pragma once

#include "support.h"
#include "tessera/kernels/ggml_weights.h"

// GGUF blocks with random numbers, and what each of their elements is, element after element as
// dequantize_row_* of llama.cpp's ggml-quants.c says; beside the kernels' reader, which does whole
// blocks.
namespace tessera::kernels::test {

inline std::vector<GgmlType> ggml_types() {
  std::vector<GgmlType> types;
  for (int type = 0; type < kNumGgmlTypes; ++type) types.push_back(static_cast<GgmlType>(type));
  return types;
}

/// Where a block has its f16 numbers; -1: no second one.
inline std::pair<int, int> halves_of(GgmlType type) {
  switch (type) {
    case GgmlType::q4_1:
    case GgmlType::q5_1:
    case GgmlType::q4_k:
    case GgmlType::q5_k:
      return {0, 2};
    case GgmlType::q2_k:
      return {80, 82};
    case GgmlType::q3_k:
      return {108, -1};
    case GgmlType::q6_k:
      return {208, -1};
    case GgmlType::tq1_0:
      return {52, -1};
    case GgmlType::tq2_0:
      return {64, -1};
    case GgmlType::q8_k:
    case GgmlType::iq1_m:
    case GgmlType::mxfp4:
    case GgmlType::nvfp4:
      return {-1, -1};
    default:
      return {0, -1};
  }
}

/// The two parts of element `i` of a block: scale * code and what is added to it.
struct GgmlElement {
  double product, added, largest_term;
};

/// Of types whose decoding is held against the `gguf` package's (tests/reference/gguf_blocks.py):
/// as the kernels decode it, so that the product alone is judged.
inline GgmlElement decoded_element(GgmlType type, const std::uint8_t* block, int i) {
  std::int8_t codes[256];
  float scale[16], minimum[16];
  EXPECT_EQ(decode_ggml_blocks(type, block, 1, codes, scale, minimum), Status::ok);
  const double step = scale[i / ggml_group_columns(type)];
  return {step * codes[i], 0, std::fabs(step) * 128};
}

inline GgmlElement ggml_element(GgmlType type, const std::uint8_t* b, int i) {
  const auto half = [&](int at) {
    return double{f16_to_f32(static_cast<std::uint16_t>(b[at] | b[at + 1] << 8))};
  };
  const auto nibble = [&](int at) {  // of 32 columns
    return i < 16 ? b[at + i] % 16 : b[at + i - 16] / 16;
  };
  const auto fifth = [&](int at) { return (b[at + i / 8] >> (i % 8)) % 2 * 16; };
  const auto with_zero = [](double scale, int code, int zero) {
    return GgmlElement{scale * (code - zero), 0, std::fabs(scale) * zero};
  };
  const int chunk = i / 64, byte = i % 32;         // q4_k, q5_k: 64 columns in 32 bytes
  const int high = i % 64 >= 32 ? 4 : 0;           // of which the second half are high nibbles
  const int half128 = i / 128, part = i / 32 % 4;  // q2_k, q3_k, q6_k
  int scale = 0, minimum = 0;
  if (type == GgmlType::q4_k || type == GgmlType::q5_k) {
    const int g = i / 32;
    const std::uint8_t* s = b + 4;
    scale = g < 4 ? s[g] % 64 : s[g + 4] % 16 + s[g - 4] / 64 * 16;
    minimum = g < 4 ? s[g + 4] % 64 : s[g + 4] / 16 + s[g] / 64 * 16;
  }
  switch (type) {
    case GgmlType::q4_0:
      return with_zero(half(0), nibble(2), 8);
    case GgmlType::q4_1:
      return {half(0) * nibble(4), half(2), std::fabs(half(2))};
    case GgmlType::q5_0:
      return with_zero(half(0), nibble(6) + fifth(2), 16);
    case GgmlType::q5_1:
      return {half(0) * (nibble(8) + fifth(4)), half(2), std::fabs(half(2))};
    case GgmlType::q8_0: {
      GgmlElement e = with_zero(half(0), static_cast<std::int8_t>(b[2 + i]), 0);
      e.largest_term = std::fabs(half(0)) * 128;
      return e;
    }
    case GgmlType::q2_k: {
      const int code = b[16 + half128 * 32 + byte] >> (2 * part) & 3;
      const double added = -half(82) * (b[i / 16] / 16);
      return {half(80) * (b[i / 16] % 16) * code, added, std::fabs(added)};
    }
    case GgmlType::q3_k: {
      const int g = i / 16;
      const int low = g < 8 ? b[96 + g] % 16 : b[96 + g - 8] / 16;
      const int six = low + (b[104 + g % 4] >> (g / 4 * 2) & 3) * 16;
      const int code = (b[32 + half128 * 32 + byte] >> (2 * part) & 3) +
                       ((b[byte] & 1 << (half128 * 4 + part)) != 0 ? 4 : 0);
      return with_zero(half(108) * (six - 32), code, 4);
    }
    case GgmlType::q4_k: {
      const int code = b[16 + chunk * 32 + byte] >> high & 15;
      return {half(0) * scale * code, -half(2) * minimum, std::fabs(half(2) * minimum)};
    }
    case GgmlType::q5_k: {
      const int code =
          (b[48 + chunk * 32 + byte] >> high & 15) + (b[16 + byte] >> (i / 32) & 1) * 16;
      return {half(0) * scale * code, -half(2) * minimum, std::fabs(half(2) * minimum)};
    }
    case GgmlType::q6_k: {
      const int low = b[half128 * 64 + i % 64] >> (part < 2 ? 0 : 4) & 15;
      const int two = b[128 + half128 * 32 + byte] >> (2 * part) & 3;
      return with_zero(half(208) * static_cast<std::int8_t>(b[192 + i / 16]), low + two * 16, 32);
    }
    case GgmlType::q1_0:
      return with_zero(half(0), (b[2 + i / 8] >> (i % 8)) % 2 * 2, 1);
    case GgmlType::q2_0:
      return with_zero(half(0), b[2 + i / 4] >> (i % 4 * 2) & 3, 1);
    default:
      return decoded_element(type, b, i);
  }
}

/// Rows of random blocks, packed in two slices.
struct RandomGgmlWeights {
  RandomGgmlWeights(std::int64_t num_rows, std::int64_t num_columns, GgmlType ggml_type,
                    std::uint64_t stream)
      : rows(num_rows),
        columns(num_columns),
        type(ggml_type),
        row_bytes(columns / ggml_block_columns(type) * ggml_block_bytes(type)),
        blocks(static_cast<std::size_t>(rows * row_bytes)),
        data(ggml_weights_bytes(rows, columns, type)) {
    std::mt19937_64 random(seed() + stream);
    for (auto& byte : blocks) byte = static_cast<std::uint8_t>(random());
    const auto [first, second] = halves_of(type);
    for (std::int64_t at = 0; at < rows * row_bytes; at += ggml_block_bytes(type)) {
      for (const int half : {first, second}) {
        if (half < 0) continue;
        const float value = 0.001f * static_cast<float>(static_cast<int>(random() % 200) - 100);
        const std::uint16_t bits = f32_to_f16(value);
        std::memcpy(blocks.data() + at + half, &bits, 2);
      }
      std::uint8_t* block = blocks.data() + at;
      const float d = 0.001f * static_cast<float>(static_cast<int>(random() % 200) - 100);
      const std::uint16_t bits = f32_to_f16(d);
      if (type == GgmlType::q8_k) std::memcpy(block, &d, sizeof d);
      if (type == GgmlType::mxfp4) block[0] = static_cast<std::uint8_t>(110 + random() % 20);
      for (int i = 0; type == GgmlType::iq1_m && i < 4; ++i) {  // in the highest bits of words
        block[49 + 2 * i] =
            static_cast<std::uint8_t>((block[49 + 2 * i] & 15) | (bits >> (4 * i) & 15) << 4);
      }
    }
    std::vector<const void*> row_data;
    for (std::int64_t row = 0; row < rows; ++row) {
      row_data.push_back(blocks.data() + row * row_bytes);
    }
    const std::int64_t half = rows / 2 / kRowsPerBlock * kRowsPerBlock;
    for (const Rows slice : {Rows{0, half}, Rows{half, rows}}) {
      if (slice.first == slice.last) continue;
      EXPECT_EQ(pack_ggml_weights(row_data.data(), rows, columns, type, slice, data.data()),
                Status::ok);
    }
    EXPECT_EQ(data.num_touched(), 0);
  }
  GgmlElement element(std::int64_t row, std::int64_t column) const {
    const std::int64_t size = ggml_block_columns(type);
    return ggml_element(type,
                        blocks.data() + row * row_bytes + column / size * ggml_block_bytes(type),
                        static_cast<int>(column % size));
  }
  double weight(std::int64_t row, std::int64_t column) const {
    const GgmlElement e = element(row, column);
    return e.product + e.added;
  }
  double largest_term(std::int64_t row, std::int64_t column) const {
    return element(row, column).largest_term;
  }
  GgmlWeights packed() { return {rows, columns, type, data.data()}; }

  std::int64_t rows, columns;
  GgmlType type;
  std::int64_t row_bytes;
  std::vector<std::uint8_t> blocks;
  Guarded<unsigned char> data;
};

}  // namespace tessera::kernels::test
