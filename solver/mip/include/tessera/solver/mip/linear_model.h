#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tessera::solver {

inline constexpr double kFree = std::numeric_limits<double>::infinity();

/// A linear model, minimised, before any solver sees it. Columns and rows are numbered in the order
/// in which they were added.
struct LinearModel {
  struct Column {
    double low = 0, high = kFree, cost = 0;
    bool integer = false;
    std::string name = {};  ///< for files; may be empty
  };
  using Term = std::pair<std::size_t, double>;  ///< column, coefficient
  struct Row {
    double low = -kFree, high = kFree;
    std::vector<Term> terms;
    std::string name = {};
  };

  std::vector<Column> columns;
  std::vector<Row> rows;
  double constant = 0;

  std::size_t add_column(double low, double high, double cost = 0, bool integer = false,
                         std::string name = {}) {
    columns.push_back({low, high, cost, integer, std::move(name)});
    return columns.size() - 1;
  }
  std::size_t add_row(double low, double high, std::vector<Term> terms, std::string name = {}) {
    rows.push_back({low, high, std::move(terms), std::move(name)});
    return rows.size() - 1;
  }
};

}  // namespace tessera::solver
