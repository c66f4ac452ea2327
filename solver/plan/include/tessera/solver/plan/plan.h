#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/json_fwd.h"
#include "tessera/core/provenance.h"
#include "tessera/core/quality.h"
#include "tessera/core/record.h"
#include "tessera/solver/offload/offload_shares.h"
#include "tessera/solver/problem/open_problem.h"

namespace tessera::solver {

enum class PlanStatus { optimal, feasible };

/// What ended a search before it was done. Another run may then end elsewhere.
enum class PlanStop { time_limit, interrupted };

struct StageMemory {
  double weight_bytes =
      0;  ///< decoder layers at their bitwidths, with quantisation metadata and norms
  double kv_cache_bytes = 0;    ///< whole batch, full length
  double activation_bytes = 0;  ///< peak of either phase
  double embedding_bytes =
      0;  ///< token and position embeddings, LM head, where this stage holds them
  double reserve_bytes = 0;   ///< runtime, allocator
  double total_bytes = 0;     ///< sum of the above
  double capacity_bytes = 0;  ///< of the device

  double usable_bytes() const { return capacity_bytes - reserve_bytes; }

  friend bool operator==(const StageMemory&, const StageMemory&) = default;
};

/// KV heads of a stage, the last ones, that another device keeps and attends to.
struct StageAttention {
  std::string device;
  std::string node;
  std::int64_t device_index = 0;  ///< into the cluster's devices
  double ratio = 1;               ///< of the KV heads
  StageMemory memory;             ///< of that device

  friend bool operator==(const StageAttention&, const StageAttention&) = default;
};

struct PlanStage {
  std::string device;
  std::string node;
  std::int64_t device_index = 0;  ///< into the cluster's devices
  std::int64_t first_layer = 0;
  std::int64_t num_layers = 0;
  std::vector<std::int32_t> bitwidths;  ///< [num_layers]
  double prefill_s = 0;  ///< one prefill unit (a micro-batch's chunk, mean over chunks)
  double decode_s = 0;   ///< one decode step of one micro-batch
  StageMemory memory;
  std::optional<StageOffload> offload;  ///< in every stage of an offloading plan, and only there
  std::optional<StageAttention> attention;  ///< absent: all heads are on the stage's device

  friend bool operator==(const PlanStage&, const PlanStage&) = default;
};

/// One way to settle what a problem left open (tensor parallelism, KV bitwidth), and what came of
/// it.
struct PlanCandidate {
  std::string name;    ///< "2 of 2xT4-16G, KV 8 bit"
  std::string status;  ///< "optimal", "feasible", or why there is no plan: "infeasible", "cutoff"
                       ///< (none better than that of an earlier candidate), "time_limit",
                       ///< "interrupted", "unpriced"
  std::optional<double> objective;  ///< s
  std::optional<double> latency_s;
  std::optional<double> bound;  ///< s
  std::string message;          ///< where there is no plan

  friend bool operator==(const PlanCandidate&, const PlanCandidate&) = default;
};

/// What every plan says of itself.
struct PlanSummary {
  explicit PlanSummary(LoweredProblem problem_of_plan) : problem(std::move(problem_of_plan)) {}

  LoweredProblem problem;
  PlanStatus status = PlanStatus::feasible;
  std::optional<PlanStop> stopped_by;  ///< absent: the search came to its end
  std::string planner;
  double objective = 0;  ///< s (with theta * omega inside)
  std::optional<double>
      bound;  ///< no plan of the searched space can be below it; absent: none was proven
  std::optional<double> gap;  ///< (objective - bound) / |objective|
  double solve_s = 0;
  double latency_s = 0;         ///< end to end, by the `steady` model whatever the objective
  double throughput_tok_s = 0;  ///< output tokens over latency_s
  double omega = 0;             ///< in the problem's units (normalised unless theta_unit says raw)
  double mean_bitwidth = 0;
  Provenance provenance = Provenance::modelled;
  std::optional<Quality> quality;         ///< what it does to the model; absent for an instance
  std::optional<double> error;            ///< held-out relative error of the latency
  std::vector<std::string> notes;         ///< fallbacks taken, defaults in force that matter
  std::vector<PlanCandidate> candidates;  ///< of a problem with open choices; else empty
  std::optional<Choices> left_open;       ///< by the problem that was asked; absent: unknown

  friend bool operator==(const PlanSummary&, const PlanSummary&) = default;
};

/// One pipeline.
struct PipelinePlan : PlanSummary {
  using PlanSummary::PlanSummary;
  explicit PipelinePlan(PlanSummary summary) : PlanSummary(std::move(summary)) {}

  std::vector<std::string> device_order;
  std::int64_t prefill_micro_batch_size = 1;
  std::int64_t decode_micro_batch_size = 1;
  std::vector<PlanStage> stages;
  std::optional<PlanOffload> offload;  ///< priced by FlexGen's cost model; absent: nothing leaves
                                       ///< the devices
  /// Of a replica: its devices in the whole cluster, ascending.
  std::optional<std::vector<std::int64_t>> devices;

  friend bool operator==(const PipelinePlan&, const PipelinePlan&) = default;
};

/// Pipelines that share the batch, each a plan of its own part of the cluster. Latency and omega
/// are the worst of theirs, and of the worst the objective is made, since a request may meet any;
/// the throughput is that of the whole batch.
struct ReplicatedPlan : PlanSummary {
  ReplicatedPlan(PlanSummary summary, std::vector<PipelinePlan> plans)
      : PlanSummary(std::move(summary)), replicas(std::move(plans)) {}

  std::vector<PipelinePlan> replicas;  ///< one at least

  /// The first of those with the largest latency.
  const PipelinePlan& slowest() const;

  friend bool operator==(const ReplicatedPlan&, const ReplicatedPlan&) = default;
};

using Plan = std::variant<PipelinePlan, ReplicatedPlan>;

/// A plan as files and scripts show it, which have every field of a pipeline: of one with replicas
/// the lists among them are empty, and the micro-batch sizes are its slowest replica's.
PipelinePlan shown_pipeline(const ReplicatedPlan& plan);

const PlanSummary& summary_of(const Plan& plan);
PlanSummary& summary_of(Plan& plan);

inline constexpr int kPlanSchemaVersion = 1;
inline constexpr double kMostIndex = 1e6;  ///< of devices, layers and requests in a file

/// The pipelines of a plan, one of them or a replica each, alike: [{ device_order,
/// prefill_micro_batch_size, decode_micro_batch_size, batch_size (its share of the requests),
/// latency_s, throughput_tok_s, mean_bitwidth, provenance, stages }] with device_index into the
/// plan's cluster, which is larger than that of a replica. For those who read plans: files hold it
/// beside `stages` and `replicas`, which count when a file is loaded.
Json pipelines_json(const Plan& plan);

/// As a file keeps it, the whole problem included, so that a saved plan can be checked and
/// simulated on its own.
Json to_json(const Plan& plan);
/// @throws Error{unsupported} for another schema version, Error{invalid_argument} naming file and
/// field.
Plan plan_from_json(const Json& json, const std::string& path);

}  // namespace tessera::solver

namespace tessera {

template <>
inline constexpr auto kEnumNames<solver::PlanStatus> = enum_names<solver::PlanStatus>(
    {{solver::PlanStatus::optimal, "optimal"}, {solver::PlanStatus::feasible, "feasible"}});
template <>
inline constexpr auto kEnumNames<solver::PlanStop> = enum_names<solver::PlanStop>(
    {{solver::PlanStop::time_limit, "time_limit"}, {solver::PlanStop::interrupted, "interrupted"}});

template <>
struct Fields<solver::StageMemory> {
  using M = solver::StageMemory;
  static constexpr auto bytes = [](std::string_view name, std::string_view doc) -> FieldSpec {
    return {.name = name, .doc = doc, .unit = "bytes", .min = 0, .max = kHuge};
  };
  static constexpr auto list = std::tuple{
      field<&M::weight_bytes>(bytes("weight_bytes", "Decoder layers at their bitwidths")),
      field<&M::kv_cache_bytes>(bytes("kv_cache_bytes", "Whole batch, full length")),
      field<&M::activation_bytes>(bytes("activation_bytes", "Peak of either phase")),
      field<&M::embedding_bytes>(bytes("embedding_bytes", "Embeddings and LM head held here")),
      field<&M::reserve_bytes>(bytes("reserve_bytes", "Runtime and allocator")),
      field<&M::total_bytes>(bytes("total_bytes", "Sum of the above")),
      field<&M::capacity_bytes>(bytes("capacity_bytes", "Of the device"))};

  /// A device without memory holds nothing.
  static void check(const M& memory, const FieldPath& path);
};

template <>
struct Fields<solver::StageAttention> {
  using A = solver::StageAttention;
  static constexpr auto list = std::tuple{
      field<&A::device>({.name = "device", .doc = "Device type"}),
      field<&A::node>({.name = "node", .doc = "Node that holds it"}),
      field<&A::device_index>({.name = "device_index",
                               .doc = "Into the cluster's devices (0-based)",
                               .min = 0,
                               .max = solver::kMostIndex}),
      field<&A::ratio>({.name = "ratio",
                        .doc = "Of the stage's KV heads, the last ones, with their cache",
                        .min = 1e-9,
                        .max = 1}),
      field<&A::memory>({.name = "memory", .doc = "Where the memory of that device goes"})};
};

template <>
struct Fields<solver::PlanStage> {
  using S = solver::PlanStage;
  static constexpr auto index = [](std::string_view name, std::string_view doc) -> FieldSpec {
    return {.name = name, .doc = doc, .min = 0, .max = solver::kMostIndex};
  };
  static constexpr auto seconds = [](std::string_view name, std::string_view doc) -> FieldSpec {
    return {.name = name, .doc = doc, .unit = "s", .min = 0, .max = kHuge};
  };
  static constexpr auto list = std::tuple{
      field<&S::device>({.name = "device", .doc = "Device type"}),
      field<&S::node>({.name = "node",
                       .doc = "Node that holds it; empty for an instance",
                       .in_file = InFile::defaulted}),
      field<&S::device_index>(index("device_index", "Into the cluster's devices (0-based)")),
      field<&S::first_layer>(index("first_layer", "First layer (0-based)")),
      field<&S::num_layers>(index("num_layers", "Layers")),
      field<&S::bitwidths>(
          {.name = "bitwidths", .doc = "One per layer", .unit = "bits", .min = 1, .max = 64}),
      field<&S::prefill_s>(seconds("prefill_s", "One prefill pass of one micro-batch")),
      field<&S::decode_s>(seconds("decode_s", "One decode step of one micro-batch")),
      field<&S::memory>({.name = "memory", .doc = "Where its memory goes"}),
      field<&S::offload>({.name = "offload",
                          .doc = "Of a plan that offloads: shares of weights, kv_cache and "
                                 "activations on device, host and disk; host_bytes, disk_bytes",
                          .in_file = InFile::when_set,
                          .script_type = "table?"}),
      field<&S::attention>({.name = "attention",
                            .doc = "KV heads of it on another device, with their cache: device, "
                                   "node, device_index, ratio, memory (of that device)",
                            .in_file = InFile::when_set,
                            .script_type = "table?"})};

  /// Each layer has a bitwidth.
  static void check(const S& stage, const FieldPath& path);
};

template <>
struct Fields<solver::PlanCandidate> {
  using C = solver::PlanCandidate;
  static constexpr auto list = std::tuple{
      field<&C::name>({.name = "name", .doc = "What it chose"}),
      field<&C::status>({.name = "status", .doc = "What came of it"}),
      field<&C::objective>({.name = "objective",
                            .doc = "What the planner minimised",
                            .unit = "s",
                            .min = -kHuge,
                            .max = kHuge,
                            .in_file = InFile::or_null}),
      field<&C::latency_s>({.name = "latency_s",
                            .doc = "Batch end to end",
                            .unit = "s",
                            .min = 0,
                            .max = kHuge,
                            .in_file = InFile::or_null}),
      field<&C::bound>({.name = "bound",
                        .doc = "No plan of it is below",
                        .unit = "s",
                        .min = -kHuge,
                        .max = kHuge,
                        .in_file = InFile::or_null}),
      field<&C::message>(
          {.name = "message", .doc = "Why there is no plan", .in_file = InFile::defaulted})};
};

/// A plan holds its problem whole.
template <>
struct JsonValue<solver::LoweredProblem> {
  static Json write(const solver::LoweredProblem& problem);
  static solver::LoweredProblem read(const Json& json, const std::string& path,
                                     const FieldSpec& spec);
};

/// All that a file says of a pipeline, in its order.
template <>
struct Fields<solver::PipelinePlan> {
  using P = solver::PipelinePlan;
  static constexpr auto list = std::tuple{
      field<&P::status>({.name = "status", .doc = "optimal (proven) or feasible"}),
      field<&P::stopped_by>({.name = "stopped_by",
                             .doc = "What cut the search short: time_limit or interrupted; another "
                                    "run may end elsewhere. Absent where it came to its end",
                             .in_file = InFile::when_set}),
      field<&P::planner>({.name = "planner", .doc = "Who made it"}),
      field<&P::objective>({.name = "objective",
                            .doc = "What the planner minimised",
                            .unit = "s",
                            .min = -kHuge,
                            .max = kHuge}),
      field<&P::bound>({.name = "bound",
                        .doc = "No plan of the search is below it",
                        .unit = "s",
                        .min = -kHuge,
                        .max = kHuge,
                        .in_file = InFile::or_null}),
      field<&P::gap>({.name = "gap",
                      .doc = "(objective - bound) / objective",
                      .min = -kHuge,
                      .max = kHuge,
                      .in_file = InFile::or_null}),
      field<&P::solve_s>(
          {.name = "solve_s", .doc = "Time the planner took", .unit = "s", .min = 0, .max = kHuge}),
      field<&P::device_order>({.name = "device_order", .doc = "Devices by stage"}),
      field<&P::prefill_micro_batch_size>({.name = "prefill_micro_batch_size",
                                           .doc = "Requests",
                                           .min = 1,
                                           .max = solver::kMostIndex}),
      field<&P::decode_micro_batch_size>({.name = "decode_micro_batch_size",
                                          .doc = "Requests",
                                          .min = 1,
                                          .max = solver::kMostIndex}),
      field<&P::latency_s>({.name = "latency_s",
                            .doc = "Batch end to end, by the steady model",
                            .unit = "s",
                            .min = 0,
                            .max = kHuge}),
      field<&P::throughput_tok_s>({.name = "throughput_tok_s",
                                   .doc = "Output tokens over latency_s",
                                   .unit = "tok/s",
                                   .min = 0,
                                   .max = kHuge}),
      field<&P::omega>({.name = "omega",
                        .doc = "Quality lost, in the units of the problem",
                        .min = -kHuge,
                        .max = kHuge}),
      field<&P::mean_bitwidth>(
          {.name = "mean_bitwidth", .doc = "Over the layers", .unit = "bits", .min = 0, .max = 64}),
      field<&P::provenance>({.name = "provenance",
                             .doc = "Of the latencies: measured, fitted, published or modelled"}),
      field<&P::quality>({.name = "quality",
                          .doc = "What the plan does to the model",
                          .in_file = InFile::when_set,
                          .in_scripts = false}),
      field<&P::error>({.name = "error",
                        .doc = "Held-out relative error of the latency, where known",
                        .min = 0,
                        .max = kHuge,
                        .in_file = InFile::or_null}),
      field<&P::stages>({.name = "stages",
                         .doc = "In pipeline order; none where there are replicas",
                         .script_type = "tessera.Stage[]"}),
      field<&P::offload>({.name = "offload",
                          .doc = "Of a plan that offloads: gpu_batch_size, host_memory_ratio, "
                                 "host_attention_bytes_per_s",
                          .in_file = InFile::when_set,
                          .script_type = "table?"}),
      field<&P::notes>({.name = "notes", .doc = "Fallbacks taken and what else matters"}),
      field<&P::problem>({.name = "problem", .doc = "What it plans", .in_scripts = false}),
      field<&P::left_open>({.name = "left_open",
                            .doc = "What its problem left to choose",
                            .in_file = InFile::when_set,
                            .in_scripts = false}),
      field<&P::candidates>({.name = "candidates",
                             .doc = "What came of each open choice",
                             .in_file = InFile::when_set,
                             .in_scripts = false}),
      field<&P::devices>({.name = "devices",
                          .doc = "Of a replica: its devices in the whole cluster (0-based)",
                          .min = 0,
                          .max = solver::kMostIndex,
                          .in_file = InFile::when_set})};

  /// A plan that offloads says so for itself and for each stage.
  static void check(const P& plan, const FieldPath& path);
};

}  // namespace tessera
