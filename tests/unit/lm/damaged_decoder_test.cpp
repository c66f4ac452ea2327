// Tiny models of every family with one thing wrong: one clear error each, before any number of them
// is used.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "decoders.h"
#include "expect_error.h"
#include "folder.h"
#include "sanitised.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"

namespace tessera::lm::damaged_decoder_test {
namespace {

using test::expect_error;
using test::StoredTensor;

// The largest exponent and a bit of the fraction, in the first number.
void make_nan(StoredTensor& tensor) {
  if (tensor.dtype == "F32") {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(tensor.data.data(), &nan, sizeof nan);
  } else {
    tensor.data[0] = tensor.data[1] = '\x7f';
    if (tensor.dtype == "BF16") tensor.data[0] = '\xff';
  }
}

class DamagedDecoder : public test::FolderTest {
 protected:
  std::shared_ptr<const Decoder> load(const std::vector<StoredTensor>& tensors,
                                      const std::string& config) const {
    file("config.json", config);
    file("model.safetensors", test::safetensors_file(tensors));
    return load_decoder({.path = folder_.string(), .num_threads = 1});
  }
  /// What loading says, and running every token of the vocabulary: "" where both are fine.
  std::string complaint(const std::vector<StoredTensor>& tensors, const std::string& config) const {
    try {
      const auto model = load(tensors, config);
      const auto cache = model->make_cache(1, 4);
      const std::int32_t block = 0;
      std::vector<float> logits(static_cast<std::size_t>(model->shape().vocab_size));
      for (std::int32_t token = 0; token < model->shape().vocab_size; ++token) {
        const SequenceStep step{.tokens = {&token, 1},
                                .context_tokens = 0,
                                .block_table = {&block, 1},
                                .num_logits = 1};
        model->step({&step, 1}, *cache, logits);
      }
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::internal) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return error.what();
    }
    return "";
  }
};

class EveryFamily : public DamagedDecoder, public testing::WithParamInterface<std::string> {
 protected:
  std::string config = read_file(decoder_folder(GetParam()) + "/config.json");
  std::vector<StoredTensor> tensors = stored_tensors(decoder_folder(GetParam()));
};

TEST_P(EveryFamily, IsFineAsItIs) { EXPECT_EQ(complaint(tensors, config), ""); }

TEST_P(EveryFamily, LacksATensor) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto damaged = tensors;
    damaged.erase(damaged.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(complaint(damaged, config), "") << tensors[i].name;
  }
}

TEST_P(EveryFamily, HasATensorOfAnotherShape) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto damaged = tensors;
    damaged[i].shape.back() /= 2;
    damaged[i].data.resize(damaged[i].data.size() / 2);
    EXPECT_THAT(complaint(damaged, config), testing::HasSubstr(tensors[i].name));
  }
}

TEST_P(EveryFamily, HasANumberThatIsNone) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto damaged = tensors;
    make_nan(damaged[i]);
    const std::string said = complaint(damaged, config);
    EXPECT_THAT(said, testing::HasSubstr(tensors[i].name));
    EXPECT_THAT(said, testing::HasSubstr("nan"));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EveryFamily,
                         testing::Values("opt", "opt_postnorm", "bloom", "llama2", "qwen2_moe",
                                         "qwen3", "mixtral", "gemma2", "gemma3", "falcon",
                                         "falcon_new", "gptj", "gpt2", "cohere_qk_norm", "dots1",
                                         "glm4", "gpt_oss", "olmo2", "stablelm_parallel"),
                         [](const auto& one) { return one.param; });

TEST_F(DamagedDecoder, HasATensorTooMany) {
  auto tensors = stored_tensors(decoder_folder("llama2"));
  tensors.push_back({"model.layers.0.mlp.adapter.weight", "F32", {1}, std::string(4, '\0')});
  EXPECT_THAT(
      complaint(tensors, read_file(decoder_folder("llama2") + "/config.json")),
      testing::HasSubstr("1 tensor that no llama has: 'model.layers.0.mlp.adapter.weight'"));
}

TEST_F(DamagedDecoder, IsOfAFamilyOrSwitchThatIsPlannedOnly) {
  const auto expect = [&](const char* folder, const Json& changes, const char* said) {
    Json config = parse_json(read_file(decoder_folder(folder) + "/config.json"), "config.json");
    config.update(changes);
    EXPECT_THAT(complaint(stored_tensors(decoder_folder(folder)), config.dump()),
                testing::HasSubstr(said));
  };
  expect("llama2", {{"model_type", "apertus"}, {"architectures", {"ApertusForCausalLM"}}},
         "the family 'apertus' can be planned, not run; run are arcee, bloom, ");
  expect("dots1", {{"n_group", 3}},
         "n_group: 4 experts, of which a token visits 2, do not come in 3");
  expect("mpt", {{"attn_config", {{"alibi", true}, {"prefix_lm", true}}}},
         "attn_config.prefix_lm: only false is understood");
  expect("smollm3", {{"no_rope_layers", {1, 0}}}, "no_rope_layers: 2 numbers for 3 layers");
  expect("phi3_longrope",
         {{"rope_scaling",
           {{"rope_type", "longrope"},
            {"short_factor", {1.0}},
            {"long_factor", {1.0, 2.0, 3.0, 4.0}}}}},
         "short_factor: 1 factors for 4 pairs");
}

TEST_F(DamagedDecoder, LacksABiasThatOtherLayersHave) {
  auto tensors = stored_tensors(decoder_folder("opt"));
  std::erase_if(tensors, [](const StoredTensor& tensor) {
    return tensor.name == "model.decoder.layers.1.fc1.bias";
  });
  EXPECT_THAT(complaint(tensors, read_file(decoder_folder("opt") + "/config.json")),
              testing::HasSubstr("(layer 0 has 'model.decoder.layers.0.fc1.bias')"));
}

TEST_F(DamagedDecoder, IsCutShortAnywhere) {
  for (const std::string name : {"llama2/model.safetensors", "gguf/llama_blocks/model.gguf"}) {
    const std::string whole = read_file(decoder_folder(name));
    const std::string here = name.ends_with(".gguf") ? "a.gguf" : "model.safetensors";
    file("config.json", read_file(decoder_folder("llama2") + "/config.json"));
    for (std::size_t length = 0; length < whole.size(); length += 1 + whole.size() / 97) {
      const std::string path = file(here, whole.substr(0, length));
      const std::string opened = here == "a.gguf" ? path : folder_.string();
      expect_error(ErrorCode::invalid_argument, {here, "byte"},
                   [&] { load_decoder({.path = opened, .num_threads = 1}); });
    }
    std::filesystem::remove(path(here));
  }
}

TEST_F(DamagedDecoder, HasNoRoomForItsCache) {
  if (test::kSanitised) GTEST_SKIP() << "a sanitizer ends the program instead";
  const auto model = load_decoder({.path = decoder_folder("llama2"), .num_threads = 1});
  expect_error(ErrorCode::out_of_range, {"cache", "1099511627776 tokens", "ask for fewer tokens"},
               [&] { model->make_cache(std::int64_t{1} << 36, 16); });
  expect_error(ErrorCode::out_of_range, {"cache"},
               [&] { model->make_cache(std::int64_t{1} << 60, 16); });
}

TEST_F(DamagedDecoder, ClaimsSizesBeyondAnyMachine) {
  const auto tensors = stored_tensors(decoder_folder("llama2"));
  const Json config = Json::parse(read_file(decoder_folder("llama2") + "/config.json"));
  for (const char* key :
       {"num_hidden_layers", "vocab_size", "hidden_size", "intermediate_size",
        "num_attention_heads", "num_key_value_heads", "max_position_embeddings"}) {
    for (const std::int64_t size :
         {std::int64_t{1} << 31, std::int64_t{1} << 60, std::int64_t{-1}}) {
      Json other = config;
      other[key] = size;
      EXPECT_THAT(complaint(tensors, other.dump()), testing::HasSubstr(key)) << size;
    }
  }
}

}  // namespace
}  // namespace tessera::lm::damaged_decoder_test
