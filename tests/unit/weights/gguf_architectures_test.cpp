// Shapes of models that GGUF files describe and nothing here runs: keys as llama.cpp's conversion
// writes them of small models of transformers 5.24, which counted the parameters (without the
// buffers that correct a router, which files hold).
#include <map>

#include "linear_layouts.h"

namespace tessera::weights::gguf_architectures_test {
namespace {

struct Case {
  std::string arch, family;
  std::vector<std::pair<std::string, std::uint32_t>> numbers;
  std::vector<std::int32_t> kv_heads;
  std::vector<std::string> tensors;
  std::int64_t num_parameters;
};

class OfShapeAlone : public Linears, public testing::WithParamInterface<Case> {};

const std::vector<Case>& cases() {
  static const std::vector<std::string> routed = {
      "blk.1.ffn_gate_inp.weight", "blk.2.ffn_gate_inp.weight", "blk.3.ffn_gate_inp.weight"};
  static const std::vector<Case> all = {
      {"deepseek2",
       "deepseek_v3",
       {{"attention.head_count_kv", 1},
        {"expert_count", 8},
        {"expert_used_count", 2},
        {"expert_feed_forward_length", 32},
        {"expert_shared_count", 1},
        {"leading_dense_block_count", 1},
        {"attention.q_lora_rank", 24},
        {"attention.kv_lora_rank", 16},
        {"attention.key_length", 24},
        {"attention.key_length_mla", 24},
        {"attention.value_length_mla", 16},
        {"rope.dimension_count", 8}},
       {},
       {"blk.1.ffn_gate_inp.weight", "blk.3.exp_probs_b.bias", "output.weight"},
       244960 + 3 * 8},
      {"deepseek4",
       "deepseek_v4",
       {{"attention.key_length", 16},
        {"rope.dimension_count", 4},
        {"attention.q_lora_rank", 24},
        {"attention.sliding_window", 8},
        {"attention.indexer.head_count", 2},
        {"attention.indexer.key_length", 8},
        {"attention.indexer.top_k", 4},
        {"attention.output_group_count", 2},
        {"attention.output_lora_rank", 8},
        {"hyper_connection.count", 2},
        {"hash_layer_count", 1},
        {"expert_count", 4},
        {"expert_used_count", 2},
        {"expert_shared_count", 1},
        {"expert_feed_forward_length", 32}},
       {},
       {"output.weight"},
       187219 + 3 * 4},
      {"jamba",
       "jamba",
       {{"ssm.conv_kernel", 4},
        {"ssm.inner_size", 128},
        {"ssm.state_size", 8},
        {"ssm.time_step_rank", 4},
        {"expert_count", 4},
        {"expert_used_count", 2}},
       {0, 0, 2, 0},
       {routed[0], routed[2], "output.weight"},
       298748},
      {"lfm2", "lfm2", {{"shortconv.l_cache", 3}}, {0, 0, 2, 0}, {}, 142496},
      {"llama4",
       "llama4_text",
       {{"attention.head_count_kv", 2},
        {"attention.key_length", 16},
        {"feed_forward_length", 128},
        {"expert_count", 4},
        {"expert_used_count", 1},
        {"interleave_moe_layer_step", 1},
        {"expert_feed_forward_length", 96}},
       {},
       {"output.weight"},
       431680},
      {"afmoe",
       "afmoe",
       {{"attention.head_count_kv", 2},
        {"attention.key_length", 16},
        {"expert_count", 4},
        {"expert_used_count", 2},
        {"expert_shared_count", 1},
        {"expert_feed_forward_length", 32},
        {"leading_dense_block_count", 1},
        {"attention.sliding_window", 1024}},
       {},
       {"output.weight"},
       190412},
      {"ernie4_5-moe",
       "ernie4_5_moe",
       {{"attention.head_count_kv", 2},
        {"expert_count", 4},
        {"expert_used_count", 2},
        {"interleave_moe_layer_step", 1},
        {"leading_dense_block_count", 1},
        {"expert_feed_forward_length", 32},
        {"expert_shared_count", 2}},
       {},
       {},
       185676},
  };
  return all;
}

TEST_P(OfShapeAlone, HasTheParametersThatTransformersCounts) {
  const Case& one = GetParam();
  test::GgufFile content;
  content.word("general.architecture", one.arch)
      .number(one.arch + ".block_count", 4)
      .number(one.arch + ".embedding_length", 64)
      .number(one.arch + ".attention.head_count", 4)
      .number(one.arch + ".context_length", 64);
  bool has_width = false;
  for (const auto& [key, number] : one.numbers) {
    content.number(one.arch + "." + key, number);
    has_width = has_width || key == "feed_forward_length";
  }
  if (!has_width) content.number(one.arch + ".feed_forward_length", 96);
  if (!one.kv_heads.empty()) {
    content.key(one.arch + ".attention.head_count_kv", 9,
                raw(5u) + raw<std::uint64_t>(one.kv_heads.size()) + raw(one.kv_heads));
  }
  content.tensor("token_embd.weight", {64, 96}, 0, raw(std::vector<float>(64 * 96)));
  for (const std::string& name : one.tensors) content.tensor(name, {1}, 0, raw(1.0f));
  const ModelShape model = model_of(*Weights::open(file("tiny.gguf", content.bytes())));
  EXPECT_EQ(model.family, one.family);
  EXPECT_EQ(model.num_parameters(), one.num_parameters);
}

// Blocks behind the last layer, which guess tokens further on: the same model as without them.
TEST_F(Linears, layersForDraftsAreNoLayers) {
  const auto model = [&](std::uint32_t blocks, std::uint32_t behind, bool in_file) {
    test::GgufFile content;
    content.word("general.architecture", "qwen35")
        .number("qwen35.block_count", blocks)
        .number("qwen35.nextn_predict_layers", behind);
    for (const auto& [key, number] :
         std::map<std::string, std::uint32_t>{{"embedding_length", 64},
                                              {"attention.head_count", 4},
                                              {"attention.head_count_kv", 2},
                                              {"attention.key_length", 16},
                                              {"feed_forward_length", 96},
                                              {"context_length", 64},
                                              {"ssm.conv_kernel", 4},
                                              {"ssm.state_size", 8},
                                              {"ssm.group_count", 2},
                                              {"ssm.time_step_rank", 4},
                                              {"ssm.inner_size", 32}})
      content.number("qwen35." + key, number);
    std::vector<std::uint8_t> states(blocks);
    for (std::size_t i = 0; i + behind < blocks; ++i) states[i] = i % 4 == 3 ? 0 : 1;
    content.key("qwen35.attention.recurrent_layers", 9,
                raw(7u) + raw<std::uint64_t>(states.size()) + raw(states));
    content.tensor("token_embd.weight", {64, 96}, 0, raw(std::vector<float>(64 * 96)));
    if (in_file) content.tensor("blk.4.nextn.eh_proj.weight", {1}, 0, raw(1.0f));
    return model_of(*Weights::open(file("tiny.gguf", content.bytes())));
  };
  const ModelShape plain = model(4, 0, false), drafts = model(5, 1, true);
  EXPECT_EQ(plain.layer_kinds(), "3 of gated delta net, dense; 1 of attention, dense");
  EXPECT_EQ(drafts.layer_kinds(), plain.layer_kinds());
  EXPECT_EQ(drafts.num_parameters(), plain.num_parameters());
  EXPECT_EQ(plain.next_token_layers, 0);
  EXPECT_EQ(drafts.next_token_layers, 1);
  EXPECT_EQ(drafts.next_token_parameters, plain.layer(3).parameters() + 2 * 64 * 64 + 3 * 64);
  // Files that leave them out may still say how many there were: llama.cpp counts none then.
  EXPECT_EQ(model(4, 1, false).num_parameters(), plain.num_parameters());
}

// Four thousand million layers, of which none has experts, are refused before they are counted.
TEST_F(Linears, ofAsManyLayersAsANumberHoldsAreRefused) {
  test::GgufFile content;
  content.word("general.architecture", "deepseek2")
      .number("deepseek2.block_count", 0xFFFF'FFFF)
      .number("deepseek2.embedding_length", 64)
      .number("deepseek2.attention.head_count", 4)
      .number("deepseek2.context_length", 64)
      .number("deepseek2.attention.key_length", 4)
      .number("deepseek2.feed_forward_length", 96);
  for (const char* key :
       {"expert_count", "expert_used_count", "expert_feed_forward_length", "expert_shared_count",
        "attention.kv_lora_rank", "attention.value_length", "rope.dimension_count"})
    content.number(std::string("deepseek2.") + key, 2);
  content.tensor("token_embd.weight", {64, 96}, 0, raw(std::vector<float>(64 * 96)));
  test::expect_error(ErrorCode::out_of_range, {"tiny.gguf", "num_hidden_layers", "4294967295"},
                     [&] { model_of(*Weights::open(file("tiny.gguf", content.bytes()))); });
}

INSTANTIATE_TEST_SUITE_P(Gguf, OfShapeAlone, testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.family; });

}  // namespace
}  // namespace tessera::weights::gguf_architectures_test
