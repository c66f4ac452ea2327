// One call prices a layer under any tensor parallelism: every shipped model, on every GPU that has
// a profile, under every kernel set that it has one for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/cost/profile.h"
#include "tessera/cost/tensor_parallel.h"

namespace tessera::cost::every_price_test {
namespace {

const DataFolders& folders() {
  static const DataFolders all({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  return all;
}

std::vector<ModelShape> shipped_models() {
  std::vector<ModelShape> models;
  for (const std::string& name : folders().list("models")) {
    const std::string path = folders().require("models", name);
    models.push_back(model_from_json(read_json_file(path), path));
  }
  return models;
}

std::vector<std::shared_ptr<const Profile>> shipped_profiles() {
  std::vector<std::shared_ptr<const Profile>> profiles;
  for (const std::string& device : folders().list("devices")) {
    for (const std::string& kernel_set : folders().list("kernel_sets")) {
      if (auto profile = find_profile(device, kernel_set, folders())) profiles.push_back(profile);
    }
  }
  return profiles;
}

Link link_of(const Device& device) {
  Link link;
  link.bytes_per_s = device.nvlink_bytes_per_s.value_or(16e9);
  link.latency_s = 5e-6;
  return link;
}

/// No kernel computes faster than the fastest unit, or reads its weights faster than the memory.
double least_s(const Device& device, const LayerShape& member, std::int32_t bitwidth, double rows) {
  double fastest = 0, flop = 0, bytes = 0;
  for (const auto& [dtype, rate] : device.flop_per_s) fastest = std::max(fastest, rate);
  for (const LinearShape& linear : member.linears) {
    const auto matrix = static_cast<double>(linear.in_features * linear.out_features);
    flop += 2 * rows * matrix * static_cast<double>(linear.num_active);
    bytes += matrix * static_cast<double>(linear.num_active) * bitwidth / 8;
  }
  return std::max(flop / fastest, bytes / device.memory_bytes_per_s);
}

bool has_experts(const LayerShape& layer) {
  return std::any_of(layer.linears.begin(), layer.linears.end(),
                     [](const LinearShape& linear) { return linear.num_copies > 1; });
}

struct Counts {
  std::int64_t combinations = 0, predictions = 0, uneven = 0, copied = 0, latent = 0, fitted = 0;
  std::int64_t fitted_experts = 0;
};

/// Layers with experts are fitted only where experts of the dtype were measured.
void check_experts(const Profile& profile, const KernelSet& kernels, std::int32_t bitwidth,
                   const Prediction& price, Counts& counts) {
  if (price.seconds.provenance == Provenance::modelled) return;
  OpQuery query;
  query.op = Op::experts;
  query.dtype = kernels.find(profile.device, bitwidth)->dtype;
  EXPECT_NE(profile.find(query), nullptr) << "no experts were measured";
  ++counts.fitted_experts;
}

/// Layers that attend to latents are fitted only where that was measured.
void check_latents(const Profile& profile, Phase phase, const Prediction& price, Counts& counts) {
  ++counts.latent;
  if (price.seconds.provenance == Provenance::modelled) return;
  OpQuery query;
  query.op = Op::attention;
  query.name = "latent";
  query.phase = phase;
  query.dtype = "bfloat16";
  EXPECT_NE(profile.find(query), nullptr) << "no latents were measured";
}

void check(const Prediction& price, double least, const std::string& what) {
  ASSERT_TRUE(std::isfinite(price.seconds.value)) << what;
  EXPECT_GE(price.seconds.value, least) << what << " is faster than the device";
  EXPECT_FALSE(price.method.empty()) << what;
  const bool modelled = price.seconds.provenance == Provenance::modelled;
  if (price.outside) {
    EXPECT_TRUE(modelled) << what << ": " << *price.outside;
  }
  if (modelled) {
    EXPECT_FALSE(price.seconds.error) << what << ": an error that no measurement stands behind";
  }
}

/// Attention is a part of each layer, in a group the member's own, and all that a context adds.
void check_attention(const LatencyModel& group, const LatencyModel& alone, const KernelSet& kernels,
                     const Device& device, const ModelShape& model, std::int64_t degree) {
  const auto attends = [](const LayerShape& layer) { return layer.attends(); };
  const auto& classes = model.layer_classes;
  const LayerShape& layer = *std::find_if(classes.begin(), classes.end(), attends);
  const LayerShape member = shard(layer, degree);
  for (const std::int32_t bitwidth : kernels.bitwidths_on(device)) {
    for (const LayerShape& other : classes) {
      const LayerWork work{Phase::decode, 24, 1, 3000};
      if (other.attends()) continue;
      EXPECT_EQ(group.attention_s(other, bitwidth, 16, work), 0) << model.name;
    }
    for (const LayerWork& first :
         {LayerWork{Phase::prefill, 1, 300, 0}, LayerWork{Phase::decode, 24, 1, 0}}) {
      SCOPED_TRACE(model.name + " on " + std::to_string(degree) + "x" + device.name + " " +
                   kernels.name + " " + std::to_string(bitwidth) + " bit " +
                   std::string(name_of(first.phase)));
      LayerWork later = first;
      later.context_tokens = 3000;
      const double least_s = group.attention_s(layer, bitwidth, 16, first);
      const double most_s = group.attention_s(layer, bitwidth, 16, later);
      const double rest_s = group.layer_s(layer, bitwidth, 16, first) - least_s;
      const double whole_s = group.layer_s(layer, bitwidth, 16, later);
      EXPECT_GT(least_s, 0);
      EXPECT_GT(rest_s, 0);
      EXPECT_GE(most_s, least_s);
      EXPECT_NEAR(whole_s - most_s, rest_s, 1e-9 * whole_s) << "products see the context";
      EXPECT_DOUBLE_EQ(least_s, alone.attention_s(member, bitwidth, 16, first));
      if (!kernels.reads_kv(device, 8)) continue;
      const double at_8_bits_s = group.attention_s(layer, bitwidth, 8, later);
      EXPECT_GT(at_8_bits_s, 0);
      EXPECT_LT(at_8_bits_s, group.layer_s(layer, bitwidth, 8, later));
    }
  }
}

/// One after what mixes tokens, one after the feed-forward network; blocks of Nemotron-H are one.
double sums_of(const LayerShape& layer) {
  const std::string kind = kind_of(layer);
  return kind == "dense" || kind == "experts" || kind.find(", ") == std::string::npos ? 1 : 2;
}

void check_combination(const Profile& profile, const KernelSet& kernels,
                       const std::shared_ptr<const Profile>& held, const ModelShape& model,
                       std::int64_t degree, Counts& counts) {
  if (why_not_sharded(model, degree)) {
    ++counts.uneven;
    return;
  }
  ++counts.combinations;
  if (degree > model.num_kv_heads) ++counts.copied;
  const Link link = link_of(profile.device);
  const auto group = make_tensor_parallel(make_profiled(held, kernels), degree, link);
  const auto alone = make_profiled(held, kernels);
  for (const std::int32_t bitwidth : kernels.bitwidths_on(profile.device)) {
    for (const LayerShape& layer : model.layer_classes) {
      const LayerShape member = shard(layer, degree);
      for (const LayerWork& work :
           {LayerWork{Phase::prefill, 4, 512, 0}, LayerWork{Phase::decode, 1, 1, 1024},
            LayerWork{Phase::decode, 64, 1, 512}}) {
        const std::string what = model.name + " on " + std::to_string(degree) + "x" +
                                 profile.device.name + " " + kernels.name + " " +
                                 std::to_string(bitwidth) + " bit " +
                                 std::string(name_of(work.phase));
        SCOPED_TRACE(what);
        const Prediction price = group->layer(layer, bitwidth, 16, work);
        check(price, least_s(profile.device, member, bitwidth, work.batch_size * work.tokens),
              what);
        // The group does what a member does, and then sums: a layer is cut once.
        const Prediction part = alone->layer(member, bitwidth, 16, work);
        const double hidden = static_cast<double>(layer.linears.front().in_features);
        const double sums =
            sums_of(layer) * all_reduce_s(work.batch_size * work.tokens * hidden * 2, degree, link);
        EXPECT_NEAR(price.seconds.value, part.seconds.value + sums, 1e-9 * price.seconds.value);
        EXPECT_EQ(price.outside, part.outside);
        if (has_experts(layer)) check_experts(*held, kernels, bitwidth, price, counts);
        if (layer.latent_width) check_latents(*held, work.phase, price, counts);
        counts.fitted += price.seconds.provenance == Provenance::modelled ? 0 : 1;
        ++counts.predictions;
      }
    }
  }
  check_attention(*group, *alone, kernels, profile.device, model, degree);
  const Prediction head = group->lm_head(model, 8);
  const Prediction first = group->embedding(model, 512);
  check(head, 0, model.name + " LM head");
  check(first, 0, model.name + " embedding");
}

/// Of a layer, in seconds by the time that its touched weights take to be read.
double reads(const std::string& device, const std::string& kernel_set, std::int32_t bitwidth,
             double rows) {
  const std::string path = folders().require("models", "qwen3-30b-a3b");
  const LayerShape layer = model_from_json(read_json_file(path), path).layer_classes.front();
  const auto profile = find_profile(device, kernel_set, folders());
  double bytes = 0;
  for (const LinearShape& linear : layer.linears) {
    const auto copies = static_cast<double>(linear.num_copies);
    const double missed = 1 - static_cast<double>(linear.num_active) / copies;
    bytes += copies * (1 - std::pow(missed, rows)) * bitwidth / 8 *
             static_cast<double>(linear.in_features * linear.out_features);
  }
  const auto model = make_profiled(profile, find_kernel_set(kernel_set, folders()));
  return model->layer_s(layer, bitwidth, 16, {Phase::decode, rows, 1, 576}) /
         (bytes / profile->device.memory_bytes_per_s);
}

// They were a launch for each expert: 3.6 and 30 times the time that their weights take.
TEST(EveryPrice, OfExpertsIsOneGroupedKernel) {
  EXPECT_GT(reads("A100-80G", "modern", 16, 32), 1);
  EXPECT_LT(reads("A100-80G", "modern", 16, 32), 2);
  EXPECT_LT(reads("H200-141G", "modern_fp8", 8, 32), 2.5);
  EXPECT_LT(reads("A100-80G", "modern", 8, 32), reads("A100-80G", "modern", 16, 32) * 2);
}

/// Each profile with every fourth model, each model with every fourth profile; on demand with all.
std::size_t stride() { return std::getenv("TESSERA_EVERY_PRICE") != nullptr ? 1 : 4; }

TEST(EveryPrice, OfShippedModelsOnProfiledDevicesUnderTensorParallelism) {
  const std::vector<ModelShape> models = shipped_models();
  Counts counts;
  std::size_t first = 0;
  for (const auto& profile : shipped_profiles()) {
    const KernelSet kernels = find_kernel_set(profile->kernel_set, folders());
    for (std::size_t i = first++ % stride(); i < models.size(); i += stride()) {
      const ModelShape& model = models[i];
      for (const std::int64_t degree : {1, 2, 4, 8, 16}) {
        check_combination(*profile, kernels, profile, model, degree, counts);
      }
    }
  }
  std::printf("%lld combinations, %lld predictions, %lld fitted; %lld meshes cut heads unevenly\n",
              static_cast<long long>(counts.combinations),
              static_cast<long long>(counts.predictions), static_cast<long long>(counts.fitted),
              static_cast<long long>(counts.uneven));
  const auto of = [](int all) { return all / static_cast<int>(stride()); };
  EXPECT_GT(counts.combinations, of(3000));
  EXPECT_GT(counts.fitted, of(1000));
  EXPECT_GT(counts.fitted_experts, of(20));
  EXPECT_GT(counts.uneven, of(100));
  EXPECT_GT(counts.latent, of(1000));
  EXPECT_GT(counts.copied, of(100)) << "no KV heads were held by more than one device";
}

/// The most that one of these loads costs less than the one before it, as a ratio; 1 where none
/// does.
double deepest_fall(const LatencyModel& model, const LayerShape& layer, std::int32_t bitwidth,
                    const std::vector<LayerWork>& growing, bool& carried) {
  double before = 0, deepest = 1;
  for (const LayerWork& work : growing) {
    const Prediction price = model.layer(layer, bitwidth, 16, work);
    carried = carried || price.method.find("carried over") != std::string::npos;
    if (before > 0) deepest = std::min(deepest, price.seconds.value / before);
    before = price.seconds.value;
  }
  return deepest;
}

// More sequences, longer prompts and longer contexts never cost less, but where a bitwidth is the
// measured 16 bits times a ratio of rooflines: that may fall, by a quarter at most.
TEST(EveryPrice, NeverFallsWithWork) {
  constexpr double kCarriedFall = 0.75;
  std::vector<std::vector<LayerWork>> loads(4);
  for (double size = 1; size <= 1024; size *= 2) {
    loads[0].push_back({Phase::decode, size, 1, 700});
    loads[1].push_back({Phase::prefill, size, 256, 0});
    loads[2].push_back({Phase::prefill, 2, 16 * size, 0});
    loads[3].push_back({Phase::decode, 16, 1, 32 * size});
  }
  const std::vector<ModelShape> models = shipped_models();
  int measured = 0;
  std::size_t first = 0;
  for (const auto& profile : shipped_profiles()) {
    const KernelSet kernels = find_kernel_set(profile->kernel_set, folders());
    const auto model = make_profiled(profile, kernels);
    for (std::size_t i = first++ % stride(); i < models.size(); i += stride()) {
      const ModelShape& shape = models[i];
      for (const std::int32_t bitwidth : kernels.bitwidths_on(profile->device)) {
        for (const auto& growing : loads) {
          bool carried = false;
          const double fall =
              deepest_fall(*model, shape.layer_classes.front(), bitwidth, growing, carried);
          EXPECT_GE(fall, carried ? kCarriedFall : 1 - 1e-9)
              << shape.name << " on " << profile->device.name << ", " << kernels.name << ", "
              << bitwidth << " bit, " << name_of(growing.front().phase);
          measured += carried ? 0 : 1;
        }
      }
    }
  }
  EXPECT_GT(measured, 4000 / static_cast<int>(stride()));
}

}  // namespace
}  // namespace tessera::cost::every_price_test
