// Whole models whose quantised matrices our CUDA kernels multiply, against the CPU's decoder: the
// same codes, so that what differs is the arithmetic.
#include <gtest/gtest.h>

#include "../../unit/lm/decoders.h"
#include "../gpu_support.h"
#include "target.h"

namespace tessera::lm::decoder_test {
namespace {

using kernels::Real;

struct Case {
  std::string name, folder;
  LinearForm form;
  Real activations;
  double least, most;  ///< of the difference of logits over the largest one
};

LinearForm codes(int bitwidth, bool symmetric) {
  LinearForm form;
  form.bitwidth = bitwidth;
  form.scheme.symmetric = symmetric;
  form.scheme.group_size = 32;
  return form;
}

LinearForm w8a8(double threshold) {
  LinearForm form;
  form.bitwidth = 8;
  form.int8 = true;
  form.outlier_threshold = threshold;
  return form;
}

LinearForm as_stored() {
  LinearForm form;
  form.as_stored = true;
  return form;
}

// f32 activations differ by the order of sums; f16 ones round by 2^-12 on average, matrix after
// matrix, which some layers make no more than some 2^-10 of the largest logit, and bf16 ones eight
// times as much. 8-bit activations near the middle of two codes may fall to either side, and so may
// the choice of an expert, so that experts are compared with f32 activations.
class PackedDecoder : public testing::TestWithParam<Case> {};

TEST_P(PackedDecoder, HasTheLogitsOfTheCpu) {
  const Case& one = GetParam();
  kernels::test::for_each_device([&](const kernels::cuda::Device& device) {
    if (one.activations == Real::bf16 && device.compute_capability < 80) return;
    LoadRequest request{.path = decoder_path(one.folder), .num_threads = 1};
    const auto layers = load_decoder(request)->shape().num_layers;
    request.layers.assign(static_cast<std::size_t>(layers), one.form);
    const auto ours = load_decoder(request);
    const auto theirs = Decoder::load(request, backend_on(device, one.activations));
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      EXPECT_NE(theirs->describe_layer(layer).find("CUDA kernels"), std::string::npos)
          << theirs->describe_layer(layer);
    }
    const auto prompts = expected_of(decoder_folder(one.folder));
    const auto expect_logits = [&](const Expected& prompt, std::size_t piece) {
      const double error = relative_error(run_in_pieces(*theirs, prompt.ids, piece),
                                          run_in_pieces(*ours, prompt.ids, piece));
      EXPECT_LE(error, one.most) << "pieces of " << piece;
      EXPECT_GE(error, one.least) << "pieces of " << piece;
    };
    expect_logits(prompts[0], prompts[0].ids.size());
    expect_logits(prompts[1], 1);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Models, PackedDecoder,
    testing::Values(Case{"llama3_w4_f32", "llama3", codes(4, true), Real::f32, 0, 1e-5},
                    Case{"llama3_w4_f16", "llama3", codes(4, true), Real::f16, 1e-5, 4e-3},
                    Case{"llama3_w4_bf16", "llama3", codes(4, false), Real::bf16, 1e-4, 3e-2},
                    Case{"llama3_w3_f16", "llama3", codes(3, false), Real::f16, 1e-5, 4e-3},
                    Case{"gpt2_w8_f16", "gpt2_scaled", codes(8, false), Real::f16, 1e-5, 4e-3},
                    Case{"qwen2_moe_w4_f32", "qwen2_moe", codes(4, true), Real::f32, 0, 1e-5},
                    Case{"llama3_w8a8", "llama3", w8a8(2), Real::f16, 0, 2e-2},
                    Case{"gguf_blocks_f16", "gguf/llama_blocks", as_stored(), Real::f16, 1e-5,
                         4e-3}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace tessera::lm::decoder_test
