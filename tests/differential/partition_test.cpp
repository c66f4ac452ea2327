// The balanced partition against every partition there is.

#include "tessera/solver/instance/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "random_cases.h"

namespace tessera::solver::instances::partition_test {
namespace {

struct Setting {
  std::vector<std::size_t> order;
  std::size_t bit = 0;
  std::int64_t prefill = 1, decode = 1;
  BalancedPhase phase = BalancedPhase::both;
};

/// The time that is balanced, of the slowest stage; absent where a stage does not fit or has no
/// kernel. Written from the definition, layer by layer.
std::optional<double> slowest(const Instance& in, const Setting& s,
                              const std::vector<std::size_t>& counts) {
  const PhaseCosts& pre = in.prefill(s.prefill);
  const PhaseCosts& dec = in.decode(s.decode);
  const auto batches = [&](std::int64_t size) {
    return static_cast<double>((in.batch_size + size - 1) / size);
  };
  double worst = 0;
  std::size_t layer = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const std::size_t g = s.order[k];
    if (in.allowed[g * in.bitwidths.size() + s.bit] == 0) return std::nullopt;
    const bool first = k == 0, last = k + 1 == counts.size();
    const std::size_t place = (first ? 1u : 0u) + (last ? 2u : 0u);
    double p = (first ? pre.first_s[g] : 0) + (last ? pre.last_s[g] : 0);
    double d = (first ? dec.first_s[g] : 0) + (last ? dec.last_s[g] : 0);
    const std::size_t row = in.groups[g].sharding, held = 4 * row + place;
    double bytes =
        in.embedding_bytes[held] + std::max(pre.activation_bytes[held], dec.activation_bytes[held]);
    for (std::size_t i = 0; i < counts[k]; ++i, ++layer) {
      const auto cls = static_cast<std::size_t>(in.layer_class[layer]);
      const std::size_t cell =
          (g * static_cast<std::size_t>(in.num_classes) + cls) * in.bitwidths.size() + s.bit;
      p += pre.layer_s[cell];
      d += dec.layer_s[cell];
      bytes += in.layer_bytes[(row * static_cast<std::size_t>(in.num_classes) + cls) *
                                  in.bitwidths.size() +
                              s.bit];
    }
    if (bytes > in.groups[g].usable_bytes * (1 + 1e-9)) return std::nullopt;
    double time = p;
    if (s.phase == BalancedPhase::decode) time = d;
    if (s.phase == BalancedPhase::both) {
      time = static_cast<double>(in.num_chunks) * batches(s.prefill) * p +
             batches(s.decode) * (in.output_tokens - 1) * d;
    }
    worst = std::max(worst, time);
  }
  return worst;
}

void try_all(const Instance& in, const Setting& s, std::vector<std::size_t>& counts,
             std::size_t left, std::optional<double>& best) {
  if (counts.size() + 1 == s.order.size()) {
    counts.push_back(left);
    const auto time = slowest(in, s, counts);
    if (time && (!best || *time < *best)) best = time;
    counts.pop_back();
    return;
  }
  const std::size_t later = s.order.size() - counts.size() - 1;
  for (std::size_t n = 1; n + later <= left; ++n) {
    counts.push_back(n);
    try_all(in, s, counts, left - n, best);
    counts.pop_back();
  }
}

TEST(Partition, MatchesBruteForceInEveryPhase) {
  int feasible = 0;
  for_each_case(1, 400, {.max_layers = 9}, [&](RandomCase& c) {
    const Instance& in = c.in;
    Setting s;
    s.order = c.random.order(in);
    s.prefill = c.random.micro_batch(in);
    s.decode = c.random.micro_batch(in);
    for (s.bit = 0; s.bit < in.num_bits(); ++s.bit) {
      for (const auto phase :
           {BalancedPhase::both, BalancedPhase::prefill, BalancedPhase::decode}) {
        s.phase = phase;
        std::optional<double> best;
        std::vector<std::size_t> counts;
        if (s.order.size() <= in.num_layers()) try_all(in, s, counts, in.num_layers(), best);
        const auto found = balanced_partition(in, s.order, s.bit, s.prefill, s.decode, phase);
        ASSERT_EQ(best.has_value(), found.has_value());
        if (!found) continue;
        ++feasible;
        ASSERT_EQ(std::accumulate(found->begin(), found->end(), std::size_t{0}), in.num_layers());
        const auto reached = slowest(in, s, *found);
        ASSERT_TRUE(reached);
        ASSERT_NEAR(*reached, *best, 1e-12 * *best);
      }
    }
  });
  EXPECT_GT(feasible, 300);  // or the comparison says nothing
}

}  // namespace
}  // namespace tessera::solver::instances::partition_test
