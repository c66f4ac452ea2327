#include "tessera/solver/instance/grouping.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace tessera::solver {
namespace {

using Members = std::vector<std::int32_t>;  ///< classes of the layers of a block, sorted

/// Costs of blocks by micro-batch size, made from those of layers when first asked for.
class BlockCosts {
 public:
  using Source = std::function<const PhaseCosts&(std::int64_t)>;
  BlockCosts(const Instance& layers, Source source, std::vector<Members> classes)
      : num_groups_(layers.groups.size()),
        num_bits_(layers.num_bits()),
        num_classes_(static_cast<std::size_t>(layers.num_classes)),
        source_(std::move(source)),
        classes_(std::move(classes)) {}

  const PhaseCosts& at(std::int64_t size) {
    const auto [it, fresh] = known_.try_emplace(size);
    if (fresh) it->second = sum(source_(size));
    return it->second;
  }

 private:
  PhaseCosts sum(const PhaseCosts& layers) const {
    PhaseCosts costs = layers;
    costs.layer_s.clear();
    for (std::size_t g = 0; g < num_groups_; ++g) {
      for (const Members& members : classes_) {
        for (std::size_t bit = 0; bit < num_bits_; ++bit) {
          double total = 0;
          for (const std::int32_t cls : members) {
            total +=
                layers
                    .layer_s[(g * num_classes_ + static_cast<std::size_t>(cls)) * num_bits_ + bit];
          }
          costs.layer_s.push_back(total);
        }
      }
    }
    return costs;
  }

  std::size_t num_groups_, num_bits_, num_classes_;
  Source source_;
  std::vector<Members> classes_;
  std::map<std::int64_t, PhaseCosts> known_;
};

std::function<const PhaseCosts&(std::int64_t)> block_costs(
    const Instance& instance, std::function<const PhaseCosts&(std::int64_t)> source,
    const std::vector<Members>& classes) {
  auto costs = std::make_shared<BlockCosts>(instance, std::move(source), classes);
  return [costs](std::int64_t size) -> const PhaseCosts& { return costs->at(size); };
}

}  // namespace

Instance merge_layer_blocks(const Instance& instance, std::size_t size) {
  const std::size_t layers = instance.num_layers(), bits = instance.num_bits();
  Instance blocks = instance;
  blocks.layer_class.clear();
  blocks.omega.clear();
  blocks.layer_bytes.clear();
  std::map<Members, std::int32_t> known;
  std::vector<Members> classes;
  for (std::size_t first = 0; first < layers; first += size) {
    const std::size_t last = std::min(first + size, layers);
    Members members(instance.layer_class.begin() + static_cast<std::ptrdiff_t>(first),
                    instance.layer_class.begin() + static_cast<std::ptrdiff_t>(last));
    std::sort(members.begin(), members.end());
    const auto [it, fresh] = known.emplace(members, static_cast<std::int32_t>(classes.size()));
    if (fresh) classes.push_back(members);
    blocks.layer_class.push_back(it->second);
    for (std::size_t bit = 0; bit < bits; ++bit) {
      double omega = 0;
      for (std::size_t layer = first; layer < last; ++layer) omega += instance.omega_at(layer, bit);
      blocks.omega.push_back(omega);
    }
  }
  blocks.num_classes = static_cast<std::int32_t>(classes.size());
  const std::size_t row = static_cast<std::size_t>(instance.num_classes) * bits;
  for (std::size_t begin = 0; begin < instance.layer_bytes.size(); begin += row) {
    for (const Members& members : classes) {
      for (std::size_t bit = 0; bit < bits; ++bit) {
        double bytes = 0;
        for (const std::int32_t cls : members) {
          bytes += instance.layer_bytes[begin + static_cast<std::size_t>(cls) * bits + bit];
        }
        blocks.layer_bytes.push_back(bytes);
      }
    }
  }
  blocks.prefill = block_costs(instance, instance.prefill, classes);
  blocks.decode = block_costs(instance, instance.decode, classes);
  return blocks;
}

Candidate split_layer_blocks(const Instance& instance, const Candidate& blocks, std::size_t size) {
  Candidate candidate = blocks;
  for (std::size_t& first : candidate.first_layer) {
    first = std::min(first * size, instance.num_layers());
  }
  candidate.bit.clear();
  for (std::size_t layer = 0; layer < instance.num_layers(); ++layer) {
    candidate.bit.push_back(blocks.bit[layer / size]);
  }
  return candidate;
}

PlanResult plan_layer_blocks(const Planner& planner, const Instance& instance,
                             const PlanRequest& request, std::size_t size) {
  if (size <= 1) return planner.plan(instance, request);
  PlanRequest inner = request;
  if (request.on_incumbent) {
    inner.on_incumbent = [&](const Incumbent& incumbent) {
      request.on_incumbent({split_layer_blocks(instance, incumbent.candidate, size),
                            incumbent.objective, incumbent.bound});
    };
  }
  PlanResult result = planner.plan(merge_layer_blocks(instance, size), inner);
  if (result.candidate) {
    result.candidate = split_layer_blocks(instance, *result.candidate, size);
    result.objective = evaluate(instance, *result.candidate).objective;
  }
  if (result.violation) {
    result.violation->message +=
        fmt::format(" (layers decided {} together: group = {})", size, size);
  }
  result.notes.push_back(
      fmt::format("group = {}: plan and bound are of plans that decide {} neighbouring layers "
                  "together",
                  size, size));
  return result;
}

}  // namespace tessera::solver
