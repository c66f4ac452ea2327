// Side constraints as rows of the programme.

#include <algorithm>

#include "formulation.h"

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

}  // namespace tessera::solver
