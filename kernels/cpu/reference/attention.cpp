// Attention in double, a row at a time and in two passes over its keys: the largest score first,
// since there is nowhere to keep all scores.
#include <cmath>
#include <limits>

#include "../attention_task.h"
#include "reference.h"

namespace tessera::kernels::cpu::reference {
namespace {

/// Number `i` of a token's key or value.
double number(const KvBlocks& b, const void* all, const float* scale, std::int64_t token,
              std::int64_t i) {
  const std::int64_t at = token * b.head_dim + i;
  switch (b.type) {
    case KvType::f32:
      return load(all, Real::f32, at);
    case KvType::f16:
      return load(all, Real::f16, at);
    case KvType::bf16:
      return load(all, Real::bf16, at);
    case KvType::int8:
      return static_cast<const std::int8_t*>(all)[at] * double{scale[token]};
  }
  return 0;
}

double score(const AttentionTask& t, std::int64_t row, std::int64_t key) {
  const std::int64_t token = t.token(key);
  const float* query = t.query(row);
  double sum = 0;
  for (std::int64_t i = 0; i < t.blocks.head_dim; ++i) {
    sum += query[i] * number(t.blocks, t.blocks.keys, t.blocks.key_scale, token, i);
  }
  sum *= t.form.scale;
  if (t.form.softcap > 0) sum = t.form.softcap * std::tanh(sum / t.form.softcap);
  if (t.form.alibi_slopes != nullptr) {
    sum += t.form.alibi_slopes[t.head(row)] * static_cast<double>(key - t.position(row));
  }
  return sum;
}

}  // namespace

void attention(const AttentionTask& t) {
  double values[kMaxHeadDim];
  for (std::int64_t row = t.rows.first; row < t.rows.last; ++row) {
    double largest = -std::numeric_limits<double>::infinity(), total = 0;
    for (std::int64_t key = t.first_key(row); key <= t.position(row); ++key) {
      const double s = score(t, row, key);
      if (s > largest) largest = s;
    }
    if (t.form.sinks != nullptr) total = std::exp(t.form.sinks[t.head(row)] - largest);
    for (std::int64_t i = 0; i < t.blocks.head_dim; ++i) values[i] = 0;
    for (std::int64_t key = t.first_key(row); key <= t.position(row); ++key) {
      const double p = std::exp(score(t, row, key) - largest);
      total += p;
      for (std::int64_t i = 0; i < t.blocks.head_dim; ++i) {
        values[i] += p * number(t.blocks, t.blocks.values, t.blocks.value_scale, t.token(key), i);
      }
    }
    for (std::int64_t i = 0; i < t.blocks.head_dim; ++i) {
      t.output(row)[i] = static_cast<float>(values[i] / total);
    }
  }
}

}  // namespace tessera::kernels::cpu::reference
