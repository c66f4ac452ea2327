#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/device.h"
#include "tessera/core/files.h"
#include "tessera/core/json_fwd.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/provenance.h"
#include "tessera/core/published_quality.h"
#include "tessera/core/record.h"
#include "tessera/cost/recalibration.h"

namespace tessera::cost {

/// How one bitwidth runs under a kernel set on a class of devices. Ratios are of the device's
/// data-sheet peaks.
struct KernelRule {
  std::int32_t bitwidth = 16;
  /// Way to store weights that this rule alone is of, where a bitwidth has several ("gptq4"); only
  /// of_scheme sees it. Empty: what a bitwidth means where nobody names a scheme.
  std::string scheme;
  std::string method;                   ///< "cublas-fp16", "gptq-marlin", "bitsandbytes-llm.int8"
  double min_compute_capability = 0;    ///< inclusive
  double max_compute_capability = 1e9;  ///< inclusive
  std::vector<std::string>
      devices;  ///< names; empty: any. A rule that names the device goes before one that does not
  std::string compute_dtype = "fp16";  ///< key of Device::flop_per_s
  std::string dtype;  ///< GEMM of a profile that prices this bitwidth ("int4_wo"); empty: none
  /// Experts of a profile that price a checkpoint whose experts alone have this bitwidth, as MXFP4
  /// (has_mxfp4_experts); empty: as dtype.
  std::string mxfp4_dtype;
  /// To what such experts are padded: multiples of hidden features, and of features within.
  double mxfp4_hidden_multiple = 1, mxfp4_inner_multiple = 1;
  double mxfp4_token_bytes = 0;  ///< of such experts, in place of experts_token_bytes
  bool experts_only = false;     ///< of such a checkpoint, see mxfp4_rules; all else has 16 bits
  double flop_ratio = 0.6;       ///< reached share of peak FLOP/s, (0, 1]
  double memory_ratio = 0.8;     ///< reached share of peak bandwidth, (0, 1]
  double token_s_per_parameter = 0;  ///< extra time per token and weight of a matrix: kernels whose
                                     ///< cost grows with tokens (dequantisation per row)
  double linear_overhead_s = 0;      ///< per matrix: launch and set-up
  double group_size = 0;  ///< weights sharing one scale and zero point; 0: one per output channel
  /// What moves through memory for a prompt's token in a layer with experts beside the kernels that
  /// profiles have, on each device alike however many share the layer: what routes, sorts and pads
  /// tokens and adds up their experts' answers.
  double experts_token_bytes = 0;
  double full_rate_rows = 0;  ///< of its tallest tile: up to so many rows weights are expanded
                              ///< while they are read, and a product takes no longer than it
                              ///< does in 16 bits
  /// Of attention on these devices, where it is not the set's: in the rule for 16 bits.
  std::optional<double> attention_memory_ratio;
  std::string source;

  WeightFormat format() const;
};

/// A KV cache that attention reads at fewer bits than 16, and the devices that have it.
struct KvRule {
  std::int32_t bitwidth = 8;
  double min_compute_capability = 0;  ///< inclusive
  bool offered = true;                ///< plans choose it too where nobody says the cache's bits
  std::vector<std::string> devices;   ///< that have it, by name; empty: all of the capability
};

/// Decode attention that runs a block for each query head: those of a group that share keys and
/// values run together, and read most of them from the L2 cache. FlashAttention and what came after
/// it read them once for the group.
struct ReadsPerQueryHead {
  double share = 1;  ///< of a read, that each head after the first of a group takes
  double max_compute_capability = 0;      ///< devices that decode so, inclusive
  std::vector<std::string> devices = {};  ///< and these, by name
};

/// Which bitwidths run on which device, and how well: data, not code.
struct KernelSet {
  std::string name, doc, source;
  Provenance provenance = Provenance::modelled;
  std::string runtime;  ///< that has these kernels ("vllm"); empty: none that is public
  std::optional<std::int32_t> auto_rank;  ///< see recommended_kernel_sets; absent: never
  std::string profiles_of;      ///< the kernel set whose profiles price it where it has none itself
  bool gguf = false;            ///< weights lie as GGUF files have them, see gguf.h
  double layer_overhead_s = 0;  ///< per decoder layer: norms, residuals, launches
  double hop_s = 0;             ///< from one stage to the next, beside the link's time
  double host_step_s = 0;       ///< of a step, before its first layer: scheduling, inputs, sampling
  double host_sequence_s = 0;   ///< the same for each sequence of the step
  /// The same of a tensor-parallel group, each device with a process of its own, whose engine
  /// decides a step when the one before it is over; absent: host_sequence_s.
  std::optional<double> serial_host_sequence_s;
  double host_prompt_s = 0;  ///< the same for a step that reads prompts: it is in no CUDA graph
  /// Least time of a layer in such a step, whose kernels the host launches one by one, and of a
  /// layer with experts.
  double host_prompt_layer_s = 0, host_prompt_experts_s = 0;
  double api_s = 0;  ///< of client and API server, per request, before an engine sees it
  bool async_scheduling = false;  ///< its engine decides a step while the one before it runs
  /// Sequences that decode steps are captured for as CUDA graphs, ascending: a step is padded to
  /// the next of them, one beyond the last is not. Empty: no padding.
  std::vector<std::int32_t> graph_batch_sizes;
  std::optional<ReadsPerQueryHead> kv_per_query_head;  ///< absent: nowhere
  /// Whether experts run kernels that are tuned for them; absent: those that profiles list.
  std::optional<bool> tuned_experts;
  /// At which decode attention reads the keys and values of one head where no kernel splits its
  /// context over blocks; absent: they are split over whatever runs at a time.
  std::optional<double> unsplit_kv_bytes_per_s;
  bool sums_by_nccl = false;  ///< tensor-parallel sums of any size; false: by a kernel of its own
  /// That a sum waits for each device beyond the first: those whose kernels the host launches one
  /// by one run apart.
  double rank_skew_s = 0;
  double attention_flop_ratio = 0.4;
  double attention_memory_ratio = 0.6;
  std::vector<KernelRule> rules;
  std::vector<KvRule> kv_rules;  ///< empty: nobody asked, so every cache is taken to run
  std::optional<Recalibration> recalibration;  ///< absent: nothing was measured against it

  /// The rule for a bitwidth on a device, or nullptr: no kernel, so no planner may choose it. Among
  /// the rules that apply, one that names the device goes first, then the highest
  /// min_compute_capability. A rule whose compute_dtype the device has no rate for does not apply.
  const KernelRule* find(const Device& device, std::int32_t bitwidth) const;
  std::vector<std::int32_t> bitwidths_on(const Device& device) const;  ///< ascending
  /// Whether attention on a device reads a KV cache of this bitwidth; all read 16 bits.
  bool reads_kv(const Device& device, std::int32_t bitwidth) const;
  /// Of a read of keys and values, what each query head after the first of a group takes when
  /// decoding; 0 where a group reads them once.
  double further_head_share(const LayerShape& layer, const Device& device) const;
  /// The least time that decode attention takes for one head's context.
  double least_attention_s(double context_tokens, double head_dim, double kv_bits) const {
    if (!unsplit_kv_bytes_per_s) return 0;
    return 2 * context_tokens * head_dim * kv_bits / 8 / *unsplit_kv_bytes_per_s;
  }
  const std::string& profile_set() const { return profiles_of.empty() ? name : profiles_of; }
  /// Whether profiles of this kernel set price it.
  bool takes_profiles_of(const std::string& kernel_set) const {
    return kernel_set == name || kernel_set == profile_set();
  }
  /// What the host adds, before what runs took corrects it, to a step of `rows` tokens of so many
  /// sequences; more than one of each is a prompt.
  double host_s(double sequences, double rows) const {
    return host_step_s + host_sequence_s * sequences + (rows > sequences ? host_prompt_s : 0);
  }
  /// What runs took on a device of what is predicted by the rest of the set; 1 where none ran.
  double measured_factor(Phase phase, const Device& device) const {
    return recalibration && recalibration->ran_on(device) ? recalibration->factor(phase) : 1;
  }
  /// Rows that the products of a decode step of `sequences` have.
  double padded_rows(double sequences) const;
  /// The set as a checkpoint meets it whose experts alone have 4 bits, in MXFP4.
  KernelSet mxfp4_rules() const;
  /// The set as weights of a scheme meet it: its rules take the place of those of their bitwidths.
  /// Without any rule of the scheme it is as it was.
  KernelSet of_scheme(const std::string& scheme) const;
};

/// Names of devices: given, at least one, each once.
struct DeviceNames {
  static Json write(const std::vector<std::string>& names);
  static std::vector<std::string> read(const Json& json, const std::string& path,
                                       const FieldSpec& spec);
};

}  // namespace tessera::cost

namespace tessera {

template <>
struct Fields<cost::KernelRule> {
  using Rule = cost::KernelRule;
  static constexpr double kMinRatio = 1e-6;
  static constexpr double kMaxTokenBytes = 1e9;
  static constexpr auto list = std::tuple{
      field<&Rule::bitwidth>(
          {.name = "bitwidth", .doc = "Of the weights", .unit = "bits", .min = 1, .max = 16}),
      field<&Rule::scheme>({.name = "scheme",
                            .doc = "Way to store weights that it alone is of, as ts.schemes names "
                                   "them; left out: as usual at this bitwidth",
                            .in_file = InFile::when_set}),
      field<&Rule::method>({.name = "method", .doc = "The kernel, as in \"cublas-fp16\""}),
      field<&Rule::min_compute_capability>({.name = "min_compute_capability",
                                            .doc = "Least capability that it runs on",
                                            .min = 0,
                                            .max = 100,
                                            .in_file = InFile::defaulted}),
      field<&Rule::max_compute_capability>({.name = "max_compute_capability",
                                            .doc = "Largest capability that it runs on",
                                            .min = 0,
                                            .max = 100,
                                            .in_file = InFile::when_set}),
      field<&Rule::devices, cost::DeviceNames>({.name = "devices",
                                                .doc = "Devices that it is of; left out: any",
                                                .in_file = InFile::when_set}),
      field<&Rule::compute_dtype>({.name = "compute_dtype",
                                   .doc = "Rate of the device that its products run at",
                                   .in_file = InFile::defaulted,
                                   .choices = flop_dtypes}),
      field<&Rule::dtype>({.name = "dtype",
                           .doc = "GEMM of a profile that prices this bitwidth",
                           .in_file = InFile::when_set}),
      field<&Rule::mxfp4_dtype>(
          {.name = "mxfp4_dtype",
           .doc = "Experts of a profile that price checkpoints of which they alone are in 4 bits, "
                  "as gpt-oss; left out: as dtype",
           .in_file = InFile::when_set}),
      field<&Rule::mxfp4_hidden_multiple>(
          {.name = "mxfp4_hidden_multiple",
           .doc = "Hidden features to a multiple of which such a checkpoint's experts are padded",
           .min = 1,
           .max = 4096,
           .in_file = InFile::when_set}),
      field<&Rule::mxfp4_inner_multiple>(
          {.name = "mxfp4_inner_multiple",
           .doc = "The same of the features within an expert, of a device's share of them",
           .min = 1,
           .max = 4096,
           .in_file = InFile::when_set}),
      field<&Rule::mxfp4_token_bytes>(
          {.name = "mxfp4_token_bytes",
           .doc = "As experts_token_bytes, of such a checkpoint's experts",
           .unit = "bytes",
           .min = 0,
           .max = kMaxTokenBytes,
           .in_file = InFile::when_set}),
      field<&Rule::flop_ratio>({.name = "flop_ratio",
                                .doc = "Reached share of the peak rate",
                                .min = kMinRatio,
                                .max = 1}),
      field<&Rule::memory_ratio>({.name = "memory_ratio",
                                  .doc = "Reached share of the peak bandwidth",
                                  .min = kMinRatio,
                                  .max = 1}),
      field<&Rule::token_s_per_parameter>({.name = "token_s_per_parameter",
                                           .doc = "Extra time per token and weight",
                                           .unit = "s",
                                           .min = 0,
                                           .max = 1,
                                           .in_file = InFile::defaulted}),
      field<&Rule::linear_overhead_s>({.name = "linear_overhead_s",
                                       .doc = "Time per matrix",
                                       .unit = "s",
                                       .min = 0,
                                       .max = 10,
                                       .in_file = InFile::defaulted}),
      field<&Rule::group_size, WholeNumber>(
          {.name = "group_size",
           .doc = "Weights that share one scale; 0: those of an output channel",
           .min = 0,
           .max = 1 << 20,
           .in_file = InFile::defaulted}),
      field<&Rule::experts_token_bytes>(
          {.name = "experts_token_bytes",
           .doc = "What moves for a prompt's token in a layer with experts beside their kernels, "
                  "on each device alike",
           .unit = "bytes",
           .min = 0,
           .max = kMaxTokenBytes,
           .in_file = InFile::when_set}),
      field<&Rule::full_rate_rows, WholeNumber>(
          {.name = "full_rate_rows",
           .doc = "Rows up to which a product is as fast as in 16 bits at least",
           .unit = "rows",
           .min = 0,
           .max = 1 << 20,
           .in_file = InFile::when_set}),
      field<&Rule::attention_memory_ratio>(
          {.name = "attention_memory_ratio",
           .doc = "Of the rule for 16 bits: share of the peak bandwidth that attention reaches on "
                  "these devices; left out: the set's",
           .min = kMinRatio,
           .max = 1,
           .in_file = InFile::when_set}),
      field<&Rule::source>(
          {.name = "source", .doc = "Where the figures were read", .in_file = InFile::when_set})};
  static void check(const cost::KernelRule& rule, const FieldPath& path);
};

template <>
struct Fields<cost::KvRule> {
  using Rule = cost::KvRule;
  static constexpr auto list = std::tuple{
      field<&Rule::bitwidth>(
          {.name = "bitwidth", .doc = "Of the KV cache", .unit = "bits", .min = 2, .max = 15}),
      field<&Rule::min_compute_capability>({.name = "min_compute_capability",
                                            .doc = "Least capability that attention reads it on",
                                            .min = 0,
                                            .max = 100,
                                            .in_file = InFile::defaulted}),
      field<&Rule::offered>({.name = "offered",
                             .doc = "Whether plans choose it where nobody says the cache's bits",
                             .in_file = InFile::defaulted}),
      field<&Rule::devices>(
          {.name = "devices",
           .doc = "Devices that have it, by name; left out: all of the capability",
           .in_file = InFile::when_set})};
};

template <>
struct Fields<cost::ReadsPerQueryHead> {
  using Reads = cost::ReadsPerQueryHead;
  static constexpr auto list = std::tuple{
      field<&Reads::share>({.name = "share",
                            .doc = "Of a read, that each head after the first of a group takes",
                            .min = 0,
                            .max = 1}),
      field<&Reads::max_compute_capability>({.name = "max_compute_capability",
                                             .doc = "Largest capability that decodes so",
                                             .min = 0,
                                             .max = 100,
                                             .in_file = InFile::defaulted}),
      field<&Reads::devices, cost::DeviceNames>({.name = "devices",
                                                 .doc = "Devices that decode so besides",
                                                 .in_file = InFile::when_set})};
};

template <>
struct Fields<cost::KernelSet> {
  using Set = cost::KernelSet;
  static constexpr double kMinRatio = Fields<cost::KernelRule>::kMinRatio;
  static constexpr auto list = std::tuple{
      field<&Set::name>({.name = "name", .doc = "Name to refer to it by"}),
      field<&Set::doc>({.name = "doc", .doc = "What it is", .in_file = InFile::when_set}),
      field<&Set::provenance>(
          {.name = "provenance", .doc = "Of its figures", .in_file = InFile::defaulted}),
      field<&Set::runtime>({.name = "runtime",
                            .doc = "Public runtime that has these kernels",
                            .in_file = InFile::when_set}),
      field<&Set::auto_rank>({.name = "auto_rank",
                              .doc = "Among sets that suit a cluster kernel_set = \"auto\" takes "
                                     "the least; left out: never this one",
                              .min = 1,
                              .max = 1000,
                              .in_file = InFile::when_set}),
      field<&Set::profiles_of>({.name = "profiles_of",
                                .doc = "Kernel set whose profiles price it where it has none",
                                .in_file = InFile::when_set}),
      field<&Set::gguf>({.name = "gguf",
                         .doc = "Whether weights lie as GGUF files have them, and the LM head in "
                                "Q6_K",
                         .in_file = InFile::when_set}),
      field<&Set::hop_s>({.name = "hop_s",
                          .doc = "Time from one stage to the next, beside the link's",
                          .unit = "s",
                          .min = 0,
                          .max = 10,
                          .in_file = InFile::when_set}),
      field<&Set::layer_overhead_s>({.name = "layer_overhead_s",
                                     .doc = "Time per decoder layer",
                                     .unit = "s",
                                     .min = 0,
                                     .max = 10,
                                     .in_file = InFile::defaulted}),
      field<&Set::host_step_s>({.name = "host_step_s",
                                .doc = "Time of the host per step of a micro-batch",
                                .unit = "s",
                                .min = 0,
                                .max = 10,
                                .in_file = InFile::when_set}),
      field<&Set::host_sequence_s>({.name = "host_sequence_s",
                                    .doc = "Time of the host per step and sequence",
                                    .unit = "s",
                                    .min = 0,
                                    .max = 10,
                                    .in_file = InFile::when_set}),
      field<&Set::serial_host_sequence_s>(
          {.name = "serial_host_sequence_s",
           .doc = "The same of a tensor-parallel group whose engine decides a step when the one "
                  "before it is over; left out: host_sequence_s",
           .unit = "s",
           .min = 0,
           .max = 10,
           .in_file = InFile::when_set}),
      field<&Set::host_prompt_s>({.name = "host_prompt_s",
                                  .doc = "Time of the host per step that reads prompts",
                                  .unit = "s",
                                  .min = 0,
                                  .max = 10,
                                  .in_file = InFile::when_set}),
      field<&Set::host_prompt_layer_s>(
          {.name = "host_prompt_layer_s",
           .doc = "Least time of a layer in a step that reads prompts: the host's launches",
           .unit = "s",
           .min = 0,
           .max = 10,
           .in_file = InFile::when_set}),
      field<&Set::host_prompt_experts_s>({.name = "host_prompt_experts_s",
                                          .doc = "The same of a layer with experts",
                                          .unit = "s",
                                          .min = 0,
                                          .max = 10,
                                          .in_file = InFile::when_set}),
      field<&Set::api_s>({.name = "api_s",
                          .doc = "Time of client and API server per request",
                          .unit = "s",
                          .min = 0,
                          .max = 1000,
                          .in_file = InFile::when_set}),
      field<&Set::async_scheduling>(
          {.name = "async_scheduling",
           .doc = "Whether a step is decided while the one before it runs, one stage at a time",
           .in_file = InFile::when_set}),
      field<&Set::graph_batch_sizes>({.name = "graph_batch_sizes",
                                      .doc = "Sequences that decode steps are padded to, ascending",
                                      .min = 1,
                                      .max = 1 << 20,
                                      .in_file = InFile::when_set}),
      field<&Set::kv_per_query_head>(
          {.name = "kv_per_query_head",
           .doc = "Where decoding reads keys and values for each query head, not once for a group",
           .in_file = InFile::when_set}),
      field<&Set::tuned_experts>({.name = "tuned_experts",
                                  .doc = "Whether experts run kernels that are tuned for them; "
                                         "left out: those that profiles list",
                                  .in_file = InFile::when_set}),
      field<&Set::unsplit_kv_bytes_per_s>(
          {.name = "unsplit_kv_bytes_per_s",
           .doc = "Rate at which decode attention reads one head's keys and values, whose context "
                  "no kernel splits; left out: it is split",
           .unit = "bytes/s",
           .min = 1e6,
           .max = kMaxBytesPerS,
           .in_file = InFile::when_set}),
      field<&Set::sums_by_nccl>({.name = "sums_by_nccl",
                                 .doc = "Whether NCCL sums over devices whatever the size",
                                 .in_file = InFile::when_set}),
      field<&Set::rank_skew_s>({.name = "rank_skew_s",
                                .doc = "Time that a sum waits for each device beyond the first",
                                .unit = "s",
                                .min = 0,
                                .max = 1,
                                .in_file = InFile::when_set}),
      field<&Set::attention_flop_ratio>({.name = "attention_flop_ratio",
                                         .doc = "Share of the peak rate that attention reaches",
                                         .min = kMinRatio,
                                         .max = 1,
                                         .in_file = InFile::defaulted}),
      field<&Set::attention_memory_ratio>(
          {.name = "attention_memory_ratio",
           .doc = "Share of the peak bandwidth that attention reaches",
           .min = kMinRatio,
           .max = 1,
           .in_file = InFile::defaulted}),
      field<&Set::rules>({.name = "rules", .doc = "By bitwidth and devices"}),
      field<&Set::kv_rules>({.name = "kv_rules",
                             .doc = "KV caches of fewer than 16 bits; left out: all run everywhere",
                             .in_file = InFile::when_set}),
      field<&Set::recalibration>({.name = "recalibration",
                                  .doc = "What runs took of what it predicts, as `tessera compare "
                                         "--recalibrate` writes it",
                                  .in_file = InFile::when_set}),
      field<&Set::source>(
          {.name = "source", .doc = "Where the figures were read", .in_file = InFile::when_set})};
  /// No two rules may match a device equally well.
  static void check(const cost::KernelSet& set, const FieldPath& path);
};

}  // namespace tessera

namespace tessera::cost {

/// Strict: unknown fields, ratios outside (0, 1], bitwidths outside 1..16 and two rules that would
/// match equally well are errors. @throws Error{invalid_argument | out_of_range} naming the field.
KernelSet kernel_set_from_json(const Json& json, const std::string& path);
Json to_json(const KernelSet& set);  ///< reads back exactly
/// The kernel set called `name`, matched like a device; one that ends in ".json" is read from that
/// file, and called by it. @throws Error{not_found} with the nearest.
KernelSet find_kernel_set(const std::string& name, const DataFolders& folders);

}  // namespace tessera::cost
