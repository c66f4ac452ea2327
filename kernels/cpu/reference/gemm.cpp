// Matrix products in double: what the fast versions are measured against.
#include "../packed.h"
#include "reference.h"
#include "tessera/kernels/gemm_a8.h"

namespace tessera::kernels::cpu::reference {
namespace {

/// Weight [row][column] of the packed matrix.
struct Weight {
  double scale, minimum;
  int code;  ///< less the zero point

  double value() const { return scale * code + minimum; }
};

Weight weight_of(const CodedWeights& w, std::int64_t row, std::int64_t column) {
  const PackedLayout& l = w.layout;
  const std::int64_t block = row / kRowsPerBlock, lane = row % kRowsPerBlock;
  const std::int64_t group = column / l.group_size, inside = column % l.group_size;
  const std::uint32_t* words = w.words + l.word(block, group, inside / l.unit_columns) + lane;
  const int code =
      static_cast<int>(unit_code(words, kRowsPerBlock, inside % l.unit_columns, w.format.bitwidth));
  const std::int64_t at = (block * l.groups + group) * kRowsPerBlock + lane;
  const double scale = double{load(w.scales, w.format.scale_type, at)};
  switch (w.format.offset) {
    case Offset::minima:
      return {scale, double{load(w.offsets, w.format.scale_type, at)}, code};
    case Offset::zero_points:
      return {scale, 0, code - reinterpret_cast<const std::uint8_t*>(w.offsets)[at]};
    case Offset::zero:
      break;
  }
  return {scale, 0, code - w.format.zero};
}

}  // namespace

void dequant_gemm(Matrix x, CodedWeights w, Rows outputs, float* out, std::int64_t out_stride) {
  for (std::int64_t token = 0; token < x.rows; ++token) {
    for (std::int64_t row = outputs.first; row < outputs.last; ++row) {
      double sum = 0;
      for (std::int64_t column = 0; column < w.columns; ++column) {
        sum += weight_of(w, row, column).value() * load(x.data, x.type, token * x.stride + column);
      }
      out[token * out_stride + row] = static_cast<float>(sum);
    }
  }
}

void dense_gemm(Matrix x, DenseWeights w, Rows outputs, float* out, std::int64_t out_stride) {
  for (std::int64_t token = 0; token < x.rows; ++token) {
    for (std::int64_t row = outputs.first; row < outputs.last; ++row) {
      const std::int64_t lane = row % kRowsPerBlock;
      double sum = 0;
      for (std::int64_t column = 0; column < w.columns; ++column) {
        const std::int64_t at = (row - lane) * w.columns + column * kRowsPerBlock + lane;
        sum += double{load(w.data, w.type, at)} *
               double{load(x.data, x.type, token * x.stride + column)};
      }
      out[token * out_stride + row] = static_cast<float>(sum);
    }
  }
}

void dequant_gemm_a8(Matrix x, CodedWeights w, Rows outputs, float* out, std::int64_t out_stride) {
  const PackedLayout& l = w.layout;
  for (std::int64_t token = 0; token < x.rows; ++token) {
    const auto add_block = [&](std::int64_t first, std::int64_t count) {
      std::int8_t codes[kActivationBlock];
      float scale;
      const void* from = at(x.data, x.type, token * x.stride + first);
      quantise_row({from, x.type, count}, nullptr, codes, &scale);
      for (std::int64_t row = outputs.first; row < outputs.last; ++row) {
        double sum = 0;  // exact: a scale times integers
        for (std::int64_t i = 0; i < count; ++i) {
          sum += weight_of(w, row, first + i).value() * codes[i];
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
