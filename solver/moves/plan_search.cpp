#include "tessera/solver/moves/plan_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "move_generator.h"
#include "moves.h"
#include "tessera/core/error.h"
#include "tessera/solver/instance/deadline.h"
#include "working_plan.h"

namespace tessera::solver {
namespace {

Candidate checked(const Instance& instance, Candidate candidate) {
  if (const auto violation = find_violation(instance, candidate)) {
    throw Error(ErrorCode::invalid_argument,
                "a search starts from a plan that fits: " + violation->message);
  }
  return candidate;
}

}  // namespace

PlanSearch::PlanSearch(const Instance& instance, Candidate start, const PlanRequest& request)
    : instance_(instance),
      request_(request),
      deadline_(std::make_unique<Deadline>(request_)),
      rng_(request.seed),
      plan_(std::make_unique<WorkingPlan>(instance, checked(instance, std::move(start)))),
      best_(plan_->candidate()),
      best_objective_(plan_->objective()) {}

PlanSearch::~PlanSearch() = default;

const Candidate& PlanSearch::current() const { return plan_->candidate(); }
double PlanSearch::objective() const { return plan_->objective(); }
bool PlanSearch::expired() const { return deadline_->reached().has_value(); }

std::vector<std::size_t> PlanSearch::stages_slowest_first() const {
  // How much one second more on a stage costs while it is the slowest of its phase.
  const ObjectiveCoefficients c =
      objective_coefficients(instance_, instance_.objective, current().prefill_micro_batch_size,
                             current().decode_micro_batch_size);
  const double prefill = c.prefill_max + c.prefill_sum;
  const double decode =
      c.decode_max + c.decode_sum + c.round * std::max(1.0, c.round_micro_batches);
  const auto weighted = [&](std::size_t k) {
    return prefill * plan_->stage(k).prefill_s + decode * plan_->stage(k).decode_s;
  };
  std::vector<std::size_t> stages(plan_->num_stages());
  std::iota(stages.begin(), stages.end(), std::size_t{0});
  std::stable_sort(stages.begin(), stages.end(),
                   [&](std::size_t a, std::size_t b) { return weighted(a) > weighted(b); });
  return stages;
}

void PlanSearch::start(const MoveQuery& query) {
  for (const auto& stage : {query.from_stage, query.to_stage}) {
    if (stage && *stage >= plan_->num_stages()) {
      throw Error(ErrorCode::out_of_range,
                  fmt::format("stage {} of a pipeline of {} stages, numbered from 0", *stage,
                              plan_->num_stages()));
    }
  }
  generator_ = std::make_unique<MoveGenerator>(*plan_, query, request_);
}

std::size_t PlanSearch::next(Move* block, std::size_t capacity) {
  return generator_ ? generator_->next(block, capacity) : 0;
}

Move PlanSearch::evaluate(const Move& move) const { return priced(*plan_, move); }

void PlanSearch::apply(const Move& move) {
  auto candidate = result_of(*plan_, move);
  if (!candidate) {
    throw Error(ErrorCode::invalid_argument,
                "this move is none of the current plan's; moves are good until the next step");
  }
  if (const auto violation = find_violation(instance_, *candidate)) {
    throw Error(ErrorCode::invalid_argument, "this move does not fit: " + violation->message);
  }
  history_.push_back(current());
  adopt(*std::move(candidate));
  ++moves_made_;
}

void PlanSearch::adopt(Candidate candidate) {
  generator_.reset();
  plan_ = std::make_unique<WorkingPlan>(instance_, std::move(candidate));
  if (plan_->objective() >= best_objective_) return;
  best_ = plan_->candidate();
  best_objective_ = plan_->objective();
  if (request_.on_incumbent) {
    request_.on_incumbent({best_, best_objective_, -std::numeric_limits<double>::infinity()});
  }
}

bool PlanSearch::undo() {
  if (history_.empty()) return false;
  Candidate before = std::move(history_.back());
  history_.pop_back();
  --moves_made_;
  adopt(std::move(before));
  return true;
}

void PlanSearch::perturb(double strength) {
  const auto wanted =
      static_cast<std::int64_t>(std::ceil(strength * static_cast<double>(instance_.num_layers())));
  std::array<Move, 256> block;
  for (std::int64_t step = 0; step < wanted; ++step) {
    // Reservoir of one: every move that fits is as likely as the others.
    MoveQuery query;
    query.kinds = (1u << static_cast<int>(MoveKind::shift)) |
                  (1u << static_cast<int>(MoveKind::retype)) |
                  (1u << static_cast<int>(MoveKind::swap));
    start(query);
    Move chosen;
    std::int64_t seen = 0;
    while (const std::size_t n = next(block.data(), block.size())) {
      for (std::size_t i = 0; i < n; ++i) {
        if (block[i].fits && rng_.integer(0, seen++) == 0) chosen = block[i];
      }
    }
    if (seen == 0) return;
    apply(chosen);
  }
}

}  // namespace tessera::solver
