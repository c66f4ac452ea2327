#include "stage_filter.h"

#include <algorithm>
#include <cmath>

namespace tessera::solver::exact {

void StageFilter::add_pair(std::size_t pair, const FluidBound& fluid, const Box& box) {
  PairPrices at;
  at.pair = pair;
  at.box = box;
  at.slack = cutoff_ - fluid.bound() + 1e-11 * std::fabs(fluid.bound());
  at.prices = fluid.prices();
  pairs_.push_back(std::move(at));
}

void StageFilter::prepare(const ConfigTable::Shape& shape) {
  if (shape.length == length_ && shape.layers == layers_) return;
  length_ = shape.length;
  layers_ = shape.layers;
  const std::size_t classes = shape.layers.size(), stride = space_.num_layers() + 1;
  for (PairPrices& at : pairs_) {
    at.paid.clear();
    at.most_paid.clear();
    for (std::size_t chosen = 1; chosen <= classes; ++chosen) {
      double most = -kInfinity;
      for (const std::size_t start : shape.starts) {
        double sum = 0;
        for (std::size_t k = 0; k < chosen; ++k) {
          const double* before = &at.prices.paid_before[k * stride];
          sum += before[start + shape.length] - before[start];
        }
        at.paid.push_back(sum);
        most = std::max(most, sum);
      }
      at.most_paid.push_back(most);
    }
  }
}

bool StageFilter::keeps(const ConfigTable::Shape& shape, const std::uint16_t* counts,
                        std::size_t num_classes, bool whole, const double* omega) {
  if (cutoff_ == kInfinity) return true;
  prepare(shape);
  const std::size_t kinds = space_.kinds().size(), tests = pairs_.size() * kinds;
  const double least_omega = *std::min_element(omega, omega + shape.starts.size());
  for (std::size_t i = 0; i < tests; ++i) {
    const std::size_t test = (last_ + i) % tests;
    if (!passes(pairs_[test / kinds], test % kinds, shape, counts, num_classes, whole, omega,
                least_omega)) {
      continue;
    }
    last_ = test;
    return true;
  }
  return false;
}

bool StageFilter::passes(const PairPrices& at, std::size_t kind, const ConfigTable::Shape& shape,
                         const std::uint16_t* counts, std::size_t num_classes, bool whole,
                         const double* omega, double least_omega) const {
  const std::size_t cells = space_.num_cells(), bits = space_.instance().num_bits();
  const Pair& pair = space_.pairs()[at.pair];
  double price = 0, bytes = 0, prefill = 0, decode = 0;
  for (std::size_t cell = 0; cell < num_classes * bits; ++cell) {
    if (counts[cell] == 0) continue;
    if (!space_.allowed(kind, cell)) return false;
    const double n = counts[cell];
    price += n * at.prices.cell[kind * cells + cell];
    bytes += n * space_.layer_bytes(kind, cell);
    prefill += n * pair.prefill_s[kind * cells + cell];
    decode += n * pair.decode_s[kind * cells + cell];
  }
  if (prefill > at.box.prefill_high || decode > at.box.decode_high) return false;
  if (whole) {
    price += at.prices.memory[kind] * std::max(0.0, at.prices.least_room[kind] - bytes);
  }
  if (price + at.prices.omega * least_omega - at.most_paid[num_classes - 1] > at.slack) {
    return false;
  }
  const double* paid = &at.paid[(num_classes - 1) * shape.starts.size()];
  for (std::size_t i = 0; i < shape.starts.size(); ++i) {
    if (price + at.prices.omega * omega[i] - paid[i] <= at.slack) return true;
  }
  return false;
}

}  // namespace tessera::solver::exact
