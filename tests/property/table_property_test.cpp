#include <gtest/gtest.h>

#include <cmath>

#include "devices.h"
#include "tessera/core/json.h"
#include "tessera/core/rng.h"
#include "tessera/cost/op.h"

namespace tessera::cost::table_property_test {
namespace {

const FitMethod& table() { return find_fit_method(Op::gemm, "table"); }

double log_uniform(Rng& rng, double low, double high) {
  return std::exp2(std::log2(low) + rng.uniform() * std::log2(high / low));
}

OpQuery gemm(double m, double n, double k) {
  OpQuery query;
  query.dtype = "float16";
  query.m = m, query.n = n, query.k = k;
  return query;
}

/// A kernel that launches, and whose products and transfers overlap only in part.
double truth(const OpQuery& q) {
  const OpWork work = work_of(test::v100(), q);
  return 4e-6 + work.compute_s() / 0.7 + work.memory_s() / 0.8;
}

Sample sample(const OpQuery& query, double latency_s) { return {query, latency_s, "", "", ""}; }

std::vector<Sample> gridded(double noise, Rng& rng) {
  std::vector<Sample> samples;
  for (double m = 1; m <= 4096; m *= 4) {
    for (double n = 1024; n <= 16384; n *= 2) {
      for (double k = 1024; k <= 16384; k *= 2) {
        const OpQuery q = gemm(m, n, k);
        samples.push_back(sample(q, truth(q) * std::exp(noise * (rng.uniform() - 0.5))));
      }
    }
  }
  return samples;
}

std::vector<Sample> scattered(int count, Rng& rng) {
  std::vector<Sample> samples;
  for (int i = 0; i < count; ++i) {
    const OpQuery q =
        gemm(std::round(log_uniform(rng, 1, 4096)), std::round(log_uniform(rng, 1024, 16384)),
             std::round(log_uniform(rng, 1024, 16384)));
    samples.push_back(sample(q, truth(q)));
  }
  return samples;
}

void expect_monotone(const OpModel& model, Rng& rng) {
  for (int i = 0; i < 2000; ++i) {
    const OpQuery a = gemm(log_uniform(rng, 0.5, 65536), log_uniform(rng, 64, 131072),
                           log_uniform(rng, 64, 131072));
    OpQuery b = a;
    double* const sizes[] = {&b.m, &b.n, &b.k};
    *sizes[rng.integer(0, 2)] *= 1 + 3 * rng.uniform();
    const double before = model.seconds(a), after = model.seconds(b);
    ASSERT_TRUE(std::isfinite(before) && before > 0);
    ASSERT_GE(after, before * (1 - 1e-9)) << describe(a) << " then " << describe(b);
  }
}

TEST(Table, KeepsThePointsOfAGrid) {
  Rng rng(1);
  const auto samples = gridded(0, rng);
  const auto model = table().fit(test::v100(), samples, nullptr);
  for (const Sample& s : samples) {
    EXPECT_NEAR(model->seconds(s.query) / s.latency_s, 1, 1e-6) << describe(s.query);
  }
}

TEST(Table, InterpolatesBetweenPoints) {
  Rng rng(2);
  const auto on_grid = table().fit(test::v100(), gridded(0, rng), nullptr);
  const auto in_heap = table().fit(test::v100(), scattered(600, rng), nullptr);
  double grid_error = 0, heap_error = 0;
  const auto unseen = scattered(300, rng);
  for (const Sample& s : unseen) {
    grid_error += std::abs(on_grid->seconds(s.query) / s.latency_s - 1) / 300;
    heap_error += std::abs(in_heap->seconds(s.query) / s.latency_s - 1) / 300;
  }
  EXPECT_LT(grid_error, 0.10);
  EXPECT_LT(heap_error, 0.12);
}

TEST(Table, NeverFallsWhenWorkGrows) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    const auto samples = seed % 2 == 0 ? gridded(0.5, rng) : scattered(150, rng);
    expect_monotone(*table().fit(test::v100(), samples, nullptr), rng);
    if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

TEST(Table, HoldsUtilisationBeyondThePoints) {
  Rng rng(3);
  const auto model = table().fit(test::v100(), gridded(0, rng), nullptr);
  const OpQuery last = gemm(4096, 16384, 16384), far = gemm(16384, 16384, 16384);
  const double floors =
      work_of(test::v100(), far).floor_s() / work_of(test::v100(), last).floor_s();
  EXPECT_NEAR(model->seconds(far) / model->seconds(last), floors, 1e-6);
}

TEST(Table, TakesAnySubsetOfAxes) {
  std::vector<Sample> samples;
  for (double m : {1.0, 16.0, 256.0}) samples.push_back(sample(gemm(m, 4096, 4096), 1e-5 * m));
  const auto model = table().fit(test::v100(), samples, nullptr);
  EXPECT_NEAR(model->seconds(gemm(4, 4096, 4096)), 4e-5, 1e-9);
  EXPECT_GT(model->seconds(gemm(4, 8192, 4096)), model->seconds(gemm(4, 4096, 4096)));
  const auto one = table().fit(test::v100(), {samples[0]}, nullptr);
  EXPECT_NEAR(one->seconds(samples[0].query), 1e-5, 1e-12);
  EXPECT_GE(one->seconds(gemm(64, 4096, 4096)), 1e-5);
}

TEST(Table, ReadsBack) {
  Rng rng(4);
  for (const auto& samples : {gridded(0.3, rng), scattered(50, rng)}) {
    const auto model = table().fit(test::v100(), samples, nullptr);
    const auto again = table().read(test::v100(), model->coefficients(), "part");
    EXPECT_EQ(model->coefficients(), again->coefficients());
    for (const Sample& s : scattered(50, rng)) {
      EXPECT_DOUBLE_EQ(model->seconds(s.query), again->seconds(s.query));
    }
  }
}

TEST(Table, IsScaledFromADonor) {
  Rng rng(5);
  const auto donor = table().fit(test::v100(), gridded(0, rng), nullptr);
  std::vector<Sample> few = scattered(5, rng);
  for (Sample& s : few) s.latency_s = 3 * donor->seconds(s.query);
  const auto model = table().fit(test::t4(), few, donor.get());
  const OpQuery query = gemm(100, 5000, 6000);
  EXPECT_NEAR(model->seconds(query), 3 * donor->seconds(query), 1e-9);
}

}  // namespace
}  // namespace tessera::cost::table_property_test
