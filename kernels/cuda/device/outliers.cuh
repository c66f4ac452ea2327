#pragma once

#include "real.cuh"

namespace tessera::kernels::cuda {

inline constexpr int kOutlierThreads = 256;

/// is_outlier[column] = 1 where any |x| of it is at least `threshold`, else 0. A thread owns a
/// column, neighbours read neighbours.
///
/// grid [columns / kOutlierThreads], block [kOutlierThreads].
TESSERA_GLOBAL void find_outliers_kernel(const void* x, Real type, std::int64_t rows,
                                         std::int64_t columns, std::int64_t stride, float threshold,
                                         std::uint8_t* is_outlier) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kOutlierThreads + threadIdx.x;
  if (column >= columns) return;
  bool found = false;
  for (std::int64_t row = 0; row < rows; ++row)
    found = found || fabsf(load_real(x, type, row * stride + column)) >= threshold;
  is_outlier[column] = found ? 1 : 0;
}

/// Writes the outlier columns in ascending order, and how many there are. Every thread counts a run
/// of columns, the first one adds up, every thread writes its own.
///
/// One block of kOutlierThreads; list [columns].
TESSERA_GLOBAL void list_outliers_kernel(const std::uint8_t* is_outlier, std::int64_t columns,
                                         std::int32_t* list, std::int64_t* num_outliers) {
  __shared__ std::int64_t first[kOutlierThreads + 1];
  const std::int64_t run = (columns + kOutlierThreads - 1) / kOutlierThreads;
  const std::int64_t begin = threadIdx.x * run, end = begin + run < columns ? begin + run : columns;
  std::int64_t count = 0;
  for (std::int64_t c = begin; c < end; ++c) count += is_outlier[c] != 0;
  first[threadIdx.x + 1] = count;
  sync_block();
  if (threadIdx.x == 0) {
    first[0] = 0;
    for (int i = 1; i <= kOutlierThreads; ++i) first[i] += first[i - 1];
    *num_outliers = first[kOutlierThreads];
  }
  sync_block();
  if (list == nullptr) return;
  std::int64_t to = first[threadIdx.x];
  for (std::int64_t c = begin; c < end; ++c)
    if (is_outlier[c] != 0) list[to++] = static_cast<std::int32_t>(c);
}

/// Of every token the columns of |x| >= threshold in ascending order, and how many there are.
///
/// grid [tokens], block [kOutlierThreads]; list [tokens][columns], num_outliers [tokens].
TESSERA_GLOBAL void list_token_outliers_kernel(const void* x, Real type, std::int64_t columns,
                                               std::int64_t stride, float threshold,
                                               std::int32_t* list, std::int32_t* num_outliers) {
  __shared__ std::int32_t first[kOutlierThreads + 1];
  const std::int64_t token = blockIdx.x;
  const std::int64_t run = (columns + kOutlierThreads - 1) / kOutlierThreads;
  const std::int64_t begin = threadIdx.x * run, end = begin + run < columns ? begin + run : columns;
  const auto is_outlier = [=](std::int64_t c) {
    return fabsf(load_real(x, type, token * stride + c)) >= threshold;
  };
  std::int32_t count = 0;
  for (std::int64_t c = begin; c < end; ++c) count += is_outlier(c) ? 1 : 0;
  first[threadIdx.x + 1] = count;
  sync_block();
  if (threadIdx.x == 0) {
    first[0] = 0;
    for (int i = 1; i <= kOutlierThreads; ++i) first[i] += first[i - 1];
    num_outliers[token] = first[kOutlierThreads];
  }
  sync_block();
  std::int32_t* to = list + token * columns + first[threadIdx.x];
  for (std::int64_t c = begin; c < end; ++c)
    if (is_outlier(c)) *to++ = static_cast<std::int32_t>(c);
}

/// What the listed columns of each token add to the product, from the codes of the weights.
struct TokenOutlierArguments {
  const void* activations;
  Real activation_type;
  std::int64_t activation_stride, rows, columns, out_stride;
  const std::int8_t* codes;
  const float* scale;
  const std::int32_t* list;
  const std::int32_t* num_outliers;
  float* out;
};

/// A thread has an output. Most tokens have few outliers or none.
///
/// grid [tokens][rows / kOutlierThreads], block [kOutlierThreads].
TESSERA_GLOBAL void add_token_outliers_kernel(const TokenOutlierArguments p) {
  const std::int64_t token = blockIdx.x,
                     row = static_cast<std::int64_t>(blockIdx.y) * kOutlierThreads + threadIdx.x;
  const std::int32_t count = p.num_outliers[token];
  if (count == 0 || row >= p.rows) return;
  const std::int32_t* list = p.list + token * p.columns;
  float sum = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    const float x =
        load_real(p.activations, p.activation_type, token * p.activation_stride + list[i]);
    sum += x * static_cast<float>(p.codes[row * p.columns + list[i]]);
  }
  p.out[token * p.out_stride + row] += p.scale[row] * sum;
}

inline constexpr int kOutlierRows = 64, kOutlierTokens = 16, kOutlierColumns = 32;

/// What the outlier columns add to the product.
struct OutlierArguments {
  const void* activations;
  const void* weights;
  Real activation_type, weight_type;
  std::int64_t activation_stride, weight_stride, out_stride, tokens, rows;
  const std::int32_t* list;
  const std::int64_t* num_outliers;
  float* out;
};

/// out += activations * weights^T over the listed columns, gathered 32 at a time into shared
/// memory.
///
/// grid [rows / kOutlierRows][tokens / kOutlierTokens], block [256]: row x, tokens y + 4 j.
TESSERA_GLOBAL void add_outliers_kernel(const OutlierArguments p) {
  __shared__ float weights[kOutlierRows][kOutlierColumns + 1];
  __shared__ float activations[kOutlierTokens][kOutlierColumns + 1];
  const int x = threadIdx.x % kOutlierRows, y = threadIdx.x / kOutlierRows;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * kOutlierRows;
  const std::int64_t first_token = static_cast<std::int64_t>(blockIdx.y) * kOutlierTokens;
  const std::int64_t count = *p.num_outliers;
  float sum[kOutlierTokens / 4] = {};
  for (std::int64_t begin = 0; begin < count; begin += kOutlierColumns) {
    for (int i = threadIdx.x; i < kOutlierRows * kOutlierColumns; i += kOutlierThreads) {
      const std::int64_t row = first_row + i / kOutlierColumns, at = begin + i % kOutlierColumns;
      weights[i / kOutlierColumns][i % kOutlierColumns] =
          row < p.rows && at < count
              ? load_real(p.weights, p.weight_type, row * p.weight_stride + p.list[at])
              : 0;
    }
    for (int i = threadIdx.x; i < kOutlierTokens * kOutlierColumns; i += kOutlierThreads) {
      const std::int64_t token = first_token + i / kOutlierColumns,
                         at = begin + i % kOutlierColumns;
      activations[i / kOutlierColumns][i % kOutlierColumns] =
          token < p.tokens && at < count ? load_real(p.activations, p.activation_type,
                                                     token * p.activation_stride + p.list[at])
                                         : 0;
    }
    sync_block();
    for (int k = 0; k < kOutlierColumns; ++k)
      for (int j = 0; j < kOutlierTokens / 4; ++j)
        sum[j] += weights[x][k] * activations[y + 4 * j][k];
    sync_block();
  }
  for (int j = 0; j < kOutlierTokens / 4; ++j) {
    const std::int64_t row = first_row + x, token = first_token + y + 4 * j;
    if (row < p.rows && token < p.tokens) p.out[token * p.out_stride + row] += sum[j];
  }
}

}  // namespace tessera::kernels::cuda
