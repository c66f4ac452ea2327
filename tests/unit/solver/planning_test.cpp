// Planning from C++, without a script: open choices, replicas, floors, chains, limits.

#include "tessera/solver/planning/planning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "expect_error.h"
#include "planning/splits.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/solver/replan/replan.h"

namespace tessera::solver::planning_test {
namespace {

using test::expect_error;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const DataFolders& folders() {
  static const DataFolders all({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  return all;
}

BatchProblem small_batch(const std::string& cluster) {
  BatchProblem batch;
  const std::string model = folders().require("models", "opt-1.3b");
  batch.model = model_from_json(read_json_file(model), model);
  batch.cluster = find_cluster(cluster, folders());
  batch.workload.prompt_tokens = batch.workload.max_prompt_tokens = 64;
  batch.workload.output_tokens = batch.workload.max_output_tokens = 20;
  batch.workload.batch_size = 5;
  batch.bitwidths = {4, 16};
  batch.kernel_set = cost::find_kernel_set("tessera", folders());
  batch.indicator.kind = "imported";
  batch.indicator.bitwidths = batch.bitwidths;
  batch.indicator.num_layers = static_cast<std::size_t>(batch.model.num_layers);
  for (std::size_t i = 0; i < batch.indicator.num_layers; ++i) {
    batch.indicator.omega.insert(batch.indicator.omega.end(), {1.0, 0.0});
  }
  return batch;
}

OpenProblem small_problem(const std::string& cluster, Choices choices = {}) {
  Problem problem;
  problem.given = small_batch(cluster);
  return open_problem(std::move(problem), std::move(choices));
}

const PlanSummary& plan_in(const PlanOutcome& outcome) {
  return summary_of(std::get<Plan>(outcome));
}

/// Hands on what the exact planner finds and counts how often it was asked.
class CountingPlanner : public ProblemPlanner {
 public:
  PlanOutcome plan(const LoweredProblem& problem, const PlanOptions& options) const override {
    ++asked;
    return find_engine_planner("exact")->planner->plan(problem, options);
  }
  mutable int asked = 0;
};

/// A set with a baseline besides those of the engine.
class OneMore : public PlannerSet {
 public:
  OneMore(std::string name, std::shared_ptr<const ProblemPlanner> planner)
      : name_(std::move(name)), planner_(std::move(planner)) {}
  NamedPlanner named(const std::string& name, const std::string& where) const override {
    if (name != name_) return engine_planners().named(name, where);
    NamedPlanner entry;
    entry.name = name;
    entry.planner = planner_;
    return entry;
  }

 private:
  std::string name_;
  std::shared_ptr<const ProblemPlanner> planner_;
};

TEST(Planning, ProvesAPlanByDefault) {
  const PlanOutcome outcome = plan(small_problem("2xT4-16G"), {});
  const PlanSummary& found = plan_in(outcome);
  EXPECT_EQ(found.planner, "exact");
  EXPECT_EQ(found.status, PlanStatus::optimal);
}

TEST(Planning, TakesTheBestOfEveryChoice) {
  const OpenProblem open =
      small_problem("2xT4-16G", {.tensor_parallel = {{1, 2}}, .kv_bitwidths = {{16, 8}}});
  const Variants variants = list_variants(open);
  ASSERT_THAT(variants.problems, SizeIs(4));
  double best = INFINITY;
  for (const LoweredProblem& variant : variants.problems) {
    best = std::min(best, plan_in(plan({variant, {}}, {})).objective);
  }
  PlanOptions all;
  all.every_candidate = true;
  for (const PlanOptions& options : {PlanOptions{}, all}) {
    const PlanOutcome outcome = plan(open, options);
    EXPECT_NEAR(plan_in(outcome).objective, best, 1e-9 * best);
    EXPECT_EQ(plan_in(outcome).status, PlanStatus::optimal);
    EXPECT_THAT(plan_in(outcome).candidates, SizeIs(4));
  }
}

TEST(Planning, ProvesThatNothingIsBelowACutoff) {
  const OpenProblem open = small_problem("2xT4-16G");
  const double best = plan_in(plan(open, {})).objective;
  PlanOptions options;
  options.cutoff = 0.999 * best;
  EXPECT_EQ(std::get<NoPlan>(plan(open, options)).constraint, "cutoff");
  options.cutoff = 1.001 * best;
  EXPECT_NEAR(plan_in(plan(open, options)).objective, best, 1e-9 * best);
}

// The worst replica of the best sharing, by planning every share of every split of three devices.
TEST(Planning, SharesTheBatchOutAsWellAsEnumeration) {
  const OpenProblem open = small_problem("2xT4-16G+1xV100-32G");
  PlanOptions options;
  options.replicas = ReplicaNumbers{.numbers = {2}};
  const PlanOutcome outcome = plan(open, options);
  const auto& found = std::get<ReplicatedPlan>(std::get<Plan>(outcome));
  const std::vector<std::vector<std::size_t>> firsts = {{0}, {1}, {2}};
  const std::vector<std::vector<std::size_t>> rests = {{1, 2}, {0, 2}, {0, 1}};
  double best = INFINITY;
  for (std::size_t split = 0; split < firsts.size(); ++split) {
    for (std::int64_t share = 1; share <= 4; ++share) {
      const auto part = [&](const std::vector<std::size_t>& devices, std::int64_t batch) {
        return plan_in(plan(part_of(open, devices, batch), {})).objective;
      };
      best = std::min(best, std::max(part(firsts[split], share), part(rests[split], 5 - share)));
    }
  }
  EXPECT_NEAR(found.objective, best, 1e-9 * best);
  EXPECT_EQ(found.status, PlanStatus::optimal);
  EXPECT_THAT(found.replicas, SizeIs(2));
}

TEST(Planning, TurnsTheNameOfAFloorIntoItsOmega) {
  const auto baseline = std::make_shared<CountingPlanner>();
  const OneMore planners("mine", baseline);
  OpenProblem open = small_problem("2xT4-16G");
  Problem problem = open.first.problem();
  const double unfloored = plan_in(plan(open, {})).omega;
  problem.quality_at_least = "mine";
  const PlanOutcome outcome = plan({LoweredProblem(problem), {}}, {}, planners);
  EXPECT_EQ(baseline->asked, 1);
  EXPECT_LE(plan_in(outcome).omega, unfloored * (1 + 1e-6));
  EXPECT_THAT(plan_in(outcome).notes,
              ::testing::Contains(HasSubstr("quality floor: omega of mine")));
  problem.quality_at_least = "nobody";
  expect_error(ErrorCode::not_found, {"ts.problem.quality.at_least: unknown planner 'nobody'"},
               [&] {
                 plan({LoweredProblem(problem), {}}, {}, planners);
               });
}

TEST(Planning, LetsAHeuristicImproveAPlan) {
  PlanOptions options;
  options.planners = {{"adabits", "bitwidth_transfer"}};
  const OpenProblem open = small_problem("2xT4-16G");
  const PlanOutcome improved = plan(open, options);
  EXPECT_EQ(plan_in(improved).planner, "adabits + bitwidth_transfer");
  options.planners = {{"adabits"}};
  EXPECT_LE(plan_in(improved).objective, plan_in(plan(open, options)).objective);
}

TEST(Planning, HearsOfBetterPlansOnce) {
  std::vector<double> heard;
  PlanOptions options;
  options.on_incumbent = [&](const IncumbentNews& news) { heard.push_back(news.objective); };
  const OpenProblem open =
      small_problem("2xT4-16G", {.tensor_parallel = {}, .kv_bitwidths = {{16, 8}}});
  const double best = plan_in(plan(open, options)).objective;
  ASSERT_FALSE(heard.empty());
  EXPECT_NEAR(heard.back(), best, 1e-9 * best);
  EXPECT_TRUE(std::is_sorted(heard.rbegin(), heard.rend()));
}

TEST(Planning, RefusesChainsAndOptionsByName) {
  const OpenProblem open = small_problem("2xT4-16G");
  PlanOptions options;
  options.planners = {{"exact", "ilp"}};
  expect_error(ErrorCode::invalid_argument,
               {"ts.plan.planner[2]: 'ilp' makes plans of its own; only heuristics may follow"},
               [&] { plan(open, options); });
  options.planners = {{"exakt"}};
  expect_error(ErrorCode::not_found, {"unknown planner 'exakt'; did you mean 'exact'?"},
               [&] { plan(open, options); });
  options = {};
  options.ilp_form = IlpForm::base;
  expect_error(ErrorCode::invalid_argument, {"ts.plan.form: only planner = \"ilp\" takes it"},
               [&] { plan(open, options); });
  options = {};
  options.replicas = ReplicaNumbers{.numbers = {3}};
  expect_error(ErrorCode::invalid_argument,
               {"3 replicas need as many devices and requests; there are 2 at most"},
               [&] { plan(open, options); });
  options = {};
  options.decode_micro_batch_size = 6;
  expect_error(ErrorCode::out_of_range, {"6 is more than the batch of 5 requests"},
               [&] { plan(open, options); });
}

TEST(Planning, SaysThatTimeRanOut) {
  PlanOptions options;
  options.time_limit_s = 0;
  const PlanOutcome outcome = plan(small_problem("2xT4-16G"), options);
  EXPECT_EQ(std::get<NoPlan>(outcome).code, "time_limit");
}

TEST(Splits, ListEachWayOnce) {
  const Cluster four = find_cluster("4xT4-16G", folders());
  EXPECT_THAT(list_splits(four, 1).splits, SizeIs(1));
  EXPECT_THAT(list_splits(four, 2).splits, SizeIs(2));  // 3 + 1, 2 + 2
  EXPECT_THAT(list_splits(four, 3).splits, SizeIs(1));  // 2 + 1 + 1
  const Split even = list_splits(four, 4).splits.front();
  ASSERT_THAT(even, SizeIs(4));
  for (std::size_t r = 0; r < 4; ++r) EXPECT_THAT(even[r].devices, ElementsAre(r));
}

TEST(Splits, KnowNodesThatHoldTheSame) {
  const Cluster twins = find_cluster("2xT4-16G+2xT4-16G", folders());
  // One device of either node against three is the same way, and so are the two diagonals.
  EXPECT_THAT(list_splits(twins, 2).splits, SizeIs(3));
}

TEST(Splits, KeepToEqualPartsWhereThereAreTooMany) {
  std::string devices;
  for (const char* type : {"T4-16G", "V100-32G", "P100-12G", "A100-40G", "L4", "A100-80G"}) {
    devices += (devices.empty() ? "4x" : "+4x") + std::string(type);
  }
  const Splits splits = list_splits(find_cluster(devices, folders()), 2);
  EXPECT_FALSE(splits.complete);
  ASSERT_THAT(splits.splits, SizeIs(1));
  EXPECT_THAT(splits.splits.front()[0].devices, SizeIs(12));
  EXPECT_EQ(splits.splits.front()[0].key, splits.splits.front()[1].key);
}

/// Knows the time of whole layers only, and says so of parts of them.
class WholeLayers : public cost::OpModel {
 public:
  double seconds(const cost::OpQuery& query) const override {
    if (query.layer->num_heads < 32) {
      refuse(ErrorCode::unsupported, "layer", "of {} heads nothing was measured",
             query.layer->num_heads);
    }
    return 1e-3;
  }
  Json coefficients() const override { return Json::object(); }
};

std::shared_ptr<const cost::Profile> of_whole_layers(const Device& device) {
  auto profile = std::make_shared<cost::Profile>();
  profile->device = device;
  profile->kernel_set = "tessera";
  for (const cost::Phase phase : {cost::Phase::prefill, cost::Phase::decode}) {
    cost::ProfilePart& part = profile->parts.emplace_back();
    part.op = cost::Op::layer;
    part.bitwidth = 16;
    part.phase = phase;
    part.method = "table";
    part.model = std::make_shared<WholeLayers>();
  }
  return profile;
}

TEST(Planning, AChoiceThatCannotBePricedCostsThatChoice) {
  BatchProblem batch = small_batch("2xA100-40G");  // a model of 32 heads
  batch.profiles = {of_whole_layers(batch.cluster.devices.front().device)};
  Problem problem;
  problem.given = std::move(batch);
  Choices choices;
  choices.tensor_parallel = {1, 2};
  const PlanOutcome outcome = plan(open_problem(problem, choices), {});
  const PlanSummary& made = plan_in(outcome);
  EXPECT_EQ(made.status, PlanStatus::feasible) << "what one choice would cost is not known";
  EXPECT_FALSE(made.bound);
  ASSERT_THAT(made.candidates, SizeIs(2));
  EXPECT_EQ(made.candidates.back().status, "unpriced");
  EXPECT_THAT(made.candidates.back().message, HasSubstr("of 16 heads nothing was measured"));
  EXPECT_THAT(made.notes, ::testing::Contains(HasSubstr("cannot be priced")));
  choices.tensor_parallel = {2};
  expect_error(ErrorCode::unsupported, {"of 16 heads nothing was measured"},
               [&] { plan(open_problem(problem, choices), {}); });
}

// Within a node by the profile, between nodes and without one by the link.
TEST(Hops, TakeWhatTransfersWereMeasuredToTake) {
  BatchProblem batch = small_batch("2xA100-40G");
  batch.cluster.nodes.front().nvlink = true;
  const auto hop_s = [](const BatchProblem& given, std::size_t to = 0) {
    Problem problem;
    problem.given = given;
    const LoweredProblem lowered(problem);
    return lowered.instance().link_s(lowered.instance().decode(2), 0, to);
  };
  const double bytes = 2.0 * static_cast<double>(batch.model.hidden_size) * 2;
  const Link link = batch.cluster.link(0, 1);
  ASSERT_EQ(link.kind, "nvlink");
  const double by_link = link.latency_s + bytes / link.bytes_per_s;
  batch.with_profiles = false;
  EXPECT_DOUBLE_EQ(hop_s(batch), by_link);
  const auto modern = cost::find_profile("A100-40G", "modern", folders());
  cost::OpQuery query;
  query.op = cost::Op::send_recv;
  query.bytes = bytes;
  query.num_devices = 2;
  const double measured = modern->find(query)->model->seconds(query);
  ASSERT_NE(measured, by_link);
  batch.profiles = {modern};
  EXPECT_DOUBLE_EQ(hop_s(batch), measured);
  batch.cluster.nodes.push_back({});
  batch.cluster.nodes.back().name = "other";
  batch.cluster.devices[1].node_index = 1;
  const Link network = batch.cluster.link(0, 1);
  EXPECT_DOUBLE_EQ(hop_s(batch, 1), network.latency_s + bytes / network.bytes_per_s);
}

/// Two nodes of one device each: the second loads half of the layers that the first has.
TEST(Transfer, TakesTheFasterOfDiskAndDevice) {
  BatchProblem batch = small_batch("2xA100-40G");
  Cluster& cluster = batch.cluster;
  cluster.nodes.resize(2);
  cluster.nodes[0].name = "a";
  cluster.nodes[1].name = "b";
  cluster.devices[1].node_index = 1;
  cluster.network_bytes_per_s = 1e9;
  const auto layers = static_cast<std::size_t>(batch.model.num_layers);
  Problem problem;
  problem.given = batch;
  const LoweredProblem lowered(problem);
  const Instance& instance = lowered.instance();
  const WeightBytes weights = weight_bytes(problem, instance);
  Candidate plan;
  plan.order = order_from_names(instance, {"A100-40G@a", "A100-40G@b"});
  plan.first_layer = {0, layers / 2, layers};
  plan.bit.assign(layers, 1);
  // The device of node a held everything, that of node b nothing.
  Holding all{"A100-40G", "a", 0, std::vector<std::int32_t>(layers, 16), true, true};
  const std::vector<Holding> holdings = {all};
  const Moves moves = count_moves(instance, plan, holdings, weights);
  const double bytes = static_cast<double>(layers - layers / 2) * weights.layer[1];
  const double ends = moves.loaded_bytes[1] - bytes;
  const auto seconds = [&](std::optional<double> disk, double network) {
    BatchProblem changed = batch;
    changed.cluster.nodes[1].disk_bytes_per_s = disk;
    changed.cluster.network_bytes_per_s = network;
    return transfer(changed, instance, plan, moves, holdings, weights);
  };
  const Transfer disk = seconds(4e9, 1e9);
  EXPECT_NEAR(disk.seconds, (bytes + ends) / 4e9, 1e-9);
  EXPECT_THAT(disk.nodes_with_assumed_disk, SizeIs(0));
  EXPECT_NEAR(seconds(4e9, 10e9).seconds, bytes / 10e9 + ends / 4e9, 1e-9);
  // No way is faster than PCIe.
  const double pcie = cluster.devices[1].device.pcie_bytes_per_s;
  EXPECT_NEAR(seconds(1e12, 1e12).seconds, (bytes + ends) / pcie, 1e-9);
  const Transfer assumed = seconds(std::nullopt, 1e9);
  EXPECT_NEAR(assumed.seconds, (bytes + ends) / kAssumedDiskBytesPerS, 1e-9);
  EXPECT_THAT(assumed.nodes_with_assumed_disk, ElementsAre("b"));
}

}  // namespace
}  // namespace tessera::solver::planning_test
