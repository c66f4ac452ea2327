#include "tessera/solver/plan/launch_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "tessera/core/device_group.h"

namespace tessera::solver {
namespace {

using Obstacles = std::vector<std::string>;

bool has(const std::vector<std::int32_t>& list, std::int32_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

void add(std::optional<std::string> reason, Obstacles& found) {
  if (reason) found.push_back(*std::move(reason));
}

/// One engine as its ranks see it.
struct Engine {
  const cost::PricingContext& context;
  const std::vector<std::string>* nodes = nullptr;  ///< by name, where orders are looked at
  std::vector<const PlacedStage*> stages;           ///< those with layers
  std::vector<std::int32_t> bitwidths;              ///< [layer]
  std::int32_t kv_bitwidth = 16;

  /// Neighbouring stages on one node.
  struct Span {
    std::int64_t node_index = 0, num_gpus = 0;
  };
  std::vector<Span> spans() const {
    std::vector<Span> spans;
    for (const PlacedStage* stage : stages) {
      if (spans.empty() || spans.back().node_index != stage->node_index) {
        spans.push_back({stage->node_index, 0});
      }
      spans.back().num_gpus += stage->degree();
    }
    return spans;
  }
  const std::string& node_of(const Span& span) const {
    return nodes->at(static_cast<std::size_t>(span.node_index));
  }
  /// One of each type that stages are on.
  std::vector<const Device*> devices() const {
    std::vector<const Device*> found;
    std::set<std::string> known;
    for (const PlacedStage* stage : stages) {
      for (const std::string& type : types_in(stage->device)) {
        const auto& slots = context.cluster.devices;
        const auto at = std::find_if(slots.begin(), slots.end(), [&](const ClusterDevice& slot) {
          return slot.device.name == type;
        });
        if (at != slots.end() && known.insert(type).second) found.push_back(&at->device);
      }
    }
    return found;
  }
};

Engine engine_of(const cost::PricingContext& context, const PlacedEngine& placed,
                 const std::vector<std::string>* nodes = nullptr) {
  Engine engine{context, nodes, {}, {}, placed.kv_bitwidth};
  for (const PlacedStage& stage : placed.stages) {
    engine.bitwidths.insert(engine.bitwidths.end(), stage.bitwidths.begin(), stage.bitwidths.end());
    if (stage.num_layers > 0) engine.stages.push_back(&stage);
  }
  return engine;
}

std::string kind_of(const Engine& engine) {
  for (const Device* device : engine.devices()) {
    std::string kind = eight_bit_kind(engine.context.kernel_set, *device);
    if (kind != "int") return kind;
  }
  return "int";
}

/// Layers in whole integers of 4 or 8 bits beside layers in 16 are one scheme; FP8, or integers for
/// activations too, beside others are two.
void check_schemes(const Engine& engine, Obstacles& found) {
  const std::string kind = kind_of(engine);
  if (kind == "int" || !has(engine.bitwidths, 8)) return;
  const char* what = kind == "fp8" ? "FP8" : "INT8 weights and activations";
  const std::string& set = engine.context.kernel_set.name;
  if (has(engine.bitwidths, 4)) {
    found.push_back(
        fmt::format("8 bit is {} with kernel set {}; beside 4-bit layers that is a "
                    "second quantisation scheme, and a checkpoint has one",
                    what, set));
  } else if (has(engine.bitwidths, 16)) {
    found.push_back(fmt::format(
        "8 bit is {} with kernel set {}, for all layers of a checkpoint or none", what, set));
  }
}

/// vLLM's ranks on a node are neighbours. Where nodes have unlike numbers of GPUs Ray places them,
/// whose workers are sorted: those of the head node first, then nodes with fewer before nodes with
/// more (vLLM, sort_by_driver_then_worker_ip).
void check_order(const Engine& engine, Obstacles& found) {
  const std::vector<Engine::Span> spans = engine.spans();
  std::set<std::int64_t> seen;
  std::vector<std::int64_t> counts;
  bool sorted = true;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (!seen.insert(spans[i].node_index).second) {
      found.push_back(
          fmt::format("the pipeline leaves node {} and comes back to it; vLLM's ranks "
                      "on a node are neighbours",
                      engine.node_of(spans[i])));
    }
    sorted = sorted && (i < 2 || spans[i].num_gpus >= spans[i - 1].num_gpus);
    counts.push_back(spans[i].num_gpus);
  }
  if (sorted) return;
  found.push_back(fmt::format(
      "behind the first node vLLM puts nodes with fewer GPUs first; this pipeline has {}",
      fmt::join(counts, ", ")));
}

/// vLLM spreads experts over all of an engine's devices or none.
void check_split(const Engine& engine, Obstacles& found) {
  const cost::GroupSplit& split = engine.context.split;
  const std::int64_t degree = engine.stages.front()->degree();
  if (split.expert_parallel > 1 && split.expert_parallel != degree) {
    found.push_back(
        fmt::format("experts are spread over {} of {} devices; vLLM spreads them over "
                    "all (--enable-expert-parallel) or cuts each",
                    split.expert_parallel, degree));
  }
  if (split.attention_data_parallel > 1 && engine.stages.size() > 1) {
    found.push_back(
        "data-parallel attention in several stages, whose ranks vLLM numbers otherwise");
  }
}

/// Every rank has whole groups of the weights that share a scale.
void check_cuts(const Engine& engine, Obstacles& found) {
  const std::set<std::int32_t> bitwidths(engine.bitwidths.begin(), engine.bitwidths.end());
  const cost::PricingContext& context = engine.context;
  for (const PlacedStage* stage : engine.stages) {
    for (const std::int32_t bitwidth : bitwidths) {
      for (const Device* device : engine.devices()) {
        const cost::KernelRule* rule = context.kernel_set.find(*device, bitwidth);
        if (rule == nullptr) continue;
        const auto why = cut_obstacle(Runtime::vllm, context.model, *rule, bitwidth,
                                      stage->degree(), context.split);
        if (why) return found.push_back(*why);
      }
    }
  }
}

void check_vllm(const Engine& engine, Obstacles& found) {
  add(bitwidth_obstacle(Runtime::vllm, engine.bitwidths), found);
  check_split(engine, found);
  const std::int64_t degree = engine.stages.front()->degree();
  const auto unlike =
      std::find_if(engine.stages.begin(), engine.stages.end(),
                   [&](const PlacedStage* stage) { return stage->degree() != degree; });
  if (unlike != engine.stages.end()) {
    found.push_back(
        fmt::format("the stages have tensor parallelism {} and {}; vLLM has one degree for all",
                    degree, (*unlike)->degree()));
  }
  for (const Device* device : engine.devices()) {
    auto reason = device_obstacle(Runtime::vllm, *device, engine.kv_bitwidth);
    if (!reason) reason = rocm_obstacle(*device, engine.context.kernel_set);
    if (!reason) {
      reason = format_obstacle(Runtime::vllm, engine.context.model, engine.bitwidths, *device);
    }
    add(reason, found);
    if (reason) break;
  }
  add(kv_obstacle(Runtime::vllm, engine.kv_bitwidth), found);
  check_schemes(engine, found);
  check_cuts(engine, found);
  check_order(engine, found);
}

void check_llama_cpp(const Engine& engine, Obstacles& found) {
  if (!engine.context.split.is_plain()) {
    found.push_back("llama.cpp neither spreads experts over devices nor cuts attention into parts");
  }
  add(bitwidth_obstacle(Runtime::llama_cpp, engine.bitwidths), found);
  const std::vector<Engine::Span> spans = engine.spans();
  if (spans.size() > 1) {
    found.push_back(fmt::format(
        "a llama.cpp server uses the GPUs of one node; this pipeline goes over {} and {}",
        engine.node_of(spans[0]), engine.node_of(spans[1])));
  }
  for (const PlacedStage* stage : engine.stages) {
    if (stage->degree() == 1) continue;
    if (engine.stages.size() > 1) {
      found.push_back(fmt::format(
          "llama.cpp cuts a model into stages or shares all layers, not both; this pipeline has {} "
          "stages and tensor parallelism {}",
          engine.stages.size(), stage->degree()));
    }
    add(sharing_obstacle(*engine.devices().front(), engine.kv_bitwidth), found);
    break;
  }
  add(kv_obstacle(Runtime::llama_cpp, engine.kv_bitwidth), found);
}

}  // namespace

std::vector<std::string> launch_obstacles(Runtime runtime, const cost::PricingContext& context,
                                          const Placement& placement, std::size_t engine) {
  Obstacles found;
  const Engine seen = engine_of(context, placement.engines.at(engine), &placement.nodes);
  if (runtime == Runtime::vllm) check_vllm(seen, found);
  if (runtime == Runtime::llama_cpp) check_llama_cpp(seen, found);
  return found;
}

std::vector<std::string> launch_obstacles(Runtime runtime, const Plan& plan,
                                          const Placement& placement) {
  Obstacles found;
  if (runtime == Runtime::tessera) return found;
  const auto add_of = [&](const PipelinePlan& pipeline, std::size_t engine) {
    if (pipeline.offload) {
      found.push_back(
          "the plan keeps a part of the model in host memory or on disk, by FlexGen's schedule");
    }
    for (const PlanStage& stage : pipeline.stages) {
      if (!stage.attention) continue;
      found.push_back(
          fmt::format("the plan has KV heads of a stage on {}, which stands in no stage",
                      stage.attention->device));
    }
    Obstacles own = launch_obstacles(runtime, *pipeline.problem.batch(), placement, engine);
    found.insert(found.end(), own.begin(), own.end());
  };
  if (const auto* pipeline = std::get_if<PipelinePlan>(&plan)) {
    add_of(*pipeline, 0);
  } else {
    const auto& replicas = std::get<ReplicatedPlan>(plan).replicas;
    for (std::size_t r = 0; r < replicas.size(); ++r) add_of(replicas[r], r);
  }
  return found;
}

std::string eight_bit_kind(const cost::PricingContext& context, const PlacedEngine& engine) {
  return kind_of(engine_of(context, engine));
}

std::string checkpoint_of(const cost::PricingContext& context, const PlacedEngine& engine) {
  const Engine seen = engine_of(context, engine);
  std::string text = fmt::format("{}", fmt::join(seen.bitwidths, ","));
  return has(seen.bitwidths, 8) ? text + " " + kind_of(seen) : text;
}

std::string transfer_obstacle(Runtime runtime, const TransferEnd& from, const TransferEnd& to) {
  if (from.kv_bitwidth != to.kv_bitwidth) return "pools: unlike KV caches";
  if (runtime != Runtime::vllm) return {};
  if (from.checkpoint != to.checkpoint) return "pools: vLLM wants one checkpoint in both";
  if (from.num_stages > 1 || to.num_stages > 1) {
    return "pools: vLLM documents no pipelines in them";
  }
  const auto [small, large] = std::minmax(from.degree, to.degree);
  if (large % small == 0) return {};
  return fmt::format("pools: degrees {} and {}, neither divides the other", small, large);
}

}  // namespace tessera::solver
