// What a problem says by default, what it cannot be, and its file.
#include "tessera/solver/problem/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "four_devices.h"
#include "tessera/core/record_json.h"
#include "tessera/core/record_options.h"

namespace tessera::solver::problem_test {
namespace {

using tessera::test::four_devices;
using test::expect_error;

Problem instance_problem() {
  const char* text = R"({
    "name": "tiny", "model": "m", "L": 1, "bits": [8], "B": 1, "s": 8, "n": 3, "theta": 0.5,
    "omega": [[0.25]], "mem_layer_gb": [1], "mem_emb_gb": 0.5,
    "types": [{"name": "A", "count": 3, "mem_gb": 3}],
    "lat_pre": {"A": [[1]]}, "lat_dec": {"A": [[0.1]]},
    "mem_tmp_pre_gb": [0.1], "mem_tmp_dec_gb": [0.01],
    "link_gbs": [[2]], "pay_pre_gb": 1, "pay_dec_gb": 0.5})";
  Problem problem;
  problem.given =
      InstanceFile{std::make_shared<const Json>(parse_json(text, "tiny.json")), "tiny.json"};
  return problem;
}

TEST(Problem, AQualityFloorTakesThePriceOffOmega) {
  Problem problem = four_devices();
  EXPECT_EQ(problem.theta_in_force(), 1);
  EXPECT_EQ(lower(problem).theta, 1);
  problem.max_omega = 2;
  EXPECT_EQ(problem.theta_in_force(), 0);
  EXPECT_EQ(lower(problem).theta, 0);
  problem.max_omega.reset();
  problem.quality_at_least = "uniform";
  EXPECT_EQ(problem.theta_in_force(), 0);
  problem.theta = 3;
  EXPECT_EQ(problem.theta_in_force(), 3);
}

// Four stages in a row cross a bridge, PCIe and a bridge: the slowest of them counts.
TEST(Problem, StagesInARowCrossWhatNoBridgeJoins) {
  const auto link_s = [](std::size_t num_devices, bool bridges) {
    Problem problem = four_devices();
    auto& batch = std::get<BatchProblem>(problem.given);
    batch.cluster.devices.resize(num_devices);
    for (ClusterDevice& slot : batch.cluster.devices) {
      slot.device.nvlink_bytes_per_s.reset();
      slot.device.nvlink_bridge_bytes_per_s = 100e9;
    }
    batch.cluster.nodes.front().nvlink_bridges = bridges;
    const Instance instance = lower(problem);
    return instance.link_s(instance.prefill(8), 0, 0);
  };
  EXPECT_LT(link_s(2, true), link_s(2, false));
  EXPECT_EQ(link_s(4, true), link_s(4, false));
  EXPECT_EQ(link_s(4, true), link_s(2, false));
}

TEST(Problem, AnInstanceFileHasAThetaOfItsOwn) {
  Problem problem = instance_problem();
  EXPECT_EQ(problem.theta_in_force(), 0.5);
  EXPECT_TRUE(problem.may_have_empty_stages());
  problem.max_omega = 1;
  EXPECT_EQ(problem.theta_in_force(), 0);
  problem.theta = 2;
  problem.allow_empty_stage = false;
  const Instance instance = lower(problem);
  EXPECT_EQ(instance.theta, 2);
  EXPECT_FALSE(instance.allow_empty_stage);
}

TEST(Problem, IsRefusedFromCppAsFromScripts) {
  const auto refuses = [](void (*change)(BatchProblem&), ErrorCode code, const char* what) {
    Problem problem = four_devices();
    change(*problem.batch());
    expect_error(code, {what}, [&] { lower(problem); });
  };
  refuses(
      [](BatchProblem& s) {
        s.bitwidths = {16, 8};
      },
      ErrorCode::invalid_argument, "problem.bitwidths: give at least one bitwidth, each once");
  refuses([](BatchProblem& s) { s.bitwidths.clear(); }, ErrorCode::invalid_argument,
          "problem.bitwidths: give at least one bitwidth");
  refuses([](BatchProblem& s) { s.model.max_context_tokens = 71; }, ErrorCode::out_of_range,
          "problem.workload: 64 prompt and 8 output tokens are more than the 71 that small");
  refuses(
      [](BatchProblem& s) {
        s.kv_omega[8] = {1, 2};
      },
      ErrorCode::invalid_argument, "problem.kv_omega: it is of 2 layers, small has 4");
}

TEST(ProblemFile, ComesBackTheSame) {
  Problem problem = four_devices();
  problem.batch()->mesh = Mesh{{2, 2}};
  problem.batch()->kv_omega[8] = {1, 2, 3, 4};
  problem.batch()->memory = cost::MemoryPreset::llm_pq;
  problem.objective = Objective::paper;
  problem.theta = 7;
  problem.theta_unit = ThetaUnit::ms_per_raw_omega;
  problem.max_omega = 9;
  problem.quality_at_least = "uniform";
  problem.allow_empty_stage = true;
  problem.constraints = {{"row", {{}}, Sense::at_least, 2}};
  problem.constraints.front().terms.front().bitwidth = 8;
  const Json json = to_json(problem);
  const Problem again = problem_from_json(json, "file");
  EXPECT_EQ(to_json(again), json);
  EXPECT_EQ(again.batch()->mesh, (Mesh{{2, 2}}));
  EXPECT_EQ(again.theta, 7);
  EXPECT_EQ(again.constraints.front().sense, Sense::at_least);
}

TEST(ProblemFile, SaysWhatIsInForce) {
  const Json batch = to_json(four_devices());
  EXPECT_EQ(batch["theta"], 1);
  EXPECT_EQ(batch["allow_empty_stage"], false);
  EXPECT_FALSE(batch["serving"].contains("mesh"));
  EXPECT_FALSE(batch.contains("max_omega"));
  const Json instance = to_json(instance_problem());
  EXPECT_EQ(instance["theta"], 0.5);
  EXPECT_EQ(instance["allow_empty_stage"], true);
  Json silent = instance;
  silent.erase("theta");
  silent.erase("allow_empty_stage");
  EXPECT_EQ(to_json(problem_from_json(silent, "file")), instance);
}

TEST(ProblemFile, NamesTheFieldThatIsWrong) {
  const Json good = to_json(four_devices());
  const auto refuses = [&](const char* at, const char* value, ErrorCode code, const char* what) {
    SCOPED_TRACE(at);
    Json json = good;
    json[Json::json_pointer(at)] = parse_json(value, "value");
    expect_error(code, {what}, [&] { problem_from_json(json, "file"); });
  };
  const auto bad = ErrorCode::invalid_argument;
  const auto far = ErrorCode::out_of_range;
  refuses("/objective", R"("stead")", bad, "file: objective: 'stead' is not known; did you mean");
  refuses("/theta_unit", R"("s")", bad, "file: theta_unit: 's' is not known");
  refuses("/theta", "1e13", far, "theta");
  refuses("/max_omega", "-1", far, "max_omega");
  refuses("/serving/memory", R"("llmpq")", bad, "serving: memory: 'llmpq' is not known; did you");
  refuses("/serving/kv_bitwidth", "32", far, "kv_bitwidth");
  refuses("/serving/bitwidths", "[16, 8]", bad, "serving: bitwidths: give at least one bitwidth");
  refuses("/serving/kv_omega", R"({"8.0": [1, 2, 3, 4]})", bad, "kv_omega.8.0: a bitwidth in");
  refuses("/serving/kv_omega", R"({"8": [1], "08": [1]})", bad, "kv_omega.08: it was given before");
  refuses("/serving/kv_omega", R"({"8": [1, 2]})", bad, "kv_omega: it is of 2 layers, small has 4");
  refuses("/constraints", R"([{"name": "x", "terms": [{"stage": 0}], "sense": "<=", "rhs": 1}])",
          far, "constraints[1]: terms[1]: stage");
  const std::string row = R"({"name": "x", "terms": [{"stage": 1}], "sense": "<=", "rhs": 1})";
  refuses("/constraints", ("[" + row + "," + row + "]").c_str(), bad,
          "constraints[2].name: 'x' is the name of another");
}

TEST(ProblemOptions, AreTheFieldsThatScriptsMaySet) {
  const auto batch = options_of<BatchProblem>();
  const auto named = [&](std::string_view name) {
    return std::find_if(batch.begin(), batch.end(),
                        [&](const OptionSpec& spec) { return spec.name == name; });
  };
  EXPECT_EQ(named("mesh"), batch.end());
  EXPECT_EQ(named("kv_bitwidth"), batch.end()) << "a choice sets it";
  ASSERT_NE(named("memory"), batch.end());
  EXPECT_TRUE(named("memory")->default_text.empty());  // it follows the cluster
  EXPECT_EQ(named("memory")->choices, names_of<cost::MemoryPreset>());
  EXPECT_EQ(named("bitwidths")->default_text, "{4, 8, 16}");
}

}  // namespace
}  // namespace tessera::solver::problem_test
