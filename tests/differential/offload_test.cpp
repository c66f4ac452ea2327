// FlexGen's linear programme against grids of shares, and the cost model against its checker.

#include "tessera/solver/offload/offload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "devices.h"
#include "shapes.h"
#include "tessera/core/json.h"
#include "tessera/core/rng.h"
#include "tessera/indicator/indicator.h"
#include "tessera/solver/ilp/offload_lp.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/plan/check_plan.h"

namespace tessera::solver::offload_test {
namespace {

using tessera::test::opt;

/// Problems from roomy to hopeless: one or two small devices on one or two nodes, hosts from too
/// small to ample, disks or none, cached tokens from few to many.
struct Case {
  std::optional<LoweredProblem> problem;
  Candidate candidate;
  PlanOffload settings;

  Case(std::uint64_t seed, std::size_t stages) {
    Rng rng(seed);
    const auto between = [&](double low, double high) {
      return low + (high - low) * rng.uniform();
    };
    BatchProblem s;
    s.model = opt("small", 4, 1024, 16);
    if (rng.integer(0, 2) == 0) s.model.layer_classes[0].attention_window = 200;
    const bool shared = rng.integer(0, 1) == 0;
    s.cluster.name = "test";
    for (std::size_t k = 0; k < stages; ++k) {
      if (k == 0 || !shared) {
        Node node;
        node.name = std::string(1, static_cast<char>('a' + k));
        node.host_memory_bytes = between(0.02, 0.8) * kGiB;
        if (rng.integer(0, 3) != 0) node.disk_bytes_per_s = between(0.5, 8) * 1e9;
        s.cluster.nodes.push_back(node);
      }
      Device device = k == 0 ? tessera::test::t4() : tessera::test::v100();
      device.memory_bytes = 0.78 * kGiB + between(0.12, 0.9) * kGiB;
      device.pcie_bytes_per_s = between(2, 20) * 1e9;
      s.cluster.devices.push_back({device, s.cluster.nodes.size() - 1});
    }
    s.workload.batch_size = rng.integer(1, 24);
    s.workload.prompt_tokens = s.workload.max_prompt_tokens = rng.integer(16, 400);
    s.workload.output_tokens = s.workload.max_output_tokens = rng.integer(1, 200);
    s.bitwidths = {8, 16};
    s.indicator = indicator::make_constant(4, {8, 16});
    s.kernel_set = tessera::test::test_kernels();
    s.memory = rng.integer(0, 3) == 0 ? cost::MemoryPreset::llm_pq : cost::MemoryPreset::physical;
    if (s.memory == cost::MemoryPreset::llm_pq) {
      for (ClusterDevice& slot : s.cluster.devices) slot.device.memory_bytes += 1.6 * kGiB;
    }
    Problem served;
    served.given = s;
    problem.emplace(std::move(served));
    const Instance& instance = this->instance();
    for (std::size_t k = 0; k < stages; ++k) {
      candidate.order.push_back(instance.groups.size() > 1 ? k : 0);
      candidate.first_layer.push_back(k * 4 / stages);
    }
    candidate.first_layer.push_back(4);
    for (int i = 0; i < 4; ++i) candidate.bit.push_back(rng.integer(0, 1) == 0 ? 0 : 1);
    const std::int64_t block = rng.integer(1, s.workload.batch_size);
    candidate.prefill_micro_batch_size = candidate.decode_micro_batch_size = block;
    settings.gpu_batch_size = rng.integer(1, block);
    settings.host_attention_bytes_per_s = between(2, 40) * 1e9;
  }

  const Instance& instance() const { return problem->instance(); }
  const Workload& workload() const { return problem->batch()->workload; }
  OffloadModel model() const {
    return offload_model(problem->problem(), instance(), candidate, settings);
  }
};

bool fits(const OffloadModel& model, const std::vector<StageOffload>& shares) {
  std::vector<double> held(model.host_bytes.size(), 0);
  for (std::size_t k = 0; k < shares.size(); ++k) {
    const OffloadStage& s = model.stages[k];
    if (std::max(s.device_prefill.at(shares[k]), s.device_decode.at(shares[k])) > s.usable_bytes)
      return false;
    if (!s.has_disk && s.disk.at(shares[k]) > 0) return false;
    held[s.node_index] += std::max(s.host_prefill.at(shares[k]), s.host_decode.at(shares[k]));
  }
  for (std::size_t n = 0; n < held.size(); ++n) {
    if (held[n] > model.host_bytes[n]) return false;
  }
  return true;
}

std::vector<TierRatios> grid(int steps) {
  std::vector<TierRatios> points;
  for (int host = 0; host <= steps; ++host) {
    for (int disk = 0; host + disk <= steps; ++disk) {
      const double h = static_cast<double>(host) / steps, d = static_cast<double>(disk) / steps;
      points.push_back({1 - h - d, h, d});
    }
  }
  return points;
}

/// The least latency over a grid of all shares of one stage.
std::optional<double> best_on_grid(const OffloadModel& model, int steps) {
  std::optional<double> best;
  const std::vector<TierRatios> points = grid(steps);
  std::vector<StageOffload> shares(1);
  for (const TierRatios& w : points) {
    for (const TierRatios& c : points) {
      for (const TierRatios& h : points) {
        shares[0] = {w, c, h, 0, 0};
        if (!fits(model, shares)) continue;
        const double latency = evaluate_offload(model, shares).latency_s;
        if (!best || latency < *best) best = latency;
      }
    }
  }
  return best;
}

TEST(Offload, LinearProgrammeBeatsEveryGridPoint) {
  int both = 0, close = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Case c(seed, 1);
    const OffloadModel model = c.model();
    const auto shares = best_offload(model);
    const auto coarse = best_on_grid(model, 8);
    if (!shares) {
      EXPECT_FALSE(coarse) << "seed " << seed;
      continue;
    }
    const double latency = evaluate_offload(model, *shares).latency_s;
    EXPECT_TRUE(fits(model, *shares)) << "seed " << seed;
    if (!coarse) continue;
    ++both;
    EXPECT_LE(latency, *coarse * (1 + 1e-7)) << "seed " << seed;
    if (*coarse < 1.1 * latency) ++close;
  }
  EXPECT_GT(both, 15);         // or the comparison says nothing
  EXPECT_GT(close, both / 2);  // and the programme prices what the grid does
}

TierRatios between(const TierRatios& a, const TierRatios& b, double t) {
  const double host = (1 - t) * a.host + t * b.host, disk = (1 - t) * a.disk + t * b.disk;
  return {1 - host - disk, host, disk};
}

std::vector<StageOffload> between(const std::vector<StageOffload>& a,
                                  const std::vector<StageOffload>& b, double t) {
  std::vector<StageOffload> mixed;
  for (std::size_t k = 0; k < a.size(); ++k) {
    mixed.push_back({between(a[k].weights, b[k].weights, t),
                     between(a[k].kv_cache, b[k].kv_cache, t),
                     between(a[k].activations, b[k].activations, t), 0, 0});
  }
  return mixed;
}

// The latency is convex in the shares: if a step towards any others improved it, so would a small
// one.
TEST(Offload, LinearProgrammeBeatsRandomSharesOfTwoStages) {
  int feasible = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Case c(seed, 2);
    const OffloadModel model = c.model();
    const auto shares = best_offload(model);
    const double latency = shares ? evaluate_offload(model, *shares).latency_s : 0;
    EXPECT_TRUE(!shares || fits(model, *shares)) << "seed " << seed;
    const std::vector<TierRatios> points = grid(5);
    Rng rng(seed + 1000);
    const auto draw = [&] {
      return points[static_cast<std::size_t>(
          rng.integer(0, static_cast<std::int64_t>(points.size()) - 1))];
    };
    for (int i = 0; i < 5000; ++i) {
      const std::vector<StageOffload> drawn{{draw(), draw(), draw(), 0, 0},
                                            {draw(), draw(), draw(), 0, 0}};
      for (const double t : {0.02, 0.3, 1.0}) {
        if (!shares && t < 1) continue;
        const std::vector<StageOffload> tried = shares ? between(*shares, drawn, t) : drawn;
        if (!fits(model, tried)) continue;
        ++feasible;
        ASSERT_TRUE(shares) << "seed " << seed;
        EXPECT_LE(latency, evaluate_offload(model, tried).latency_s * (1 + 1e-7))
            << "seed " << seed << ", step " << t;
      }
    }
  }
  EXPECT_GT(feasible, 10000);
}

TEST(Offload, CheckerAgreesOnAnySharesThatFit) {
  int accepted = 0, refused = 0;
  const std::vector<TierRatios> points = grid(4);
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Case c(seed, 1 + seed % 2);
    const OffloadModel model = c.model();
    Rng rng(seed + 2000);
    for (int i = 0; i < 20; ++i) {
      std::vector<StageOffload> shares(model.stages.size());
      for (StageOffload& s : shares) {
        for (TierRatios* r : {&s.weights, &s.kv_cache, &s.activations})
          *r = points[static_cast<std::size_t>(
              rng.integer(0, static_cast<std::int64_t>(points.size()) - 1))];
      }
      PlanResult result;
      result.candidate = c.candidate;
      const PipelinePlan plan = build_offload_plan(*c.problem, result, c.settings, shares, "test");
      const auto violation = check_plan(plan);
      if (fits(model, shares)) {
        ++accepted;
        ASSERT_FALSE(violation) << "seed " << seed << ": " << violation->message;
        ASSERT_FALSE(check_plan(plan_from_json(to_json(plan), "again")));
      } else {
        ++refused;
        ASSERT_TRUE(violation) << "seed " << seed;
        EXPECT_TRUE(violation->constraint == "memory" || violation->constraint == "offload")
            << violation->message;
      }
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}

TEST(Offload, WithEverythingOnTheDeviceItIsThePlainPipeline) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Case c(seed, 1 + seed % 2);
    for (std::size_t& bit : c.candidate.bit) bit = 1;  // 16 bits, as it computes
    c.settings.gpu_batch_size = c.candidate.prefill_micro_batch_size;
    const OffloadModel model = c.model();
    const auto e = evaluate_offload(model, std::vector<StageOffload>(model.stages.size()));
    Instance steady = c.instance();
    steady.objective = Objective::steady;
    EXPECT_NEAR(e.latency_s, evaluate(steady, c.candidate).latency_s, 1e-9 * e.latency_s)
        << "seed " << seed;
  }
}

TEST(Offload, OneBlockOnOneDeviceIsFlexGensFormula) {
  Case c(3, 1);
  const std::int64_t all = c.workload().batch_size;
  c.candidate.prefill_micro_batch_size = c.candidate.decode_micro_batch_size = all;
  const OffloadModel model = c.model();
  const std::vector<StageOffload> shares{{{0.5, 0.5, 0}, {0.25, 0.75, 0}, {1, 0, 0}, 0, 0}};
  const OffloadEvaluation e = evaluate_offload(model, shares);
  const double n = c.workload().output_tokens;
  EXPECT_NEAR(e.latency_s, e.prefill_s[0] + (n - 1) * e.decode_s[0], 1e-12 * e.latency_s);
}

}  // namespace
}  // namespace tessera::solver::offload_test
