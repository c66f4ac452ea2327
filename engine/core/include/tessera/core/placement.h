#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/cluster.h"
#include "tessera/core/enum_names.h"
#include "tessera/core/record.h"

namespace tessera {

/// What an engine does: both phases, prompts for others, or what others have read.
enum class EngineRole { mixed, prefill, decode };

/// Consecutive layers on a tensor-parallel group of devices, or on one.
struct PlacedStage {
  std::string device;           ///< as group_type has it: "T4-16G", "RTX-3090+RTX-4090"
  std::int64_t node_index = 0;  ///< into Placement::nodes
  /// Their numbers among the devices of the node; tensor-parallel rank r runs on gpus[r].
  std::vector<std::int64_t> gpus;
  std::int64_t first_layer = 0;
  std::int64_t num_layers = 0;          ///< 0: it only hands on what it gets
  std::vector<std::int32_t> bitwidths;  ///< [num_layers]

  std::int64_t degree() const { return static_cast<std::int64_t>(gpus.size()); }
  /// With their number: "2xT4-16G".
  std::string group_name() const;

  friend bool operator==(const PlacedStage&, const PlacedStage&) = default;
};

/// One pipeline with a KV cache of its own. Its ranks are counted stage by stage, and within a
/// stage by its GPUs: rank = number of GPUs of the stages before + tensor-parallel rank.
struct PlacedEngine {
  EngineRole role = EngineRole::mixed;
  std::int32_t kv_bitwidth = 16;
  std::vector<PlacedStage> stages;  ///< in pipeline order; together all layers, each once

  friend bool operator==(const PlacedEngine&, const PlacedEngine&) = default;
};

/// Where every layer of a model lies, in every copy of it, whoever decided it: plans and
/// deployments say it, whatever prices, checks, launches or runs them reads it.
struct Placement {
  std::string model;
  std::int64_t num_layers = 0;     ///< of the model
  std::vector<std::string> nodes;  ///< by name, also those that nothing is on
  std::vector<PlacedEngine> engines;

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// The place of a device: a node, and a number among its devices in the order of the cluster.
struct DevicePlace {
  std::int64_t node_index = 0, gpu = 0;

  friend auto operator<=>(const DevicePlace&, const DevicePlace&) = default;
};

/// Of every device of a cluster.
std::vector<DevicePlace> device_places(const Cluster& cluster);

/// The devices of a cluster that each stage of an engine runs on, by tensor-parallel rank.
/// @throws Error{invalid_argument} naming the stage, where the cluster has no such node or device,
/// or one of another type there.
std::vector<std::vector<std::size_t>> stage_devices(const Placement& placement,
                                                    const PlacedEngine& engine,
                                                    const Cluster& cluster);

inline constexpr double kMostPlaced = 1e6;  ///< nodes, GPUs and layers in a file

template <>
inline constexpr auto kEnumNames<EngineRole> =
    enum_names<EngineRole>({{EngineRole::mixed, "mixed"},
                            {EngineRole::prefill, "prefill"},
                            {EngineRole::decode, "decode"}});

template <>
struct Fields<DevicePlace> {
  using P = DevicePlace;
  static constexpr auto list = std::tuple{
      field<&P::node_index>(
          {.name = "node_index", .doc = "Its node (0-based)", .min = 0, .max = kMostPlaced}),
      field<&P::gpu>({.name = "gpu",
                      .doc = "Its number among the node's devices (0-based)",
                      .min = 0,
                      .max = kMostPlaced})};
};

template <>
struct Fields<PlacedStage> {
  using S = PlacedStage;
  static constexpr auto index = [](std::string_view name, std::string_view doc) -> FieldSpec {
    return {.name = name, .doc = doc, .min = 0, .max = kMostPlaced};
  };
  static constexpr auto list = std::tuple{
      field<&S::device>({.name = "device", .doc = "Types of its devices"}),
      field<&S::node_index>(index("node_index", "Their node, into nodes (0-based)")),
      field<&S::gpus>(index("gpus", "Their numbers on the node, by tensor-parallel rank")),
      field<&S::first_layer>(index("first_layer", "First layer (0-based)")),
      field<&S::num_layers>(index("num_layers", "Layers")),
      field<&S::bitwidths>(
          {.name = "bitwidths", .doc = "One per layer", .unit = "bits", .min = 1, .max = 64})};

  /// It has devices, each once, and a bitwidth for each layer.
  static void check(const S& stage, const FieldPath& path);
};

template <>
struct Fields<PlacedEngine> {
  using E = PlacedEngine;
  static constexpr auto list = std::tuple{
      field<&E::role>({.name = "role", .doc = "mixed, prefill or decode"}),
      field<&E::kv_bitwidth>(
          {.name = "kv_bitwidth", .doc = "Of its KV cache", .unit = "bits", .min = 1, .max = 64}),
      field<&E::stages>({.name = "stages", .doc = "In pipeline order"})};
};

template <>
struct Fields<Placement> {
  using P = Placement;
  static constexpr auto list = std::tuple{
      field<&P::model>({.name = "model", .doc = "Name of the model"}),
      field<&P::num_layers>(
          {.name = "num_layers", .doc = "Layers of the model", .min = 1, .max = kMostPlaced}),
      field<&P::nodes>({.name = "nodes", .doc = "Names of the nodes"}),
      field<&P::engines>({.name = "engines", .doc = "Copies of the model"})};

  /// Nodes have names of their own; every engine has all layers in order; no device is used twice.
  static void check(const P& placement, const FieldPath& path);
};

}  // namespace tessera
