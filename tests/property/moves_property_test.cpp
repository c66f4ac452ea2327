// Moves priced by what they touch against the whole plan priced anew, and what heuristics make of
// them.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "brute_force.h"
#include "random_instance.h"
#include "tessera/solver/exact/exact_planner.h"
#include "tessera/solver/heuristic/heuristics.h"
#include "tessera/solver/instance/grouping.h"
#include "tessera/solver/moves/plan_search.h"
#include "tessera/solver/planning/planners.h"

namespace tessera::solver::moves_property_test {
namespace {

using instances::BruteForce;
using instances::RandomInstance;

// Some plan that fits, or nothing.
std::optional<Candidate> feasible_plan(const Instance& in) {
  PlanRequest request;
  request.time_limit_s = 2;
  request.gap = 0.3;
  return make_exact_planner()->plan(in, request).candidate;
}

void expect_same(const Move& quick, const Move& full, double scale) {
  const double slack = 1e-9 * std::max(1e-6, std::fabs(scale));
  EXPECT_EQ(quick.fits, full.fits);
  EXPECT_NEAR(quick.objective_delta, full.objective_delta, slack);
  EXPECT_NEAR(quick.prefill_delta_s, full.prefill_delta_s, slack);
  EXPECT_NEAR(quick.decode_delta_s, full.decode_delta_s, slack);
  EXPECT_NEAR(quick.omega_delta, full.omega_delta, slack);
}

TEST(MovesProperty, IncrementalPriceIsTheFullPrice) {
  std::array<std::int64_t, kNumMoveKinds> seen{}, fitting{};
  for (std::uint64_t seed = 8001; seed <= 8150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomInstance random(seed, {12, 5, 4, 8});
    const Instance in = random.make();
    auto start = feasible_plan(in);
    if (!start) continue;
    PlanRequest request;
    request.seed = seed;
    PlanSearch search(in, *std::move(start), request);
    for (int step = 0; step < 3; ++step) {
      search.start({});
      std::array<Move, 7> block;  // odd, so that blocks end within rows
      std::vector<Move> all;
      while (const std::size_t n = search.next(block.data(), block.size())) {
        all.insert(all.end(), block.begin(), block.begin() + static_cast<std::ptrdiff_t>(n));
      }
      for (const Move& move : all) {
        SCOPED_TRACE(std::string(name_of(static_cast<MoveKind>(move.kind))) + " from " +
                     std::to_string(move.from_stage) + " to " + std::to_string(move.to_stage) +
                     " layer " + std::to_string(move.first_layer));
        ++seen[static_cast<std::size_t>(move.kind)];
        fitting[static_cast<std::size_t>(move.kind)] += move.fits;
        expect_same(move, search.evaluate(move), search.objective());
        if (::testing::Test::HasFailure()) return;
      }
      search.perturb(0.15);
    }
  }
  for (int kind = 0; kind < kNumMoveKinds; ++kind) {
    EXPECT_GT(seen[static_cast<std::size_t>(kind)], 50) << name_of(static_cast<MoveKind>(kind));
    EXPECT_GT(fitting[static_cast<std::size_t>(kind)], 0) << name_of(static_cast<MoveKind>(kind));
  }
}

TEST(MovesProperty, AppliedMovesGiveWhatTheyPromiseAndComeBack) {
  std::int64_t applied = 0;
  for (std::uint64_t seed = 8201; seed <= 8300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomInstance random(seed, {12, 5, 4, 8});
    const Instance in = random.make();
    auto start = feasible_plan(in);
    if (!start) continue;
    Rng rng(seed);
    PlanSearch search(in, *start, {});
    for (int step = 0; step < 20; ++step) {
      std::array<Move, 256> block;
      search.start({});
      const std::size_t n = search.next(block.data(), block.size());
      if (n == 0) break;
      const Move& move =
          block[static_cast<std::size_t>(rng.integer(0, static_cast<std::int64_t>(n) - 1))];
      if (!move.fits) {
        EXPECT_THROW(search.apply(move), std::exception);
        continue;
      }
      const double before = search.objective();
      search.apply(move);
      ++applied;
      EXPECT_NEAR(search.objective(), before + move.objective_delta,
                  1e-9 * std::max(1e-6, std::fabs(before)));
      EXPECT_FALSE(find_violation(in, search.current(), search.objective()));
      EXPECT_LE(search.best_objective(), search.objective());
    }
    while (search.undo()) {
    }
    EXPECT_EQ(search.current().bit, start->bit);
    EXPECT_EQ(search.current().first_layer, start->first_layer);
    EXPECT_EQ(search.current().order, start->order);
    EXPECT_EQ(search.moves_made(), 0);
  }
  EXPECT_GT(applied, 300);
}

std::vector<Move> all_moves(PlanSearch& search, const MoveQuery& query) {
  search.start(query);
  std::array<Move, 7> block;
  std::vector<Move> all;
  while (const std::size_t n = search.next(block.data(), block.size())) {
    all.insert(all.end(), block.begin(), block.begin() + static_cast<std::ptrdiff_t>(n));
  }
  return all;
}

// The numbers that make a move what it is.
auto key_of(const Move& m) {
  return std::array{m.kind,           m.from_stage,      m.to_stage,    m.first_layer,
                    m.num_layers,     m.from_bitwidth,   m.to_bitwidth, m.other_layer,
                    m.pioneer_layers, m.pioneer_bitwidth};
}

TEST(MovesProperty, RandomMovesAreThoseOfTheRoundEachAsLikely) {
  int examined = 0;
  for (std::uint64_t seed = 8601; seed <= 8660; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomInstance random(seed, {8, 4, 3, 4});
    const Instance in = random.make();
    auto start = feasible_plan(in);
    if (!start) continue;
    PlanRequest request;
    request.seed = seed;
    PlanSearch search(in, *std::move(start), request);
    for (std::uint32_t kinds : {1u, 2u, 4u, 8u, 16u, 32u, 63u}) {
      MoveQuery query;
      query.kinds = kinds;
      if (seed % 3 == 0) query.from_stage = search.slowest_stage();
      const std::vector<Move> all = all_moves(search, query);
      ASSERT_EQ(search.count(query), all.size());
      for (const bool fitting : {false, true}) {
        std::map<decltype(key_of(Move{})), int> drawn;
        std::map<decltype(key_of(Move{})), Move> known;
        for (const Move& move : all) {
          if (move.fits || !fitting) known.emplace(key_of(move), move);
        }
        if (known.empty()) {
          EXPECT_FALSE(search.random_move(query, fitting));
          continue;
        }
        const std::size_t draws = 20 * known.size();
        for (std::size_t i = 0; i < draws; ++i) {
          const auto move = search.random_move(query, fitting);
          ASSERT_TRUE(move);
          const auto of_round = known.find(key_of(*move));
          ASSERT_NE(of_round, known.end());
          EXPECT_EQ(move->objective_delta, of_round->second.objective_delta);
          EXPECT_EQ(move->fits, of_round->second.fits);
          ++drawn[key_of(*move)];
        }
        // Chi-squared with n - 1 degrees of freedom, six standard deviations above its mean.
        double chi = 0;
        for (const auto& [key, move] : known) chi += (drawn[key] - 20.0) * (drawn[key] - 20.0) / 20;
        const double freedom = static_cast<double>(known.size()) - 1;
        EXPECT_LE(chi, freedom + 6 * std::sqrt(2 * freedom + 1)) << known.size() << " moves";
        ++examined;
      }
    }
  }
  EXPECT_GT(examined, 200);
}

TEST(MovesProperty, NonsenseMovesAreRefused) {
  RandomInstance random(8401, {12, 5, 4, 8});
  const Instance in = random.make();
  auto start = feasible_plan(in);
  ASSERT_TRUE(start);
  PlanSearch search(in, *start, {});
  Rng rng(8402);
  for (int i = 0; i < 20000; ++i) {
    Move move;
    for (std::int32_t* field : {&move.kind, &move.from_stage, &move.to_stage, &move.first_layer,
                                &move.num_layers, &move.from_bitwidth, &move.to_bitwidth,
                                &move.other_layer, &move.pioneer_layers, &move.pioneer_bitwidth}) {
      *field = static_cast<std::int32_t>(
          rng.integer(0, 9) == 0 ? rng.integer(-2147483647, 2147483647) : rng.integer(-1, 16));
    }
    if (!search.evaluate(move).fits) {
      EXPECT_THROW(search.apply(move), std::exception);
    }
  }
}

TEST(HeuristicsProperty, PlansFitAndNoneBeatsTheOptimum) {
  int plans = 0;
  for (std::uint64_t seed = 8501; seed <= 8560; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomInstance random(seed, {10, 4, 4, 6});
    const Instance in = random.make();
    const PlanResult best = make_exact_planner()->plan(in, {});
    for (const Card& card : planners().cards()) {
      SCOPED_TRACE(card.name);
      const auto planner = planners().make(card.name);
      PlanRequest request;
      double last = std::numeric_limits<double>::infinity();
      request.on_incumbent = [&](const Incumbent& found) {
        EXPECT_LT(found.objective, last);
        last = found.objective;
      };
      const PlanResult result = planner->plan(in, request);
      if (!result.candidate) {
        EXPECT_TRUE(result.violation) << "no plan and no reason";
        continue;
      }
      ++plans;
      const auto violation = find_violation(in, *result.candidate, result.objective);
      EXPECT_FALSE(violation) << violation->message;
      ASSERT_TRUE(best.candidate);
      EXPECT_GE(result.objective, best.objective - 1e-9 * std::fabs(best.objective));
    }
  }
  EXPECT_GT(plans, 100);
}

TEST(HeuristicsProperty, AdabitsHasTheLeastOmega) {
  int plans = 0;
  for (std::uint64_t seed = 8601; seed <= 8680; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomInstance random(seed, {6, 3, 3, 4});
    const Instance in = random.make();
    PlanRequest request;
    request.order = random.order(in);
    request.prefill_micro_batch_size = request.decode_micro_batch_size = random.micro_batch(in);
    Instance blind = in;  // brute force over omega alone
    blind.theta = 1;
    std::vector<std::unique_ptr<PhaseCosts>> kept;
    for (auto* costs : {&blind.prefill, &blind.decode}) {
      auto& free = *kept.emplace_back(
          std::make_unique<PhaseCosts>((*costs)(*request.prefill_micro_batch_size)));
      for (auto* times : {&free.layer_s, &free.first_s, &free.last_s, &free.link_s}) {
        std::fill(times->begin(), times->end(), 0.0);
      }
      *costs = [&free](std::int64_t) -> const PhaseCosts& { return free; };
    }
    const auto least = BruteForce(blind, request).best();
    const PlanResult result = make_adabits_planner()->plan(in, request);
    ASSERT_EQ(least.has_value(), result.candidate.has_value());
    if (!least) continue;
    ++plans;
    EXPECT_NEAR(evaluate(in, *result.candidate).omega, *least,
                2e-6 * std::max(1e-3, std::fabs(*least)));
  }
  EXPECT_GT(plans, 20);
}

// Sizes touch memory, so the least omega of all is at the sizes that leave layers most room.
TEST(HeuristicsProperty, AdabitsWithFreeSizesIsNoWorseThanAtAnyPair) {
  int compared = 0, tighter = 0;
  for (std::uint64_t seed = 8901; seed <= 9100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomInstance random(seed, {6, 3, 3, 8});
    Instance in = random.make();
    for (DeviceGroup& group : in.groups) group.usable_bytes *= 1.3;
    for (auto* costs : {&in.prefill, &in.decode}) {  // activations that weigh as much as layers
      auto table = std::make_shared<std::vector<PhaseCosts>>();
      for (std::int64_t size = 1; size <= in.batch_size; ++size) {
        table->push_back((*costs)(size));
        for (double& bytes : table->back().activation_bytes) bytes *= 3;
      }
      *costs = [table](std::int64_t size) -> const PhaseCosts& {
        return table->at(static_cast<std::size_t>(size - 1));
      };
    }
    const auto planner = make_adabits_planner();
    const PlanResult free = planner->plan(in, {});
    const double least = free.candidate ? evaluate(in, *free.candidate).omega : 0;
    for (std::int64_t decode = 1; decode <= in.batch_size; ++decode) {
      // The paper's objective prices decoding at the even share only.
      const auto devices = static_cast<std::int64_t>(in.num_devices());
      const std::int64_t even = (in.batch_size + devices - 1) / devices;
      if (in.objective == Objective::paper && decode != even) continue;
      for (std::int64_t prefill = 1; prefill <= decode; ++prefill) {
        PlanRequest request;
        request.prefill_micro_batch_size = prefill;
        request.decode_micro_batch_size = decode;
        const PlanResult fixed = planner->plan(in, request);
        if (!fixed.candidate) continue;
        ASSERT_TRUE(free.candidate) << prefill << "/" << decode;
        const double omega = evaluate(in, *fixed.candidate).omega;
        EXPECT_LE(least, omega + 2e-6 * std::max(1e-3, std::fabs(omega)))
            << prefill << "/" << decode;
        ++compared;
        tighter += least < omega - 1e-3;
      }
    }
  }
  EXPECT_GT(compared, 200);
  EXPECT_GT(tighter, 20);
}

// One fast device full of 8 bits, one slow device with 4 bits that it runs badly. Half of a layer's
// memory is KV cache, so that one layer of 8 bits has not the room of two of 4 bits, and both
// devices are full to a tenth of a layer: only sets of layers can change places.
Instance full_devices() {
  Instance in;
  in.name = "full";
  in.bitwidths = {4, 8};
  in.groups = {{"fast", "n0", 1, 29.63e9}, {"slow", "n1", 1, 12.2e9}};
  in.layer_class.assign(26, 0);
  in.layer_bytes = {1.23e9, 1.74e9};
  in.allowed.assign(4, 1);
  for (int i = 0; i < 26; ++i) in.omega.insert(in.omega.end(), {0.04, 0.0001});
  in.batch_size = 1;
  in.output_tokens = 10;
  in.theta = 0.1;
  const auto costs = [](std::vector<double> layer_s) {
    auto table = std::make_shared<PhaseCosts>();
    table->layer_s = std::move(layer_s);
    table->first_s = table->last_s = {0, 0};
    table->link_s.assign(4, 0);
    return [table](std::int64_t) -> const PhaseCosts& { return *table; };
  };
  in.prefill = costs({0.4, 0.02, 2.2, 0.05});
  in.decode = costs({0.005, 0.01, 0.02, 0.03});
  return in;
}

TEST(HeuristicsProperty, BitwidthTransferExchangesSetsOfLayersOnFullDevices) {
  const Instance in = full_devices();
  PlanRequest request;
  request.order = {0, 1};
  const PlanResult best = make_exact_planner()->plan(in, request);
  ASSERT_EQ(best.status, SolveStatus::optimal);
  Candidate start;
  start.order = {0, 1};
  start.first_layer = {0, 17, 26};
  start.bit.assign(19, 1);
  start.bit.resize(26, 0);
  PlanSearch search(in, start, request);
  ASSERT_GT(search.objective(), 2 * best.objective);
  make_bitwidth_transfer()->improve(search);
  EXPECT_LE(search.best_objective(), 1.05 * best.objective);
}

TEST(GroupingProperty, GroupsCostTheSumOfTheirLayers) {
  int plans = 0;
  for (std::uint64_t seed = 8701; seed <= 8780; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomInstance random(seed, {13, 4, 4, 6});
    const Instance in = random.make();
    const auto size = static_cast<std::size_t>(random.micro_batch(in));
    const Instance grouped = merge_layer_blocks(in, size);
    ASSERT_EQ(grouped.num_layers(), (in.num_layers() + size - 1) / size);
    const PlanResult result = make_exact_planner()->plan(grouped, {});
    if (!result.candidate) continue;
    ++plans;
    const Candidate single = split_layer_blocks(in, *result.candidate, size);
    const double objective = evaluate(in, single).objective;
    EXPECT_NEAR(objective, result.objective, 1e-9 * std::max(1e-6, std::fabs(objective)));
    EXPECT_FALSE(find_violation(in, single));
  }
  EXPECT_GT(plans, 30);
}

}  // namespace
}  // namespace tessera::solver::moves_property_test
