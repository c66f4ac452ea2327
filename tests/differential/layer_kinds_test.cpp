// Models whose layers are not alike: states, windows, latents, experts, blocks of one half. Both
// proving planners against an enumeration of every plan, heuristics against its best, and bytes of
// each layer against what its kind keeps.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "brute_force.h"
#include "four_devices.h"
#include "model_files.h"
#include "tessera/core/rng.h"
#include "tessera/solver/exact/exact_planner.h"
#include "tessera/solver/heuristic/heuristics.h"
#include "tessera/solver/ilp/ilp_planner.h"
#include "tessera/solver/problem/problem.h"

namespace tessera::solver::layer_kinds_test {
namespace {

using instances::BruteForce;

/// Layers of 512 features of many kinds, as the readers of their families make them.
std::vector<LayerShape> kinds_of_layers() {
  const Json sizes = {{"hidden_size", 512},
                      {"num_hidden_layers", 4},
                      {"num_attention_heads", 8},
                      {"num_key_value_heads", 2},
                      {"head_dim", 64},
                      {"intermediate_size", 1024},
                      {"vocab_size", 1000},
                      {"moe_intermediate_size", 128},
                      {"num_experts", 8},
                      {"num_experts_per_tok", 2},
                      {"shared_expert_intermediate_size", 128}};
  std::vector<LayerShape> kinds;
  const auto add = [&](const char* model_type, const Json& more) {
    Json config = sizes;
    config["model_type"] = model_type;
    for (const auto& [key, value] : more.items()) config[key] = value;
    const ModelShape model = test::from_config(config);
    kinds.insert(kinds.end(), model.layer_classes.begin(), model.layer_classes.end());
  };
  add("qwen3_next", {{"linear_num_key_heads", 2}, {"linear_num_value_heads", 4}});
  add("nemotron_h", {{"hybrid_override_pattern", "M*-M"},
                     {"mamba_num_heads", 16},
                     {"mamba_head_dim", 64},
                     {"num_experts", 0}});
  add("lfm2", {{"full_attn_idxs", {3}}, {"num_experts", 0}});
  add("deepseek_v4", {{"num_key_value_heads", 1},
                      {"n_routed_experts", 8},
                      {"q_lora_rank", 64},
                      {"o_groups", 2},
                      {"o_lora_rank", 64},
                      {"qk_rope_head_dim", 16},
                      {"sliding_window", 16},
                      {"index_n_heads", 4},
                      {"index_head_dim", 32},
                      {"index_topk", 8},
                      {"compress_ratios", {0, 4, 128, 4}}});
  add("jamba", {{"attn_layer_period", 4}, {"attn_layer_offset", 1}});
  add("gemma3n",
      {{"intermediate_size", {1024, 1024, 512, 1024}},
       {"num_kv_shared_layers", 1},
       {"sliding_window", 16},
       {"hidden_size_per_layer_input", 0},
       {"num_experts", 0},
       {"layer_types",
        {"sliding_attention", "full_attention", "sliding_attention", "full_attention"}}});
  return kinds;
}

Problem random_problem(Rng& rng, const std::vector<LayerShape>& kinds) {
  Problem problem = test::four_devices();
  auto& batch = std::get<BatchProblem>(problem.given);
  ModelShape& model = batch.model;
  model.name = "kinds";
  model.hidden_size = 512;
  model.vocab_size = 1000;
  model.token_embedding_parameters = model.lm_head_parameters = 512'000;
  model.num_layers = rng.integer(3, 5);
  model.layer_classes.clear();
  model.layer_class.clear();
  for (int i = 0; i < 3; ++i)
    model.layer_classes.push_back(
        kinds[static_cast<std::size_t>(rng.integer(0, std::ssize(kinds) - 1))]);
  double bytes = 0;
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    model.layer_class.push_back(static_cast<std::int32_t>(rng.integer(0, 2)));
    bytes += 2.0 * static_cast<double>(model.layer(i).parameters());
  }
  batch.workload.batch_size = rng.integer(1, 4);
  batch.bitwidths = {4, 8, 16};
  batch.indicator =
      test::same_everywhere(static_cast<std::size_t>(model.num_layers), batch.bitwidths);
  for (double& omega : batch.indicator.omega) omega = 1e-4 * rng.uniform();
  // So much memory beside the runtime's that bits have to be chosen, and layers moved.
  const auto num_devices = static_cast<std::size_t>(rng.integer(2, 3));
  batch.cluster.devices.resize(num_devices);
  for (ClusterDevice& slot : batch.cluster.devices) {
    const double share = (0.1 + rng.uniform()) * bytes / static_cast<double>(num_devices);
    slot.device.memory_bytes = (750.0 * (1 << 20) + 6e6 + share) / 0.97;
    slot.device.memory_bytes_per_s *= 0.3 + rng.uniform();
    slot.device.name = "D" + std::to_string(&slot - batch.cluster.devices.data());
  }
  return problem;
}

/// Parameters at 16 bits, keys and values of the tokens that the layer sees, and its state.
double bytes_of(const LayerShape& layer, const Workload& workload) {
  double tokens = static_cast<double>(workload.max_prompt_tokens + workload.max_output_tokens);
  if (layer.attention_window)
    tokens = std::min(tokens, static_cast<double>(*layer.attention_window));
  const double all = static_cast<double>(workload.max_prompt_tokens + workload.max_output_tokens);
  const double kept = tokens * 2 * static_cast<double>(kv_values_per_token(layer)) +
                      kv_entry_bytes(layer, 1, all, 16) + (layer.state ? layer.state->bytes() : 0);
  return 2.0 * static_cast<double>(layer.parameters()) +
         static_cast<double>(workload.batch_size) * kept;
}

TEST(LayerKinds, EqualEnumeration) {
  const std::vector<LayerShape> kinds = kinds_of_layers();
  EXPECT_GE(kinds.size(), 12u);
  int proven = 0, infeasible = 0, with_state = 0, mixed_bits = 0, several_stages = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const Problem problem = random_problem(rng, kinds);
    const BatchProblem& batch = *problem.batch();
    const Instance in = lower(problem);
    for (std::size_t cls = 0; cls < batch.model.layer_classes.size(); ++cls) {
      const LayerShape& layer = batch.model.layer_classes[cls];
      EXPECT_DOUBLE_EQ(in.layer_bytes_at(0, static_cast<std::int32_t>(cls), 2),
                       bytes_of(layer, batch.workload));
    }
    const std::optional<double> best = BruteForce(in, {}).best();
    const PlanResult exact = make_exact_planner()->plan(in, {});
    const PlanResult ilp = make_ilp_planner()->plan(in, {});
    const PlanResult quick = make_adabits_planner()->plan(in, {});
    if (!best) {
      EXPECT_EQ(exact.status, SolveStatus::infeasible);
      EXPECT_EQ(ilp.status, SolveStatus::infeasible);
      ++infeasible;
      continue;
    }
    ASSERT_EQ(exact.status, SolveStatus::optimal);
    ASSERT_EQ(ilp.status, SolveStatus::optimal);
    EXPECT_NEAR(exact.objective, *best, 2e-9 * *best);
    EXPECT_NEAR(ilp.objective, *best, 1e-6 * *best);
    for (const PlanResult* result : {&exact, &ilp, &quick}) {
      if (!result->candidate) continue;
      const auto violation = find_violation(in, *result->candidate, result->objective);
      EXPECT_FALSE(violation) << violation->message;
      EXPECT_GE(result->objective, *best * (1 - 2e-9));
    }
    ++proven;
    with_state += batch.model.has_state() ? 1 : 0;
    const auto& bits = exact.candidate->bit;
    mixed_bits += std::adjacent_find(bits.begin(), bits.end(), std::not_equal_to()) != bits.end();
    several_stages += exact.candidate->order.size() > 1 ? 1 : 0;
  }
  EXPECT_GE(proven, 120);
  EXPECT_GE(infeasible, 5);
  EXPECT_GE(with_state, 80);
  EXPECT_GE(mixed_bits, 20);
  EXPECT_GE(several_stages, 60);
}

}  // namespace
}  // namespace tessera::solver::layer_kinds_test
