#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "expect_error.h"
#include "sampling.h"
#include "tessera/serving/traffic_options.h"

namespace tessera::serving::traffic_test {
namespace {

using test::expect_error;

constexpr std::int64_t kMany = 100'000;

TrafficOptions poisson(double rate_per_s, std::int64_t num_requests, std::int64_t seed = 1) {
  TrafficOptions options;
  options.rate_per_s = rate_per_s;
  options.num_requests = num_requests;
  options.seed = seed;
  return options;
}

Traffic make(const TrafficOptions& options) { return make_traffic(options, "ts.traffic"); }

std::vector<double> gaps_of(const Traffic& traffic) {
  std::vector<double> gaps;
  Ticks last = 0;
  for (const Request& r : traffic.requests) {
    gaps.push_back(to_seconds(r.arrival - last));
    last = r.arrival;
  }
  return gaps;
}

struct Moments {
  double mean = 0, cv = 0;
};

template <class Values>
Moments moments_of(const Values& values) {
  double sum = 0, squares = 0;
  for (const auto value : values) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const double n = static_cast<double>(values.size()), mean = sum / n;
  return {mean, std::sqrt(squares / n - mean * mean) / mean};
}

/// Five standard errors of a mean: one run in 1.7 million of a right generator is outside.
double bound_of_mean(double mean, double cv, double n) { return 5 * mean * cv / std::sqrt(n); }

/// Five standard errors of the sample CV of a gamma variable. By the delta method its variance is
/// cv^2 ((kurtosis - 1) / 4 - skew cv + cv^2) / n; here kurtosis = 3 + 6 cv^2 and skew = 2 cv.
double bound_of_gamma_cv(double cv, double n) {
  return 5 * cv * std::sqrt((0.5 + 0.5 * cv * cv) / n);
}

void expect_gaps(const TrafficOptions& options, double cv) {
  const Moments gaps = moments_of(gaps_of(make(options)));
  const double mean_s = 1 / *options.rate_per_s, n = static_cast<double>(*options.num_requests);
  EXPECT_NEAR(gaps.mean, mean_s, bound_of_mean(mean_s, cv, n));
  EXPECT_NEAR(gaps.cv, cv, bound_of_gamma_cv(cv, n));
}

TEST(Arrivals, PoissonGapsHaveTheirMeanAndCv) { expect_gaps(poisson(4, kMany), 1); }

TEST(Arrivals, GammaGapsHaveTheirMeanAndCvForAnyShape) {
  for (const double shape : {0.25, 0.5, 1.0, 4.0, 100.0}) {
    TrafficOptions options = poisson(10, kMany);
    options.burstiness = shape;
    SCOPED_TRACE(shape);
    expect_gaps(options, 1 / std::sqrt(shape));
  }
}

TEST(Arrivals, CvIsTheSameAsBurstiness) {
  TrafficOptions by_cv = poisson(10, 100), by_shape = poisson(10, 100);
  by_cv.cv = 2;
  by_shape.burstiness = 0.25;
  EXPECT_EQ(gaps_of(make(by_cv)), gaps_of(make(by_shape)));
}

TEST(Arrivals, ConstantGapsAreAlike) {
  TrafficOptions options = poisson(8, 100);
  options.arrivals = Arrivals::constant;
  for (const double gap_s : gaps_of(make(options))) EXPECT_DOUBLE_EQ(gap_s, 0.125);
}

TEST(Arrivals, ExactRatePutsTheLastOneWhereItBelongs) {
  TrafficOptions options = poisson(3, 1000);
  options.exact_rate = true;
  const Traffic traffic = make(options);
  EXPECT_NEAR(to_seconds(traffic.requests.back().arrival), 1000.0 / 3, 1e-9);
}

TEST(Arrivals, ADurationEndsThem) {
  TrafficOptions options = poisson(50, 1);
  options.num_requests.reset();
  options.duration_s = 200;
  const Traffic traffic = make(options);
  EXPECT_LT(traffic.requests.back().arrival, 200 * kTicksPerSecond);
  // Poisson with a mean of 10,000: five standard deviations.
  EXPECT_NEAR(static_cast<double>(traffic.requests.size()), 10'000, 500);
}

TEST(Arrivals, AnInfiniteRateIsAllAtOnceAndAClosedLoopHasNone) {
  const Traffic at_once = make(poisson(INFINITY, 10));
  EXPECT_EQ(at_once.requests.back().arrival, 0);
  EXPECT_FALSE(at_once.rate_per_s.has_value());
  TrafficOptions options = poisson(1, 10);
  options.rate_per_s.reset();
  options.arrivals = Arrivals::closed;
  options.concurrency = 4;
  EXPECT_EQ(make(options).concurrency, 4);
  EXPECT_EQ(make(options).description, "10 requests, closed loop of 4, 512 in, 128 out, seed 1");
}

TEST(Arrivals, AnotherRateDividesTheSameGaps) {
  const std::vector<double> slow = gaps_of(make(poisson(2, 1000))),
                            fast = gaps_of(make(poisson(5, 1000)));
  for (std::size_t i = 0; i < slow.size(); ++i) EXPECT_NEAR(slow[i] * 2, fast[i] * 5, 1e-11);
}

TEST(Arrivals, ScaledIsTheTrafficOfThatRate) {
  const Traffic direct = make(poisson(5, 1000)), again = scaled(make(poisson(2, 1000)), 5);
  ASSERT_EQ(again.rate_per_s, 5);
  for (std::size_t i = 0; i < 1000; ++i) {
    // A double holds these times to 2^-44 s or better; two roundings more than those of ticks.
    EXPECT_NEAR(static_cast<double>(again.requests[i].arrival),
                static_cast<double>(direct.requests[i].arrival), 2);
  }
  EXPECT_EQ(scaled(again, 7).description,
            "1000 requests, poisson 2 req/s, 512 in, 128 out, seed 1, rescaled to 7 req/s");
}

TEST(Arrivals, OtherLengthsLeaveThemAlone) {
  TrafficOptions other = poisson(4, 1000);
  other.prompt_tokens = LengthDistribution{LengthKind::lognormal, 700, 2, {}, {}};
  other.prefix_tokens = 100;
  other.classes = {{0.5, 0, 0}, {0.5, 1, 1}};
  EXPECT_EQ(gaps_of(make(poisson(4, 1000))), gaps_of(make(other)));
}

TEST(Arrivals, MoreRequestsBeginAsFewerDo) {
  const Traffic few = make(poisson(4, 10)), many = make(poisson(4, 1000));
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(few.requests[i].arrival, many.requests[i].arrival);
  }
}

TEST(Sampling, TheNormalQuantileInvertsTheDistribution) {
  // Wichura states 16 digits; p is as near as its rounding lets a quantile be.
  for (const double p : {1e-300, 1e-20, 1e-5, 0.01, 0.07, 0.3, 0.5, 0.8, 0.93, 0.999}) {
    const double z = inverse_normal(p);
    EXPECT_NEAR(0.5 * std::erfc(-z / std::sqrt(2.0)) / p, 1, 1e-12 * (1 + z * z)) << p;
  }
}

struct LengthCase {
  LengthDistribution lengths;
  double mean, cv;
};

/// Means are the ones asked for, whatever limits and rounding do; `cv` is an upper bound of the
/// true one, for the standard error.
TEST(Sampling, LengthsHaveTheirMean) {
  const LengthCase cases[] = {{fixed_length(7), 7, 0},
                              {{LengthKind::uniform, {}, {}, 3, 9}, 6, 0.34},
                              {{LengthKind::lognormal, 512, 1, {}, {}}, 512, 1},
                              {{LengthKind::lognormal, 3, 2, {}, {}}, 3, 2},
                              {{LengthKind::lognormal, 512, 2, 16, 2048}, 512, 2},
                              {{LengthKind::exponential, 1e6, {}, {}, {}}, 1e6, 1},
                              {{LengthKind::exponential, 1.5, {}, {}, {}}, 1.5, 1},
                              {{LengthKind::exponential, 300, {}, 100, 400}, 300, 0.5},
                              {{LengthKind::geometric, 20, {}, {}, {}}, 20, 1},
                              {{LengthKind::geometric, 1.2, {}, {}, {}}, 1.2, 0.5},
                              {{LengthKind::geometric, 30, {}, 10, 50}, 30, 0.6}};
  for (const LengthCase& each : cases) {
    const LengthSampler sampler(each.lengths);
    Rng rng(7);
    double sum = 0;
    for (std::int64_t i = 0; i < kMany; ++i) {
      const std::int64_t drawn = sampler.draw(rng);
      ASSERT_GE(drawn, each.lengths.min.value_or(1));
      ASSERT_LE(drawn, each.lengths.max.value_or(kMaxTokensPerRequest));
      sum += static_cast<double>(drawn);
    }
    EXPECT_NEAR(sum / kMany, each.mean, bound_of_mean(each.mean, each.cv, kMany))
        << name_of(each.lengths.distribution) << " " << each.mean;
  }
}

TEST(Sampling, LengthsHaveTheirCv) {
  const auto cv = [](const LengthDistribution& lengths) {
    const LengthSampler sampler(lengths);
    Rng rng(3);
    std::vector<std::int64_t> drawn;
    for (std::int64_t i = 0; i < kMany; ++i) drawn.push_back(sampler.draw(rng));
    return moments_of(drawn).cv;
  };
  EXPECT_NEAR(cv({LengthKind::exponential, 1e6, {}, {}, {}}), 1, bound_of_gamma_cv(1, kMany));
  // Geometric from 1 on: sqrt(1 - p), less spread than the exponential's.
  EXPECT_NEAR(cv({LengthKind::geometric, 5, {}, {}, {}}), std::sqrt(0.8),
              bound_of_gamma_cv(1, kMany));
  // By the same formula with a lognormal's skew of 1.625 and kurtosis of 8.035 at cv 0.5.
  EXPECT_NEAR(cv({LengthKind::lognormal, 1e6, 0.5, {}, {}}), 0.5, 5 * std::sqrt(0.299 / kMany));
}

TEST(Prefixes, HaveTheirShareAndPopularity) {
  TrafficOptions options = poisson(4, kMany);
  options.prefix_groups = 3;
  options.prefix_tokens = 1000;
  options.prefix_share = 0.6;
  options.prefix_zipf = 1;
  std::array<double, 3> counts{};
  double with = 0;
  for (const Request& r : make(options).requests) {
    if (r.prefix_group < 0) {
      EXPECT_EQ(r.prompt_tokens, 512);
      continue;
    }
    EXPECT_EQ(r.prefix_tokens, 1000);
    EXPECT_EQ(r.prompt_tokens, 1512);
    ++counts[static_cast<std::size_t>(r.prefix_group)];
    ++with;
  }
  // Binomial counts, five standard deviations. Shares of 1, 1/2, 1/3: 6/11, 3/11, 2/11.
  EXPECT_NEAR(with, 0.6 * kMany, 5 * std::sqrt(0.24 * kMany));
  for (int k = 0; k < 3; ++k) {
    const double share = 6.0 / 11 / (k + 1);
    EXPECT_NEAR(counts[static_cast<std::size_t>(k)], share * with,
                5 * std::sqrt(share * (1 - share) * with));
  }
}

TEST(Sessions, TurnsGoOnFromAllBefore) {
  TrafficOptions options = poisson(4, 1000);
  options.prompt_tokens = LengthDistribution{LengthKind::geometric, 50, {}, {}, {}};
  options.output_tokens = LengthDistribution{LengthKind::geometric, 30, {}, {}, {}};
  options.sessions = Sessions{{LengthKind::geometric, 5, {}, {}, {}}, 10, 200};
  const Traffic traffic = make(options);
  ASSERT_EQ(traffic.requests.size(), 1000u);
  Ticks start = 0;
  double think_s = 0, num_later = 0;
  for (std::size_t i = 0; i < traffic.requests.size(); ++i) {
    const Request& r = traffic.requests[i];
    EXPECT_EQ(r.prefix_tokens, 200);
    EXPECT_EQ(r.prefix_group, 0);
    if (r.after < 0) {
      EXPECT_GE(r.arrival, start);
      EXPECT_GT(r.prompt_tokens, 200);
      start = r.arrival;
      continue;
    }
    ASSERT_EQ(r.after, static_cast<std::int64_t>(i) - 1);
    const Request& before = traffic.requests[i - 1];
    EXPECT_EQ(r.stream, before.stream);
    EXPECT_GT(r.prompt_tokens, before.prompt_tokens + before.output_tokens);
    think_s += to_seconds(r.arrival);
    ++num_later;
  }
  EXPECT_NEAR(think_s / num_later, 10, bound_of_mean(10, 1, num_later));
  // Sessions start so often that requests come at the rate: about 200 sessions with gaps of 5/4 s.
  EXPECT_NEAR(to_seconds(start), 250, 5 * 250 * std::sqrt(2 / 200.0));
}

TEST(ParallelSampling, TheSamePromptComesSeveralTimes) {
  TrafficOptions options = poisson(4, 10);
  options.prompt_tokens = LengthDistribution{LengthKind::geometric, 50, {}, {}, {}};
  options.output_tokens = LengthDistribution{LengthKind::geometric, 50, {}, {}, {}};
  options.n = 4;
  const Traffic traffic = make(options);
  ASSERT_EQ(traffic.requests.size(), 10u);
  for (std::size_t i = 0; i < 10; ++i) {
    const Request &r = traffic.requests[i], &first = traffic.requests[i / 4 * 4];
    EXPECT_EQ(r.arrival, first.arrival);
    EXPECT_EQ(r.prompt_tokens, first.prompt_tokens);
    EXPECT_EQ(r.stream, static_cast<std::int64_t>(i / 4));
  }
  EXPECT_NE(traffic.requests[0].output_tokens, traffic.requests[1].output_tokens);
}

TEST(Classes, HaveTheirShares) {
  TrafficOptions options = poisson(4, kMany);
  options.classes = {{0.25, -1, 0}, {0.75, 5, 1}};
  double urgent = 0;
  for (const Request& r : make(options).requests) {
    EXPECT_EQ(r.priority, r.slo_class == 0 ? -1 : 5);
    urgent += r.slo_class == 0 ? 1 : 0;
  }
  EXPECT_NEAR(urgent, 0.25 * kMany, 5 * std::sqrt(0.1875 * kMany));
}

TEST(MaxTokens, EndsOutputsAndSaysSo) {
  TrafficOptions options = poisson(4, 100);
  options.output_tokens = LengthDistribution{LengthKind::uniform, {}, {}, 1, 100};
  options.max_tokens = 50;
  const Traffic traffic = make(options);
  for (const Request& r : traffic.requests) {
    EXPECT_EQ(r.max_tokens, 50);
    EXPECT_LE(r.output_tokens, 50);
  }
  ASSERT_EQ(traffic.notes.size(), 1u);
  EXPECT_THAT(traffic.notes[0], testing::HasSubstr("max_tokens = 50 ends"));
}

TEST(TrafficRefusals, SayWhatToDo) {
  const auto refused = [](ErrorCode code, const std::vector<std::string>& parts,
                          const std::function<void(TrafficOptions&)>& change) {
    TrafficOptions options = poisson(4, 10);
    change(options);
    expect_error(code, parts, [&] { make(options); });
  };
  constexpr auto invalid = ErrorCode::invalid_argument, range = ErrorCode::out_of_range;
  refused(invalid, {"ts.traffic.rate_per_s: missing", "math.huge", "closed"},
          [](auto& o) { o.rate_per_s.reset(); });
  refused(range, {"ts.traffic.rate_per_s: 0", "math.huge"}, [](auto& o) { o.rate_per_s = 0; });
  refused(range, {"ts.traffic.rate_per_s: nan"}, [](auto& o) { o.rate_per_s = NAN; });
  refused(range, {"rate_per_s", "at most 9e+06 s"}, [](auto& o) { o.rate_per_s = 1e-9; });
  refused(range, {"ts.traffic.duration_s: more than 10000000 requests"}, [](auto& o) {
    o.num_requests.reset();
    o.rate_per_s = 1e9;
    o.duration_s = 1;
  });
  refused(invalid, {"ts.traffic.cv", "give one"}, [](auto& o) { o.cv = o.burstiness = 1; });
  refused(invalid, {"ts.traffic.burstiness", "take \"gamma\""}, [](auto& o) {
    o.arrivals = Arrivals::poisson;
    o.burstiness = 2;
  });
  refused(invalid, {"burstiness: missing"}, [](auto& o) { o.arrivals = Arrivals::gamma; });
  refused(invalid, {"concurrency: missing"}, [](auto& o) { o.arrivals = Arrivals::closed; });
  refused(invalid, {"ts.traffic.rate_per_s", "closed loop"}, [](auto& o) {
    o.arrivals = Arrivals::closed;
    o.concurrency = 4;
  });
  refused(invalid, {"ts.traffic.concurrency", "hide"}, [](auto& o) { o.concurrency = 4; });
  refused(invalid, {"ts.traffic.duration_s", "give one"}, [](auto& o) { o.duration_s = 4; });
  refused(invalid, {"the shares sum to 0.5"}, [](auto& o) { o.classes = {{0.5, 0, 0}}; });
  refused(invalid, {"ts.traffic.prefix_share", "needs prefix_tokens"},
          [](auto& o) { o.prefix_share = 1; });
  refused(invalid, {"ts.traffic.thin", "needs a trace"}, [](auto& o) { o.thin = 0.5; });
  refused(range, {"ts.traffic.prompt_tokens: mean: 5 is not between the least (8)"}, [](auto& o) {
    o.prompt_tokens = LengthDistribution{LengthKind::geometric, 5, {}, 8, 10};
  });
  refused(invalid, {"ts.traffic.prompt_tokens: cv", "lognormal"}, [](auto& o) {
    o.prompt_tokens = LengthDistribution{LengthKind::fixed, 5, 1, {}, {}};
  });
  refused(range, {"ts.traffic.sessions", "100000000"}, [](auto& o) {
    o.prompt_tokens = fixed_length(kMaxTokensPerRequest / 2);
    o.sessions = Sessions{};
  });
  expect_error(invalid, {"closed loop"}, [] {
    Traffic closed;
    closed.concurrency = 1;
    scaled(closed, 2);
  });
  expect_error(invalid, {"all come at once"}, [] { scaled(make(poisson(INFINITY, 3)), 2); });
  expect_error(range, {"a finite number above 0"}, [] { scaled(make(poisson(1, 3)), 0); });
}

TEST(TrafficSummary, SaysWhatCame) {
  const TrafficSummary summary = summary_of(make(poisson(4, kMany)));
  EXPECT_EQ(summary.num_requests, kMany);
  EXPECT_EQ(summary.mean_prompt_tokens, 512);
  EXPECT_EQ(summary.mean_output_tokens, 128);
  EXPECT_NEAR(*summary.cv, 1, bound_of_gamma_cv(1, kMany));
}

}  // namespace
}  // namespace tessera::serving::traffic_test
