#pragma once

#include <vector>

namespace tessera {

/// Linear interpolation between the order statistics, as most statistics packages do; `q` in
/// [0, 1], `sorted` ascending and not empty.
double quantile(const std::vector<double>& sorted, double q);

/// The middle of a list in any order.
double median(std::vector<double> values);

}  // namespace tessera
