#include "restriction.h"

#include <cmath>

namespace tessera::solver {

Restriction::Restriction(const LinearModel& model, const std::vector<double>& settled)
    : settled_(settled) {
  std::vector<std::size_t> place(model.columns.size());
  left_.constant = model.constant;
  for (std::size_t c = 0; c < model.columns.size(); ++c) {
    if (std::isnan(settled[c])) {
      place[c] = column_.size();
      column_.push_back(c);
      left_.columns.push_back(model.columns[c]);
    } else {
      left_.constant += model.columns[c].cost * settled[c];
    }
  }
  for (const LinearModel::Row& row : model.rows) {
    LinearModel::Row left;
    double taken = 0;
    for (const auto& [column, factor] : row.terms) {
      if (std::isnan(settled[column])) {
        left.terms.emplace_back(place[column], factor);
      } else {
        taken += factor * settled[column];
      }
    }
    left.low = row.low - taken;
    left.high = row.high - taken;
    if (left.terms.empty()) {
      possible_ = possible_ && left.low <= 1e-9 && left.high >= -1e-9;
    } else {
      left_.rows.push_back(std::move(left));
    }
  }
}

std::vector<double> Restriction::restrict(const std::vector<double>& x) const {
  std::vector<double> left;
  for (const std::size_t c : column_) left.push_back(x[c]);
  return left;
}

std::vector<double> Restriction::expand(const std::vector<double>& x) const {
  std::vector<double> whole = settled_;
  for (std::size_t i = 0; i < column_.size(); ++i) whole[column_[i]] = x[i];
  return whole;
}

}  // namespace tessera::solver
