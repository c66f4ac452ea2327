#pragma once

#include <map>
#include <utility>

#include "support.h"
#include "tessera/kernels/attention.h"

// A cache of keys and values for the tests of attention, and attention as it is defined.
namespace tessera::kernels::test {

inline std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

struct CacheShape {
  KvType type = KvType::f32;
  std::int64_t block_size = 16, num_kv_heads = 2, head_dim = 64;
};

/// Sequences of random keys and values in blocks at random places.
class KvCache {
 public:
  KvCache(const CacheShape& shape, const std::vector<std::int64_t>& lengths, std::uint64_t stream)
      : tokens(lengths) {
    const std::int64_t longest = *std::max_element(tokens.begin(), tokens.end());
    max_blocks = (longest + shape.block_size - 1) / shape.block_size;
    const std::int64_t num = max_blocks * static_cast<std::int64_t>(tokens.size()) + 3;
    blocks = {nullptr,       nullptr, nullptr,          nullptr,
              shape.type,    num,     shape.block_size, shape.num_kv_heads,
              shape.head_dim};
    keys.assign(index(kv_bytes(blocks)), 0x7f);  // unused places: NaN in every type of number
    values = keys;
    key_scale.assign(index(num * shape.num_kv_heads * shape.block_size), NAN);
    value_scale = key_scale;
    blocks.keys = keys.data();
    blocks.values = values.data();
    if (shape.type == KvType::int8) {
      blocks.key_scale = key_scale.data();
      blocks.value_scale = value_scale.data();
    }
    for (std::int64_t i = 0; i < num; ++i) table.push_back(static_cast<std::int32_t>(i));
    std::mt19937_64 random(seed() + stream);
    std::shuffle(table.begin(), table.end(), random);
    for (std::int64_t s = 0; s < static_cast<std::int64_t>(tokens.size()); ++s) {
      rows_k.push_back(normal_values(tokens[index(s)] * width(), stream + 1000 + index(s)));
      rows_v.push_back(normal_values(tokens[index(s)] * width(), stream + 2000 + index(s)));
      store(s, 0, tokens[index(s)]);
    }
  }

  std::int64_t width() const { return blocks.num_kv_heads * blocks.head_dim; }
  std::int64_t slot(std::int64_t s, std::int64_t position) const {
    return table[index(s * max_blocks + position / blocks.block_size)] * blocks.block_size +
           position % blocks.block_size;
  }
  /// Puts the rows of some tokens (as they are in rows_k and rows_v now) into the cache.
  void store(std::int64_t s, std::int64_t first, std::int64_t last) {
    std::vector<std::int64_t> slots;
    for (std::int64_t p = 0; p < last; ++p) slots.push_back(slot(s, p));
    ASSERT_EQ(store_kv(rows_k[index(s)].data(), rows_v[index(s)].data(), width(), {first, last},
                       slots.data(), blocks),
              Status::ok);
  }

  /// Queries of a sequence's tokens, [token][stride]: a token has the same in every batch.
  const std::vector<float>& queries_of(std::size_t s, std::int64_t stride,
                                       std::uint64_t stream) const {
    std::vector<float>& rows = queries_[{stride, stream}];
    if (rows.empty()) rows = normal_values(tokens[s] * stride, stream);
    return rows;
  }

  /// What the cache holds for a token: of its key, or of its value.
  double number(bool key, std::int64_t s, std::int64_t position, std::int64_t head,
                std::int64_t i) const {
    const std::int64_t at = slot(s, position), size = blocks.block_size;
    const std::int64_t token = (at / size * blocks.num_kv_heads + head) * size + at % size;
    const unsigned char* from = key ? keys.data() : values.data();
    const std::int64_t element = token * blocks.head_dim + i;
    std::uint16_t bits = 0;
    switch (blocks.type) {
      case KvType::f32: {
        float value;
        std::memcpy(&value, from + 4 * element, 4);
        return value;
      }
      case KvType::f16:
        std::memcpy(&bits, from + 2 * element, 2);
        return f16_to_f32(bits);
      case KvType::bf16:
        std::memcpy(&bits, from + 2 * element, 2);
        return bf16_to_f32(bits);
      case KvType::int8:
        return static_cast<std::int8_t>(from[element]) *
               double{(key ? key_scale : value_scale)[index(token)]};
    }
    return NAN;
  }

  std::vector<std::int64_t> tokens;
  std::vector<std::vector<float>> rows_k, rows_v;  ///< [token][width()]
  std::vector<unsigned char> keys, values;
  std::vector<float> key_scale, value_scale;
  std::vector<std::int32_t> table;
  KvBlocks blocks{};
  std::int64_t max_blocks = 0;

 private:
  mutable std::map<std::pair<std::int64_t, std::uint64_t>, std::vector<float>> queries_;
};

/// Some tokens of each sequence of a cache: [first, last) of sequence s are its queries.
struct Piece {
  std::int64_t first, last;
};

class Batch {
 public:
  Batch(const KvCache& cache, const std::vector<Piece>& of, std::int64_t num_heads,
        std::uint64_t stream)
      : pieces(of), stride(num_heads * cache.blocks.head_dim + 3) {
    start.push_back(0);
    for (std::size_t s = 0; s < pieces.size(); ++s) {
      const std::vector<float>& all = cache.queries_of(s, stride, stream + s);
      queries.insert(queries.end(), all.begin() + pieces[s].first * stride,
                     all.begin() + pieces[s].last * stride);
      start.push_back(start.back() + static_cast<std::int32_t>(pieces[s].last - pieces[s].first));
      context.push_back(static_cast<std::int32_t>(pieces[s].last));
    }
    ragged = {static_cast<std::int64_t>(pieces.size()), start.data(), context.data(),
              cache.table.data(), cache.max_blocks};
  }
  Batch(const Batch&) = delete;

  std::int64_t num_tokens() const { return start.back(); }

  std::vector<Piece> pieces;
  std::int64_t stride;
  std::vector<float> queries;
  std::vector<std::int32_t> start, context;
  RaggedBatch ragged{};
};

/// The output of one query head as attention is defined, in double.
inline std::vector<double> expected_head(const KvCache& cache, const AttentionForm& form,
                                         const float* query, std::int64_t s, std::int64_t position,
                                         std::int64_t head) {
  const std::int64_t kv = head / (form.num_heads / cache.blocks.num_kv_heads);
  const std::int64_t dims = cache.blocks.head_dim;
  const std::int64_t first =
      std::max(form.window > 0 ? std::max<std::int64_t>(0, position + 1 - form.window) : 0,
               form.chunk > 0 ? position - position % form.chunk : 0);
  std::vector<double> score, out(index(dims));
  for (std::int64_t key = first; key <= position; ++key) {
    double sum = 0;
    for (std::int64_t i = 0; i < dims; ++i) sum += query[i] * cache.number(true, s, key, kv, i);
    sum *= form.scale;
    if (form.softcap > 0) sum = form.softcap * std::tanh(sum / form.softcap);
    if (form.alibi_slopes != nullptr) {
      sum += form.alibi_slopes[head] * static_cast<double>(key - position);
    }
    score.push_back(sum);
  }
  const double largest = *std::max_element(score.begin(), score.end());
  double total = form.sinks == nullptr ? 0 : std::exp(form.sinks[head] - largest);
  for (double& v : score) total += v = std::exp(v - largest);
  for (std::int64_t key = first; key <= position; ++key) {
    for (std::int64_t i = 0; i < dims; ++i) {
      out[index(i)] += score[index(key - first)] / total * cache.number(false, s, key, kv, i);
    }
  }
  return out;
}

}  // namespace tessera::kernels::test
