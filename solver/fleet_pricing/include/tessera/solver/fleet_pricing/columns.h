#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/files.h"
#include "tessera/solver/deploy/pool_pair.h"
#include "tessera/solver/deploy/priced_configurations.h"
#include "tessera/solver/fleet_pricing/named_model.h"
#include "tessera/solver/fleet_pricing/node_kind.h"

/// Kinds of replicas of a fleet's models, with what each sustains at most, and where somebody
/// asked, what it does sustain.
namespace tessera::solver {

/// Engines of a model on devices of a node, or on whole nodes.
struct FleetColumn {
  std::size_t model = 0, node_class = 0;
  std::int64_t nodes = 1;             ///< more than one: whole ones
  std::vector<std::int64_t> devices;  ///< [device of the class's node] 1 where one of it is taken
  std::size_t engine = 0;             ///< columns of alike nodes have the same
  /// Of a pair of pools, the same of its prefill engines; those of the others decode.
  std::vector<std::int64_t> prefill_devices = {};
};

/// What an engine does with a class of requests alone.
struct ServedClass {
  std::size_t search = 0;
  std::shared_ptr<PricedConfiguration> priced;  ///< null: it cannot serve them within their SLO
  double bound_per_s = 0;                       ///< that no run of it passes
  /// What steps of one list take on it, the same list for all engines of the class, if it has one
  /// stage.
  std::vector<double> step_s = {};
  double rate_per_s = 0;        ///< that it sustains within the SLO, once it is known
  std::string limited_by = {};  ///< what breaks above
};

/// Pools of prefill and decode engines on a node, which serve together.
struct EnginePair {
  PoolPair pools;
  std::shared_ptr<const serving::MaxRate> found = {};  ///< null: not simulated, or no rate
};

/// A configuration on a kind of node, or a pair of pools.
struct FleetEngine {
  std::vector<ServedClass> classes;       ///< of requests of its model
  bool is_known = false;                  ///< simulated
  std::string label = {};                 ///< of one that somebody gave, which has no configuration
  std::shared_ptr<EnginePair> pair = {};  ///< in the place of a configuration

  /// Of each class, what it sustains where that is known, else at most.
  std::vector<double> most_per_s() const;
  bool is_given() const { return !label.empty(); }
  /// The configuration, with the limits that it has for all classes once it is known.
  /// @throws Error{internal} of one that was given, and of a pair
  const PricedConfiguration& configuration() const;
  /// The engines of a replica: one, or those of the pools of a pair. @throws Error{internal} of one
  /// that was given
  std::vector<DeploymentPart> parts() const;
  std::string name() const;
};

/// A kind of replica of somebody else, with the rate that they say it sustains.
struct GivenColumn {
  std::size_t model = 0, node_class = 0;
  std::map<std::string, std::int64_t> devices;  ///< of a node, by the names of their types
  std::vector<double> rate_per_s;               ///< of each class of requests
  std::string label;
};

class FleetColumns {
 public:
  /// Prices the steps of every configuration of each model on each class: nothing is simulated.
  /// @param poll as of set_poll @throws Error{invalid_argument} as
  /// ServingSearch, naming models by `path`
  FleetColumns(std::vector<NamedModel> models, const std::vector<NodeKind>& classes,
               const DataFolders& folders, const std::string& path,
               std::function<void()> poll = {});
  ~FleetColumns();

  const std::vector<NamedModel>& models() const { return models_; }
  const std::vector<FleetColumn>& columns() const { return columns_; }
  const FleetEngine& engine_of(const FleetColumn& column) const { return engines_[column.engine]; }
  /// That may be simulated, or were.
  std::size_t num_engines() const { return engines_.size() - num_given_; }
  /// @param its the class that it is on @throws Error{invalid_argument} where a node of it has not
  /// as many devices
  void add_given(const GivenColumn& column, const NodeKind& its, const std::string& path);
  /// Of each class of requests.
  const std::vector<double>& demand_per_s(std::size_t model) const { return demand_per_s_[model]; }
  std::int64_t num_simulated() const { return num_simulated_; }
  /// Why nothing holds a model, or keeps to its SLO: the nearest of what was refused; of each cause
  /// a line.
  std::string why_none(std::size_t model) const;
  /// What was given up for it: the default bound on quality; empty where nothing was.
  const std::string& note(std::size_t model) const { return notes_[model]; }

  /// Who is asked during simulations from now on; may throw.
  void set_poll(std::function<void()> poll) { *poll_ = std::move(poll); }

  /// Finds what the engine of a column sustains of each class of requests alone, with the same
  /// limits of a step for all, where that is not known, and bounds by it those that are slower in
  /// every step and hold no more. Says whether it was not.
  bool simulate(std::size_t column);

 private:
  struct Search;
  struct Kind;
  const Kind& kind_of(std::size_t model, const NodeKind& its);
  void add_kind(std::size_t model, const ServingRequest& request, const NodeKind& its,
                std::int64_t nodes, Kind& kind);
  void add_class(std::size_t model, std::size_t its_class, ServingRequest request,
                 const NodeKind& its, std::int64_t nodes, Kind& kind);
  void add_pairs(Search& held, const std::vector<BestOfType>& types, const NodeKind& its,
                 Kind& kind);
  void simulate_class(ServedClass& served);
  void add_model(std::size_t model, const std::vector<NodeKind>& classes);
  void bound_slower(std::size_t model, std::size_t its_class, const ServedClass& known,
                    const Configuration& limits);

  std::shared_ptr<std::function<void()>> poll_ = std::make_shared<std::function<void()>>();
  std::vector<NamedModel> models_;
  const DataFolders& folders_;
  std::string path_;
  std::vector<std::vector<double>> demand_per_s_;
  std::vector<std::unique_ptr<Search>> searches_;
  std::vector<std::unique_ptr<Kind>> kinds_;
  std::vector<FleetEngine> engines_;
  std::vector<FleetColumn> columns_;
  std::vector<std::vector<Refusal>> refusals_;  ///< [model]
  std::vector<std::string> notes_;
  std::int64_t num_simulated_ = 0;
  std::size_t num_given_ = 0;
};

}  // namespace tessera::solver
