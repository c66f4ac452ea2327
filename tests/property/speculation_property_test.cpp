// Speculative sampling on any distributions, and drafts from any text, against definitions.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/serving/accepted_drafts.h"
#include "tessera/serving/gain.h"
#include "tessera/serving/prompt_lookup.h"
#include "tessera/serving/verify.h"

namespace tessera::serving::speculation_property_test {
namespace {

// With zeros here and there, and sometimes all on one token.
std::vector<double> any_distribution(std::size_t vocab_size) {
  std::vector<double> row(vocab_size);
  double sum = 0;
  for (double& value : row) sum += value = *rc::gen::inRange(0, 6);
  if (sum == 0) sum = row[0] = 1;
  for (double& value : row) value /= sum;
  return row;
}

struct Step {
  std::size_t vocab_size = static_cast<std::size_t>(*rc::gen::inRange(1, 8));
  std::vector<std::int32_t> drafts;
  std::vector<double> q, p;

  Step() {
    const int num_drafts = *rc::gen::inRange(0, 6);
    for (int i = 0; i <= num_drafts; ++i) {
      const auto row = any_distribution(vocab_size);
      p.insert(p.end(), row.begin(), row.end());
      if (i == num_drafts) break;
      // Half of the drafts are of a model that agrees with the target.
      const auto other = *rc::gen::arbitrary<bool>() ? row : any_distribution(vocab_size);
      q.insert(q.end(), other.begin(), other.end());
      drafts.push_back(*rc::gen::inRange<std::int32_t>(0, static_cast<std::int32_t>(vocab_size)));
    }
  }
  ProbabilityRows<double> q_rows() const { return {q, vocab_size}; }
  ProbabilityRows<double> p_rows() const { return {p, vocab_size}; }
};

// min(p, q) and the residual's share are p again, for every token: what the rule rests on.
RC_GTEST_PROP(SpeculationProperty, AcceptedAndResampledTokensAreThoseOfTheTarget, ()) {
  const auto vocab_size = static_cast<std::size_t>(*rc::gen::inRange(1, 40));
  const auto q = any_distribution(vocab_size), p = any_distribution(vocab_size);
  std::vector<double> left(vocab_size);
  const double rejected = residual<double>(q, p, left);
  RC_ASSERT(std::abs(acceptance_rate<double>(q, p) + rejected - 1) < 1e-12);
  for (std::size_t token = 0; token < vocab_size; ++token) {
    RC_ASSERT(std::abs(std::min(p[token], q[token]) + rejected * left[token] - p[token]) < 1e-12);
  }
}

// The paper's algorithm with its quotient and its normalised residual, fed with the same numbers.
Verified as_in_the_paper(const Step& step, Rng& rng) {
  const std::size_t vocab_size = step.vocab_size;
  std::vector<double> last(step.p.end() - static_cast<std::ptrdiff_t>(vocab_size), step.p.end());
  std::size_t accepted = 0;
  for (; accepted < step.drafts.size(); ++accepted) {
    const auto q = step.q_rows()[accepted], p = step.p_rows()[accepted];
    const auto token = static_cast<std::size_t>(step.drafts[accepted]);
    const double draw = rng.uniform();
    if (q[token] > 0 && draw < std::min(1.0, p[token] / q[token])) continue;
    double sum = 0;
    for (std::size_t t = 0; t < vocab_size; ++t) sum += last[t] = std::max(p[t] - q[t], 0.0);
    for (std::size_t t = 0; t < vocab_size; ++t) last[t] = sum > 0 ? last[t] / sum : p[t];
    break;
  }
  const double draw = rng.uniform();
  double below = 0;
  std::size_t next = 0;
  for (std::size_t t = 0; t < vocab_size; ++t) {
    if (last[t] <= 0) continue;
    next = t;
    if (draw < (below += last[t])) break;
  }
  return {accepted, static_cast<std::int32_t>(next)};
}

RC_GTEST_PROP(SpeculationProperty, VerifiesAsThePaperDoes, ()) {
  const Step step;
  const auto seed = static_cast<std::uint64_t>(*rc::gen::inRange(0, 1 << 30));
  Rng own(seed), other(seed);
  const Verified found = verify<double>(step.drafts, step.q_rows(), step.p_rows(), own);
  RC_ASSERT(found == as_in_the_paper(step, other));
  RC_ASSERT(own.next() == other.next());  // one number per draft looked at, and one for `next`
  RC_ASSERT(step.p_rows()[found.num_accepted][static_cast<std::size_t>(found.next)] > 0);
}

RC_GTEST_PROP(SpeculationProperty, CertainDraftsAreThoseOfAOneHotModel, ()) {
  Step step;
  std::fill(step.q.begin(), step.q.end(), 0.0);
  for (std::size_t i = 0; i < step.drafts.size(); ++i) {
    step.q[i * step.vocab_size + static_cast<std::size_t>(step.drafts[i])] = 1;
  }
  Rng a(5), b(5);
  RC_ASSERT(verify_certain<double>(step.drafts, step.p_rows(), a) ==
            verify<double>(step.drafts, step.q_rows(), step.p_rows(), b));
}

// As the temperature falls towards 0, sampling becomes greedy.
RC_GTEST_PROP(SpeculationProperty, OneHotTargetsAreGreedy, ()) {
  Step step;
  for (std::size_t i = 0; i <= step.drafts.size(); ++i) {
    double* row = step.p.data() + i * step.vocab_size;
    const auto best = std::max_element(row, row + step.vocab_size) - row;
    std::fill(row, row + step.vocab_size, 0.0);
    row[best] = 1;
  }
  Rng rng(6);
  RC_ASSERT(verify_certain<double>(step.drafts, step.p_rows(), rng) ==
            verify_greedy<double>(step.drafts, step.p_rows()));
}

std::vector<std::int32_t> found_by_trying(const std::vector<std::int32_t>& tokens,
                                          std::size_t least, std::size_t most,
                                          std::size_t num_drafts) {
  for (std::size_t length = most; length >= least; --length) {
    for (std::size_t start = 0; start + length < tokens.size(); ++start) {
      const auto at = tokens.begin() + static_cast<std::ptrdiff_t>(start);
      const auto end = at + static_cast<std::ptrdiff_t>(length);
      if (!std::equal(at, end, tokens.end() - static_cast<std::ptrdiff_t>(length))) continue;
      const auto rest = static_cast<std::size_t>(tokens.end() - end);
      return {end, end + static_cast<std::ptrdiff_t>(std::min(num_drafts, rest))};
    }
  }
  return {};
}

RC_GTEST_PROP(SpeculationProperty, PromptLookupFindsWhatTryingEveryPlaceFinds, ()) {
  const int num_letters = *rc::gen::inRange(1, 5);
  const auto tokens = *rc::gen::container<std::vector<std::int32_t>>(
      rc::gen::inRange<std::int32_t>(0, num_letters));
  const auto least = static_cast<std::size_t>(*rc::gen::inRange(1, 5));
  const std::size_t most = least + static_cast<std::size_t>(*rc::gen::inRange(0, 6));
  const auto num_drafts = static_cast<std::size_t>(*rc::gen::inRange(0, 8));
  const auto found = prompt_lookup(tokens, least, most, num_drafts);
  RC_ASSERT(std::vector(found.begin(), found.end()) ==
            found_by_trying(tokens, least, most, num_drafts));
}

RC_GTEST_PROP(SpeculationProperty, AcceptsNoMoreDraftsAtLowerRates, ()) {
  const double low = *rc::gen::inRange(0, 1001) / 1000.0;
  const double high = low + (1 - low) * *rc::gen::inRange(0, 1001) / 1000.0;
  const std::int64_t num_drafts = *rc::gen::inRange(0, 10), step = *rc::gen::inRange(0, 1000);
  const auto lower = cumulative_rates(std::vector{low}, num_drafts, "low");
  const auto higher = cumulative_rates(std::vector{high}, num_drafts, "high");
  RC_ASSERT(accepted_drafts(1, 2, step, lower) <= accepted_drafts(1, 2, step, higher));
  RC_ASSERT(std::abs(mean_tokens(lower) - expected_tokens(low, num_drafts)) < 1e-12);
  RC_ASSERT(expected_tokens(low, num_drafts) <= expected_tokens(high, num_drafts));
}

}  // namespace
}  // namespace tessera::serving::speculation_property_test
