#pragma once

#include "../attention_task.h"
#include "math.h"
#include "shuffle.h"

// Attention in tiles of keys with a running maximum (Dao et al., 2022, algorithm 1), for vectors of
// Isa::kLanes floats. A tile's keys, and then its values, become f32 once for all rows of the task.
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

template <class Isa>
class Attention {
 public:
  static void run(const AttentionTask& task) {
    alignas(64) float queries[kTaskRows * kMaxHeadDim], sums[kTaskRows * kMaxHeadDim];
    alignas(64) float tile[kTileKeys * kMaxHeadDim], scores[kTaskRows * kTileKeys];
    alignas(64) float weights[kTaskRows * kLanes];
    float largest[kTaskRows];
    Attention a(task, queries, sums, tile, scores, weights, largest);
    a.work();
  }

 private:
  static constexpr int kLanes = Isa::kLanes;
  using Floats = typename Isa::Floats;
  using M = Math<Isa>;

  Attention(const AttentionTask& t, float* q, float* o, float* kv, float* s, float* w, float* m)
      : task(t),
        num_rows(t.rows.last - t.rows.first),
        dims((t.blocks.head_dim + kLanes - 1) / kLanes * kLanes),
        queries(q),
        sums(o),
        tile(kv),
        scores(s),
        weights(w),
        largest(m) {}

  void work() {
    prepare();
    const std::int64_t last = task.position(task.rows.last - 1);
    std::int64_t base = task.first_key(task.rows.first) / kTileKeys * kTileKeys;
    for (; base <= last; base += kTileKeys) {
      const SeenKeys any = {seen(0, base).first, seen(num_rows - 1, base).last};
      Rows rows = {0, num_rows};  // those that see a key
      while (seen(rows.first, base).last == 0) ++rows.first;
      while (seen(rows.last - 1, base).first == kTileKeys) --rows.last;
      load(task.blocks.keys, base, any);
      score(rows, any);
      soften(rows, base, any);
      load(task.blocks.values, base, any);
      for (std::int64_t row = rows.first; row < rows.last;) {
        const SeenKeys keys = seen(row, base);
        std::int64_t end = row + 1;
        while (end < rows.last && seen(end, base) == keys) ++end;
        add_values({row, end}, keys);
        row = end;
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

  /// tile[key][dims] for the keys of a tile that any row sees, and zeros up to whole vectors.
  void load(const void* all, std::int64_t base, SeenKeys keys) {
    switch (task.blocks.type) {
      case KvType::f32:
        return load_as<KvType::f32>(all, base, keys);
      case KvType::f16:
        return load_as<KvType::f16>(all, base, keys);
      case KvType::bf16:
        return load_as<KvType::bf16>(all, base, keys);
      case KvType::int8:
        return load_as<KvType::int8>(all, base, keys);
    }
  }

  template <KvType Type>
  void load_as(const void* all, std::int64_t base, SeenKeys keys) {
    const std::int64_t head_dim = task.blocks.head_dim, block_size = task.blocks.block_size;
    for (std::int64_t key = keys.first; key < keys.last;) {
      const std::int64_t left = block_size - (base + key) % block_size;
      const std::int64_t count = left < keys.last - key ? left : keys.last - key;
      const char* from =
          static_cast<const char*>(all) + task.token(base + key) * head_dim * size_of(Type);
      float* to = tile + key * dims;
      if (head_dim == dims) {
        widen<Type>(from, count * dims, to);
      } else {
        for (std::int64_t i = 0; i < count; ++i) {
          widen<Type>(from + i * head_dim * size_of(Type), head_dim, to + i * dims);
        }
      }
      key += count;
    }
    for (std::int64_t i = keys.first / 16 * 16 * dims; i < keys.first * dims; ++i) tile[i] = 0;
    const std::int64_t end = (keys.last + 15) / 16 * 16 * dims;
    for (std::int64_t i = keys.last * dims; i < end; ++i) tile[i] = 0;
  }

  /// Numbers to f32, with zeros up to a whole vector.
  template <KvType Type>
  TESSERA_KERNELS_INLINE static void widen(const char* from, std::int64_t count, float* to) {
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      write(to + i, widen<Type>(from + i * size_of(Type)));
    }
    if (i == count) return;
    alignas(64) char rest[kLanes * 4] = {};
    __builtin_memcpy(rest, from + i * size_of(Type),
                     static_cast<std::size_t>((count - i) * size_of(Type)));
    write(to + i, widen<Type>(rest));
  }

  template <KvType Type>
  TESSERA_KERNELS_INLINE static Floats widen(const char* from) {
    if constexpr (Type == KvType::f32) return read<Floats>(from);
    if constexpr (Type == KvType::f16) return Isa::from_f16(from);
    if constexpr (Type == KvType::bf16) return Isa::from_bf16(from);
    if constexpr (Type == KvType::int8) return Isa::from_int8(from);
  }

  /// scores[row][key], without the scales of int8 keys.
  void score(Rows rows, SeenKeys keys) {
    constexpr int kMost = kLanes / 4;  // rows whose sums with 4 keys stay in registers
    std::int64_t row = rows.first;
    for (; row + kMost <= rows.last; row += kMost) score_rows<kMost>(row, keys);
    if constexpr (kMost > 2) {
      for (; row + 2 <= rows.last; row += 2) score_rows<2>(row, keys);
    }
    for (; row < rows.last; ++row) score_rows<1>(row, keys);
  }

  template <int NumRows>
  void score_rows(std::int64_t row, SeenKeys keys) {
    constexpr int kKeys = kLanes / NumRows;
    for (std::int64_t key = keys.first / kKeys * kKeys; key < keys.last; key += kKeys) {
      const float* q = queries + row * dims;
      const float* k = tile + key * dims;
      Floats part[kLanes] = {};
      for (std::int64_t d = 0; d < dims; d += kLanes) {
        Floats query[NumRows];
#pragma GCC unroll 4
        for (int r = 0; r < NumRows; ++r) query[r] = read<Floats>(q + r * dims + d);
#pragma GCC unroll 16
        for (int i = 0; i < kKeys; ++i) {
          const Floats numbers = read<Floats>(k + i * dims + d);
#pragma GCC unroll 4
          for (int r = 0; r < NumRows; ++r) {
            Floats& to = part[place<kKeys>(r, i)];
            to = Isa::fma(query[r], numbers, to);
          }
        }
      }
      const Floats result = sums_of_lanes<kLanes>(part);
#pragma GCC unroll 4
      for (int r = 0; r < NumRows; ++r) {
        __builtin_memcpy(scores + (row + r) * kTileKeys + key,
                         reinterpret_cast<const char*>(&result) + r * kKeys * 4, kKeys * 4);
      }
    }
  }

  /// Where sums_of_lanes() wants the sums of a row and key so that its lane is row * kKeys + key.
  template <int Keys>
  TESSERA_KERNELS_INLINE static constexpr int place(int row, int key) {
    const int lane = row * Keys + key;
    return lane % 4 * (kLanes / 4) + lane / 4;
  }

  /// Scores become weights of the values: e^(score - largest so far); the sums so far are reduced
  /// to the new largest.
  void soften(Rows rows, std::int64_t base, SeenKeys keys) {
    alignas(64) float key_scale[kTileKeys] = {}, value_scale[kTileKeys] = {};
    if (task.blocks.type == KvType::int8) {
      for (std::int64_t key = keys.first; key < keys.last; ++key) {
        const std::int64_t token = task.token(base + key);
        key_scale[key] = task.blocks.key_scale[token];
        value_scale[key] = task.blocks.value_scale[token];
      }
    }
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      soften_row(row, base, key_scale, value_scale);
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

  /// Adds weights times values to the sums of rows that see the same keys.
  void add_values(Rows rows, SeenKeys keys) {
    std::int64_t row = rows.first;
    for (; row + 4 <= rows.last; row += 4) add_to_rows<4>(row, keys);
    switch (rows.last - row) {
      case 3:
        return add_to_rows<3>(row, keys);
      case 2:
        return add_to_rows<2>(row, keys);
      case 1:
        return add_to_rows<1>(row, keys);
      default:
        return;
    }
  }

  template <int NumRows>
  void add_to_rows(std::int64_t row, SeenKeys keys) {
    std::int64_t d = 0;
    if constexpr (8 * NumRows <= Isa::kSums) {
      for (; d + 8 * kLanes <= dims; d += 8 * kLanes) add_to_tile<NumRows, 8>(row, d, keys);
    }
    if constexpr (4 * NumRows <= Isa::kSums) {
      for (; d + 4 * kLanes <= dims; d += 4 * kLanes) add_to_tile<NumRows, 4>(row, d, keys);
    }
    for (; d + 2 * kLanes <= dims; d += 2 * kLanes) add_to_tile<NumRows, 2>(row, d, keys);
    if (d < dims) add_to_tile<NumRows, 1>(row, d, keys);
  }

  template <int NumRows, int Vectors>
  void add_to_tile(std::int64_t row, std::int64_t d, SeenKeys keys) {
    Floats part[NumRows][Vectors];
    float* to = sums + row * dims + d;
#pragma GCC unroll 8
    for (int r = 0; r < NumRows; ++r) {
#pragma GCC unroll 8
      for (int i = 0; i < Vectors; ++i) part[r][i] = read<Floats>(to + r * dims + i * kLanes);
    }
    const float* weight = scores + row * kTileKeys;
    for (std::int64_t key = keys.first; key < keys.last; ++key) {
      const float* value = tile + key * dims + d;
      Floats v[Vectors];
#pragma GCC unroll 8
      for (int i = 0; i < Vectors; ++i) v[i] = read<Floats>(value + i * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < NumRows; ++r) {
        const Floats w = M::number(weight[r * kTileKeys + key]);
#pragma GCC unroll 8
        for (int i = 0; i < Vectors; ++i) part[r][i] = Isa::fma(w, v[i], part[r][i]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < NumRows; ++r) {
#pragma GCC unroll 8
      for (int i = 0; i < Vectors; ++i) write(to + r * dims + i * kLanes, part[r][i]);
    }
  }

  void finish() const {
    for (std::int64_t row = 0; row < num_rows; ++row) {
      const float total = sum_of_lanes<kLanes>(read<Floats>(weights + row * kLanes));
      float* to = task.output(task.rows.first + row);
      for (std::int64_t i = 0; i < task.blocks.head_dim; ++i) to[i] = sums[row * dims + i] / total;
    }
  }

  const AttentionTask& task;
  const std::int64_t num_rows, dims;  // dims: head_dim in whole vectors
  float* queries;                     // [num_rows][dims], times the scale
  float* sums;                        // [num_rows][dims] of weights times values
  float* tile;                        // [kTileKeys][dims] keys, then values
  float* scores;                      // [num_rows][kTileKeys], then weights
  float* weights;                     // [num_rows][kLanes] sums of the weights
  float* largest;                     // [num_rows] scores so far
};

}  // namespace
}  // namespace tessera::kernels::cpu
