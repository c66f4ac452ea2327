#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/solver/instance/device_orders.h"
#include "tessera/solver/instance/numbers.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver {
namespace {

using Check = std::optional<Violation>;

// Above this, looking at the activations of every micro-batch size would cost more than it tells.
constexpr std::int64_t kMaxSizesLookedAt = 256;

Check hopeless(const char* constraint, std::string message) {
  return Violation{constraint, std::move(message)};
}

// Lower bounds on what the stages of a request hold, whatever is decided later.
class Floors {
 public:
  Floors(const Instance& instance, const PlanRequest& request)
      : instance_(instance), request_(request) {
    const bool any_order = !request.order;
    for (std::size_t g = 0; g < instance.groups.size(); ++g) {
      if (any_order)
        groups_.insert(groups_.end(), static_cast<std::size_t>(instance.groups[g].count), g);
    }
    if (!any_order) groups_ = *request.order;
    for (std::size_t i = 0; i < instance.embedding_bytes.size(); ++i) {
      fixed_.push_back(
          instance.embedding_bytes[i] +
          std::max(least_activation(instance.prefill, request.prefill_micro_batch_size, i),
                   least_activation(instance.decode, request.decode_micro_batch_size, i)));
    }
  }

  /// One group per stage in order, or per device where the order is free.
  const std::vector<std::size_t>& groups() const { return groups_; }
  bool free_order() const { return !request_.order; }
  double fixed(std::size_t group, StagePlace place) const {
    return fixed_[instance_.index_of(group, place)];
  }

  /// The smallest layer that a group can run; infinite when it runs none.
  double least_layer(std::size_t group) const {
    double least = kInfinity;
    for (std::int32_t cls = 0; cls < instance_.num_classes; ++cls) {
      least = std::min(least, least_layer(group, cls));
    }
    return least;
  }

  double least_layer(std::size_t group, std::int32_t cls) const {
    double least = kInfinity;
    for (std::size_t bit = 0; bit < instance_.num_bits(); ++bit) {
      if (instance_.allowed_at(group, bit)) {
        least = std::min(least, instance_.layer_bytes_at(group, cls, bit));
      }
    }
    return least;
  }

  /// Places that a device may take: its position, or anything where the order is free.
  std::vector<StagePlace> places(std::size_t position) const {
    const bool only = groups_.size() == 1;
    if (!free_order()) return {place_at(position, groups_.size())};
    if (only) return {StagePlace::only};
    if (instance_.least_stages() == 1) {
      return {StagePlace::middle, StagePlace::first, StagePlace::last, StagePlace::only};
    }
    return {StagePlace::middle, StagePlace::first, StagePlace::last};
  }

  double room(std::size_t position) const {
    double least_fixed = kInfinity;
    for (const StagePlace place : places(position)) {
      least_fixed = std::min(least_fixed, fixed(groups_[position], place));
    }
    return instance_.groups[groups_[position]].usable_bytes * (1 + kMemorySlack) - least_fixed;
  }

  bool must_hold_layer(std::size_t position) const {
    return !instance_.allow_empty_stage ||
           (!free_order() &&
            (!instance_.may_be_empty() || position == 0 || position + 1 == groups_.size()));
  }

 private:
  using Phase = std::function<const PhaseCosts&(std::int64_t)>;

  double least_activation(const Phase& phase, std::optional<std::int64_t> size,
                          std::size_t i) const {
    if (size) return phase(*size).activation_bytes[i];
    if (instance_.batch_size > kMaxSizesLookedAt) return 0;
    double least = kInfinity;
    for (std::int64_t s = 1; s <= instance_.batch_size; ++s) {
      least = std::min(least, phase(s).activation_bytes[i]);
    }
    return least;
  }

  const Instance& instance_;
  const PlanRequest& request_;
  std::vector<std::size_t> groups_;
  std::vector<double> fixed_;  ///< [sharding][place]
};

void check_arguments(const Instance& instance, const PlanRequest& request) {
  if (request.order) {
    for (const std::size_t group : *request.order) {
      if (group >= instance.groups.size()) {
        refuse(ErrorCode::out_of_range, "order", "no device group {}, there are {}", group,
               instance.groups.size());
      }
    }
  }
  for (const auto& [name, size] :
       {std::pair{"prefill_micro_batch_size", request.prefill_micro_batch_size},
        std::pair{"decode_micro_batch_size", request.decode_micro_batch_size}}) {
    if (size && (*size < 1 || *size > instance.batch_size)) {
      refuse(ErrorCode::out_of_range, name, "{} is outside [1, {}], the batch size", *size,
             instance.batch_size);
    }
  }
}

Check check_devices(const Instance& instance, const PlanRequest& request) {
  if (request.order && request.order->empty()) {
    return hopeless("devices", "the device order is empty; name at least one device");
  }
  if (instance.num_devices() == 0) return hopeless("devices", "the cluster has no device");
  if (!request.order) {
    const std::size_t most = devices_by_memory(instance).size();
    if (most >= instance.least_stages()) return std::nullopt;
    return hopeless("server", fmt::format("the server has the devices of one node, {} at most, and "
                                          "{} are to be used",
                                          most, instance.least_stages()));
  }
  std::vector<std::int64_t> used(instance.groups.size(), 0);
  for (const std::size_t group : *request.order) ++used[group];
  for (std::size_t g = 0; g < used.size(); ++g) {
    if (used[g] > instance.groups[g].count) {
      return hopeless(
          "devices",
          fmt::format("the order uses {} devices of type {}, the cluster has {}; drop {} "
                      "from the order or add devices",
                      used[g], instance.groups[g].name, instance.groups[g].count,
                      used[g] - instance.groups[g].count));
    }
  }
  if (const auto stage = StageOrder(instance).breach(*request.order)) {
    return hopeless("server",
                    fmt::format("the server cannot launch this order of devices: it keeps "
                                "to nodes and to one degree, which stage {} breaks",
                                *stage + 1));
  }
  return std::nullopt;
}

Check check_layers(const Instance& instance, const Floors& floors) {
  const std::size_t devices = floors.groups().size();
  // First and last stage are never empty; the others only where that is asked for.
  const std::size_t needed = std::min(devices, instance.least_stages());
  if (instance.num_layers() >= needed) return std::nullopt;
  return hopeless("layers",
                  fmt::format("{} decoder layers for {} stages that hold at least one each; use "
                              "fewer devices",
                              instance.num_layers(), needed));
}

Check check_kernels(const Instance& instance, const Floors& floors) {
  const auto& groups = floors.groups();
  bool any = false;
  for (std::size_t position = 0; position < groups.size(); ++position) {
    const bool runs = floors.least_layer(groups[position]) < kInfinity;
    any = any || runs;
    if (!runs && floors.must_hold_layer(position)) {
      return hopeless("kernel",
                      fmt::format("{} has no kernel for any of the {} candidate bitwidths; add a "
                                  "bitwidth that it runs, choose another kernel set, or leave it "
                                  "out",
                                  instance.groups[groups[position]].name, instance.num_bits()));
    }
  }
  if (any) return std::nullopt;
  return hopeless("kernel", "no device has a kernel for any of the candidate bitwidths");
}

std::string shortage(const Instance& instance, const Floors& floors, std::size_t group,
                     StagePlace place) {
  return fmt::format(
      "{} needs {} (embeddings {}, activations and other fixed parts {}, one layer "
      "at its smallest {}), has {}",
      instance.groups[group].name,
      format_bytes(floors.fixed(group, place) + floors.least_layer(group)),
      format_bytes(instance.embedding_bytes_at(group, place)),
      format_bytes(floors.fixed(group, place) - instance.embedding_bytes_at(group, place)),
      format_bytes(floors.least_layer(group)), format_bytes(instance.groups[group].usable_bytes));
}

bool holds_a_layer(const Instance& instance, const Floors& floors, std::size_t group,
                   StagePlace place) {
  return floors.fixed(group, place) + floors.least_layer(group) <=
         instance.groups[group].usable_bytes * (1 + kMemorySlack);
}

// Embeddings are on the first and the last stage: some device must be able to hold each of these.
Check check_ends(const Instance& instance, const Floors& floors) {
  const auto& groups = floors.groups();
  const bool only = groups.size() == 1;
  for (const bool first : {true, false}) {
    const StagePlace place = stage_place(only || first, only || !first);
    const char* name = first ? "first" : "last";
    const bool embedded = instance.embedding_bytes_at(groups.front(), place) > 0;
    const char* constraint = embedded ? "embedding" : "memory";
    if (!floors.free_order()) {
      const std::size_t group = first ? groups.front() : groups.back();
      if (holds_a_layer(instance, floors, group, place)) continue;
      return hopeless(constraint,
                      fmt::format("{} stage: {}; put a device with more memory {}", name,
                                  shortage(instance, floors, group, place), name));
    }
    const auto roomiest =
        *std::max_element(groups.begin(), groups.end(), [&](std::size_t a, std::size_t b) {
          return instance.groups[a].usable_bytes < instance.groups[b].usable_bytes;
        });
    const bool anyone = std::any_of(groups.begin(), groups.end(), [&](std::size_t group) {
      return holds_a_layer(instance, floors, group, place) ||
             (instance.least_stages() == 1 &&
              holds_a_layer(instance, floors, group, StagePlace::only));
    });
    if (anyone) continue;
    return hopeless(constraint,
                    fmt::format("no device can be the {} stage; the largest, {}; add a device with "
                                "more memory, or reduce batch size or context",
                                name, shortage(instance, floors, roomiest, place)));
  }
  return std::nullopt;
}

// Every stage that counts must hold a layer, and all stages together all layers.
Check check_memory(const Instance& instance, const Floors& floors) {
  const auto& groups = floors.groups();
  double room = 0;
  for (std::size_t position = 0; position < groups.size(); ++position) {
    const std::size_t group = groups[position];
    const double here = floors.room(position);
    // The order of a whole cluster is free to leave a device out where stages may be empty.
    const bool must_fit = !floors.free_order() || !instance.allow_empty_stage;
    const double layer = floors.must_hold_layer(position) ? floors.least_layer(group) : 0;
    if (must_fit && here < layer) {
      return hopeless("memory", fmt::format("stage {} on {}; leave the device out, or reduce batch "
                                            "size or context",
                                            position + 1,
                                            shortage(instance, floors, group,
                                                     floors.places(position).front())));
    }
    room += std::max(0.0, here);
  }
  double needed = 0;
  for (const std::int32_t cls : instance.layer_class) {
    double least = kInfinity;
    for (const std::size_t group : groups) least = std::min(least, floors.least_layer(group, cls));
    needed += least;
  }
  if (needed <= room) return std::nullopt;
  return hopeless(
      "memory",
      fmt::format("{} layers at their smallest need {} (weights and KV cache), {} {} for them "
                  "after embeddings and activations; add devices or lower bitwidths, or "
                  "reduce batch size or context",
                  instance.num_layers(), format_bytes(needed),
                  groups.size() == 1 ? "the one device has"
                                     : fmt::format("the {} devices have", groups.size()),
                  format_bytes(room)));
}

Check check_quality(const Instance& instance, const Floors& floors) {
  if (!instance.max_omega) return std::nullopt;
  double least = 0;
  for (std::size_t layer = 0; layer < instance.num_layers(); ++layer) {
    double best = kInfinity;
    for (const std::size_t group : floors.groups()) {
      for (std::size_t bit = 0; bit < instance.num_bits(); ++bit) {
        if (instance.allowed_at(group, bit)) {
          best = std::min(best, instance.omega_at(layer, bit));
        }
      }
    }
    least += best;
  }
  const double limit = *instance.max_omega;
  if (least <= limit + std::abs(limit) * kQualitySlack) return std::nullopt;
  return hopeless(
      "quality", fmt::format("the quality floor allows omega {:.6g}, but even the best bitwidth of "
                             "every layer gives {:.6g}; lower the floor or offer higher bitwidths",
                             limit, least));
}

}  // namespace

std::optional<Violation> find_obvious_infeasibility(const Instance& instance,
                                                    const PlanRequest& request) {
  check_arguments(instance, request);
  if (Check v = check_devices(instance, request)) return v;
  const Floors floors(instance, request);
  if (Check v = check_layers(instance, floors)) return v;
  if (Check v = check_kernels(instance, floors)) return v;
  if (Check v = check_ends(instance, floors)) return v;
  if (Check v = check_memory(instance, floors)) return v;
  return check_quality(instance, floors);
}

}  // namespace tessera::solver
