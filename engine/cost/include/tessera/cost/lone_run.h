#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/files.h"
#include "tessera/core/provenance.h"
#include "tessera/core/quality.h"
#include "tessera/core/record.h"
#include "tessera/cost/memory.h"
#include "tessera/cost/stage_price.h"

namespace tessera::cost {

/// A model that answers one request at a time, or a batch of equal ones together, on some devices
/// of a cluster: what the fingerprints of iServe measure.
struct LoneRunQuery {
  std::int64_t tensor_parallel = 1, pipeline_parallel = 1;
  std::vector<std::int64_t> devices = {};  ///< stage after stage; empty: the first of the cluster
  std::int32_t bitwidth = 16, kv_bitwidth = 16;
  std::string scheme = {};  ///< of KernelSet::of_scheme; empty: none
  double pruned_ratio = 0;  ///< share of its structures that the model has lost
  std::int64_t num_layers = 1;
  std::int64_t prompt_tokens = 512;
  std::int64_t batch_size = 1;                   ///< requests that the KV cache has room for
  std::int64_t max_output_tokens = 100;          ///< that the KV cache has room for
  std::vector<std::int64_t> output_tokens = {};  ///< that are timed
};

struct LoneRun {
  std::vector<double> latency_s;  ///< of the whole request as its client sees it, by output_tokens
  std::vector<double> batch_latency_s;  ///< of batch_size requests at once; empty where that is 1
  MemoryAccount memory;                 ///< of all devices together
  Provenance provenance = Provenance::modelled;

  double memory_bytes() const { return memory.usable_bytes - memory.left_bytes(); }
};

/// Of a model with another number of layers, each as the mean of the model's own: layers of several
/// kinds have their share of any number. Stages have as many layers each, or one more.
/// @throws Error{unsupported} where the kernel set has no kernel, the heads do not divide, groups
/// of weights are cut, or devices are missing
LoneRun lone_run(const PricingContext& context, const LoneRunQuery& query);

/// What published measurements say of weights and a KV cache that are stored so, rounded by a
/// method (quantisation_methods); nothing where the kernel set has no such kernel.
std::optional<Quality> scheme_quality(const PricingContext& context, const LoneRunQuery& query,
                                      const DataFolders& folders);

/// The model without a share of its structures, as LLM-Pruner takes them out: whole heads, those of
/// a group together with their keys and values, and columns of the feed-forward networks, 64 at a
/// time. @throws Error{unsupported} for multi-head latent attention
ModelShape without_structures(const ModelShape& model, double ratio);

}  // namespace tessera::cost

namespace tessera {

template <>
struct Fields<cost::LoneRunQuery> {
  using Query = cost::LoneRunQuery;
  static constexpr double kMost = 1e7;
  static constexpr auto list = std::tuple{
      field<&Query::tensor_parallel>({.name = "tensor_parallel",
                                      .doc = "Devices of a stage",
                                      .min = 1,
                                      .max = 1024,
                                      .as_option = AsOption::defaulted}),
      field<&Query::pipeline_parallel>({.name = "pipeline_parallel",
                                        .doc = "Stages",
                                        .min = 1,
                                        .max = 1024,
                                        .as_option = AsOption::defaulted}),
      field<&Query::devices>({.name = "devices",
                              .doc = "Of the cluster, from 0, stage after stage; left out: the "
                                     "first ones",
                              .min = 0,
                              .max = 1e6,
                              .as_option = AsOption::defaulted}),
      field<&Query::bitwidth>({.name = "bitwidth",
                               .doc = "Of the weights",
                               .unit = "bits",
                               .min = 1,
                               .max = 16,
                               .as_option = AsOption::defaulted}),
      field<&Query::kv_bitwidth>({.name = "kv_bitwidth",
                                  .doc = "Of the KV cache",
                                  .unit = "bits",
                                  .min = kMinKvBitwidth,
                                  .max = kMaxKvBitwidth,
                                  .as_option = AsOption::defaulted}),
      field<&Query::scheme>(
          {.name = "scheme", .doc = "Of ts.schemes()", .as_option = AsOption::defaulted}),
      field<&Query::pruned_ratio>({.name = "pruned_ratio",
                                   .doc = "Share of its structures that the model has lost",
                                   .min = 0,
                                   .max = 0.95,
                                   .as_option = AsOption::defaulted}),
      field<&Query::num_layers>({.name = "num_layers",
                                 .doc = "Layers that run",
                                 .min = 1,
                                 .max = 1e4,
                                 .as_option = AsOption::required}),
      field<&Query::prompt_tokens>({.name = "prompt_tokens",
                                    .doc = "Of the prompt",
                                    .unit = "tokens",
                                    .min = 1,
                                    .max = kMost,
                                    .as_option = AsOption::defaulted}),
      field<&Query::batch_size>({.name = "batch_size",
                                 .doc = "Requests that the KV cache has room for",
                                 .min = 1,
                                 .max = 1e5,
                                 .as_option = AsOption::defaulted}),
      field<&Query::max_output_tokens>({.name = "max_output_tokens",
                                        .doc = "That the KV cache has room for",
                                        .unit = "tokens",
                                        .min = 1,
                                        .max = kMost,
                                        .as_option = AsOption::defaulted}),
      field<&Query::output_tokens>({.name = "output_tokens",
                                    .doc = "Lengths of answers that are timed",
                                    .unit = "tokens",
                                    .min = 1,
                                    .max = kMost,
                                    .as_option = AsOption::defaulted})};
};

}  // namespace tessera
