#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "devices.h"
#include "shapes.h"
#include "tessera/core/cluster.h"
#include "tessera/core/json.h"
#include "tessera/cost/collectives.h"
#include "tessera/cost/latency.h"
#include "tessera/cost/memory.h"
#include "tessera/cost/profile.h"
#include "tessera/cost/stage_price.h"
#include "tessera/cost/tensor_parallel.h"

namespace tessera::cost::cost_property_test {
namespace {

ModelShape any_model() { return *rc::gen::elementOf(test::all_shapes()); }

double real(double low, double high) {
  return low + (high - low) * *rc::gen::inRange(0, 1'000'001) / 1e6;
}

Workload any_workload() {
  Workload workload;
  workload.batch_size = *rc::gen::inRange<std::int64_t>(1, 300);
  workload.max_prompt_tokens = *rc::gen::inRange<std::int64_t>(1, 9000);
  workload.max_output_tokens = *rc::gen::inRange<std::int64_t>(1, 3000);
  if (*rc::gen::arbitrary<bool>()) workload.chunk_tokens = *rc::gen::inRange(16, 4096);
  return workload;
}

MemoryQuery any_query() {
  MemoryQuery query;
  query.preset =
      *rc::gen::element(MemoryPreset::physical, MemoryPreset::llm_pq, MemoryPreset::tessera);
  query.kv_bitwidth = *rc::gen::element(4, 8, 16);
  query.group_size = *rc::gen::element(0.0, 32.0, 64.0, 128.0, 1024.0);
  return query;
}

double activations(const ModelShape& model, const Workload& workload, std::int64_t size,
                   StagePlace place, const MemoryQuery& query) {
  return prefill_activation_bytes(model, workload, size, place, query) +
         decode_activation_bytes(model, workload, size, place, query);
}

RC_GTEST_PROP(MemoryProperty, GrowsWithBitwidth, ()) {
  const ModelShape model = any_model();
  const MemoryQuery query = any_query();
  const LayerShape& layer = model.layer_classes.front();
  double before = 0;
  for (const double bitwidth : {2.0, 3.0, 4.0, 8.0, 16.0}) {
    const double bytes = layer_weight_bytes(layer, bitwidth, query);
    RC_ASSERT(std::isfinite(bytes));
    RC_ASSERT(bytes > before);
    before = bytes;
  }
}

RC_GTEST_PROP(MemoryProperty, GrowsWithBatchAndContext, ()) {
  const ModelShape model = any_model();
  const MemoryQuery query = any_query();
  const LayerShape& layer = model.layer_classes.front();
  const Workload small = any_workload();
  Workload large = small;
  large.batch_size += *rc::gen::inRange(0, 50);
  large.max_prompt_tokens += *rc::gen::inRange(0, 5000);
  large.max_output_tokens += *rc::gen::inRange(0, 500);
  const StagePlace place = *rc::gen::elementOf(kStagePlaces);
  const auto size = *rc::gen::inRange<std::int64_t>(1, 64);
  const auto larger_size = size + *rc::gen::inRange<std::int64_t>(0, 64);
  RC_ASSERT(layer_kv_bytes(layer, small, query) > 0);
  RC_ASSERT(layer_kv_bytes(layer, large, query) >= layer_kv_bytes(layer, small, query));
  const double before = activations(model, small, size, place, query);
  RC_ASSERT(before > 0);
  RC_ASSERT(activations(model, small, larger_size, place, query) >= before);
  RC_ASSERT(activations(model, large, size, place, query) >= before);
}

RC_GTEST_PROP(LatencyProperty, LayerIsPositiveAndMonotone, ()) {
  const ModelShape model = any_model();
  const LayerShape& layer = model.layer_classes.front();
  const auto device = *rc::gen::element(test::t4(), test::v100());
  const auto latency = make_roofline(device, test::test_kernels());
  const auto bitwidth = *rc::gen::element(3, 4, 8, 16);
  const std::int32_t kv_bitwidth = *rc::gen::element(8, 16);
  const bool prefill = *rc::gen::arbitrary<bool>();
  LayerWork work;
  work.phase = prefill ? Phase::prefill : Phase::decode;
  work.batch_size = real(1, 256);
  work.tokens = prefill ? real(1, 5000) : 1;
  work.context_tokens = real(0, 9000);
  const double before = latency->layer_s(layer, bitwidth, kv_bitwidth, work);
  RC_ASSERT(std::isfinite(before));
  RC_ASSERT(before > 0);
  for (double LayerWork::*field :
       {&LayerWork::batch_size, &LayerWork::tokens, &LayerWork::context_tokens}) {
    LayerWork more = work;
    more.*field += real(0, *rc::gen::element(0.5, 10.0, 2000.0));
    const double after = latency->layer_s(layer, bitwidth, kv_bitwidth, more);
    RC_ASSERT(after >= before * (1 - 1e-12));
  }
}

// Sixteen-bit keys and values: narrower ones are carried over by ratio, which may fall a little.
RC_GTEST_PROP(LatencyProperty, ShippedProfilesGrowWithTheContext, ()) {
  const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  const std::vector<std::pair<std::string, std::string>> shipped = {
      {"T4-16G", "llmpq_2023"},   {"V100-32G", "llmpq_2023_08"},
      {"A100-40G", "llmpq_2023"}, {"P100-12G", "llmpq_2023_08"},
      {"T4-16G", "vllm"},         {"V100-32G", "modern"},
      {"L4", "modern"},           {"A100-80G", "modern_w8a8"},
      {"H200-141G", "modern_fp8"}};
  const auto [device, kernels] = *rc::gen::elementOf(shipped);
  const KernelSet set = find_kernel_set(kernels, folders);
  const auto profile = find_profile(device, kernels, folders);
  RC_ASSERT(profile != nullptr);
  const auto latency = make_profiled(profile, set);
  const auto bitwidth = *rc::gen::element(3, 4, 8, 16);
  if (set.find(profile->device, bitwidth) == nullptr) return;
  const LayerShape layer = any_model().layer_classes.front();
  LayerWork work{Phase::decode, *rc::gen::inRange(1, 65) * 1.0, 1,
                 *rc::gen::inRange(0, 3000) * 1.0};
  double before = 0;
  for (int i = 0; i < 4; ++i) {
    const double seconds = latency->layer_s(layer, bitwidth, 16, work);
    RC_ASSERT(std::isfinite(seconds) && seconds > 0);
    RC_ASSERT(seconds >= before * (1 - 1e-9));
    before = seconds;
    work.context_tokens += *rc::gen::inRange(1, 1000);
  }
}

RC_GTEST_PROP(LatencyProperty, EmbeddingAndLmHeadArePositiveAndMonotone, ()) {
  const ModelShape model = any_model();
  const auto latency = make_roofline(test::t4(), test::test_kernels());
  const double rows = real(1, 5000), more = rows + real(0, 100);
  RC_ASSERT(latency->embedding_s(model, rows) > 0);
  RC_ASSERT(latency->embedding_s(model, more) >= latency->embedding_s(model, rows));
  RC_ASSERT(latency->lm_head_s(model, rows) > 0);
  RC_ASSERT(latency->lm_head_s(model, more) >= latency->lm_head_s(model, rows));
}

std::int64_t any_degree(const ModelShape& model) {
  std::vector<std::int64_t> degrees;
  for (const std::int64_t degree : {1, 2, 4, 8}) {
    if (!why_not_sharded(model, degree)) degrees.push_back(degree);
  }
  return *rc::gen::elementOf(degrees);
}

std::unique_ptr<LatencyModel> group_of(std::int64_t degree, const Link& link) {
  return make_tensor_parallel(make_roofline(test::v100(), test::test_kernels()), degree, link);
}

RC_GTEST_PROP(TensorParallelProperty, PositiveAndGrowsWithWork, ()) {
  const ModelShape model = any_model();
  const LayerShape& layer = model.layer_classes.front();
  const auto group = group_of(any_degree(model), {real(1e8, 1e11), real(0, 1e-3), "any"});
  const auto bitwidth = *rc::gen::element<std::int32_t>(3, 4, 8, 16);
  const LayerWork small{Phase::prefill, real(1, 64), real(1, 2048), real(0, 4096)};
  LayerWork large = small;
  large.batch_size += real(0, 64);
  large.tokens += real(0, 2048);
  large.context_tokens += real(0, 4096);
  const double before = group->layer_s(layer, bitwidth, 16, small);
  RC_ASSERT(std::isfinite(before) && before > 0);
  RC_ASSERT(group->layer_s(layer, bitwidth, 16, large) >= before);
  const double rows = small.batch_size * small.tokens, more = large.batch_size * large.tokens;
  RC_ASSERT(group->embedding_s(model, rows) > 0);
  RC_ASSERT(group->embedding_s(model, more) >= group->embedding_s(model, rows));
  RC_ASSERT(group->lm_head_s(model, rows) > 0);
  RC_ASSERT(group->lm_head_s(model, more) >= group->lm_head_s(model, rows));
}

RC_GTEST_PROP(TensorParallelProperty, LinksCostAndSharesSave, ()) {
  const ModelShape model = any_model();
  const LayerShape& layer = model.layer_classes.front();
  const std::int64_t degree = any_degree(model);
  const LayerWork work{Phase::prefill, real(1, 64), real(1, 2048), real(0, 4096)};
  const std::string kind = *rc::gen::element<std::string>("nvlink", "pcie", "network");
  const Link slow{real(1e8, 1e11), real(0, 1e-3), kind};
  const Link fast{slow.bytes_per_s * real(1, 100), slow.latency_s * real(0, 1), kind};
  const double bytes = real(0, 1e9);
  RC_ASSERT(all_reduce_s(bytes, degree, fast) <= all_reduce_s(bytes, degree, slow));
  RC_ASSERT(all_reduce_s(bytes, degree, slow) <= all_reduce_s(bytes + real(0, 1e9), degree, slow));
  // Without links a group is no slower than one of its devices, and no faster than `degree` times.
  const Link none{1e300, 0, "network"};
  const double alone = group_of(1, none)->layer_s(layer, 16, 16, work);
  const double together = group_of(degree, none)->layer_s(layer, 16, 16, work);
  RC_ASSERT(together <= alone);
  RC_ASSERT(together * static_cast<double>(degree) >= alone * (1 - 1e-9));
}

Json any_way() {
  return {{"base_s", real(0, 1e-4)}, {"peer_s", real(0, 1e-5)}, {"link_ratio", real(0.01, 1)}};
}

/// A runtime's own kernel up to some size and number of devices, and NCCL.
Profile any_sums(const Device& device) {
  const Json range = {{"bytes", {256, real(1e4, 1e8)}}, {"num_devices", {2, 4}}};
  const auto part = [&](const char* method, const char* first, const char* second) {
    const Json coefficients = {{first, any_way()}, {second, any_way()}, {"link_bytes_per_s", 25e9}};
    return Json{{"op", "all_reduce"},
                {"dtype", "bfloat16"},
                {"method", method},
                {"num_points", 9},
                {"range", range},
                {"provenance", "fitted"},
                {"coefficients", coefficients}};
  };
  Json nccl = part("nccl", "low_latency", "simple");
  nccl["name"] = "nccl";
  return profile_from_json({{"device", to_json(device)},
                            {"kernel_set", "test"},
                            {"parts", {part("all_reduce", "one_shot", "two_shot"), nccl}}},
                           "sums", DataFolders({}));
}

/// A pipeline of two stages, of some of the model's layers each, on two nodes of two devices.
struct AnyPipeline {
  PricingContext context;
  std::vector<Stage> stages;
  std::int32_t kv_bitwidth = *rc::gen::element(8, 16);

  AnyPipeline() {
    context.model = any_model();
    context.kernel_set = test::test_kernels();
    context.kernel_set.host_step_s = real(0, 1e-2);
    context.kernel_set.host_sequence_s = real(0, 1e-4);
    context.kernel_set.host_prompt_s = real(0, 1e-2);
    context.memory = *rc::gen::element(MemoryPreset::physical, MemoryPreset::llm_pq);
    context.cluster.nodes.resize(2);
    for (const std::size_t node : {0U, 0U, 1U, 1U}) {
      context.cluster.devices.push_back({test::v100(), node});
      context.cluster.devices.back().device.pcie_bytes_per_s = 16e9;
    }
    const auto split = *rc::gen::inRange<std::int64_t>(1, context.model.num_layers);
    const auto layers = [&](std::int64_t first, std::int64_t number) {
      std::vector<std::int32_t> bitwidths;
      for (std::int64_t i = 0; i < number; ++i) bitwidths.push_back(*rc::gen::element(4, 8, 16));
      return count_layers(context.model, first, bitwidths);
    };
    const bool alone = *rc::gen::arbitrary<bool>();
    const std::vector<std::size_t> on_first =
        alone ? std::vector<std::size_t>{0} : std::vector<std::size_t>{0, 1};
    stages = {{on_first, StagePlace::first, layers(0, split)},
              {{2}, StagePlace::last, layers(split, context.model.num_layers - split)}};
  }
  PipelinePrice price(const Correction& correction = {}) const {
    return PipelinePrice(context, stages, kv_bitwidth, correction);
  }
};

Pass any_pass() {
  const auto phase = *rc::gen::element(Phase::prefill, Phase::decode);
  const double sequences = *rc::gen::inRange(1, 300);
  const double tokens = phase == Phase::decode ? 1 : *rc::gen::inRange(1, 3000);
  return {{phase, sequences, tokens, real(0, 5000)}, *rc::gen::arbitrary<bool>() ? sequences : 0};
}

double whole_s(const PipelinePrice& price, const Pass& pass) {
  double sum = price.return_s(pass.num_sampled);
  for (std::size_t k = 0; k < price.num_stages(); ++k) sum += price.pass(k, pass).total_s();
  return sum + price.hop_s(0, pass.rows());
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-12 * std::max(a, b); }

// The two parameters of a calibration: whatever the work, a pass takes scale x T + offset_s.
RC_GTEST_PROP(CorrectionProperty, IsLinearInWhatAPassTakes, ()) {
  const AnyPipeline any;
  const Pass pass = any_pass();
  const Correction correction{real(0.01, 20), real(0, 1)};
  const double plain = whole_s(any.price(), pass);
  RC_ASSERT(
      near(whole_s(any.price(correction), pass), correction.scale * plain + correction.offset_s));
  RC_ASSERT(whole_s(any.price(Correction{}), pass) == plain);
}

RC_GTEST_PROP(CorrectionProperty, OneAfterAnotherIsOne, ()) {
  const AnyPipeline any;
  const Pass pass = any_pass();
  const Correction first{real(0.1, 10), real(0, 1)}, second{real(0.1, 10), real(0, 1)};
  const Correction both{second.scale * first.scale,
                        second.scale * first.offset_s + second.offset_s};
  const auto& members = any.stages[0].members;
  const auto price = [&](const Correction& correction) {
    return make_stage_price(any.context, members, any.kv_bitwidth, correction);
  };
  const auto twice = corrected(price(first), second), once = price(both);
  const LayerShape& layer = any.context.model.layer_classes.front();
  RC_ASSERT(near(twice->layer_s(layer, 8, pass.work), once->layer_s(layer, 8, pass.work)));
  RC_ASSERT(near(twice->attention_s(layer, 8, pass.work), once->attention_s(layer, 8, pass.work)));
  RC_ASSERT(near(twice->embedding_s(pass.rows()), once->embedding_s(pass.rows())));
  RC_ASSERT(near(twice->head_s(pass.rows()), once->head_s(pass.rows())));
  RC_ASSERT(near(twice->host_s(3, pass.rows()), once->host_s(3, pass.rows())));
  const Link link{real(1e8, 1e11), real(0, 1e-3), "network"};
  RC_ASSERT(near(twice->hop_s(pass.rows(), link), once->hop_s(pass.rows(), link)));
  RC_ASSERT(near(twice->return_s(pass.rows(), link), once->return_s(pass.rows(), link)));
}

RC_GTEST_PROP(SumsProperty, NeverFallWithBytesOrDevices, ()) {
  Device device = test::v100();
  device.nvlink_bytes_per_s = 25e9;
  const Profile profile = any_sums(device);
  const Link link = node_link(device);
  OpQuery query;
  query.op = Op::all_reduce;
  query.dtype = "bfloat16";
  query.bytes = std::pow(10, real(2, 9));
  query.num_devices = *rc::gen::inRange(2, 16);
  OpQuery more = query;
  more.bytes *= real(1, 100);
  more.num_devices += *rc::gen::inRange(0, 8);
  const double before = predict_sum(query, link, &profile).seconds.value;
  RC_ASSERT(std::isfinite(before) && before > 0);
  RC_ASSERT(predict_sum(more, link, &profile).seconds.value >= before * (1 - 1e-12));
  const double share = 2 * (query.num_devices - 1.0) / query.num_devices;
  RC_ASSERT(before >= share * query.bytes / link.bytes_per_s * (1 - 1e-12));
}

}  // namespace
}  // namespace tessera::cost::cost_property_test
