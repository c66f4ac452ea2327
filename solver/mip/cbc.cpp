// The only file that sees COIN-OR.

#include "tessera/solver/mip/cbc.h"

#include <fmt/format.h>

#include <CbcEventHandler.hpp>
#include <CbcModel.hpp>
#include <CbcSolver.hpp>
#include <ClpEventHandler.hpp>
#include <ClpPrimalColumnDantzig.hpp>
#include <ClpSimplex.hpp>
#include <CoinError.hpp>
#include <CoinMpsIO.hpp>
#include <CoinPackedMatrix.hpp>
#include <OsiClpSolverInterface.hpp>
#include <algorithm>
#include <cmath>
#include <exception>
#include <string>

#include "tessera/core/error.h"

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
  // CLP's own choice, steepest edge, keeps a list of infeasible columns beside the reduced costs
  // and asserts that both agree. With costs near its tolerance (omega of a high bitwidth) they
  // drift apart. Dantzig's rule reads the reduced costs themselves; the primal simplex only cleans
  // up.
  ClpPrimalColumnDantzig pricing;
  solver.getModelPtr()->setPrimalColumnPivotAlgorithm(pricing);
  solver.loadProblem(matrix_of(model), low.data(), high.data(), cost.data(), row_low.data(),
                     row_high.data());
  for (std::size_t i = 0; i < model.columns.size(); ++i) {
    if (model.columns[i].integer) solver.setInteger(static_cast<int>(i));
  }
  solver.setHintParam(OsiDoReducePrint, true, OsiHintTry);
}

// CBC clones its handlers, so what they share lives outside. Nothing is thrown through CBC: an
// exception is kept here, the search stops, and solve_mip throws it again.
struct Watch {
  const MipLimits* limits = nullptr;
  std::exception_ptr failure;
  int num_columns = 0;
  bool stopped = false;
  double best = kFree;
  double bound = -kFree;  ///< last one before anything was cut short

  bool should_stop() {
    stopped = stopped || (limits->should_stop && limits->should_stop());
    return stopped;
  }
};

// One linear programme of a large model takes longer than a user waits, so each can be cut short.
class LpHandler : public ClpEventHandler {
 public:
  explicit LpHandler(std::function<bool()> should_stop) : should_stop_(std::move(should_stop)) {}
  ClpEventHandler* clone() const override { return new LpHandler(*this); }

  int event(Event which) override {
    constexpr int kContinue = -1, kStopped = 5;
    const bool look = which == endOfIteration || which == endOfFactorization;
    return look && should_stop_() ? kStopped : kContinue;
  }

 private:
  std::function<bool()> should_stop_;
};

class Handler : public CbcEventHandler {
 public:
  explicit Handler(Watch* watch) : watch_(watch) {}
  CbcEventHandler* clone() const override { return new Handler(*this); }

  CbcAction event(CbcEvent which) override {
    if (watch_->failure) return stop;
    try {
      if (watch_->should_stop()) return stop;
      if (is_main_model(*getModel())) {
        if (which == node) {
          watch_->bound = std::max(watch_->bound, getModel()->getBestPossibleObjValue());
        }
        if (which == solution || which == heuristicSolution) report(*getModel());
      }
      return watch_->should_stop() ? stop : noAction;
    } catch (...) {
      watch_->failure = std::current_exception();
      return stop;
    }
  }

  CbcAction event(CbcEvent which, void*) override { return event(which); }

 private:
  // Heuristics of CBC search restricted copies of the model with the same handler; their bounds say
  // nothing about the whole, and their columns may be others.
  bool is_main_model(const CbcModel& model) const {
    constexpr int kSubmodel = 2048;
    return model.parentModel() == nullptr && (model.specialOptions() & kSubmodel) == 0 &&
           model.getNumCols() == watch_->num_columns;
  }

  void report(const CbcModel& model) {
    const double* x = model.bestSolution();
    if (x == nullptr || !watch_->limits->on_solution) return;
    const double objective = model.getObjValue();
    if (objective >= watch_->best) return;
    watch_->best = objective;
    const std::vector<double> values(x, x + model.getNumCols());
    watch_->limits->on_solution(values, watch_->bound);
  }

  Watch* watch_;
};

void set_limits(const LinearModel& model, const MipLimits& limits, CbcModel& cbc) {
  cbc.setLogLevel(0);
  cbc.messageHandler()->setLogLevel(0);
  cbc.setDblParam(CbcModel::CbcMaximumSeconds, std::max(1e-3, limits.time_limit_s));
  cbc.setUseElapsedTime(true);
  cbc.setAllowableGap(0);
  cbc.setAllowableFractionGap(limits.relative_gap);
  cbc.setDblParam(CbcModel::CbcCutoffIncrement, limits.least_improvement);
  if (limits.max_nodes) cbc.setMaximumNodes(static_cast<int>(*limits.max_nodes));
  if (limits.cutoff) cbc.setCutoff(*limits.cutoff - model.constant);
}

// CBC takes a start by column names, of which it completes what is left out.
void set_start(const LinearModel& model, const std::vector<double>& values, CbcModel& cbc) {
  std::vector<std::pair<std::string, double>> start;
  for (std::size_t i = 0; i < model.columns.size(); ++i) {
    const int column = static_cast<int>(i);
    if (!model.columns[i].integer || std::isnan(values[i])) continue;
    start.emplace_back(cbc.solver()->getColName(column), values[i]);
  }
  cbc.setMIPStart(start);
}

void run(CbcModel& cbc, bool preprocess) {
  // CbcMain1 is what sets up CBC's default cuts and heuristics. Its own preprocessing stays off for
  // formulations that are already reduced: callbacks then see the original columns.
  CbcSolverUsefulData data;
  data.noPrinting_ = true;
  data.useSignalHandler_ = false;
  CbcMain0(cbc, data);
  // A count that is whole to 1e-6 only is worth 1e-6 of a layer's time: too coarse for the proof.
  const char* arguments[] = {"cbc",
                             "-logLevel",
                             "0",
                             "-preprocess",
                             preprocess ? "on" : "off",
                             "-randomSeed",
                             "1",
                             "-integerTolerance",
                             "1e-9",
                             "-primalTolerance",
                             "1e-9",
                             "-dualTolerance",
                             "1e-9",
                             "-solve",
                             "-quit"};
  CbcMain1(
      static_cast<int>(std::size(arguments)), arguments, cbc, [](CbcModel*, int) { return 0; },
      data);
}

template <class Things>
std::vector<const char*> names_of(const Things& things) {
  std::vector<const char*> names;
  for (const auto& thing : things) names.push_back(thing.name.c_str());
  return names;
}

using Names = std::vector<const char*>;

int write_lp(const OsiClpSolverInterface& solver, const std::string& path, const Names& columns,
             const Names& rows) {
  constexpr int kTermsPerLine = 5, kDigits = 15;
  return solver.writeLpNative(path.c_str(), rows.data(), columns.data(), 1e-15, kTermsPerLine,
                              kDigits);
}

// Not the solver's own method, which compresses.
int write_mps(const OsiClpSolverInterface& solver, const std::string& path, const Names& columns,
              const Names& rows) {
  constexpr int kPlain = 0, kExtraAccuracy = 1, kValuesPerLine = 1;
  std::vector<char> integer(columns.size(), 0);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    integer[c] = solver.isInteger(static_cast<int>(c)) ? 1 : 0;
  }
  CoinMpsIO writer;
  writer.messageHandler()->setLogLevel(0);
  writer.setMpsData(*solver.getMatrixByCol(), solver.getInfinity(), solver.getColLower(),
                    solver.getColUpper(), solver.getObjCoefficients(), integer.data(),
                    solver.getRowLower(), solver.getRowUpper(), columns.data(), rows.data());
  writer.setProblemName("tessera");
  writer.setObjectiveName(rows.back());
  return writer.writeMps(path.c_str(), kPlain, kExtraAccuracy, kValuesPerLine);
}

double from_coin(double bound) {
  if (bound <= -COIN_DBL_MAX) return -kFree;
  return bound >= COIN_DBL_MAX ? kFree : bound;
}

}  // namespace

MipResult solve_mip(const LinearModel& model, const MipLimits& limits) {
  MipResult result;
  Watch watch;
  watch.limits = &limits;
  watch.num_columns = static_cast<int>(model.columns.size());
  try {
    OsiClpSolverInterface solver;
    load(model, solver);
    LpHandler lp_handler([&watch] { return watch.should_stop(); });
    solver.getModelPtr()->passInEventHandler(&lp_handler);
    CbcModel cbc(solver);
    set_limits(model, limits, cbc);
    if (limits.start) set_start(model, *limits.start, cbc);
    Handler handler(&watch);
    cbc.passInEventHandler(&handler);
    run(cbc, limits.preprocess);
    if (watch.failure) std::rethrow_exception(watch.failure);
    const double* x = cbc.bestSolution();
    if (x != nullptr) {
      result.x.emplace(x, x + model.columns.size());
      result.objective = cbc.getObjValue() + model.constant;
    }
    // What CBC concluded from a linear programme that was cut short proves nothing.
    result.finished = !watch.stopped && (cbc.isProvenOptimal() || cbc.isProvenInfeasible());
    const double reached = x != nullptr ? result.objective : limits.cutoff ? *limits.cutoff : kFree;
    const double searched = watch.stopped ? watch.bound : cbc.getBestPossibleObjValue();
    // A tree that was searched to its end does not say its bound.
    constexpr int kStoppedOnGap = 2;
    const double within = x == nullptr ? 0
                                       : std::max(limits.relative_gap * std::abs(result.objective),
                                                  limits.least_improvement);
    const bool whole = result.finished && cbc.secondaryStatus() != kStoppedOnGap;
    const double open = std::min(reached, searched + model.constant);
    result.bound = whole ? std::max(reached - within, open) : open;
  } catch (const CoinError& e) {
    throw Error(ErrorCode::solver,
                "CBC failed in " + e.className() + "::" + e.methodName() + ": " + e.message());
  }
  return result;
}

void write_coin(const LinearModel& model, const std::string& path, ModelFormat format) {
  try {
    OsiClpSolverInterface solver;
    load(model, solver);
    Names columns = names_of(model.columns), rows = names_of(model.rows);
    rows.push_back("objective_s");
    const int failed = format == ModelFormat::lp ? write_lp(solver, path, columns, rows)
                                                 : write_mps(solver, path, columns, rows);
    if (failed != 0) throw Error(ErrorCode::solver, "COIN-OR cannot write the model to " + path);
  } catch (const CoinError& e) {
    throw Error(ErrorCode::solver, "COIN-OR cannot write " + path + ": " + e.message());
  }
}

LinearModel read_coin(const std::string& path, ModelFormat format) {
  OsiClpSolverInterface solver;
  solver.messageHandler()->setLogLevel(0);
  try {
    const int errors = format == ModelFormat::lp ? solver.readLp(path.c_str(), 1e-15)
                                                 : solver.readMps(path.c_str(), "");
    if (errors != 0) {
      refuse(path, "COIN-OR finds {} errors in it", errors);
    }
  } catch (const CoinError& e) {
    refuse(path, e.message());
  }
  LinearModel model;
  for (int c = 0; c < solver.getNumCols(); ++c) {
    model.add_column(from_coin(solver.getColLower()[c]), from_coin(solver.getColUpper()[c]),
                     solver.getObjCoefficients()[c], solver.isInteger(c), solver.getColName(c));
  }
  const CoinPackedMatrix& matrix = *solver.getMatrixByRow();
  for (int r = 0; r < solver.getNumRows(); ++r) {
    const CoinShallowPackedVector row = matrix.getVector(r);
    std::vector<LinearModel::Term> terms;
    for (int k = 0; k < row.getNumElements(); ++k) {
      terms.emplace_back(static_cast<std::size_t>(row.getIndices()[k]), row.getElements()[k]);
    }
    model.add_row(from_coin(solver.getRowLower()[r]), from_coin(solver.getRowUpper()[r]),
                  std::move(terms), solver.getRowName(r));
  }
  double offset = 0;
  solver.getDblParam(OsiObjOffset, offset);
  model.constant = -offset;
  return model;
}

struct LpSolver::Impl {
  ClpSimplex simplex;
};

LpSolver::LpSolver(const LinearModel& model, std::function<bool()> should_stop)
    : impl_(std::make_unique<Impl>()) {
  OsiClpSolverInterface solver;
  load(model, solver);
  impl_->simplex = *solver.getModelPtr();
  impl_->simplex.setLogLevel(0);
  const LpHandler handler(std::move(should_stop));
  impl_->simplex.passInEventHandler(&handler);
}

LpSolver::~LpSolver() = default;
LpSolver::LpSolver(LpSolver&&) noexcept = default;
LpSolver& LpSolver::operator=(LpSolver&&) noexcept = default;

void LpSolver::set_cost(std::size_t column, double cost) {
  impl_->simplex.setObjectiveCoefficient(static_cast<int>(column), cost);
}

void LpSolver::set_bounds(std::size_t column, double low, double high) {
  impl_->simplex.setColumnBounds(static_cast<int>(column), bounded(low), bounded(high));
}

void LpSolver::clear_costs() {
  for (int i = 0; i < impl_->simplex.numberColumns(); ++i) {
    impl_->simplex.setObjectiveCoefficient(i, 0);
  }
}

LpSolver::Solution LpSolver::minimise() {
  ClpSimplex& simplex = impl_->simplex;
  simplex.dual();
  constexpr int kStopped = 5;
  if (simplex.status() != 0 && simplex.status() != kStopped) simplex.primal();
  Solution solution;
  if (simplex.isProvenOptimal()) {
    solution.outcome = Outcome::optimal;
    solution.objective = simplex.objectiveValue();
  } else if (simplex.isProvenPrimalInfeasible()) {
    solution.outcome = Outcome::infeasible;
  }
  return solution;
}

std::vector<double> LpSolver::row_prices() const {
  const double* y = impl_->simplex.dualRowSolution();
  return {y, y + impl_->simplex.numberRows()};
}

std::vector<double> LpSolver::column_prices() const {
  const double* d = impl_->simplex.dualColumnSolution();
  return {d, d + impl_->simplex.numberColumns()};
}

std::vector<double> LpSolver::values() const {
  const double* x = impl_->simplex.primalColumnSolution();
  return {x, x + impl_->simplex.numberColumns()};
}

}  // namespace tessera::solver
