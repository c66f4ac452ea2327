// Why Gemma 4 errs by more in 8 bits than other families: decoder_test.cpp allows it to.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "decoders.h"
#include "folder.h"

namespace tessera::lm::unscaled_scores_test {
namespace {

// The same model with scores of the usual size, by the norms of its queries, has the error of
// others; transformers with 8-bit weights of this kind gives 0.26 and 0.08.
class InUnscaledScores : public test::FolderTest {};

TEST_F(InUnscaledScores, TheErrorOfEightBitsIsTheScores) {
  const std::string path = decoder_path("gemma4");
  const ModelShape shape = load_decoder({.path = path})->shape();
  std::vector<test::StoredTensor> tensors = stored_tensors(path);
  int scaled = 0;
  for (test::StoredTensor& tensor : tensors) {
    if (!tensor.name.ends_with("q_norm.weight")) continue;
    ++scaled;
    ASSERT_EQ(tensor.dtype, "BF16");
    const float factor = 1 / std::sqrt(static_cast<float>(tensor.shape.front()));
    for (std::size_t i = 0; i < tensor.data.size(); i += 2) {
      std::uint32_t bits = 0;
      std::memcpy(reinterpret_cast<char*>(&bits) + 2, &tensor.data[i], 2);
      const float number = std::bit_cast<float>(bits) * factor;
      bits = std::bit_cast<std::uint32_t>(number);
      std::memcpy(&tensor.data[i], reinterpret_cast<const char*>(&bits) + 2, 2);
    }
  }
  EXPECT_EQ(scaled, shape.num_layers);
  file("config.json", read(path + "/config.json"));
  file("model.safetensors", test::safetensors_file(tensors));
  const auto ids = expected_of(decoder_folder("gemma4")).front().ids;
  const auto error = [&](const std::string& of) {
    const std::vector<LayerForm> forms(static_cast<std::size_t>(shape.num_layers),
                                       {.bitwidth = 8, .scheme = {.group_size = 8}});
    const auto whole = load_decoder({.path = of});
    const auto small = load_decoder({.path = of, .layers = forms});
    return relative_error(run_in_pieces(*small, ids, ids.size()),
                          run_in_pieces(*whole, ids, ids.size()));
  };
  EXPECT_GT(error(path), 0.1);
  EXPECT_LT(error(folder_.string()), 0.1);
}

}  // namespace
}  // namespace tessera::lm::unscaled_scores_test
