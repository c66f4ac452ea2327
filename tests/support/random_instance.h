#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/rng.h"
#include "tessera/core/units.h"
#include "tessera/solver/instance/instance.h"

namespace tessera::solver::instances {

struct RandomLimits {
  std::int64_t max_layers = 7;
  std::int64_t max_devices = 4;
  std::int64_t max_bits = 4;
  std::int64_t max_batch = 6;
};

/// Tiny planning instances with everything in them that a solver may get wrong: links slower than
/// stages, stages that may be empty, omega that does not fall with the bitwidth, layers of several
/// shapes, bitwidths without a kernel, embeddings at either end, chunks, quality floors, costs that
/// fall as micro-batches grow, groups that cut layers differently, and memory from ample to
/// hopeless. The seed decides everything.
class RandomInstance {
 public:
  RandomInstance(std::uint64_t seed, const RandomLimits& limits)
      : rng_(seed), sharding_rng_(seed + 7919), limits_(limits) {}

  Instance make() {
    Instance in;
    in.name = "random";
    shape(in);
    bytes(in);
    quality(in);
    shard(in);
    in.batch_size = rng_.integer(1, limits_.max_batch);
    in.num_chunks = chance(4) ? rng_.integer(2, 3) : 1;
    in.output_tokens = chance(5) ? 1 : 1 + 20 * rng_.uniform();
    in.objective = chance(2) ? Objective::steady : Objective::paper;
    in.allow_empty_stage = chance(2);
    in.allow_single_stage = in.allow_empty_stage && chance(2);
    in.prefill = costs(in, 1.0);
    in.decode = costs(in, 0.1);
    return in;
  }

  /// Puts the groups on one to three nodes, under one of the stage rules.
  void rule(Instance& in) {
    in.stage_rule = chance(4) ? StageRule::one_node : StageRule::node_by_node;
    for (DeviceGroup& group : in.groups) {
      group.node = std::string(1, static_cast<char>('a' + rng_.integer(0, 2)));
      if (chance(2)) group.sharding = in.groups.front().sharding;
    }
    if (in.stage_rule != StageRule::one_node || chance(2)) return;
    for (DeviceGroup& group : in.groups) {
      group.shares_layers = group.sharding == in.groups.front().sharding;
    }
  }

  /// Some of the devices in some order; all of them half of the time.
  std::vector<std::size_t> order(const Instance& in) {
    std::vector<std::size_t> devices;
    for (std::size_t g = 0; g < in.groups.size(); ++g) {
      devices.insert(devices.end(), static_cast<std::size_t>(in.groups[g].count), g);
    }
    for (std::size_t i = devices.size(); i > 1; --i) {
      std::swap(
          devices[i - 1],
          devices[static_cast<std::size_t>(rng_.integer(0, static_cast<std::int64_t>(i) - 1))]);
    }
    if (chance(2)) {
      devices.resize(
          static_cast<std::size_t>(rng_.integer(1, static_cast<std::int64_t>(devices.size()))));
    }
    return devices;
  }

  /// One to three side constraints of every kind of term and sense, each about as often kept as
  /// broken.
  std::vector<Row> rows(const Instance& in) {
    std::vector<Row> drawn;
    for (std::int64_t left = rng_.integer(1, 3); left > 0; --left) {
      Row row{"row " + std::to_string(left), {}, Sense::at_most, 0};
      double most = 0;
      for (std::int64_t terms = rng_.integer(1, 3); terms > 0; --terms) {
        row.terms.push_back(term(in));
        const double count = row.terms.back().layer ? 1 : static_cast<double>(in.num_layers());
        most += std::fabs(row.terms.back().coefficient) * count;
      }
      const bool equal = chance(4);
      row.sense = equal ? Sense::equal : chance(2) ? Sense::at_most : Sense::at_least;
      row.rhs = std::round(between(-0.2, 0.6) * most);
      drawn.push_back(row);
    }
    return drawn;
  }

  std::int64_t micro_batch(const Instance& in) { return rng_.integer(1, in.batch_size); }

 private:
  RowTerm term(const Instance& in) {
    const auto below = [&](std::size_t n) {
      return static_cast<std::size_t>(rng_.integer(0, static_cast<std::int64_t>(n) - 1));
    };
    RowTerm drawn;
    if (chance(2)) drawn.end_stage = 1 + below(in.num_devices());
    if (chance(3) && drawn.end_stage != RowTerm::kNoEnd) drawn.first_stage = drawn.end_stage - 1;
    if (chance(3)) {
      drawn.groups.assign(in.groups.size(), 0);
      drawn.groups[below(in.groups.size())] = 1;
    }
    if (chance(2)) drawn.bit = below(in.num_bits());
    if (chance(2)) drawn.layer = below(in.num_layers());
    drawn.coefficient = chance(2) ? 1 : static_cast<double>(rng_.integer(-3, 3));
    return drawn;
  }

  bool chance(std::int64_t one_in) { return rng_.integer(1, one_in) == 1; }
  double between(double low, double high) { return low + (high - low) * rng_.uniform(); }

  void shape(Instance& in) {
    const auto layers = static_cast<std::size_t>(rng_.integer(2, limits_.max_layers));
    in.num_classes = static_cast<std::int32_t>(chance(3) ? 2 : 1);
    for (std::size_t i = 0; i < layers; ++i) {
      in.layer_class.push_back(static_cast<std::int32_t>(rng_.integer(0, in.num_classes - 1)));
    }
    const std::int32_t widths[] = {3, 4, 8, 16};
    const auto bits = rng_.integer(2, limits_.max_bits);
    in.bitwidths.assign(widths, widths + bits);
    std::int64_t left = rng_.integer(1, limits_.max_devices);
    for (int g = 0; g < 3 && left > 0; ++g) {
      const std::int64_t count = g == 2 ? left : rng_.integer(1, left);
      in.groups.push_back({std::string(1, static_cast<char>('A' + g)), "node",
                           static_cast<std::int32_t>(count), 0});
      left -= count;
    }
    for (std::size_t cell = 0; cell < in.groups.size() * in.num_bits(); ++cell) {
      in.allowed.push_back(chance(6) ? 0 : 1);
    }
  }

  void bytes(Instance& in) {
    double mean = 0;
    for (std::int32_t cls = 0; cls < in.num_classes; ++cls) {
      const double unit = between(0.5, 2) * 1e9;
      for (const std::int32_t width : in.bitwidths) {
        in.layer_bytes.push_back(unit * (0.2 + static_cast<double>(width) / 16));
        mean += in.layer_bytes.back();
      }
    }
    mean /= static_cast<double>(in.layer_bytes.size());
    const double fair =
        mean * static_cast<double>(in.num_layers()) / static_cast<double>(in.num_devices());
    for (DeviceGroup& group : in.groups) {
      group.usable_bytes = (mean + fair) * (chance(8) ? between(0.1, 0.5) : between(0.6, 2));
    }
    if (chance(3)) return;
    for (const std::size_t place : {1u, 2u, 3u}) in.embedding_bytes[place] = between(0, 1.5e9);
  }

  // A tensor-parallel group pools memory and holds some things more than once. Draws of their own,
  // so that everything else stays as it is without them.
  void shard(Instance& in) {
    if (in.groups.size() < 2 || sharding_rng_.integer(1, 3) != 1) return;
    in.groups.back().sharding = 1;
    in.groups.back().usable_bytes *= 1 + sharding_rng_.uniform();
    const std::vector<double> layers = in.layer_bytes, embeddings = in.embedding_bytes;
    for (const double bytes : layers) {
      in.layer_bytes.push_back(bytes * (1 + 0.5 * sharding_rng_.uniform()));
    }
    for (const double bytes : embeddings) {
      in.embedding_bytes.push_back(bytes * (1 + sharding_rng_.uniform()));
    }
    sharded_activation_ = 1 + 2 * sharding_rng_.uniform();
  }

  void quality(Instance& in) {
    double least = 0, most = 0;
    const bool falling = chance(2);
    for (std::size_t i = 0; i < in.num_layers(); ++i) {
      std::vector<double> row;
      for (std::size_t b = 0; b < in.num_bits(); ++b) row.push_back(between(0, 1));
      if (falling) std::sort(row.rbegin(), row.rend());
      least += *std::min_element(row.begin(), row.end());
      most += *std::max_element(row.begin(), row.end());
      in.omega.insert(in.omega.end(), row.begin(), row.end());
    }
    in.theta = chance(4) ? 0 : between(0, 4);
    if (chance(3)) in.max_omega = least + (most - least) * between(-0.05, 0.8);
  }

  std::function<const PhaseCosts&(std::int64_t)> costs(const Instance& in, double scale) {
    const std::size_t groups = in.groups.size();
    const std::size_t cells = groups * static_cast<std::size_t>(in.num_classes) * in.num_bits();
    const auto line = [&](std::size_t n, double at_zero, double slope) {
      std::vector<std::pair<double, double>> lines;
      for (std::size_t i = 0; i < n; ++i) {
        lines.emplace_back(between(0.2, 1) * at_zero, between(0.2, 1) * slope);
      }
      return lines;
    };
    // Kernels differ: one bitwidth may be the fastest on one device and the slowest on another.
    const auto layer = line(cells, scale, 0.3 * scale);
    const double end = chance(2) ? scale : 0;
    const auto first = line(groups, end, 0.2 * end), last = line(groups, end, 0.2 * end);
    const double slow = chance(3) ? 4 * scale : 0.2 * scale;
    const auto link = line(groups * groups, slow, slow);
    const bool falls = chance(4);
    const double activation = between(0, 3e8);
    auto table = std::make_shared<std::vector<PhaseCosts>>();
    for (std::int64_t size = 1; size <= in.batch_size; ++size) {
      const auto s = static_cast<double>(size);
      const auto fill = [&](const std::vector<std::pair<double, double>>& lines, double factor) {
        std::vector<double> values;
        for (const auto& [zero, slope] : lines) values.push_back(factor * (zero + slope * s));
        return values;
      };
      PhaseCosts c;
      c.layer_s = fill(layer, falls && size % 2 == 0 ? 0.4 : 1);
      c.first_s = fill(first, 1);
      c.last_s = fill(last, 1);
      c.link_s = fill(link, 1);
      for (std::size_t place = 0; place < 4; ++place) {
        c.activation_bytes[place] = activation * s * (1 + 0.2 * static_cast<double>(place));
      }
      for (std::size_t place = 0; place < 4 && sharded_activation_ > 0; ++place) {
        c.activation_bytes.push_back(sharded_activation_ * c.activation_bytes[place]);
      }
      table->push_back(c);
    }
    return [table](std::int64_t size) -> const PhaseCosts& {
      return table->at(static_cast<std::size_t>(size - 1));
    };
  }

  Rng rng_, sharding_rng_;
  double sharded_activation_ = 0;  ///< of those of a single device; 0: none is sharded
  RandomLimits limits_;
};

}  // namespace tessera::solver::instances
