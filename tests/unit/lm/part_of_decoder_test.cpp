// Parts of a decoder, and blocks of its cache: what they refuse, and what they share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decoders.h"

namespace tessera::lm::part_of_decoder_test {
namespace {

using testing::HasSubstr;

TEST(PartOfADecoder, RefusesWhatItDoesNotHave) {
  const std::string path = decoder_path("llama2");
  const auto model = load_decoder({.path = path});
  const std::int64_t count = model->shape().num_layers;
  ASSERT_GE(count, 2);
  const auto middle = load_decoder({.path = path,
                                    .first_layer = 1,
                                    .last_layer = 1,
                                    .with_embedding = false,
                                    .with_head = false});
  EXPECT_EQ(middle->weight_bytes(), 0);
  const auto cache = middle->make_cache(1, 4);
  const std::int32_t token = 1, block = 0;
  const SequenceStep step{.tokens = {&token, 1}, .context_tokens = 0, .block_table = {&block, 1}};
  std::vector<float> hidden(static_cast<std::size_t>(model->shape().hidden_size));
  std::vector<float> logits(static_cast<std::size_t>(model->shape().vocab_size));
  const SequenceStep* batch = &step;
  EXPECT_THAT(refusal([&] {
                middle->step({batch, 1}, *cache, logits);
              }),
              HasSubstr("embedding: this part of llama2, layers [1, 1), has none"));
  EXPECT_THAT(refusal([&] { middle->embed({batch, 1}, hidden); }), HasSubstr("has none"));
  EXPECT_THAT(refusal([&] { middle->head(hidden, logits); }), HasSubstr("has none"));
  EXPECT_THAT(refusal([&] {
                middle->run_layers(0, 1, {batch, 1}, *cache, hidden);
              }),
              HasSubstr("[0, 1) are asked for, and this part of"));
  EXPECT_THAT(refusal([&] { middle->describe_layer(1); }), HasSubstr("[1, 2) are asked for"));
  EXPECT_THAT(refusal([&] { middle->with_layer(0, {}); }), HasSubstr("[0, 1) are asked for"));
  EXPECT_THAT(refusal([&] { load_decoder({.path = path, .first_layer = 2, .last_layer = 1}); }),
              HasSubstr("layers: [2, 1) of the"));
  EXPECT_THAT(refusal([&] { load_decoder({.path = path, .last_layer = count + 1}); }),
              HasSubstr("layers: [0, "));
}

TEST(PartOfADecoder, ReadsALayerOfOtherBitsAnew) {
  const std::string path = decoder_path("llama2");
  const auto held = load_decoder({.path = path});
  std::vector<LayerForm> forms(static_cast<std::size_t>(held->shape().num_layers),
                               LayerForm{.as_stored = true});
  forms.back() = {.bitwidth = 8};
  std::int64_t read = -1;
  const auto count = [&](std::int64_t, std::int64_t total) { read = total; };
  const auto changed =
      load_decoder({.path = path, .layers = forms, .held = held, .progress = count});
  EXPECT_EQ(read, 1);
  const std::vector<std::int32_t> ids = {1, 2, 3};
  EXPECT_TRUE(same_numbers(run_in_pieces(*changed, ids, 3),
                           run_in_pieces(*load_decoder({.path = path, .layers = forms}), ids, 3)));
  EXPECT_NE(run_in_pieces(*changed, ids, 3), run_in_pieces(*held, ids, 3));
}

TEST(PartOfADecoder, SharesNothingWithAnotherModel) {
  const auto held = load_decoder({.path = decoder_path("llama2")});
  for (const LoadRequest& other :
       {LoadRequest{.path = decoder_path("opt")},
        LoadRequest{.path = decoder_path("llama2"), .dtype = kernels::Real::bf16}}) {
    LoadRequest request = other;
    request.held = held;
    EXPECT_THAT(refusal([&] { load_decoder(request); }), HasSubstr("held: it is of"));
  }
}

TEST(BlocksOfACache, RefuseWhatDoesNotFit) {
  const auto part = load_decoder({.path = decoder_path("llama2"), .first_layer = 1});
  const auto cache = part->make_cache(2, 4);
  const std::int64_t layers = part->shape().num_layers;
  std::vector<std::byte> bytes(static_cast<std::size_t>(cache->block_bytes(1, layers)));
  const std::vector<std::int32_t> one = {1}, none = {2}, below = {-1};
  cache->read(one, 1, layers, bytes);
  EXPECT_THAT(refusal([&] { cache->read(one, 0, layers, bytes); }),
              HasSubstr("[0, 2) are asked for, and it has [1, 2)"));
  EXPECT_THAT(refusal([&] { cache->read(none, 1, layers, bytes); }), HasSubstr("block 2 is not"));
  EXPECT_THAT(refusal([&] { cache->write(below, 1, layers, bytes); }),
              HasSubstr("block -1 is not one of its 2"));
  EXPECT_THAT(refusal([&] { cache->write(one, 1, layers, std::span(bytes).first(3)); }),
              HasSubstr("bytes, not 3"));
  EXPECT_THAT(refusal([&] { cache->copy(0, 2); }), HasSubstr("block 2 is not"));
}

}  // namespace
}  // namespace tessera::lm::part_of_decoder_test
