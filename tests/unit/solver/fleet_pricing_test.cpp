// Columns of named models: nodes that are alike, bounds that hold, and lazy pricing against pricing
// all of them.
#include <gtest/gtest.h>

#include <set>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/solver/fleet/check.h"
#include "tessera/solver/fleet_pricing/fleet_layout.h"
#include "tessera/solver/fleet_pricing/plan_fleet.h"

namespace tessera::solver::fleet_pricing_test {
namespace {

const DataFolders& folders() {
  static const DataFolders all({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  return all;
}

struct Demand {
  std::string name, model;
  double rate_per_s;
  std::int64_t prompt_tokens, output_tokens;
  double ttft_s, tpot_s;
};

NamedModel model_of(const Demand& demand) {
  NamedModel model;
  model.name = demand.name;
  const std::string path = folders().require("models", demand.model);
  model.serving.model = std::make_shared<ModelShape>(model_from_json(read_json_file(path), path));
  serving::TrafficOptions traffic;
  traffic.rate_per_s = demand.rate_per_s;
  traffic.prompt_tokens = serving::fixed_length(demand.prompt_tokens);
  traffic.output_tokens = serving::fixed_length(demand.output_tokens);
  serving::Slo slo;
  slo.ttft_s.of_all = {{serving::Statistic::p99, demand.ttft_s}};
  slo.tpot_s.of_all = {{serving::Statistic::p99, demand.tpot_s}};
  model.classes = {{"", traffic, {slo}}};
  model.serving.num_requests = 300;
  return model;
}

FleetRequest request_of(const std::string& cluster, const std::vector<Demand>& demands) {
  FleetRequest request;
  request.nodes = node_kinds(find_cluster(cluster, folders()));
  for (const Demand& demand : demands) request.models.push_back(model_of(demand));
  request.gap = 0;
  request.time_limit_s = 3600;  // proofs, however busy the machine is
  return request;
}

const std::vector<Demand> kTwo = {{"chat", "llama-3.1-8b", 8, 300, 60, 1, 0.08},
                                  {"code", "qwen2.5-14b", 2, 800, 40, 2, 0.1}};

TEST(NodeKinds, AlikeNodesAreOne) {
  const auto kinds = node_kinds(find_cluster("2x(4xL4)+3x(2xA100-40G)+(4xL4)", folders()));
  ASSERT_EQ(kinds.size(), 2U);
  EXPECT_EQ(kinds[0].name, "4xL4");
  EXPECT_EQ(kinds[0].count, 3);
  EXPECT_EQ(kinds[0].names.size(), 3U);
  EXPECT_EQ(kinds[1].count, 3);
  EXPECT_NEAR(*kinds[0].usd_per_h, 4 * *kinds[0].device_usd_per_h(0), 1e-9);
}

TEST(NodeKinds, AClassIsOfOneNode) {
  EXPECT_THROW(node_kind_of(find_cluster("2x(4xL4)", folders()), 3, "rent[1]"), Error);
  EXPECT_EQ(node_kind_of(find_cluster("8xL4", folders()), 1'000'000, "rent[1]").count, 1'000'000);
}

TEST(FleetColumns, NoRunPassesItsBound) {
  const FleetRequest request =
      request_of("(4xL4)+(2xA100-40G)+(2xA10G)", {{"a", "llama-3.1-8b", 1, 300, 60, 1, 0.08},
                                                  {"b", "llama-3.1-8b", 1, 1500, 20, 3, 0.1},
                                                  {"c", "qwen2.5-14b", 1, 100, 300, 2, 0.06}});
  FleetColumns columns(request.models, request.nodes, folders(), "models");
  ASSERT_GT(columns.columns().size(), 40U);
  std::vector<double> by_prices;
  for (const FleetColumn& each : columns.columns()) {
    by_prices.push_back(columns.engine_of(each).classes.front().bound_per_s);
  }
  double best = 0;
  int by_others = 0;
  for (std::size_t c = 0; c < columns.columns().size(); ++c) {
    const ServedClass& engine = columns.engine_of(columns.columns()[c]).classes.front();
    by_others += engine.bound_per_s < 0.95 * by_prices[c];
    columns.simulate(c);
    EXPECT_LE(engine.priced->rate_per_s, engine.bound_per_s)
        << request.models[columns.columns()[c].model].name << " " << engine.priced->name();
    best = std::max(best, engine.rate_per_s / engine.bound_per_s);
  }
  EXPECT_GT(best, 0.6);     // no bound is of use that is far from all
  EXPECT_GT(by_others, 3);  // what is known says something of those that are slower
}

TEST(FleetColumns, ShortRunsPromiseNoMoreThanIsSustained) {
  const FleetRequest request = request_of("(2xL4)", {{"a", "opt-1.3b", 1, 50, 1, 1, 0.1}});
  FleetColumns columns(request.models, request.nodes, folders(), "models");
  bool is_short = false;
  for (std::size_t c = 0; c < columns.columns().size(); ++c) {
    columns.simulate(c);
    const ServedClass& engine = columns.engine_of(columns.columns()[c]).classes.front();
    is_short = is_short || engine.priced->rate_per_s > engine.bound_per_s;
    EXPECT_LE(engine.rate_per_s, engine.bound_per_s);
  }
  EXPECT_TRUE(is_short);  // 300 answers of one token, and a second to wait for each
}

TEST(FleetColumns, AreOverUnlikeDevicesOfANodeWhereThatIsAsked) {
  FleetRequest request =
      request_of("2x(1xA100-40G+1xL4)", {{"a", "qwen2.5-14b", 1, 500, 100, 3, 0.15}});
  const auto over_both = [&] {
    FleetColumns columns(request.models, request.nodes, folders(), "models");
    std::vector<std::size_t> found;
    for (std::size_t c = 0; c < columns.columns().size(); ++c) {
      const FleetColumn& column = columns.columns()[c];
      if (column.devices != std::vector<std::int64_t>{1, 1}) continue;
      found.push_back(c);
      const ServedClass& engine = columns.engine_of(column).classes.front();
      EXPECT_TRUE(engine.priced->is_unlike());
      columns.simulate(c);
      EXPECT_LE(engine.priced->rate_per_s, engine.bound_per_s) << engine.priced->name();
    }
    return found.size();
  };
  request.models.front().serving.unlike_devices = false;
  EXPECT_EQ(over_both(), 0U);
  request.models.front().serving.unlike_devices = true;
  EXPECT_GE(over_both(), 1U);
  // What neither device holds alone has no other kind of replica.
  request = request_of("2x(1xA100-40G+1xL40S)", {{"b", "qwen2.5-32b", 0.1, 300, 50, 5, 0.5}});
  request.models.front().serving.unlike_devices = true;
  request.models.front().serving.bitwidths = {16};
  const PricedFleet fleet = plan_fleet(request, folders());
  ASSERT_TRUE(fleet.answer.objective);
  EXPECT_TRUE(check_fleet(fleet.instance, fleet.answer.placement).violations.empty());
  const std::size_t used = fleet.answer.placement.front().column;
  EXPECT_EQ(fleet.instance.columns[used].devices, (DeviceCounts{{"A100-40G", 1}, {"L40S", 1}}));
}

// Which cost and count whole: a node of a replica over several has no room for another.
TEST(FleetColumns, TakeWholeNodesWhereNoNodeHoldsTheModel) {
  FleetRequest request = request_of("5x(2xL4)", {{"a", "llama-3.3-70b", 0.05, 200, 30, 20, 1}});
  request.models.front().serving.bitwidths = {16};
  const PricedFleet fleet = plan_fleet(request, folders());
  ASSERT_TRUE(fleet.answer.objective) << fleet.columns->why_none(0);
  ASSERT_EQ(fleet.answer.placement.size(), 1U);
  const Replica& replica = fleet.answer.placement.front();
  EXPECT_EQ(replica.nodes.size(), 4U);  // 132 GiB on nodes of 44
  EXPECT_EQ(fleet.answer.gpus, 8);
  EXPECT_NEAR(fleet.answer.usd_per_h, 4 * *request.nodes.front().usd_per_h, 1e-9);
  const FleetLayout layout = layout_of(fleet);
  EXPECT_EQ(
      std::set<std::size_t>(layout.devices.front().begin(), layout.devices.front().end()).size(),
      8U);
  const FleetColumn& column = fleet.columns->columns()[replica.column];
  const ServedClass& engine = fleet.columns->engine_of(column).classes.front();
  EXPECT_EQ(engine.priced->pipeline_parallel, 4);
  EXPECT_LE(engine.priced->rate_per_s, engine.bound_per_s);
  // A node lost takes it with it, and five nodes have no second one.
  request.reserve_nodes = 1;
  const PricedFleet none = plan_fleet(request, folders());
  EXPECT_EQ(none.answer.status, FleetStatus::infeasible);
  EXPECT_FALSE(none.answer.objective);
}

TEST(PlanFleet, LazyPricingFindsWhatPricingAllFinds) {
  for (const char* cluster : {"2x(4xL4)+2x(2xA100-40G)", "4x(2xA10G)+(4xL40S)", "3x(4xL4)"}) {
    FleetRequest request = request_of(cluster, kTwo);
    const PricedFleet lazy = plan_fleet(request, folders());
    request.simulate_all = true;
    const PricedFleet all = plan_fleet(request, folders());
    ASSERT_TRUE(lazy.answer.objective && all.answer.objective) << cluster;
    EXPECT_NEAR(*lazy.answer.objective, *all.answer.objective, 1e-6) << cluster;
    EXPECT_LE(*lazy.answer.bound, *lazy.answer.objective + 1e-6);
    EXPECT_EQ(all.pricing.simulated, all.pricing.shapes);
    EXPECT_LT(lazy.pricing.simulated, all.pricing.simulated) << cluster;
    EXPECT_TRUE(check_fleet(lazy.instance, lazy.answer.placement).violations.empty());
  }
}

TEST(PlanFleet, GivesEveryReplicaDevicesOfItsOwn) {
  FleetRequest request = request_of("2x(4xL4)+2x(2xA100-40G)", kTwo);
  request.reserve_nodes = 1;
  const PricedFleet fleet = plan_fleet(request, folders());
  ASSERT_TRUE(fleet.answer.objective);
  const FleetLayout layout = layout_of(fleet);
  std::set<std::size_t> used;
  for (const auto& devices : layout.devices) {
    EXPECT_FALSE(devices.empty());
    for (const std::size_t device : devices) EXPECT_TRUE(used.insert(device).second);
  }
  EXPECT_EQ(used.size(), static_cast<std::size_t>(fleet.answer.gpus));
}

TEST(PlanFleet, EndsWhereverItIsInterrupted) {
  FleetRequest request = request_of("2x(4xL4)+2x(2xA100-40G)", kTwo);
  // How often a whole search asks; then it is told to end after a part of these.
  std::int64_t all = 0;
  request.should_stop = [&] {
    ++all;
    return false;
  };
  const PricedFleet whole = plan_fleet(request, folders());
  ASSERT_TRUE(whole.answer.objective);
  ASSERT_GT(all, 20);
  for (const double part : {0.0, 0.01, 0.1, 0.3, 0.5, 0.8, 0.95}) {
    std::int64_t asked = 0, later = 0;
    const auto most = static_cast<std::int64_t>(part * static_cast<double>(all));
    request.should_stop = [&] {
      if (asked++ < most) return false;
      ++later;
      return true;
    };
    const PricedFleet fleet = plan_fleet(request, folders());
    EXPECT_GT(later, 0) << part;
    EXPECT_EQ(fleet.answer.status, FleetStatus::interrupted) << part;
    if (!fleet.answer.objective) continue;
    EXPECT_TRUE(check_fleet(fleet.instance, fleet.answer.placement).violations.empty()) << part;
    EXPECT_GE(*fleet.answer.objective, *whole.answer.objective - 1e-6) << part;
  }
}

TEST(PlanFleet, CountsWhatRunsByNames) {
  FleetRequest request = request_of("2x(4xL4)+2x(2xA100-40G)", kTwo);
  const PricedFleet before = plan_fleet(request, folders());
  ASSERT_TRUE(before.answer.objective);
  std::vector<RunningReplicas> running;
  for (const Replica& replica : before.answer.placement) {
    const Column& column = before.instance.columns[replica.column];
    running.push_back({before.instance.models[column.model].name,
                       column.label,
                       {node_name(before, replica.nodes.front())}});
  }
  request.around = {running};
  request.switch_usd = 1;
  const PricedFleet same = plan_fleet(request, folders());
  EXPECT_EQ(check_fleet(same.instance, same.answer.placement).switched, 0);
  EXPECT_NEAR(*same.answer.objective, *before.answer.objective, 1e-6);
  EXPECT_EQ(same.num_leaving, 0);
  request.around[0].push_back({"chat", "no such engine", running[0].node_names, 3});
  EXPECT_EQ(plan_fleet(request, folders()).num_leaving, 3);
}

TEST(PlanFleet, EndsWithinItsTime) {
  FleetRequest request = request_of("2x(4xL4)+2x(2xA100-40G)", kTwo);
  request.time_limit_s = 0;
  const PricedFleet fleet = plan_fleet(request, folders());
  EXPECT_EQ(fleet.answer.status, FleetStatus::time_limit);
  EXPECT_FALSE(fleet.answer.objective);
}

}  // namespace
}  // namespace tessera::solver::fleet_pricing_test
