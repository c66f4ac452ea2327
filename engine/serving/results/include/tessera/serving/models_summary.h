#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/core/record.h"
#include "tessera/serving/summary.h"

namespace tessera::serving {

/// What became of one of several models.
struct ModelSummary {
  std::string name;
  bool placed = false;
  std::optional<double> placed_at_s = {};
  std::vector<std::int32_t> devices = {};
  std::vector<std::int64_t> layers = {};
  Json configuration = {};  ///< null: nobody said
  std::string why = {};
  std::int64_t num_gpus = 0;  ///< of an engine
  double memory_bytes = 0;
  std::optional<double> gpu_s = {}, cost_byte_s = {};
  Summary run;  ///< of its requests
};

/// And of a device that they share.
struct GpuSummary {
  std::string device;
  double busy_ratio = 0;
  double peak_bytes = 0, total_bytes = 0;
};

/// A run of several models in figures.
struct ModelsSummary {
  std::vector<ModelSummary> models;
  std::vector<GpuSummary> gpus;
  std::int64_t num_gpus_used = 0;
  double request_per_s_per_gpu = 0;
  std::optional<double> gpu_s = {}, cost_byte_s = {};
  double memory_bytes = 0;
};

/// @param options of the whole; `slos` of each model where a model has any
ModelsSummary summarise_models(const Log& log, const Summary& whole, const SummaryOptions& options);

/// The options of one model's requests alone, in their order.
SummaryOptions options_of_model(const Log& log, const SummaryOptions& options, std::int32_t model);

/// Lines of at most 80 columns.
std::string describe(const ModelsSummary& summary);

}  // namespace tessera::serving

template <>
struct tessera::Fields<tessera::serving::ModelSummary> {
  using M = tessera::serving::ModelSummary;
  static constexpr auto list = std::tuple{
      field<&M::name, NotInFiles>({.name = "name", .doc = "As ts.deployment has it"}),
      field<&M::placed, NotInFiles>({.name = "placed", .doc = "Whether it got a place"}),
      field<&M::placed_at_s, NotInFiles>({.name = "placed_at_s", .doc = "When", .unit = "s"}),
      field<&M::devices, NotInFiles>(
          {.name = "devices", .doc = "GPUs of its engines from 0, stage by stage"}),
      field<&M::layers, NotInFiles>({.name = "layers", .doc = "Of the stages of an engine"}),
      field<&M::configuration, NotInFiles>(
          {.name = "configuration", .doc = "What its strategy chose"}),
      field<&M::why, NotInFiles>(
          {.name = "why", .doc = "It has no place, or had none when it came; empty: it had one"}),
      field<&M::num_gpus, NotInFiles>({.name = "num_gpus", .doc = "Of an engine of it"}),
      field<&M::memory_bytes, NotInFiles>(
          {.name = "memory_bytes", .doc = "Of its configuration", .unit = "bytes"}),
      field<&M::gpu_s, NotInFiles>(
          {.name = "gpu_s", .doc = "num_gpus x e2e_s, mean of its requests", .unit = "s"}),
      field<&M::cost_byte_s, NotInFiles>({.name = "cost_byte_s",
                                          .doc = "memory_bytes x e2e_s, mean of its requests",
                                          .unit = "bytes s"})};
};

template <>
struct tessera::Fields<tessera::serving::GpuSummary> {
  using G = tessera::serving::GpuSummary;
  static constexpr auto list = std::tuple{
      field<&G::device, NotInFiles>({.name = "device", .doc = "What it is"}),
      field<&G::busy_ratio, NotInFiles>(
          {.name = "busy_ratio", .doc = "Share of the run during which a step ran on it"}),
      field<&G::peak_bytes, NotInFiles>(
          {.name = "peak_bytes", .doc = "Most that models took of its memory", .unit = "bytes"}),
      field<&G::total_bytes, NotInFiles>(
          {.name = "total_bytes", .doc = "Its memory", .unit = "bytes"})};
};

template <>
struct tessera::Fields<tessera::serving::ModelsSummary> {
  using M = tessera::serving::ModelsSummary;
  static constexpr auto list = std::tuple{
      field<&M::models, NotInFiles>(
          {.name = "models",
           .doc = "Of several models, each: name, placed, placed_at_s, devices, layers, "
                  "configuration, why, num_gpus, memory_bytes, gpu_s, cost_byte_s, and the fields "
                  "of a served run for its requests"}),
      field<&M::gpus, NotInFiles>(
          {.name = "gpus",
           .doc = "That they share, each: device, busy_ratio, peak_bytes, total_bytes"}),
      field<&M::num_gpus_used, NotInFiles>(
          {.name = "num_gpus_used", .doc = "GPUs on which a model lay"}),
      field<&M::request_per_s_per_gpu, NotInFiles>(
          {.name = "request_per_s_per_gpu", .doc = "request_per_s by these GPUs", .unit = "1/s"}),
      field<&M::gpu_s, NotInFiles>(
          {.name = "gpu_s",
           .doc = "GPUs of the engine x e2e_s, mean of the requests answered",
           .unit = "s"}),
      field<&M::memory_bytes, NotInFiles>(
          {.name = "memory_bytes",
           .doc = "Most that the configurations of all models that were there at once take",
           .unit = "bytes"}),
      field<&M::cost_byte_s, NotInFiles>(
          {.name = "cost_byte_s",
           .doc = "memory_bytes of the model x e2e_s, mean of the requests answered",
           .unit = "bytes s"})};
};
