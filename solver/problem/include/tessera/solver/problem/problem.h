#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/indicator.h"
#include "tessera/core/json_fwd.h"
#include "tessera/core/quality.h"
#include "tessera/core/record.h"
#include "tessera/core/workload.h"
#include "tessera/cost/stage_price.h"
#include "tessera/solver/instance/instance.h"
#include "tessera/solver/problem/constraint.h"
#include "tessera/solver/problem/mesh.h"

namespace tessera::cost {
class PriceCache;
}  // namespace tessera::cost

namespace tessera::solver {

enum class ThetaUnit {
  s_per_normalised_omega,  ///< omega is scaled so that a model at 4 bits throughout has W = 1
  ms_per_raw_omega,        ///< as the papers print theta
};

/// Names of presets, see preset.h.
std::vector<std::string_view> preset_names();

/// A server that is to run the plan.
enum class Runtime { vllm, llama_cpp, tessera };

/// A device whose stage has some KV heads elsewhere.
struct DividedAttention {
  std::size_t device = 0;  ///< into the cluster's devices
  cost::AttentionElsewhere elsewhere;
};

/// A model on a cluster under a workload, with what prices it. Nothing is left to choose; a problem
/// with open choices is an OpenProblem.
struct BatchProblem : cost::PricingContext {
  Workload workload;
  std::vector<std::int32_t> bitwidths = {4, 8, 16};  ///< ascending, distinct
  Indicator indicator;
  bool with_profiles = true;  ///< false: the script wants the roofline alone
  std::int32_t kv_bitwidth = 16;
  /// Quality lost by a KV cache of a bitwidth, [bitwidth][num_layers], in the indicator's units.
  /// What is absent has the default of `kv_omega`.
  std::map<std::int32_t, std::vector<double>> kv_omega;
  std::string quantisation = "gptq";  ///< how checkpoints are rounded, for `levels`
  /// What is known of the model's losses at the bitwidths; absent: nobody asked, as in files of
  /// before.
  std::optional<QualityLevels> levels;
  std::optional<Mesh> mesh;  ///< tensor-parallel groups; absent: every device on its own
  /// Who attends to heads of another's stage, and so has none of its own. Files have it in the
  /// stages of a plan.
  std::vector<DividedAttention> attention = {};

  const std::string& kernel_set_name() const { return kernel_set.name; }
};

/// An abstract instance, as its file has it.
struct InstanceFile {
  std::shared_ptr<const Json> content;
  std::string path;  ///< where it was read, for messages
};

/// What is to be planned, and what counts as good.
struct Problem {
  std::variant<BatchProblem, InstanceFile> given;
  Objective objective = Objective::steady;
  std::optional<double> theta;  ///< price of omega; absent: see theta_in_force
  ThetaUnit theta_unit = ThetaUnit::s_per_normalised_omega;
  std::optional<double> max_omega;  ///< in the units of the plan's omega
  QualityBound bound;  ///< what `max_omega` is made of, where it is set; in the users' words
  std::optional<std::string> quality_at_least;  ///< baseline whose omega is to become `max_omega`
  /// Middle stages may hold no layer; absent: as the format of instance files says, or where
  /// devices may be left out.
  std::optional<bool> allow_empty_stage;
  /// Every device holds a layer; false: any may be left out, all but one. Absent: as
  /// `allow_empty_stage` says.
  std::optional<bool> use_all_devices;
  std::vector<Constraint> constraints;  ///< names differ
  /// Plans are of what it can launch: a StageRule, its kernels, one checkpoint (see list_variants).
  std::optional<Runtime> runtime;

  /// Null for an instance file.
  const BatchProblem* batch() const { return std::get_if<BatchProblem>(&given); }
  BatchProblem* batch() { return std::get_if<BatchProblem>(&given); }
  /// Null for a batch problem.
  const InstanceFile* instance_file() const { return std::get_if<InstanceFile>(&given); }

  bool has_quality_floor() const { return max_omega || quality_at_least; }
  /// `theta` where it is given; else 0 with a quality floor (the quality-constrained form,
  /// solver/README.md, Objective), what an instance file says of itself, or 1.
  double theta_in_force() const;
  bool may_have_empty_stages() const {
    return allow_empty_stage.value_or(instance_file() != nullptr || may_leave_out());
  }
  /// Whether plans may do without devices, down to one.
  bool may_leave_out() const { return !use_all_devices.value_or(true); }
  bool must_use_all_devices() const { return !may_have_empty_stages(); }
};

/// Tensor-parallel groups of the problem's mesh, and devices by themselves, as mesh_groups has
/// them, but for `attention`: a device that divides it is a group of its own, and one that attends
/// for another is in none. @throws Error{invalid_argument} where attention is divided as it cannot
/// be.
std::vector<MeshGroup> groups_of(const BatchProblem& batch);

/// Absent where all of the attention of a stage on the device is there.
std::optional<cost::AttentionElsewhere> attention_of(const BatchProblem& batch, std::size_t device);

/// What a device keeps that attends to heads of layers on another one: their cache, and a layer's
/// buffers.
cost::MemoryAccount attender_memory(const BatchProblem& batch,
                                    const cost::AttentionElsewhere& attention,
                                    std::int64_t first_layer, std::int64_t num_layers,
                                    std::int64_t prefill_micro_batch_size,
                                    std::int64_t decode_micro_batch_size);

/// A device without the memory for heads that it is to have: no instance knows of it.
std::optional<Violation> find_full_attender(const BatchProblem& batch, const Candidate& candidate);

/// The group of each device, of those that are the first of one.
/// @throws Error{invalid_argument} for a device that is not.
std::vector<std::size_t> groups_on(const BatchProblem& batch,
                                   const std::vector<std::size_t>& devices);

/// How the memory of the problem's stages is counted.
cost::MemoryQuery memory_query(const BatchProblem& batch);

Json to_json(const Problem& problem);
Problem problem_from_json(const Json& json, const std::string& path);

/// The instance that solvers see. Costs of a micro-batch size are computed when first asked for.
/// @throws Error{invalid_argument} for an indicator that lacks a layer or bitwidth, and what
/// `resolve` throws for a constraint that does not fit.
/// @param prices of problems like it, shared; null: its own
Instance lower(const Problem& problem, std::shared_ptr<cost::PriceCache> prices = nullptr);

/// Groups for a list of device names ("T4-16G", "T4-16G@node" where the node matters, "2xT4-16G"
/// for a tensor-parallel group).
/// @throws Error{not_found | invalid_argument} naming the position, what is left, and the nearest
/// names.
std::vector<std::size_t> order_from_names(const Instance& instance,
                                          const std::vector<std::string>& names);

/// Losses of a plan's layers and of its KV cache (nats), [layer] bitwidths given; nothing where
/// `levels` are absent.
std::optional<Quality> quality_of(const BatchProblem& batch,
                                  const std::vector<std::int32_t>& bitwidths);

/// What the KV cache's bitwidth adds to the omega of every plan, in the plan's units; 0 for an
/// instance file.
double total_kv_omega(const Problem& problem);

/// The devices of the cluster that each stage of an order runs on, the first of each group first.
std::vector<std::vector<std::size_t>> stage_members(const BatchProblem& batch,
                                                    const std::vector<std::size_t>& order);

}  // namespace tessera::solver

namespace tessera {

template <>
inline constexpr auto kEnumNames<solver::ThetaUnit> = enum_names<solver::ThetaUnit>(
    {{solver::ThetaUnit::s_per_normalised_omega, "s_per_normalised_omega"},
     {solver::ThetaUnit::ms_per_raw_omega, "ms_per_raw_omega"}});

template <>
inline constexpr auto kEnumNames<solver::Runtime> =
    enum_names<solver::Runtime>({{solver::Runtime::vllm, "vllm"},
                                 {solver::Runtime::llama_cpp, "llama.cpp"},
                                 {solver::Runtime::tessera, "tessera"}});

/// The parts of a problem as files have them; a saved plan needs no data folder.
struct ClusterInFull {
  static Json write(const Cluster& cluster);
  static Cluster read(const Json& json, const std::string& path, const FieldSpec& spec);
};
struct ProfilesInFull {
  using Profiles = std::vector<std::shared_ptr<const cost::Profile>>;
  static Json write(const Profiles& profiles);
  static Profiles read(const Json& json, const std::string& path, const FieldSpec& spec);
};
/// Files have it as 16.0.
struct KvBitwidth {
  static Json write(std::int32_t bitwidth);
  static std::int32_t read(const Json& json, const std::string& path, const FieldSpec& spec);
};
struct OmegaByKvBitwidth {
  using Omega = std::map<std::int32_t, std::vector<double>>;
  static Json write(const Omega& omega);
  static Omega read(const Json& json, const std::string& path, const FieldSpec& spec);
};

template <>
struct Fields<solver::BatchProblem> {
  using S = solver::BatchProblem;
  static constexpr std::string_view kAbsent = "Absent for an instance";
  static constexpr auto list = std::tuple{
      field<&S::model, ByFunction<&model_shape_from_json>>(
          {.name = "model",
           .doc = "Model, or its name",
           .option_type = "tessera.Model|string|table",
           .script_doc = kAbsent,
           .as_flag = false}),
      field<&S::cluster, ClusterInFull>({.name = "cluster",
                                         .doc = "Cluster, or its name",
                                         .option_type = "tessera.Cluster|string|table",
                                         .script_doc = kAbsent,
                                         .as_flag = false}),
      field<&S::workload, ByFunction<&workload_from_json>>(
          {.name = "workload",
           .doc = "Workload, or its name",
           .option_type = "tessera.Workload|string|table",
           .script_doc = kAbsent,
           .default_text = "\"llmpq\"",
           .as_flag = false}),
      field<&S::bitwidths>({.name = "bitwidths",
                            .doc = "Candidate bitwidths",
                            .unit = "bits",
                            .min = 1,
                            .max = 16,
                            .as_option = AsOption::defaulted,
                            .in_scripts = false}),
      field<&S::indicator, ByFunction<&indicator_from_json>>(
          {.name = "indicator",
           .doc = "Indicator, file, or omega[layer][bitwidth]; default: the same for every layer",
           .option_type = "tessera.Indicator|string|table",
           .script_doc = kAbsent,
           .as_flag = false}),
      field<&S::kernel_set, ByFunction<&cost::kernel_set_from_json>>(
          {.name = "kernel_set",
           .doc = "Kernels that run the layers; auto: the best measured set that a public runtime "
                  "has on all the devices",
           .in_scripts = false,
           .default_text = "\"auto\""}),
      field<&S::kernel_set_name>(
          {.name = "kernel_set", .doc = "Kernels that the latencies assume"}),
      field<&S::profiles, ProfilesInFull>(
          {.name = "profiles",
           .doc = "For the cluster's devices, a list of profiles or of their files; default: the "
                  "shipped ones of the kernel set; {}: none, the roofline prices everything",
           .in_file = InFile::when_set,
           .in_scripts = false,
           .option_type = "(tessera.Profile|string)[]",
           .as_flag = false}),
      field<&S::memory>(
          {.name = "memory",
           .doc = "Memory model; default: tessera where all devices are shares of CPUs, as tessera "
                  "execute takes them, else physical"}),
      field<&S::kv_bitwidth, KvBitwidth>({.name = "kv_bitwidth",
                                          .doc = "Of the KV cache; the first where it is open",
                                          .unit = "bits",
                                          .min = kMinKvBitwidth,
                                          .max = kMaxKvBitwidth,
                                          .as_option = AsOption::never}),
      field<&S::kv_omega, OmegaByKvBitwidth>(
          {.name = "kv_omega",
           .doc = "Quality lost by the KV cache, in the indicator's units: { [8] = omega of a "
                  "layer, or a list of all layers' }; default: assumed, as rounding the K and V "
                  "projections",
           .in_file = InFile::when_set,
           .in_scripts = false,
           .option_type = "table",
           .as_flag = false}),
      field<&S::quantisation>(
          {.name = "quantisation",
           .doc = "How checkpoints are rounded, for what plans say of quality: gptq (calibrated, "
                  "also AWQ and the like) or rtn (to nearest)",
           .in_file = InFile::when_set,
           .as_option = AsOption::defaulted,
           .choices = quantisation_methods}),
      field<&S::levels>({.name = "levels",
                         .doc = "Known losses at the bitwidths",
                         .in_file = InFile::when_set,
                         .as_option = AsOption::never,
                         .in_scripts = false}),
      field<&S::mesh>({.name = "mesh",
                       .doc = "Degrees of the tensor-parallel groups",
                       .unit = "devices",
                       .min = 1,
                       .max = 4096,
                       .in_file = InFile::when_set,
                       .as_option = AsOption::never,
                       .in_scripts = false}),
      field<&S::split>({.name = "split",
                        .doc = "How groups divide layers beyond tensor parallelism: "
                               "attention_data_parallel, expert_parallel",
                        .in_file = InFile::when_set,
                        .as_option = AsOption::never})};

  /// Bitwidths ascend; requests fit the model's context; what is given by layer has all layers.
  static void check(const S& batch, const FieldPath& path);
};

template <>
struct Fields<solver::Problem> {
  using P = solver::Problem;
  static constexpr auto list = std::tuple{
      OptionOnly{{.name = "preset",
                  .doc = "Defaults of all other options: what suits the cluster, or the settings "
                         "of a paper; see tessera help presets",
                  .default_text = "\"recommended\"",
                  .choices = solver::preset_names},
                 OptionType::choice},
      OptionOnly{{.name = "instance",
                  .doc = "Abstract instance file, instead of model, cluster and workload",
                  .as_flag = false},
                 OptionType::text},
      field<&P::objective>({.name = "objective",
                            .doc = "steady: the pipeline's steady state; paper: eq. (4) as printed",
                            .as_option = AsOption::defaulted}),
      field<&P::theta>(
          {.name = "theta",
           .doc = "Price of quality loss; 0 with a quality floor, the file's own with an instance",
           .min = 0,
           .max = solver::kMaxTheta,
           .in_file = InFile::defaulted,
           .in_scripts = false,
           .default_text = "1"}),
      field<&P::theta_in_force>({.name = "theta", .doc = "Price of omega"}),
      field<&P::theta_unit>({.name = "theta_unit",
                             .doc = "What theta multiplies: omega scaled so that 4 bits throughout "
                                    "cost 1 s, or raw omega and milliseconds",
                             .as_option = AsOption::defaulted}),
      OptionOnly{
          {.name = "quality",
           .doc = "What may be lost: { max_perplexity_increase = 0.01 } (at most 1 % above), "
                  "{ min_accuracy_recovery = 0.99 }, { at_least = \"uniform\" } or { "
                  "max_omega = x }; see tessera help quality",
           .option_type = "table",
           .as_flag = false},
          OptionType::table},
      field<&P::max_omega>({.name = "max_omega",
                            .doc = "Largest sum of omega, in the plan's units",
                            .min = 0,
                            .max = kHuge,
                            .in_file = InFile::when_set,
                            .as_option = AsOption::never,
                            .in_scripts = false}),
      field<&P::bound>({.name = "bound",
                        .doc = "What max_omega was made of",
                        .in_file = InFile::when_set,
                        .as_option = AsOption::never,
                        .in_scripts = false}),
      field<&P::quality_at_least>({.name = "quality_at_least",
                                   .doc = "Baseline whose omega may not be exceeded",
                                   .in_file = InFile::when_set,
                                   .as_option = AsOption::never,
                                   .in_scripts = false}),
      field<&P::allow_empty_stage>({.name = "allow_empty_stage",
                                    .doc = "Middle stages may hold no layer; default: where "
                                           "devices may be left out",
                                    .in_file = InFile::defaulted,
                                    .in_scripts = false}),
      field<&P::use_all_devices>({.name = "use_all_devices",
                                  .doc = "Every device holds a layer; false: devices may be left "
                                         "out",
                                  .in_file = InFile::when_set,
                                  .in_scripts = false,
                                  .default_text = "false"}),
      field<&P::must_use_all_devices>(
          {.name = "use_all_devices", .doc = "Every device holds a layer"}),
      field<&P::may_have_empty_stages>(
          {.name = "allow_empty_stage", .doc = "Middle stages may be empty"}),
      field<&P::runtime>({.name = "runtime",
                          .doc = "Server that is to run the plan: only what it can launch is "
                                 "searched, and a note says what that costs",
                          .in_file = InFile::when_set}),
      field<&P::constraints, ListFromOne<solver::Constraint>>(
          {.name = "constraints",
           .doc = "Side constraints; see problem:add_constraint",
           .in_file = InFile::when_set,
           .option_type = "table[]",
           .script_type = "table[]",
           .script_doc = "Side constraints, as problem:add_constraint takes them",
           .as_flag = false})};

  /// Each side constraint has a name of its own.
  static void check(const P& problem, const FieldPath& path);
};

}  // namespace tessera
