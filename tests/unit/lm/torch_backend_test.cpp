// Our kernels and LibTorch's operators make the same of every family: two implementations of what a
// decoder is made of, below one description.
#include "tessera/torch/torch_backend.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "decoders.h"
#include "expect_error.h"

namespace tessera::lm::torch_backend_test {
namespace {

class TorchBackends : public testing::TestWithParam<std::string> {};

TEST_P(TorchBackends, AgreeWithTheKernels) {
  for (const int kv_bitwidth : {16, 8}) {
    const LoadRequest request{
        .path = decoder_path(GetParam()), .kv_bitwidth = kv_bitwidth, .num_threads = 2};
    const auto ours = load_decoder(request);
    const auto theirs = Decoder::load(request, make_torch_backend("cpu", 2));
    for (const Expected& one : expected_of(decoder_folder(GetParam()))) {
      // A key whose code lies between two integers may fall to either side in 8 bits.
      EXPECT_LT(
          relative_error(run_in_pieces(*theirs, one.ids, 5), run_in_pieces(*ours, one.ids, 5)),
          kv_bitwidth == 16 ? 1e-5 : 2e-2)
          << kv_bitwidth << " bits";
    }
  }
}

TEST(TorchBackend, MovesBlocksOfItsCache) {
  const auto model = Decoder::load({.path = decoder_path("llama3"), .kv_bitwidth = 8},
                                   make_torch_backend("cpu", 1));
  const std::int64_t layers = model->shape().num_layers;
  const auto cache = model->make_cache(3, 4);
  const std::vector<std::int32_t> first = {0}, others = {2, 1};
  std::vector<std::byte> bytes(static_cast<std::size_t>(cache->block_bytes(0, layers)));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
  cache->write(first, 0, layers, bytes);
  cache->copy(0, 1);
  cache->copy(1, 2);
  std::vector<std::byte> found(2 * bytes.size());
  cache->read(others, 0, layers, found);
  // Layers first: each has both blocks, which are alike.
  auto at = found.cbegin();
  for (std::int64_t layer = 0, from = 0; layer < layers; ++layer) {
    const std::int64_t size = cache->block_bytes(layer, layer + 1);
    for (int block = 0; block < 2; ++block, at += size)
      EXPECT_TRUE(std::equal(at, at + size, bytes.cbegin() + from));
    from += size;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TorchBackends,
                         testing::Values("opt", "opt_postnorm", "bloom_heads6", "llama3",
                                         "llama_yarn", "qwen2_moe", "qwen3_moe", "mistral",
                                         "gemma2", "gemma3", "falcon_new", "falcon_alibi", "gptj",
                                         "gpt2_scaled", "cohere_qk_norm", "dots1", "glm4",
                                         "gpt_oss", "granite", "nemotron", "olmo",
                                         "gguf/llama_blocks", "gguf/mixtral"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

TEST(TorchBackend, RefusesWhatItDoesNotKnow) {
  test::expect_error(ErrorCode::invalid_argument, {"'tpu'", "neither cpu nor cuda"},
                     [] { make_torch_backend("tpu", 1); });
}

}  // namespace
}  // namespace tessera::lm::torch_backend_test
