#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/solver/fleet/fleet.h"

/// An instance as the search sees it: what is alike is one, what nobody can use is gone, and every
/// rate counts in its model's demand.
namespace tessera::solver {

/// Nodes `first` to `first + count - 1`.
struct NodeRange {
  std::int64_t first = 0, count = 0;
};

/// Nodes that nothing tells apart.
struct AlikeNodes {
  std::vector<NodeRange> ranges;
  std::int64_t count = 0;
  std::vector<std::int32_t> devices;  ///< [type]
  std::int64_t num_devices = 0;
  double usd_per_h = 0;  ///< of a node, as the billing has it
  std::string name;      ///< of the first class among them
  std::size_t first_class = 0;
};

/// Columns that nothing tells apart, by the first of them; others that are no better are gone.
struct Kind {
  std::size_t column = 0, model = 0;
  std::vector<std::int32_t> devices;  ///< [type] of one node; of whole nodes nothing
  std::int64_t num_devices = 0;       ///< of these
  std::int64_t nodes = 1;
  double usd_per_h = 0;  ///< of its devices; of whole nodes nothing
  /// [wanted class of requests] over the demand (and the weight, of objective rate).
  std::vector<double> rate;
  std::vector<std::size_t> classes;  ///< on which it can run
  bool runs = false;                 ///< before or after: no other one can stand for it

  bool is_whole() const { return nodes > 1; }
};

struct FleetSpace {
  explicit FleetSpace(const FleetInstance& instance);

  std::size_t num_types() const { return instance->device_types.size(); }
  bool billed_by_node() const { return instance->billing == Billing::node; }
  /// Copies of a kind that fit on one node.
  std::int64_t fit(const Kind& kind, std::size_t node_class) const;
  /// Whether so many leave no device of some type.
  bool fills(const Kind& kind, std::size_t node_class) const;
  /// USD/h of a whole node.
  double whole_usd_per_h(std::size_t node_class) const;

  const FleetInstance* instance;
  std::vector<AlikeNodes> classes;
  std::vector<Kind> kinds;
  std::vector<std::vector<std::size_t>> wanted;    ///< [model] classes of requests with a demand
  std::vector<std::vector<std::size_t>> of_model;  ///< [model] kinds
  std::vector<std::size_t> class_of;               ///< [class of the instance]
  std::vector<std::optional<std::size_t>> kind_of_column;  ///< the one that is no worse
  /// [around][kind] nodes on which it runs there: each by its class and its number in that; of
  /// whole-node replicas the first. Sorted. Empty where it costs nothing to move them.
  using At = std::pair<std::size_t, std::int64_t>;
  std::vector<std::vector<std::vector<At>>> running;
  std::optional<At> place_of(std::int64_t node) const;
  std::int64_t num_leaving = 0;  ///< replicas around that can run no more
  /// Models of which some class of requests no kind that fits anywhere serves.
  std::vector<std::size_t> unservable;
  std::size_t num_merged = 0, num_dominated = 0, num_useless = 0;

 private:
  void find_running();
  void merge_classes();
  void make_kinds();
  void drop_dominated();
};

}  // namespace tessera::solver
