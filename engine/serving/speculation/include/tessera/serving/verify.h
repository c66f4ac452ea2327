#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/core/rng.h"

/// Speculative sampling (Leviathan et al., 2022, algorithm 1; Chen et al., 2023): the tokens that
/// come out are distributed as those of the target model alone, whatever the drafts are worth.
namespace tessera::serving {

/// Distributions over the same tokens, one after the other: [num_rows][vocab_size].
template <class Real>
struct ProbabilityRows {
  std::span<const Real> values;
  std::size_t vocab_size = 0;

  std::size_t size() const { return vocab_size == 0 ? 0 : values.size() / vocab_size; }
  std::span<const Real> operator[](std::size_t row) const {
    return values.subspan(row * vocab_size, vocab_size);
  }
};

/// How far from 1 the sum of a row may be: what a softmax in this type rounds away.
template <class Real>
inline constexpr double kSumTolerance = sizeof(Real) < sizeof(double) ? 1e-4 : 1e-9;

/// What a step leaves behind its context: the first `num_accepted` drafts, then `next`.
struct Verified {
  std::size_t num_accepted = 0;
  std::int32_t next = 0;  ///< from the residual after a rejection, else the bonus token

  friend bool operator==(const Verified&, const Verified&) = default;
};

/// Accepts draft y of row i with probability min(1, p_i(y) / q_i(y)), from left to right up to the
/// first rejection. `next` then comes from max(p_i - q_i, 0), normalised; where all passed, from
/// the last row of p. Takes one number from `rng` per draft that is looked at, and one for `next`.
///
/// `drafts` [g] were drawn from `q` [g rows]; `p` has g + 1 rows. g may be 0: then `next` is a
/// plain sample. A draft with q_i(y) = 0, which q cannot have drawn, is rejected, as vLLM does:
/// taking it would give y more than p_i(y). Where nothing is left of p_i - q_i, as with two equal
/// rows (only such a draft or rounding leads there), `next` comes from p_i, the limit as q
/// approaches p.
///
/// Only the rows up to the first rejection are looked at. Allocates nothing.
/// @throws Error{invalid_argument} for sizes that do not agree, for a probability that is negative
///   or not finite, and for a row whose sum is further than kSumTolerance from 1, with the numbers;
///   Error{out_of_range} for a draft that is no token of the vocabulary
template <class Real>
Verified verify(std::span<const std::int32_t> drafts, ProbabilityRows<Real> q,
                ProbabilityRows<Real> p, Rng& rng);

/// The same for drafts that nothing drew: an n-gram found in the text, the most likely token of a
/// draft model. q is 1 at each of them: y is accepted with p_i(y), and the residual is p_i without
/// y. @throws as verify
template <class Real>
Verified verify_certain(std::span<const std::int32_t> drafts, ProbabilityRows<Real> p, Rng& rng);

/// Temperature 0: a draft is accepted where it is the most likely token of its row, the first of
/// them where several are equal; `next` is the most likely token of the row where that ends. Rows
/// may as well be logits: they need not sum to 1, and -infinity is allowed.
/// @throws as verify, and for NaN or +infinity in a row that is looked at
template <class Real>
Verified verify_greedy(std::span<const std::int32_t> drafts, ProbabilityRows<Real> p);

/// Probability that a draft from `q` is accepted: sum over tokens of min(p, q), which is 1 less the
/// total variation distance. Rows as long as each other, checked as in verify.
template <class Real>
double acceptance_rate(std::span<const Real> q, std::span<const Real> p);

/// Writes max(p - q, 0), normalised, to `out` and returns its sum before that: the probability of
/// a rejection. Where it is 0 there is no residual, and `out` is all 0.
template <class Real>
double residual(std::span<const Real> q, std::span<const Real> p, std::span<Real> out);

}  // namespace tessera::serving
