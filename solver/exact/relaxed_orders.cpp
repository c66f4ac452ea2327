#include "relaxed_orders.h"

#include <algorithm>
#include <cmath>

#include "kernels.h"

namespace tessera::solver::exact {
namespace {

// The graph has one state, so arcs of all kinds share one row.
constexpr std::size_t kAnyKind = 0;
// Room for rounding, relative to what was added and subtracted.
constexpr double kRounding = 1e-12;
// Of prices of devices, in shares of the objective for each device.
constexpr double kFirstRadius = 1, kGrow = 1.5, kShorten = 0.9;
constexpr double kModelShare = 0.6, kSmallGain = 1e-6;

class OrderRelaxation {
 public:
  OrderRelaxation(const SearchSpace& space, const ConfigTable& table, const Pair& pair,
                  const Box& box, const OptionSet& options)
      : space_(space),
        table_(table),
        pair_(pair),
        box_(box),
        options_(options),
        layers_(space.num_layers()) {}

  /// The bound at these prices; infinite when there is no pipeline.
  double evaluate(const PricePoint& at);
  /// What it knows of its pipeline, the last path.
  Cut cut() const;
  const Path& path() const { return path_; }

 private:
  struct Arc {
    const Option* option = nullptr;
    std::size_t kind = 0, index = 0;
    double weight = kInfinity;
  };
  double base_weight(const Option& option, std::size_t kind) const {
    return (*device_price_)[kind] + weights_.prefill[kind] * option.prefill_s +
           weights_.decode[kind] * option.decode_s;
  }
  const ConfigTable::Shape& shape_of(const Option& option) const {
    return table_.shapes()[table_.shape_of(option.config)];
  }
  void price_arcs();
  void search_backward();
  double arc_weight(StagePlace place, std::size_t start, std::size_t length) {
    return arcs_.at(place, kAnyKind, start, length);
  }
  Arc cheapest(StagePlace place, std::size_t start, std::size_t length) const;
  PathStage next_stage(std::size_t start);
  void trace();

  const SearchSpace& space_;
  const ConfigTable& table_;
  const Pair& pair_;
  Box box_;
  const OptionSet& options_;
  std::size_t layers_ = 0;
  Weights weights_;
  const std::vector<double>* device_price_ = nullptr;
  ArcTable arcs_;
  std::vector<double> to_end_;  ///< [layers done]
  Path path_;
};

double OrderRelaxation::evaluate(const PricePoint& at) {
  weights_ = weights_of(space_, pair_, at.multipliers, box_);
  device_price_ = &at.devices;
  price_arcs();
  search_backward();
  if (to_end_[0] == kInfinity) return kInfinity;
  trace();
  double value = to_end_[0] + weights_.constant;
  double size = std::fabs(to_end_[0]) + std::fabs(weights_.constant);
  for (std::size_t k = 0; k < at.devices.size(); ++k) {
    const double back = at.devices[k] * space_.kinds()[k].count;
    value -= back;
    size += 2 * std::fabs(back);
  }
  return value - kRounding * size;
}

Cut OrderRelaxation::cut() const {
  Cut cut{usage_of(space_, path_), 0, 0, std::vector<double>(space_.kinds().size(), 0)};
  for (const PathStage& stage : path_.stages) {
    cut.prefill_max = std::max(cut.prefill_max, stage.prefill_s);
    cut.decode_max = std::max(cut.decode_max, stage.decode_s);
    cut.devices[stage.kind] += 1;
  }
  return cut;
}

void OrderRelaxation::price_arcs() {
  arcs_.reset(1, layers_, table_.max_length());
  for (const StagePlace place : kStagePlaces) {
    for (std::size_t kind = 0; kind < options_.at[place].size(); ++kind) {
      for (const Option& option : options_.at[place][kind]) {
        arcs_.lower(place, kAnyKind, shape_of(option), option, table_.omega(option.config),
                    base_weight(option, kind), weights_.omega);
      }
    }
  }
}

void OrderRelaxation::search_backward() {
  const std::size_t longest = table_.max_length();
  to_end_.assign(layers_ + 1, kInfinity);
  for (std::size_t start = layers_; start-- > 0;) {
    const std::size_t left = layers_ - start;
    double least =
        left <= longest ? arc_weight(stage_place(start == 0, true), start, left) : kInfinity;
    for (std::size_t length = 1; length <= std::min(longest, left - 1); ++length) {
      least = std::min(least, arc_weight(stage_place(start == 0, false), start, length) +
                                  to_end_[start + length]);
    }
    to_end_[start] = least;
  }
}

OrderRelaxation::Arc OrderRelaxation::cheapest(StagePlace place, std::size_t start,
                                               std::size_t length) const {
  Arc best;
  for (std::size_t kind = 0; kind < options_.at[place].size(); ++kind) {
    for (const Option& option : options_.at[place][kind]) {
      const auto& shape = shape_of(option);
      if (shape.length != length) continue;
      const std::size_t i = table_.index_of(shape, start);
      if (i < option.low || i >= option.high) continue;
      const double weight =
          base_weight(option, kind) + weights_.omega * table_.omega(option.config)[i];
      if (weight < best.weight) best = {&option, kind, i, weight};
    }
  }
  return best;
}

PathStage OrderRelaxation::next_stage(std::size_t start) {
  const std::size_t longest = table_.max_length(), left = layers_ - start;
  PathStage stage;
  stage.start = start;
  double least = kInfinity;
  for (std::size_t length = 1; length <= std::min(longest, left); ++length) {
    const StagePlace place = stage_place(start == 0, length == left);
    const double after = length == left ? 0 : to_end_[start + length];
    const double weight = arc_weight(place, start, length) + after;
    if (weight >= least) continue;
    least = weight;
    stage.place = place;
    stage.length = length;
  }
  const Arc arc = cheapest(stage.place, start, stage.length);
  stage.kind = arc.kind;
  stage.group = space_.kinds()[arc.kind].group;
  stage.config = arc.option->config;
  stage.prefill_s = arc.option->prefill_s;
  stage.decode_s = arc.option->decode_s;
  stage.omega = table_.omega(stage.config)[arc.index];
  return stage;
}

void OrderRelaxation::trace() {
  std::vector<PathStage> stages;
  for (std::size_t done = 0; done < layers_; done += stages.back().length) {
    stages.push_back(next_stage(done));
  }
  path_ = price_path(space_, pair_, std::move(stages), false);
}

}  // namespace

PricePoint fluid_prices(const SearchSpace& space, const Pair& pair, const FluidBound& fluid) {
  PricePoint at{fluid.multipliers(), {}};
  const FluidBound::Prices prices = fluid.prices();
  for (std::size_t k = 0; k < space.kinds().size(); ++k) {
    at.devices.push_back(prices.memory[k] * std::max(0.0, pair.room_bytes[k][StagePlace::middle]));
  }
  return at;
}

// Maximises the Lagrangian dual by Kelley's cutting planes, as BoxSolver does. Prices of devices
// stay within a trust region around the best ones so far: farther away the model promises too much.
RelaxedBound relax_orders(const SearchSpace& space, const ConfigTable& table, const Pair& pair,
                          const Box& box, const OptionSet& options, PricePoint start, double scale,
                          const RelaxEffort& effort) {
  OrderRelaxation relaxation(space, table, pair, box, options);
  CutModel model(space, pair, box, scale);
  RelaxedBound best;
  best.at = std::move(start);
  PricePoint query = best.at;
  double radius = kFirstRadius * scale / static_cast<double>(space.num_positions());
  for (std::size_t i = 0; i < effort.max_steps && !effort.should_stop(); ++i) {
    const double value = relaxation.evaluate(query);
    if (value == kInfinity) {
      best.value = value;
      return best;
    }
    model.add(relaxation.cut());
    if (value > best.value) {
      if (i > 0) radius *= kGrow;
      best = {value, query, relaxation.path()};
    } else {
      radius *= kShorten;
    }
    if (best.value >= effort.enough) return best;
    const double largest_nu = 2 * best.at.multipliers.nu + omega_price_scale(space, scale);
    const auto maximum = model.maximise_near(best.at, radius, largest_nu);
    if (maximum.value - best.value < kSmallGain * scale) return best;
    query = model.between(best.at, maximum.at, kModelShare);
  }
  return best;
}

}  // namespace tessera::solver::exact
