// Where each family keeps its matrices, checked against layouts written down by hand.
#include <algorithm>
#include <cstring>

#include "linear_layouts.h"
#include "tessera/weights/ranges.h"

namespace tessera::weights::linears_test {
namespace {

using test::expect_error;

TEST_F(Linears, ofTheLlamaFamilies) {
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text"}) {
    expect_plain(with(kLlama, {{"model_type", family}, {"head_dim", 2}}), kLlamaLayout);
  }
  expect_plain(kLlama, renamed(kLlamaLayout, "model.", ""));
  const Json gemma3 = {
      {"model_type", "gemma3"},
      {"text_config", with(kLlama, {{"head_dim", 2}, {"model_type", "gemma3_text"}})}};
  expect_plain(gemma3, renamed(kLlamaLayout, "model.", "language_model.model."));
  expect_plain(gemma3, renamed(kLlamaLayout, "model.", "model.language_model."));
}

TEST_F(Linears, ofOptAndGptj) {
  const Layout opt = {{"model.decoder.layers.{}.self_attn.q_proj.weight", {8, 8}},
                      {"model.decoder.layers.{}.self_attn.k_proj.weight", {8, 8}},
                      {"model.decoder.layers.{}.self_attn.v_proj.weight", {8, 8}},
                      {"model.decoder.layers.{}.self_attn.out_proj.weight", {8, 8}},
                      {"model.decoder.layers.{}.fc1.weight", {32, 8}},
                      {"model.decoder.layers.{}.fc2.weight", {8, 32}}};
  expect_plain(kOpt, opt);
  expect_plain(kOpt, renamed(opt, "model.", ""));
  const Layout gptj = {{"transformer.h.{}.attn.q_proj.weight", {8, 8}},
                       {"transformer.h.{}.attn.k_proj.weight", {8, 8}},
                       {"transformer.h.{}.attn.v_proj.weight", {8, 8}},
                       {"transformer.h.{}.attn.out_proj.weight", {8, 8}},
                       {"transformer.h.{}.mlp.fc_in.weight", {32, 8}},
                       {"transformer.h.{}.mlp.fc_out.weight", {8, 32}}};
  expect_plain(with(kGpt2, {{"model_type", "gptj"}}), gptj);
}

/// Rows of the fused matrix of each linear, as modeling_*.py views them:
/// fused.view(num_groups, queries + 2, head_dim).
void expect_groups(const std::vector<float>& fused, int num_groups, int queries,
                   const std::vector<float>& q, const std::vector<float>& k,
                   const std::vector<float>& v) {
  const int head = 2, hidden = 8;
  std::size_t at = 0, at_q = 0, at_k = 0, at_v = 0;
  for (int group = 0; group < num_groups; ++group) {
    for (int part = 0; part < queries + 2; ++part) {
      for (int i = 0; i < head * hidden; ++i) {
        const float value = fused[at++];
        if (part < queries) {
          ASSERT_EQ(q[at_q++], value);
        } else if (part == queries) {
          ASSERT_EQ(k[at_k++], value);
        } else {
          ASSERT_EQ(v[at_v++], value);
        }
      }
    }
  }
  EXPECT_EQ(at_q, q.size());
  EXPECT_EQ(at_k, k.size());
  EXPECT_EQ(at_v, v.size());
}

TEST_F(Linears, ofBloomAndFalconAreFusedPerHead) {
  struct Case {
    Json config;
    int num_groups, queries;
  };
  const std::vector<Case> cases = {
      {kBloom, 4, 1},
      {kFalcon, 1, 4},  // multi_query
      {with(kFalcon, {{"multi_query", false}}), 4, 1},
      {with(kFalcon, {{"new_decoder_architecture", true}, {"num_kv_heads", 2}}), 2, 2}};
  for (const Case& c : cases) {
    const std::int64_t rows = 2 * c.num_groups * (c.queries + 2);
    const auto weights =
        open(c.config, {{"transformer.h.{}.self_attention.query_key_value.weight", {rows, 8}},
                        {"transformer.h.{}.self_attention.dense.weight", {8, 8}},
                        {"transformer.h.{}.mlp.dense_h_to_4h.weight", {32, 8}},
                        {"transformer.h.{}.mlp.dense_4h_to_h.weight", {8, 32}}});
    const auto linears = linears_of(*weights, model_of(*weights));
    ASSERT_EQ(linears.size(), 12u);
    const auto read_one = [&](const char* name) { return read(*weights, one(linears, 1, name)); };
    expect_groups(stored(*weights, "transformer.h.1.self_attention.query_key_value.weight"),
                  c.num_groups, c.queries, read_one("q_proj"), read_one("k_proj"),
                  read_one("v_proj"));
    EXPECT_EQ(read_one("o_proj"), stored(*weights, "transformer.h.1.self_attention.dense.weight"));
    EXPECT_EQ(read_one("down_proj"), stored(*weights, "transformer.h.1.mlp.dense_4h_to_h.weight"));
  }
}

TEST_F(Linears, ofGpt2AreTransposedAndFused) {
  const auto weights = open(kGpt2, {{"h.{}.attn.c_attn.weight", {8, 24}},
                                    {"h.{}.attn.c_proj.weight", {8, 8}},
                                    {"h.{}.mlp.c_fc.weight", {8, 32}},
                                    {"h.{}.mlp.c_proj.weight", {32, 8}}});
  const auto linears = linears_of(*weights, model_of(*weights));
  const auto fused = stored(*weights, "h.1.attn.c_attn.weight");
  const auto up = stored(*weights, "h.1.mlp.c_fc.weight");
  for (int out = 0; out < 8; ++out) {
    for (int in = 0; in < 8; ++in) {
      const auto at = static_cast<std::size_t>(out * 8 + in);
      const auto from = static_cast<std::size_t>(in * 24 + out);
      EXPECT_EQ(read(*weights, one(linears, 1, "q_proj"))[at], fused[from]);
      EXPECT_EQ(read(*weights, one(linears, 1, "k_proj"))[at], fused[from + 8]);
      EXPECT_EQ(read(*weights, one(linears, 1, "v_proj"))[at], fused[from + 16]);
    }
  }
  const auto read_up = read(*weights, one(linears, 1, "up_proj"));
  EXPECT_EQ(read_up[31 * 8 + 3], up[3 * 32 + 31]);
}

// Larger than one of the squares that the transposition goes by, and no multiple of it.
TEST_F(Linears, areTransposedWhateverTheirSize) {
  const std::int64_t hidden = 100;
  const Json config = with(kGpt2, {{"n_embd", hidden}});
  const auto weights = open(config, {{"h.{}.attn.c_attn.weight", {hidden, 3 * hidden}},
                                     {"h.{}.attn.c_proj.weight", {hidden, hidden}},
                                     {"h.{}.mlp.c_fc.weight", {hidden, 4 * hidden}},
                                     {"h.{}.mlp.c_proj.weight", {4 * hidden, hidden}}});
  const auto linears = linears_of(*weights, model_of(*weights));
  const auto up = stored(*weights, "h.0.mlp.c_fc.weight");
  const auto found = read(*weights, one(linears, 0, "up_proj"));
  for (std::size_t out = 0; out < 400; ++out) {
    for (std::size_t in = 0; in < 100; ++in) ASSERT_EQ(found[out * 100 + in], up[in * 400 + out]);
  }
  std::vector<float> rows(3 * 100);
  read_linear_rows_f32(*weights, one(linears, 0, "up_proj"), 127, 3, rows);
  EXPECT_TRUE(std::equal(rows.begin(), rows.end(), found.begin() + 12700));
}

TEST_F(Linears, ofFusedLlamas) {
  const auto weights = open(kLlama, {{"model.layers.{}.self_attn.qkv_proj.weight", {16, 8}},
                                     {"model.layers.{}.self_attn.o_proj.weight", {8, 8}},
                                     {"model.layers.{}.mlp.gate_up_proj.weight", {24, 8}},
                                     {"model.layers.{}.mlp.down_proj.weight", {8, 12}}});
  const auto linears = linears_of(*weights, model_of(*weights));
  const auto qkv = stored(*weights, "model.layers.1.self_attn.qkv_proj.weight");
  const auto mlp = stored(*weights, "model.layers.1.mlp.gate_up_proj.weight");
  const auto part = [](const std::vector<float>& all, int first, int last) {
    return std::vector<float>(all.begin() + first * 8, all.begin() + last * 8);
  };
  EXPECT_EQ(read(*weights, one(linears, 1, "q_proj")), part(qkv, 0, 8));
  EXPECT_EQ(read(*weights, one(linears, 1, "k_proj")), part(qkv, 8, 12));
  EXPECT_EQ(read(*weights, one(linears, 1, "v_proj")), part(qkv, 12, 16));
  EXPECT_EQ(read(*weights, one(linears, 1, "gate_proj")), part(mlp, 0, 12));
  EXPECT_EQ(read(*weights, one(linears, 1, "up_proj")), part(mlp, 12, 24));
}

TEST_F(Linears, ofExpertsOneByOneAndStacked) {
  const Json mixtral = with(
      kLlama, {{"model_type", "mixtral"}, {"num_local_experts", 3}, {"num_experts_per_tok", 2}});
  const Json qwen = with(kLlama, {{"model_type", "qwen3_moe"},
                                  {"num_experts", 3},
                                  {"num_experts_per_tok", 2},
                                  {"moe_intermediate_size", 6}});
  const Layout attention(kLlamaLayout.begin(), kLlamaLayout.begin() + 4);
  const auto experts = [&](const std::string& block, const char* gate, const char* up,
                           const char* down, std::int64_t ffn) {
    Layout layout = attention;
    for (const auto& [name, shape] : Layout{{gate, {ffn, 8}}, {up, {ffn, 8}}, {down, {8, ffn}}}) {
      for (int e = 0; e < 3; ++e) {
        layout.push_back(
            {"model.layers.{}." + block + ".experts." + std::to_string(e) + "." + name + ".weight",
             shape});
      }
    }
    return layout;
  };
  expect_plain(mixtral, experts("block_sparse_moe", "w1", "w3", "w2", 12));
  expect_plain(qwen, experts("mlp", "gate_proj", "up_proj", "down_proj", 6));

  Layout stacked = attention;
  stacked.push_back({"model.layers.{}.mlp.experts.gate_up_proj", {3, 12, 8}});
  stacked.push_back({"model.layers.{}.mlp.experts.down_proj", {3, 8, 6}});
  const auto weights = open(qwen, stacked);
  const auto linears = linears_of(*weights, model_of(*weights));
  const auto gate_up = stored(*weights, "model.layers.1.mlp.experts.gate_up_proj");
  const auto down = stored(*weights, "model.layers.1.mlp.experts.down_proj");
  EXPECT_EQ(read(*weights, one(linears, 1, "experts.up_proj", 2)),
            std::vector<float>(gate_up.begin() + (2 * 12 + 6) * 8, gate_up.end()));
  EXPECT_EQ(read(*weights, one(linears, 1, "experts.gate_proj", 1)),
            std::vector<float>(gate_up.begin() + 12 * 8, gate_up.begin() + 18 * 8));
  EXPECT_EQ(read(*weights, one(linears, 1, "experts.down_proj", 1)),
            std::vector<float>(down.begin() + 48, down.begin() + 96));
  EXPECT_EQ(describe(one(linears, 1, "experts.down_proj", 1)),
            "layer 1 experts.down_proj of expert 1");
}

// Old files have numbers at odd addresses.
TEST_F(Linears, areReadWhereverTheyLie) {
  const auto whole = open(kLlama, kLlamaLayout);
  const LinearWeight first = linears_of(*whole, model_of(*whole)).front();
  const auto expected = read(*whole, first);
  const double mean = moments_of(*whole, *first.tensor, 1).mean;
  const std::string content = FolderTest::read(path("model.safetensors"));
  std::uint64_t length = 0;
  std::memcpy(&length, content.data(), sizeof length);
  file("model.safetensors",
       raw(length + 1) + content.substr(8, length) + " " + content.substr(8 + length));
  const auto odd = Weights::open(folder_.string());
  const LinearWeight moved = linears_of(*odd, model_of(*odd)).front();
  EXPECT_EQ(read(*odd, moved), expected);
  std::vector<kernels::Range> range(static_cast<std::size_t>(moved.num_rows));
  ranges_of_rows(*odd, moved, 0, moved.num_rows, 0, range);
  const auto end = expected.begin() + moved.in_features;
  EXPECT_EQ(range[0].max, *std::max_element(expected.begin(), end));
  EXPECT_EQ(moments_of(*odd, *moved.tensor, 2).mean, mean);
}

TEST_F(Linears, areCheckedAgainstTheModel) {
  Layout wrong = kLlamaLayout;
  wrong[4].second = {13, 8};
  auto weights = open(kLlama, wrong);
  expect_error(ErrorCode::invalid_argument,
               {"model.safetensors", "'model.layers.0.mlp.gate_proj.weight'", "[13, 8]", "[12, 8]",
                "gate_proj"},
               [&] { linears_of(*weights, model_of(*weights)); });
  Layout hole = kLlamaLayout;
  hole.erase(hole.begin() + 2);
  weights = open(kLlama, hole);
  expect_error(ErrorCode::not_found,
               {folder_.string(), "v_proj of layer 0", "model.layers.0.self_attn.v_proj.weight",
                "[4, 8]", "did you mean"},
               [&] { linears_of(*weights, model_of(*weights)); });
}

TEST_F(Linears, ofQuantisedCheckpointsAreRefused) {
  const auto refuses = [&](const Layout& layout, const std::vector<std::string>& parts,
                           const Json& config = kLlama) {
    const auto weights = open(config, layout);
    std::vector<std::string> all = {"model.safetensors", "quantised already", "in 16 bits"};
    all.insert(all.end(), parts.begin(), parts.end());
    expect_error(ErrorCode::unsupported, all, [&] { linears_of(*weights, model_of(*weights)); });
  };
  Layout scaled = kLlamaLayout;
  scaled.push_back({"model.layers.{}.self_attn.q_proj.weight_scale_inv", {1, 1}});
  refuses(scaled, {"q_proj.weight_scale_inv", "FP8"});
  refuses(renamed(kLlamaLayout, "q_proj.weight", "q_proj.weight_packed"), {"q_proj.weight_packed"});
  // No matrix has its name of 16 bits: the prefix is found all the same.
  const auto all_renamed = [&](const char* by) { return renamed(kLlamaLayout, ".weight", by); };
  refuses(all_renamed(".weight_packed"),
          {"'model.layers.0.self_attn.q_proj.weight_packed'", "compressed-tensors"});
  refuses(all_renamed(".qweight"), {"'model.layers.0.self_attn.q_proj.qweight'", "GPTQ or AWQ"});
  refuses(all_renamed(".W_q"), {"HQQ"});
  // Of another shape than in 16 bits.
  Layout four_bits = kLlamaLayout;
  four_bits[0].second = {32, 1};
  four_bits.push_back({"model.layers.{}.self_attn.q_proj.weight.absmax", {1}});
  refuses(four_bits, {"q_proj.weight.absmax", "bitsandbytes"});
  refuses(all_renamed(".qweight"), {"config.json as quant_method 'gptq'"},
          with(kLlama, {{"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}}}}));
}

TEST_F(Linears, ofANamedQuantisationAreNotNumbers) {
  const Json named =
      with(kLlama, {{"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}}}});
  const auto weights = open(named, kLlamaLayout);
  expect_error(ErrorCode::invalid_argument,
               {"config.json' names a quantisation (gptq)", "model.safetensors' holds none",
                "q_proj.weight", "take the quantisation out"},
               [&] { linears_of(*weights, model_of(*weights)); });
}

TEST_F(Linears, areThoseOfTheConfig) {
  // What is no part of a layer, in a file of its own.
  const auto opens = [&](const std::string& name, Shape shape) {
    std::vector<test::StoredTensor> tensors = {
        {name, "F32", shape, std::string(static_cast<std::size_t>(4 * elements(shape)), '\0')}};
    file("extra.safetensors", test::safetensors_file(tensors));
    open(kLlama, kLlamaLayout);
    std::filesystem::rename(path("model.safetensors"), path("layers.safetensors"));
    const auto weights = Weights::open(folder_.string());
    linears_of(*weights, model_of(*weights));
  };
  opens("model.embed_tokens.weight", {5, 8});
  opens("lm_head.weight", {5, 8});
  expect_error(ErrorCode::invalid_argument,
               {"extra.safetensors", "'model.embed_tokens.weight'", "[7, 8]", "config.json",
                "[5, 8]", "5 tokens of 8 features", "another model"},
               [&] {
                 opens("model.embed_tokens.weight", {7, 8});
               });
  expect_error(ErrorCode::invalid_argument, {"'lm_head.weight'", "[5, 9]", "[5, 8]"}, [&] {
    opens("lm_head.weight", {5, 9});
  });
  std::filesystem::remove(path("extra.safetensors"));
  std::filesystem::remove(path("layers.safetensors"));
  const auto more = open(with(kLlama, {{"num_hidden_layers", 1}}), kLlamaLayout);
  expect_error(ErrorCode::invalid_argument,
               {"'model.layers.1.self_attn.q_proj.weight'", "layer 1", "says 1 layers"},
               [&] { linears_of(*more, model_of(*more)); });
}

TEST_F(Linears, needAConfig) {
  const std::string path =
      file("model.safetensors", test::safetensors_file(std::vector<test::StoredTensor>{}));
  expect_error(ErrorCode::not_found, {path, "config.json"},
               [&] { model_of(*Weights::open(path)); });
}

}  // namespace
}  // namespace tessera::weights::linears_test
