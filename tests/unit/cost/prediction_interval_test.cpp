#include "tessera/cost/prediction_interval.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "folder.h"
#include "tessera/core/error.h"

namespace tessera::cost::prediction_interval_test {
namespace {

using test::expect_error;

const RunClass kRun{"vllm", "vllm", true, 16};

class PredictionIntervalTest : public test::FolderTest {
 protected:
  /// Folders with a file of these intervals.
  DataFolders with(const std::string& name, const std::string& intervals) {
    std::filesystem::create_directories(path(name) + "/intervals");
    file(name + "/intervals/served.json", R"({"intervals":[)" + intervals + "]}");
    return DataFolders({path(name)});
  }

  static std::string interval(const std::string& metric, const std::string& of, double low,
                              double high) {
    return R"({"metric":")" + metric + R"(","name":"x","of":)" + of + R"(,"low_ratio":)" +
           std::to_string(low) + R"(,"high_ratio":)" + std::to_string(high) +
           R"(,"num_groups":5,"num_runs":9,"held_ratio":0.8})";
  }
};

TEST_F(PredictionIntervalTest, TakesTheFirstThatARunIsOf) {
  const DataFolders folders =
      with("a", interval("tpot", R"({"kernel_set":"vllm_v0"})", 0.1, 9) + "," +
                    interval("tpot", R"({"kernel_set":"vllm","measured_chip":false})", 0.2, 8) +
                    "," + interval("tpot", R"({"runtime":"vllm","bitwidth":4})", 0.3, 7) + "," +
                    interval("tpot", R"({"runtime":"vllm","bitwidth":16})", 0.4, 6) + "," +
                    interval("tpot", "{}", 0.5, 5) + "," + interval("ttft", "{}", 0.6, 4));
  const auto found = intervals_of(kRun, folders);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(find_interval(found, ServedMetric::tpot)->low_ratio, 0.4);
  EXPECT_EQ(find_interval(found, ServedMetric::ttft)->high_ratio, 4);
  EXPECT_EQ(find_interval(found, ServedMetric::request_rate), nullptr);
  const auto other = intervals_of({"", "", false, 8}, folders);
  EXPECT_EQ(find_interval(other, ServedMetric::tpot)->low_ratio, 0.5);
}

TEST_F(PredictionIntervalTest, KnowsNothingWithoutAFileAndRefusesABrokenOne) {
  EXPECT_TRUE(intervals_of(kRun, DataFolders({path("none")})).empty());
  const DataFolders turned = with("b", interval("tpot", "{}", 2, 1));
  expect_error(ErrorCode::out_of_range, {"intervals[0]", "low_ratio", "2 is above high_ratio, 1"},
               [&] { intervals_of(kRun, turned); });
  const DataFolders unknown = with("c", interval("speed", "{}", 1, 2));
  expect_error(ErrorCode::invalid_argument, {"intervals[0]", "metric"},
               [&] { intervals_of(kRun, unknown); });
}

// What ships says something of every run, and nothing that cannot be: an interval that held far
// fewer or more than four of five would not be one.
TEST_F(PredictionIntervalTest, OfWhatShipsAreOrdered) {
  const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  for (const char* set : {"vllm", "vllm_fp8", "vllm_v0", "modern", "llama_cpp"}) {
    for (const bool measured : {false, true}) {
      for (const std::int32_t bitwidth : {4, 8, 16}) {
        const std::string runtime = std::string(set).starts_with("vllm") ? "vllm" : "";
        const auto found = intervals_of({set, runtime, measured, bitwidth}, folders);
        ASSERT_EQ(found.size(), 3u) << set;
        for (const PredictionInterval& each : found) {
          EXPECT_GE(each.held_ratio, 0.75) << each.name;
          EXPECT_LE(each.held_ratio, 0.95) << each.name;
          EXPECT_GT(each.low_ratio, 0.2) << each.name;
          EXPECT_LT(each.high_ratio, 6) << each.name;
          EXPECT_GE(each.num_groups, 5) << each.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::cost::prediction_interval_test
