#include "tessera/solver/moves/assign_bits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/solver/instance/numbers.h"

namespace tessera::solver {
namespace {

// The layers given so far, by bit, and the cheapest way to push one of them to another bit.
class Assignment {
 public:
  Assignment(const Instance& instance, std::vector<std::size_t>& bit)
      : instance_(instance),
        bit_(bit),
        members_(instance.num_bits()),
        cost_(members_.size() * members_.size(), kInfinity),
        mover_(members_.size() * members_.size(), 0) {
    for (const double omega : instance.omega) tie_ = std::max(tie_, 1e-14 * std::fabs(omega));
  }

  // Adds a layer where it costs least, pushing others on until a bit with room is reached.
  void add(std::size_t layer, std::vector<std::size_t>& room) {
    const std::size_t bits = members_.size();
    std::vector<double> distance(bits);
    std::vector<std::size_t> from(bits, bits);
    for (std::size_t b = 0; b < bits; ++b) distance[b] = instance_.omega_at(layer, b);
    // Bellman-Ford: moves may have negative cost, their cycles never do.
    for (std::size_t round = 0; round + 1 < bits; ++round) {
      for (std::size_t a = 0; a < bits; ++a) {
        for (std::size_t b = 0; b < bits; ++b) {
          // A chain of exact ties must not turn into a cycle by rounding.
          if (distance[a] + cost_[a * bits + b] < distance[b] - tie_) {
            distance[b] = distance[a] + cost_[a * bits + b];
            from[b] = a;
          }
        }
      }
    }
    std::size_t end = bits;
    for (std::size_t b = 0; b < bits; ++b) {
      if (room[b] > 0 && (end == bits || distance[b] < distance[end])) end = b;
    }
    --room[end];
    push(layer, end, from);
  }

 private:
  // The cheapest move from bit a to each other, among the layers there.
  void compute_moves(std::size_t a) {
    const std::size_t bits = members_.size();
    std::fill_n(cost_.begin() + static_cast<std::ptrdiff_t>(a * bits), bits, kInfinity);
    for (const std::size_t layer : members_[a]) offer_moves(layer, a);
  }

  void offer_moves(std::size_t layer, std::size_t a) {
    const std::size_t bits = members_.size();
    for (std::size_t b = 0; b < bits; ++b) {
      const double cost = instance_.omega_at(layer, b) - instance_.omega_at(layer, a);
      if (b == a || cost >= cost_[a * bits + b]) continue;
      cost_[a * bits + b] = cost;
      mover_[a * bits + b] = layer;
    }
  }

  void push(std::size_t layer, std::size_t end, const std::vector<std::size_t>& from) {
    const std::size_t bits = members_.size();
    std::size_t b = end;
    for (std::size_t steps = 0; from[b] != bits && steps < bits; ++steps) {
      const std::size_t a = from[b];
      const std::size_t moved = mover_[a * bits + b];
      std::erase(members_[a], moved);
      compute_moves(a);
      place(moved, b);
      b = a;
    }
    place(layer, b);
  }

  void place(std::size_t layer, std::size_t b) {
    members_[b].push_back(layer);
    bit_[layer] = b;
    offer_moves(layer, b);
  }

  double tie_ = 0;
  const Instance& instance_;
  std::vector<std::size_t>& bit_;
  std::vector<std::vector<std::size_t>> members_;
  std::vector<double> cost_;
  std::vector<std::size_t> mover_;
};

}  // namespace

void assign_bits(const Instance& instance, const std::vector<std::size_t>& layers,
                 std::vector<std::size_t> counts, std::vector<std::size_t>& bit) {
  Assignment assignment(instance, bit);
  for (const std::size_t layer : layers) assignment.add(layer, counts);
}

void improve_bits(const Instance& instance, Candidate& candidate) {
  for (std::size_t stage = 0; stage + 1 < candidate.first_layer.size(); ++stage) {
    for (std::int32_t cls = 0; cls < instance.num_classes; ++cls) {
      std::vector<std::size_t> layers, counts(instance.num_bits(), 0);
      for (auto i = candidate.first_layer[stage]; i < candidate.first_layer[stage + 1]; ++i) {
        if (instance.layer_class[i] != cls) continue;
        layers.push_back(i);
        ++counts[candidate.bit[i]];
      }
      assign_bits(instance, layers, counts, candidate.bit);
    }
  }
}

}  // namespace tessera::solver
