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

INSTANTIATE_TEST_SUITE_P(Families, TorchBackends,
                         testing::Values("opt", "opt_postnorm", "bloom_heads6", "llama3",
                                         "llama_yarn", "qwen2_moe", "qwen3_moe", "mistral",
                                         "gemma2", "gemma3", "falcon_new", "falcon_alibi", "gptj",
                                         "gpt2_scaled", "gguf/llama_blocks", "gguf/mixtral"),
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
