#include "tessera/solver/serving/priced_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "tessera/core/device_group.h"
#include "tessera/core/error.h"
#include "tessera/solver/plan/place_plan.h"

namespace tessera::solver {
namespace {

const BatchProblem& batch_of(const PipelinePlan& plan) {
  const BatchProblem* batch = plan.problem.batch();
  if (batch == nullptr) {
    refuse(ErrorCode::unsupported, "plan",
           "the plan of an abstract instance has times of one workload only, and no KV cache; give "
           "the plan of a model on a cluster");
  }
  if (plan.offload) {
    refuse(ErrorCode::unsupported, "plan.offload",
           "an offloading plan is priced by FlexGen's cost model for one batch; requests that come "
           "and go need a plan whose weights and KV cache are on the devices");
  }
  if (!batch->attention.empty()) {
    refuse(ErrorCode::unsupported, "plan.stages.attention",
           "requests that come and go need a plan that has all heads of a stage on its device");
  }
  return *batch;
}

/// Hands each stage's layers on, in order and without a gap.
class LayersInOrder {
 public:
  LayersInOrder(const ModelShape& model, std::string path)
      : model_(model), path_(std::move(path)) {}

  cost::LayerCounts take(std::int64_t first, std::int64_t number,
                         const std::vector<std::int32_t>& bitwidths) {
    const std::int64_t end = first + number;
    if (first != next_ || end > model_.num_layers || std::ssize(bitwidths) != number) {
      refuse(fmt::format("{}[{}]", path_, stages_ + 1),
             "holds layers {} to {} with {} bitwidths; layer {} of {} comes next", first, end - 1,
             bitwidths.size(), next_, model_.num_layers);
    }
    ++stages_;
    next_ = end;
    return cost::count_layers(model_, first, bitwidths);
  }
  void finish() const {
    if (next_ != model_.num_layers) refuse(path_, "hold {} of {} layers", next_, model_.num_layers);
  }

 private:
  const ModelShape& model_;
  std::string path_;
  std::int64_t next_ = 0;
  int stages_ = 0;
};

}  // namespace

std::int64_t usual_tokens(const ModelShape& model) {
  return std::clamp<std::int64_t>(model.max_context_tokens / 2, 1, 1024);
}

PricedEngine::PricedEngine(const cost::PricingContext& pricing, const Placement& placement,
                           const PlacedEngine& engine)
    : context(pricing), kv_bitwidth(engine.kv_bitwidth) {
  const auto members = stage_devices(placement, engine, context.cluster);
  LayersInOrder layers(context.model, "placement.stages");
  for (std::size_t k = 0; k < engine.stages.size(); ++k) {
    const PlacedStage& stage = engine.stages[k];
    stages.push_back({members[k], place_at(k, engine.stages.size()),
                      layers.take(stage.first_layer, stage.num_layers, stage.bitwidths)});
  }
  layers.finish();
}

PricedEngine::PricedEngine(const PipelinePlan& plan)
    : context(batch_of(plan)), kv_bitwidth(batch_of(plan).kv_bitwidth) {
  const auto members = stage_devices(plan);
  LayersInOrder layers(context.model, "plan.stages");
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlanStage& stage = plan.stages[k];
    cost::LayerCounts held = layers.take(stage.first_layer, stage.num_layers, stage.bitwidths);
    stages.push_back({members[k], place_at(k, plan.stages.size()), std::move(held)});
  }
  layers.finish();
}

std::string PricedEngine::stage_name(std::size_t stage) const {
  const cost::Stage& named = stages.at(stage);
  return group_name(group_type(context.cluster, named.members), named.degree());
}

double PricedEngine::usd_per_h() const {
  double price = 0;
  for (const cost::Stage& stage : stages) {
    for (const std::size_t member : stage.members) {
      price += context.device(member).price_usd_per_h.value_or(0);
    }
  }
  return price;
}

Provenance PricedEngine::provenance() const {
  if (context.profiles.empty()) return Provenance::modelled;
  const auto tokens = static_cast<double>(usual_tokens(context.model));
  const cost::LayerWork works[] = {{cost::Phase::prefill, 1, tokens, 0},
                                   {cost::Phase::decode, 1, 1, 1.5 * tokens}};
  Provenance weakest = Provenance::measured;
  for (const cost::Stage& stage : stages) {
    const auto model = cost::latency_model_of(context, stage.members);
    for (const auto& [kind, number] : stage.layers) {
      const LayerShape& layer =
          context.model.layer_classes[static_cast<std::size_t>(kind.layer_class)];
      for (const cost::LayerWork& work : works) {
        const cost::Prediction price = model->layer(layer, kind.bitwidth, kv_bitwidth, work);
        weakest = weaker(weakest, price.seconds.provenance);
      }
    }
  }
  return weakest;
}

}  // namespace tessera::solver
