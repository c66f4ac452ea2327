// The simulator against queueing theory. Where a step is a whole service, an engine is a textbook
// queue; where requests decode together, it is a processor that they share.
//
// Tolerances. Estimates are compared with what theory says at `kSigmas` standard errors, chosen
// before looking, so that a right simulator fails one comparison in 10^5. Standard errors come
// from one of two places:
//  - Cycles. A queue that empties starts anew with the next arrival, so the sums over busy cycles
//    (Y_i, N_i) are independent, and Y/N has the variance sum (Y_i - r N_i)^2 / (sum N_i)^2
//    (Crane and Iglehart, 1974). For the mean wait of M/M/1 theory has the variance itself,
//    rho (2 + 5 rho - 4 rho^2 + rho^3) / (1 - rho)^4 / n, which is checked too.
//  - Replications, where the system never empties: 20 runs with seeds of their own, Student's t.
// Each test also bounds its standard error, so that none passes for want of data.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tessera/core/rng.h"
#include "tessera/serving/simulate.h"
#include "tessera/serving/summary.h"

namespace tessera::serving::serving_theory_test {
namespace {

constexpr double kSigmas = 4.5;                   // normal: 7 in 10^6 beyond it, on both sides
constexpr double kSigmasOf20 = 5.9;               // Student's t with 19 degrees of freedom: 10^-5
constexpr std::uint64_t kSeed = 20261;            // of every test, in its name's own stream
constexpr std::int64_t kTokensPerUnit = 100'000;  // a service of 1 s, so that rounding is 1e-5

Replica replica_of(std::int64_t seats, LinearStepCost cost) {
  Replica replica;
  replica.name = "engine";
  replica.engine.max_num_seqs = seats;
  replica.engine.max_num_batched_tokens = 1'000'000'000;
  replica.engine.enable_prefix_caching = false;
  replica.kv_blocks = 1'000'000'000;
  replica.cost = std::make_shared<LinearStepCost>(cost);
  return replica;
}

LinearStepCost cost_of(double base_s, double per_token_s, double per_sequence_s) {
  LinearStepCost cost;
  cost.base = to_ticks(base_s, "base");
  cost.per_token = to_ticks(per_token_s, "token");
  cost.per_sequence = to_ticks(per_sequence_s, "sequence");
  return cost;
}

double exponential(Rng& rng, double mean) { return -mean * std::log(1 - rng.uniform()); }

/// Poisson arrivals of `rate` per second, with lengths by `lengths`.
Traffic poisson(std::uint64_t seed, double rate, std::int64_t count,
                const std::function<void(Rng&, Request&)>& lengths) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Rng rng(seed);
  Traffic traffic;
  double at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    Request r;
    at += exponential(rng, 1 / rate);
    r.arrival = to_ticks(at, "arrival");
    lengths(rng, r);
    traffic.requests.push_back(r);
  }
  return traffic;
}

/// Requests of one step that takes service(rng) seconds.
Traffic services(std::uint64_t seed, double rate, std::int64_t count,
                 const std::function<double(Rng&)>& service) {
  return poisson(seed, rate, count, [&](Rng& rng, Request& r) {
    r.prompt_tokens =
        std::max<std::int64_t>(1, std::llround(service(rng) * static_cast<double>(kTokensPerUnit)));
  });
}

/// `servers` engines of one seat, all fed from one queue.
Log queue(const Traffic& traffic, int servers) {
  Deployment deployment;
  deployment.replicas.assign(static_cast<std::size_t>(servers),
                             replica_of(1, cost_of(0, 1.0 / kTokensPerUnit, 0)));
  deployment.router.name = "shared_queue";
  return simulate(deployment, traffic);
}

struct Estimate {
  double mean = 0, standard_error = 0;
};

/// Mean over requests of value(record), its error from cycles.
Estimate by_cycles(const Log& log, const std::function<double(const RequestRecord&)>& value) {
  struct Cycle {
    double sum = 0, count = 0;
  };
  std::vector<Cycle> cycles;
  Ticks busy_until = -1;
  double sum = 0;
  for (const RequestRecord& r : log.requests) {
    if (r.arrival >= busy_until) cycles.emplace_back();
    busy_until = std::max(busy_until, r.last_token);
    cycles.back().sum += value(r);
    cycles.back().count += 1;
    sum += value(r);
  }
  const auto n = static_cast<double>(log.requests.size());
  const double mean = sum / n;
  double squares = 0;
  for (const Cycle& c : cycles) squares += std::pow(c.sum - mean * c.count, 2);
  EXPECT_GT(cycles.size(), 1000u);
  return {mean, std::sqrt(squares) / n};
}

double wait_s(const RequestRecord& r) { return to_seconds(r.first_scheduled - r.arrival); }
double sojourn_s(const RequestRecord& r) { return to_seconds(r.last_token - r.arrival); }

/// @param most_error of the estimate, as a share of `wanted`
void expect_near(const Estimate& e, double wanted, double most_error, const char* what) {
  std::printf("%s: %.5g +- %.2g, theory %.5g\n", what, e.mean, e.standard_error, wanted);
  EXPECT_NEAR(e.mean, wanted, kSigmas * e.standard_error + 2e-5 * wanted) << what;
  EXPECT_LT(e.standard_error, most_error * wanted) << what;
}

double unit_exponential(Rng& rng) { return exponential(rng, 1); }

TEST(Theory, MM1) {
  constexpr std::int64_t n = 400'000;
  for (const double rho : {0.5, 0.8}) {
    const Log log = queue(services(kSeed, rho, n, unit_exponential), 1);
    const Estimate wait = by_cycles(log, wait_s);
    expect_near(wait, rho / (1 - rho), 0.03, "mean wait");
    const double variance = rho * (2 + 5 * rho - 4 * rho * rho + rho * rho * rho) /
                            std::pow(1 - rho, 4) / static_cast<double>(n);
    // A sample variance of thousands of cycles, with heavy tails: half to twice what it estimates.
    EXPECT_GT(wait.standard_error, std::sqrt(variance) / 2);
    EXPECT_LT(wait.standard_error, std::sqrt(variance) * 2);
    // The sojourn is exponential: its p99 is ln 100 / (1 - rho), 23.03 at 0.8.
    const double p99 = std::log(100) / (1 - rho);
    expect_near(by_cycles(log, [&](const auto& r) { return sojourn_s(r) > p99 ? 1.0 : 0.0; }), 0.01,
                0.15, "share beyond the 99th percentile");
  }
}

TEST(Theory, MG1) {
  const double rho = 0.7;
  const auto wanted = [&](double second_moment) { return rho * second_moment / (2 * (1 - rho)); };
  const auto wait = [&](const std::function<double(Rng&)>& service) {
    return by_cycles(queue(services(kSeed + 1, rho, 300'000, service), 1), wait_s);
  };
  expect_near(wait([](Rng&) { return 1.0; }), wanted(1), 0.02, "M/D/1");
  // A tenth of the requests takes nineteen times as long as the others.
  const double shorter = 1 / 2.8, longer = 19 / 2.8;
  expect_near(wait([&](Rng& rng) { return rng.uniform() < 0.1 ? longer : shorter; }),
              wanted(0.9 * shorter * shorter + 0.1 * longer * longer), 0.05, "two lengths");
}

TEST(Theory, MMc) {
  for (const int c : {4, 8}) {
    const double load = 0.8 * c;
    double term = 1, sum = 0;  // load^k / k!
    for (int k = 0; k < c; ++k) {
      sum += term;
      term *= load / (k + 1);
    }
    const double last = term / (1 - 0.8), erlang_c = last / (sum + last);
    EXPECT_NEAR(erlang_c, c == 4 ? 0.59643 : 0.45764, 1e-5);
    // Eight servers are seldom all idle: a cycle in 800 requests.
    const Log log = queue(services(kSeed + 2, load, c * 150'000, unit_exponential), c);
    expect_near(by_cycles(log, wait_s), erlang_c / (c - load), 0.04, "mean wait");
    expect_near(by_cycles(log, [](const auto& r) { return wait_s(r) > 0 ? 1.0 : 0.0; }), erlang_c,
                0.02, "share that waits");
  }
}

/// Means over 20 runs of `count` requests of value(record, request), the first and last tenth of
/// each left out; requests that `value` gives NaN for do not count.
Estimate by_replications(const Replica& replica, double rate, std::int64_t count,
                         std::uint64_t seed, const std::function<void(Rng&, Request&)>& lengths,
                         const std::function<double(const RequestRecord&, const Request&)>& value) {
  std::vector<double> means;
  for (std::uint64_t run = 0; run < 20; ++run) {
    const Traffic traffic = poisson(seed + run, rate, count, lengths);
    Deployment deployment;
    deployment.replicas = {replica};
    const Log log = simulate(deployment, traffic);
    double sum = 0, n = 0;
    for (std::size_t i = log.requests.size() / 10; i < log.requests.size() * 9 / 10; ++i) {
      const double v = value(log.requests[i], traffic.requests[i]);
      if (std::isnan(v)) continue;
      sum += v;
      n += 1;
    }
    means.push_back(sum / n);
  }
  Estimate e;
  for (const double mean : means) e.mean += mean / 20;
  double squares = 0;
  for (const double mean : means) squares += std::pow(mean - e.mean, 2);
  e.standard_error = std::sqrt(squares / 19 / 20);
  return e;
}

double sojourn_of(const RequestRecord& r, const Request&) { return sojourn_s(r); }

/// Requests wait for the step under way, so a mean exceeds that of the shared processor by up to
/// `step_s`, the mean of steps as arrivals find them.
void expect_shared(const Estimate& e, double wanted, double step_s, const char* what) {
  std::printf("%s: %.5g +- %.2g, theory %.5g and up to a step of %.3g\n", what, e.mean,
              e.standard_error, wanted, step_s);
  EXPECT_GT(e.mean, wanted - kSigmasOf20 * e.standard_error) << what;
  EXPECT_LT(e.mean, wanted + step_s + kSigmasOf20 * e.standard_error) << what;
  EXPECT_LT(e.standard_error, 0.01 * wanted) << what;
}

// Steps of a + c B: pi(n) ~ (rate tokens)^n prod (a + c i) / i, whatever the lengths' distribution.
TEST(Theory, DecodesShareAProcessor) {
  const double a = 0.01, c = 0.0002, tokens = 100;
  const auto fixed = [](Rng&, Request& r) { r.output_tokens = 100; };
  const auto geometric = [](Rng& rng, Request& r) {
    r.output_tokens = 1 + static_cast<std::int64_t>(std::log(1 - rng.uniform()) / std::log(0.99));
  };
  for (const double rate : {5.0, 20.0}) {
    double weight = 1, sum = 1, requests = 0;
    for (int n = 1; n < 2000; ++n) {
      weight *= rate * tokens * (a + c * n) / n;
      sum += weight;
      requests += n * weight;
    }
    const double wanted = requests / sum / rate;
    EXPECT_NEAR(wanted, rate < 10 ? 1.133 : 1.700, 1e-3);
    const double step_s = a + c * rate * wanted;
    const Replica replica = replica_of(100'000, cost_of(a, 0, c));
    expect_shared(by_replications(replica, rate, 3000, kSeed + 100, fixed, sojourn_of), wanted,
                  step_s, "fixed lengths");
    expect_shared(by_replications(replica, rate, 3000, kSeed + 200, geometric, sojourn_of), wanted,
                  step_s, "geometric lengths");
  }
}

// No base: E[time given n tokens] = n c / (1 - rho).
TEST(Theory, MG1ProcessorSharing) {
  const double c = 0.001, rho = 0.6, rate = rho / (c * 125);
  const auto two_lengths = [](Rng& rng, Request& r) {
    r.output_tokens = rng.uniform() < 0.5 ? 50 : 200;
  };
  for (const std::int64_t tokens : {50, 200}) {
    const auto given = [&](const RequestRecord& r, const Request& request) {
      return request.output_tokens == tokens ? sojourn_s(r) : std::nan("");
    };
    const Estimate e = by_replications(replica_of(100'000, cost_of(0, 0, c)), rate, 20'000,
                                       kSeed + 300, two_lengths, given);
    // A request finds n others with (1 - rho) rho^n, so steps of c (1 + rho / (1 - rho)) on
    // average.
    expect_shared(e, static_cast<double>(tokens) * c / (1 - rho), c / (1 - rho),
                  "given the length");
  }
}

// Nothing but a base: n steps whatever the load, from the next boundary of steps on.
TEST(Theory, MGInfinity) {
  const Ticks a = to_ticks(0.01, "a");
  for (const double rate : {1.0, 50.0, 500.0}) {
    const Traffic traffic = poisson(kSeed + 400, rate, 5000, [](Rng& rng, Request& r) {
      r.output_tokens = rng.integer(1, 200);
    });
    Deployment deployment;
    deployment.replicas = {replica_of(100'000, cost_of(0.01, 0, 0))};
    const Log log = simulate(deployment, traffic);
    for (std::size_t i = 0; i < traffic.requests.size(); ++i) {
      const RequestRecord& r = log.requests[i];
      const Ticks steps = traffic.requests[i].output_tokens * a;
      ASSERT_EQ(r.last_token - r.first_scheduled, steps);
      ASSERT_GE(r.last_token - r.arrival, steps);
      ASSERT_LT(r.last_token - r.arrival, steps + a);
    }
  }
}

// From empty to empty the time integral of the requests in the system, as steps log it, is the sum
// of the requests' times: to the tick.
TEST(Theory, Little) {
  for (std::uint64_t seed = kSeed + 500; seed < kSeed + 510; ++seed) {
    const Traffic traffic = poisson(seed, 3, 300, [](Rng& rng, Request& r) {
      r.prompt_tokens = rng.integer(1, 400);
      r.output_tokens = rng.integer(1, 60);
    });
    Deployment deployment;
    deployment.replicas = {replica_of(7, cost_of(0.01, 1e-4, 1e-3))};
    deployment.replicas[0].engine.max_num_batched_tokens = 256;
    deployment.replicas[0].kv_blocks = 60;  // some are preempted
    SimulationOptions options;
    options.record_steps = true;
    const Log log = simulate(deployment, traffic, std::move(options));
    WideTicks in_system = 0, spent = 0;
    std::size_t arrived = 0;
    for (const StepRecord& step : log.steps) {
      in_system += static_cast<WideTicks>(step.duration) * (step.num_waiting + step.num_running);
      while (arrived < log.requests.size() && log.requests[arrived].arrival <= step.start)
        ++arrived;
      // Those that come during the step are in the system for the rest of it.
      for (std::size_t i = arrived; i < log.requests.size(); ++i) {
        if (log.requests[i].arrival >= step.start + step.duration) break;
        in_system += step.start + step.duration - log.requests[i].arrival;
      }
    }
    for (const RequestRecord& r : log.requests) spent += r.last_token - r.arrival;
    EXPECT_TRUE(in_system == spent) << "seed " << seed;
    EXPECT_GT(log.replicas[0].num_preemptions, 0);
  }
}

// Steps of c a token: a request of p prompt tokens, a share h of which is cached, and n output
// tokens takes c (n - 1 + (1 - h) p) of the engine, as its last token is never computed.
TEST(Theory, Capacity) {
  constexpr std::int64_t p = 320, shared = 192, n = 41, count = 4000;
  const double c = 1e-4;
  Deployment deployment;
  deployment.replicas = {replica_of(64, cost_of(0, c, 0))};
  deployment.replicas[0].engine.max_num_batched_tokens = 2048;
  deployment.replicas[0].engine.enable_prefix_caching = true;
  deployment.replicas[0].kv_blocks = 64 * 24;
  const auto lengths = [&](Rng&, Request& r) {
    r.prompt_tokens = p;
    r.output_tokens = n;
    r.prefix_group = 0;
    r.prefix_tokens = shared;
  };
  const double largest = 1 / (c * (n - 1 + p - shared));
  // All at once: the engine never waits, and only the first one computes what all share.
  Traffic traffic = poisson(kSeed + 600, 1e9, count, lengths);
  for (Request& r : traffic.requests) r.arrival = 0;
  const Log all = simulate(deployment, traffic);
  EXPECT_EQ(all.end, to_ticks(c, "c") * (count * (n - 1 + p - shared) + shared));
  EXPECT_EQ(all.replicas[0].num_preemptions, 0);
  // So the queue grows above that rate, and not below it.
  for (const double share : {0.9, 1.1}) {
    const Log log = simulate(deployment, poisson(kSeed + 601, share * largest, count, lengths));
    SummaryOptions options;
    options.prompt_tokens.assign(static_cast<std::size_t>(count), p);
    const Summary summary = summarise(log, options);
    EXPECT_EQ(summary.stable, share < 1) << share << ": " << summary.stability;
  }
}

}  // namespace
}  // namespace tessera::serving::serving_theory_test
