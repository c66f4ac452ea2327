// A plan's batch by the scheduler micro_batches in the event loop of streams, against the event
// simulation that was made for batches alone: the same to the tick. Times are whole ticks of both.

#include "tessera/serving/batch_run.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tessera/core/rng.h"
#include "tessera/sim/pipeline.h"

namespace tessera::serving {
namespace {

constexpr double kUnit = 1.0 / 1024;  // sums of it are exact in doubles, and whole ticks
constexpr std::int64_t kRows = 64;

struct Random {
  BatchPipeline batch;
  sim::Pipeline plain;
};

void set_times(Random& r, const std::vector<std::int64_t>& table, std::int64_t back) {
  const auto units = [table](std::size_t track, bool decode, std::int64_t size,
                             std::int64_t index) {
    const auto row = static_cast<std::size_t>((size * 7 + index * 3) % kRows);
    return kUnit *
           static_cast<double>(
               table[(2 * track + (decode ? 1 : 0)) * static_cast<std::size_t>(kRows) + row]);
  };
  r.batch.stage_s = [units](std::size_t s, BatchPhase phase, const MicroBatch& m, std::int64_t i) {
    return units(2 * s, phase == BatchPhase::decode, m.size, i);
  };
  r.batch.link_s = [units](std::size_t s, BatchPhase phase, const MicroBatch& m, std::int64_t i) {
    return units(2 * s + 1, phase == BatchPhase::decode, m.size, i);
  };
  r.batch.return_s = [back](std::int64_t) { return kUnit * static_cast<double>(back); };
  r.plain.stage_s = [units](std::size_t s, sim::Phase phase, const sim::MicroBatch& m,
                            std::int64_t i) {
    return units(2 * s, phase == sim::Phase::decode, m.size, i);
  };
  r.plain.link_s = [units](std::size_t s, sim::Phase phase, const sim::MicroBatch& m,
                           std::int64_t i) {
    return units(2 * s + 1, phase == sim::Phase::decode, m.size, i);
  };
  r.plain.return_s = r.batch.return_s;
}

Random random_pipeline(std::uint64_t seed) {
  Rng rng(seed);
  Random r;
  BatchPipeline& b = r.batch;
  b.stage_names.resize(static_cast<std::size_t>(rng.integer(1, 5)));
  b.batch_size = rng.integer(1, 12);
  b.prefill_micro_batch_size = rng.integer(1, b.batch_size);
  b.decode_micro_batch_size = rng.integer(1, b.batch_size);
  b.num_chunks = rng.integer(1, 4);
  b.output_tokens = rng.integer(1, 9);
  if (rng.uniform() < 0.5) {
    for (std::int64_t i = 0; i < b.batch_size; ++i) {
      b.requests.push_back({kUnit * static_cast<double>(rng.integer(0, 1) * rng.integer(0, 30)),
                            rng.integer(1, 4), rng.integer(1, 9)});
    }
  }
  r.plain.stage_names = b.stage_names;
  r.plain.batch_size = b.batch_size;
  r.plain.prefill_micro_batch_size = b.prefill_micro_batch_size;
  r.plain.decode_micro_batch_size = b.decode_micro_batch_size;
  r.plain.num_chunks = b.num_chunks;
  r.plain.output_tokens = b.output_tokens;
  for (const BatchRequest& q : b.requests) {
    r.plain.requests.push_back({q.arrival_s, q.num_chunks, q.output_tokens});
  }
  std::vector<std::int64_t> table;
  for (std::size_t track = 0; track < 2 * b.stage_names.size() - 1; ++track) {
    const bool empty = rng.integer(0, 4) == 0;
    for (int phase = 0; phase < 2; ++phase) {
      const std::int64_t base = empty ? 0 : rng.integer(1, 6), spread = empty ? 0 : 3;
      for (std::int64_t i = 0; i < kRows; ++i) table.push_back(base + rng.integer(0, spread));
    }
  }
  set_times(r, table, rng.integer(0, 1) * rng.integer(0, 5));
  return r;
}

std::int64_t ticks(double seconds) { return std::llround(seconds * 1e12); }

void expect_same(const BatchRun& a, const sim::Run& b) {
  ASSERT_EQ(ticks(a.total_s), ticks(b.total_s));
  ASSERT_EQ(ticks(a.prefill_s), ticks(b.prefill_s));
  ASSERT_EQ(ticks(a.ttft_max_s), ticks(b.ttft_max_s));
  ASSERT_NEAR(a.ttft_s, b.ttft_s, 1e-12);
  ASSERT_NEAR(a.tpot_s, b.tpot_s, 1e-12);
  ASSERT_NEAR(a.decode_round_s, b.decode_round_s, 1e-12);
  ASSERT_NEAR(a.throughput_tok_s, b.throughput_tok_s, 1e-9 * (1 + b.throughput_tok_s));
  ASSERT_EQ(a.stages.size(), b.stages.size());
  for (std::size_t s = 0; s < a.stages.size(); ++s) {
    ASSERT_EQ(ticks(a.stages[s].busy_s), ticks(b.stages[s].busy_s));
  }
  ASSERT_EQ(a.requests.size(), b.requests.size());
  for (std::size_t r = 0; r < a.requests.size(); ++r) {
    ASSERT_EQ(ticks(a.requests[r].first_token_s), ticks(b.requests[r].first_token_s));
    ASSERT_EQ(ticks(a.requests[r].last_token_s), ticks(b.requests[r].last_token_s));
  }
  ASSERT_EQ(a.spans.size(), b.spans.size());
  for (std::size_t i = 0; i < a.spans.size(); ++i) {
    ASSERT_EQ(a.spans[i].track, b.spans[i].track);
    ASSERT_EQ(a.spans[i].micro_batch, b.spans[i].micro_batch);
    ASSERT_EQ(a.spans[i].index, b.spans[i].index);
    ASSERT_EQ(ticks(a.spans[i].start_s), ticks(b.spans[i].start_s));
    ASSERT_EQ(ticks(a.spans[i].duration_s), ticks(b.spans[i].duration_s));
  }
}

TEST(BatchRun, IsTheBatchSimulationToTheTick) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    const Random r = random_pipeline(seed);
    expect_same(simulate_batch(r.batch, true), sim::simulate(r.plain, true));
    ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tessera::serving
