// FlexGen's linear programme: which share of what lives where, over all stages of a pipeline.

#include "tessera/solver/ilp/offload_lp.h"

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/solver/mip/cbc.h"
#include "tessera/solver/offload/offload.h"

namespace tessera::solver {
namespace {

// The programme's own tolerance must not show as memory overrun: rows hold this much less.
constexpr double kRoom = 1 - 1e-7;

class OffloadLp {
 public:
  explicit OffloadLp(const OffloadModel& model) {
    const double blocks = model.num_blocks;
    latency_ = lp_.add_column(0, kFree, 1);
    prefill_max_ = lp_.add_column(largest(model.prefill_link_s), kFree);
    decode_max_ = lp_.add_column(largest(model.decode_link_s), kFree);
    round_ = lp_.add_column(0, kFree);
    // One round of tokens: the slowest stage for every block, or one block through all stages.
    lp_.add_row(0, kFree, {{round_, 1}, {decode_max_, -blocks}});
    std::vector<LinearModel::Term> through{{round_, 1}};
    std::vector<LinearModel::Term> latency{
        {latency_, 1}, {prefill_max_, 1 - blocks}, {round_, -model.decode_steps}};
    std::vector<std::vector<LinearModel::Term>> hosts(model.host_bytes.size());
    for (const OffloadStage& stage : model.stages) {
      const Columns c = add_stage(stage);
      through.push_back({c.decode, -1});
      latency.push_back({c.prefill, -1});
      hosts[stage.node_index].push_back({c.host, 1});
    }
    lp_.add_row(0, kFree, through);
    lp_.add_row(0, 0, latency);
    for (std::size_t n = 0; n < hosts.size(); ++n) {
      if (!hosts[n].empty()) lp_.add_row(-kFree, model.host_bytes[n] * kRoom / kGiB, hosts[n]);
    }
  }

  std::optional<std::vector<StageOffload>> solve() const {
    LpSolver solver(lp_, [] { return false; });
    const LpSolver::Solution solution = solver.minimise();
    if (solution.outcome == LpSolver::Outcome::infeasible) return std::nullopt;
    if (solution.outcome == LpSolver::Outcome::failed)
      throw Error(ErrorCode::solver, "CLP did not finish FlexGen's linear programme");
    std::vector<double> x = solver.values();
    keep_on_devices(solver, solution.objective, x);
    std::vector<StageOffload> shares;
    for (const std::size_t first : first_share_) {
      StageOffload s;
      s.weights = ratios(&x[first + wg]);
      s.kv_cache = ratios(&x[first + cg]);
      s.activations = ratios(&x[first + hg]);
      shares.push_back(s);
    }
    return shares;
  }

 private:
  struct Columns {
    std::size_t prefill = 0, decode = 0, host = 0;
  };

  static double largest(const std::vector<double>& values) {
    return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  }

  /// Many shares have the least latency; of those, the ones that move least off the devices.
  void keep_on_devices(LpSolver& solver, double latency, std::vector<double>& x) const {
    solver.clear_costs();
    solver.set_bounds(latency_, 0, latency * (1 + 1e-9));
    for (const std::size_t first : first_share_) {
      for (const std::size_t device_share : {wg, cg, hg}) {
        solver.set_cost(first + device_share + 1, 1);
        solver.set_cost(first + device_share + 2, 2);
      }
    }
    if (solver.minimise().outcome == LpSolver::Outcome::optimal) x = solver.values();
  }

  Columns add_stage(const OffloadStage& stage) {
    const std::size_t first = lp_.columns.size();
    first_share_.push_back(first);
    for (std::size_t i = 0; i < kOffloadShares; ++i) {
      const bool on_disk = i == wd || i == cd || i == hd;
      lp_.add_column(0, on_disk && !stage.has_disk ? 0 : 1);
    }
    for (const std::size_t device_share : {wg, cg, hg})
      lp_.add_row(1, 1,
                  {{first + device_share, 1},
                   {first + device_share + 1, 1},
                   {first + device_share + 2, 1}});
    const std::size_t prefill = lp_.add_column(0, kFree), decode = lp_.add_column(0, kFree);
    const std::size_t host = lp_.add_column(0, kFree);
    for (const OffloadTerm& t : stage.prefill) at_least(prefill, t, stage.prefill_end_s, first, 1);
    for (const OffloadTerm& t : stage.decode) at_least(decode, t, stage.decode_end_s, first, 1);
    lp_.add_row(0, kFree, {{prefill_max_, 1}, {prefill, -1}});
    lp_.add_row(0, kFree, {{decode_max_, 1}, {decode, -1}});
    for (const OffloadTerm* t : {&stage.host_prefill, &stage.host_decode})
      at_least(host, *t, 0, first, 1 / kGiB);
    for (const OffloadTerm* t : {&stage.device_prefill, &stage.device_decode}) {
      LinearModel::Row row{-kFree, (stage.usable_bytes * kRoom - t->constant) / kGiB, {}, {}};
      for (std::size_t i = 0; i < kOffloadShares; ++i)
        row.terms.emplace_back(first + i, t->slope[i] / kGiB);
      lp_.rows.push_back(row);
    }
    return {prefill, decode, host};
  }

  /// column >= scale * term + added.
  void at_least(std::size_t column, const OffloadTerm& term, double added, std::size_t first,
                double scale) {
    LinearModel::Row row{scale * term.constant + added, kFree, {{column, 1}}, {}};
    for (std::size_t i = 0; i < kOffloadShares; ++i)
      row.terms.emplace_back(first + i, -scale * term.slope[i]);
    lp_.rows.push_back(row);
  }

  /// Without the programme's rounding: in [0, 1], summing to one.
  static TierRatios ratios(const double* x) {
    TierRatios r;
    const auto clean = [](double value) { return value < 1e-9 ? 0.0 : std::min(value, 1.0); };
    r.host = clean(x[1]);
    r.disk = std::min(clean(x[2]), 1 - r.host);
    r.device = 1 - r.host - r.disk;
    return r;
  }

  LinearModel lp_;
  std::vector<std::size_t> first_share_;
  std::size_t latency_ = 0, prefill_max_ = 0, decode_max_ = 0, round_ = 0;
};

}  // namespace

std::optional<std::vector<StageOffload>> best_offload(const OffloadModel& model) {
  return OffloadLp(model).solve();
}

}  // namespace tessera::solver
