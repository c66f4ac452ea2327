// Golden plans: tests/golden/*.json against what the program computes now.
//   golden_test --update [CASE...]    computes the files anew; look at the diff before you keep it

#include <fmt/format.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "case_name.h"
#include "process.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = std::string(TESSERA_SOURCE_DIR) + "/tests/golden";

// A solver proves its optimum to 1e-7, and many plans tie, so of what it finds only the objective
// is kept. Of a plan that is given, every number is, with room for other orders of summation only.
constexpr double kSolvedTolerance = 1e-6;
constexpr double kPricedTolerance = 1e-9;

Json run(const std::vector<std::string>& arguments) {
  std::vector<std::string> command{TESSERA_PROGRAM, "--json", kFolder + "/run.lua"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  test::ProcessSetup setup;
  setup.timeout_s = 280;
  const test::Process process = test::run_process(command, setup);
  if (process.status != 0) {
    throw std::runtime_error(fmt::format("run.lua {} ended with {}:\n{}", join(arguments, " "),
                                         process.status, process.err));
  }
  return parse_json(process.out, "run.lua");
}

std::vector<std::string> golden_files() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The decisions of a plan, as the Lua table that planner "manual" takes.
std::string by_hand(const Json& plan) {
  std::string stages;
  for (const Json& stage : plan["stages"]) {
    std::string bits;
    for (const Json& bit : stage["bitwidths"]) bits += bit.dump() + ",";
    const std::string device =
        stage["device"].get<std::string>() + "@" + stage["node"].get<std::string>();
    stages += fmt::format("{{ device = '{}', bitwidths = {{ {} }} }}, ", device, bits);
  }
  return fmt::format(
      "{{ stages = {{ {} }}, prefill_micro_batch_size = {}, decode_micro_batch_size = {} }}",
      stages, plan["prefill_micro_batch_size"].dump(), plan["decode_micro_batch_size"].dump());
}

Json without(Json object, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) object.erase(key);
  return object;
}

/// What a file keeps: the solver's answer in short, and every number of its plan priced by hand.
Json compute(const std::string& name, const Json* kept) {
  const bool has_plan = kept != nullptr && !(*kept)["plan"].is_null();
  Json now = has_plan ? run({name, (*kept)["plan"].get<std::string>()}) : run({name});
  Json solved;
  for (const char* key : {"status", "objective", "code", "constraint"}) {
    if (now["solved"].contains(key)) solved[key] = now["solved"][key];
  }
  Json result{{"solved", solved}, {"plan", nullptr}, {"priced", nullptr}};
  const Json& found = now["solved"];  // of several pipelines there is nothing to price by hand
  if (kept == nullptr && found.contains("stages") && !found["stages"].empty()) {
    result["plan"] = by_hand(now["solved"]);
    now = run({name, result["plan"].get<std::string>()});
  } else if (has_plan) {
    result["plan"] = (*kept)["plan"];
  }
  if (now.contains("priced") && !now["priced"].is_null()) {
    result["priced"] = without(now["priced"], {"planner", "solve_s", "bound", "gap", "notes"});
  }
  return result;
}

/// One line per field that differs, with both values.
void compare(const Json& kept, const Json& now, double tolerance, const std::string& path) {
  if (kept.is_object() && now.is_object()) {
    for (const auto& [key, value] : kept.items()) {
      const std::string field = path + "." + key;
      if (now.contains(key)) {
        compare(value, now[key], tolerance, field);
      } else {
        ADD_FAILURE() << field << ": golden " << value.dump() << ", now absent";
      }
    }
    for (const auto& [key, value] : now.items()) {
      if (!kept.contains(key)) {
        ADD_FAILURE() << path << "." << key << ": golden absent, now " << value.dump();
      }
    }
  } else if (kept.is_array() && now.is_array() && kept.size() == now.size()) {
    for (std::size_t i = 0; i < kept.size(); ++i) {
      compare(kept[i], now[i], tolerance, fmt::format("{}[{}]", path, i));
    }
  } else if (kept.is_number() && now.is_number()) {
    const double a = kept.get<double>(), b = now.get<double>();
    const double relative = std::fabs(a - b) / std::max({std::fabs(a), std::fabs(b), 1e-300});
    if (relative <= tolerance) return;
    ADD_FAILURE() << path << ": golden " << kept.dump() << ", now " << now.dump() << ", relative "
                  << fmt::format("{:.3g} > {:.0e}", relative, tolerance);
  } else if (kept != now) {
    ADD_FAILURE() << path << ": golden " << kept.dump() << ", now " << now.dump();
  }
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, HoldsNow) {
  const Json kept = read_json_file(kFolder + "/" + GetParam() + ".json");
  const Json now = compute(GetParam(), &kept);
  compare(kept.at("solved"), now.at("solved"), kSolvedTolerance, GetParam() + ".solved");
  compare(kept.at("priced"), now.at("priced"), kPricedTolerance, GetParam() + ".priced");
}

INSTANTIATE_TEST_SUITE_P(Plans, Golden, testing::ValuesIn(golden_files()), test::case_name);

TEST(GoldenFiles, OnePerCase) {
  EXPECT_EQ(run({}).get<std::vector<std::string>>(), golden_files());
}

// A comparison that cannot fail is worthless.
TEST(GoldenFiles, ComparisonSeesWhatChanged) {
  const Json kept{{"a", 1.0}, {"b", {{{"c", 2.0}}, "x"}}};
  compare(kept, kept, 1e-9, "same");
  Json other = kept;
  other["b"][0]["c"] = 2.001;
  EXPECT_NONFATAL_FAILURE(compare(kept, other, 1e-6, "it"), "it.b[0].c: golden 2.0, now 2.001");
  other = kept;
  other["b"][1] = "y";
  EXPECT_NONFATAL_FAILURE(compare(kept, other, 1e-6, "it"), "it.b[1]: golden \"x\", now \"y\"");
  other = kept;
  other.erase("a");
  EXPECT_NONFATAL_FAILURE(compare(kept, other, 1e-6, "it"), "it.a: golden 1.0, now absent");
  EXPECT_NONFATAL_FAILURE(compare(other, kept, 1e-6, "it"), "it.a: golden absent, now 1.0");
}

int update(const std::vector<std::string>& chosen) {
  const auto known = run({}).get<std::vector<std::string>>();
  for (const std::string& name : chosen.empty() ? known : chosen) {
    write_file(kFolder + "/" + name + ".json", compute(name, nullptr).dump(1) + "\n");
    fmt::print("wrote tests/golden/{}.json\n", name);
  }
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1 && std::string(argv[1]) == "--update") {
    return tessera::update(std::vector<std::string>(argv + 2, argv + argc));
  }
  return RUN_ALL_TESTS();
}
