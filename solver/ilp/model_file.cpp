#include "ilp/model_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CoinError.hpp>
#include <CoinMpsIO.hpp>
#include <CoinPackedMatrix.hpp>
#include <OsiClpSolverInterface.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "ilp/coin_model.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/text.h"

namespace tessera::solver {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{4} << 30;

bool is_lp(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".lp") return true;
  if (extension == ".mps") return false;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: the name ends neither in .lp nor in .mps, which says the format",
                          quote(path)),
              "path");
}

// COIN-OR writes to names only: what it wrote moves from here to where it belongs, so that the
// target is written as every other file is.
class TemporaryFile {
 public:
  TemporaryFile() {
    name_ = (std::filesystem::temp_directory_path() / "tessera-model-XXXXXX").string();
    const int file = ::mkstemp(name_.data());
    if (file < 0) {
      throw Error(ErrorCode::io, fmt::format("cannot write {}: {}", name_,
                                             std::generic_category().message(errno)));
    }
    ::close(file);
  }
  ~TemporaryFile() { ::unlink(name_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

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

void write_model_file(const LinearModel& model, const std::string& path) {
  const bool lp = is_lp(path);
  const TemporaryFile file;
  try {
    OsiClpSolverInterface solver;
    load(model, solver);
    std::vector<const char*> columns = names_of(model.columns), rows = names_of(model.rows);
    rows.push_back("objective_s");
    const int failed = lp ? write_lp(solver, file.name(), columns, rows)
                          : write_mps(solver, file.name(), columns, rows);
    if (failed != 0) throw Error(ErrorCode::solver, "COIN-OR cannot write the model to " + path);
  } catch (const CoinError& e) {
    throw Error(ErrorCode::solver, "COIN-OR cannot write " + path + ": " + e.message());
  }
  write_file(path, read_file(file.name(), kMaxBytes));
}

LinearModel read_model_file(const std::string& path) {
  const bool lp = is_lp(path);
  read_file(path, kMaxBytes);  // COIN-OR says less about a file that is not there
  OsiClpSolverInterface solver;
  solver.messageHandler()->setLogLevel(0);
  try {
    const int errors = lp ? solver.readLp(path.c_str(), 1e-15) : solver.readMps(path.c_str(), "");
    if (errors != 0) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: COIN-OR finds {} errors in it", path, errors), path);
    }
  } catch (const CoinError& e) {
    throw Error(ErrorCode::invalid_argument, path + ": " + e.message(), path);
  }
  LinearModel model;
  for (int c = 0; c < solver.getNumCols(); ++c) {
    model.add_column(from_coin(solver.getColLower()[c]), from_coin(solver.getColUpper()[c]),
                     solver.getObjCoefficients()[c], solver.isInteger(c), 0, solver.getColName(c));
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

}  // namespace tessera::solver
