#include "tessera/serving/verify.h"

#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"

namespace tessera::serving {
namespace {

template <class Real>
void check_distribution(std::span<const Real> row, const char* name, std::size_t index) {
  double sum = 0;
  for (std::size_t token = 0; token < row.size(); ++token) {
    const double value = static_cast<double>(row[token]);
    if (!(value >= 0) || std::isinf(value)) {
      refuse(name, "row {} gives token {} the probability {}; give numbers in [0, 1]", index, token,
             value);
    }
    sum += value;
  }
  if (!(std::abs(sum - 1) <= kSumTolerance<Real>)) {
    refuse(name,
           "row {} sums to {:.10g} over {} tokens, {:.3g} from 1 where {:g} is allowed; normalise "
           "it after temperature, top_k and top_p",
           index, sum, row.size(), std::abs(sum - 1), kSumTolerance<Real>);
  }
}

template <class Real>
void check_rows(ProbabilityRows<Real> rows, std::size_t wanted, std::size_t num_drafts,
                const char* name) {
  if (rows.vocab_size == 0) refuse(name, "the vocabulary is empty");
  if (rows.values.size() == wanted * rows.vocab_size) return;
  refuse(name, "{} numbers in rows of {} tokens; {} drafts need {} rows", rows.values.size(),
         rows.vocab_size, num_drafts, wanted);
}

std::size_t token_of(std::span<const std::int32_t> drafts, std::size_t i, std::size_t vocab_size) {
  const std::int32_t token = drafts[i];
  if (token < 0 || static_cast<std::size_t>(token) >= vocab_size) {
    refuse(ErrorCode::out_of_range, "drafts", "draft {} is token {}; the vocabulary has 0 to {}", i,
           token, vocab_size - 1);
  }
  return static_cast<std::size_t>(token);
}

// A token with probability weight(token) / sum; the last one that has any where rounding leaves the
// running sum below the draw.
template <class Weight>
std::int32_t draw(std::size_t vocab_size, double sum, Rng& rng, Weight&& weight) {
  const double target = rng.uniform() * sum;
  double below = 0;
  std::size_t last = 0;
  for (std::size_t token = 0; token < vocab_size; ++token) {
    const double own = weight(token);
    if (own <= 0) continue;
    last = token;
    below += own;
    if (target < below) break;
  }
  return static_cast<std::int32_t>(last);
}

template <class Real>
double sum_of(std::span<const Real> row) {
  double sum = 0;
  for (const Real value : row) sum += static_cast<double>(value);
  return sum;
}

template <class Real>
std::int32_t draw_from(std::span<const Real> row, Rng& rng) {
  return draw(row.size(), sum_of(row), rng,
              [&](std::size_t token) { return static_cast<double>(row[token]); });
}

// After a rejection: from what `left` leaves of p, or from p where that is nothing.
template <class Real, class Left>
std::int32_t draw_left(std::span<const Real> p, Rng& rng, Left&& left) {
  double sum = 0;
  for (std::size_t token = 0; token < p.size(); ++token) sum += left(token);
  return sum > 0 ? draw(p.size(), sum, rng, left) : draw_from(p, rng);
}

template <class Real>
double excess(std::span<const Real> q, std::span<const Real> p, std::size_t token) {
  return std::max(static_cast<double>(p[token]) - static_cast<double>(q[token]), 0.0);
}

template <class Real>
std::size_t most_likely(std::span<const Real> row, std::size_t index) {
  std::size_t best = 0;
  for (std::size_t token = 0; token < row.size(); ++token) {
    const Real value = row[token];
    if (std::isnan(value) || (std::isinf(value) && value > 0)) {
      refuse("p", "row {} gives token {} the value {}; the most likely token is not known", index,
             token, static_cast<double>(value));
    }
    if (value > row[best]) best = token;
  }
  return best;
}

template <class Real>
void check_pair(std::span<const Real> q, std::span<const Real> p) {
  if (q.size() != p.size() || p.empty()) {
    refuse("q", "a row of {} tokens beside one of {} in p; give both the same vocabulary", q.size(),
           p.size());
  }
  check_distribution(q, "q", 0);
  check_distribution(p, "p", 0);
}

}  // namespace

template <class Real>
Verified verify(std::span<const std::int32_t> drafts, ProbabilityRows<Real> q,
                ProbabilityRows<Real> p, Rng& rng) {
  check_rows(p, drafts.size() + 1, drafts.size(), "p");
  if (!drafts.empty()) {
    check_rows(q, drafts.size(), drafts.size(), "q");
    if (q.vocab_size != p.vocab_size) {
      refuse("q", "rows of {} tokens, those of p have {}", q.vocab_size, p.vocab_size);
    }
  }
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const std::size_t token = token_of(drafts, i, p.vocab_size);
    const std::span<const Real> q_row = q[i], p_row = p[i];
    check_distribution(q_row, "q", i);
    check_distribution(p_row, "p", i);
    const double drafted = static_cast<double>(q_row[token]);
    const double wanted = static_cast<double>(p_row[token]);
    // The draw is below 1, so that wanted >= drafted is accepted always.
    const bool accepted = rng.uniform() * drafted < wanted && drafted > 0;
    if (accepted) continue;
    const auto left = [&](std::size_t t) { return excess(q_row, p_row, t); };
    return {i, draw_left(p_row, rng, left)};
  }
  check_distribution(p[drafts.size()], "p", drafts.size());
  return {drafts.size(), draw_from(p[drafts.size()], rng)};
}

template <class Real>
Verified verify_certain(std::span<const std::int32_t> drafts, ProbabilityRows<Real> p, Rng& rng) {
  check_rows(p, drafts.size() + 1, drafts.size(), "p");
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const std::size_t token = token_of(drafts, i, p.vocab_size);
    const std::span<const Real> row = p[i];
    check_distribution(row, "p", i);
    if (rng.uniform() < static_cast<double>(row[token])) continue;
    const auto left = [&](std::size_t t) { return t == token ? 0.0 : static_cast<double>(row[t]); };
    return {i, draw_left(row, rng, left)};
  }
  check_distribution(p[drafts.size()], "p", drafts.size());
  return {drafts.size(), draw_from(p[drafts.size()], rng)};
}

template <class Real>
Verified verify_greedy(std::span<const std::int32_t> drafts, ProbabilityRows<Real> p) {
  check_rows(p, drafts.size() + 1, drafts.size(), "p");
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const std::size_t best = most_likely(p[i], i);
    if (token_of(drafts, i, p.vocab_size) != best) return {i, static_cast<std::int32_t>(best)};
  }
  const std::size_t best = most_likely(p[drafts.size()], drafts.size());
  return {drafts.size(), static_cast<std::int32_t>(best)};
}

template <class Real>
double acceptance_rate(std::span<const Real> q, std::span<const Real> p) {
  check_pair(q, p);
  double rate = 0;
  for (std::size_t token = 0; token < p.size(); ++token) {
    rate += static_cast<double>(std::min(q[token], p[token]));
  }
  return rate;
}

template <class Real>
double residual(std::span<const Real> q, std::span<const Real> p, std::span<Real> out) {
  check_pair(q, p);
  if (out.size() != p.size()) {
    refuse("residual", "room for {} tokens of {}", out.size(), p.size());
  }
  double sum = 0;
  for (std::size_t token = 0; token < p.size(); ++token) sum += excess(q, p, token);
  for (std::size_t token = 0; token < p.size(); ++token) {
    out[token] = sum > 0 ? static_cast<Real>(excess(q, p, token) / sum) : Real{0};
  }
  return sum;
}

#define TESSERA_FOR(Real)                                                                       \
  template Verified verify(std::span<const std::int32_t>, ProbabilityRows<Real>,                \
                           ProbabilityRows<Real>, Rng&);                                        \
  template Verified verify_certain(std::span<const std::int32_t>, ProbabilityRows<Real>, Rng&); \
  template Verified verify_greedy(std::span<const std::int32_t>, ProbabilityRows<Real>);        \
  template double acceptance_rate(std::span<const Real>, std::span<const Real>);                \
  template double residual(std::span<const Real>, std::span<const Real>, std::span<Real>)
TESSERA_FOR(float);
TESSERA_FOR(double);
#undef TESSERA_FOR

}  // namespace tessera::serving
