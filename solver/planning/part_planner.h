#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parts.h"
#include "splits.h"

namespace tessera::solver {

/// A split with a plan of each part; parts that are alike share one, made on the first one's
/// devices.
struct Sharing {
  Split split;
  std::vector<std::int64_t> shares;  ///< [part] requests
  std::vector<std::shared_ptr<const Plan>> plans;

  /// The objective of the worst part.
  double worst() const;
  /// The objective of all: the worst part's seconds with the worst part's quality.
  double together() const;
};

/// Plans of parts of the cluster, by what the part holds and its share of the batch, each made
/// once.
class PartPlanner {
 public:
  PartPlanner(const OpenProblem& whole, const PlanOptions& options, const PlanPart& plan_part)
      : whole_(whole), options_(options), plan_part_(plan_part), clock_(options) {}

  const PlanningClock& clock() const { return clock_; }
  bool late() const { return clock_.late(); }
  /// Whether everything so far is proven, and what it took otherwise.
  bool proven() const { return proven_; }
  void leave_unproven() { proven_ = false; }
  void run_out_of_time();
  std::optional<PlanStop> stopped_by() const { return stopped_by_; }

  /// The plan of a share of the batch on a part of the cluster; null where none is below the
  /// cutoff.
  std::shared_ptr<const Plan> plan(const ClusterPart& part, std::int64_t share, double cutoff);

  /// Whether there is any plan below the cutoff, which is soon told.
  bool serves(const ClusterPart& part, std::int64_t share, double cutoff);

  /// The largest share, at most `high`, of which a part has a plan below the cutoff, where its
  /// objective does not fall with the share; 0: none.
  std::int64_t largest_share(const ClusterPart& part, std::int64_t high, double cutoff);

  /// The plan of a share that was found, on exactly these devices.
  Plan standing_on(const ClusterPart& part, std::int64_t share);

  NoPlan why_none() const;

 private:
  struct Known {
    std::shared_ptr<const Plan> plan;
    std::vector<std::size_t> devices;         ///< that the plan stands on
    std::optional<double> at_least, at_most;  ///< of the best objective
  };
  /// The largest share of which some plan is below a cutoff.
  struct MostServed {
    double cutoff = 0;
    std::int64_t share = 0;
  };

  PlanOutcome make(const ClusterPart& part, std::int64_t share, double cutoff, double time_limit_s,
                   std::optional<double> gap) const;
  std::shared_ptr<const Plan> ask(const ClusterPart& part, std::int64_t share, double cutoff,
                                  std::optional<double> gap);

  const OpenProblem& whole_;
  const PlanOptions& options_;
  const PlanPart& plan_part_;
  PlanningClock clock_;
  std::map<std::pair<std::string, std::int64_t>, Known> known_;
  std::map<std::string, MostServed> most_served_;  ///< of the last cutoff that was asked for
  bool proven_ = true;
  std::optional<NoPlan> stopped_, why_;
  std::optional<PlanStop> stopped_by_;
};

/// Shares in proportion to what each part could serve, which sum to the batch.
std::vector<std::int64_t> in_proportion(const std::vector<std::int64_t>& most, std::int64_t batch);

}  // namespace tessera::solver
