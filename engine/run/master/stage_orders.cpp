#include "stage_orders.h"

#include <algorithm>
#include <numeric>

#include "tessera/core/cpu_cores.h"
#include "tessera/core/error.h"

namespace tessera::run {
namespace {

// Columns of a matrix are shared out in whole groups of codes.
void check_groups(const ExecuteRequest& request, const ModelShape& shape,
                  const EngineRequest& engine, const EngineRequest::Stage& stage) {
  const LoadOrder order = load_order_of(request.model);
  const std::int64_t group = order.scheme.group_size;
  if (order.scheme.granularity != quant::Granularity::group || group <= 0) return;
  for (std::int64_t i = stage.first_layer; i < stage.first_layer + stage.num_layers; ++i) {
    const std::int32_t bitwidth = engine.bitwidths[static_cast<std::size_t>(i)];
    if (bitwidth == 16 || bitwidth == 0) continue;
    for (const std::int64_t columns :
         {shape.num_heads * shape.layer_classes.front().head_dim, shape.ffn_size}) {
      const std::int64_t own = columns / stage.tensor_ranks;
      if (own % std::min(group, columns) == 0) continue;
      refuse(ErrorCode::out_of_range, "plan",
             "{} tensor-parallel ranks have {} of {} columns of a matrix each, which cuts groups "
             "of {} codes: --group-size {} (group_size = {}) divides them",
             stage.tensor_ranks, own, columns, group, std::gcd(own, group), std::gcd(own, group));
    }
  }
}

void check_ranks(const ExecuteRequest& request, const ModelShape& shape,
                 const EngineRequest& engine, const EngineRequest::Stage& stage) {
  const std::int64_t ranks = stage.tensor_ranks;
  if (stage.attention_elsewhere > 0) {
    refuse(ErrorCode::unsupported, "plan",
           "a stage of {} tensor-parallel ranks has attention on another device; one has it",
           ranks);
  }
  if (shape.num_heads % ranks != 0 || shape.num_kv_heads % ranks != 0 ||
      shape.ffn_size % ranks != 0) {
    refuse(ErrorCode::out_of_range, "plan",
           "{} tensor-parallel ranks do not divide the {} heads, {} KV heads and {} columns of {}",
           ranks, shape.num_heads, shape.num_kv_heads, shape.ffn_size, shape.name);
  }
  check_groups(request, shape, engine, stage);
  if (request.options.workers != Starter::itself) {
    refuse(ErrorCode::unsupported, "workers",
           "tensor-parallel ranks share memory, and so run where the master starts them: "
           "workers = \"itself\"");
  }
}

// What a rank and those after it that share its layers keep to: rank t of them to the t-th part.
void give_cores(const ExecuteRequest& request, LoadOrder& order, std::int32_t rank) {
  if (request.options.workers != Starter::itself) return;
  const std::vector<std::int32_t> cores = usable_cores();
  const auto each = static_cast<std::int32_t>(std::ssize(cores) / count_ranks(request));
  if (order.threads == 0) order.threads = std::max(1, each);
  if (!request.options.pin || each == 0 || request.model.device != "cpu") return;
  const auto first = cores.begin() + rank * each;
  order.cores.assign(first, first + each * order.tensor_ranks);
}

}  // namespace

std::int64_t count_ranks(const ExecuteRequest& request) {
  std::int64_t count = 0;
  for (const EngineRequest& engine : request.engines) {
    for (const EngineRequest::Stage& stage : engine.stages) count += stage.num_ranks();
  }
  return count;
}

bool attends_elsewhere(const ExecuteRequest& request) {
  return std::ranges::any_of(request.engines, [](const EngineRequest& engine) {
    return std::ranges::any_of(engine.stages, [](const EngineRequest::Stage& stage) {
      return stage.attention_elsewhere > 0;
    });
  });
}

void check_stages(const ExecuteRequest& request, const ModelShape& shape) {
  for (const EngineRequest& engine : request.engines) {
    for (const EngineRequest::Stage& stage : engine.stages) {
      if (stage.tensor_ranks > 1) check_ranks(request, shape, engine, stage);
    }
  }
}

// Engines of a server do not share its requests out; they have each a part of every one.
void check_pools(const ExecuteRequest& request) {
  const auto has = [&](std::size_t engine, EngineRole role) {
    return request.engines[engine].role == role;
  };
  if (request.engines.size() != 2 || !has(0, EngineRole::prefill) || !has(1, EngineRole::decode)) {
    refuse(ErrorCode::unsupported, "roles",
           "there are {} engines; a server has one, or one that reads prompts and one that "
           "decodes them (--roles prefill,decode); start a server for each of others",
           request.engines.size());
  }
  if (request.engines[0].kv_bitwidth != request.engines[1].kv_bitwidth) {
    refuse("plan",
           "its engines keep keys and values at {} and {} bits, and hand them over as "
           "they are: --kv-bitwidth has both the same",
           request.engines[0].kv_bitwidth, request.engines[1].kv_bitwidth);
  }
  for (const EngineRequest& engine : request.engines) {
    for (const EngineRequest::Stage& stage : engine.stages) {
      if (stage.num_ranks() == 1) continue;
      refuse(ErrorCode::unsupported, "plan",
             "a stage of {} processes that share its heads hands no blocks over; plan stages of "
             "one device each",
             stage.num_ranks());
    }
  }
  if (request.options.transport == Carrier::c10d) {
    refuse(ErrorCode::unsupported, "transport", "c10d carries hidden states alone: tcp");
  }
}

LoadOrder stage_order(const ExecuteRequest& request, const std::string& fingerprint,
                      const EngineRequest& engine, const EngineRequest::Stage& stage,
                      std::int32_t rank) {
  LoadOrder order = load_order_of(request.model);
  order.fingerprint = fingerprint;
  order.activation_dtype = request.options.activation_dtype;
  order.bitwidths = engine.bitwidths;
  order.kv_bitwidth = static_cast<std::int32_t>(engine.kv_bitwidth);
  if (!stage.device.empty()) order.device = stage.device;
  order.tensor_ranks = stage.tensor_ranks;
  order.first_layer = stage.first_layer;
  order.last_layer = stage.first_layer + stage.num_layers;
  order.with_embedding = &stage == &engine.stages.front();
  order.with_head = &stage == &engine.stages.back();
  order.attention_elsewhere = stage.attention_elsewhere;
  order.emulated = stage.emulated;
  give_cores(request, order, rank);
  return order;
}

LoadOrder attention_order(const ExecuteRequest& request, const EngineRequest::Stage& stage,
                          LoadOrder order, std::int32_t rank) {
  order.attends = true;
  order.with_embedding = order.with_head = false;
  if (!stage.attention_device.empty()) order.device = stage.attention_device;
  order.emulated = stage.attention_emulated;
  order.cores.clear();
  give_cores(request, order, rank);
  return order;
}

}  // namespace tessera::run
