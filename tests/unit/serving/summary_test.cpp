#include "tessera/serving/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lindley.h"
#include "tessera/core/error.h"

namespace tessera::serving::summary_test {
namespace {

constexpr Ticks kS = kTicksPerSecond;

RequestRecord request(double arrival_s, double start_s, double first_s, double last_s,
                      std::int64_t tokens) {
  RequestRecord r;
  r.arrival = to_ticks(arrival_s, "");
  r.first_scheduled = to_ticks(start_s, "");
  r.first_token = to_ticks(first_s, "");
  r.last_token = to_ticks(last_s, "");
  r.output_tokens = tokens;
  r.outcome = Outcome::finished;
  return r;
}

/// Three answers and a rejection on one replica, by hand.
Log small_log() {
  Log log;
  log.requests = {request(0, 0, 1, 5, 5), request(1, 2, 3, 3, 1), request(2, 2.5, 4, 10, 4)};
  log.requests[1].waited[static_cast<std::size_t>(Limit::seats)] = kS;
  log.requests[2].waited[static_cast<std::size_t>(Limit::blocks)] = kS / 2;
  RequestRecord rejected;
  rejected.arrival = 3 * kS;
  rejected.outcome = Outcome::rejected;
  log.requests.push_back(rejected);
  log.gaps = {{kS, 0, 4, 1}, {2 * kS, 0, 3, 1}};
  log.end = 10 * kS;
  ReplicaRecord replica;
  replica.name = "a";
  replica.busy = 8 * kS;
  replica.kv_blocks = 10;
  replica.most_blocks_used = 9;
  replica.block_ticks = 40e12;
  replica.slot_ticks = 300;
  replica.reserved_slot_ticks = 400;
  replica.refused_ticks = 2;
  replica.unusable_slot_ticks = 80;
  replica.prefix_queries = 200;
  replica.prefix_hits = 50;
  replica.num_preemptions = 3;
  replica.drafted_tokens = 40;
  replica.accepted_tokens = 30;
  replica.num_drafts = 10;
  replica.stage_busy = {8 * kS, 4 * kS};
  replica.usd_per_h = 3.6;
  replica.idle_w = 100;
  replica.busy_w = 600;
  log.replicas = {replica};
  return log;
}

TEST(Summary, FiguresOfASmallRun) {
  SummaryOptions options;
  options.prompt_tokens = {10, 20, 30, 1000};
  const Summary s = summarise(small_log(), options);
  EXPECT_EQ(s.num_requests, 4);
  EXPECT_EQ(s.num_finished, 3);
  EXPECT_EQ(s.num_rejected, 1);
  EXPECT_DOUBLE_EQ(*s.ttft_s.mean, 5 / 3.);  // 1, 2, 2
  EXPECT_DOUBLE_EQ(*s.tpot_s.mean, 1.5);     // 4/4, 6/3; a single token has none
  EXPECT_EQ(s.tpot_s.n, 2);
  EXPECT_DOUBLE_EQ(*s.e2e_s.mean, 5);  // 5, 2, 8
  EXPECT_DOUBLE_EQ(*s.queue_s.max, 1);
  EXPECT_DOUBLE_EQ(*s.itl_s.mean, 10 / 7.);
  EXPECT_DOUBLE_EQ(s.duration_s, 10);
  EXPECT_DOUBLE_EQ(s.throughput_tok_s, 1);
  EXPECT_DOUBLE_EQ(*s.total_tok_s, 7);  // the rejected prompt counts in nothing
  EXPECT_DOUBLE_EQ(s.request_per_s, .3);
  // Requests 0, 1 and 2 from 2 s on; the second leaves at 3, as the last is rejected.
  EXPECT_EQ(s.peak_concurrency, 3);
  EXPECT_DOUBLE_EQ(s.waited_s.seats, 1 / 3.);
  EXPECT_DOUBLE_EQ(s.waited_ratio.blocks, 1 / 3.);
  EXPECT_FALSE(s.attainment_ratio);
  EXPECT_TRUE(s.stable);
}

TEST(Summary, FiguresOfReplicas) {
  SummaryOptions options;
  options.block_size = 16;
  options.prompt_tokens = {10, 20, 30, 1000};
  const Summary s = summarise(small_log(), options);
  EXPECT_DOUBLE_EQ(s.utilisation_ratio, .8);
  EXPECT_EQ(s.replicas.at(0).stage_utilisation_ratios, (std::vector<double>{.8, .4}));
  EXPECT_DOUBLE_EQ(*s.kv_usage_ratio, .4);  // 40 block seconds of 10 * 10
  EXPECT_DOUBLE_EQ(*s.kv_peak_usage_ratio, .9);
  EXPECT_DOUBLE_EQ(*s.internal_fragmentation_ratio, .25);
  EXPECT_DOUBLE_EQ(*s.external_fragmentation_ratio, .25);  // 80 of 2 * 160
  EXPECT_DOUBLE_EQ(*s.prefix_hit_ratio, .25);
  EXPECT_EQ(s.preemptions, 3);
  EXPECT_DOUBLE_EQ(*s.acceptance_ratio, .75);
  EXPECT_DOUBLE_EQ(*s.accepted_length, 4);
  EXPECT_DOUBLE_EQ(*s.usd_per_million_tokens, 1000);  // $.001 a second, a token a second
  EXPECT_DOUBLE_EQ(*s.usd_per_million_total_tokens, 1000 / 7.);
  EXPECT_DOUBLE_EQ(*s.mean_power_w, 500);  // .8 * 600 + .2 * 100
  EXPECT_DOUBLE_EQ(*s.joule_per_token, 500);
  EXPECT_DOUBLE_EQ(*s.kwh_per_million_tokens, 500 / 3.6);
}

TEST(Summary, WithoutPricesThereIsNoMoney) {
  Log log = small_log();
  log.replicas.push_back(log.replicas[0]);
  log.replicas[1].usd_per_h = log.replicas[1].busy_w = 0;
  const Summary s = summarise(log, {});
  EXPECT_FALSE(s.usd_per_million_tokens);
  EXPECT_FALSE(s.joule_per_token);
  EXPECT_FALSE(s.total_tok_s);
}

TEST(Summary, GoodputHoldsEveryLimitInclusively) {
  Slo slo;
  slo.ttft_s.each = 2;
  slo.tpot_s.each = 1.5;
  SummaryOptions options;
  options.slos = {slo};
  const Summary s = summarise(small_log(), options);
  // 0: 1 and 1 s; 1: 2 s and a single token, which counts as 0; 2: TPOT 2 s; 3: rejected
  EXPECT_DOUBLE_EQ(*s.attainment_ratio, .5);
  EXPECT_DOUBLE_EQ(*s.goodput_request_per_s, .2);
  EXPECT_LT(*s.attainment_low, .5);
  EXPECT_FALSE(s.attains_slo);  // nothing was asked of the whole
}

TEST(Summary, PercentilesOfAnSloCountTheUnanswered) {
  Slo slo;
  slo.ttft_s.of_all = {{Statistic::p50, 2}, {Statistic::p99, 100}};
  SummaryOptions options;
  options.slos = {slo};
  Log log = small_log();
  const Summary s = summarise(log, options);
  ASSERT_EQ(s.targets.size(), 2u);
  EXPECT_EQ(*s.targets[0].value_s, 2);  // of 1, 2, 2, infinity
  EXPECT_TRUE(s.targets[0].holds);
  EXPECT_FALSE(s.targets[1].value_s);
  EXPECT_FALSE(*s.attains_slo);
  log.requests.pop_back();
  EXPECT_TRUE(*summarise(log, options).attains_slo);
}

TEST(Summary, ClassesHaveLimitsOfTheirOwn) {
  Slo fast, slow;
  fast.name = "fast";
  fast.e2e_s.each = 5;
  slow.name = "slow";
  slow.e2e_s.each = 8;
  slow.e2e_s.of_all = {{Statistic::mean, 7}};
  SummaryOptions options;
  options.slos = {fast, slow};
  options.slo_classes = {0, 0, 1, 0};
  const Summary s = summarise(small_log(), options);
  EXPECT_DOUBLE_EQ(*s.attainment_ratio, .75);
  ASSERT_EQ(s.targets.size(), 1u);
  EXPECT_EQ(s.targets[0].slo_class, "slow");
  EXPECT_DOUBLE_EQ(*s.targets[0].value_s, 8);
  EXPECT_FALSE(s.targets[0].holds);
  options.slo_classes = {0, 0, 2, 0};
  EXPECT_THROW(summarise(small_log(), options), Error);
  options.slo_classes = {0};
  EXPECT_THROW(summarise(small_log(), options), Error);
}

TEST(Summary, BadLimitsAreRefused) {
  SummaryOptions options;
  options.slos.resize(1);
  options.slos[0].itl_s.each = .1;
  EXPECT_THROW(summarise(small_log(), options), Error);
  options.slos[0] = {};
  options.slos[0].ttft_s.each = std::nan("");
  EXPECT_THROW(summarise(small_log(), options), Error);
  options.slos[0].ttft_s.each = std::numeric_limits<double>::infinity();  // is no limit
  EXPECT_DOUBLE_EQ(*summarise(small_log(), options).attainment_ratio, .75);
  options.warm_up_s = -1;
  EXPECT_THROW(summarise(small_log(), options), Error);
}

TEST(Summary, WarmUpAndCoolDownAreLeftOut) {
  SummaryOptions options;
  options.warm_up_requests = 1;
  options.cool_down_requests = 1;
  Summary s = summarise(small_log(), options);
  EXPECT_EQ(s.num_requests, 2);
  EXPECT_EQ(s.num_left_out, 2);
  EXPECT_DOUBLE_EQ(s.duration_s, 9);
  options = {};
  options.warm_up_s = 2;
  options.cool_down_s = 1;
  s = summarise(small_log(), options);
  EXPECT_EQ(s.num_requests, 1);
  EXPECT_DOUBLE_EQ(*s.e2e_s.mean, 8);
  options.warm_up_s = 1e6;
  EXPECT_EQ(summarise(small_log(), options).num_requests, 0);
}

TEST(Summary, PeaksAreOfWholeSeconds) {
  // Tokens at 0.5 s, then ten more evenly until 2.5 s: 1 + 2.5, 5, 2.5.
  Log log;
  log.requests = {request(0, 0, .5, 2.5, 11)};
  EXPECT_NEAR(summarise(log, {}).peak_tok_s, 5, 1e-9);
  // Half-open: who leaves as another comes is not under way with it.
  log.requests = {request(0, 0, 1, 1, 1), request(1, 1, 2, 2, 1)};
  EXPECT_EQ(summarise(log, {}).peak_concurrency, 1);
}

TEST(Summary, NothingServedHasNoLatencies) {
  Log log;
  Summary s = summarise(log, {});
  EXPECT_EQ(s.ttft_s.n, 0);
  EXPECT_EQ(s.request_per_s, 0);
  log.requests.resize(3);  // never sent
  s = summarise(log, {});
  EXPECT_EQ(s.num_unsent, 3);
  EXPECT_EQ(s.num_requests, 0);
}

TEST(Summary, MeansOfMM1AreThoseOfTheory) {
  // rho .5, 200,000 requests from empty: mean wait 1; the variance of its mean is 29 / n
  // (design/serving.md, section 5), so that four standard deviations are .048.
  const Summary s = summarise(queues::mm1(.5, 200000, 11), {});
  EXPECT_NEAR(*s.queue_s.mean, 1, .048);
  EXPECT_NEAR((*s.queue_s.mean_high - *s.queue_s.mean) / 2.093, std::sqrt(29. / 200000),
              .65 * std::sqrt(29. / 200000));  // four standard deviations of sqrt(chi2(19) / 19)
}

}  // namespace
}  // namespace tessera::serving::summary_test
