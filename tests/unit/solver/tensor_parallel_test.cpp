// Tensor-parallel groups: what one member holds of a model, what its group's work takes, and which
// groups a cluster can be cut into.

#include "tessera/cost/tensor_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "devices.h"
#include "expect_error.h"
#include "shapes.h"
#include "tessera/cost/memory.h"
#include "tessera/solver/problem/mesh.h"

namespace tessera::tensor_parallel_test {
namespace {

using cost::shard;
using test::expect_error;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Link kNvlink{25e9, 10e-6, "nvlink"};

TEST(Shard, CutsHeadsColumnsAndVocabulary) {
  const ModelShape whole = test::opt_30b();
  const ModelShape part = shard(whole, 4);
  EXPECT_EQ(part.hidden_size, 7168);
  EXPECT_EQ(part.vocab_size, 12568);
  EXPECT_EQ(part.token_embedding_parameters, 12568 * 7168);
  EXPECT_EQ(part.lm_head_parameters, 12568 * 7168);
  EXPECT_EQ(part.position_embedding_parameters, whole.position_embedding_parameters);
  const LayerShape& layer = part.layer_classes.front();
  EXPECT_EQ(layer.num_heads, 14);
  EXPECT_EQ(layer.num_kv_heads, 14);
  EXPECT_EQ(layer.head_dim, 128);
  EXPECT_EQ(layer.other_parameters, whole.layer_classes.front().other_parameters);
  for (const LinearShape& linear : layer.linears) {
    const bool by_rows = linear.name == "out_proj" || linear.name == "fc2";
    EXPECT_EQ(by_rows ? linear.out_features : linear.in_features, 7168) << linear.name;
  }
  EXPECT_EQ(4 * layer.linear_parameters(), whole.layer_classes.front().linear_parameters());
}

// What members hold together: matrices and KV cache once, norms as often as there are members.
TEST(Shard, PoolsMemory) {
  const ModelShape whole = test::opt_13b();
  const LayerShape &layer = whole.layer_classes.front(),
                   part = shard(whole, 2).layer_classes.front();
  const Workload workload;
  const cost::MemoryQuery query;
  EXPECT_DOUBLE_EQ(2 * cost::layer_kv_bytes(part, workload, query),
                   cost::layer_kv_bytes(layer, workload, query));
  const double norms = static_cast<double>(layer.other_parameters) * 2;
  EXPECT_DOUBLE_EQ(2 * cost::layer_weight_bytes(part, 16, query),
                   cost::layer_weight_bytes(layer, 16, query) + norms);
  const double pooled =
      2 * cost::prefill_activation_bytes(shard(whole, 2), workload, 4, StagePlace::middle, query);
  const double alone =
      cost::prefill_activation_bytes(whole, workload, 4, StagePlace::middle, query);
  EXPECT_GT(pooled, alone);  // every member has the whole residual stream
  EXPECT_LT(pooled, 2 * alone);
}

TEST(Shard, RefusesUnevenHeads) {
  const ModelShape opt = test::opt_30b();
  EXPECT_FALSE(cost::why_not_sharded(opt, 8));
  EXPECT_THAT(cost::why_not_sharded(opt, 3).value(), HasSubstr("56 heads do not divide by 3"));
  EXPECT_EQ(cost::why_not_sharded(opt, 3).value(),
            "56 heads do not divide by 3; degrees that do: 1, 2, 4, 7, 8, 14, 28, 56");
  ModelShape grouped = opt;
  grouped.layer_classes.front().num_kv_heads = 8;
  EXPECT_THAT(
      cost::why_not_sharded(grouped, 14).value(),
      HasSubstr("8 KV heads do not divide by 14, nor 14 by 8; degrees that do: 1, 2, 4, 8, 56"));
  ModelShape odd = opt;
  odd.layer_classes.front().linears.back().in_features = 1001;
  EXPECT_THAT(cost::why_not_sharded(odd, 2).value(), HasSubstr("1001 rows of fc2"));
}

// llama-3-70b on 16: 8 KV heads, each on two devices, as vLLM and TensorRT-LLM place them.
TEST(Shard, CopiesKvHeadsWhereThereAreMoreDevices) {
  ModelShape whole = test::opt_30b();  // 56 heads of 128
  whole.num_kv_heads = 8;
  LayerShape& layer = whole.layer_classes.front();
  layer.num_kv_heads = 8;
  for (LinearShape& linear : layer.linears) {
    if (linear.name == "k_proj" || linear.name == "v_proj") linear.out_features = 8 * 128;
  }
  EXPECT_FALSE(cost::why_not_sharded(whole, 56));
  const ModelShape even = shard(whole, 8), copied = shard(whole, 56);
  EXPECT_EQ(even.num_kv_heads, 1);
  EXPECT_EQ(copied.num_kv_heads, 1);
  const LayerShape part = copied.layer_classes.front();
  EXPECT_EQ(part.num_heads, 1);
  EXPECT_EQ(part.num_kv_heads, 1);
  for (const LinearShape& linear : part.linears) {
    if (linear.name == "k_proj" || linear.name == "v_proj" || linear.name == "q_proj") {
      EXPECT_EQ(linear.out_features, 128) << linear.name;
    }
  }
  // The cache of a device stops shrinking, and the group holds each head seven times.
  const Workload workload;
  const cost::MemoryQuery query;
  const double alone = cost::layer_kv_bytes(layer, workload, query);
  EXPECT_DOUBLE_EQ(cost::layer_kv_bytes(part, workload, query), alone / 8);
  EXPECT_DOUBLE_EQ(8 * cost::layer_kv_bytes(even.layer_classes.front(), workload, query), alone);
  EXPECT_DOUBLE_EQ(56 * cost::layer_kv_bytes(part, workload, query), 7 * alone);
  const cost::Prediction price =
      cost::make_tensor_parallel(cost::make_roofline(test::v100(), test::test_kernels()), 56,
                                 kNvlink)
          ->layer(layer, 16, 16, {cost::Phase::decode, 4, 1, 512});
  EXPECT_GT(price.seconds.value, 0);
}

// DeepSeek-V3: heads are cut, the latent and what makes it are on every device.
TEST(Shard, CopiesLatents) {
  const LayerShape whole = test::latent_layer(), part = shard(whole, 8);
  EXPECT_EQ(part.num_heads, 16);
  EXPECT_EQ(part.latent_width, 512);
  const std::vector<LinearShape> expected = {
      {"q_a_proj", 7168, 1536},     {"q_b_proj", 1536, 16 * 192}, {"kv_a_proj", 7168, 576},
      {"kv_b_proj", 512, 16 * 256}, {"o_proj", 16 * 128, 7168},   {"gate_proj", 7168, 2304},
      {"up_proj", 7168, 2304},      {"down_proj", 2304, 7168}};
  EXPECT_EQ(part.linears, expected);
  const Workload workload;
  const cost::MemoryQuery query;
  EXPECT_EQ(cost::layer_kv_bytes(part, workload, query),
            cost::layer_kv_bytes(whole, workload, query));
}

TEST(AllReduce, SaysHowItIsDone) {
  const auto method = [](const char* kind) {
    return cost::modelled_all_reduce(1e6, 2, {25e9, 10e-6, kind}).method;
  };
  EXPECT_EQ(method("nvlink"), "one-shot or two-shot");
  EXPECT_EQ(method("pcie"), "one-shot or two-shot");
  EXPECT_EQ(cost::modelled_all_reduce(1e6, 4, {25e9, 10e-6, "pcie"}).method, "ring");
  EXPECT_EQ(method("network"), "ring");
  EXPECT_EQ(method(""), "ring");  // of a link of no known kind
}

TEST(AllReduce, IsARingBetweenNodes) {
  const Link network{25e9, 10e-6, "network"};
  EXPECT_EQ(cost::all_reduce_s(1e9, 1, network), 0);
  EXPECT_DOUBLE_EQ(cost::all_reduce_s(1e9, 2, network), 2 * 10e-6 + 1e9 / 25e9);
  EXPECT_DOUBLE_EQ(cost::all_reduce_s(1e9, 4, network), 6 * 10e-6 + 1.5e9 / 25e9);
}

// Single figures of vLLM's kernels in public tables, each within the error that is stated.
TEST(AllReduce, IsWhatKernelsOfANodeTake) {
  const Link h200{450e9, 10e-6, "nvlink"}, a100{300e9, 10e-6, "nvlink"}, pcie5{63e9, 10e-6, "pcie"};
  EXPECT_EQ(cost::all_reduce_s(1e6, 1, h200), 0);
  EXPECT_NEAR(cost::all_reduce_s(256, 8, h200) / 4.7e-6, 1, 0.25);
  EXPECT_NEAR(cost::all_reduce_s(512 * 1024 * 2, 8, h200) / 14.1e-6, 1, 0.4);
  EXPECT_NEAR(cost::all_reduce_s(32e6 * 2, 8, a100) / 594e-6, 1, 0.25);
  EXPECT_NEAR(cost::all_reduce_s(256, 8, pcie5) / 23.6e-6, 1, 0.25);
  EXPECT_NEAR(cost::all_reduce_s(4 * 1024 * 1024 * 2, 2, pcie5) / 244e-6, 1, 0.25);
  EXPECT_NEAR(cost::all_reduce_s(4 * 1024 * 1024 * 2, 4, pcie5) / 462e-6, 1, 0.25);
}

TEST(TensorParallel, RunsAShardAndSumsTwice) {
  const ModelShape model = test::opt_13b();
  const LayerShape& layer = model.layer_classes.front();
  const auto alone = cost::make_roofline(test::v100(), test::test_kernels());
  const auto pair = cost::make_tensor_parallel(
      cost::make_roofline(test::v100(), test::test_kernels()), 2, kNvlink);
  const cost::LayerWork work{cost::Phase::prefill, 4, 512, 0};
  const double sum = cost::all_reduce_s(4 * 512 * 5120 * 2.0, 2, kNvlink);
  EXPECT_DOUBLE_EQ(pair->layer_s(layer, 16, 16, work),
                   alone->layer_s(shard(layer, 2), 16, 16, work) + 2 * sum);
  EXPECT_DOUBLE_EQ(pair->embedding_s(model, 2048), alone->embedding_s(shard(model, 2), 2048) + sum);
  EXPECT_DOUBLE_EQ(pair->lm_head_s(model, 4),
                   alone->lm_head_s(shard(model, 2), 4) + cost::all_reduce_s(4 * 8, 2, kNvlink));
}

Cluster cluster(const std::vector<std::pair<Device, std::size_t>>& devices) {
  Cluster result;
  for (const auto& [device, node] : devices) {
    while (result.nodes.size() <= node) {
      result.nodes.push_back({});
      result.nodes.back().name = "n" + std::to_string(result.nodes.size() - 1);
    }
    result.devices.push_back({device, node});
    result.devices.back().device.pcie_bytes_per_s = 12e9;
  }
  return result;
}

TEST(Mesh, GroupsTakeDevicesInOrder) {
  const Cluster c = cluster({{test::t4(), 0}, {test::v100(), 1}, {test::t4(), 0}, {test::t4(), 0}});
  const auto groups = solver::mesh_groups(c, solver::Mesh{{2, 1}, {1}});
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].name, "2xT4-16G");
  EXPECT_THAT(groups[0].members, ElementsAre(ElementsAre(0, 2)));
  EXPECT_EQ(groups[1].name, "T4-16G");
  EXPECT_THAT(groups[1].members, ElementsAre(ElementsAre(3)));
  EXPECT_THAT(groups[2].members, ElementsAre(ElementsAre(1)));
  EXPECT_EQ(solver::mesh_name(c, solver::Mesh{{2, 1}, {1}}), "2xT4-16G + T4-16G + V100-32G");
  EXPECT_EQ(solver::mesh_groups(c, std::nullopt).size(), 2u);
  for (const solver::Mesh& wrong :
       std::vector<solver::Mesh>{{{2, 1}}, {{1, 2}, {1}}, {{2, 2}, {1}}, {{2, 1}, {1}, {1}}}) {
    expect_error(ErrorCode::invalid_argument, {"mesh"}, [&] { solver::mesh_groups(c, wrong); });
  }
}

// A list for each node: of its devices in order, whatever they are.
TEST(Mesh, OfNodesHasUnlikeGroups) {
  const Cluster c = cluster({{test::t4(), 0}, {test::v100(), 0}, {test::t4(), 1}, {test::t4(), 0}});
  const auto groups = solver::mesh_groups(c, solver::Mesh{{2}, {1}});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].name, "T4-16G+V100-32G");
  EXPECT_THAT(groups[0].members, ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(groups[1].members, ElementsAre(ElementsAre(2)));
  EXPECT_EQ(solver::mesh_groups(c, solver::Mesh{{3}, {1}})[0].name, "T4-16G+V100-32G+T4-16G");
  for (const solver::Mesh& wrong : std::vector<solver::Mesh>{{{4}, {1}}, {{2, 2}, {1}}, {{2}}}) {
    expect_error(ErrorCode::invalid_argument, {"for each node"},
                 [&] { solver::mesh_groups(c, wrong); });
  }
}

TEST(Mesh, ListsEveryCut) {
  const Cluster four = cluster(std::vector<std::pair<Device, std::size_t>>(4, {test::t4(), 0}));
  const auto choices = solver::list_meshes(test::opt_13b(), four, {1, 2, 4});
  EXPECT_THAT(choices.notes, IsEmpty());
  EXPECT_THAT(choices.meshes,
              ElementsAre(ElementsAre(ElementsAre(1, 1, 1, 1)), ElementsAre(ElementsAre(2, 1, 1)),
                          ElementsAre(ElementsAre(2, 2)), ElementsAre(ElementsAre(4))));
  EXPECT_THAT(solver::list_meshes(test::opt_13b(), four, {2}).meshes,
              ElementsAre(ElementsAre(ElementsAre(2, 2))));
}

TEST(Mesh, NotesWhatItLeavesOut) {
  const Cluster four = cluster(std::vector<std::pair<Device, std::size_t>>(4, {test::t4(), 0}));
  const auto choices = solver::list_meshes(test::opt_30b(), four, {1, 3, 8});
  EXPECT_EQ(choices.meshes.size(), 1u);
  EXPECT_THAT(choices.notes,
              ElementsAre(HasSubstr("3 left out: 56 heads"), HasSubstr("8 left out: no node")));
  // A group is of one type on one node.
  EXPECT_THAT(
      solver::list_meshes(test::opt_30b(), cluster({{test::t4(), 0}, {test::v100(), 0}}), {1, 2})
          .notes,
      ElementsAre(HasSubstr("no node has as many devices of one type, 1 at most")));
  expect_error(ErrorCode::invalid_argument, {"56 heads do not divide by 3"},
               [&] { solver::list_meshes(test::opt_30b(), four, {3}); });
  const Cluster three = cluster(std::vector<std::pair<Device, std::size_t>>(3, {test::t4(), 0}));
  expect_error(ErrorCode::invalid_argument,
               {"3 x T4-16G of node 'n0' cannot be cut into groups of 2", "allow 1"},
               [&] { solver::list_meshes(test::opt_13b(), three, {2}); });
}

TEST(Mesh, ListsFewerWhereThereAreTooMany) {
  std::vector<std::pair<Device, std::size_t>> slots;
  for (std::size_t node = 0; node < 3; ++node) slots.insert(slots.end(), 8, {test::t4(), node});
  const auto same = solver::list_meshes(test::opt_13b(), cluster(slots), {1, 2, 4});
  EXPECT_EQ(same.meshes.size(), 27u);
  EXPECT_THAT(same.notes, ElementsAre(HasSubstr("of a type on a node")));
  for (std::size_t node = 3; node < 6; ++node) slots.insert(slots.end(), 8, {test::t4(), node});
  slots.emplace_back(test::t4(), 6);
  const auto one = solver::list_meshes(test::opt_13b(), cluster(slots), {1, 2, 4});
  ASSERT_EQ(one.meshes.size(), 3u);
  EXPECT_THAT(one.notes, ElementsAre(HasSubstr("for the whole cluster")));
  EXPECT_THAT(one.meshes.back().front(), ElementsAre(4, 4));
  EXPECT_THAT(one.meshes.back().back(), ElementsAre(1));
}

TEST(Mesh, PairsOfDevicesAreThoseThatBridgesJoin) {
  Cluster four = cluster(std::vector<std::pair<Device, std::size_t>>(4, {test::t4(), 0}));
  for (ClusterDevice& slot : four.devices) slot.device.nvlink_bridge_bytes_per_s = 50e9;
  const auto link = [&](const solver::Mesh& mesh) {
    const auto members = solver::mesh_groups(four, mesh).front().members;
    const Link first = cost::slowest_link(four, members.front(), members.front());
    const Link last = cost::slowest_link(four, members.back(), members.back());
    EXPECT_EQ(first.kind, last.kind);
    return first;
  };
  EXPECT_EQ(link({{2, 2}}).kind, "pcie");
  four.nodes.front().nvlink_bridges = true;
  EXPECT_EQ(link({{2, 2}}).kind, "nvlink");
  EXPECT_EQ(link({{2, 2}}).bytes_per_s, 50e9);
  EXPECT_EQ(link({{4}}).kind, "pcie");
  EXPECT_EQ(cost::node_link(four.devices.front().device).kind, "pcie");
}

TEST(Mesh, SlowestLinkIsBetweenAnyTwo) {
  const Cluster c = cluster({{test::t4(), 0}, {test::t4(), 0}, {test::t4(), 1}});
  EXPECT_DOUBLE_EQ(cost::slowest_link(c, {0, 1}, {0, 1}).bytes_per_s, c.link(0, 1).bytes_per_s);
  EXPECT_DOUBLE_EQ(cost::slowest_link(c, {0, 1}, {2}).latency_s, c.link(1, 2).latency_s);
  EXPECT_EQ(cost::slowest_link(c, {0}, {0}).kind, "self");
}

}  // namespace
}  // namespace tessera::tensor_parallel_test
