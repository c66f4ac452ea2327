#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference_simulator.h"
#include "tessera/core/rng.h"
#include "tessera/serving/batch_run.h"

namespace tessera::serving::serving_batch_property_test {
namespace {

using test::TickPipeline;
using test::TickRequest;
using test::TickResult;
using test::TickSimulator;

constexpr double kTick = 1.0 / 1024;  // sums of ticks are exact in doubles
constexpr std::int64_t kRows = 64;

// Times vary with track, phase, size and index through a table; entries of 0 are common.
std::int64_t table_ticks(const TickPipeline& p, std::size_t track, bool decode, std::int64_t size,
                         std::int64_t index) {
  const auto row = static_cast<std::size_t>((size * 7 + index * 3) % kRows);
  return p.table[(2 * track + (decode ? 1 : 0)) * static_cast<std::size_t>(kRows) + row];
}

TickPipeline random_pipeline(Rng& rng) {
  TickPipeline p;
  p.num_stages = static_cast<std::size_t>(rng.integer(1, 5));
  p.batch_size = rng.integer(1, 12);
  p.prefill_size = rng.integer(1, p.batch_size);
  p.decode_size = rng.integer(1, p.batch_size);
  p.num_chunks = rng.integer(1, 4);
  p.output_tokens = rng.integer(1, 9);
  p.return_ticks = rng.integer(0, 1) * rng.integer(0, 5);
  p.ticks = table_ticks;
  const std::size_t num_tracks = 2 * p.num_stages - 1;
  for (std::size_t track = 0; track < num_tracks; ++track) {
    const bool empty = rng.integer(0, 4) == 0;
    for (int phase = 0; phase < 2; ++phase) {
      // Few distinct times make many ties.
      const std::int64_t base = empty ? 0 : rng.integer(1, 6);
      const std::int64_t spread = empty ? 0 : rng.integer(0, 3);
      for (std::int64_t i = 0; i < kRows; ++i) p.table.push_back(base + rng.integer(0, spread));
    }
  }
  return p;
}

BatchPipeline in_seconds(const TickPipeline& p) {
  BatchPipeline result;
  result.stage_names.resize(p.num_stages);
  result.batch_size = p.batch_size;
  result.prefill_micro_batch_size = p.prefill_size;
  result.decode_micro_batch_size = p.decode_size;
  result.num_chunks = p.num_chunks;
  result.output_tokens = p.output_tokens;
  for (const TickRequest& request : p.requests) {
    result.requests.push_back(
        {kTick * static_cast<double>(request.arrival), request.num_chunks, request.output_tokens});
  }
  const auto seconds = [&p](std::size_t offset) {
    return [&p, offset](std::size_t stage, BatchPhase phase, const MicroBatch& batch,
                        std::int64_t index) {
      return kTick * static_cast<double>(p.ticks(p, 2 * stage + offset, phase == BatchPhase::decode,
                                                 batch.size, index));
    };
  };
  result.stage_s = seconds(0);
  result.link_s = seconds(1);
  result.return_s = [&p](std::int64_t) { return kTick * static_cast<double>(p.return_ticks); };
  return result;
}

double mean(const std::vector<std::int64_t>& ticks) {
  return kTick * static_cast<double>(std::accumulate(ticks.begin(), ticks.end(), std::int64_t{0})) /
         static_cast<double>(ticks.size());
}

void expect_same(const TickPipeline& p) {
  const auto run = simulate_batch(in_seconds(p), true);
  const TickResult expected = TickSimulator(p).run();
  EXPECT_NEAR(run.total_s, kTick * static_cast<double>(expected.total), 1e-9);
  EXPECT_NEAR(run.prefill_s, kTick * static_cast<double>(expected.prefill), 1e-9);
  EXPECT_NEAR(run.ttft_s, mean(expected.ttft), 1e-9);
  if (p.output_tokens > 1) {
    const double rounds = static_cast<double>(p.output_tokens - 1);
    EXPECT_NEAR(run.tpot_s, (mean(expected.e2e) - mean(expected.ttft)) / rounds, 1e-9);
  }
  ASSERT_EQ(run.stages.size(), p.num_stages);
  for (std::size_t s = 0; s < p.num_stages; ++s) {
    EXPECT_NEAR(run.stages[s].busy_s, kTick * static_cast<double>(expected.busy[2 * s]), 1e-9);
  }
}

TEST(SimProperty, AgreesWithTheTickByTickReference) {
  const std::uint64_t first_seed = 20240;
  for (std::uint64_t seed = first_seed; seed < first_seed + 1000; ++seed) {
    Rng rng(seed);
    expect_same(random_pipeline(rng));
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(SimProperty, AgreesWithTheReferenceWhereRequestsDiffer) {
  const std::uint64_t first_seed = 30240;
  for (std::uint64_t seed = first_seed; seed < first_seed + 1000; ++seed) {
    Rng rng(seed);
    TickPipeline p = random_pipeline(rng);
    for (std::int64_t r = 0; r < p.batch_size; ++r) {
      p.requests.push_back(
          {rng.integer(0, 1) * rng.integer(0, 30), rng.integer(1, 4), rng.integer(1, 9)});
    }
    const auto run = simulate_batch(in_seconds(p), true);
    const TickResult expected = TickSimulator(p).run();
    ASSERT_EQ(run.requests.size(), p.requests.size());
    double ttft = 0, tokens = 0;
    for (std::size_t r = 0; r < p.requests.size(); ++r) {
      ASSERT_NEAR(run.requests[r].first_token_s, kTick * static_cast<double>(expected.ttft[r]),
                  1e-9)
          << "seed " << seed;
      ASSERT_NEAR(run.requests[r].last_token_s, kTick * static_cast<double>(expected.e2e[r]), 1e-9)
          << "seed " << seed;
      ttft += kTick * static_cast<double>(expected.ttft[r] - p.requests[r].arrival);
      tokens += static_cast<double>(p.requests[r].output_tokens);
    }
    ASSERT_NEAR(run.ttft_s, ttft / static_cast<double>(p.batch_size), 1e-9) << "seed " << seed;
    ASSERT_NEAR(run.total_s, kTick * static_cast<double>(expected.total), 1e-9) << "seed " << seed;
    if (run.total_s == 0) tokens = 0;  // free everywhere, so there is no rate
    ASSERT_NEAR(run.throughput_tok_s * run.total_s, tokens, 1e-6) << "seed " << seed;
    for (std::size_t s = 0; s < p.num_stages; ++s) {
      ASSERT_NEAR(run.stages[s].busy_s, kTick * static_cast<double>(expected.busy[2 * s]), 1e-9);
    }
  }
}

TEST(SimProperty, RequestsThatAreAlikeAreTheBatchWithoutThem) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    TickPipeline p = random_pipeline(rng);
    const auto plain = simulate_batch(in_seconds(p), false);
    p.requests.assign(static_cast<std::size_t>(p.batch_size), {0, p.num_chunks, p.output_tokens});
    const auto listed = simulate_batch(in_seconds(p), false);
    EXPECT_DOUBLE_EQ(plain.total_s, listed.total_s) << "seed " << seed;
    EXPECT_NEAR(plain.ttft_s, listed.ttft_s, 1e-12) << "seed " << seed;
    EXPECT_NEAR(plain.tpot_s, listed.tpot_s, 1e-12) << "seed " << seed;
    EXPECT_DOUBLE_EQ(plain.decode_round_s, listed.decode_round_s) << "seed " << seed;
    EXPECT_NEAR(plain.throughput_tok_s, listed.throughput_tok_s, 1e-9) << "seed " << seed;
  }
}

TEST(SimProperty, SpansOfATrackDoNotOverlapAndFillItsBusyTime) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    const TickPipeline p = random_pipeline(rng);
    const auto run = simulate_batch(in_seconds(p), true);
    std::vector<double> end(2 * p.num_stages, 0), busy(2 * p.num_stages, 0);
    double before = 0;
    for (const BatchSpan& span : run.spans) {
      ASSERT_GE(span.start_s, before) << "seed " << seed;
      ASSERT_GE(span.start_s, end[span.track] - 1e-12) << "seed " << seed;
      ASSERT_GT(span.duration_s, 0) << "seed " << seed;
      before = span.start_s;
      end[span.track] = span.start_s + span.duration_s;
      busy[span.track] += span.duration_s;
    }
    for (std::size_t s = 0; s < p.num_stages; ++s) {
      ASSERT_NEAR(busy[2 * s], run.stages[s].busy_s, 1e-9) << "seed " << seed;
    }
  }
}

// Random stage and link times that do not change with the index.
struct Uniform {
  std::vector<double> prefill, decode, prefill_link, decode_link;

  explicit Uniform(Rng& rng, std::size_t num_stages) {
    for (std::size_t s = 0; s < num_stages; ++s) {
      prefill.push_back(0.5 + rng.uniform());
      decode.push_back(0.01 + 0.02 * rng.uniform());
      prefill_link.push_back(s + 1 < num_stages ? 0.01 * rng.uniform() : 0);
      decode_link.push_back(s + 1 < num_stages ? 0.0001 * rng.uniform() : 0);
    }
  }

  BatchPipeline pipeline() const {
    BatchPipeline p;
    p.stage_names.resize(prefill.size());
    p.stage_s = [this](std::size_t s, BatchPhase phase, const MicroBatch&, std::int64_t) {
      return phase == BatchPhase::prefill ? prefill[s] : decode[s];
    };
    p.link_s = [this](std::size_t s, BatchPhase phase, const MicroBatch&, std::int64_t) {
      return phase == BatchPhase::prefill ? prefill_link[s] : decode_link[s];
    };
    p.return_s = [](std::int64_t) { return 0.0; };
    return p;
  }
};

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

double largest(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

RC_GTEST_PROP(SimProperty, NeverBeatsTheCriticalPath, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  const auto num_stages = static_cast<std::size_t>(rng.integer(1, 8));
  const Uniform times(rng, num_stages);
  BatchPipeline p = times.pipeline();
  p.batch_size = rng.integer(1, 40);
  p.prefill_micro_batch_size = rng.integer(1, p.batch_size);
  p.decode_micro_batch_size = rng.integer(1, p.batch_size);
  p.num_chunks = rng.integer(1, 3);
  p.output_tokens = rng.integer(1, 60);
  const auto run = simulate_batch(p, false);
  const double rounds = static_cast<double>(p.output_tokens - 1);
  const auto num = [&](std::int64_t size) {
    return static_cast<double>(micro_batch_sizes(p.batch_size, size).size());
  };
  const double chunks = static_cast<double>(p.num_chunks);
  // One unit through everything, and the busiest stage with all of its work; each time may be half
  // a picosecond less.
  const double path = sum(times.prefill) + sum(times.prefill_link) +
                      (chunks - 1) * largest(times.prefill) +
                      rounds * (sum(times.decode) + sum(times.decode_link));
  RC_ASSERT(run.total_s >= path * (1 - 1e-9));
  for (std::size_t s = 0; s < num_stages; ++s) {
    const double work = num(p.prefill_micro_batch_size) * chunks * times.prefill[s] +
                        num(p.decode_micro_batch_size) * rounds * times.decode[s];
    RC_ASSERT(run.total_s >= work * (1 - 1e-9));
    RC_ASSERT(run.stages[s].idle_ratio >= 0);
  }
}

// The planners' objective (fill, then rounds at the pace of the slowest stage or of one
// micro-batch's way round) neglects that decoding starts before the last prefill ends and that the
// pipeline drains; with a few hundred tokens that is not worth a per cent.
TEST(SimProperty, SteadyObjectiveIsWithinAPerCent) {
  double worst = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Rng rng(seed);
    const auto num_stages = static_cast<std::size_t>(rng.integer(1, 8));
    const Uniform times(rng, num_stages);
    BatchPipeline p = times.pipeline();
    const std::int64_t micro_batches = rng.integer(static_cast<std::int64_t>(num_stages),
                                                   2 * static_cast<std::int64_t>(num_stages));
    p.batch_size = 4 * micro_batches;
    p.prefill_micro_batch_size = p.decode_micro_batch_size = 4;
    p.output_tokens = rng.integer(300, 500);
    const double rounds = static_cast<double>(p.output_tokens - 1);
    const double mu = static_cast<double>(micro_batches);
    const double steady =
        (mu - 1) * largest(times.prefill) + sum(times.prefill) +
        rounds * std::max(mu * largest(times.decode), sum(times.decode) + sum(times.decode_link));
    const double total = simulate_batch(p, false).total_s;
    worst = std::max(worst, std::abs(total / steady - 1));
    EXPECT_NEAR(total / steady, 1, 0.01) << "seed " << seed;
  }
  RecordProperty("worst_relative_difference", std::to_string(worst));
}

}  // namespace
}  // namespace tessera::serving::serving_batch_property_test
