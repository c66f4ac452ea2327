#include "plan_origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "tessera/core/text.h"
#include "tessera/cost/prediction_sum.h"

namespace tessera::solver {
namespace {

class Origin {
 public:
  Origin(const PipelinePlan& plan, const BatchProblem& batch) : plan_(plan), batch_(batch) {}

  void add_stage(const PlanStage& stage, const std::vector<std::size_t>& members) {
    const auto model = cost::latency_model_of(batch_, members);
    for (const auto& [kind, number] :
         cost::count_layers(batch_.model, stage.first_layer, stage.bitwidths)) {
      const LayerShape& layer =
          batch_.model.layer_classes[static_cast<std::size_t>(kind.layer_class)];
      const auto count = static_cast<double>(number);
      add(*model, stage, layer, kind.bitwidth, cost::Phase::prefill, count * prefill_times());
      add(*model, stage, layer, kind.bitwidth, cost::Phase::decode, count * decode_times());
    }
  }

  void write(PipelinePlan& plan) const {
    const Sourced total = total_.result({}).seconds;
    plan.provenance = total.provenance;
    plan.error = total.error;
    if (outside_.empty()) return;
    std::vector<std::string> parts(outside_.begin(), outside_.end());
    const std::size_t more = parts.size() > kMaxNamed ? parts.size() - kMaxNamed : 0;
    parts.resize(parts.size() - more);
    plan.notes.push_back("latencies outside the fitted range: " + join(parts, "; ") +
                         (more > 0 ? fmt::format("; and {} more", more) : ""));
  }

 private:
  static constexpr std::size_t kMaxNamed = 3;

  double prefill_times() const {
    const Workload& workload = batch_.workload;
    return static_cast<double>(workload.num_chunks() * workload.batch_size) /
           static_cast<double>(plan_.prefill_micro_batch_size);
  }
  double decode_times() const {
    const Workload& workload = batch_.workload;
    return (workload.output_tokens - 1) * static_cast<double>(workload.batch_size) /
           static_cast<double>(plan_.decode_micro_batch_size);
  }

  void add(const cost::LatencyModel& model, const PlanStage& stage, const LayerShape& layer,
           std::int32_t bitwidth, cost::Phase phase, double times) {
    if (times <= 0) return;
    const auto size =
        static_cast<double>(phase == cost::Phase::prefill ? plan_.prefill_micro_batch_size
                                                          : plan_.decode_micro_batch_size);
    const auto work = cost::units_of(batch_.workload, size, phase);
    for (const cost::LayerWork& unit : work) {
      const cost::Prediction price = model.layer(layer, bitwidth, batch_.kv_bitwidth, unit);
      total_.add(price, times / static_cast<double>(work.size()));
      if (price.outside) {
        outside_.insert(fmt::format("{}, {} bit {}: {}", stage.device, bitwidth, name_of(phase),
                                    *price.outside));
      }
    }
  }

  const PipelinePlan& plan_;
  const BatchProblem& batch_;
  cost::PredictionSum total_;
  std::set<std::string> outside_;
};

}  // namespace

void set_origin(PipelinePlan& plan, const Candidate& candidate) {
  const BatchProblem& batch = *plan.problem.batch();
  plan.provenance = Provenance::modelled;
  if (!batch.profiles.empty()) {
    Origin origin(plan, batch);
    const auto members = stage_members(batch, candidate.order);
    for (std::size_t k = 0; k < plan.stages.size(); ++k) {
      origin.add_stage(plan.stages[k], members[k]);
    }
    origin.write(plan);
  }
  if (const auto note = correction_note(plan)) {
    if (const auto error = batch.kernel_set.recalibration->error()) {
      plan.provenance = Provenance::fitted;
      plan.error = error;
    }
    plan.notes.push_back(*note);
  }
}

std::optional<std::string> correction_note(const PipelinePlan& plan) {
  const BatchProblem& batch = *plan.problem.batch();
  const auto& runs = batch.kernel_set.recalibration;
  const auto has_run = [&](const PlanStage& stage) {
    return runs->ran_on(batch.device(static_cast<std::size_t>(stage.device_index)));
  };
  if (!runs || std::none_of(plan.stages.begin(), plan.stages.end(), has_run)) return std::nullopt;
  return "latencies corrected: " + runs->text();
}

}  // namespace tessera::solver
