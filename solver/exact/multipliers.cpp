#include "multipliers.h"

#include <algorithm>
#include <cmath>

namespace tessera::solver::exact {
namespace {

// Share of the old direction that a new one keeps (heavy ball); damps the zigzag between two
// solutions.
constexpr double kMomentum = 0.5;

bool rounds_are_decode_bound(const SearchSpace& space, const Pair& pair) {
  return pair.coefficients.round_micro_batches >= static_cast<double>(space.num_positions());
}

}  // namespace

double omega_price_scale(const SearchSpace& space, double objective_scale) {
  if (!space.has_omega_limit()) return 1;
  double spread = 0;
  for (const double omega : space.instance().omega) spread += std::fabs(omega);
  const double scale = std::max(std::fabs(space.omega_limit()), 1e-3 * spread);
  return objective_scale / std::max(scale, 1e-300);
}

Weights weights_of(const SearchSpace& space, const Pair& pair, const Multipliers& multipliers,
                   const Box& box) {
  Weights weights;
  set_weights(space, pair, multipliers, box, weights);
  return weights;
}

void set_weights(const SearchSpace& space, const Pair& pair, const Multipliers& multipliers,
                 const Box& box, Weights& w) {
  const ObjectiveCoefficients& c = pair.coefficients;
  const double decode_max = c.decode_max + c.round * multipliers.lambda * c.round_micro_batches;
  const double decode_sum = c.decode_sum + c.round * (1 - multipliers.lambda);
  const std::size_t kinds = space.kinds().size();
  w.prefill.resize(kinds);
  w.decode.resize(kinds);
  double prefill_left = 1, decode_left = 1;
  for (std::size_t k = 0; k < kinds; ++k) {
    const double count = std::max(1.0, space.kinds()[k].count);
    w.prefill[k] = c.prefill_sum + c.prefill_max * multipliers.prefill[k] / count;
    w.decode[k] = decode_sum + decode_max * multipliers.decode[k] / count;
    prefill_left -= multipliers.prefill[k];
    decode_left -= multipliers.decode[k];
  }
  // Rounding must not let the shares exceed the whole.
  w.prefill_floor = c.prefill_max * std::max(0.0, prefill_left);
  w.decode_floor = decode_max * std::max(0.0, decode_left);
  w.omega = space.instance().theta + multipliers.nu;
  w.constant = w.prefill_floor * box.prefill_low + w.decode_floor * box.decode_low;
  if (multipliers.nu > 0) w.constant -= multipliers.nu * space.omega_limit();
}

void project_to_simplex(std::vector<double>& x) {
  double sum = 0;
  for (double& v : x) {
    v = std::max(0.0, v);
    sum += v;
  }
  if (sum <= 1) return;
  // Measured from the largest: where prices are tiny steps are huge, and 1 would vanish beside
  // them.
  const double most = *std::max_element(x.begin(), x.end());
  for (double& v : x) v -= most;
  std::vector<double> sorted = x;
  std::sort(sorted.rbegin(), sorted.rend());
  double head = 0, shift = -1;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    head += sorted[i];
    const double s = (head - 1) / static_cast<double>(i + 1);
    if (sorted[i] > s) shift = s;
  }
  for (double& v : x) v = std::max(0.0, v - shift);
}

Multipliers first_multipliers(const SearchSpace& space, const Pair& pair) {
  const std::size_t kinds = space.kinds().size();
  Multipliers m;
  double devices = 0;
  for (const DeviceKind& kind : space.kinds()) devices += kind.count;
  for (std::size_t k = 0; k < kinds; ++k) {
    m.prefill.push_back(space.kinds()[k].count / devices);
    m.decode.push_back(space.kinds()[k].count / devices);
  }
  m.lambda = rounds_are_decode_bound(space, pair) ? 1 : 0;
  return m;
}

SubgradientAscent::SubgradientAscent(const SearchSpace& space, const Pair& pair, Multipliers start,
                                     double objective_scale)
    : space_(space), pair_(pair), at_(std::move(start)) {
  lambda_free_ = pair.coefficients.round > 0 && !rounds_are_decode_bound(space, pair);
  nu_scale_ = omega_price_scale(space, objective_scale);
}

double SubgradientAscent::compute_gradient(const Usage& usage, const Box& box) {
  const std::size_t kinds = space_.kinds().size();
  const ObjectiveCoefficients& c = pair_.coefficients;
  const double decode_max = c.decode_max + c.round * at_.lambda * c.round_micro_batches;
  // Shares of Td have no price while lambda is 0, yet decide whether raising lambda pays: so they
  // move as if they had one, and lambda as if they were where they lead.
  const double share_price =
      std::max(decode_max, 0.25 * (c.decode_max + c.round * c.round_micro_batches));
  const bool keep = !direction_.empty();
  direction_.resize(2 * kinds + 2, 0);
  double credited = box.decode_low, most_credited = box.decode_low, square = 0;
  const auto set = [&](std::size_t i, double gradient) {
    direction_[i] = gradient + (keep ? kMomentum * direction_[i] : 0);
    square += direction_[i] * direction_[i];
  };
  for (std::size_t k = 0; k < kinds; ++k) {
    const double count = std::max(1.0, space_.kinds()[k].count);
    const double prefill = usage.prefill[k] / count - box.prefill_low;
    const double decode = usage.decode[k] / count - box.decode_low;
    credited += at_.decode[k] * decode;
    most_credited = std::max(most_credited, box.decode_low + decode);
    // At the border of the simplex, what leads outside is no direction.
    set(k, at_.prefill[k] == 0 && prefill < 0 ? 0 : c.prefill_max * prefill);
    set(kinds + k, at_.decode[k] == 0 && decode < 0 ? 0 : share_price * decode);
  }
  credited += (1 - at_.lambda) * (most_credited - credited);
  const double lambda = c.round * (c.round_micro_batches * credited - usage.decode_sum);
  const bool stuck = (at_.lambda <= 0 && lambda < 0) || (at_.lambda >= 1 && lambda > 0);
  set(2 * kinds, lambda_free_ && !stuck ? lambda : 0);
  const double over = space_.has_omega_limit() ? usage.omega - space_.omega_limit() : 0;
  set(2 * kinds + 1, at_.nu <= 0 && over < 0 ? 0 : over * nu_scale_);
  return square;
}

void SubgradientAscent::step(double length) {
  const std::size_t kinds = space_.kinds().size();
  for (std::size_t k = 0; k < kinds; ++k) {
    at_.prefill[k] += length * direction_[k];
    at_.decode[k] += length * direction_[kinds + k];
  }
  project_to_simplex(at_.prefill);
  project_to_simplex(at_.decode);
  if (lambda_free_) at_.lambda = std::clamp(at_.lambda + length * direction_[2 * kinds], 0.0, 1.0);
  if (space_.has_omega_limit()) {
    at_.nu = std::max(0.0, at_.nu + length * direction_[2 * kinds + 1] * nu_scale_);
  }
}

}  // namespace tessera::solver::exact
