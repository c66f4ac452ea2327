// Side constraints and the stage rule as rows of the programme.

#include <algorithm>

#include "formulation.h"
#include "tessera/solver/instance/stage_rule.h"

namespace tessera::solver {

void Formulation::find_integral_layers() {
  integral_.assign(layers_, 0);
  for (const Row& row : instance_.rows) {
    for (const RowTerm& term : row.terms) {
      if (term.layer && term.bit) integral_[*term.layer] = 1;
    }
  }
}

void Formulation::add_side_row(const Row& row) {
  Terms terms;
  double constant = 0;
  for (const RowTerm& term : row.terms) add_term(terms, constant, term);
  const double scale = row.scale(), rhs = (row.rhs - constant) / scale;
  for (auto& [column, coefficient] : terms) coefficient /= scale;
  model_.add_row(row.sense == Sense::at_most ? -kFree : rhs - kRowSlack,
                 row.sense == Sense::at_least ? kFree : rhs + kRowSlack, std::move(terms),
                 named_ ? fmt::format("side{}_{}", ++num_side_rows_, plain_name(row.name)) : "");
}

void Formulation::add_term(Terms& terms, double& constant, const RowTerm& term) {
  if (term.layer) return add_layer_term(terms, constant, term);
  const std::size_t end = std::min(term.end_stage, positions_);
  if (term.first_stage >= end) return;  // a stage that this order does not have
  if (term.any_group() && !term.bit) {
    terms.emplace_back(e_[end - 1], term.coefficient);
    if (term.first_stage > 0) terms.emplace_back(e_[term.first_stage - 1], -term.coefficient);
    return;
  }
  for (std::size_t j = term.first_stage; j < end; ++j) {
    for (std::size_t g = 0; g < groups_; ++g) {
      if (!term.has_group(g)) continue;
      for (std::size_t cell = 0; cell < cells_; ++cell) {
        const bool counted =
            c_at(j, g, cell) != kNone && term.bit.value_or(cell % bits_) == cell % bits_;
        if (counted) terms.emplace_back(c_at(j, g, cell), term.coefficient);
      }
    }
  }
}

void Formulation::add_layer_term(Terms& terms, double& constant, const RowTerm& term) {
  const std::size_t end = std::min(term.end_stage, positions_);
  for (std::size_t j = term.first_stage; j < end; ++j) {
    if (!may_hold(*term.layer, j)) continue;
    if (problem_.order && !term.has_group((*problem_.order)[j])) continue;
    if (problem_.order || term.any_group()) {
      add_presence(terms, constant, term, j, term.coefficient);
      continue;
    }
    const Product& shares = product_of(term, j);
    for (std::size_t g = 0; g < groups_; ++g) {
      if (term.has_group(g)) terms.emplace_back(shares.columns[g], term.coefficient);
    }
  }
}

// The layer of a term is on position j, at its bit where it names one.
void Formulation::add_presence(Terms& terms, double& constant, const RowTerm& term, std::size_t j,
                               double factor) const {
  if (term.bit) {
    terms.emplace_back(z_[(*term.layer * positions_ + j) * bits_ + *term.bit], factor);
    return;
  }
  add_s(terms, constant, *term.layer, j, factor);
  if (j > 0) add_s(terms, constant, *term.layer, j - 1, -factor);
}

// Linearises the products of "layer i on position j" and "position j runs on group g": over the
// groups they add up to the former, and each is at most the latter, which is 0 for all groups but
// one.
const Formulation::Product& Formulation::product_of(const RowTerm& term, std::size_t j) {
  for (const Product& known : products_) {
    if (known.layer == *term.layer && known.position == j && known.bit == term.bit) return known;
  }
  Product next{*term.layer, j, term.bit, {}};
  Terms sum;
  double constant = 0;
  add_presence(sum, constant, term, j, -1);
  const std::string bits =
      named_ && term.bit ? fmt::format("_{}bit", instance_.bitwidths[*term.bit]) : "";
  for (std::size_t g = 0; g < groups_; ++g) {
    std::string name =
        named_ ? fmt::format("layer{}_stage{}_{}{}", *term.layer, j + 1, tags_[g], bits) : "";
    next.columns.push_back(model_.add_column(0, 1, 0, false, name));
    sum.emplace_back(next.columns.back(), 1.0);
    model_.add_row(0, kFree, {{x_[j * groups_ + g], 1.0}, {next.columns.back(), -1.0}},
                   std::move(name));
  }
  model_.add_row(-constant, -constant, std::move(sum),
                 make_name("split_layer{}_stage{}{}", *term.layer, j + 1, bits));
  products_.push_back(std::move(next));
  return products_.back();
}

// A column that is 1 where the presence holds, as a term of `sum`.
void Formulation::add_presence_of(Presence presence, Terms& sum) {
  presence.column =
      model_.add_column(0, 1, 0, false, make_name("presence{}", presences_.size() + 1));
  sum.emplace_back(presence.column, 1.0);
  const std::size_t first = presence.position.value_or(0);
  for (std::size_t j = first; j < (presence.position ? first + 1 : positions_); ++j) {
    Terms row{{presence.column, 1.0}};
    add_use(row, j, presence.groups, -1);
    if (presence.position && j > 0) add_use(row, j - 1, presence.groups, 1);
    model_.add_row(0, kFree, std::move(row),
                   make_name("presence{}_stage{}", presences_.size() + 1, j + 1));
  }
  presences_.push_back(std::move(presence));
}

// How many of the groups position j runs on: 0 or 1.
void Formulation::add_use(Terms& terms, std::size_t j, const GroupSet& set, double factor) const {
  for (std::size_t g = 0; g < groups_; ++g) {
    if (set[g] != 0) terms.emplace_back(x_[j * groups_ + g], factor);
  }
}

// Stages on one node or of one degree: only one set of groups is used at all. Node by node: each is
// begun once.
void Formulation::add_stage_rule_rows() {
  const StageOrder rule(instance_);
  if (problem_.order || !rule.binds()) return;
  std::vector<GroupSet> nodes(rule.num_nodes(), GroupSet(groups_, 0)), degrees;
  GroupSet sharing(groups_, 0);
  for (std::size_t g = 0; g < groups_; ++g) {
    const std::size_t sharding = instance_.groups[g].sharding;
    degrees.resize(std::max(degrees.size(), sharding + 1), GroupSet(groups_, 0));
    nodes[rule.node_of(g)][g] = degrees[sharding][g] = 1;
    if (instance_.groups[g].shares_layers) sharing[g] = 1;
  }
  const auto use_one_of = [&](const std::vector<GroupSet>& sets) {
    Terms sum;
    for (const GroupSet& set : sets) add_presence_of({0, std::nullopt, set}, sum);
    model_.add_row(-kFree, 1, std::move(sum), make_name("one_of{}", presences_.size()));
  };
  use_one_of(degrees);
  if (instance_.stage_rule == StageRule::one_node) {
    Terms alone;
    for (std::size_t j = 0; j < positions_; ++j) add_use(alone, j, sharing, 1);
    if (!alone.empty()) model_.add_row(-kFree, 1, std::move(alone), "one_group");
    return use_one_of(nodes);
  }
  for (const GroupSet& node : nodes) {
    Terms sum;
    for (std::size_t j = 0; j < positions_; ++j) add_presence_of({0, j, node}, sum);
    model_.add_row(-kFree, 1, std::move(sum), make_name("begun_once{}", presences_.size()));
    for (const GroupSet& next : nodes) {
      if (&next != &node) add_no_fewer_rows(node, next);
    }
  }
}

// Where position j - 1 is on a node other than the first and position j on the next node, this one
// has no fewer stages.
void Formulation::add_no_fewer_rows(const GroupSet& node, const GroupSet& next) {
  double count = 0;
  for (std::size_t g = 0; g < groups_; ++g) count += node[g] * instance_.groups[g].count;
  for (std::size_t j = 2; j < positions_; ++j) {
    Terms row;
    for (std::size_t k = 0; k < positions_; ++k) {
      add_use(row, k, next, 1);
      add_use(row, k, node, -1);
    }
    add_use(row, j - 1, node, -count);
    add_use(row, j, next, -count);
    add_use(row, 0, node, count);
    model_.add_row(-2 * count, kFree, std::move(row), make_name("no_fewer{}", model_.rows.size()));
  }
}

}  // namespace tessera::solver
