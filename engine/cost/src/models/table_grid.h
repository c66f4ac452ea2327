#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tessera::cost::models {

struct Axis {
  std::string field;
  std::vector<double> knots;  ///< ascending, at least two
};

/// Leaves out knots that lie closest together until the grid has at most `max_nodes` nodes.
void thin_out(std::vector<Axis>& axes, double max_nodes);

/// Values on a rectangular grid of any number of axes, multilinear between them. Without axes it is
/// one value.
struct Grid {
  std::vector<Axis> axes;
  std::vector<double> values;  ///< [node], the last axis varies fastest

  explicit Grid(std::vector<Axis> grid_axes);

  std::vector<double> place(std::size_t node) const;  ///< [axis]
  std::size_t nearest(const std::vector<double>& at) const;
  /// Outside the grid: of the nearest point on it.
  double value(const std::vector<double>& at) const;
  /// Nodes with a count of zero take the mean of the neighbours that have a value, those next to
  /// them first.
  void fill_holes(std::vector<double>& of_node, std::vector<double> count) const;
  /// Values that never fall along any axis: the mean of the closest ones above and below.
  void make_monotone();
  /// Shares what `targets` differ from `value` by among the nodes around each point.
  void correct(const std::vector<std::vector<double>>& points, const std::vector<double>& targets);

 private:
  /// Calls f(node, weight) for the corners of the cell around `at`.
  template <typename F>
  void corners(const std::vector<double>& at, const F& f) const;

  std::vector<std::size_t> strides_;  ///< [axis]
};

}  // namespace tessera::cost::models
