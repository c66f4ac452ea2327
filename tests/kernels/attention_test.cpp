#include "tessera/kernels/attention.h"

#include "kv_cache.h"
#include "tessera/kernels/parallel.h"

namespace tessera::kernels::attention_test {
namespace {

using test::Batch;
using test::CacheShape;
using test::Guarded;
using test::index;
using test::KvCache;
using test::Piece;

constexpr Status kBad = Status::invalid_argument;
constexpr KvType kTypes[] = {KvType::f32, KvType::f16, KvType::bf16, KvType::int8};

AttentionForm form_of(std::int64_t num_heads, std::int64_t head_dim) {
  return {num_heads, 1 / std::sqrt(static_cast<float>(head_dim)), 0, 0, nullptr};
}

/// Rows of all heads, [tokens][num_heads * head_dim]; checks what lies between them.
std::vector<float> attend(const KvCache& cache, const Batch& batch, const AttentionForm& form,
                          int threads = 1) {
  const std::int64_t width = form.num_heads * cache.blocks.head_dim, stride = width + 2;
  Guarded<float> out(batch.num_tokens() * stride, 1);
  const std::vector<float> before = out.copy();
  const std::int64_t tasks = num_attention_tasks(batch.ragged, cache.blocks, form);
  for_slices(threads, tasks, threads == 1 ? tasks : 1, [&](std::int64_t first, std::int64_t last) {
    EXPECT_EQ(paged_attention(batch.queries.data(), batch.stride, batch.ragged, form, cache.blocks,
                              {first, last}, out.data(), stride),
              Status::ok);
  });
  EXPECT_EQ(out.num_touched(), 0);
  std::vector<float> rows;
  for (std::int64_t t = 0; t < batch.num_tokens(); ++t) {
    rows.insert(rows.end(), &out[t * stride], &out[t * stride] + width);
    EXPECT_EQ(std::memcmp(&out[t * stride] + width, &before[index(t * stride + width)], 8), 0);
  }
  return rows;
}

/// Of all rows and heads, as attend() gives them.
std::vector<double> expected_rows(const KvCache& cache, const Batch& batch,
                                  const AttentionForm& form) {
  std::vector<double> rows;
  for (std::size_t s = 0; s < batch.pieces.size(); ++s) {
    for (std::int64_t i = 0; i < batch.pieces[s].last - batch.pieces[s].first; ++i) {
      for (std::int64_t head = 0; head < form.num_heads; ++head) {
        const std::int64_t at = (batch.start[s] + i) * batch.stride + head * cache.blocks.head_dim;
        const auto one =
            test::expected_head(cache, form, &batch.queries[index(at)],
                                static_cast<std::int64_t>(s), batch.pieces[s].first + i, head);
        rows.insert(rows.end(), one.begin(), one.end());
      }
    }
  }
  return rows;
}

/// With the versions for every instruction set.
void expect_definition(const KvCache& cache, const Batch& batch, const AttentionForm& form) {
  const std::vector<double> expected = expected_rows(cache, batch, form);
  test::for_each_isa([&](const std::string&) {
    const std::vector<float> got = attend(cache, batch, form);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], 4e-6)
          << "token " << i / index(form.num_heads * cache.blocks.head_dim) << " dimension "
          << i % index(form.num_heads * cache.blocks.head_dim);
    }
  });
}

TEST(PagedAttention, IsNearTheDefinitionForEveryTypeAndHeadDim) {
  for (const KvType type : kTypes) {
    for (const std::int64_t head_dim : {1, 3, 8, 20, 64, 80, 96, 128, 130, 256, 576}) {
      SCOPED_TRACE("type " + std::to_string(static_cast<int>(type)) + ", head_dim " +
                   std::to_string(head_dim));
      const KvCache cache({type, 16, 2, head_dim}, {70, 5}, 10);
      const Batch batch(cache, {{66, 70}, {0, 5}}, 6, 20);
      expect_definition(cache, batch, form_of(6, head_dim));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

struct Case {
  std::int64_t num_heads, num_kv_heads, block_size, window;
  float softcap;
  bool alibi;
};

TEST(PagedAttention, IsNearTheDefinitionForEveryForm) {
  const Case cases[] = {{1, 1, 1, 0, 0, false},    {4, 4, 7, 0, 0, true},
                        {4, 1, 16, 10, 0, false},  {6, 2, 64, 64, 2, false},
                        {6, 2, 32, 65, 0, true},   {9, 3, 48, 1, 0, false},
                        {100, 1, 16, 33, 1, true}, {8, 8, 256, 0, 30, false}};
  for (const Case& c : cases) {
    SCOPED_TRACE(std::to_string(&c - cases));
    // Decode, a chunk in the middle, a whole prompt, nothing, the first token alone.
    const KvCache cache({KvType::f32, c.block_size, c.num_kv_heads, 12}, {140, 150, 67, 9, 1}, 30);
    const Batch batch(cache, {{139, 140}, {120, 150}, {0, 67}, {9, 9}, {0, 1}}, c.num_heads, 40);
    std::vector<float> slopes;
    for (std::int64_t h = 0; h < c.num_heads; ++h) {
      slopes.push_back(static_cast<float>(std::pow(2.0, -static_cast<double>(h % 8) - 1)));
    }
    AttentionForm form = form_of(c.num_heads, 12);
    form.window = c.window;
    form.softcap = c.softcap;
    form.alibi_slopes = c.alibi ? slopes.data() : nullptr;
    form.scale *= 2;
    expect_definition(cache, batch, form);
    if (::testing::Test::HasFatalFailure()) return;
    // Sinks far below the scores, among them and far above, where little or nothing else is seen.
    std::vector<float> sinks;
    for (std::int64_t h = 0; h < c.num_heads; ++h)
      sinks.push_back(static_cast<float>(h % 4 == 3 ? 200 : 3 * (h % 4) - 3));
    form.sinks = sinks.data();
    expect_definition(cache, batch, form);
    if (::testing::Test::HasFatalFailure()) return;
    // Chunks: within a tile of keys, across two, and longer than all.
    for (const std::int64_t chunk : {7, 70, 1000}) {
      form.chunk = chunk;
      expect_definition(cache, batch, form);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

/// The rows of a prompt in calls of `chunk` tokens.
std::vector<float> in_chunks(const KvCache& cache, std::int64_t tokens, std::int64_t chunk,
                             const AttentionForm& form) {
  std::vector<float> rows;
  for (std::int64_t first = 0; first < tokens; first += chunk) {
    const Batch batch(cache, {{first, std::min(tokens, first + chunk)}}, form.num_heads, 60);
    const std::vector<float> some = attend(cache, batch, form);
    rows.insert(rows.end(), some.begin(), some.end());
  }
  return rows;
}

TEST(PagedAttention, GivesTheSameBitsInAnyChunksBatchesAndThreads) {
  test::for_each_isa([](const std::string& isa) {
    for (const KvType type : kTypes) {
      for (const std::int64_t window : {0, 50}) {
        const std::int64_t seen_chunk = window > 0 ? 0 : 37;
        const std::int64_t tokens = isa == "scalar" ? 90 : 300, head_dim = window > 0 ? 64 : 40;
        const KvCache cache({type, 16, 2, head_dim}, {tokens, 90}, 50);
        AttentionForm form = form_of(6, head_dim);
        form.window = window;
        form.chunk = seen_chunk;
        const std::vector<float> whole = in_chunks(cache, tokens, tokens, form);
        for (const std::int64_t chunk : {1, 7, 64, 128}) {
          if (isa == "scalar" && chunk != 64) continue;  // slow, and each row for itself
          ASSERT_TRUE(in_chunks(cache, tokens, chunk, form) == whole) << chunk;
        }
        const Batch both(cache, {{0, tokens}, {80, 90}}, 6, 60);
        for (const int threads : {1, 2, 3}) {
          const std::vector<float> rows = attend(cache, both, form, threads);
          ASSERT_TRUE(std::equal(whole.begin(), whole.end(), rows.begin())) << threads;
        }
        // Other blocks at other places, the same numbers.
        const KvCache other({type, 33, 2, head_dim}, {tokens, 90}, 50);
        ASSERT_TRUE(in_chunks(other, tokens, tokens, form) == whole);
      }
    }
  });
}

/// Rows of `got` that differ from those of `clean`, in tokens.
std::vector<std::int64_t> changed_tokens(const std::vector<float>& got,
                                         const std::vector<float>& clean, std::int64_t width) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 0; t * width < static_cast<std::int64_t>(got.size()); ++t) {
    if (std::memcmp(&got[index(t * width)], &clean[index(t * width)], index(width) * 4) != 0) {
      tokens.push_back(t);
    }
  }
  return tokens;
}

TEST(PagedAttention, KeepsNanAndInfInTheRowsThatSeeThem) {
  test::for_each_isa([](const std::string&) {
    for (const KvType type : kTypes) {
      for (const bool in_key : {false, true}) {
        for (const float poison : {NAN, INFINITY}) {
          KvCache cache({type, 16, 1, 32}, {100}, 70);
          const Batch batch(cache, {{0, 100}}, 3, 80);
          AttentionForm form = form_of(3, 32);
          form.window = 20;
          const std::vector<float> clean = attend(cache, batch, form);
          (in_key ? cache.rows_k : cache.rows_v)[0][70 * 32 + 5] = poison;
          cache.store(0, 70, 71);
          const std::vector<float> got = attend(cache, batch, form);
          std::vector<std::int64_t> expected;
          for (std::int64_t t = 70; t < 90; ++t) expected.push_back(t);
          if (in_key && std::isinf(poison) && type != KvType::int8) {
            // A score of -Inf is a weight of 0: a head may not notice.
            for (const std::int64_t t : changed_tokens(got, clean, 3 * 32)) {
              EXPECT_TRUE(t >= 70 && t < 90) << t;
            }
          } else {
            EXPECT_EQ(changed_tokens(got, clean, 3 * 32), expected);
          }
        }
      }
      // A query's NaN stays in its row and head.
      const KvCache cache({type, 16, 1, 32}, {100}, 70);
      Batch batch(cache, {{0, 100}}, 3, 80);
      const std::vector<float> clean = attend(cache, batch, form_of(3, 32));
      batch.queries[index(33 * batch.stride + 40)] = NAN;
      const std::vector<float> got = attend(cache, batch, form_of(3, 32));
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (i / 96 == 33 && i % 96 / 32 == 1) {
          EXPECT_TRUE(std::isnan(got[i]));
        } else {
          EXPECT_EQ(got[i], clean[i]);
        }
      }
    }
  });
}

TEST(PagedAttention, SurvivesLargeScores) {
  const KvCache cache({KvType::f32, 16, 1, 64}, {100}, 90);
  const Batch batch(cache, {{0, 100}}, 2, 91);
  AttentionForm form = form_of(2, 64);
  form.scale = 1000;  // one key has all the weight
  test::for_each_isa([&](const std::string&) {
    for (const float value : attend(cache, batch, form)) ASSERT_TRUE(std::isfinite(value));
  });
  form.scale = 0;  // all have the same
  expect_definition(cache, batch, form);
}

float rounded(float value, KvType type) {
  if (type == KvType::f16) return f16_to_f32(f32_to_f16(value));
  return type == KvType::bf16 ? bf16_to_f32(f32_to_bf16(value)) : value;
}

TEST(StoreKv, RoundsToTheTypeOfTheBlocks) {
  test::for_each_isa([](const std::string&) {
    for (const KvType type : kTypes) {
      for (const std::int64_t head_dim : {1, 7, 8, 33, 64}) {
        const KvCache cache({type, 5, 3, head_dim}, {13}, 100);
        for (std::int64_t t = 0; t < 13; ++t) {
          for (std::int64_t i = 0; i < cache.width(); ++i) {
            const std::size_t at = index(t * cache.width() + i);
            const std::size_t head = at - index(i % head_dim);
            for (const bool key : {false, true}) {
              const std::vector<float>& rows = key ? cache.rows_k[0] : cache.rows_v[0];
              const double got = cache.number(key, 0, t, i / head_dim, i % head_dim);
              const float value = rows[at];
              float largest = 0;
              for (std::size_t d = 0; d < index(head_dim); ++d) {
                largest = std::max(largest, std::fabs(rows[head + d]));
              }
              const double bound = type == KvType::int8 ? largest / 127 * 0.501 : 0;
              ASSERT_NEAR(got, rounded(value, type), bound);
            }
          }
        }
      }
    }
  });
}

TEST(StoreKv, WritesItsSlotsAlone) {
  KvCache cache({KvType::f32, 4, 2, 8}, {9}, 110);
  const std::vector<unsigned char> keys = cache.keys, values = cache.values;
  cache.rows_k[0][3 * 16] += 1;
  cache.rows_v[0][3 * 16 + 8] += 1;
  cache.store(0, 3, 4);
  const auto differences = [](const auto& a, const auto& b) {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < a.size(); i += 4) count += std::memcmp(&a[i], &b[i], 4) != 0;
    return count;
  };
  EXPECT_EQ(differences(keys, cache.keys), 1);
  EXPECT_EQ(differences(values, cache.values), 1);
}

TEST(StoreKv, RefusesWhatIsNotValidAndWritesNothing) {
  KvCache cache({KvType::int8, 4, 2, 8}, {9}, 120);
  const std::vector<unsigned char> keys = cache.keys, values = cache.values;
  const std::vector<float> rows(64, 9.0f);
  const float* x = rows.data();
  const std::int64_t slots[] = {0, 5, 2}, last = cache.blocks.num_blocks * 4;
  const std::int64_t above[] = {0, last, 2}, below[] = {0, 1, -1};
  const KvBlocks good = cache.blocks;
  EXPECT_EQ(store_kv(nullptr, x, 16, {0, 3}, slots, good), kBad);
  EXPECT_EQ(store_kv(x, nullptr, 16, {0, 3}, slots, good), kBad);
  EXPECT_EQ(store_kv(x, x, 16, {0, 3}, nullptr, good), kBad);
  EXPECT_EQ(store_kv(x, x, 15, {0, 3}, slots, good), kBad);
  EXPECT_EQ(store_kv(x, x, 16, {0, 0}, slots, good), kBad);
  EXPECT_EQ(store_kv(x, x, 16, {0, 3}, above, good), kBad);
  EXPECT_EQ(store_kv(x, x, 16, {0, 3}, below, good), kBad);
  const auto with = [&](const auto& change) {
    KvBlocks blocks = good;
    change(blocks);
    return store_kv(x, x, 16, {0, 3}, slots, blocks);
  };
  EXPECT_EQ(with([](KvBlocks& b) { b.keys = nullptr; }), kBad);
  EXPECT_EQ(with([](KvBlocks& b) { b.value_scale = nullptr; }), kBad);
  EXPECT_EQ(with([](KvBlocks& b) { b.type = static_cast<KvType>(7); }), kBad);
  EXPECT_EQ(with([](KvBlocks& b) { b.num_blocks = 0; }), kBad);
  EXPECT_EQ(with([](KvBlocks& b) { b.block_size = -1; }), kBad);
  EXPECT_EQ(with([](KvBlocks& b) { b.num_kv_heads = 3; }), kBad);
  EXPECT_EQ(with([](KvBlocks& b) { b.head_dim = INT64_MAX; }), kBad);
  EXPECT_EQ(cache.keys, keys);
  EXPECT_EQ(cache.values, values);
}

TEST(PagedAttention, RefusesWhatIsNotValidAndLeavesTheOutput) {
  const KvCache cache({KvType::f16, 4, 2, 8}, {9, 6}, 130);
  const Batch batch(cache, {{5, 9}, {5, 6}}, 4, 131);
  const std::int64_t width = 4 * 8;
  Guarded<float> out(5 * width);
  const std::vector<float> before = out.copy();
  struct Call {
    RaggedBatch batch;
    AttentionForm form;
    KvBlocks blocks;
    std::int64_t stride, out_stride;
    Rows tasks;
    const float* queries;
  };
  const Call good = {batch.ragged, form_of(4, 8), cache.blocks,        batch.stride,
                     width,        {0, 4},        batch.queries.data()};
  const auto with = [&](const auto& change) {
    Call c = good;
    change(c);
    return paged_attention(c.queries, c.stride, c.batch, c.form, c.blocks, c.tasks, out.data(),
                           c.out_stride);
  };
  const std::int32_t falling[] = {0, 4, 3}, negative[] = {-1, 4, 5}, few[] = {3, 6};
  const std::int32_t many[] = {9, 13};
  std::vector<std::int32_t> table = cache.table;
  table[index(cache.max_blocks) + 1] = static_cast<std::int32_t>(cache.blocks.num_blocks);
  EXPECT_EQ(with([](Call& c) { c.queries = nullptr; }), kBad);
  EXPECT_EQ(with([](Call& c) { c.stride = 31; }), kBad);
  EXPECT_EQ(with([](Call& c) { c.out_stride = 31; }), kBad);
  EXPECT_EQ(with([](Call& c) { c.tasks = {0, 5}; }), kBad);
  EXPECT_EQ(with([](Call& c) { c.tasks = {2, 2}; }), kBad);
  EXPECT_EQ(with([](Call& c) { c.tasks = {-1, 2}; }), kBad);
  EXPECT_EQ(with([](Call& c) { c.form.num_heads = 3; }), kBad);
  EXPECT_EQ(with([](Call& c) { c.form.scale = NAN; }), kBad);
  EXPECT_EQ(with([](Call& c) { c.form.softcap = -1; }), kBad);
  EXPECT_EQ(with([](Call& c) { c.form.window = -1; }), kBad);
  EXPECT_EQ(with([](Call& c) { c.form.chunk = -1; }), kBad);
  EXPECT_EQ(with([](Call& c) { c.blocks.values = nullptr; }), kBad);
  EXPECT_EQ(with([](Call& c) { c.blocks.type = KvType::int8; }), kBad);  // without scales
  EXPECT_EQ(with([](Call& c) { c.blocks.block_size = 0; }), kBad);
  EXPECT_EQ(with([](Call& c) { c.batch.num_sequences = 0; }), kBad);
  EXPECT_EQ(with([](Call& c) { c.batch.block_table = nullptr; }), kBad);
  EXPECT_EQ(with([](Call& c) { c.batch.max_blocks = 2; }), kBad);
  EXPECT_EQ(with([&](Call& c) { c.batch.query_start = falling; }), kBad);
  EXPECT_EQ(with([&](Call& c) { c.batch.query_start = negative; }), kBad);
  EXPECT_EQ(with([&](Call& c) { c.batch.context_tokens = few; }), kBad);
  EXPECT_EQ(with([&](Call& c) { c.batch.context_tokens = many; }), kBad);
  EXPECT_EQ(with([&](Call& c) { c.batch.block_table = table.data(); }), kBad);
  EXPECT_EQ(with([](Call& c) {
              c.blocks.head_dim = kMaxHeadDim + 1;
              c.stride = c.out_stride = 4096;
            }),
            Status::unsupported);
  RaggedBatch bad = batch.ragged;
  bad.context_tokens = few;
  EXPECT_EQ(num_attention_tasks(bad, cache.blocks, good.form), 0);
  EXPECT_EQ(num_attention_tasks(batch.ragged, cache.blocks, good.form), 4);
  EXPECT_EQ(std::memcmp(out.data(), before.data(), before.size() * 4), 0);
  EXPECT_EQ(with([](Call&) {}), Status::ok);
}

}  // namespace
}  // namespace tessera::kernels::attention_test
