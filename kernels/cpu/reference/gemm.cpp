// Matrix products in double: what the fast versions are measured against.
#include "../packed.h"
#include "reference.h"
#include "tessera/kernels/gemm_a8.h"

namespace tessera::kernels::cpu::reference {
namespace {

/// Weight [row][column] of the packed matrix.
double weight_of(const PackedWeights& w, const PackedLayout& l, std::int64_t row,
                 std::int64_t column) {
  const std::int64_t block = row / kRowsPerBlock, lane = row % kRowsPerBlock;
  const std::int64_t group = column / l.group_size, inside = column % l.group_size;
  const auto* words = static_cast<const std::uint32_t*>(w.data) +
                      l.word(block, group, inside / l.unit_columns) + lane;
  const int code =
      static_cast<int>(unit_code(words, kRowsPerBlock, inside % l.unit_columns, w.format.bitwidth));
  const char* scales = static_cast<const char*>(w.data) + l.words_bytes;
  const std::int64_t at = (block * l.groups + group) * kRowsPerBlock + lane;
  const auto* zero_points = reinterpret_cast<const std::uint8_t*>(scales + l.scales_bytes);
  const int zero_point =
      w.format.symmetric ? symmetric_zero_point(w.format.bitwidth) : zero_points[at];
  return double{load(scales, w.format.scale_type, at)} * (code - zero_point);
}

}  // namespace

void dequant_gemm(Matrix x, PackedWeights w, Rows outputs, float* out, std::int64_t out_stride) {
  const PackedLayout l = layout_of(w.rows, w.columns, w.format);
  for (std::int64_t token = 0; token < x.rows; ++token) {
    for (std::int64_t row = outputs.first; row < outputs.last; ++row) {
      double sum = 0;
      for (std::int64_t column = 0; column < w.columns; ++column) {
        sum += weight_of(w, l, row, column) * load(x.data, x.type, token * x.stride + column);
      }
      out[token * out_stride + row] = static_cast<float>(sum);
    }
  }
}

void dequant_gemm_a8(Matrix x, PackedWeights w, Rows outputs, float* out, std::int64_t out_stride) {
  const PackedLayout l = layout_of(w.rows, w.columns, w.format);
  for (std::int64_t token = 0; token < x.rows; ++token) {
    const auto add_block = [&](std::int64_t first, std::int64_t count) {
      std::int8_t codes[kActivationBlock];
      float scale;
      const void* from = at(x.data, x.type, token * x.stride + first);
      quantise_row({from, x.type, count}, nullptr, codes, &scale);
      for (std::int64_t row = outputs.first; row < outputs.last; ++row) {
        double sum = 0;  // exact: a scale times integers
        for (std::int64_t i = 0; i < count; ++i) {
          sum += weight_of(w, l, row, first + i) * codes[i];
        }
        float* to = out + token * out_stride + row;
        *to = static_cast<float>((first == 0 ? 0 : double{*to}) + double{scale} * sum);
      }
    };
    for (std::int64_t group = 0; group < l.groups; ++group) {
      const std::int64_t columns = l.columns_of(group, w.columns);
      for (std::int64_t i = 0; i < columns; i += kActivationBlock) {
        const std::int64_t left = columns - i;
        add_block(group * l.group_size + i, left < kActivationBlock ? left : kActivationBlock);
      }
    }
  }
}

void int8_gemm(const Int8Product& p) {
  const std::int64_t columns = p.weights.columns;
  for (std::int64_t token = 0; token < p.tokens; ++token) {
    for (std::int64_t row = p.outputs.first; row < p.outputs.last; ++row) {
      const std::int64_t lane = row % kRowsPerBlock;
      const std::int8_t* packed = p.block(row - lane) + lane * 4;
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < columns; ++k) {
        sum += p.codes[token * columns + k] * packed[k / 4 * kRowsPerBlock * 4 + k % 4];
      }
      p.out[token * p.out_stride + row] =
          p.scale[token] * p.weights.scale[row] * static_cast<float>(sum);
    }
  }
}

}  // namespace tessera::kernels::cpu::reference
