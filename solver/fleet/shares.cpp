#include "tessera/solver/fleet/shares.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "serve.h"

namespace tessera::solver {
namespace {

constexpr double kNothing = 1e-9;  // of a replica's time, what is rounding

/// The classes of requests that replicas of a kind serve, one after the other along all of their
/// time: the first replica takes from the first class until it is as full as all are.
class Filling {
 public:
  Filling(const Servers& servers, std::vector<double> time)
      : servers_(servers), time_(std::move(time)) {
    for (double& each : time_) {
      if (each < kNothing) each = 0;
      full_ += each;
      each *= servers.copies;
    }
  }

  /// Requests/s of each class that the next replica serves.
  std::vector<double> next() {
    std::vector<double> rate(time_.size(), 0);
    double left = full_;
    for (std::size_t b = 0; b < time_.size() && left > 0; ++b) {
      double taken = std::min(left, time_[b]);
      // What is left over of a class by rounding is no reason to serve a second one.
      if (time_[b] - taken < kNothing * servers_.copies) taken = time_[b];
      time_[b] -= taken;
      left -= taken;
      rate[b] = taken * (*servers_.rate)[b];
      if (left < kNothing) break;
    }
    return rate;
  }

 private:
  Servers servers_;
  std::vector<double> time_;
  double full_ = 0;  ///< of the time of each
};

/// Equal but for rounding.
bool are_alike(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
    return std::abs(x - y) <= kNothing * std::max(std::abs(x), std::abs(y));
  });
}

bool is_on(const ReplicaRow& row, const std::optional<std::int64_t>& node) {
  return node && std::find(row.nodes.begin(), row.nodes.end(), *node) != row.nodes.end();
}

}  // namespace

std::vector<ReplicaShares> shares_of(const SolvedFleet& fleet,
                                     std::optional<std::int64_t> lost_node) {
  const FleetInstance& instance = fleet.instance;
  const std::vector<ReplicaRow> rows = replica_rows(fleet);
  std::map<std::size_t, double> copies;  // by column
  for (const ReplicaRow& row : rows) {
    if (!is_on(row, lost_node)) copies[row.column] += static_cast<double>(row.count);
  }
  std::map<std::size_t, Filling> fillings;  // by column
  for (std::size_t m = 0; m < instance.models.size(); ++m) {
    std::vector<Servers> servers;
    std::vector<std::size_t> columns;
    for (const auto& [column, count] : copies) {
      if (instance.columns[column].model != m) continue;
      servers.push_back({count, &instance.columns[column].rate});
      columns.push_back(column);
    }
    SharedTime shared = shared_time(servers, instance.models[m].demand);
    for (std::size_t k = 0; k < columns.size(); ++k) {
      fillings.emplace(columns[k], Filling(servers[k], std::move(shared.share[k])));
    }
  }
  std::vector<ReplicaShares> list;
  std::map<std::size_t, std::vector<double>> served;  // by model, of each class
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (is_on(rows[r], lost_node)) continue;
    const std::size_t model = instance.columns[rows[r].column].model;
    std::vector<double>& all = served[model];
    all.resize(instance.models[model].demand.size(), 0);
    for (std::int64_t i = 0; i < rows[r].count; ++i) {
      std::vector<double> rate = fillings.at(rows[r].column).next();
      for (std::size_t b = 0; b < all.size(); ++b) all[b] += rate[b];
      if (!list.empty() && list.back().row == r && are_alike(list.back().share, rate)) {
        ++list.back().count;
      } else {
        list.push_back({r, 1, std::move(rate)});
      }
    }
  }
  for (ReplicaShares& each : list) {
    const std::vector<double>& all = served[instance.columns[rows[each.row].column].model];
    for (std::size_t b = 0; b < all.size(); ++b) {
      if (all[b] > 0) each.share[b] /= all[b];
    }
  }
  return list;
}

}  // namespace tessera::solver
