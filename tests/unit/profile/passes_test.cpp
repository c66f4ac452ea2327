#include "tessera/profile/passes.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "decoder.h"
#include "model_files.h"
#include "tessera/lm/backend.h"
#include "tessera/profile/random_model.h"

namespace tessera::profile::passes_cases {
namespace {

ModelShape llama() {
  return test::from_config(Json{{"model_type", "llama"},
                                {"hidden_size", 96},
                                {"intermediate_size", 160},
                                {"num_hidden_layers", 6},
                                {"num_attention_heads", 6},
                                {"num_key_value_heads", 2},
                                {"max_position_embeddings", 128},
                                {"vocab_size", 300}});
}

ModelShape opt() {
  return test::from_config(Json{{"model_type", "opt"},
                                {"hidden_size", 64},
                                {"ffn_dim", 128},
                                {"num_hidden_layers", 5},
                                {"num_attention_heads", 4},
                                {"max_position_embeddings", 64},
                                {"vocab_size", 200}});
}

std::shared_ptr<const lm::LanguageModel> load(const std::string& path, int bitwidth,
                                              std::int64_t num_layers, std::int64_t last = -1) {
  lm::LoadRequest request{.path = path, .last_layer = last, .num_threads = 1};
  request.layers.assign(static_cast<std::size_t>(num_layers), {.bitwidth = bitwidth});
  return lm::Decoder::load(request, lm::make_cpu_backend(1));
}

TEST(RandomModel, IsTheShapeWithFewerLayersAndGoesAgain) {
  for (const ModelShape& shape : {llama(), opt()}) {
    std::string path;
    {
      const RandomModel random(shape, 3);
      path = random.path();
      const auto model = load(path, 16, 3);
      EXPECT_EQ(model->shape().num_layers, 3);
      EXPECT_EQ(model->shape().vocab_size, shape.vocab_size);
      EXPECT_EQ(model->shape().layer(0).linears, shape.layer(0).linears);
      EXPECT_EQ(model->shape().layer(0).num_kv_heads, shape.layer(0).num_kv_heads);
      EXPECT_EQ(model->shape().max_context_tokens, shape.max_context_tokens);
    }
    EXPECT_FALSE(std::filesystem::exists(path));
  }
}

TEST(RandomModel, RefusesWhatItCannotMake) {
  for (const char* name : {"mixtral-8x7b", "deepseek-v2", "gemma-2-9b", "falcon-7b"}) {
    const Error error = test::error_of([&] { RandomModel(test::shipped(name), 1); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << name;
    EXPECT_NE(std::string(error.what()).find("name a folder"), std::string::npos) << error.what();
  }
}

TEST(Passes, AllPiecesAtAllBitwidths) {
  for (const ModelShape& shape : {llama(), opt()}) {
    const RandomModel random(shape, 3);
    for (const int bitwidth : {3, 4, 8, 16}) {
      const auto model = load(random.path(), bitwidth, 3);
      PassesRequest request{.passes = {{Piece::layer, 2, 5, 0},
                                       {Piece::layer, 3, 1, 17},
                                       {Piece::layer, 1, 40, 20},
                                       {Piece::embedding, 9, 1, 0},
                                       {Piece::head, 4, 1, 0},
                                       {Piece::sampling, 2, 1, 0}},
                            .timing = {.repeats = 2, .least_s = 0},
                            .cpu = this_cpu()};
      std::int64_t calls = 0;
      request.progress = [&](std::int64_t done, std::int64_t total) {
        EXPECT_EQ(done, ++calls);
        EXPECT_EQ(total, 6);
      };
      const auto timed = time_passes(*model, nullptr, request);
      ASSERT_EQ(timed.size(), 6u);
      for (const TimedPass& each : timed) EXPECT_GT(each.timing.median_s, 0);
    }
  }
}

// A run of few rows goes through all layers, one of many through a share of them; what is told is
// one layer's.
TEST(Passes, TellsOfOneLayer) {
  const RandomModel random(llama(), 4);
  const auto model = load(random.path(), 16, 4);
  double now_s = 0;
  PassesRequest request{.passes = {{Piece::layer, 1, 1, 0}, {Piece::layer, 4, 8, 0}},
                        .timing = {.repeats = 1, .least_s = 0},
                        .cpu = this_cpu(),
                        .clock = [&] { return now_s += 12; }};
  const auto timed = time_passes(*model, nullptr, request);
  EXPECT_DOUBLE_EQ(timed[0].timing.median_s, 12.0 / 4);
  EXPECT_DOUBLE_EQ(timed[1].timing.median_s, 12.0 / 2);
}

TEST(Passes, OfAPartBesideOtherCores) {
  const RandomModel random(llama(), 6);
  const auto model = load(random.path(), 4, 6, 2), other = load(random.path(), 4, 6, 2);
  Cpu cpu = this_cpu();
  while (cpu.num_cores() < 3) cpu.cores.push_back(cpu.cores.front());
  const PassesRequest request{.passes = {{Piece::layer, 2, 3, 9}},
                              .timing = {.repeats = 3, .least_s = 0},
                              .cpu = cpu,
                              .cores = 1,
                              .others = 2};
  EXPECT_GT(time_passes(*model, other.get(), request).front().timing.median_s, 0);
}

TEST(Passes, RefusesWhatIsBeyondTheContextAndStops) {
  const RandomModel random(llama(), 1);
  const auto model = load(random.path(), 16, 1);
  PassesRequest request{
      .passes = {{Piece::layer, 1, 100, 29}}, .timing = {.repeats = 1}, .cpu = this_cpu()};
  const Error error = test::error_of([&] { time_passes(*model, nullptr, request); });
  EXPECT_EQ(error.code(), ErrorCode::out_of_range);
  EXPECT_NE(std::string(error.what()).find("128 tokens"), std::string::npos) << error.what();
  request.passes = {{Piece::layer, 1, 1, 0}};
  request.interrupted = [] { return true; };
  EXPECT_EQ(test::error_of([&] { time_passes(*model, nullptr, request); }).code(),
            ErrorCode::interrupted);
}

}  // namespace
}  // namespace tessera::profile::passes_cases
