#include "tessera/kernels/cuda/attention.h"

#include "../kernels/kv_cache.h"
#include "gpu_support.h"

// Attention against its definition in double, and against itself in other batches.
namespace tessera::kernels::test::cuda_attention_test {
namespace {

AttentionForm form_of(std::int64_t num_heads, std::int64_t head_dim) {
  return {num_heads, 1 / std::sqrt(static_cast<float>(head_dim)), 0, 0, nullptr};
}

/// A cache's blocks in the memory of the device.
struct DeviceCache {
  explicit DeviceCache(const KvCache& cache)
      : keys(cache.keys),
        values(cache.values),
        key_scale(cache.key_scale),
        value_scale(cache.value_scale),
        blocks(cache.blocks) {
    blocks.keys = keys.data();
    blocks.values = values.data();
    if (blocks.type == KvType::int8) {
      blocks.key_scale = key_scale.data();
      blocks.value_scale = value_scale.data();
    }
  }
  DeviceArray<unsigned char> keys, values;
  DeviceArray<float> key_scale, value_scale;
  KvBlocks blocks;
};

/// Rows of all heads, [tokens][num_heads * head_dim].
std::vector<float> attend(const KvCache& cache, const Batch& batch, AttentionForm form) {
  const DeviceCache device(cache);
  const DeviceArray<float> queries(batch.queries);
  const DeviceArray<std::int32_t> start(batch.start), context(batch.context), table(cache.table);
  const std::int64_t width = form.num_heads * cache.blocks.head_dim, stride = width + 2;
  const std::vector<float> slopes(
      form.alibi_slopes, form.alibi_slopes + (form.alibi_slopes == nullptr ? 0 : form.num_heads));
  const DeviceArray<float> device_slopes(slopes);
  if (form.alibi_slopes != nullptr) form.alibi_slopes = device_slopes.data();
  DeviceArray<float> out(batch.num_tokens() * stride);
  RaggedBatch ragged = batch.ragged;
  ragged.query_start = start.data();
  ragged.context_tokens = context.data();
  ragged.block_table = table.data();
  EXPECT_EQ(cuda::paged_attention(queries.data(), batch.stride, batch.num_tokens(), ragged, form,
                                  device.blocks, out.data(), stride, nullptr),
            Status::ok);
  EXPECT_EQ(device_synchronise(), "");
  EXPECT_EQ(out.num_touched(), 0);
  const std::vector<float> all = out.download();
  std::vector<float> rows;
  for (std::int64_t t = 0; t < batch.num_tokens(); ++t) {
    rows.insert(rows.end(), &all[index(t * stride)], &all[index(t * stride)] + width);
    EXPECT_TRUE(std::isnan(all[index(t * stride + width)]));  // poison between the rows
  }
  return rows;
}

void expect_definition(const KvCache& cache, const Batch& batch, const AttentionForm& form) {
  const std::vector<float> got = attend(cache, batch, form);
  std::size_t at = 0;
  for (std::size_t s = 0; s < batch.pieces.size(); ++s)
    for (std::int64_t i = 0; i < batch.pieces[s].last - batch.pieces[s].first; ++i)
      for (std::int64_t head = 0; head < form.num_heads; ++head)
        for (const double value :
             expected_head(cache, form,
                           &batch.queries[index((batch.start[s] + i) * batch.stride +
                                                head * cache.blocks.head_dim)],
                           static_cast<std::int64_t>(s), batch.pieces[s].first + i, head)) {
          ASSERT_NEAR(got[at], value, 4e-6)
              << "sequence " << s << " token " << i << " head " << head;
          ++at;
        }
  EXPECT_EQ(at, got.size());
}

TEST(CudaAttention, IsNearTheDefinitionForEveryTypeAndHeadDim) {
  for_each_device([](const cuda::Device&) {
    for (const KvType type : {KvType::f32, KvType::f16, KvType::bf16, KvType::int8})
      for (const std::int64_t head_dim : {1, 20, 64, 80, 128, 256, 512, 576}) {
        SCOPED_TRACE("type " + std::to_string(static_cast<int>(type)) + ", head_dim " +
                     std::to_string(head_dim));
        const KvCache cache({type, 16, 2, head_dim}, {emulated() ? 131 : 400, 5}, gpu_seed() + 10);
        const Batch batch(cache, {{cache.tokens[0] - 2, cache.tokens[0]}, {3, 5}}, 4, gpu_seed());
        expect_definition(cache, batch, form_of(4, head_dim));
        if (::testing::Test::HasFatalFailure()) return;
      }
  });
}

struct Case {
  std::int64_t num_heads, num_kv_heads, block_size, window;
  float softcap;
  bool alibi;
};

TEST(CudaAttention, IsNearTheDefinitionForEveryForm) {
  for_each_device([](const cuda::Device&) {
    for (const Case& c : {Case{1, 1, 1, 0, 0, false},
                          {4, 4, 7, 0, 0, true},
                          {4, 1, 16, 10, 0, false},
                          {6, 2, 64, 129, 2, false},
                          {3, 3, 48, 1, 0, false},
                          {2, 2, 256, 0, 30, false}}) {
      SCOPED_TRACE("window " + std::to_string(c.window));
      // Decode, a chunk in the middle, a whole prompt, nothing, the first token alone.
      const KvCache cache({KvType::f32, c.block_size, c.num_kv_heads, 16}, {140, 270, 20, 9, 1},
                          gpu_seed() + 30);
      const Batch batch(cache, {{139, 140}, {262, 270}, {0, 20}, {9, 9}, {0, 1}}, c.num_heads,
                        gpu_seed() + 40);
      std::vector<float> slopes;
      for (std::int64_t h = 0; h < c.num_heads; ++h)
        slopes.push_back(static_cast<float>(std::pow(2.0, -static_cast<double>(h % 8) - 1)));
      AttentionForm form = form_of(c.num_heads, 16);
      form.window = c.window;
      form.softcap = c.softcap;
      form.alibi_slopes = c.alibi ? slopes.data() : nullptr;
      expect_definition(cache, batch, form);
      if (::testing::Test::HasFatalFailure()) return;
      form.chunk = 100;
      expect_definition(cache, batch, form);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(CudaAttention, GivesARowItsBitsInEveryBatch) {
  for_each_device([](const cuda::Device&) {
    const KvCache cache({KvType::f16, 16, 1, 64}, {150, 40}, gpu_seed() + 50);
    const AttentionForm form = form_of(2, 64);
    const auto rows_of = [&](const std::vector<Piece>& pieces) {
      return attend(cache, Batch(cache, pieces, 2, gpu_seed() + 60), form);
    };
    const std::vector<float> together = rows_of({{130, 150}, {0, 40}});
    const std::vector<float> first = rows_of({{130, 141}, {0, 0}}),
                             rest = rows_of({{141, 150}, {0, 40}});
    std::vector<float> apart = first;
    apart.insert(apart.end(), rest.begin(), rest.end());
    ASSERT_EQ(together.size(), apart.size());
    EXPECT_EQ(std::memcmp(together.data(), apart.data(), together.size() * sizeof(float)), 0);
  });
}

TEST(CudaAttention, RefusesWhatItCannotDo) {
  for_each_device([](const cuda::Device&) {
    const KvCache cache({KvType::f16, 16, 2, 64}, {10}, gpu_seed());
    const Batch batch(cache, {{9, 10}}, 4, gpu_seed());
    std::vector<float> out(1000);
    const auto status = [&](AttentionForm form, KvBlocks blocks, std::int64_t stride) {
      return cuda::paged_attention(batch.queries.data(), stride, 1, batch.ragged, form, blocks,
                                   out.data(), 1000, nullptr);
    };
    KvBlocks large = cache.blocks, bare = cache.blocks;
    large.head_dim = kMaxHeadDim + 1;
    bare.type = KvType::int8;                                                  // has no scales
    EXPECT_EQ(status(form_of(4, 64), large, 5000), Status::invalid_argument);  // of 1000 columns
    EXPECT_EQ(status(form_of(1, 64), large, 5000), Status::invalid_argument);  // 1 head, 2 KV heads
    EXPECT_EQ(status(form_of(4, 64), bare, 300), Status::invalid_argument);
    EXPECT_EQ(status(form_of(3, 64), cache.blocks, 300), Status::invalid_argument);
    EXPECT_EQ(status(form_of(4, 64), cache.blocks, 255), Status::invalid_argument);
    large.num_kv_heads = 1;
    EXPECT_EQ(status(form_of(1, kMaxHeadDim + 1), large, 5000), Status::unsupported);
  });
}

}  // namespace
}  // namespace tessera::kernels::test::cuda_attention_test
