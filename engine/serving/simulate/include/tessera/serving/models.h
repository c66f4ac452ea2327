#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/serving/deployment.h"

/// Several models on the same devices: each is placed when it comes, by who knows of their load and
/// of the memory that is left, and gives its memory back when it has gone.
namespace tessera::serving {

/// A model, and when it is there.
struct ServedModel {
  std::string name;
  double at_s = 0;  ///< when it comes, and is placed
  /// From then on it gets no request; what it has it ends.
  std::optional<double> until_s = {};
};

/// A device that models share.
struct SharedDevice {
  std::string name;
  double total_bytes = 0;
};

/// A device as it is seen when a model comes.
struct DeviceView {
  std::int32_t index = 0;
  std::string device;
  double total_bytes = 0, free_bytes = 0;
  double load = 0;  ///< busy share of the window that ended with the last whole second
  std::vector<std::string> models;
};

/// Where a model goes.
struct ModelPlacement {
  std::vector<Replica> replicas;          ///< with devices and stage_bytes; empty: nowhere
  std::string why = {};                   ///< it goes nowhere
  std::vector<std::int64_t> layers = {};  ///< of the stages of an engine, for who reads results
  double ready_after_s = 0;               ///< loading; what comes before waits
  double memory_bytes = 0;                ///< as its costs count; 0: what it takes
  std::string configuration = {};         ///< JSON of what was chosen, for who reads the results
};

/// Decides during a run where models go.
class Placer {
 public:
  virtual ~Placer() = default;
  virtual ModelPlacement place(std::size_t model, double now_s,
                               const std::vector<DeviceView>& devices) = 0;
  /// Whether it chooses the engine of a request too, in the router's place.
  virtual bool routes() const { return false; }
  /// @return the engine's place among those of the model; nothing: the request is dropped
  virtual std::optional<std::size_t> route(std::size_t /*model*/, double /*now_s*/,
                                           const RoutedRequest& /*request*/) {
    return std::nullopt;
  }
};

/// Makes that of a run, which may look at its traffic first.
using MakePlacer = std::function<std::unique_ptr<Placer>(const Traffic& traffic,
                                                         const std::vector<DeviceView>& devices)>;

struct ModelSet {
  std::vector<ServedModel> models;
  std::vector<SharedDevice> devices;
  MakePlacer make_placer;
  double window_s = 120;  ///< of the load
};

/// [models of the traffic] their numbers among those of the set.
/// @throws Error{not_found} for one that is not there, with the nearest name, and
/// Error{invalid_argument} where requests name none and there are several
std::vector<std::int32_t> model_numbers(const ModelSet& set, const Traffic& traffic);

}  // namespace tessera::serving

template <>
struct tessera::Fields<tessera::serving::DeviceView> {
  using V = tessera::serving::DeviceView;
  static constexpr auto list = std::tuple{
      field<&V::index>({.name = "index", .doc = "Its number, from 0"}),
      field<&V::device>({.name = "device", .doc = "What it is"}),
      field<&V::total_bytes>({.name = "total_bytes", .doc = "Memory", .unit = "bytes"}),
      field<&V::free_bytes>({.name = "free_bytes", .doc = "Of it no model has", .unit = "bytes"}),
      field<&V::load>({.name = "load",
                       .doc = "Busy share of the window that ended with the last whole second"}),
      field<&V::models>({.name = "models", .doc = "That lie on it"})};
};
