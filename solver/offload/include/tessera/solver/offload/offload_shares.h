#pragma once

#include <cstdint>
#include <string>

#include "tessera/core/record.h"

namespace tessera::solver {

/// Shares of one kind of tensor on the three levels of memory; they sum to 1.
struct TierRatios {
  double device = 0, host = 0, disk = 0;

  friend bool operator==(const TierRatios&, const TierRatios&) = default;
};

/// Where a stage of an offloading plan keeps what it needs.
struct StageOffload {
  TierRatios weights{.device = 1}, kv_cache{.device = 1}, activations{.device = 1};
  double host_bytes = 0;  ///< peak of either phase
  double disk_bytes = 0;  ///< peak

  friend bool operator==(const StageOffload&, const StageOffload&) = default;
};

/// What an offloading plan decides or assumes as a whole.
struct PlanOffload {
  std::int64_t gpu_batch_size = 1;  ///< requests computed at once; a micro-batch consists of such
  double host_memory_ratio = 0.8;   ///< share of a node's memory that the plan may use
  double host_attention_bytes_per_s =
      12.3e9;  ///< KV cache that a node's processors attend to, all its stages together

  friend bool operator==(const PlanOffload&, const PlanOffload&) = default;
};

}  // namespace tessera::solver

namespace tessera {

/// What is absent of a table of shares is 0; without the table all stays on the device.
template <>
struct Fields<solver::TierRatios> {
  using R = solver::TierRatios;
  static constexpr auto share = [](std::string_view name, std::string_view doc) -> FieldSpec {
    return {.name = name, .doc = doc, .min = 0, .max = 1, .in_file = InFile::defaulted};
  };
  static constexpr auto list =
      std::tuple{field<&R::device>(share("device", "Share in the device's memory")),
                 field<&R::host>(share("host", "Share in the node's memory")),
                 field<&R::disk>(share("disk", "Share on the node's disk"))};
};

template <>
struct Fields<solver::StageOffload> {
  using S = solver::StageOffload;
  static constexpr auto list = std::tuple{
      field<&S::weights>(
          {.name = "weights", .doc = "Where the weights are", .in_file = InFile::defaulted}),
      field<&S::kv_cache>(
          {.name = "kv_cache", .doc = "Where the KV cache is", .in_file = InFile::defaulted}),
      field<&S::activations>({.name = "activations",
                              .doc = "Where activations wait between layers",
                              .in_file = InFile::defaulted}),
      field<&S::host_bytes>({.name = "host_bytes",
                             .doc = "Peak in the node's memory, of either phase",
                             .unit = "bytes",
                             .min = 0,
                             .max = kHuge,
                             .in_file = InFile::defaulted}),
      field<&S::disk_bytes>({.name = "disk_bytes",
                             .doc = "Peak on the node's disk",
                             .unit = "bytes",
                             .min = 0,
                             .max = kHuge,
                             .in_file = InFile::defaulted})};
};

template <>
struct Fields<solver::PlanOffload> {
  using P = solver::PlanOffload;
  static constexpr auto list = std::tuple{
      field<&P::gpu_batch_size>({.name = "gpu_batch_size",
                                 .doc = "Requests computed at once",
                                 .unit = "requests",
                                 .min = 1,
                                 .max = 1e6}),
      field<&P::host_memory_ratio>({.name = "host_memory_ratio",
                                    .doc = "Share of a node's memory that the plan may use",
                                    .min = 0,
                                    .max = 1,
                                    .in_file = InFile::defaulted}),
      field<&P::host_attention_bytes_per_s>(
          {.name = "host_attention_bytes_per_s",
           .doc = "KV cache that a node's processors attend to, all its stages together",
           .unit = "bytes/s",
           .min = 1,
           .max = 1e18,
           .in_file = InFile::defaulted})};
};

}  // namespace tessera
