#include "tessera/cost/lone_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "counts.h"
#include "tessera/core/error.h"
#include "tessera/cost/device_group.h"
#include "tessera/cost/tensor_parallel.h"

namespace tessera::cost {
namespace {

[[noreturn]] void refuse_run(const std::string& why) {
  throw Error(ErrorCode::unsupported, why, "run");
}

/// What the scheme makes of the model and its kernels.
PricingContext with_scheme(PricingContext context, const LoneRunQuery& query) {
  if (!query.scheme.empty()) context.kernel_set = context.kernel_set.of_scheme(query.scheme);
  if (query.pruned_ratio > 0) context.model = without_structures(context.model, query.pruned_ratio);
  return context;
}

/// The devices that were asked for, or the first ones of the cluster.
std::vector<std::size_t> devices_of(const PricingContext& context, const LoneRunQuery& query) {
  const auto have = std::ssize(context.cluster.devices);
  const std::int64_t need = query.tensor_parallel * query.pipeline_parallel;
  if (need > have) refuse_run(fmt::format("it takes {} GPUs, the cluster has {}", need, have));
  std::vector<std::size_t> devices(static_cast<std::size_t>(need));
  std::iota(devices.begin(), devices.end(), std::size_t{0});
  if (query.devices.empty()) return devices;
  if (std::ssize(query.devices) != need) {
    refuse("devices", "{} are given, TP {} x PP {} takes {}", query.devices.size(),
           query.tensor_parallel, query.pipeline_parallel, need);
  }
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (query.devices[i] < 0 || query.devices[i] >= have) {
      refuse("devices", "there is no device {} of {}", query.devices[i], have);
    }
    devices[i] = static_cast<std::size_t>(query.devices[i]);
  }
  return devices;
}

/// The model's layers over the stages, the first ones with one more.
std::vector<Stage> stages_of(const PricingContext& context, const LoneRunQuery& query) {
  const std::vector<std::size_t> devices = devices_of(context, query);
  const auto num_stages = static_cast<std::size_t>(query.pipeline_parallel);
  std::vector<Stage> stages;
  std::int64_t first = 0;
  for (std::size_t k = 0; k < num_stages; ++k) {
    const auto begin = devices.begin() + static_cast<std::ptrdiff_t>(k) * query.tensor_parallel;
    const std::int64_t layers =
        context.model.num_layers / query.pipeline_parallel +
        (std::cmp_less(k, context.model.num_layers % query.pipeline_parallel) ? 1 : 0);
    const std::vector<std::int32_t> bitwidths(static_cast<std::size_t>(layers), query.bitwidth);
    stages.push_back({{begin, begin + query.tensor_parallel},
                      place_at(k, num_stages),
                      count_layers(context.model, first, bitwidths)});
    first += layers;
  }
  return stages;
}

/// Of the kernels of a stage, whose devices are alike.
double group_size_of(const PricingContext& context, const Stage& stage, std::int32_t bitwidth) {
  return context.kernel_set.find(context.device(stage.members.front()), bitwidth)->group_size;
}

void check_kernels(const PricingContext& context, const std::vector<Stage>& stages,
                   const LoneRunQuery& query) {
  if (query.pipeline_parallel > context.model.num_layers) {
    refuse_run(
        fmt::format("{} stages, but {} layers", query.pipeline_parallel, context.model.num_layers));
  }
  if (const auto why = why_not_sharded(context.model, query.tensor_parallel)) refuse_run(*why);
  const std::string& name = context.kernel_set.name;
  for (const Stage& stage : stages) {
    const std::string& first = context.device(stage.members.front()).name;
    for (const std::size_t member : stage.members) {
      const Device& device = context.device(member);
      if (device.name != first) {
        refuse_run(fmt::format("a {} and a {} do not share layers", first, device.name));
      }
      if (context.kernel_set.find(device, query.bitwidth) == nullptr) {
        const std::string weights =
            query.scheme.empty() ? "weights" : fmt::format("{} weights", query.scheme);
        refuse_run(fmt::format("kernel set {} has no kernel for {} of {} bits on {}", name, weights,
                               query.bitwidth, device.name));
      }
      if (!context.kernel_set.reads_kv(device, query.kv_bitwidth)) {
        refuse_run(
            fmt::format("kernel set {} has no attention that reads a KV cache of {} bits "
                        "on {}",
                        name, query.kv_bitwidth, device.name));
      }
    }
  }
}

/// One pass over all stages, of a model with `share` of the layers.
double pass_s(const PipelinePrice& price, const Pass& pass, double share) {
  double seconds = price.return_s(pass.num_sampled);
  for (std::size_t k = 0; k < price.num_stages(); ++k) {
    PassSeconds of_stage = price.pass(k, pass);
    of_stage.layers_s *= share;
    seconds += of_stage.total_s();
    if (k + 1 < price.num_stages()) seconds += price.hop_s(k, pass.rows());
  }
  return seconds;
}

/// Of so many requests that come at once: their prompts one by one, then tokens of all of them.
std::vector<double> latencies(const PricingContext& context, const std::vector<Stage>& stages,
                              const LoneRunQuery& query, double requests, double share) {
  if (query.output_tokens.empty()) return {};
  const PipelinePrice price(context, stages, query.kv_bitwidth);
  const double prompt = count(query.prompt_tokens);
  const std::int64_t longest =
      *std::max_element(query.output_tokens.begin(), query.output_tokens.end());
  std::vector<double> until = {context.kernel_set.api_s +
                               requests *
                                   pass_s(price, {{Phase::prefill, 1, prompt, 0}, 1}, share)};
  for (std::int64_t n = 2; n <= longest; ++n) {  // n - 2 tokens after the first are in the cache
    const Pass step{{Phase::decode, requests, 1, prompt + count(n - 1)}, requests};
    until.push_back(until.back() + pass_s(price, step, share));
  }
  std::vector<double> seconds;
  for (const std::int64_t n : query.output_tokens) {
    seconds.push_back(until[static_cast<std::size_t>(n - 1)]);
  }
  return seconds;
}

MemoryAccount memory_of(const PricingContext& context, const std::vector<Stage>& stages,
                        const LoneRunQuery& query, double share) {
  MemoryQuery asked = of_checkpoint({.preset = context.memory, .kv_bitwidth = query.kv_bitwidth},
                                    context.model, context.kernel_set);
  Workload workload;
  workload.batch_size = query.batch_size;
  workload.prompt_tokens = count(query.prompt_tokens);
  workload.max_prompt_tokens = query.prompt_tokens;
  workload.output_tokens = count(query.max_output_tokens);
  workload.max_output_tokens = query.max_output_tokens;
  const ModelShape member = shard(context.model, query.tensor_parallel);
  MemoryAccount all;
  for (const Stage& stage : stages) {
    const double degree = count(stage.degree());
    asked.group_size = group_size_of(context, stage, query.bitwidth);
    const MemoryAccount empty = empty_account(context, stage.members, asked);
    all.capacity_bytes += degree * empty.capacity_bytes;
    all.usable_bytes += degree * empty.usable_bytes;
    all.reserve_bytes += degree * empty.reserve_bytes;
    for (const auto& [kind, number] : stage.layers) {
      const auto& layer = member.layer_classes[static_cast<std::size_t>(kind.layer_class)];
      const double layers = share * count(number);
      all.weight_bytes += degree * layers * layer_weight_bytes(layer, kind.bitwidth, asked);
      all.kv_bytes += degree * layers * layer_kv_bytes(layer, workload, asked);
    }
    all.embedding_bytes += degree * embedding_bytes(member, stage.place, asked);
    all.activation_bytes +=
        degree *
        std::max(prefill_activation_bytes(member, workload, 1, stage.place, asked),
                 decode_activation_bytes(member, workload, query.batch_size, stage.place, asked));
  }
  return all;
}

Provenance provenance_of(const PricingContext& context, const std::vector<Stage>& stages,
                         const LoneRunQuery& query) {
  const auto prices = latency_model_of(context, stages.front().members);
  const LayerWork step{Phase::decode, 1, 1, count(query.prompt_tokens)};
  return prices->layer(context.model.layer(0), query.bitwidth, query.kv_bitwidth, step)
      .seconds.provenance;
}

}  // namespace

LoneRun lone_run(const PricingContext& asked, const LoneRunQuery& query) {
  const PricingContext context = with_scheme(asked, query);
  const std::vector<Stage> stages = stages_of(context, query);
  check_kernels(context, stages, query);
  for (const Stage& stage : stages) {
    const double group_size = group_size_of(context, stage, query.bitwidth);
    if (const auto why = why_groups_break(context.model, group_size, query.tensor_parallel))
      refuse_run(*why);
  }
  const double share = count(query.num_layers) / count(context.model.num_layers);
  const double batch = count(query.batch_size);
  return {.latency_s = latencies(context, stages, query, 1, share),
          .batch_latency_s =
              batch > 1 ? latencies(context, stages, query, batch, share) : std::vector<double>{},
          .memory = memory_of(context, stages, query, share),
          .provenance = provenance_of(context, stages, query)};
}

}  // namespace tessera::cost
