#include "paper_formulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tessera::solver {

PaperFormulation::PaperFormulation(const Subproblem& problem, bool named)
    : problem_(problem),
      instance_(problem.instance),
      named_(named),
      layers_(instance_.num_layers()),
      stages_(problem.order->size()),
      bits_(instance_.num_bits()) {
  choose_units();
  add_times();
  add_choices();
  add_layer_rows();
  for (std::size_t j = 0; j < stages_; ++j) {
    add_time_rows(j);
    add_memory_row(j);
  }
  add_order_rows();
  add_objective();
  add_quality_row();
  for (std::size_t r = 0; r < instance_.rows.size(); ++r) add_side_row(instance_.rows[r], r + 1);
}

std::string PaperFormulation::name(const char* what, std::size_t layer,
                                   std::optional<std::size_t> stage,
                                   std::optional<std::size_t> bit) const {
  if (!named_) return {};
  std::string text = fmt::format("{}_layer{}", what, layer);
  if (stage) text += fmt::format("_stage{}", *stage + 1);
  if (bit) text += fmt::format("_{}bit", instance_.bitwidths[*bit]);
  return text;
}

std::string PaperFormulation::name(const char* what, std::size_t stage) const {
  return named_ ? fmt::format("{}_stage{}", what, stage + 1) : std::string();
}

// The objective of a typical plan is about 1000 units, so that the solver's absolute tolerances are
// small relative ones. A file is in seconds.
void PaperFormulation::choose_units() {
  prefill_unit_ = problem_.time_unit_s(problem_.prefill);
  decode_unit_ = problem_.time_unit_s(problem_.decode);
  if (named_) return;
  const ObjectiveCoefficients& c = problem_.coefficients;
  const auto n = static_cast<double>(stages_);
  const double typical =
      (c.prefill_max + n * c.prefill_sum) * prefill_unit_ +
      (c.decode_max + n * c.decode_sum + c.round * std::max(n, c.round_micro_batches)) *
          decode_unit_;
  if (typical > 0) unit_ = typical;
}

// (7): the links between neighbours are constants.
void PaperFormulation::add_times() {
  const ObjectiveCoefficients& c = problem_.coefficients;
  const double prefill_link = problem_.slowest_link_s(problem_.prefill);
  const double decode_link = problem_.slowest_link_s(problem_.decode);
  tp_ = model_.add_column(prefill_link / prefill_unit_, kFree,
                          c.prefill_max * prefill_unit_ / unit_, false, "prefill_max");
  td_ = model_.add_column(decode_link / decode_unit_, kFree, c.decode_max * decode_unit_ / unit_,
                          false, "decode_max");
  if (c.round <= 0) return;
  round_ = model_.add_column(0, kFree, c.round * decode_unit_ / unit_, false, "decode_round");
}

// (14)
void PaperFormulation::add_choices() {
  z_ = model_.columns.size();
  for (std::size_t i = 0; i < layers_; ++i) {
    for (std::size_t j = 0; j < stages_; ++j) {
      for (std::size_t b = 0; b < bits_; ++b) {
        const double high = instance_.allowed_at(group(j), b) ? 1 : 0;
        model_.add_column(0, high, 0, true, name("z", i, j, b));
      }
    }
  }
  y_ = model_.columns.size();
  for (std::size_t i = 0; i < layers_; ++i) {
    for (std::size_t b = 0; b < bits_; ++b) {
      model_.add_column(0, 1, 0, true, name("y", i, std::nullopt, b));
    }
  }
  u_ = model_.columns.size();
  for (std::size_t i = 0; i < layers_; ++i) {
    for (std::size_t j = 0; j < stages_; ++j) {
      const bool here = (i == 0 && j == 0) || (i + 1 == layers_ && j + 1 == stages_);  // (15)
      model_.add_column(here ? 1 : 0, 1, 0, true, name("u", i, j));
    }
  }
}

// (9), (10), (11)
void PaperFormulation::add_layer_rows() {
  for (std::size_t i = 0; i < layers_; ++i) {
    Terms once;
    for (std::size_t j = 0; j < stages_; ++j) {
      Terms here{{u(i, j), -1.0}};
      for (std::size_t b = 0; b < bits_; ++b) {
        once.emplace_back(z(i, j, b), 1.0);
        here.emplace_back(z(i, j, b), 1.0);
      }
      model_.add_row(0, 0, std::move(here), name("placed", i, j));
    }
    model_.add_row(1, 1, std::move(once), name("once", i, std::nullopt));
    for (std::size_t b = 0; b < bits_; ++b) {
      Terms bitwidth{{y(i, b), -1.0}};
      for (std::size_t j = 0; j < stages_; ++j) bitwidth.emplace_back(z(i, j, b), 1.0);
      model_.add_row(0, 0, std::move(bitwidth), name("bitwidth", i, std::nullopt, b));
    }
  }
}

double PaperFormulation::ends_s(const PhaseCosts& costs, std::size_t stage) const {
  return (stage == 0 ? costs.first_s[group(stage)] : 0) +
         (stage + 1 == stages_ ? costs.last_s[group(stage)] : 0);
}

// (5), (6)
void PaperFormulation::add_time_rows(std::size_t stage) {
  add_time_row(problem_.prefill, prefill_unit_, tp_, stage, "prefill_time");
  add_time_row(problem_.decode, decode_unit_, td_, stage, "decode_time");
}

void PaperFormulation::add_time_row(const PhaseCosts& costs, double unit, std::size_t slowest,
                                    std::size_t stage, const char* row) {
  Terms time{{slowest, -1.0}};
  for (std::size_t i = 0; i < layers_; ++i) {
    for (std::size_t b = 0; b < bits_; ++b) {
      const double s = instance_.layer_s(costs, group(stage), instance_.layer_class[i], b);
      time.emplace_back(z(i, stage, b), s / unit);
    }
  }
  model_.add_row(-kFree, -ends_s(costs, stage) / unit, std::move(time), name(row, stage));
}

// (12), (13)
void PaperFormulation::add_memory_row(std::size_t stage) {
  const std::size_t g = group(stage);
  const double usable = std::max(1.0, instance_.groups[g].usable_bytes), scale = usable / 1000;
  const double room = instance_.groups[g].usable_bytes * (1 + kMemorySlack) -
                      problem_.fixed_bytes(g, place_at(stage, stages_));
  Terms bytes;
  for (std::size_t i = 0; i < layers_; ++i) {
    for (std::size_t b = 0; b < bits_; ++b) {
      bytes.emplace_back(z(i, stage, b),
                         instance_.layer_bytes_at(g, instance_.layer_class[i], b) / scale);
    }
  }
  model_.add_row(-kFree, room / scale, std::move(bytes), name("memory", stage));
}

// (16): layer i on stage j, the one before on stage k.
void PaperFormulation::add_order_rows() {
  for (std::size_t i = 1; i < layers_; ++i) {
    for (std::size_t j = 0; j < stages_; ++j) {
      for (std::size_t k = 0; k < stages_; ++k) {
        const bool back = k > j, leaps = k + 1 < j && !instance_.may_be_empty();
        if (!back && !leaps) continue;
        std::string text =
            named_ ? fmt::format("order_layer{}_stage{}_stage{}", i, k + 1, j + 1) : std::string();
        model_.add_row(-kFree, 1, {{u(i, j), 1.0}, {u(i - 1, k), 1.0}}, std::move(text));
      }
    }
  }
}

// (4), with (8) written out.
void PaperFormulation::add_objective() {
  const ObjectiveCoefficients& c = problem_.coefficients;
  Terms one_by_one{{round_, -1.0}};
  double decode_ends = 0;
  for (std::size_t j = 0; j < stages_; ++j) {
    decode_ends += ends_s(problem_.decode, j) / decode_unit_;
    model_.constant +=
        (c.prefill_sum * ends_s(problem_.prefill, j) + c.decode_sum * ends_s(problem_.decode, j)) /
        unit_;
    for (std::size_t i = 0; i < layers_; ++i) {
      for (std::size_t b = 0; b < bits_; ++b) {
        const std::int32_t cls = instance_.layer_class[i];
        const double prefill_s = instance_.layer_s(problem_.prefill, group(j), cls, b);
        const double decode_s = instance_.layer_s(problem_.decode, group(j), cls, b);
        model_.columns[z(i, j, b)].cost = (c.prefill_sum * prefill_s + c.decode_sum * decode_s +
                                           instance_.theta * instance_.omega_at(i, b)) /
                                          unit_;
        one_by_one.emplace_back(z(i, j, b), decode_s / decode_unit_);
      }
    }
  }
  if (c.round <= 0) return;
  model_.add_row(-kFree, -decode_ends, std::move(one_by_one), "decode_round_one_by_one");
  model_.add_row(-kFree, 0, {{round_, -1.0}, {td_, c.round_micro_batches}}, "decode_round_steady");
}

void PaperFormulation::add_quality_row() {
  const auto limit = problem_.omega_limit();
  if (!limit) return;
  const double scale = std::max(1e-9, std::fabs(*limit)) / 1000;
  Terms quality;
  for (std::size_t i = 0; i < layers_; ++i) {
    for (std::size_t j = 0; j < stages_; ++j) {
      for (std::size_t b = 0; b < bits_; ++b) {
        quality.emplace_back(z(i, j, b), instance_.omega_at(i, b) / scale);
      }
    }
  }
  model_.add_row(-kFree, *limit / scale, std::move(quality), "quality_floor");
}

void PaperFormulation::add_side_row(const Row& row, std::size_t number) {
  Terms terms;
  const double scale = row.scale();
  for (const RowTerm& term : row.terms) {
    for (std::size_t j = term.first_stage; j < std::min(term.end_stage, stages_); ++j) {
      if (!term.has_group(group(j))) continue;
      for (std::size_t i = 0; i < layers_; ++i) {
        if (term.layer && *term.layer != i) continue;
        for (std::size_t b = 0; b < bits_; ++b) {
          if (term.bit && *term.bit != b) continue;
          terms.emplace_back(z(i, j, b), term.coefficient / scale);
        }
      }
    }
  }
  const double rhs = row.rhs / scale;
  model_.add_row(row.sense == Sense::at_most ? -kFree : rhs - kRowSlack,
                 row.sense == Sense::at_least ? kFree : rhs + kRowSlack, std::move(terms),
                 named_ ? fmt::format("side{}", number) : std::string());
}

std::optional<Candidate> PaperFormulation::decode(const std::vector<double>& x) const {
  Candidate plan;
  plan.order = *problem_.order;
  plan.prefill_micro_batch_size = problem_.prefill_size;
  plan.decode_micro_batch_size = problem_.decode_size;
  plan.first_layer = {0};
  for (std::size_t i = 0; i < layers_; ++i) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(z(i, 0, 0));
    const auto chosen =
        std::max_element(begin, begin + static_cast<std::ptrdiff_t>(stages_ * bits_));
    if (*chosen < 0.5) return std::nullopt;
    const auto index = static_cast<std::size_t>(chosen - begin);
    const std::size_t stage = index / bits_;
    if (stage + 1 < plan.first_layer.size()) return std::nullopt;  // behind the layer before
    plan.first_layer.resize(stage + 1, i);
    plan.bit.push_back(index % bits_);
  }
  plan.first_layer.resize(stages_ + 1, layers_);
  return plan;
}

std::vector<double> PaperFormulation::encode(const Candidate& plan) const {
  std::vector<double> x(model_.columns.size(), 0);
  for (std::size_t j = 0; j < stages_; ++j) {
    for (std::size_t i = plan.first_layer[j]; i < plan.first_layer[j + 1]; ++i) {
      x[z(i, j, plan.bit[i])] = x[y(i, plan.bit[i])] = x[u(i, j)] = 1;
    }
  }
  const Evaluation e = evaluate(instance_, plan);
  x[tp_] = e.prefill_max_s / prefill_unit_;
  x[td_] = e.decode_max_s / decode_unit_;
  const ObjectiveCoefficients& c = problem_.coefficients;
  if (c.round > 0) {
    x[round_] = std::max(c.round_micro_batches * e.decode_max_s, e.decode_sum_s) / decode_unit_;
  }
  return x;
}

}  // namespace tessera::solver
