// Every family against Hugging Face transformers, and against itself in other batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "decoders.h"

namespace tessera::lm::decoder_test {
namespace {

using testing::HasSubstr;

// The bound that was asked for; f32 in another order of sums moves these logits by 1e-6 or so.
constexpr double kBound = 1e-4;

std::vector<std::string> folders() {
  return {"opt",
          "opt_postnorm",
          "bloom",
          "bloom_heads6",
          "llama1",
          "llama2",
          "llama3",
          "llama_linear",
          "llama_yarn",
          "llama_bias",
          "qwen2",
          "qwen2_window",
          "qwen2_moe",
          "qwen3",
          "qwen3_moe",
          "mistral",
          "mixtral",
          "gemma2",
          "gemma3",
          "falcon",
          "falcon_new",
          "falcon_one_norm",
          "falcon_alibi",
          "gptj",
          "gpt2",
          "gpt2_scaled",
          "arcee",
          "cohere",
          "cohere2",
          "cohere_qk_norm",
          "dots1",
          "ernie4_5",
          "ernie4_5_moe",
          "exaone4",
          "gemma",
          "glm",
          "glm4",
          "glm4_5",
          "gpt_bigcode",
          "gpt_neo",
          "gpt_neox",
          "gpt_neox_sequential",
          "gpt_oss",
          "granite",
          "granitemoe",
          "helium",
          "hunyuan_dense",
          "mpt",
          "nemotron",
          "olmo",
          "olmo2",
          "olmo3",
          "olmoe",
          "phi",
          "phi3",
          "phi_qk_norm",
          "seed_oss",
          "smollm3",
          "stablelm",
          "stablelm_parallel",
          "starcoder2",
          "quantised/awq",
          "quantised/bnb_nf4",
          "quantised/bnb_nf4_nested",
          "quantised/fp8_block",
          "quantised/fp8_channel",
          "quantised/fp8_tensor",
          "quantised/gpt_oss_mxfp4",
          "quantised/gptq",
          "quantised/gptq_3_bits",
          "quantised/gptq_8_bits_row",
          "quantised/gptq_desc_act",
          "quantised/gptq_v2",
          "quantised/gptq_zero_points",
          "quantised/nvfp4_compressed",
          "quantised/nvfp4_modelopt",
          "gguf/bloom",
          "gguf/falcon",
          "gguf/falcon_new",
          "gguf/gemma2",
          "gguf/gemma3",
          "gguf/gpt2",
          "gguf/llama",
          "gguf/llama3",
          "gguf/llama_blocks",
          "gguf/llama_yarn",
          "gguf/mixtral",
          "gguf/qwen2",
          "gguf/qwen3",
          "gguf/qwen3moe",
          "gguf/arcee",
          "gguf/cohere",
          "gguf/cohere_qk_norm",
          "gguf/dots1",
          "gguf/ernie4_5",
          "gguf/exaone4",
          "gguf/gemma",
          "gguf/glm4",
          "gguf/glm4_5",
          "gguf/gpt_neox",
          "gguf/gpt_oss",
          "gguf/granite",
          "gguf/granitemoe",
          "gguf/granitemoehybrid",
          "gguf/hunyuan_dense",
          "gguf/nemotron",
          "gguf/olmo",
          "gguf/olmo2",
          "gguf/olmo3",
          "gguf/olmoe",
          "gguf/phi3",
          "gguf/qwen3_5",
          "gguf/qwen3_5_moe",
          "gguf/qwen3_next",
          "gguf/seed_oss",
          "gguf/smollm3",
          "gguf/stablelm",
          "gguf/starcoder2",
          "gguf/lfm2_moe",
          "gguf/deepseek_v2",
          "gguf/deepseek_v3",
          "gguf/falcon_h1",
          "gguf/jamba",
          "gguf/llama4",
          "gguf/nemotron_h",
          "gguf/nemotron_h_moe"};
}

// Some layer from `cut` on attends to keys of a layer before it.
bool parts_keys(const ModelShape& shape, std::int64_t cut) {
  for (std::int64_t layer = cut; layer < shape.num_layers; ++layer)
    if (kv_source(shape, layer) < cut) return true;
  return false;
}

// What steps of 1/127 of the largest number come to, through a few layers. A token that hardly
// preferred an expert may visit another. Gemma 3n and 4 norm queries and keys and do not divide
// their products by the root of a head's width, as others do: here, where the weights of these
// norms are about 1, scores and so their errors are that much larger (unscaled_scores_test.cpp).
double most_in_8_bits(const Decoder& model) {
  constexpr double kUsual = 0.1;
  const ModelShape& shape = model.shape();
  const auto& linears = shape.layer(shape.num_layers - 1).linears;
  if (linears.back().name.find("expert") != std::string::npos) return 0.5;
  if (shape.family != "gemma3n" && shape.family != "gemma4") return kUsual;
  std::int64_t widest = 0;
  for (const LayerShape& layer : shape.layer_classes) widest = std::max(widest, layer.head_dim);
  return kUsual * std::sqrt(static_cast<double>(widest));
}

class EveryDecoder : public testing::TestWithParam<std::string> {
 protected:
  // Its layers hand on several hidden states, and are not cut apart: so it says.
  bool runs_whole(const std::function<void()>& cut) const {
    if (model->shape().family != "gemma3n") return false;
    EXPECT_THAT(refusal(cut), HasSubstr("3 hidden states of a token"));
    return true;
  }
  std::shared_ptr<const Decoder> model = load_decoder({.path = decoder_path(GetParam())});
  std::vector<Expected> expected = expected_of(decoder_folder(GetParam()));
};

TEST_P(EveryDecoder, GivesTheLogitsOfTransformers) {
  for (const Expected& one : expected) {
    EXPECT_LT(relative_error(run_in_pieces(*model, one.ids, one.ids.size()), one.logits), kBound);
  }
}

TEST_P(EveryDecoder, GivesTheSameInPiecesOfAnySize) {
  for (const Expected& one : expected) {
    const auto whole = run_in_pieces(*model, one.ids, one.ids.size());
    for (const std::size_t piece : {1, 2, 7}) {
      EXPECT_LT(relative_error(run_in_pieces(*model, one.ids, piece, 3), whole), 2e-6)
          << "pieces of " << piece;
    }
  }
}

// The second prompt decodes its last token while the first one is read in one piece.
TEST_P(EveryDecoder, GivesTheSameBesideOtherSequences) {
  const auto vocab = static_cast<std::size_t>(model->shape().vocab_size);
  const auto& [long_ids, long_logits] = expected[0];
  const auto& [short_ids, short_logits] = expected[1];
  const auto cache = model->make_cache(16, 4);
  const auto high = blocks_down(8, 6), low = blocks_down(0, 3);
  const std::size_t start = short_ids.size() - 1;
  SequenceStep first{.tokens = std::span(short_ids).first(start),
                     .context_tokens = 0,
                     .block_table = low,
                     .num_logits = 0};
  model->step({&first, 1}, *cache, {});
  const SequenceStep decode{.tokens = std::span(short_ids).last(1),
                            .context_tokens = static_cast<std::int64_t>(start),
                            .block_table = low,
                            .num_logits = 1};
  const SequenceStep prefill{
      .tokens = long_ids, .context_tokens = 0, .block_table = high, .num_logits = 2};
  for (const bool swapped : {false, true}) {
    std::vector<SequenceStep> batch = {decode, prefill};
    if (swapped) std::ranges::reverse(batch);
    std::vector<float> logits(3 * vocab), wanted;
    model->step(batch, *cache, logits);
    const auto last = [&](const std::vector<float>& all, std::size_t rows) {
      wanted.insert(wanted.end(), all.end() - static_cast<std::ptrdiff_t>(rows * vocab), all.end());
    };
    if (swapped) last(long_logits, 2);
    last(short_logits, 1);
    if (!swapped) last(long_logits, 2);
    EXPECT_LT(relative_error(logits, wanted), kBound) << (swapped ? "swapped" : "in order");
  }
}

TEST_P(EveryDecoder, GivesTheSameOnAnyNumberOfThreads) {
  const auto alone = load_decoder({.path = decoder_path(GetParam()), .num_threads = 1});
  const auto& ids = expected[0].ids;
  EXPECT_TRUE(
      same_numbers(run_in_pieces(*alone, ids, ids.size()), run_in_pieces(*model, ids, ids.size())));
}

TEST_P(EveryDecoder, RunsInPartsOfItsLayers) {
  const auto& ids = expected[0].ids;
  const ModelShape& shape = model->shape();
  const auto cache = model->make_cache(6, 4);
  const auto table = blocks_down(0, 6);
  const SequenceStep step{
      .tokens = ids, .context_tokens = 0, .block_table = table, .num_logits = 0};
  std::vector<float> hidden(ids.size() * static_cast<std::size_t>(shape.hidden_size));
  std::vector<float> logits(ids.size() * static_cast<std::size_t>(shape.vocab_size));
  model->embed({&step, 1}, hidden);
  if (runs_whole([&] { model->run_layers(0, 1, {&step, 1}, *cache, hidden); })) {
    model->run_layers(0, shape.num_layers, {&step, 1}, *cache, hidden);
    model->head(hidden, logits);
    EXPECT_TRUE(same_numbers(logits, run_in_pieces(*model, ids, ids.size())));
    return;
  }
  for (std::int64_t layer = 0; layer < shape.num_layers; ++layer)
    model->run_layers(layer, layer + 1, {&step, 1}, *cache, hidden);
  model->head(hidden, logits);
  EXPECT_TRUE(same_numbers(logits, run_in_pieces(*model, ids, ids.size())));
}

TEST_P(EveryDecoder, GivesTheSameFromPartsThatWereLoadedAlone) {
  const auto& ids = expected[0].ids;
  const ModelShape& shape = model->shape();
  const auto table = blocks_down(0, 6);
  const SequenceStep step{
      .tokens = ids, .context_tokens = 0, .block_table = table, .num_logits = 0};
  if (runs_whole([&] { load_decoder({.path = decoder_path(GetParam()), .last_layer = 1}); }))
    return;
  const auto whole = run_in_pieces(*model, ids, ids.size());
  for (std::int64_t cut = 0; cut <= shape.num_layers; ++cut) {
    SCOPED_TRACE(cut);
    const std::string path = decoder_path(GetParam());
    if (parts_keys(shape, cut)) {
      EXPECT_THAT(refusal([&] { load_decoder({.path = path, .first_layer = cut}); }),
                  HasSubstr("attends to the keys of layer"));
      continue;
    }
    const auto front = load_decoder({.path = path, .last_layer = cut, .with_head = false});
    const auto back = load_decoder({.path = path, .first_layer = cut, .with_embedding = false});
    EXPECT_EQ(front->weight_bytes() + back->weight_bytes(), model->weight_bytes());
    const auto front_cache = front->make_cache(6, 4), back_cache = back->make_cache(6, 4);
    EXPECT_EQ(front_cache->bytes() + back_cache->bytes(), model->make_cache(6, 4)->bytes());
    std::vector<float> hidden(ids.size() * static_cast<std::size_t>(shape.hidden_size));
    std::vector<float> logits(ids.size() * static_cast<std::size_t>(shape.vocab_size));
    front->embed({&step, 1}, hidden);
    front->run_layers(0, cut, {&step, 1}, *front_cache, hidden);
    back->run_layers(cut, shape.num_layers, {&step, 1}, *back_cache, hidden);
    back->head(hidden, logits);
    EXPECT_TRUE(same_numbers(logits, whole));
  }
}

// Another part of a model that is there: what both have is shared, and the results are the same.
TEST_P(EveryDecoder, ReadsOnlyWhatItDoesNotHold) {
  const auto& ids = expected[0].ids;
  const std::string path = decoder_path(GetParam());
  const std::int64_t layers = model->shape().num_layers;
  if (runs_whole([&] { load_decoder({.path = path, .last_layer = layers - 1}); })) return;
  // The first layer is the one that is not held, or the last where others need the first.
  const bool last = parts_keys(model->shape(), 1);
  for (const bool has_ends : {true, false}) {
    std::int64_t read = -1;
    const auto count = [&](std::int64_t, std::int64_t total) { read = total; };
    auto held = load_decoder({.path = path,
                              .first_layer = last ? 0 : 1,
                              .last_layer = last ? layers - 1 : layers,
                              .with_embedding = has_ends,
                              .with_head = has_ends,
                              .progress = count});
    EXPECT_EQ(read, layers - 1);
    const auto whole = load_decoder({.path = path, .held = held, .progress = count});
    EXPECT_EQ(read, 1);
    held.reset();
    EXPECT_EQ(whole->weight_bytes(), model->weight_bytes());
    EXPECT_TRUE(same_numbers(run_in_pieces(*whole, ids, ids.size()),
                             run_in_pieces(*model, ids, ids.size())));
  }
}

// A prompt's blocks go to other places of another cache, whose next step must see the same keys.
TEST_P(EveryDecoder, GoesOnFromBlocksOfAnotherCache) {
  const auto& ids = expected[0].ids;
  const auto vocab = static_cast<std::size_t>(model->shape().vocab_size);
  const std::int64_t layers = model->shape().num_layers, before = std::ssize(ids) - 1;
  for (const std::int32_t kv_bitwidth : {16, 8}) {
    SCOPED_TRACE(kv_bitwidth);
    const auto own = load_decoder({.path = decoder_path(GetParam()), .kv_bitwidth = kv_bitwidth});
    const auto here = own->make_cache(12, 4), there = own->make_cache(7, 4);
    const auto table = blocks_down(0, 6), moved = blocks_down(1, 6);
    const SequenceStep prompt{.tokens = std::span(ids).first(ids.size() - 1),
                              .context_tokens = 0,
                              .block_table = table,
                              .num_logits = 0};
    own->step({&prompt, 1}, *here, {});
    const std::int64_t size = here->block_bytes(0, layers);
    EXPECT_EQ(size * 12, here->bytes());
    std::vector<std::byte> bytes(static_cast<std::size_t>(size) * table.size());
    here->read(table, 0, layers, bytes);
    // Layer by layer, as a pipeline would, then one block once more by a copy.
    std::span<const std::byte> rest = bytes;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const auto count = static_cast<std::size_t>(there->block_bytes(layer, layer + 1)) * 6;
      there->write(moved, layer, layer + 1, rest.first(count));
      rest = rest.subspan(count);
    }
    there->copy(moved[0], 0);
    auto copied = moved;
    copied[0] = 0;
    const auto next = [&](KvCache& cache, std::span<const std::int32_t> blocks) {
      const SequenceStep step{.tokens = std::span(ids).last(1),
                              .context_tokens = before,
                              .block_table = blocks,
                              .num_logits = 1};
      std::vector<float> logits(vocab);
      own->step({&step, 1}, cache, logits);
      return logits;
    };
    const auto wanted = next(*here, table);
    EXPECT_EQ(next(*there, copied), wanted);
  }
}

TEST_P(EveryDecoder, KeepsItsCacheInEightBits) {
  const auto small = load_decoder({.path = decoder_path(GetParam()), .kv_bitwidth = 8});
  const auto& [ids, logits] = expected[0];
  const double error = relative_error(run_in_pieces(*small, ids, 5), logits);
  EXPECT_LT(error, most_in_8_bits(*model));
  EXPECT_GT(error, 1e-6);
  EXPECT_LT(small->make_cache(4, 16)->bytes(), model->make_cache(4, 16)->bytes());
}

// Frequencies that go by the length of a sequence: keys in a cache stay as they were turned, so
// that only a prompt in one piece is what transformers computes of it.
TEST(EveryLength, HasItsFrequencies) {
  for (const std::string name : {"llama_dynamic", "phi3_longrope"}) {
    const auto model = load_decoder({.path = decoder_path(name)});
    for (const Expected& one : expected_of(decoder_folder(name))) {
      EXPECT_LT(relative_error(run_in_pieces(*model, one.ids, one.ids.size()), one.logits), kBound)
          << name << ", " << one.ids.size() << " tokens";
    }
    const auto ids = expected_of(decoder_folder(name)).front().ids;
    EXPECT_GT(relative_error(run_in_pieces(*model, ids, 1), run_in_pieces(*model, ids, 21)), 1e-3);
  }
}

// Whatever the shape of a matrix, and however the prompt is cut.
TEST_P(EveryDecoder, RunsInFewerBits) {
  if (GetParam() == "gguf/llama_blocks") return;  // in blocks already
  if (GetParam().starts_with("quantised/")) {
    const std::vector<LayerForm> forms(static_cast<std::size_t>(model->shape().num_layers),
                                       {.bitwidth = 8, .scheme = {.group_size = 8}});
    EXPECT_THAT(refusal([&] { load_decoder({.path = decoder_path(GetParam()), .layers = forms}); }),
                HasSubstr("it is quantised already"));
    return;
  }
  const auto& [ids, logits] = expected[0];
  const double in_8_bits = most_in_8_bits(*model);
  for (const std::int32_t bitwidth : {8, 4, 3}) {
    SCOPED_TRACE(bitwidth);
    const std::vector<LayerForm> forms(static_cast<std::size_t>(model->shape().num_layers),
                                       {.bitwidth = bitwidth, .scheme = {.group_size = 8}});
    const auto small = load_decoder({.path = decoder_path(GetParam()), .layers = forms});
    const auto whole = run_in_pieces(*small, ids, ids.size());
    EXPECT_LT(relative_error(run_in_pieces(*small, ids, 1, 3), whole), 1e-5);
    EXPECT_GT(relative_error(whole, logits), 1e-5);
    EXPECT_LT(relative_error(whole, logits), bitwidth == 8 ? in_8_bits : 2);
  }
}

std::string name_of(const testing::TestParamInfo<std::string>& one) {
  std::string name = one.param;
  std::ranges::replace(name, '/', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Families, EveryDecoder, testing::ValuesIn(folders()), name_of);
INSTANTIATE_TEST_SUITE_P(States, EveryDecoder,
                         testing::Values("qwen3_next", "granitemoehybrid", "granitemoehybrid_dense",
                                         "qwen3_5", "qwen3_5_moe", "lfm2", "lfm2_moe", "nemotron_h",
                                         "nemotron_h_moe", "falcon_h1", "falcon_h1_norm", "jamba",
                                         "kimi_linear"),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Latents, EveryDecoder,
                         testing::Values("deepseek_v2", "deepseek_v3", "glm4_moe_lite"), name_of);
INSTANTIATE_TEST_SUITE_P(Streams, EveryDecoder, testing::Values("gemma3n"), name_of);
INSTANTIATE_TEST_SUITE_P(Chunks, EveryDecoder, testing::Values("llama4"), name_of);
INSTANTIATE_TEST_SUITE_P(SharedKeys, EveryDecoder,
                         testing::Values("gemma4", "gemma4_moe", "gguf/gemma4"), name_of);

// What planner and cost count of a model is what its file holds, in every folder that there is.
TEST(EveryFixture, HoldsTheParametersOfItsShape) {
  namespace fs = std::filesystem;
  int count = 0;
  for (const auto& folder : fs::directory_iterator(decoder_folder(""))) {
    if (!fs::exists(folder.path() / "model.safetensors")) continue;
    SCOPED_TRACE(folder.path().filename().string());
    ++count;
    const auto weights = weights::Weights::open(folder.path().string());
    const ModelShape shape = weights::model_of(*weights);
    std::int64_t numbers = 0;
    for (const weights::TensorInfo& tensor : weights->tensors()) {
      // A buffer that is no parameter.
      if (!tensor.name.ends_with("layer_scalar")) numbers += tensor.num_elements();
    }
    EXPECT_EQ(shape.num_parameters(), numbers);
  }
  EXPECT_GT(count, 70);
}

// bitsandbytes rounds activations too, as this does; of numbers the product is the formula's.
TEST(OfQuantisedCheckpoints, RowsOfEightBitsRoundActivations) {
  const std::string path = decoder_path("quantised/bnb_int8");
  const auto stored = load_decoder({.path = path});
  const std::vector<LayerForm> forms(static_cast<std::size_t>(stored->shape().num_layers));
  const auto numbers = load_decoder({.path = path, .layers = forms});
  for (const Expected& one : expected_of(decoder_folder("quantised/bnb_int8"))) {
    const auto error = [&](const Decoder& model) {
      return relative_error(run_in_pieces(model, one.ids, one.ids.size()), one.logits);
    };
    EXPECT_LT(error(*numbers), kBound);
    EXPECT_GT(error(*stored), kBound);
    EXPECT_LT(error(*stored), 0.2);
  }
}

// A state is that of after its last token: what a sequence goes back to must be there.
TEST(LayersWithAState, DoNotGoBack) {
  const auto model = load_decoder({.path = decoder_path("qwen3_next")});
  const auto cache = model->make_cache(2, 4);
  const std::vector<std::int32_t> ids = {5, 6, 7, 8, 9, 10}, table = {0, 1};
  std::vector<float> logits(static_cast<std::size_t>(model->shape().vocab_size));
  const auto run = [&](std::int64_t first, std::int64_t count) {
    const SequenceStep step{.tokens = std::span(ids).subspan(static_cast<std::size_t>(first),
                                                             static_cast<std::size_t>(count)),
                            .context_tokens = first,
                            .block_table = table,
                            .num_logits = 1};
    model->step({&step, 1}, *cache, logits);
    return logits;
  };
  run(0, 4);
  const auto wanted = run(4, 2);
  EXPECT_EQ(run(4, 2), wanted);  // the first block ends where a step did
  EXPECT_THAT(refusal([&] { run(5, 1); }),
              HasSubstr("a sequence goes on after 5 tokens, and the state of layer 0 in its block "
                        "is that of after 6"));
  EXPECT_THAT(refusal([&] { run(3, 1); }), HasSubstr("after 3 tokens"));
  EXPECT_THAT(refusal([] { load_decoder({.path = decoder_path("qwen3_next"), .ranks = 2}); }),
              HasSubstr("keeps a state, which is not shared"));
}

}  // namespace
}  // namespace tessera::lm::decoder_test
