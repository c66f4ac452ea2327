#include "cut_model.h"

#include <algorithm>
#include <cmath>

#include "small_lp.h"

namespace tessera::solver::exact {

CutModel::CutModel(const SearchSpace& space, const Pair& pair, const Box& box,
                   double objective_scale)
    : space_(space), pair_(pair), box_(box), kinds_(space.kinds().size()) {
  const ObjectiveCoefficients& c = pair.coefficients;
  decode_scale_ = c.decode_max + c.round * c.round_micro_batches;
  nu_scale_ = omega_price_scale(space, objective_scale);
}

std::vector<double> CutModel::coordinates(const Multipliers& at) const {
  const ObjectiveCoefficients& c = pair_.coefficients;
  const double price = c.decode_max + c.round * at.lambda * c.round_micro_batches;
  std::vector<double> x(2 * kinds_ + 2, 0);
  for (std::size_t k = 0; k < kinds_; ++k) {
    x[k] = at.prefill[k];
    x[kinds_ + k] = decode_scale_ > 0 ? at.decode[k] * price / decode_scale_ : 0;
  }
  x[2 * kinds_] = at.lambda;
  x[2 * kinds_ + 1] = at.nu / nu_scale_;
  return x;
}

Multipliers CutModel::multipliers(const std::vector<double>& x) const {
  const ObjectiveCoefficients& c = pair_.coefficients;
  Multipliers at;
  at.lambda = std::clamp(x[2 * kinds_], 0.0, 1.0);
  at.nu = space_.has_omega_limit() ? std::max(0.0, x[2 * kinds_ + 1]) * nu_scale_ : 0;
  const double price = c.decode_max + c.round * at.lambda * c.round_micro_batches;
  for (std::size_t k = 0; k < kinds_; ++k) {
    at.prefill.push_back(x[k]);
    at.decode.push_back(price > 0 ? x[kinds_ + k] * decode_scale_ / price : 0);
  }
  project_to_simplex(at.prefill);
  project_to_simplex(at.decode);
  return at;
}

void CutModel::add(const Cut& cut) {
  if (cut.prefill_max > box_.prefill_high || cut.decode_max > box_.decode_high) return;
  const ObjectiveCoefficients& c = pair_.coefficients;
  const Usage& u = cut.usage;
  Plane plane;
  plane.slope.assign(2 * kinds_ + 2, 0);
  double prefill_sum = 0;
  for (std::size_t k = 0; k < kinds_; ++k) {
    const double count = std::max(1.0, space_.kinds()[k].count);
    prefill_sum += u.prefill[k];
    plane.slope[k] = c.prefill_max * (u.prefill[k] / count - box_.prefill_low);
    plane.slope[kinds_ + k] = decode_scale_ * (u.decode[k] / count - box_.decode_low);
  }
  plane.slope[2 * kinds_] = c.round * (c.round_micro_batches * box_.decode_low - u.decode_sum);
  if (space_.has_omega_limit()) {
    plane.slope[2 * kinds_ + 1] = nu_scale_ * (u.omega - space_.omega_limit());
  }
  plane.constant = c.prefill_max * box_.prefill_low + c.decode_max * box_.decode_low +
                   c.prefill_sum * prefill_sum + (c.decode_sum + c.round) * u.decode_sum +
                   space_.instance().theta * u.omega;
  for (std::size_t k = 0; k < cut.devices.size(); ++k) {
    plane.devices.push_back(cut.devices[k] - space_.kinds()[k].count);
  }
  planes_.push_back(std::move(plane));
}

Multipliers CutModel::between(const Multipliers& from, const Multipliers& to,
                              double fraction) const {
  std::vector<double> x = coordinates(from);
  const std::vector<double> y = coordinates(to);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += fraction * (y[i] - x[i]);
  return multipliers(x);
}

CutModel::Maximum CutModel::maximise(double largest_nu) const {
  std::vector<double> price;
  return solve({}, {}, largest_nu, price);
}

CutModel::PricedMaximum CutModel::maximise_near(const PricePoint& center, double radius,
                                                double largest_nu) const {
  const bool may_be_negative = !space_.instance().allow_empty_stage;
  std::vector<double> least, ranges;
  for (const double price : center.devices) {
    least.push_back(may_be_negative ? price - radius : std::max(0.0, price - radius));
    ranges.push_back(price + radius - least.back());
  }
  PricedMaximum maximum;
  Maximum found = solve(least, ranges, largest_nu, maximum.at.devices);
  maximum.at.multipliers = std::move(found.at);
  maximum.value = found.value;
  return maximum;
}

PricePoint CutModel::between(const PricePoint& from, const PricePoint& to, double fraction) const {
  PricePoint point{between(from.multipliers, to.multipliers, fraction), from.devices};
  for (std::size_t k = 0; k < point.devices.size(); ++k) {
    point.devices[k] += fraction * (to.devices[k] - from.devices[k]);
  }
  return point;
}

// Rows: the planes, then the limits of the columns. Columns: the coordinates, prices of devices
// above their least, then the bound above the least constant, which makes the origin feasible.
CutModel::Maximum CutModel::solve(const std::vector<double>& least_price,
                                  const std::vector<double>& ranges, double largest_nu,
                                  std::vector<double>& price) const {
  Maximum maximum;
  if (planes_.empty()) return maximum;
  const ObjectiveCoefficients& c = pair_.coefficients;
  const std::size_t coordinates = 2 * kinds_ + 2, priced = least_price.size();
  std::vector<double> constant;
  for (const Plane& plane : planes_) {
    constant.push_back(plane.constant);
    for (std::size_t k = 0; k < priced; ++k) constant.back() += least_price[k] * plane.devices[k];
  }
  const double base = *std::min_element(constant.begin(), constant.end());
  const std::size_t columns = coordinates + priced + 1;
  std::vector<double> cost(columns, 0);
  cost.back() = 1;
  SmallLp lp(columns, std::move(cost));
  for (std::size_t r = 0; r < planes_.size(); ++r) {
    std::vector<double> coefficients(columns, 1);
    for (std::size_t i = 0; i < coordinates; ++i) coefficients[i] = -planes_[r].slope[i];
    for (std::size_t k = 0; k < priced; ++k) {
      coefficients[coordinates + k] = -ranges[k] * planes_[r].devices[k];
    }
    lp.add_row(std::move(coefficients), constant[r] - base);
  }
  std::vector<double> shares(columns, 0);
  std::fill_n(shares.begin(), kinds_, 1.0);
  lp.add_row(std::move(shares), 1);
  shares.assign(columns, 0);
  std::fill_n(shares.begin() + static_cast<std::ptrdiff_t>(kinds_), kinds_, 1.0);
  if (decode_scale_ > 0) {
    shares[2 * kinds_] = -c.round * c.round_micro_batches / decode_scale_;
  }
  lp.add_row(std::move(shares), decode_scale_ > 0 ? c.decode_max / decode_scale_ : 0);
  const auto limit = [&](std::size_t column, double most) {
    std::vector<double> row(columns, 0);
    row[column] = 1;
    lp.add_row(std::move(row), most);
  };
  limit(2 * kinds_, 1);
  limit(2 * kinds_ + 1, space_.has_omega_limit() ? largest_nu / nu_scale_ : 0);
  for (std::size_t k = 0; k < priced; ++k) limit(coordinates + k, 1);
  std::vector<double> x;
  const bool finished = lp.solve(x);
  if (finished) maximum.value = base + x.back();
  price.clear();
  for (std::size_t k = 0; k < priced; ++k) {
    price.push_back(least_price[k] + ranges[k] * std::min(1.0, x[coordinates + k]));
  }
  x.resize(coordinates);
  maximum.at = multipliers(x);
  return maximum;
}

}  // namespace tessera::solver::exact
