#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "packing.h"
#include "programme.h"
#include "space.h"
#include "tessera/solver/fleet/fleet.h"
#include "tessera/solver/fleet/master.h"

namespace tessera::solver {

/// Time and the wish to stop, asked from everywhere.
class SearchClock {
 public:
  SearchClock(double time_limit_s, const std::function<bool()>& should_stop)
      : limit_s_(time_limit_s), should_stop_(should_stop) {}

  double elapsed_s() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  double left_s() const { return limit_s_ - elapsed_s(); }
  bool should_stop() {
    if (!interrupted_ && should_stop_ && should_stop_()) interrupted_ = true;
    if (!late_ && elapsed_s() > limit_s_) late_ = true;
    return interrupted_ || late_;
  }
  bool interrupted() const { return interrupted_; }
  bool late() const { return late_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double limit_s_;
  const std::function<bool()>& should_stop_;
  bool interrupted_ = false, late_ = false;
};

/// One call of FleetMaster::solve.
class FleetSearch {
 public:
  FleetSearch(const FleetInstance& instance, const FleetOptions& options, SearchClock& clock);

  FleetAnswer run(const FleetPlacement& start);
  FleetRelaxation relaxed();

 private:
  bool maximises() const { return instance_.objective == FleetObjective::rate; }
  /// Whether `a` is the better objective.
  bool is_better(double a, double b) const { return maximises() ? a > b : a < b; }
  double gap() const;
  bool is_good_enough() const;

  bool offer(const FleetPlacement& placement, const char* found_by);
  bool offer_counts(const FleetProgramme& programme, const FleetCounts& counts,
                    const char* found_by);
  void raise_bound(double bound);
  double rounded_bound(const FleetProgramme& programme, double bound) const;

  bool solve_relaxation(const FleetProgramme& programme);
  void read_prices(const FleetProgramme& programme, const std::vector<double>& row_prices);
  void round_up(const FleetProgramme& programme);
  void round_by_rule(const FleetProgramme& programme);
  /// The programme with some columns settled. True where it was searched to its end, or to the gap
  /// that is asked for.
  struct Effort {
    double until_s = 0;
    std::optional<std::int64_t> max_nodes = {};
    bool is_whole = false;  ///< only columns that cannot be better are settled: its bound counts
    const char* name = "";
    const FleetCounts* start = nullptr;          ///< absent: the best placement
    const std::vector<double>* least = nullptr;  ///< [column] of what is not settled
  };
  struct Part {
    bool finished = false;
    std::optional<FleetCounts> counts = {};  ///< of what was found and packed
    double value = 0;                        ///< of the programme
  };
  Part solve_part(const FleetProgramme& programme, const std::vector<double>& settled,
                  const Effort& effort);
  bool solve_programme(const FleetProgramme& programme, double share_of_time, bool again);
  std::int64_t num_improved_ = 0;  ///< calls of improve, which draw otherwise each time
  void solve_core(const FleetProgramme& programme, double until_s);
  void improve(const FleetProgramme& programme, double until_s);
  void bound_by_models(double until_s);
  std::vector<double> settled_by_price(const FleetProgramme& programme, double worse_by) const;
  double value_of(const FleetProgramme& programme, double objective) const;
  FleetAnswer answer(FleetStatus status);
  FleetStatus status();
  std::vector<std::string> notes() const;
  ProgrammeOptions by_node() const;
  std::size_t size_by_node() const;
  std::optional<ProgrammeOptions> with_patterns() const;
  bool needs_nodes() const;

  const FleetInstance& instance_;
  const FleetOptions& options_;
  SearchClock& clock_;
  FleetSpace space_;
  std::optional<double> objective_, bound_;
  FleetPlacement best_;
  std::vector<double> relaxed_, column_prices_;  ///< of the last linear programme
  std::vector<double> row_prices_;
  double relaxed_value_ = 0;  ///< its value
  FleetAnswer prices_;        ///< its dual prices
  bool proven_infeasible_ = false;
  bool unpacked_ = false;  ///< a solution of the programme fits in sum only
};

/// What an instance lacks that has no placement.
FleetLack explain_lack(const FleetInstance& instance, SearchClock& clock);

}  // namespace tessera::solver
