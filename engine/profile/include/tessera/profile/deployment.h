#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/record.h"
#include "tessera/lm/language_model.h"

namespace tessera::profile {

/// What seconds are counted.
enum class Counted {
  wall,       ///< that pass
  processor,  ///< that this process runs: what passes on a machine that has nothing else to do
};

/// The first layers of a model with its embedding and head, deployed: stages one behind the other,
/// each over tensor-parallel ranks, one sequence at a time.
///
/// All stages run in this process, and hand hidden states on by a copy. Of the ranks one runs, its
/// share of the matrices alone; where ranks add up it copies and adds as many values as it would
/// with the others there, and waits for nobody: emulated.
struct DeploymentRequest {
  std::int64_t num_layers = 1;
  std::int64_t tensor_parallel = 1, pipeline_parallel = 1;
  std::int64_t prompt_tokens = 512;
  std::vector<std::int64_t> output_tokens = {};  ///< none: memory alone is wanted
  std::int64_t cache_tokens = 0;  ///< that the cache has room for, if more than these take
  Counted counted = Counted::wall;
  std::function<bool()> interrupted = {};
};

struct Deployment {
  /// Of each of output_tokens: the prompt, which gives the first, and a step for each other one.
  std::vector<double> latency_s;
  // Of all stages and ranks.
  std::int64_t weight_bytes = 0;  ///< matrices, head, norms and biases; the embedding's table stays
                                  ///< in its file but where it is the head
  std::int64_t kv_cache_bytes = 0;
  std::int64_t scratch_bytes = 0;  ///< what steps took beside these, at most
  double load_s = 0;               ///< of the rank that ran
  bool emulated = false;           ///< with tensor_parallel above 1

  std::int64_t memory_bytes() const { return weight_bytes + kv_cache_bytes + scratch_bytes; }
};

using Loader =
    std::function<std::shared_ptr<const lm::LanguageModel>(const lm::LoadRequest& request)>;

/// Loads it, runs it once to warm it up and once for its times, and lets it go. A stage without
/// layers, as where a model is cut to fewer than there are stages, counts with the scratch of the
/// one before it, which it would have with layers.
/// @param base of the whole model, for one rank
/// @throws Error{out_of_range} for layers or tokens beyond the model's, Error{interrupted}
Deployment measure_deployment(const lm::LoadRequest& base, const ModelShape& shape,
                              const DeploymentRequest& request, const Loader& load);

}  // namespace tessera::profile

namespace tessera {

template <>
inline constexpr auto kEnumNames<profile::Counted> = enum_names<profile::Counted>(
    {{profile::Counted::wall, "wall"}, {profile::Counted::processor, "processor"}});

template <>
struct Fields<profile::DeploymentRequest> {
  using R = profile::DeploymentRequest;
  static constexpr auto list = std::tuple{
      field<&R::num_layers>({.name = "num_layers",
                             .doc = "From the first on",
                             .min = 1,
                             .max = kLayersRange.high,
                             .as_option = AsOption::required}),
      field<&R::tensor_parallel>({.name = "tensor_parallel",
                                  .doc = "Ranks, of which one runs",
                                  .min = 1,
                                  .max = 1024,
                                  .as_option = AsOption::defaulted}),
      field<&R::pipeline_parallel>({.name = "pipeline_parallel",
                                    .doc = "Stages",
                                    .min = 1,
                                    .max = 1024,
                                    .as_option = AsOption::defaulted}),
      field<&R::prompt_tokens>({.name = "prompt_tokens",
                                .doc = "Of the prompt",
                                .unit = "tokens",
                                .min = 1,
                                .max = kTokensRange.high,
                                .as_option = AsOption::defaulted}),
      field<&R::output_tokens>({.name = "output_tokens",
                                .doc = "Lengths of answers that are timed; none: memory alone",
                                .unit = "tokens",
                                .min = 1,
                                .max = kTokensRange.high,
                                .as_option = AsOption::defaulted}),
      field<&R::cache_tokens>({.name = "cache_tokens",
                               .doc = "That the cache has room for, if more than these take",
                               .unit = "tokens",
                               .min = 0,
                               .max = kTokensRange.high,
                               .as_option = AsOption::defaulted}),
      field<&R::counted>({.name = "counted",
                          .doc = "wall: the time that passes; processor: the time that this "
                                 "process runs, for machines that others use too",
                          .as_option = AsOption::defaulted})};
};

template <>
struct Fields<profile::Deployment> {
  using D = profile::Deployment;
  static constexpr auto list = std::tuple{
      field<&D::latency_s>({.name = "latency_s", .doc = "Of each length", .unit = "s"}),
      field<&D::memory_bytes>({.name = "memory_bytes", .doc = "Altogether", .unit = "bytes"}),
      field<&D::weight_bytes>({.name = "weight_bytes", .doc = "Weights", .unit = "bytes"}),
      field<&D::kv_cache_bytes>({.name = "kv_cache_bytes", .doc = "KV cache", .unit = "bytes"}),
      field<&D::scratch_bytes>({.name = "scratch_bytes", .doc = "Of steps", .unit = "bytes"}),
      field<&D::load_s>({.name = "load_s", .doc = "Time to load", .unit = "s"}),
      field<&D::emulated>({.name = "emulated", .doc = "Whether ranks were not all there"})};
};

}  // namespace tessera
