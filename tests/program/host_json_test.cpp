// --json: one JSON value on stdout and nothing else, whatever the verb.

#include <nlohmann/json.hpp>

#include "program.h"

namespace tessera::test::host_json_test {
namespace {

using nlohmann::json;
using testing::IsEmpty;
using testing::Not;

using Words = std::vector<std::string>;

class HostJson : public FolderTest {};

// The one value on stdout; a failure of the test where there is none, or anything beside it.
json value_of(const Process& p) {
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_THAT(p.err, IsEmpty());
  json value = json::parse(p.out, nullptr, false);
  EXPECT_FALSE(value.is_discarded()) << p.out;
  return value;
}

const Words kPlan = {"plan",   "--model",      "opt-125m", "--cluster", "1xT4-16G+1xV100-32G",
                     "--json", "--batch-size", "2",        "--planner", "uniform"};

TEST_F(HostJson, Plan) {
  const json plan = value_of(run_program(kPlan));
  for (const char* number : {"objective", "latency_s", "throughput_tok_s", "omega", "mean_bitwidth",
                             "solve_s", "prefill_micro_batch_size", "decode_micro_batch_size"}) {
    EXPECT_TRUE(plan.at(number).is_number()) << number;
  }
  for (const char* text : {"status", "planner", "provenance"}) {
    EXPECT_TRUE(plan.at(text).is_string()) << text;
  }
  ASSERT_EQ(plan.at("stages").size(), 2u);
  for (const json& stage : plan.at("stages")) {
    for (const char* field : {"device", "node", "device_index", "first_layer", "num_layers",
                              "bitwidths", "prefill_s", "decode_s", "memory"}) {
      EXPECT_TRUE(stage.contains(field)) << field;
    }
    EXPECT_EQ(stage.at("bitwidths").size(), stage.at("num_layers"));
    EXPECT_GE(stage.at("memory").at("capacity_bytes"), stage.at("memory").at("total_bytes"));
  }
}

TEST_F(HostJson, PlanSaysWhatItIsAPlanOf) {
  Words words = kPlan;
  words.insert(words.end(), {"--theta", "2", "--kernel-set", "tessera", "--no-beside"});
  const json plan = value_of(run_program(words));
  const json& problem = plan.at("problem");
  EXPECT_EQ(problem.at("model"), "opt-125m");
  EXPECT_EQ(problem.at("cluster"), "1xT4-16G+1xV100-32G");
  EXPECT_EQ(problem.at("kernel_set"), "tessera");
  EXPECT_EQ(problem.at("theta"), 2);
  EXPECT_EQ(problem.at("objective"), "steady");
  EXPECT_EQ(problem.at("workload").at("batch_size"), 2);
  EXPECT_EQ(problem.at("bitwidths"), json::array({4, 8, 16}));
  EXPECT_GT(plan.at("ttft_s"), 0);
  EXPECT_LT(plan.at("ttft_s"), plan.at("latency_s"));
  EXPECT_GT(plan.at("tpot_s"), 0);
}

json error_of(const Words& words, int status) {
  const Process p = run_program(words);
  EXPECT_EQ(p.status, status) << p.err;
  EXPECT_THAT(p.err, testing::StartsWith("tessera: "));
  const json value = json::parse(p.out, nullptr, false);
  EXPECT_TRUE(value.is_object() && value.contains("error")) << p.out;
  return value.at("error");
}

TEST_F(HostJson, ErrorsAreDataToo) {
  json error = error_of({"plan", "--json", "--model", "opt-125n", "--cluster", "1xT4-16G"}, 1);
  EXPECT_EQ(error.at("code"), "not_found");
  EXPECT_THAT(error.at("message"), testing::HasSubstr("did you mean 'opt-125m'"));
  EXPECT_EQ(error.at("where"), "ts.plan_serving.model");
  error = error_of({"plan", "--json", "--model", "opt-175b", "--cluster", "1xT4-16G"}, 3);
  EXPECT_EQ(error.at("code"), "infeasible");
  EXPECT_EQ(error.at("constraint"), "memory");
  EXPECT_EQ(error_of({"plan", "--json", "--no-such-flag"}, 2).at("code"), "usage");
  EXPECT_EQ(error_of({"--json", path("none.lua")}, 1).at("code"), "not_found");
  EXPECT_THAT(error_of({"--json", "-e", "error 'a\255b'"}, 1).at("message"),
              testing::HasSubstr("a\uFFFDb"));
  EXPECT_EQ(error_of({"--json", "-e", "x ="}, 1).at("code"), "script");
}

TEST_F(HostJson, PlanWithOpenChoicesAndReplicas) {
  const Words words = {
      "plan",         "--model", "opt-125m",      "--cluster", "2xT4-16G",          "--json",
      "--batch-size", "2",       "--bitwidths",   "16",        "--tensor-parallel", "1,2",
      "--theta",      "100",     "--kv-bitwidth", "16,8",      "--replicas"};
  const auto with_replicas = [&](const char* number) {
    Words all = words;
    all.push_back(number);
    return value_of(run_program(all));
  };
  const json one = with_replicas("1");
  EXPECT_EQ(one.at("candidates").size(), 4u);
  EXPECT_EQ(one.at("kv_bitwidth"), 16);
  EXPECT_FALSE(one.contains("replicas"));
  const json two = with_replicas("2");
  ASSERT_EQ(two.at("replicas").size(), 2u);
  EXPECT_TRUE(two.at("stages").empty());
  EXPECT_EQ(two.at("replicas")[1].at("devices"), json::array({1}));
  const json best = with_replicas("1,2");
  const auto objective = [](const json& plan) { return plan.at("objective").get<double>(); };
  EXPECT_DOUBLE_EQ(objective(best), std::min(objective(one), objective(two)));
  const Process p =
      run_program({"plan", "--model", "opt-125m", "--cluster", "2xT4-16G", "--replicas", "some"});
  EXPECT_EQ(p.status, 1);
  EXPECT_THAT(p.err, testing::HasSubstr("some is not a number of replicas"));
}

TEST_F(HostJson, PlanThatDoesNotExist) {
  const Process p = run_program(
      {"plan", "--json", "--model", "opt-175b", "--cluster", "1xT4-16G", "--batch-size", "1"});
  expect_refusal(p, 3, "GiB");
  EXPECT_TRUE(json::parse(p.out).contains("error"));
  EXPECT_THAT(p.err, testing::HasSubstr("code:  infeasible"));
}

TEST_F(HostJson, PlanThatCannotBeSavedIsStillPrinted) {
  Words words = kPlan;
  words.insert(words.end(), {"--save", path("no/such/plan.json")});
  const Process p = run_program(words);
  expect_refusal(p, 1, "No such file or directory");
  EXPECT_TRUE(json::accept(p.out));
}

TEST_F(HostJson, ListVersionAndHelp) {
  const json list = value_of(run_program({"list", "--json"}));
  ASSERT_TRUE(list.is_array());
  ASSERT_THAT(list, Not(IsEmpty()));
  for (const json& entry : list) {
    EXPECT_TRUE(entry.at("name").is_string());
    EXPECT_TRUE(entry.at("path").is_string());
    EXPECT_TRUE(entry.at("doc").is_string());
  }
  EXPECT_EQ(value_of(run_program({"--json", "version"})),
            value_of(run_program({"version", "--json"})));
  EXPECT_EQ(value_of(run_program({"help", "planners", "--json"})).at("topic"), "planners");
  EXPECT_TRUE(value_of(run_program({"help", "--json"})).at("text").is_string());
  expect_refusal(run_program({"help", "planer", "--json"}), 2, "did you mean 'planners'");
}

TEST_F(HostJson, CodeWithAResult) {
  const auto result_of = [](const std::string& code) {
    return value_of(run_program({"--json", "-e", code}));
  };
  EXPECT_EQ(result_of("return 1 + 1"), 2);
  EXPECT_EQ(result_of("return false"), false);
  EXPECT_EQ(result_of("return { a = { 1, 'x' } }, 'only the first'"),
            json::parse(R"({"a": [1, "x"]})"));
  EXPECT_EQ(result_of("return require 'tessera'.model 'opt-125m'").at("num_layers"), 12);
  EXPECT_EQ(result_of("return ts.model 'opt-125m'").at("num_layers"), 12);
  EXPECT_EQ(result_of("require 'tessera.host'.set_result(3) os.exit(0)"), 3);
  const Process chatter = run_program({"--json", "-e", "print 'chatter' return {}"});
  EXPECT_EQ(chatter.out, "[]\n");
  EXPECT_EQ(chatter.err, "chatter\n");
  EXPECT_THAT(run_program({"--json", "-e", "local x = 1"}).out, IsEmpty());
  EXPECT_THAT(run_program({"-e", "return 1"}).out, IsEmpty());
  for (const char* code : {"return print", "return 0/0", "return 1/0", "return '\\255'",
                           "local t = {} t.t = t return t", "return { 1, nil, 3 }",
                           "return { 1, x = 2 }", "return { [true] = 1 }"}) {
    const Process p = run_program({"--json", "-e", code});
    expect_refusal(p, 1, "result");
    EXPECT_TRUE(json::parse(p.out).contains("error")) << code;
  }
}

}  // namespace
}  // namespace tessera::test::host_json_test
