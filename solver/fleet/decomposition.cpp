#include "decomposition.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "restriction.h"
#include "tessera/solver/mip/cbc.h"

namespace tessera::solver {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

/// Sets that are joined (union by find).
class Joined {
 public:
  explicit Joined(std::size_t size) : parent_(size) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  std::size_t find(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(std::size_t a, std::size_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<std::size_t> parent_;
};

}  // namespace

Decomposition::Decomposition(const LinearModel& model,
                             const std::vector<FleetProgramme::Decision>& decisions)
    : whole_(model) {
  find_blocks(decisions);
}

void Decomposition::find_blocks(const std::vector<FleetProgramme::Decision>& decisions) {
  constexpr std::size_t kAuxiliary = static_cast<std::size_t>(-1);
  std::vector<std::size_t> model_of(whole_.columns.size(), kAuxiliary);
  for (const FleetProgramme::Decision& d : decisions) model_of[d.column] = d.model;
  Joined joined(whole_.columns.size());
  std::vector<char> is_shared(whole_.rows.size(), 0);
  for (std::size_t r = 0; r < whole_.rows.size(); ++r) {
    const auto& terms = whole_.rows[r].terms;
    std::set<std::size_t> models;
    for (const auto& [column, factor] : terms) {
      if (model_of[column] != kAuxiliary) models.insert(model_of[column]);
    }
    is_shared[r] = models.size() > 1;
    if (is_shared[r] != 0) continue;
    for (const auto& [column, factor] : terms) joined.join(column, terms.front().first);
  }
  std::map<std::size_t, std::size_t> block_of;
  for (const FleetProgramme::Decision& d : decisions) {
    block_of.emplace(joined.find(d.column), block_of.size());
  }
  blocks_.resize(block_of.size());
  std::vector<std::size_t> place(whole_.columns.size(), kAuxiliary);
  for (std::size_t c = 0; c < whole_.columns.size(); ++c) {
    const auto found = block_of.find(joined.find(c));
    if (found == block_of.end()) {
      place[c] = loose_.size();
      loose_.push_back(c);
      continue;
    }
    Block& block = blocks_[found->second];
    place[c] = block.columns.size();
    block.columns.push_back(c);
    block.model.columns.push_back(whole_.columns[c]);
  }
  for (Block& block : blocks_) block.shared.resize(block.columns.size());
  loose_shared_.resize(loose_.size());
  for (std::size_t r = 0; r < whole_.rows.size(); ++r) {
    const LinearModel::Row& row = whole_.rows[r];
    if (row.terms.empty()) continue;
    const auto first = block_of.find(joined.find(row.terms.front().first));
    if (is_shared[r] == 0 && first != block_of.end()) {
      LinearModel::Row own{row.low, row.high, {}, {}};
      for (const auto& [column, factor] : row.terms) own.terms.emplace_back(place[column], factor);
      blocks_[first->second].model.rows.push_back(std::move(own));
      continue;
    }
    const std::size_t shared = shared_.size();
    shared_.push_back(r);
    for (const auto& [column, factor] : row.terms) {
      const auto block = block_of.find(joined.find(column));
      auto& list = block == block_of.end() ? loose_shared_[place[column]]
                                           : blocks_[block->second].shared[place[column]];
      list.emplace_back(shared, factor);
    }
  }
}

Decomposition::Proposal Decomposition::proposal_of(std::size_t b,
                                                   const std::vector<double>& x) const {
  Proposal proposal;
  proposal.block = b;
  std::map<std::size_t, double> usage;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == 0) continue;
    proposal.cost += blocks_[b].model.columns[i].cost * x[i];
    for (const auto& [row, factor] : blocks_[b].shared[i]) usage[row] += factor * x[i];
  }
  proposal.usage.assign(usage.begin(), usage.end());
  return proposal;
}

// What a solution of the whole proposes for a block: its replicas, and what else belongs to them.
std::optional<Decomposition::Proposal> Decomposition::settled(std::size_t b,
                                                              const std::vector<double>& x,
                                                              const Limits& limits) const {
  std::vector<double> own;
  for (const std::size_t c : blocks_[b].columns) own.push_back(x[c]);
  const Restriction rest(blocks_[b].model, own);
  if (rest.model().columns.empty()) return proposal_of(b, own);
  MipLimits mip;
  mip.time_limit_s = 1;
  mip.should_stop = limits.should_stop;
  const MipResult result = solve_mip(rest.model(), mip);
  if (!result.x) return std::nullopt;
  return proposal_of(b, rest.expand(*result.x));
}

double Decomposition::clamped(std::size_t shared, double price) const {
  const LinearModel::Row& row = whole_.rows[shared_[shared]];
  if (row.high >= kNone) price = std::max(0.0, price);
  if (row.low <= -kNone) price = std::min(0.0, price);
  return price;
}

std::vector<double> Decomposition::master_prices(const Limits& limits, double& value) const {
  constexpr double kDear = 1e4;  // of a row that nothing keeps; costs are at most 1 a column
  LinearModel master;
  for (const std::size_t r : shared_) master.add_row(whole_.rows[r].low, whole_.rows[r].high, {});
  for (std::size_t s = 0; s < shared_.size(); ++s) {
    master.rows[s].terms.emplace_back(master.add_column(0, kFree, kDear), 1);
    master.rows[s].terms.emplace_back(master.add_column(0, kFree, kDear), -1);
  }
  for (std::size_t i = 0; i < loose_.size(); ++i) {
    const LinearModel::Column& c = whole_.columns[loose_[i]];
    const std::size_t column = master.add_column(c.low, c.high, c.cost);
    for (const auto& [row, factor] : loose_shared_[i])
      master.rows[row].terms.emplace_back(column, factor);
  }
  std::vector<std::size_t> one_of;
  for (std::size_t b = 0; b < blocks_.size(); ++b) one_of.push_back(master.add_row(1, 1, {}));
  for (const Proposal& proposal : proposals_) {
    const std::size_t column = master.add_column(0, kFree, proposal.cost);
    master.rows[one_of[proposal.block]].terms.emplace_back(column, 1);
    for (const auto& [row, amount] : proposal.usage)
      master.rows[row].terms.emplace_back(column, amount);
  }
  LpSolver lp(master, limits.should_stop);
  const LpSolver::Solution solution = lp.minimise();
  if (solution.outcome != LpSolver::Outcome::optimal) return {};
  value = solution.objective;
  std::vector<double> prices = lp.row_prices();
  prices.resize(shared_.size());
  return prices;
}

// The bound that prices give, and the proposals that come of it.
double Decomposition::priced(const std::vector<double>& prices, const Limits& limits) {
  constexpr double kBlockTime_s = 5;
  double bound = whole_.constant;
  for (std::size_t s = 0; s < shared_.size(); ++s) {
    const LinearModel::Row& row = whole_.rows[shared_[s]];
    if (prices[s] != 0) bound += prices[s] * (prices[s] < 0 ? row.high : row.low);
  }
  const auto reduced = [&](double cost, const std::vector<LinearModel::Term>& shared) {
    for (const auto& [row, factor] : shared) cost -= prices[row] * factor;
    return cost;
  };
  for (std::size_t i = 0; i < loose_.size(); ++i) {
    const LinearModel::Column& c = whole_.columns[loose_[i]];
    const double cost = reduced(c.cost, loose_shared_[i]);
    if (cost != 0) bound += cost * (cost < 0 ? c.high : c.low);
  }
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    LinearModel model = blocks_[b].model;
    for (std::size_t i = 0; i < model.columns.size(); ++i) {
      model.columns[i].cost = reduced(model.columns[i].cost, blocks_[b].shared[i]);
    }
    MipLimits mip;
    mip.time_limit_s = kBlockTime_s;
    mip.relative_gap = 1e-4;
    mip.should_stop = limits.should_stop;
    const MipResult result = solve_mip(model, mip);
    bound += result.bound;
    if (result.x) proposals_.push_back(proposal_of(b, *result.x));
  }
  return bound;
}

void Decomposition::run(const std::vector<double>& x, std::vector<double> prices,
                        const Limits& limits) {
  constexpr double kOld = 0.6;  // of the best prices so far, which keeps new ones from swinging
  constexpr int kMostRounds = 300;
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration<double>(limits.time_limit_s);
  Limits inner = limits;
  inner.should_stop = [&] { return limits.should_stop() || Clock::now() > until; };
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    if (auto proposal = settled(b, x, inner)) proposals_.push_back(std::move(*proposal));
  }
  std::vector<double> center;
  for (std::size_t s = 0; s < shared_.size(); ++s) {
    center.push_back(clamped(s, shared_[s] < prices.size() ? prices[shared_[s]] : 0));
  }
  double best = -kNone;
  std::vector<double> tried = center;
  for (int round = 0; round < kMostRounds && !inner.should_stop(); ++round) {
    const double bound = priced(tried, inner);
    if (std::isfinite(bound) && bound > best) {
      best = bound;
      center = tried;
      limits.on_bound(best);
    }
    double value = 0;
    const std::vector<double> fresh = master_prices(inner, value);
    if (fresh.empty() || value - best <= 1e-5 * std::max(1.0, std::abs(value))) return;
    for (std::size_t s = 0; s < tried.size(); ++s) {
      tried[s] = clamped(s, kOld * center[s] + (1 - kOld) * fresh[s]);
    }
  }
}

}  // namespace tessera::solver
