#pragma once

#include "../attention_task.h"
#include "math.h"
#include "shuffle.h"

// Attention in tiles of keys with a running maximum (Dao et al., 2022, algorithm 1), for vectors of
// Isa::kLanes floats.
//
// Every row has the same arithmetic whatever rows are beside it. A score is `kLanes` sums over
// every kLanes-th dimension, added up in one order (shuffle.h); an output is one sum over the keys
// in their order. Kernels for several rows only share what they load. Keys that a row does not see
// are never multiplied by 0: a value of theirs may be Inf.
namespace tessera::kernels::cpu {
namespace {

inline constexpr int kTileKeys = 64;

/// The keys of a tile that a row sees: [first, last), empty for a row that sees none.
struct SeenKeys {
  std::int64_t first, last;
  TESSERA_KERNELS_INLINE bool operator==(const SeenKeys& other) const {
    return first == other.first && last == other.last;
  }
};

/// 64 positions of a sequence, as far as any row of the task sees them.
struct KeyTile {
  std::int64_t base;              ///< position of the first
  SeenKeys keys;                  ///< those that some row sees
  std::int64_t token[kTileKeys];  ///< AttentionTask::token() of those
  const char* key[kTileKeys];     ///< of all; where none is seen that of another, to be read only
  const char* value[kTileKeys];
};

template <class Isa>
class Attention {
 public:
  static void run(const AttentionTask& task) {
    alignas(64) float queries[kTaskRows * kMaxHeadDim], sums[kTaskRows * kMaxHeadDim];
    alignas(64) float numbers[kTileKeys * kMaxHeadDim], scores[kTaskRows * kTileKeys];
    alignas(64) float weights[kTaskRows * kLanes];
    float largest[kTaskRows];
    Attention a(task, queries, sums, numbers, scores, weights, largest);
    switch (task.blocks.type) {
      case KvType::f32:
        return a.template work<KvType::f32>();
      case KvType::f16:
        return a.template work<KvType::f16>();
      case KvType::bf16:
        return a.template work<KvType::bf16>();
      case KvType::int8:
        return a.template work<KvType::int8>();
    }
  }

 private:
  static constexpr int kLanes = Isa::kLanes;
  static constexpr std::int64_t kFewRows = 4;  // for which numbers become f32 in registers
  using Floats = typename Isa::Floats;
  using M = Math<Isa>;

  Attention(const AttentionTask& t, float* q, float* o, float* kv, float* s, float* w, float* m)
      : task(t),
        num_rows(t.rows.last - t.rows.first),
        dims((t.blocks.head_dim + kLanes - 1) / kLanes * kLanes),
        queries(q),
        sums(o),
        numbers(kv),
        scores(s),
        weights(w),
        largest(m) {}

  template <KvType Type>
  void work() {
    prepare();
    const bool in_place = num_rows <= kFewRows && task.blocks.head_dim == dims;
    const std::int64_t last = task.position(task.rows.last - 1);
    KeyTile tiles[2];
    tiles[0].base = task.first_key(task.rows.first) / kTileKeys * kTileKeys;
    find<Type>(tiles[0]);
    for (int i = 0; tiles[i].base <= last; i = 1 - i) {
      KeyTile &tile = tiles[i], &next = tiles[1 - i];
      next.base = tile.base + kTileKeys;
      if (next.base <= last) find<Type>(next);
      Rows rows = {0, num_rows};  // those that see a key
      while (seen(rows.first, tile.base).last == 0) ++rows.first;
      while (seen(rows.last - 1, tile.base).first == kTileKeys) --rows.last;
      if (in_place) {
        score<Type>(rows, tile, tile.value);
        soften(rows, tile);
        add_values<Type>(rows, tile, next.base <= last ? next.key : nullptr);
      } else {
        widen_all<Type>(tile.keys, tile.key);
        score<KvType::f32>(rows, tile, nullptr);
        soften(rows, tile);
        widen_all<Type>(tile.keys, tile.value);
        add_values<KvType::f32>(rows, tile, nullptr);
      }
    }
    finish();
  }

  /// Of a row of the task, counted from its first.
  TESSERA_KERNELS_INLINE SeenKeys seen(std::int64_t row, std::int64_t base) const {
    const std::int64_t first = task.first_key(task.rows.first + row) - base;
    const std::int64_t last = task.position(task.rows.first + row) + 1 - base;
    return {clamp(first), clamp(last)};
  }
  TESSERA_KERNELS_INLINE static std::int64_t clamp(std::int64_t key) {
    return key < 0 ? 0 : key > kTileKeys ? kTileKeys : key;
  }

  void prepare() {
    for (std::int64_t row = 0; row < num_rows; ++row) {
      const float* from = task.query(task.rows.first + row);
      float* to = queries + row * dims;
      for (std::int64_t i = 0; i < task.blocks.head_dim; ++i) to[i] = from[i] * task.form.scale;
      for (std::int64_t i = task.blocks.head_dim; i < dims; ++i) to[i] = 0;
      for (std::int64_t i = 0; i < dims; ++i) sums[row * dims + i] = 0;
      for (std::int64_t i = 0; i < kLanes; ++i) weights[row * kLanes + i] = 0;
      largest[row] = -__builtin_inff();
    }
  }

  /// Fills in what follows from a tile's base.
  template <KvType Type>
  void find(KeyTile& tile) const {
    tile.keys = {seen(0, tile.base).first, seen(num_rows - 1, tile.base).last};
    const std::int64_t block_size = task.blocks.block_size;
    for (std::int64_t key = tile.keys.first; key < tile.keys.last;) {
      const std::int64_t token = task.token(tile.base + key), start = key;
      const std::int64_t left = key + block_size - token % block_size;
      for (; key < tile.keys.last && key < left; ++key) tile.token[key] = token + key - start;
    }
    const std::int64_t bytes = task.blocks.head_dim * size_of(Type);
    for (std::int64_t key = 0; key < kTileKeys; ++key) {
      const bool is_seen = key >= tile.keys.first && key < tile.keys.last;
      const std::int64_t at = tile.token[is_seen ? key : tile.keys.first] * bytes;
      tile.key[key] = static_cast<const char*>(task.blocks.keys) + at;
      tile.value[key] = static_cast<const char*>(task.blocks.values) + at;
    }
  }

  /// The keys or values of a tile as f32, with zeros up to whole vectors; `at` then says where.
  template <KvType Type>
  void widen_all(SeenKeys keys, const char** at) {
    for (std::int64_t key = keys.first; key < keys.last; ++key) {
      float* to = numbers + key * dims;
      std::int64_t i = 0;
      for (; i + kLanes <= task.blocks.head_dim; i += kLanes) {
        write(to + i, widen<Type>(at[key], i));
      }
      if (i < dims) {
        alignas(64) char rest[kLanes * 4] = {};
        const auto count = static_cast<std::size_t>(task.blocks.head_dim - i);
        __builtin_memcpy(rest, at[key] + i * size_of(Type), count * size_of(Type));
        write(to + i, widen<Type>(rest, 0));
      }
    }
    for (std::int64_t key = 0; key < kTileKeys; ++key) {
      const bool is_seen = key >= keys.first && key < keys.last;
      at[key] = reinterpret_cast<const char*>(numbers + (is_seen ? key : keys.first) * dims);
    }
  }

  /// A vector from element i of a row.
  template <KvType Type>
  TESSERA_KERNELS_INLINE static Floats widen(const char* row, std::int64_t i) {
    const char* from = row + i * size_of(Type);
    if constexpr (Type == KvType::f32) return read<Floats>(from);
    if constexpr (Type == KvType::f16) return Isa::from_f16(from);
    if constexpr (Type == KvType::bf16) return Isa::from_bf16(from);
    if constexpr (Type == KvType::int8) return Isa::from_int8(from);
  }

  /// A row that is needed soon: blocks lie anywhere, so that no CPU can know.
  template <KvType Type>
  TESSERA_KERNELS_INLINE void fetch(const char* row) const {
    const std::int64_t bytes = dims * size_of(Type);
    for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(row + i);
  }

  /// scores[row][key], without the scales of int8 keys. Fetches rows of `ahead` on the way.
  template <KvType Type>
  void score(Rows rows, const KeyTile& tile, const char* const* ahead) {
    constexpr int kMost = kLanes == 16 ? 4 : 2;  // rows whose sums with 4 keys stay in registers
    std::int64_t row = rows.first;
    for (; row + kMost <= rows.last; row += kMost, ahead = nullptr) {
      score_rows<kMost, Type>(row, tile, ahead);
    }
    if (row + 3 == rows.last) return score_rows < 3 < kMost ? 3 : 1, Type > (row, tile, ahead);
    if (row + 2 == rows.last) return score_rows < 2 < kMost ? 2 : 1, Type > (row, tile, ahead);
    if (row + 1 == rows.last) return score_rows<1, Type>(row, tile, ahead);
  }

  // Not inlined: the compiler then finds registers for everything in it.
  template <int NumRows, KvType Type>
  [[gnu::noinline]] void score_rows(std::int64_t row, const KeyTile& tile,
                                    const char* const* ahead) {
    const float* q = queries + row * dims;
    std::int64_t key = tile.keys.first / kLanes * kLanes;
    for (; key < tile.keys.last; key += kLanes) {
      Floats fours[NumRows][kLanes / 4];
#pragma GCC unroll 4
      for (int four = 0; four < kLanes / 4; ++four) {
        const char* const* at = tile.key + key + 4 * four;
        Floats part[NumRows][4] = {};
        for (std::int64_t d = 0; d < dims; d += kLanes) {
          Floats k[4];
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) k[i] = widen<Type>(at[i], d);
#pragma GCC unroll 4
          for (int r = 0; r < NumRows; ++r) {
            const Floats query = read<Floats>(q + r * dims + d);
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i) part[r][i] = Isa::fma(query, k[i], part[r][i]);
          }
        }
#pragma GCC unroll 4
        for (int r = 0; r < NumRows; ++r) fours[r][four] = sums_of_fours<kLanes>(part[r]);
        if (ahead != nullptr) {
          for (int i = 0; i < 4; ++i) fetch<Type>(ahead[key + 4 * four + i]);
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < NumRows; ++r) {
        write(scores + (row + r) * kTileKeys + key, sums_of_all<kLanes>(fours[r]));
      }
    }
  }

  /// Scores become weights of the values: e^(score - largest so far); the sums so far are reduced
  /// to the new largest.
  void soften(Rows rows, const KeyTile& tile) {
    alignas(64) float key_scale[kTileKeys] = {}, value_scale[kTileKeys] = {};
    if (task.blocks.type == KvType::int8) {
      for (std::int64_t key = tile.keys.first; key < tile.keys.last; ++key) {
        key_scale[key] = task.blocks.key_scale[tile.token[key]];
        value_scale[key] = task.blocks.value_scale[tile.token[key]];
      }
    }
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      soften_row(row, tile.base, key_scale, value_scale);
    }
  }

  void soften_row(std::int64_t row, std::int64_t base, const float* key_scale,
                  const float* value_scale) {
    constexpr int kVectors = kTileKeys / kLanes;
    const bool is_int8 = task.blocks.type == KvType::int8;
    const SeenKeys keys = seen(row, base);
    float* s = scores + row * kTileKeys;
    Floats v[kVectors], top = M::number(largest[row]);
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) {
      v[i] = read<Floats>(s + i * kLanes);
      if (is_int8) v[i] *= read<Floats>(key_scale + i * kLanes);
    }
    if (task.form.softcap > 0) cap(v);
    if (task.form.alibi_slopes != nullptr) add_alibi(row, base, v);
    if (keys.first > 0 || keys.last < kTileKeys) hide(keys, v);
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) top = Isa::max(top, v[i]);
    const float now = largest_lane<kLanes>(top), before = largest[row];
    const Floats zero = M::number(now == -__builtin_inff() ? 0 : now);
    Floats total = read<Floats>(weights + row * kLanes);
    if (now != before) {
      const Floats shrink = M::exp(M::number(before) - zero);
      total *= shrink;
      for (std::int64_t d = 0; d < dims; d += kLanes) {
        write(sums + row * dims + d, read<Floats>(sums + row * dims + d) * shrink);
      }
      largest[row] = now;
    }
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) {
      v[i] = M::exp(v[i] - zero);
      total += v[i];
      if (is_int8) v[i] *= read<Floats>(value_scale + i * kLanes);
      write(s + i * kLanes, v[i]);
    }
    write(weights + row * kLanes, total);
  }

  void cap(Floats* v) const {
    const Floats most = M::number(task.form.softcap);
    for (int i = 0; i < kTileKeys / kLanes; ++i) v[i] = most * M::tanh(v[i] / most);
  }

  /// The numbers of the lanes of vector i of a tile.
  TESSERA_KERNELS_INLINE static typename Simd<kLanes>::Ints lanes(int i) {
    typename Simd<kLanes>::Ints index;
#pragma GCC unroll 16
    for (int lane = 0; lane < kLanes; ++lane) index[lane] = lane;
    return index + i * kLanes;
  }

  void add_alibi(std::int64_t row, std::int64_t base, Floats* v) const {
    const std::int64_t at = task.rows.first + row;
    const auto distance = static_cast<std::int32_t>(base - task.position(at));
    const Floats slope = M::number(task.form.alibi_slopes[task.head(at)]);
    for (int i = 0; i < kTileKeys / kLanes; ++i) {
      v[i] = Isa::fma(slope, __builtin_convertvector(lanes(i) + distance, Floats), v[i]);
    }
  }

  static void hide(SeenKeys keys, Floats* v) {
    const auto first = static_cast<std::int32_t>(keys.first);
    const auto last = static_cast<std::int32_t>(keys.last);
    for (int i = 0; i < kTileKeys / kLanes; ++i) {
      const auto index = lanes(i);
      v[i] = ((index >= first) & (index < last)) != 0 ? v[i] : M::number(-__builtin_inff());
    }
  }

  /// Adds weights times values to the sums, for rows that see the same keys together.
  template <KvType Type>
  void add_values(Rows rows, const KeyTile& tile, const char* const* ahead) {
    for (std::int64_t row = rows.first; row < rows.last;) {
      const SeenKeys keys = seen(row, tile.base);
      std::int64_t end = row + 1;
      while (end < rows.last && seen(end, tile.base) == keys) ++end;
      for (; row + 4 <= end; row += 4) add_to_rows<4, Type>(row, keys, tile.value, ahead);
      if (row + 3 == end) add_to_rows<3, Type>(row, keys, tile.value, ahead);
      if (row + 2 == end) add_to_rows<2, Type>(row, keys, tile.value, ahead);
      if (row + 1 == end) add_to_rows<1, Type>(row, keys, tile.value, ahead);
      row = end;
    }
  }

  template <int NumRows, KvType Type>
  void add_to_rows(std::int64_t row, SeenKeys keys, const char* const* values,
                   const char* const* ahead) {
    std::int64_t d = 0;
    if constexpr (8 * NumRows <= Isa::kSums) {
      for (; d + 8 * kLanes <= dims; d += 8 * kLanes, ahead = nullptr) {
        add_to_tile<NumRows, 8, Type>(row, d, keys, values, ahead);
      }
    }
    if constexpr (4 * NumRows <= Isa::kSums) {
      for (; d + 4 * kLanes <= dims; d += 4 * kLanes, ahead = nullptr) {
        add_to_tile<NumRows, 4, Type>(row, d, keys, values, ahead);
      }
    }
    for (; d + 2 * kLanes <= dims; d += 2 * kLanes, ahead = nullptr) {
      add_to_tile<NumRows, 2, Type>(row, d, keys, values, ahead);
    }
    if (d < dims) add_to_tile<NumRows, 1, Type>(row, d, keys, values, ahead);
  }

  template <int NumRows, int Vectors, KvType Type>
  [[gnu::noinline]] void add_to_tile(std::int64_t row, std::int64_t d, SeenKeys keys,
                                     const char* const* values, const char* const* ahead) {
    Floats part[NumRows][Vectors];
    float* to = sums + row * dims + d;
#pragma GCC unroll 8
    for (int r = 0; r < NumRows; ++r) {
#pragma GCC unroll 8
      for (int i = 0; i < Vectors; ++i) part[r][i] = read<Floats>(to + r * dims + i * kLanes);
    }
    const float* weight = scores + row * kTileKeys;
    for (std::int64_t key = keys.first; key < keys.last; ++key) {
      Floats v[Vectors];
#pragma GCC unroll 8
      for (int i = 0; i < Vectors; ++i) v[i] = widen<Type>(values[key], d + i * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < NumRows; ++r) {
        const Floats w = M::number(weight[r * kTileKeys + key]);
#pragma GCC unroll 8
        for (int i = 0; i < Vectors; ++i) part[r][i] = Isa::fma(w, v[i], part[r][i]);
      }
      if (ahead != nullptr) fetch<Type>(ahead[key]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < NumRows; ++r) {
#pragma GCC unroll 8
      for (int i = 0; i < Vectors; ++i) write(to + r * dims + i * kLanes, part[r][i]);
    }
  }

  void finish() const {
    for (std::int64_t row = 0; row < num_rows; ++row) {
      float total = sum_of_lanes<kLanes>(read<Floats>(weights + row * kLanes));
      if (task.form.sinks != nullptr) {
        const float sink = task.form.sinks[task.head(task.rows.first + row)];
        total += M::exp(M::number(sink - largest[row]))[0];
      }
      float* to = task.output(task.rows.first + row);
      for (std::int64_t i = 0; i < task.blocks.head_dim; ++i) to[i] = sums[row * dims + i] / total;
    }
  }

  const AttentionTask& task;
  const std::int64_t num_rows, dims;  // dims: head_dim in whole vectors
  float* queries;                     // [num_rows][dims], times the scale
  float* sums;                        // [num_rows][dims] of weights times values
  float* numbers;                     // [kTileKeys][dims] keys, then values
  float* scores;                      // [num_rows][kTileKeys], then weights
  float* weights;                     // [num_rows][kLanes] sums of the weights
  float* largest;                     // [num_rows] scores so far
};

}  // namespace
}  // namespace tessera::kernels::cpu
