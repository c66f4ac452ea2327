// `tessera indicator` from the command line.
#include <nlohmann/json.hpp>

#include "program.h"

namespace tessera::test::indicator_verb_test {
namespace {

using testing::HasSubstr;

const std::string kData = std::string(TESSERA_SOURCE_DIR) + "/experiments/indicator/data/";
const std::string kModel = kData + "tiny_llama";
const std::string kStatistics = kData + "tiny_llama.statistics.safetensors";

class IndicatorVerb : public FolderTest {};

TEST_F(IndicatorVerb, ShowsLayersByBitwidths) {
  const Process p = run_program({"indicator", kModel, "--bitwidths", "4,8"});
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_EQ(p.err, "");  // no progress bar where there is no terminal
  EXPECT_THAT(p.out, HasSubstr("indicator: variance over 6 layers, modelled"));
  EXPECT_THAT(p.out, HasSubstr("no statistics: inputs taken to have zero mean and unit variance"));
  EXPECT_THAT(p.out, HasSubstr("layer      4 bits      8 bits\n    0 "));
  EXPECT_THAT(p.out, HasSubstr("over the layers:"));
  EXPECT_THAT(p.out, HasSubstr("s over the weights"));
}

TEST_F(IndicatorVerb, PrintsNothingButDataWithJson) {
  const Process p = run_program(
      {"indicator", kModel, "--kind", "hessian", "--statistics", kStatistics, "--json"});
  ASSERT_EQ(p.status, 0) << p.err;
  const auto result = nlohmann::json::parse(p.out);
  EXPECT_EQ(result.at("kind"), "hessian");
  EXPECT_EQ(result.at("bitwidths"), (std::vector<int>{3, 4, 8, 16}));
  EXPECT_EQ(result.at("omega").size(), 6u);
  EXPECT_GT(result.at("omega")[0][0], result.at("omega")[0][2]);
  EXPECT_GE(result.at("overhead_s"), result.at("weights_s"));
}

TEST_F(IndicatorVerb, WritesWhatThePlannerReads) {
  const std::string file = path("omega.json");
  const Process made = run_program({"indicator", kModel, "--statistics", kStatistics,
                                    "--granularity", "channel", "--out", file});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("written to " + file));
  const Process plan = run_program({"plan", "--model", kModel, "--cluster", "2xT4-16G",
                                    "--prompt-tokens", "16", "--output-tokens", "8", "--batch-size",
                                    "2", "--indicator", file, "--beside=false"});
  EXPECT_EQ(plan.status, 0) << plan.err;
}

TEST_F(IndicatorVerb, PlansAGgufFile) {
  const std::string model = std::string(TESSERA_SOURCE_DIR) + "/tests/fuzz/corpus/gguf/model.gguf";
  const Process plan =
      run_program({"plan", "--model", model, "--cluster", "1xL4", "--prompt-tokens", "16",
                   "--output-tokens", "8", "--batch-size", "2", "--beside=false"});
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("Plan for model on 1xL4"));
}

TEST_F(IndicatorVerb, RefusesWhatItCannotDo) {
  expect_refusal(run_program({"indicator"}), 2, "name one folder of a model");
  expect_refusal(run_program({"indicator", kModel, kModel}), 2, "2 were named");
  expect_refusal(run_program({"indicator", "opt-125m"}), 1, "kind 'variance' is made from weights");
  expect_refusal(run_program({"indicator", path("none/")}), 1, "none");
  expect_refusal(run_program({"indicator", kModel, "--kind", "hessian"}), 1, "Hessians among them");
  expect_refusal(run_program({"indicator", kModel, "--kind", "magic"}), 2, "magic");
  expect_refusal(run_program({"indicator", kModel, "--out", path("no/such.json")}), 1, "No such");
}

TEST_F(IndicatorVerb, ReplacesIndicatorsAndEmptyFilesAlone) {
  const std::string settings = file("config.json", "{\"hidden_size\": 8}");
  const auto made = [](const std::string& out) {
    return run_program({"indicator", kModel, "--bitwidths", "4", "--out", out});
  };
  expect_refusal(made(settings), 1, "it is there, and no indicator; name another file");
  EXPECT_EQ(read(settings), "{\"hidden_size\": 8}");
  const std::string out = file("omega.json", "");
  EXPECT_EQ(made(out).status, 0);
  EXPECT_EQ(made(out).status, 0);
  expect_refusal(
      run_program({"-e", "require('tessera').indicator('" + out + "'):save '" + settings + "'"}), 1,
      "no indicator; name another file");
  expect_refusal(run_program({"-e", "require('tessera').indicator { model = '" + kModel +
                                        "', kind = 'divergence', file = '" + out +
                                        "', bitwidths = { 4 }, out = '" + settings + "' }"}),
                 1, "no indicator; name another file");
}

}  // namespace
}  // namespace tessera::test::indicator_verb_test
