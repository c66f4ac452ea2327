#include "ilp/coin_model.h"

#include <CoinPackedMatrix.hpp>
#include <algorithm>

namespace tessera::solver {
namespace {

double bounded(double value) { return std::clamp(value, -COIN_DBL_MAX, COIN_DBL_MAX); }

CoinPackedMatrix matrix_of(const LinearModel& model) {
  std::vector<int> row, column;
  std::vector<double> value;
  for (std::size_t r = 0; r < model.rows.size(); ++r) {
    for (const auto& [c, coefficient] : model.rows[r].terms) {
      if (coefficient == 0) continue;
      row.push_back(static_cast<int>(r));
      column.push_back(static_cast<int>(c));
      value.push_back(coefficient);
    }
  }
  // Adds up terms that name a column twice.
  CoinPackedMatrix matrix(true, row.data(), column.data(), value.data(),
                          static_cast<CoinBigIndex>(value.size()));
  matrix.setDimensions(static_cast<int>(model.rows.size()), static_cast<int>(model.columns.size()));
  return matrix;
}

}  // namespace

void load(const LinearModel& model, OsiClpSolverInterface& solver) {
  std::vector<double> low, high, cost, row_low, row_high;
  for (const LinearModel::Column& c : model.columns) {
    low.push_back(bounded(c.low));
    high.push_back(bounded(c.high));
    cost.push_back(c.cost);
  }
  for (const LinearModel::Row& r : model.rows) {
    row_low.push_back(bounded(r.low));
    row_high.push_back(bounded(r.high));
  }
  solver.messageHandler()->setLogLevel(0);
  solver.getModelPtr()->setLogLevel(0);
  solver.loadProblem(matrix_of(model), low.data(), high.data(), cost.data(), row_low.data(),
                     row_high.data());
  for (std::size_t i = 0; i < model.columns.size(); ++i) {
    if (model.columns[i].integer) solver.setInteger(static_cast<int>(i));
  }
  solver.setHintParam(OsiDoReducePrint, true, OsiHintTry);
}

}  // namespace tessera::solver
