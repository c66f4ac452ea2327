#include "tessera/solver/moves/local_search.h"

#include <algorithm>
#include <cmath>

#include "tessera/core/rng.h"
#include "tessera/solver/instance/stage_rule.h"
#include "tessera/solver/moves/assign_bits.h"
#include "working_plan.h"

namespace tessera::solver {
namespace {

// What the annealing compares. Plans that do not fit are allowed at a penalty, as a way between
// plans that do.
struct Price {
  double objective = 0;
  double excess = 0;  ///< relative to the limits; 0: feasible
};

std::vector<std::size_t> usable_bits(const Instance& instance, std::size_t group) {
  std::vector<std::size_t> bits;
  for (std::size_t b = 0; b < instance.num_bits(); ++b) {
    if (instance.allowed_at(group, b)) bits.push_back(b);
  }
  return bits;
}

// Layers in proportion to what each device can hold, every layer at its stage's smallest bits.
std::optional<Candidate> starting_point(const Instance& instance,
                                        const LocalSearchSetting& setting) {
  const std::size_t stages = setting.order.size(), layers = instance.num_layers();
  if (layers < stages) return std::nullopt;
  Candidate c;
  c.order = setting.order;
  c.prefill_micro_batch_size = setting.prefill_micro_batch_size;
  c.decode_micro_batch_size = setting.decode_micro_batch_size;
  c.bit.assign(layers, 0);
  double total = 0, before = 0;
  for (const std::size_t g : c.order) total += instance.groups[g].usable_bytes;
  for (std::size_t k = 0; k < stages; ++k) {
    const double share = total > 0 ? before / total : 0;
    const auto wanted = static_cast<std::size_t>(share * static_cast<double>(layers));
    const std::size_t least = k == 0 ? 0 : c.first_layer.back() + 1;
    c.first_layer.push_back(std::clamp(wanted, k == 0 ? 0 : least, layers - (stages - k)));
    before += instance.groups[c.order[k]].usable_bytes;
  }
  c.first_layer.push_back(layers);
  for (std::size_t k = 0; k < stages; ++k) {
    const auto bits = usable_bits(instance, c.order[k]);
    if (bits.empty()) return std::nullopt;
    std::fill(c.bit.begin() + static_cast<std::ptrdiff_t>(c.first_layer[k]),
              c.bit.begin() + static_cast<std::ptrdiff_t>(c.first_layer[k + 1]), bits.front());
  }
  return c;
}

class Annealing {
 public:
  Annealing(const Instance& instance, const LocalSearchSetting& setting, Candidate start)
      : instance_(instance),
        setting_(setting),
        rng_(setting.seed),
        walk_(instance, std::move(start)),
        rule_(instance) {
    for (std::size_t g = 0; g < instance.groups.size(); ++g) {
      bits_.push_back(usable_bits(instance, g));
    }
  }

  std::optional<Candidate> run(const Deadline& deadline) {
    price_ = price();
    remember();
    // The penalty: one relative unit of excess outweighs any gain in time from the first move on.
    penalty_ = 20 * std::max(1e-9, std::fabs(price_.objective));
    const double hot = 3e-3 * std::max(1e-9, std::fabs(price_.objective)), cold = hot * 1e-4;
    const double moves = static_cast<double>(std::max<std::int64_t>(1, setting_.num_moves));
    for (std::int64_t move = 0; move < setting_.num_moves; ++move) {
      if (move % 64 == 0) {
        if (move % 1024 == 0 && deadline.reached()) break;
        temperature_ = hot * std::pow(cold / hot, static_cast<double>(move) / moves);
      }
      step();
    }
    return polish();
  }

 private:
  void step() {
    const auto draw = rng_.integer(0, 15);
    if (draw == 0 && setting_.free_order) {
      try_swap_groups();
    } else if (draw <= 4) {
      try_shift();
    } else if (draw <= 8) {
      try_bit();
    } else {
      try_exchange();
    }
  }

  std::size_t below(std::size_t count) {
    return static_cast<std::size_t>(rng_.integer(0, static_cast<std::int64_t>(count) - 1));
  }

  Price price() const { return {walk_.objective(), walk_.excess()}; }

  bool accept() {
    const Price next = price();
    const double before = price_.objective + penalty_ * price_.excess;
    const double after = next.objective + penalty_ * next.excess;
    if (after > before && rng_.uniform() >= std::exp((before - after) / temperature_)) return false;
    price_ = next;
    remember();
    return true;
  }

  void remember() {
    if (price_.excess > 0) return;
    if (best_ && price_.objective >= best_objective_) return;
    best_ = walk_.candidate();
    best_objective_ = price_.objective;
  }

  void try_bit() {
    const std::size_t layer = below(instance_.num_layers());
    const auto& bits = bits_[walk_.candidate().order[walk_.stage_of(layer)]];
    const std::size_t old = walk_.candidate().bit[layer], bit = bits[below(bits.size())];
    if (bit == old) return;
    walk_.set_bit(layer, bit);
    if (!accept()) walk_.set_bit(layer, old);
  }

  // Two layers trade or change bits together, which keeps sums near where they were.
  void try_exchange() {
    const std::size_t a = below(instance_.num_layers()), b = below(instance_.num_layers());
    const std::size_t stage_a = walk_.stage_of(a), stage_b = walk_.stage_of(b);
    const std::size_t old_a = walk_.candidate().bit[a], old_b = walk_.candidate().bit[b];
    if (a == b || old_a == old_b) return;
    if (!walk_.runs(stage_a, old_b) || !walk_.runs(stage_b, old_a)) return;
    walk_.set_bit(a, old_b);
    walk_.set_bit(b, old_a);
    if (accept()) return;
    walk_.set_bit(a, old_a);
    walk_.set_bit(b, old_b);
  }

  void try_shift() {
    if (walk_.num_stages() < 2) return;
    const std::size_t k = 1 + below(walk_.num_stages() - 1);
    const bool right = rng_.integer(0, 1) == 1;
    const auto& first = walk_.candidate().first_layer;
    const std::size_t from = right ? k : k - 1, to = right ? k - 1 : k;
    const std::size_t size = first[from + 1] - first[from];
    const bool end = from == 0 || from + 1 == walk_.num_stages();
    if (size <= (end || !instance_.may_be_empty() ? 1u : 0u)) return;
    const std::size_t layer = right ? first[k] : first[k] - 1;
    const std::size_t old = walk_.candidate().bit[layer];
    const auto& bits = bits_[walk_.candidate().order[to]];
    if (bits.empty()) return;
    const bool keep = walk_.runs(to, old) && rng_.integer(0, 2) != 0;
    walk_.shift(k, right, keep ? old : bits[below(bits.size())]);
    if (!accept()) walk_.shift(k, !right, old);
  }

  void try_swap_groups() {
    const std::size_t a = below(walk_.num_stages()), b = below(walk_.num_stages());
    const auto& order = walk_.candidate().order;
    if (order[a] == order[b]) return;
    walk_.swap_groups(a, b);
    if (rule_.breach(order) || find_kernel_gap() || !accept()) walk_.swap_groups(a, b);
  }

  bool find_kernel_gap() const {
    const Candidate& c = walk_.candidate();
    for (std::size_t k = 0; k < c.order.size(); ++k) {
      for (auto i = c.first_layer[k]; i < c.first_layer[k + 1]; ++i) {
        if (!walk_.runs(k, c.bit[i])) return true;
      }
    }
    return false;
  }

  std::optional<Candidate> polish() const {
    if (!best_) return std::nullopt;
    Candidate best = *best_;
    improve_bits(instance_, best);
    if (!find_violation(instance_, best)) return best;
    if (!find_violation(instance_, *best_)) return best_;
    return std::nullopt;
  }

  const Instance& instance_;
  const LocalSearchSetting& setting_;
  Rng rng_;
  WorkingPlan walk_;
  StageOrder rule_;
  std::vector<std::vector<std::size_t>> bits_;
  Price price_;
  double penalty_ = 0, temperature_ = 0;
  std::optional<Candidate> best_;
  double best_objective_ = 0;
};

}  // namespace

std::optional<Candidate> local_search(const Instance& instance, const LocalSearchSetting& setting,
                                      const Deadline& deadline, const Candidate* start) {
  std::optional<Candidate> from = start ? *start : starting_point(instance, setting);
  if (!from) return std::nullopt;
  from->prefill_micro_batch_size = setting.prefill_micro_batch_size;
  from->decode_micro_batch_size = setting.decode_micro_batch_size;
  return Annealing(instance, setting, *std::move(from)).run(deadline);
}

}  // namespace tessera::solver
