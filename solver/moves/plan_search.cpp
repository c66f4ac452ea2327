#include "tessera/solver/moves/plan_search.h"

#include <fmt/format.h>

#include <algorithm>
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
double PlanSearch::omega() const { return plan_->omega(); }
std::optional<SolveStatus> PlanSearch::stopped_by() const { return deadline_->reached(); }

std::vector<SearchStage> PlanSearch::stages() const {
  const Candidate& c = current();
  std::vector<SearchStage> stages(plan_->num_stages());
  for (std::size_t k = 0; k < stages.size(); ++k) {
    const WorkingPlan::Stage& sums = plan_->stage(k);
    SearchStage& stage = stages[k];
    stage.device = instance_.groups[c.order[k]].name;
    stage.first_layer = c.first_layer[k];
    stage.num_layers = size_of(c, k);
    for (std::size_t i = c.first_layer[k]; i < c.first_layer[k + 1]; ++i) {
      stage.bitwidths.push_back(instance_.bitwidths[c.bit[i]]);
    }
    stage.prefill_s = sums.prefill_s;
    stage.decode_s = sums.decode_s;
    stage.memory_bytes = sums.bytes;
    stage.memory_left_bytes = sums.usable_bytes - sums.bytes;
  }
  return stages;
}

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

std::unique_ptr<MoveGenerator> PlanSearch::generator_for(const MoveQuery& query) const {
  for (const auto& stage : {query.from_stage, query.to_stage}) {
    if (stage && *stage >= plan_->num_stages()) {
      throw Error(ErrorCode::out_of_range,
                  fmt::format("stage {} of a pipeline of {} stages, numbered from 0", *stage,
                              plan_->num_stages()));
    }
  }
  return std::make_unique<MoveGenerator>(*plan_, query, request_);
}

void PlanSearch::start(const MoveQuery& query) { generator_ = generator_for(query); }

std::size_t PlanSearch::next(Move* block, std::size_t capacity) {
  return generator_ ? generator_->next(block, capacity) : 0;
}

MoveGenerator& PlanSearch::sampler(const MoveQuery& query) {
  if (!sampler_ || !(sampled_ == query)) {
    sampler_ = generator_for(query);
    sampled_ = query;
  }
  return *sampler_;
}

std::size_t PlanSearch::count(const MoveQuery& query) { return sampler(query).count(); }

std::optional<Move> PlanSearch::random_move(const MoveQuery& query, bool fitting) {
  MoveGenerator& moves = sampler(query);
  const auto last = static_cast<std::int64_t>(moves.count()) - 1;
  if (last < 0) return std::nullopt;
  // Drawing again until one fits is uniform as well, and cheap unless few do.
  constexpr int kDraws = 64;
  for (int draw = 0; draw < kDraws; ++draw) {
    const Move move = moves.at(static_cast<std::size_t>(rng_.integer(0, last)));
    if (move.fits || !fitting) return move;
  }
  std::vector<Move> all;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(last); ++i) {
    const Move move = moves.at(i);
    if (move.fits) all.push_back(move);
  }
  if (all.empty()) return std::nullopt;
  return all[static_cast<std::size_t>(rng_.integer(0, static_cast<std::int64_t>(all.size()) - 1))];
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
  sampler_.reset();
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
  MoveQuery query;
  query.kinds = (1u << static_cast<int>(MoveKind::shift)) |
                (1u << static_cast<int>(MoveKind::retype)) |
                (1u << static_cast<int>(MoveKind::swap));
  for (std::int64_t step = 0; step < wanted; ++step) {
    const auto move = random_move(query, true);
    if (!move) return;
    apply(*move);
  }
}

}  // namespace tessera::solver
