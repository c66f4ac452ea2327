// What a sweep stores beside the columns: where the inputs came from, plans and timelines; and what
// `tessera list` says of experiments that nobody has run yet.

#include "sweep.h"
#include "tessera/results/origin.h"

namespace tessera::sweep_record_test {
namespace {

using testing::HasSubstr;
using SweepRecord = test::SweepTest;
using nlohmann::json;

TEST_F(SweepRecord, InputsAreStoredWithTheirHashes) {
  const std::string device = R"({"name": "own", "memory_bytes": 17179869184,
    "memory_bytes_per_s": 3e11, "flop_per_s": {"fp16": 6e13}, "source": "a test"})";
  file("own.json", device);
  file("late.lua", "return { factor = 3 }");
  experiment("inputs", 2,
             "if point.i == 1 then return { x = 1 } end\n"
             "return { x = require('tessera').device { file = 'own.json' }.memory_bytes * "
             "dofile('late.lua').factor }");
  for (const char* jobs : {"0", "1"}) {
    ASSERT_EQ(tessera({"run", "inputs.lua", "--jobs", jobs, "--fresh"}).status, 0);
    const test::Process p = tessera({"results", "inputs", "--json", "--meta"});
    const json list = json::parse(p.out);
    ASSERT_EQ(list.size(), 2u);
    EXPECT_EQ(list[0]["meta"]["inputs"], json::array());
    std::map<std::string, std::string> hashes;
    for (const json& input : list[1]["meta"]["inputs"]) {
      const std::string name = std::filesystem::path(input["path"].get<std::string>()).filename();
      hashes[name] = input["sha256"];
    }
    EXPECT_EQ(hashes["own.json"], results::sha256(device)) << list[1]["meta"]["inputs"];
    EXPECT_EQ(hashes["late.lua"], results::sha256("return { factor = 3 }"));
  }
}

TEST_F(SweepRecord, PlansAndTimelinesAreArtefacts) {
  experiment("planned", 1, R"(
    local problem = ts.problem { model = "opt-13b", cluster = "llmpq-3", workload = ts.workload.llmpq }
    local plan = assert(ts.plan(problem, { planner = "uniform" }))
    return { latency_s = plan.latency_s, plan = plan, run = ts.simulate(plan) })");
  ASSERT_EQ(tessera({"run", "planned.lua"}).status, 0);
  const json row = rows("planned").at(1);
  EXPECT_FALSE(row.contains("plan")) << "it is no column";
  const test::Process p = tessera({"-e", R"(
    local store = require "tessera.store"
    local db = store.open("results.db", { read_only = true })
    return db:artefacts(1, store.key { i = 1 }))",
                                   "--json"});
  ASSERT_EQ(p.status, 0) << p.err;
  const json found = json::parse(p.out);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]["name"], "plan");
  EXPECT_EQ(found[0]["kind"], "plan");
  EXPECT_EQ(found[0]["value"]["latency_s"], row["latency_s"]) << "to the last bit";
  EXPECT_EQ(found[1]["name"], "run");
  EXPECT_EQ(found[1]["kind"], "timeline");
  EXPECT_FALSE(found[1]["value"]["stages"].empty());
}

TEST_F(SweepRecord, ListSaysWhatExperimentsAre) {
  experiment("listed", 7, "error 'not to be run'", "doc = 'Seven points',");
  file("broken.lua",
       "-- A broken one.\nlocal ts = require 'tessera'\nreturn ts.experiment { name = }");
  file("refused.lua",
       "return require('tessera').experiment { name = 'no name', grid = { i = { 1 } }, "
       "run = print } -- ts.experiment");
  file("talks.lua",
       "io.stdout:write 'said while it loads' -- ts.experiment\nreturn dofile 'listed.lua'");
  test::ProcessSetup setup;
  setup.environment = {{"TESSERA_PATH", folder_.string()}};
  test::Process p = tessera({"list", "--json"}, setup);
  ASSERT_EQ(p.status, 0) << p.err;
  std::map<std::string, json> found;
  for (const json& entry : json::parse(p.out)) found[entry["name"]] = entry;
  EXPECT_EQ(found[path("listed.lua")]["num_points"], 7);
  EXPECT_EQ(found[path("listed.lua")]["doc"], "Seven points");
  EXPECT_THAT(found[path("broken.lua")].value("error", ""),
              HasSubstr("unexpected symbol near '}'"));
  EXPECT_THAT(found[path("refused.lua")].value("error", ""), HasSubstr("'no name' is no name"));
  p = tessera({"list"}, setup);
  EXPECT_THAT(p.out, HasSubstr("[7 points]  Seven points"));
  EXPECT_THAT(p.out, HasSubstr("unexpected symbol near '}'"));
}

}  // namespace
}  // namespace tessera::sweep_record_test
