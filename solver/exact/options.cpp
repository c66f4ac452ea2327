#include "options.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace tessera::solver::exact {
namespace {

class OptionBuilder {
 public:
  OptionBuilder(const SearchSpace& space, const Pair& pair, const ConfigTable& table,
                const Box& box, const FluidBound& fluid, double cutoff)
      : space_(space),
        pair_(pair),
        table_(table),
        box_(box),
        prices_(fluid.prices()),
        slack_(cutoff < kInfinity ? cutoff - fluid.bound() + 1e-11 * std::fabs(fluid.bound())
                                  : kInfinity) {}

  /// Adds what a shape's configurations may do on each kind of device.
  void add(const ConfigTable::Shape& shape, OptionSet& options) const {
    if (shape.length == 0) return;
    const std::vector<Range> ranges = ranges_of(shape);
    if (ranges.empty() || shape.begin == shape.end) return;
    const std::vector<double> paid = paid_for(shape);
    const std::size_t kinds = space_.kinds().size();
    std::vector<std::size_t> before;
    for (const Range& range : ranges) {
      for (std::size_t k = 0; k < kinds; ++k) before.push_back(options.at[range.place][k].size());
    }
    for (std::size_t config = shape.begin; config < shape.end; ++config) {
      for (std::size_t kind = 0; kind < kinds; ++kind) add(config, kind, ranges, paid, options);
    }
    for (std::size_t i = 0; i < before.size() && !space_.omega_matters(); ++i) {
      const StagePlace place = ranges[i / kinds].place;
      if (place != StagePlace::middle) drop_dominated(options.at[place][i % kinds], before[i]);
    }
  }

 private:
  // Indices [low, high) into a shape's starts at which a stage has this place in the pipeline.
  struct Range {
    StagePlace place = StagePlace::middle;
    std::size_t low = 0, high = 0;
  };

  std::vector<Range> ranges_of(const ConfigTable::Shape& shape) const {
    const std::size_t layers = space_.num_layers(), positions = space_.num_positions();
    std::vector<Range> ranges;
    const auto add_at = [&](StagePlace place, std::size_t start) {
      const std::size_t i = table_.index_of(shape, start);
      if (i < shape.starts.size()) ranges.push_back({place, i, i + 1});
    };
    if (space_.least_stages() == 1 && shape.length == layers) add_at(StagePlace::only, 0);
    if (positions == 1) return ranges;
    if (positions > 2) ranges.push_back({StagePlace::middle, 0, shape.starts.size()});
    add_at(StagePlace::first, 0);
    add_at(StagePlace::last, layers - shape.length);
    return ranges;
  }

  void add(std::size_t config, std::size_t kind, const std::vector<Range>& ranges,
           const std::vector<double>& paid, OptionSet& options) const {
    const std::size_t cells = space_.num_cells();
    const std::uint16_t* counts = table_.counts(config);
    double prefill = 0, decode = 0, bytes = 0, price = 0;
    for (std::size_t cell = 0; cell < cells; ++cell) {
      if (counts[cell] == 0) continue;
      if (!space_.allowed(kind, cell)) return;
      const double n = counts[cell];
      prefill += n * pair_.prefill_s[kind * cells + cell];
      decode += n * pair_.decode_s[kind * cells + cell];
      bytes += n * space_.layer_bytes(kind, cell);
      price += n * prices_.cell[kind * cells + cell];
    }
    price += prices_.memory[kind] * std::max(0.0, prices_.least_room[kind] - bytes);
    const double* omega = table_.omega(config);
    // Whether the configuration costs little enough above the fluid.
    const auto passes = [&](std::size_t i) {
      return price + prices_.omega * omega[i] - paid[i] <= slack_;
    };
    for (const Range& range : ranges) {
      if (bytes > pair_.room_bytes[kind][range.place]) continue;
      Option option;
      option.config = static_cast<std::uint32_t>(config);
      option.prefill_s = prefill + pair_.prefill_end_s[kind][range.place];
      option.decode_s = decode + pair_.decode_end_s[kind][range.place];
      if (option.prefill_s > box_.prefill_high || option.decode_s > box_.decode_high) continue;
      std::size_t low = range.low, high = range.high;
      while (low < high && !passes(low)) ++low;
      while (low < high && !passes(high - 1)) --high;
      if (low == high) continue;
      option.low = static_cast<std::uint16_t>(low);
      option.high = static_cast<std::uint16_t>(high);
      options.at[range.place][kind].push_back(option);
    }
  }

  // Where omega plays no part, most options take no less of either time than another one for the
  // same layers; they are in no plan that is needed. With omega few are.
  static void drop_dominated(std::vector<Option>& list, std::size_t first) {
    const auto begin = list.begin() + static_cast<std::ptrdiff_t>(first);
    std::sort(begin, list.end(), [](const Option& a, const Option& b) {
      return std::tuple(a.prefill_s, a.decode_s, a.config) <
             std::tuple(b.prefill_s, b.decode_s, b.config);
    });
    double least_decode = kInfinity;
    const auto end = std::remove_if(begin, list.end(), [&](const Option& option) {
      const bool dominated = option.decode_s >= least_decode;
      least_decode = std::min(least_decode, option.decode_s);
      return dominated;
    });
    list.erase(end, list.end());
    std::sort(begin, list.end(),
              [](const Option& a, const Option& b) { return a.config < b.config; });
  }

  // [index into the shape's starts] What the fluid pays for the layers there.
  std::vector<double> paid_for(const ConfigTable::Shape& shape) const {
    const std::size_t stride = space_.num_layers() + 1;
    std::vector<double> paid(shape.starts.size(), 0);
    for (std::size_t i = 0; i < paid.size(); ++i) {
      for (std::size_t k = 0; k < shape.layers.size(); ++k) {
        const double* before = &prices_.paid_before[k * stride + shape.starts[i]];
        paid[i] += before[shape.length] - before[0];
      }
    }
    return paid;
  }

  const SearchSpace& space_;
  const Pair& pair_;
  const ConfigTable& table_;
  const Box& box_;
  FluidBound::Prices prices_;
  double slack_;  ///< cutoff less the fluid's bound
};

// Smallest attained value at or above `low` and largest at or below `high`.
class Attained {
 public:
  Attained(double low, double high) : low_(low), high_(high) {}
  void add(double value) {
    if (value >= low_ && value < above_) above_ = value;
    if (value <= high_ && value > below_) below_ = value;
  }
  bool apply(double& low, double& high) const {
    low = above_;
    high = below_;
    return low <= high;
  }

 private:
  double low_, high_;
  double above_ = kInfinity, below_ = -kInfinity;
};

}  // namespace

std::size_t OptionSet::size() const {
  std::size_t size = 0;
  for (const auto& kinds : at) {
    for (const auto& options : kinds) size += options.size();
  }
  return size;
}

OptionSet all_options(const SearchSpace& space, const Pair& pair, const ConfigTable& table,
                      const Box& box, const FluidBound& fluid, double cutoff) {
  OptionSet options;
  for (auto& kinds : options.at) kinds.resize(space.kinds().size());
  const OptionBuilder builder(space, pair, table, box, fluid, cutoff);
  for (const ConfigTable::Shape& shape : table.shapes()) builder.add(shape, options);
  return options;
}

OptionSet narrowed(const OptionSet& options, const Box& box) {
  OptionSet kept;
  kept.first_node = options.first_node;
  kept.end_node = options.end_node;
  for (const StagePlace place : kStagePlaces) {
    kept.at[place].resize(options.at[place].size());
    for (std::size_t kind = 0; kind < options.at[place].size(); ++kind) {
      for (const Option& option : options.at[place][kind]) {
        if (option.prefill_s <= box.prefill_high && option.decode_s <= box.decode_high) {
          kept.at[place][kind].push_back(option);
        }
      }
    }
  }
  return kept;
}

bool tighten_bounds(const SearchSpace& space, const Pair& pair, const OptionSet& options,
                    Box& box) {
  Attained prefill(box.prefill_low, box.prefill_high), decode(box.decode_low, box.decode_high);
  for (const auto& kinds : options.at) {
    for (const auto& list : kinds) {
      for (const Option& option : list) {
        prefill.add(option.prefill_s);
        decode.add(option.decode_s);
      }
    }
  }
  const std::size_t groups = space.instance().groups.size();
  const auto add_link = [&](std::size_t from, std::size_t to) {
    prefill.add(pair.link_s(false, from, to, groups));
    decode.add(pair.link_s(true, from, to, groups));
  };
  if (space.order()) {
    const auto& order = *space.order();
    for (std::size_t k = 1; k < order.size(); ++k) add_link(order[k - 1], order[k]);
  } else {
    for (std::size_t from = 0; from < groups; ++from) {
      for (std::size_t to = 0; to < groups; ++to) add_link(from, to);
    }
  }
  return prefill.apply(box.prefill_low, box.prefill_high) &&
         decode.apply(box.decode_low, box.decode_high);
}

}  // namespace tessera::solver::exact
