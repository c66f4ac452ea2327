#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tessera/solver/instance/instance.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver::instances {

/// Tries every order, boundary, bitwidth and pair of micro-batch sizes and prices each straight
/// from solver/README.md, Objective. Uses nothing of the solver but the data in `Instance`.
class BruteForce {
 public:
  BruteForce(const Instance& in, const PlanRequest& request) : in_(in), request_(request) {}

  /// The least objective, or nothing when no plan exists.
  std::optional<double> best() {
    for (const auto& order : orders()) {
      for (const auto& [eta, xi] : pairs(order.size())) {
        std::vector<std::size_t> begin{0};
        split(order, eta, xi, begin);
      }
    }
    return best_;
  }

  /// From the definition of StageRule.
  static bool keeps_stage_rule(const Instance& in, const std::vector<std::size_t>& order) {
    if (in.stage_rule == StageRule::any) return true;
    std::vector<std::string> nodes;
    std::vector<int> stages;
    for (const std::size_t g : order) {
      if (in.groups[g].sharding != in.groups[order[0]].sharding) return false;
      if (nodes.empty() || nodes.back() != in.groups[g].node) {
        nodes.push_back(in.groups[g].node);
        stages.push_back(0);
      }
      ++stages.back();
    }
    if (std::set(nodes.begin(), nodes.end()).size() != nodes.size()) return false;
    if (in.stage_rule == StageRule::one_node) {
      const bool shares = std::any_of(order.begin(), order.end(),
                                      [&](std::size_t g) { return in.groups[g].shares_layers; });
      return nodes.size() == 1 && (order.size() == 1 || !shares);
    }
    return std::is_sorted(stages.begin() + 1, stages.end());
  }

 private:
  std::set<std::vector<std::size_t>> orders() const {
    if (request_.order && !keeps_stage_rule(in_, *request_.order)) return {};
    if (request_.order) return {*request_.order};
    std::set<std::vector<std::size_t>> found;
    std::vector<std::int32_t> left;
    std::size_t devices = 0;
    for (const DeviceGroup& g : in_.groups) {
      left.push_back(g.count);
      devices += static_cast<std::size_t>(g.count);
    }
    std::vector<std::size_t> prefix;
    const std::size_t fewest = in_.allow_single_stage ? 1 : 2;
    extend(left, prefix, in_.allow_empty_stage ? std::min(fewest, devices) : devices, found);
    std::erase_if(found, [this](const auto& order) { return !keeps_stage_rule(in_, order); });
    return found;
  }

  void extend(std::vector<std::int32_t>& left, std::vector<std::size_t>& prefix, std::size_t least,
              std::set<std::vector<std::size_t>>& found) const {
    if (!prefix.empty() && prefix.size() >= least) found.insert(prefix);
    for (std::size_t g = 0; g < left.size(); ++g) {
      if (left[g] == 0) continue;
      --left[g];
      prefix.push_back(g);
      extend(left, prefix, least, found);
      prefix.pop_back();
      ++left[g];
    }
  }

  std::vector<std::pair<std::int64_t, std::int64_t>> pairs(std::size_t) const {
    std::size_t stages = 0;
    for (const DeviceGroup& g : in_.groups) stages += static_cast<std::size_t>(g.count);
    if (request_.order) stages = request_.order->size();
    const auto n = static_cast<std::int64_t>(stages);
    std::vector<std::pair<std::int64_t, std::int64_t>> found;
    for (std::int64_t eta = 1; eta <= in_.batch_size; ++eta) {
      for (std::int64_t xi = 1; xi <= in_.batch_size; ++xi) {
        const auto& fixed_eta = request_.prefill_micro_batch_size;
        const auto& fixed_xi = request_.decode_micro_batch_size;
        if (fixed_eta && eta != *fixed_eta) continue;
        if (fixed_xi && xi != *fixed_xi) continue;
        if (!fixed_xi && in_.objective == Objective::paper && xi != (in_.batch_size + n - 1) / n) {
          continue;
        }
        if (eta > xi && !(fixed_eta && fixed_xi)) continue;
        found.emplace_back(eta, xi);
      }
    }
    return found;
  }

  void split(const std::vector<std::size_t>& order, std::int64_t eta, std::int64_t xi,
             std::vector<std::size_t>& begin) {
    const std::size_t layers = in_.layer_class.size(), stage = begin.size() - 1;
    const bool end = stage == 0 || stage + 1 == order.size();
    const bool may_be_empty = in_.allow_empty_stage && in_.stage_rule == StageRule::any;
    const std::size_t least = may_be_empty && !end ? 0 : 1;
    if (stage + 1 == order.size()) {
      if (layers < begin.back() + least) return;
      begin.push_back(layers);
      std::vector<std::size_t> bit;
      choose(order, eta, xi, begin, bit);
      begin.pop_back();
      return;
    }
    for (std::size_t next = begin.back() + least; next <= layers; ++next) {
      begin.push_back(next);
      split(order, eta, xi, begin);
      begin.pop_back();
    }
  }

  void choose(const std::vector<std::size_t>& order, std::int64_t eta, std::int64_t xi,
              const std::vector<std::size_t>& begin, std::vector<std::size_t>& bit) {
    if (bit.size() == in_.layer_class.size()) {
      price(order, eta, xi, begin, bit);
      return;
    }
    std::size_t stage = 0;
    while (begin[stage + 1] <= bit.size()) ++stage;
    for (std::size_t b = 0; b < in_.bitwidths.size(); ++b) {
      if (in_.allowed[order[stage] * in_.bitwidths.size() + b] == 0) continue;
      bit.push_back(b);
      choose(order, eta, xi, begin, bit);
      bit.pop_back();
    }
  }

  bool keeps_rows(const std::vector<std::size_t>& order, const std::vector<std::size_t>& begin,
                  const std::vector<std::size_t>& bit) const {
    for (const Row& row : in_.rows) {
      double left = 0;
      for (const RowTerm& term : row.terms) {
        for (std::size_t i = 0, j = 0; i < bit.size(); ++i) {
          while (begin[j + 1] <= i) ++j;
          const bool counted = j >= term.first_stage && j < term.end_stage &&
                               (term.groups.empty() || term.groups[order[j]] == 1) &&
                               (!term.bit || *term.bit == bit[i]) &&
                               (!term.layer || *term.layer == i);
          if (counted) left += term.coefficient;
        }
      }
      if (row.sense != Sense::at_least && left > row.rhs + 1e-9) return false;
      if (row.sense != Sense::at_most && left < row.rhs - 1e-9) return false;
    }
    return true;
  }

  void price(const std::vector<std::size_t>& order, std::int64_t eta, std::int64_t xi,
             const std::vector<std::size_t>& begin, const std::vector<std::size_t>& bit) {
    if (!keeps_rows(order, begin, bit)) return;
    const PhaseCosts& pre = in_.prefill(eta);
    const PhaseCosts& dec = in_.decode(xi);
    const std::size_t bits = in_.bitwidths.size(), n = order.size();
    const auto classes = static_cast<std::size_t>(in_.num_classes);
    double tp = 0, td = 0, sum_p = 0, sum_d = 0, omega = 0;
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t g = order[j];
      const std::size_t place = (j == 0 ? 1u : 0u) + (j + 1 == n ? 2u : 0u);
      double p = (j == 0 ? pre.first_s[g] : 0) + (j + 1 == n ? pre.last_s[g] : 0);
      double d = (j == 0 ? dec.first_s[g] : 0) + (j + 1 == n ? dec.last_s[g] : 0);
      const std::size_t row = in_.groups[g].sharding, held = 4 * row + place;
      double bytes = in_.embedding_bytes[held] +
                     std::max(pre.activation_bytes[held], dec.activation_bytes[held]);
      for (std::size_t i = begin[j]; i < begin[j + 1]; ++i) {
        const auto cls = static_cast<std::size_t>(in_.layer_class[i]);
        p += pre.layer_s[(g * classes + cls) * bits + bit[i]];
        d += dec.layer_s[(g * classes + cls) * bits + bit[i]];
        bytes += in_.layer_bytes[(row * classes + cls) * bits + bit[i]];
        omega += in_.omega[i * bits + bit[i]];
      }
      if (bytes > in_.groups[g].usable_bytes * (1 + 1e-9)) return;
      tp = std::max(tp, p);
      td = std::max(td, d);
      sum_p += p;
      sum_d += d;
      if (j > 0) {
        tp = std::max(tp, pre.link_s[order[j - 1] * in_.groups.size() + g]);
        td = std::max(td, dec.link_s[order[j - 1] * in_.groups.size() + g]);
      }
    }
    if (in_.max_omega &&
        omega > *in_.max_omega + 1e-6 * std::max(*in_.max_omega, -*in_.max_omega)) {
      return;
    }
    const auto batches = [&](std::int64_t size) {
      return static_cast<double>((in_.batch_size + size - 1) / size);
    };
    const double kappa = static_cast<double>(in_.num_chunks), later = in_.output_tokens - 1;
    double f = in_.theta * omega;
    if (in_.objective == Objective::paper) {
      f += kappa * (batches(eta) - 1) * tp + kappa * sum_p + (batches(xi) - 1) * later * td + sum_d;
    } else {
      f += (kappa * batches(eta) - 1) * tp + sum_p + later * std::max(batches(xi) * td, sum_d);
    }
    if (!best_ || f < *best_) best_ = f;
  }

  const Instance& in_;
  const PlanRequest& request_;
  std::optional<double> best_;
};

}  // namespace tessera::solver::instances
