// Attention, what stands around it in a decoder, and what it costs to share out a call.
#include "tessera/kernels/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "compare.h"
#include "tessera/kernels/activation.h"
#include "tessera/kernels/norm.h"
#include "tessera/kernels/parallel.h"
#include "tessera/kernels/rope.h"
#include "tessera/kernels/softmax.h"

namespace tessera::kernels::bench {
namespace {

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

std::vector<float> normal_values(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size(count));
  for (float& value : values) value = normal(random);
  return values;
}

/// One sequence of SmolLM2-135M's heads, or others, in blocks at random places; `copies` of it so
/// that they come from memory.
class AttentionBench {
 public:
  AttentionBench(KvType type, std::int64_t head_dim, std::int64_t tokens, std::int64_t copies)
      : context(tokens), dims(head_dim), num_copies(copies) {
    const std::int64_t num_blocks = context / kBlockSize * copies;
    blocks = {nullptr, nullptr, nullptr, nullptr, type, num_blocks, kBlockSize, kKvHeads, dims};
    bytes_of_all.resize(2 * size(kv_bytes(blocks)));
    scales.resize(2 * size(num_blocks * kBlockSize * kKvHeads));
    blocks.keys = bytes_of_all.data();
    blocks.values = bytes_of_all.data() + kv_bytes(blocks);
    blocks.key_scale = scales.data();
    blocks.value_scale = scales.data() + scales.size() / 2;
    table.resize(size(num_blocks));
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), std::mt19937_64(1));
    keys = normal_values(context * kKvHeads * dims, 2);
    values = normal_values(context * kKvHeads * dims, 3);
    queries = normal_values(context * kHeads * dims, 4);
    out.resize(queries.size());
    for (std::int64_t copy = 0; copy < copies; ++copy) store(copy);
    form = {kHeads, 1 / std::sqrt(static_cast<float>(dims)), 0, 0, nullptr};
  }

  /// The last `count` tokens attend to all before them.
  void run(std::int64_t count, std::int64_t copy, int threads) {
    const std::int32_t start[] = {0, static_cast<std::int32_t>(count)};
    const auto tokens = static_cast<std::int32_t>(context);
    const RaggedBatch batch = {1, start, &tokens, table.data() + copy * context / kBlockSize,
                               context / kBlockSize};
    const std::int64_t tasks = num_attention_tasks(batch, blocks, form), stride = kHeads * dims;
    for_slices(threads, tasks, threads == 1 ? tasks : 1, [&](auto first, auto last) {
      paged_attention(queries.data() + (context - count) * stride, stride, batch, form, blocks,
                      {first, last}, out.data() + (context - count) * stride, stride);
    });
  }

  /// Against attention as it is defined, with the keys and values before they were rounded.
  void check_last_token(double tolerance) const {
    double worst = 0;
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const std::int64_t column = head / (kHeads / kKvHeads) * dims;
      const float* query = &queries[size(((context - 1) * kHeads + head) * dims)];
      std::vector<double> score(size(context));
      for (std::int64_t key = 0; key < context; ++key) {
        const float* at = &keys[size(key * kKvHeads * dims + column)];
        score[size(key)] = std::inner_product(at, at + dims, query, 0.0) * double{form.scale};
      }
      double total = 0;
      for (double& s : score) total += s = std::exp(s);
      for (std::int64_t d = 0; d < dims; ++d) {
        double sum = 0;
        for (std::int64_t key = 0; key < context; ++key) {
          sum += score[size(key)] / total * values[size(key * kKvHeads * dims + column + d)];
        }
        worst =
            std::max(worst, std::fabs(sum - out[size(((context - 1) * kHeads + head) * dims + d)]));
      }
    }
    check(worst < tolerance, "attention of the last token, off by " + std::to_string(worst));
  }

  /// Multiplications and additions of a causal prompt.
  double operations() const {
    const double seen = static_cast<double>(context) * static_cast<double>(context + 1) / 2;
    return 4 * seen * static_cast<double>(kHeads * dims);
  }
  double bytes() const { return static_cast<double>(bytes_of_all.size()); }
  std::int64_t copies() const { return num_copies; }
  /// Of the same numbers in the same order, and nothing else.
  std::int64_t plain_sum_of_all() const {
    const std::int64_t head =
        kBlockSize * dims * kv_bytes(blocks) / (blocks.num_blocks * kBlockSize * kKvHeads * dims);
    std::int64_t sum = 0;
    for (std::int64_t copy = 0; copy < num_copies; ++copy) {
      for (std::int64_t kv_head = 0; kv_head < kKvHeads; ++kv_head) {
        for (std::int64_t i = 0; i < context / kBlockSize; ++i) {
          const std::int64_t block = table[size(copy * context / kBlockSize + i)];
          for (const void* all : {blocks.keys, blocks.values}) {
            sum += plain_sum(static_cast<const char*>(all) + (block * kKvHeads + kv_head) * head,
                             head);
          }
        }
      }
    }
    return sum;
  }

 private:
  static constexpr std::int64_t kBlockSize = 64, kHeads = 9, kKvHeads = 3;

  void store(std::int64_t copy) {
    std::vector<std::int64_t> slots;
    for (std::int64_t t = 0; t < context; ++t) {
      const std::int32_t block = table[size((copy * context + t) / kBlockSize)];
      slots.push_back(block * kBlockSize + t % kBlockSize);
    }
    store_kv(keys.data(), values.data(), kKvHeads * dims, {0, context}, slots.data(), blocks);
  }

  std::int64_t context, dims, num_copies;
  std::vector<char> bytes_of_all;
  std::vector<float> scales, keys, values, queries, out;
  std::vector<std::int32_t> table;
  KvBlocks blocks{};
  AttentionForm form{};
};

struct NamedType {
  const char* name;
  KvType type;
  double tolerance;
};
constexpr NamedType kTypes[] = {{"f32", KvType::f32, 2e-6},
                                {"f16", KvType::f16, 1e-3},
                                {"bf16", KvType::bf16, 1e-2},
                                {"int8", KvType::int8, 2e-2}};

void bench_prefill(std::int64_t tokens, std::int64_t head_dim, int threads, int rounds) {
  std::vector<AttentionBench> benches;
  std::vector<Contender> contenders;
  benches.reserve(std::size(kTypes));
  for (const NamedType& t : kTypes) benches.emplace_back(t.type, head_dim, tokens, 1);
  for (std::size_t i = 0; i < benches.size(); ++i) {
    contenders.push_back({std::string("prompt, cache ") + kTypes[i].name,
                          [&benches, i, tokens, threads] { benches[i].run(tokens, 0, threads); }, 0,
                          benches[i].operations()});
  }
  compare("attention of " + std::to_string(tokens) + " tokens, 9 heads of " +
              std::to_string(head_dim) + ", 3 of KV",
          threads, rounds, contenders);
  for (std::size_t i = 0; i < benches.size(); ++i) benches[i].check_last_token(kTypes[i].tolerance);
}

void bench_decode(const NamedType& type, std::int64_t copies, int threads, int rounds) {
  AttentionBench bench(type.type, 64, 2048, copies);
  std::int64_t sum = 0;
  compare(
      std::string("one token at context 2048, cache ") + type.name, threads, rounds,
      {{"plain sum, block after block", [&] { sum += bench.plain_sum_of_all(); }, bench.bytes()},
       {"attention",
        [&] {
          for (std::int64_t copy = 0; copy < bench.copies(); ++copy) bench.run(1, copy, threads);
        },
        bench.bytes()}});
  bench.check_last_token(type.tolerance);
}

void bench_rows(int rounds) {
  constexpr std::int64_t kRows = 512, kColumns = 1536, kVocabulary = 49152;
  std::vector<float> x = normal_values(kRows * kColumns, 5), out(x.size());
  const std::vector<float> logits = normal_values(16 * kVocabulary, 6), weight(kColumns, 1.0f);
  const std::vector<float> angles(kRows * 64, 0.5f);
  std::vector<std::int32_t> positions(kRows);
  std::iota(positions.begin(), positions.end(), 0);
  const double bytes = 4.0 * kRows * kColumns;
  const auto activation = [&](const char* name, Activation a) {
    return Contender{name,
                     [&, a] {
                       gated_activation(a, x.data(), x.data(), kColumns, {0, kRows}, kColumns,
                                        out.data(), kColumns);
                     },
                     bytes};
  };
  const auto rotation = [&](const char* name, bool interleaved) {
    return Contender{name,
                     [&, interleaved] {
                       rotate(out.data(), kColumns, {0, kRows},
                              {kColumns / 64, 64, 64, interleaved}, angles.data(),
                              positions.data());
                     },
                     bytes};
  };
  compare("512 rows of 1536", 1, rounds,
          {{"add",
            [&] {
              add(x.data(), {0, kRows}, kColumns, out.data());
            },
            bytes},
           {"rms_norm",
            [&] {
              rms_norm(x.data(), {0, kRows}, kColumns, weight.data(), 1e-5f, out.data());
            },
            bytes},
           {"layer_norm",
            [&] {
              layer_norm(x.data(), {0, kRows}, kColumns, weight.data(), weight.data(), 1e-5f,
                         out.data());
            },
            bytes},
           rotation("rotate, halves", false),
           rotation("rotate, neighbours", true),
           activation("silu times up", Activation::silu),
           activation("gelu times up", Activation::gelu),
           activation("gelu_tanh times up", Activation::gelu_tanh),
           {"log_sum_exp of 16 x 49152",
            [&] {
              log_sum_exp(logits.data(), {0, 16}, kVocabulary, out.data());
            },
            4.0 * 16 * kVocabulary}});
  double sum = 0;
  for (std::int64_t c = 0; c < kVocabulary; ++c) sum += std::exp(double{logits[size(c)]});
  check(std::fabs(double{out[0]} - std::log(sum)) < 1e-5, "log_sum_exp");
}

/// Decoding shares out hundreds of small calls per token.
void bench_dispatch(int rounds) {
  constexpr int kCalls = 10000;
  std::atomic<std::int64_t> done{0};
  const auto calls = [&](int threads) {
    for (int i = 0; i < kCalls; ++i) {
      for_slices(threads, 2, 1, [&](std::int64_t first, std::int64_t last) {
        done.fetch_add(last - first, std::memory_order_relaxed);
      });
    }
  };
  compare("10000 calls of for_slices, two empty slices each", 2, rounds,
          {{"one thread", [&] { calls(1); }}, {"two threads", [&] { calls(2); }}});
  check(done % (2 * kCalls) == 0, "for_slices");
}

}  // namespace

void bench_attention(bool quick) {
  const int rounds = quick ? 3 : 7;
  bench_dispatch(rounds);
  bench_rows(rounds);
  for (const NamedType& type : kTypes) {
    bench_decode(type, quick ? 2 : 64, 1, rounds);
  }
  bench_prefill(quick ? 256 : 2048, 64, 1, rounds);
  bench_prefill(quick ? 256 : 1024, 128, 1, rounds);
  if (!quick) bench_prefill(2048, 64, 2, rounds);
}

}  // namespace tessera::kernels::bench
