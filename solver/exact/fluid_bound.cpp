#include "fluid_bound.h"

#include <algorithm>
#include <cmath>

namespace tessera::solver::exact {
namespace {

constexpr std::size_t kMostSteps = 400, kPatience = 10;
constexpr double kShrink = 0.6;
constexpr double kSmallestAim = 2e-5;

}  // namespace

FluidBound::FluidBound(const SearchSpace& space, const Pair& pair) : space_(space), pair_(pair) {
  for (std::size_t k = 0; k < space.kinds().size(); ++k) {
    const ByPlace<double>& room = pair.room_bytes[k];
    const double middle = room[StagePlace::middle];
    const double count = space.kinds()[k].count;
    Memory memory{};
    if (middle >= 0) {
      memory.room = count * middle;
      for (const StagePlace place : kStagePlaces) memory.extra[place] = middle - room[place];
    } else {
      // No middle stage: at most what the roomiest place offers.
      memory.room = count * std::max(0.0, *std::max_element(room.begin(), room.end()));
    }
    memory_.push_back(memory);
  }
  box_.prefill_low = pair.least_prefill_max_s;
  box_.decode_low = pair.least_decode_max_s;
  best_at_ = first_multipliers(space, pair);
  best_memory_price_.assign(memory_.size(), 0);
  Fluid fluid;
  best_ = evaluate(best_at_, best_memory_price_, box_, fluid);
  scale_ = std::max(std::fabs(best_), 1e-9);
}

double FluidBound::evaluate(const Multipliers& at, const std::vector<double>& memory_price,
                            const Box& box, Fluid& fluid) const {
  const Instance& in = space_.instance();
  const std::size_t cells = space_.num_cells(), bits = in.num_bits(), kinds = memory_.size();
  const Weights& w = fluid.weights;
  set_weights(space_, pair_, at, box, fluid.weights);
  fluid.price.assign(cells, kInfinity);
  fluid.count.assign(cells, 0);
  fluid.who.assign(cells, 0);
  for (std::size_t k = 0; k < kinds; ++k) {
    if (space_.kinds()[k].count == 0) continue;
    for (std::size_t cell = 0; cell < cells; ++cell) {
      if (!space_.allowed(k, cell)) continue;
      const double p = w.prefill[k] * pair_.prefill_s[k * cells + cell] +
                       w.decode[k] * pair_.decode_s[k * cells + cell] +
                       memory_price[k] * space_.layer_bytes(k, cell);
      if (p < fluid.price[cell]) {
        fluid.price[cell] = p;
        fluid.who[cell] = k;
      }
    }
  }
  fluid.usage.clear(kinds);
  double value = w.constant;
  const double* omega = in.omega.data();
  for (std::size_t layer = 0; layer < in.num_layers(); ++layer, omega += bits) {
    const std::size_t row = static_cast<std::size_t>(in.layer_class[layer]) * bits;
    const double* price = &fluid.price[row];
    std::size_t best_bit = 0;
    double best = kInfinity;
    for (std::size_t b = 0; b < bits; ++b) {
      const double p = price[b] + w.omega * omega[b];
      best_bit = p < best ? b : best_bit;
      best = p < best ? p : best;
    }
    value += best;
    fluid.count[row + best_bit] += 1;
    fluid.usage.omega += omega[best_bit];
  }
  fluid.bytes.assign(kinds, 0);
  for (std::size_t cell = 0; cell < cells; ++cell) {
    const std::size_t k = fluid.who[cell];
    fluid.usage.prefill[k] += fluid.count[cell] * pair_.prefill_s[k * cells + cell];
    fluid.usage.decode[k] += fluid.count[cell] * pair_.decode_s[k * cells + cell];
    fluid.bytes[k] += fluid.count[cell] * space_.layer_bytes(k, cell);
  }
  value += add_ends(memory_price, fluid);
  for (std::size_t k = 0; k < kinds; ++k) {
    value -= memory_price[k] * memory_[k].room;
    fluid.usage.decode_sum += fluid.usage.decode[k];
  }
  return value;
}

// Where an end of the pipeline costs least.
FluidBound::End FluidBound::cheapest_end(StagePlace place, const std::vector<double>& memory_price,
                                         const Weights& w) const {
  End end{place, 0, kInfinity};
  for (std::size_t k = 0; k < memory_.size(); ++k) {
    if (space_.kinds()[k].count == 0) continue;
    if (space_.order()) {
      const auto& order = *space_.order();
      if (space_.kind_of(is_first(place) ? order.front() : order.back()) != k) continue;
    }
    const double price = w.prefill[k] * pair_.prefill_end_s[k][place] +
                         w.decode[k] * pair_.decode_end_s[k][place] +
                         memory_price[k] * memory_[k].extra[place];
    if (price < end.price) end = {place, k, price};
  }
  return end;
}

// Embedding and LM head stand where they cost least: on two devices, or both on one.
double FluidBound::add_ends(const std::vector<double>& memory_price, Fluid& fluid) const {
  std::vector<End> ends;
  double value = kInfinity;
  const auto consider = [&](const std::vector<StagePlace>& places) {
    std::vector<End> found;
    double sum = 0;
    for (const StagePlace place : places) {
      found.push_back(cheapest_end(place, memory_price, fluid.weights));
      sum += found.back().price;
    }
    if (sum >= value) return;
    value = sum;
    ends = std::move(found);
  };
  if (space_.num_positions() > 1) consider({StagePlace::first, StagePlace::last});
  if (space_.least_stages() == 1) consider({StagePlace::only});
  for (const End& end : ends) {
    fluid.usage.prefill[end.kind] += pair_.prefill_end_s[end.kind][end.place];
    fluid.usage.decode[end.kind] += pair_.decode_end_s[end.kind][end.place];
    fluid.bytes[end.kind] += memory_[end.kind].extra[end.place];
  }
  return value;
}

FluidBound::Prices FluidBound::prices() const {
  const Instance& in = space_.instance();
  const std::size_t cells = space_.num_cells(), bits = in.num_bits(), kinds = memory_.size();
  const Weights w = weights_of(space_, pair_, best_at_, box_);
  Prices p;
  p.omega = w.omega;
  p.memory = best_memory_price_;
  std::vector<double> least(cells, kInfinity);
  for (std::size_t k = 0; k < kinds; ++k) {
    const ByPlace<double>& room = pair_.room_bytes[k];
    // Without room in the middle the fluid did not count per device.
    const bool counted = room[StagePlace::middle] >= 0;
    p.least_room.push_back(counted ? *std::min_element(room.begin(), room.end()) : 0);
    for (std::size_t cell = 0; cell < cells; ++cell) {
      p.cell.push_back(w.prefill[k] * pair_.prefill_s[k * cells + cell] +
                       w.decode[k] * pair_.decode_s[k * cells + cell] +
                       best_memory_price_[k] * space_.layer_bytes(k, cell));
      if (space_.kinds()[k].count > 0 && space_.allowed(k, cell)) {
        least[cell] = std::min(least[cell], p.cell.back());
      }
    }
  }
  for (std::int32_t cls = 0; cls < in.num_classes; ++cls) {
    double sum = 0;
    p.paid_before.push_back(sum);
    for (std::size_t layer = 0; layer < in.num_layers(); ++layer) {
      double best = kInfinity;
      for (std::size_t b = 0; b < bits && in.layer_class[layer] == cls; ++b) {
        best = std::min(best, least[static_cast<std::size_t>(cls) * bits + b] +
                                  w.omega * in.omega_at(layer, b));
      }
      if (in.layer_class[layer] == cls) sum += best;
      p.paid_before.push_back(sum);
    }
  }
  return p;
}

// The subgradient method with Polyak steps towards a target a little above the best bound; the
// target falls when it is out of reach.
void FluidBound::improve(double enough) {
  if (!ascent_) {
    ascent_.emplace(AscentState{SubgradientAscent(space_, pair_, best_at_, scale_),
                                best_memory_price_, std::vector<double>(memory_.size(), 0)});
  }
  AscentState& at = *ascent_;
  Fluid fluid;
  while (!at.over && best_ < enough) {
    const double value = evaluate(at.ascent.at(), at.memory_price, box_, fluid);
    ++at.idle;
    if (value > best_) {
      if (value > best_ + 0.1 * at.aim * scale_) at.idle = 0;
      best_ = value;
      best_at_ = at.ascent.at();
      best_memory_price_ = at.memory_price;
    }
    if (value == kInfinity) {
      at.over = true;
    } else if (at.idle >= kPatience) {
      retreat();
    } else {
      step(value, fluid);
    }
    at.over = at.over || ++at.steps == kMostSteps || at.aim <= kSmallestAim;
  }
}

// Back to the best point, aiming lower.
void FluidBound::retreat() {
  AscentState& at = *ascent_;
  at.aim *= kShrink;
  at.idle = 0;
  at.ascent.move_to(best_at_);
  at.memory_price = best_memory_price_;
  at.ascent.forget_direction();
  std::fill(at.memory_direction.begin(), at.memory_direction.end(), 0);
}

void FluidBound::step(double value, const Fluid& fluid) {
  AscentState& at = *ascent_;
  double square = at.ascent.compute_gradient(fluid.usage, box_);
  for (std::size_t k = 0; k < memory_.size(); ++k) {
    const double room = std::max(1.0, memory_[k].room);
    const double over = (fluid.bytes[k] - memory_[k].room) / room * scale_;
    double& direction = at.memory_direction[k];
    direction = (at.memory_price[k] == 0 && over < 0 ? 0 : over) + 0.5 * direction;
    square += direction * direction;
  }
  if (square == 0) {
    at.over = true;
    return;
  }
  const double length = (best_ + at.aim * scale_ - value) / square;
  at.ascent.step(length);
  for (std::size_t k = 0; k < memory_.size(); ++k) {
    const double room = std::max(1.0, memory_[k].room);
    at.memory_price[k] =
        std::max(0.0, at.memory_price[k] + length * at.memory_direction[k] * scale_ / room);
  }
}

// The bound with only `keep` of the price of Tp (or Td) paid for by averages and nothing for the
// rest: a plan costs at least this much plus (1 - keep) times the price times its Tp.
double FluidBound::scaled_bound(double keep, bool prefill) const {
  Multipliers at = best_at_;
  for (double& share : prefill ? at.prefill : at.decode) share *= keep;
  Box box = box_;
  (prefill ? box.prefill_low : box.decode_low) = 0;
  Fluid fluid;
  return evaluate(at, best_memory_price_, box, fluid);
}

// Room for rounding is relative to what was subtracted: where omega dwarfs the times, their
// difference is far less exact than itself.
Box FluidBound::box_below(double cutoff) const {
  Box box = box_;
  const auto most_above = [cutoff](double bound, double price) {
    const double slack = cutoff - bound;
    const double rounding =
        1e-9 * std::fabs(slack) + 1e-12 * (std::fabs(cutoff) + std::fabs(bound));
    return (slack + rounding) / price;
  };
  const ObjectiveCoefficients& c = pair_.coefficients;
  for (const bool prefill : {true, false}) {
    const auto& shares = prefill ? best_at_.prefill : best_at_.decode;
    double sum = 0;
    for (const double share : shares) sum += share;
    const double price =
        prefill ? c.prefill_max : c.decode_max + c.round * best_at_.lambda * c.round_micro_batches;
    double& high = prefill ? box.prefill_high : box.decode_high;
    for (const double keep : {0.75, 0.5, 0.25, 0.0}) {
      const double left = price * (1 - sum * keep);
      if (left <= 0) continue;
      high = std::min(high, most_above(scaled_bound(keep, prefill), left));
    }
  }
  if (c.round > 0) {
    // The round is at least mu Td whatever lambda was: without its share of the sum of D.
    Multipliers at = best_at_;
    at.lambda = 1;
    std::fill(at.decode.begin(), at.decode.end(), 0);
    Box open = box_;
    open.decode_low = 0;
    Fluid fluid;
    const double rest = evaluate(at, best_memory_price_, open, fluid);
    const double price = c.decode_max + c.round * c.round_micro_batches;
    if (price > 0) box.decode_high = std::min(box.decode_high, most_above(rest, price));
  }
  return box;
}

}  // namespace tessera::solver::exact
