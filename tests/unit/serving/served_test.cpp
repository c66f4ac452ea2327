#include "tessera/serving/served.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <sstream>

#include "lindley.h"
#include "tessera/core/csv.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"

namespace tessera::serving::served_test {
namespace {

constexpr Ticks kS = kTicksPerSecond;

std::string scratch(const char* name) {
  return (std::filesystem::temp_directory_path() / (std::string("tessera_served_") + name))
      .string();
}

/// One request of two tokens in two steps, and one that is never answered.
Log two_steps() {
  Log log;
  RequestRecord r;
  r.arrival = 0;
  r.first_scheduled = kS;
  r.first_token = 2 * kS;
  r.last_token = 4 * kS;
  r.output_tokens = 2;
  r.outcome = Outcome::finished;
  r.replica = 0;
  RequestRecord waiting;
  waiting.arrival = 3 * kS;
  log.requests = {r, waiting};
  log.replicas.resize(1);
  log.replicas[0].name = "one \"quoted\"";
  log.replicas[0].kv_blocks = 8;
  StepRecord first, second;
  first.start = kS;
  first.duration = kS;
  first.scheduled = {{0, 5}};
  first.free_blocks = 7;
  first.num_running = 1;
  second.step = 1;
  second.start = kS + kS / 2;  // a micro-batch that overlaps
  second.duration = 2 * kS + kS / 2;
  second.scheduled = {{0, 1}};
  second.limit = Limit::blocks;
  second.num_waiting = 1;
  log.steps = {first, second};
  log.steps_recorded = true;
  log.end = 4 * kS;
  return log;
}

TEST(ServedTrace, HasTheStepsAndThePhasesOfRequests) {
  const std::string path = scratch("trace.json");
  save_chrome_trace(two_steps(), path);
  const Json json = read_json_file(path);
  std::remove(path.c_str());
  std::vector<Json> steps;
  std::map<std::string, double> begins, ends;
  for (const Json& event : json["traceEvents"]) {
    const std::string phase = event["ph"];
    if (phase == "X") steps.push_back(event);
    if (event.contains("id") && event["id"] == 0) {
      (phase == "b" ? begins : ends)[event["name"]] = event["ts"];
    }
  }
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0]["args"]["tokens"], 5);
  EXPECT_EQ(steps[0]["dur"], 1e6);
  EXPECT_EQ(steps[0]["tid"], 0);
  EXPECT_EQ(steps[1]["tid"], 1);
  EXPECT_EQ(steps[1]["args"]["limit"], "blocks");
  EXPECT_EQ(begins, (std::map<std::string, double>{
                        {"request 0", 0}, {"queued", 0}, {"prefill", 1e6}, {"decode", 2e6}}));
  EXPECT_EQ(ends, (std::map<std::string, double>{
                      {"request 0", 4e6}, {"queued", 1e6}, {"prefill", 2e6}, {"decode", 4e6}}));
}

TEST(ServedTrace, BeyondWhatAViewerOpensIsRefused) {
  const std::string path = scratch("refused.json");
  EXPECT_THROW(save_chrome_trace(two_steps(), path, 21), Error);
  EXPECT_THROW(save_chrome_trace({}, path), Error);
  EXPECT_FALSE(std::filesystem::exists(path));
  save_chrome_trace(two_steps(), path, 22);
  std::remove(path.c_str());
}

TEST(RequestsCsv, LeavesAbsentTimesEmpty) {
  const std::string path = scratch("requests.csv");
  save_requests_csv(two_steps(), path);
  const CsvTable table = parse_csv(read_file(path), path);
  std::remove(path.c_str());
  ASSERT_EQ(table.rows.size(), 2u);
  const auto field = [&](std::size_t row, const char* column) {
    return table.rows[row].fields[table.column(column)];
  };
  EXPECT_EQ(field(0, "tpot_s"), "2");
  EXPECT_EQ(field(0, "queue_s"), "1");
  EXPECT_EQ(field(0, "outcome"), "finished");
  EXPECT_EQ(field(1, "arrival_s"), "3");
  EXPECT_EQ(field(1, "ttft_s"), "");
  EXPECT_EQ(field(1, "e2e_s"), "");
}

TEST(Series, HoldsStatesAndSpreadsTokens) {
  Log log;
  log.end = 4 * kS;
  log.samples = {{0, 0, 4, 8, 0}, {3 * kS, 2, 0, 0, 30}, {4 * kS, 0, 0, 0, 1}};
  const std::vector<SeriesRow> rows = series_of(log, 2);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_DOUBLE_EQ(rows[1].time_s, 2);
  EXPECT_DOUBLE_EQ(rows[0].running, 4);
  EXPECT_DOUBLE_EQ(rows[1].running, 2);  // 4 for one second of two
  EXPECT_DOUBLE_EQ(rows[1].waiting, 1);
  EXPECT_DOUBLE_EQ(rows[0].throughput_tok_s, 10);
  EXPECT_DOUBLE_EQ(rows[1].throughput_tok_s, 5.5);
  EXPECT_TRUE(series_of({}, 10).empty());
}

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
  return most;
}

TEST(Describe, SaysUnstableInsteadOfLatencies) {
  const std::string text = describe(summarise(queues::mm1(1.3, 5000, 1), {}));
  EXPECT_EQ(text.find("UNSTABLE     above "), 0u) << text;
  EXPECT_EQ(text.find("TTFT"), std::string::npos) << text;
  EXPECT_EQ(text.find("p99"), std::string::npos) << text;
  EXPECT_LE(widest(text), 100u) << text;
}

TEST(Describe, ShowsPercentilesWithTheirNumber) {
  Slo slo;
  slo.name = "interactive";
  slo.ttft_s.of_all = {{Statistic::p99, 30}};
  SummaryOptions options;
  options.slos = {slo};
  options.source = "step times modelled (exponential)";
  const std::string text = describe(summarise(queues::mm1(.8, 5000, 1), options));
  EXPECT_EQ(text.find("UNSTABLE"), std::string::npos) << text;
  EXPECT_NE(text.find("TTFT"), std::string::npos) << text;
  EXPECT_NE(text.find("  5000\n"), std::string::npos) << text;
  EXPECT_NE(text.find("ttft_s p99"), std::string::npos) << text;
  EXPECT_NE(text.find("modelled"), std::string::npos) << text;
  EXPECT_LE(widest(text), 100u) << text;
}

}  // namespace
}  // namespace tessera::serving::served_test
