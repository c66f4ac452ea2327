#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "expect_error.h"
#include "folder.h"
#include "tessera/serving/traffic_options.h"
#include "trace_reader.h"

namespace tessera::serving::trace_test {
namespace {

using test::expect_error;

class Trace : public test::FolderTest {
 protected:
  Traffic replayed(const std::string& content, TrafficOptions options = {}) const {
    options.trace = file("trace.csv", content);
    return make_traffic(options, "ts.traffic");
  }
  void refused(const std::string& content, const std::vector<std::string>& parts,
               TrafficOptions options = {}) const {
    SCOPED_TRACE(content);
    expect_error(ErrorCode::invalid_argument, parts, [&] { replayed(content, options); });
  }
};

const std::string kSmall =
    "arrival_s,prompt_tokens,output_tokens\n0.5,10,2\n1,20,3\n2.5,30,4\n4.5,40,5\n";

Ticks seconds(double value) { return to_ticks(value, "test"); }

TEST_F(Trace, OurColumns) {
  const Traffic traffic = replayed(
      "arrival_s,prompt_tokens,output_tokens,prefix_group,prefix_tokens,priority,max_tokens,"
      "session,slo_class\n"
      "0.000000000001,100,5,3,64,-1,9,7,1\n"
      "1.5,200,6,,,,,,\n"
      "8999999.999999999999,300,7,-1,0,0,0,-1,0\n");
  ASSERT_EQ(traffic.requests.size(), 3u);
  const Request& r = traffic.requests[0];
  EXPECT_EQ(r.arrival, 1);
  EXPECT_EQ(r.prompt_tokens, 100);
  EXPECT_EQ(r.output_tokens, 5);
  EXPECT_EQ(r.prefix_group, 3);
  EXPECT_EQ(r.prefix_tokens, 64);
  EXPECT_EQ(r.priority, -1);
  EXPECT_EQ(r.max_tokens, 9);
  EXPECT_EQ(r.stream, 7);
  EXPECT_EQ(r.slo_class, 1);
  EXPECT_EQ(traffic.requests[1].prefix_group, -1);
  EXPECT_EQ(traffic.requests[1].stream, -1);
  EXPECT_EQ(traffic.requests[1].max_tokens, 0);
  EXPECT_EQ(traffic.requests[2].arrival, 8'999'999'999'999'999'999);
}

TEST_F(Trace, ColumnsOfAzure) {
  const Traffic traffic = replayed(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
      "2023-11-16 18:15:50.9951690,396,109\n2023-11-17 00:00:00,1,1\n");
  ASSERT_EQ(traffic.requests.size(), 3u);
  EXPECT_EQ(traffic.requests[0].arrival, 0);
  EXPECT_EQ(traffic.requests[1].arrival, 4'314'579'000'000);
  EXPECT_EQ(traffic.requests[2].arrival, 20'653'319'410'000'000);
  EXPECT_EQ(traffic.requests[1].output_tokens, 109);
  EXPECT_EQ(traffic.description, "3 requests of trace.csv, 9.68367e-05 req/s");
}

TEST_F(Trace, ColumnsOfMooncake) {
  const Traffic traffic = replayed(
      "timestamp_ms,input_tokens,output_tokens,block_ids\n0,1025,500,0 1 2\n27.5,600,4,0 7\n");
  EXPECT_EQ(traffic.requests[1].arrival, seconds(0.0275));
  EXPECT_EQ(traffic.block_ids, (std::vector<std::int64_t>{0, 1, 2, 0, 7}));
  EXPECT_EQ(traffic.block_id_tokens, 512);
  EXPECT_EQ(traffic.requests[1].first_block_id, 3);
  EXPECT_EQ(traffic.requests[1].num_block_ids, 2);
}

TEST_F(Trace, ColumnsOfVidurAndThoseThatNothingIsKnownOf) {
  const Traffic traffic = replayed(
      "arrived_at,num_prefill_tokens,num_decode_tokens,pd_ratio\n10.25,7,8,0.9\n11,9,10,0.9\n");
  EXPECT_EQ(traffic.requests[0].arrival, 0);
  EXPECT_EQ(traffic.requests[1].arrival, seconds(0.75));
  EXPECT_THAT(traffic.notes, testing::ElementsAre(testing::HasSubstr("pd_ratio")));
}

TEST_F(Trace, WhatIsWrongIsNamedWithItsLine) {
  const std::string head = "arrival_s,prompt_tokens,output_tokens\n";
  refused(head + "1,5,5\n0.5,5,5\n", {"trace.csv, line 3", "0.5", "sort = true"});
  refused(head + "-1,5,5\n", {"line 2", "arrival_s", "-1"});
  refused(head + "nan,5,5\n", {"line 2", "arrival_s", "nan"});
  refused(head + "inf,5,5\n", {"line 2", "arrival_s"});
  refused(head + "1e7,5,5\n", {"line 2", "arrival_s", "9e+06"});
  refused(head + "0,0,5\n", {"line 2", "prompt_tokens", "integer in [1, 100000000]"});
  refused(head + "0,1000000000,5\n", {"line 2", "1000000000"});
  refused(head + "0,5,0\n", {"line 2", "output_tokens"});
  refused(head + "0,5.5,1\n", {"line 2", "5.5"});
  refused(head + "0,5\n", {"line 2", "2 fields"});
  refused(head, {"no requests in it"});
  refused("", {"header row expected"});
  const std::string prefix = "arrival_s,prompt_tokens,output_tokens,prefix_group,prefix_tokens\n";
  refused(prefix + "0,5,5,1,6\n", {"line 2", "prefix_tokens (6) is above prompt_tokens (5)"});
  refused(prefix + "0,5,5,-1,3\n", {"line 2", "without a prefix_group"});
  refused(prefix + "0,5,5,-2,0\n", {"line 2", "prefix_group"});
  refused("arrival_s,prompt_tokens,output_tokens,prefix_group\n0,1,1,1\n", {"without the other"});
  refused("arrival_s,prompt_tokens,output_tokens,max_tokens\n0,5,5,4\n", {"line 2", "above max"});
  refused("arrival_s,prompt_tokens,output_tokens,after\n0,5,5,0\n", {"line 2", "after"});
  refused("timestamp_ms,input_tokens,output_tokens,block_ids\n0,512,1,0 1\n",
          {"line 2", "2 block_ids of 512 tokens for a prompt of 512"});
  refused("timestamp_ms,input_tokens,output_tokens,block_ids\n0,512,1,x\n", {"line 2", "'x'"});
  refused("timestamp,input_tokens,output_tokens\nyesterday,5,5\n", {"line 2", "yesterday"});
  refused("timestamp,input_tokens,output_tokens\n2023-13-01 00:00:00,5,5\n", {"line 2"});
  refused("prompt_tokens,output_tokens\n5,5\n", {"no column of arrivals", "lengths ="});
  refused("arrival_s,prompts\n5,5\n", {"no columns of prompt and output", "prompts"});
}

TEST_F(Trace, SortPutsItInOrder) {
  TrafficOptions options;
  options.sort = true;
  const Traffic traffic =
      replayed("arrival_s,prompt_tokens,output_tokens\n2,1,1\n1,2,2\n1,3,3\n", options);
  EXPECT_EQ(traffic.requests[0].prompt_tokens, 2);
  EXPECT_EQ(traffic.requests[1].prompt_tokens, 3);
  EXPECT_EQ(traffic.requests[2].prompt_tokens, 1);
}

TEST_F(Trace, AWindowStartsAtZero) {
  TrafficOptions options;
  options.start_s = 1;
  options.duration_s = 3.5;
  const Traffic traffic = replayed(kSmall, options);
  ASSERT_EQ(traffic.requests.size(), 2u);
  EXPECT_EQ(traffic.requests[0].arrival, 0);
  EXPECT_EQ(traffic.requests[1].arrival, seconds(1.5));
  options.start_s = 50;
  refused(kSmall, {"ts.traffic.start_s", "the last one does at 4.5 s"}, options);
}

TEST_F(Trace, ItsRateIsMeasuredAndChangedByDividingGaps) {
  EXPECT_DOUBLE_EQ(*replayed(kSmall).rate_per_s, 0.75);
  TrafficOptions options;
  options.rate_scale = 2;
  const Traffic traffic = replayed(kSmall, options);
  EXPECT_EQ(traffic.requests[3].arrival, seconds(2.25));
  EXPECT_DOUBLE_EQ(*traffic.rate_per_s, 1.5);
  EXPECT_THAT(traffic.notes, testing::ElementsAre(testing::HasSubstr("CV stays")));
  EXPECT_EQ(traffic.description, "4 requests of trace.csv, rescaled to 1.5 req/s");
  options.rate_scale.reset();
  options.rate_per_s = 3;
  EXPECT_EQ(replayed(kSmall, options).requests[3].arrival, seconds(1.125));
  options.num_requests = 1;
  refused(kSmall, {"ts.traffic.rate_per_s", "no rate"}, options);
}

TEST_F(Trace, ThinningKeepsSessionsWhole) {
  std::string content = "arrival_s,prompt_tokens,output_tokens,session\n";
  for (int i = 0; i < 2000; ++i) content += fmt::format("{},5,5,{}\n", i, i % 500);
  TrafficOptions options;
  options.thin = 0.3;
  const Traffic traffic = replayed(content, options);
  std::map<std::int64_t, int> turns;
  for (const Request& r : traffic.requests) ++turns[r.stream];
  for (const auto& [session, count] : turns) EXPECT_EQ(count, 4) << session;
  // Binomial(500, 0.3), five standard deviations.
  EXPECT_NEAR(static_cast<double>(turns.size()), 150, 5 * std::sqrt(500 * 0.21));
  EXPECT_THAT(traffic.notes, testing::ElementsAre(testing::HasSubstr("each whole")));
}

TEST_F(Trace, ThinningByRequestSaysWhatItDoesToPrefixes) {
  TrafficOptions options;
  options.thin = 0.5;
  std::string content = "timestamp_ms,input_tokens,output_tokens,block_ids\n";
  for (int i = 0; i < 1000; ++i) content += fmt::format("{},1024,5,{} {}\n", i, i, i + 1);
  const Traffic traffic = replayed(content, options);
  EXPECT_NEAR(static_cast<double>(traffic.requests.size()), 500, 5 * std::sqrt(250.0));
  EXPECT_EQ(traffic.block_ids.size(), 2 * traffic.requests.size());
  for (const Request& r : traffic.requests) {
    EXPECT_EQ(
        traffic.block_ids[static_cast<std::size_t>(r.first_block_id)] * kTicksPerSecond / 1000,
        r.arrival);
  }
  EXPECT_THAT(traffic.notes, testing::ElementsAre(testing::HasSubstr("found again less often")));
}

TEST_F(Trace, WhatItSaysCannotBeSaidAgain) {
  TrafficOptions options;
  options.prompt_tokens = fixed_length(5);
  refused(kSmall, {"ts.traffic.prompt_tokens", "beside trace"}, options);
  options = {};
  options.burstiness = 2;
  refused(kSmall, {"ts.traffic.burstiness", "beside trace"}, options);
  options = {};
  options.rate_per_s = INFINITY;
  refused(kSmall, {"ts.traffic.rate_per_s", "all at once"}, options);
}

TEST_F(Trace, AClosedLoopTakesItsLengths) {
  TrafficOptions options;
  options.arrivals = Arrivals::closed;
  options.concurrency = 2;
  const Traffic traffic = replayed(kSmall, options);
  EXPECT_EQ(traffic.concurrency, 2);
  EXPECT_EQ(traffic.requests[3].arrival, 0);
  EXPECT_EQ(traffic.requests[3].prompt_tokens, 40);
  EXPECT_EQ(traffic.description, "4 requests of trace.csv, closed loop of 2");
}

const std::string kRates =
    "category,t_s,rate_per_s,active_clients\nchat,0,10,1\nchat,100,30,1\nother,0,5,1\n"
    "other,100,5,1\n";

TEST_F(Trace, RatesOverTimeAreFollowed) {
  TrafficOptions options;
  options.category = "chat";
  options.seed = 3;
  const Traffic traffic = replayed(kRates, options);
  const auto half =
      static_cast<double>(std::count_if(traffic.requests.begin(), traffic.requests.end(),
                                        [](const Request& r) { return r.arrival < seconds(100); }));
  // Poisson counts with means of 1000 and 3000, five standard deviations.
  EXPECT_NEAR(half, 1000, 5 * std::sqrt(1000.0));
  EXPECT_NEAR(static_cast<double>(traffic.requests.size()) - half, 3000, 5 * std::sqrt(3000.0));
  EXPECT_DOUBLE_EQ(*traffic.rate_per_s, 20);
  options.start_s = 90;
  options.duration_s = 20;
  options.arrivals = Arrivals::constant;
  options.rate_per_s = 40;
  const Traffic window = replayed(kRates, options);
  // 200 and 600 requests at twice the rates; one of them may fall on the end.
  EXPECT_NEAR(static_cast<double>(window.requests.size()), 800, 1);
  EXPECT_NEAR(to_seconds(window.requests[199].arrival), 10, 1e-6);
}

TEST_F(Trace, RatesWantACategoryThatIsThere) {
  TrafficOptions options;
  refused(kRates, {"ts.traffic.category", "chat"}, options);
  options.category = "chta";
  refused(kRates, {"ts.traffic.category", "did you mean 'chat'"}, options);
  options.category = "chat";
  refused("category,t_s,rate_per_s\nchat,5,1\nchat,5,1\n", {"line 3", "not after"}, options);
  refused("category,t_s,rate_per_s\nchat,5,-1\nchat,6,1\n", {"line 2", "rate_per_s"}, options);
  refused("category,t_s,rate_per_s\nchat,5,0\nchat,6,0\n", {"no request in"}, options);
  options.thin = 0.5;
  refused(kRates, {"ts.traffic.thin", "rates over time"}, options);
}

TEST_F(Trace, LengthsOfAFile) {
  TrafficOptions options;
  options.rate_per_s = 1;
  options.num_requests = 5;
  options.lengths = file("lengths.csv", "prompt_tokens,output_tokens\n10,1\n20,2\n30,3\n");
  options.in_order = true;
  const Traffic in_order = make_traffic(options, "ts.traffic");
  EXPECT_EQ(in_order.requests[1].prompt_tokens, 20);
  EXPECT_EQ(in_order.requests[4].output_tokens, 2);
  EXPECT_THAT(in_order.notes, testing::ElementsAre(testing::HasSubstr("more than once")));
  options.num_requests.reset();
  EXPECT_EQ(make_traffic(options, "ts.traffic").requests.size(), 3u);
  options.in_order = false;
  options.num_requests = 10'000;
  std::map<std::int64_t, double> counts;
  for (const Request& r : make_traffic(options, "ts.traffic").requests) {
    EXPECT_EQ(r.prompt_tokens, 10 * r.output_tokens);
    ++counts[r.output_tokens];
  }
  for (const auto& [length, count] : counts) {
    EXPECT_NEAR(count, 10'000 / 3.0, 5 * std::sqrt(10'000 * 2 / 9.0)) << length;
  }
}

TEST(ExactTicks, AreExactOrNothing) {
  EXPECT_EQ(exact_ticks("0", 12), 0);
  EXPECT_EQ(exact_ticks("1.5", 12), 1'500'000'000'000);
  EXPECT_EQ(exact_ticks("27", 9), 27'000'000'000);
  EXPECT_EQ(exact_ticks("0.0000000000010", 12), 1);
  for (const char* text : {"", ".", ".5", "-1", "1e3", "1.2.3", "0.0000000000001", "9000001",
                           "99999999999999999999", " 1", "1 "}) {
    EXPECT_EQ(exact_ticks(text, 12), std::nullopt) << text;
  }
}

/// Share of prompt blocks that an unbounded cache has seen, up to the first new one of a prompt.
double ideal_hit_ratio(const Traffic& traffic) {
  std::set<std::int64_t> seen;
  double hits = 0;
  for (const Request& r : traffic.requests) {
    const auto begin = traffic.block_ids.begin() + r.first_block_id, end = begin + r.num_block_ids;
    const auto is_new = [&](std::int64_t id) { return seen.find(id) == seen.end(); };
    hits += static_cast<double>(std::find_if(begin, end, is_new) - begin);
    seen.insert(begin, end);
  }
  return hits / static_cast<double>(traffic.block_ids.size());
}

/// Counts are the lines of the files; means and hit ratios are what their collector states of them.
TEST(MeasuredTraces, AreRead) {
  const std::string folder = std::string(TESSERA_SOURCE_DIR) + "/../shared/measured/workloads/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no measured workloads beside the tree";
  EXPECT_EQ(read_trace(folder + "azure_2023_conv.csv").requests.size(), 19'366u);
  EXPECT_EQ(read_trace(folder + "azure_2023_code.csv").requests.size(), 8'819u);
  const Traffic conversation = read_trace(folder + "mooncake_conversation.csv"),
                synthetic = read_trace(folder + "mooncake_synthetic.csv");
  const TrafficSummary summary = summary_of(conversation);
  EXPECT_EQ(summary.num_requests, 12'031);
  EXPECT_NEAR(summary.mean_prompt_tokens, 12'035, 0.5);
  EXPECT_NEAR(summary.mean_output_tokens, 343, 0.5);
  EXPECT_NEAR(ideal_hit_ratio(conversation), 0.366, 0.0005);
  EXPECT_NEAR(ideal_hit_ratio(synthetic), 0.640, 0.0005);
}

TEST(MeasuredTraces, RatesOverTimeAreFollowed) {
  const std::string rates =
      std::string(TESSERA_SOURCE_DIR) + "/../shared/measured/workloads/servegen_rates.csv";
  if (!std::filesystem::exists(rates)) GTEST_SKIP() << "no measured workloads beside the tree";
  TrafficOptions options;
  options.trace = rates;
  options.category = "deepseek-r1";
  options.duration_s = 1200;
  // The first two rows: 14.86333 and 18.40333 requests/s for 600 s each; five standard deviations.
  EXPECT_NEAR(static_cast<double>(make_traffic(options, "ts.traffic").requests.size()),
              600 * (14.86333 + 18.40333), 5 * std::sqrt(600 * (14.86333 + 18.40333)));
}

}  // namespace
}  // namespace tessera::serving::trace_test
