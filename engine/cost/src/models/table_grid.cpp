#include "table_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::cost::models {
namespace {

double num_nodes(const std::vector<Axis>& axes) {
  double nodes = 1;
  for (const Axis& axis : axes) nodes *= static_cast<double>(axis.knots.size());
  return nodes;
}

/// The two ends, and between them knots that are at least `spacing` apart.
std::vector<double> thinned(const std::vector<double>& knots, double spacing) {
  std::vector<double> kept = {knots.front()};
  for (const double knot : knots) {
    if (knot - kept.back() >= spacing && knots.back() - knot >= spacing) kept.push_back(knot);
  }
  kept.push_back(knots.back());
  return kept;
}

}  // namespace

void thin_out(std::vector<Axis>& axes, double max_nodes) {
  const std::vector<Axis> all = axes;
  for (double spacing = 0.02; num_nodes(axes) > max_nodes; spacing *= 1.25) {
    for (std::size_t i = 0; i < axes.size(); ++i) {
      axes[i].knots = thinned(all[i].knots, spacing);
    }
  }
}

Grid::Grid(std::vector<Axis> grid_axes) : axes(std::move(grid_axes)), strides_(axes.size()) {
  std::size_t nodes = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    strides_[i] = nodes;
    nodes *= axes[i].knots.size();
  }
  values.assign(nodes, 0);
}

std::vector<double> Grid::place(std::size_t node) const {
  std::vector<double> at;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    at.push_back(axes[i].knots[node / strides_[i] % axes[i].knots.size()]);
  }
  return at;
}

template <typename F>
void Grid::corners(const std::vector<double>& at, const F& f) const {
  std::vector<std::size_t> low(axes.size());
  std::vector<double> share(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::vector<double>& knots = axes[i].knots;
    const double x = std::clamp(at[i], knots.front(), knots.back());
    const auto next = std::upper_bound(knots.begin() + 1, knots.end() - 1, x);
    low[i] = static_cast<std::size_t>(next - knots.begin()) - 1;
    share[i] = (x - knots[low[i]]) / (knots[low[i] + 1] - knots[low[i]]);
  }
  for (std::size_t corner = 0; corner < std::size_t{1} << axes.size(); ++corner) {
    std::size_t node = 0;
    double weight = 1;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const bool upper = (corner >> i & 1) != 0;
      node += (low[i] + (upper ? 1 : 0)) * strides_[i];
      weight *= upper ? share[i] : 1 - share[i];
    }
    if (weight > 0) f(node, weight);
  }
}

std::size_t Grid::nearest(const std::vector<double>& at) const {
  std::size_t best = 0;
  double most = -1;
  corners(at, [&](std::size_t node, double weight) {
    if (weight > most) most = weight, best = node;
  });
  return best;
}

double Grid::value(const std::vector<double>& at) const {
  double sum = 0;
  corners(at, [&](std::size_t node, double weight) { sum += weight * values[node]; });
  return sum;
}

void Grid::fill_holes(std::vector<double>& of_node, std::vector<double> count) const {
  for (bool holes = true; holes;) {
    holes = false;
    const std::vector<double> known = count;
    for (std::size_t node = 0; node < of_node.size(); ++node) {
      if (known[node] > 0) continue;
      holes = true;
      double sum = 0, num = 0;
      for (std::size_t i = 0; i < axes.size(); ++i) {
        const std::size_t index = node / strides_[i] % axes[i].knots.size();
        const auto add = [&](std::size_t neighbour) {
          if (known[neighbour] == 0) return;
          sum += of_node[neighbour];
          ++num;
        };
        if (index > 0) add(node - strides_[i]);
        if (index + 1 < axes[i].knots.size()) add(node + strides_[i]);
      }
      if (num == 0) continue;
      of_node[node] = sum / num;
      count[node] = 1;
    }
  }
}

void Grid::make_monotone() {
  std::vector<double> above = values;
  std::vector<double>& below = values;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t last = axes[i].knots.size() - 1;
    for (std::size_t node = 0; node < above.size(); ++node) {
      if (node / strides_[i] % (last + 1) == 0) continue;
      above[node] = std::max(above[node], above[node - strides_[i]]);
    }
    for (std::size_t node = below.size(); node-- > 0;) {
      if (node / strides_[i] % (last + 1) == last) continue;
      below[node] = std::min(below[node], below[node + strides_[i]]);
    }
  }
  for (std::size_t node = 0; node < values.size(); ++node) {
    values[node] = (above[node] + below[node]) / 2;
  }
}

void Grid::correct(const std::vector<std::vector<double>>& points,
                   const std::vector<double>& targets) {
  std::vector<double> sum(values.size(), 0), weights(values.size(), 0);
  for (std::size_t p = 0; p < points.size(); ++p) {
    const double missing = targets[p] - value(points[p]);
    corners(points[p], [&](std::size_t node, double weight) {
      sum[node] += weight * missing;
      weights[node] += weight;
    });
  }
  for (std::size_t node = 0; node < values.size(); ++node) {
    // A node that points only brush is moved only a little.
    if (weights[node] > 0) values[node] += sum[node] / std::max(weights[node], 1.0);
  }
}

}  // namespace tessera::cost::models
