#include "scores.h"

#include <Eigen/Core>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>

#include "tessera/core/error.h"
#include "tessera/kernels/parallel.h"

namespace tessera::lm::quality {
namespace {

constexpr std::int64_t kPart = 512;  // exponentials at a time, in the first cache
using Part = Eigen::Array<float, kPart, 1>;
using Row = Eigen::Map<const Eigen::ArrayXf>;

/// log of the sum of exp(x), as max + log_sum.
struct Normaliser {
  float max = 0;
  double log_sum = 0;
};

Normaliser normaliser_of(const Row& x) {
  const float max = x.maxCoeff();
  double sum = 0;
  Part part;
  for (std::int64_t first = 0; first < x.size(); first += kPart) {
    const std::int64_t count = std::min(kPart, x.size() - first);
    part.head(count) = (x.segment(first, count) - max).exp();
    sum += part.head(count).cast<double>().sum();
  }
  return {max, std::log(sum)};
}

double divergence_of(const Row& reference, const Row& x) {
  const Normaliser p = normaliser_of(reference), q = normaliser_of(x);
  double sum = 0, difference = 0;  // of w, and of w (log p - log q) before both are normalised
  Part weight, part;
  for (std::int64_t first = 0; first < x.size(); first += kPart) {
    const std::int64_t count = std::min(kPart, x.size() - first);
    part.head(count) = reference.segment(first, count) - p.max;
    weight.head(count) = part.head(count).exp();
    part.head(count) -= x.segment(first, count) - q.max;
    sum += weight.head(count).cast<double>().sum();
    difference += (weight.head(count) * part.head(count)).cast<double>().sum();
  }
  return difference / sum - p.log_sum + q.log_sum;
}

/// Calls f(row) for each of the rows on threads; it says whether the row's logits are finite.
void for_rows(std::size_t num_rows, int num_threads, const std::function<bool(std::int64_t)>& f) {
  std::atomic<bool> all_finite = true;
  kernels::for_slices(num_threads, static_cast<std::int64_t>(num_rows), 1,
                      [&](std::int64_t first, std::int64_t last) {
                        for (std::int64_t r = first; r < last; ++r)
                          if (!f(r)) all_finite = false;
                      });
  if (!all_finite) {
    throw Error(ErrorCode::invalid_argument,
                "the model gave logits that are not finite: its weights overflow its dtype, or "
                "are broken; try dtype f32");
  }
}

}  // namespace

void score_rows(std::span<const float> logits, std::span<const std::int32_t> targets,
                int num_threads, std::span<double> losses) {
  if (targets.empty()) return;
  const auto vocab_size = static_cast<std::int64_t>(logits.size() / targets.size());
  for_rows(targets.size(), num_threads, [&](std::int64_t r) {
    const Row row(logits.data() + r * vocab_size, vocab_size);
    if (!row.allFinite()) return false;
    const Normaliser all = normaliser_of(row);
    const auto i = static_cast<std::size_t>(r);
    losses[i] = all.log_sum - (static_cast<double>(row[targets[i]]) - static_cast<double>(all.max));
    return true;
  });
}

bool is_greedy(std::span<const float> row, std::int32_t target) {
  return std::max_element(row.begin(), row.end()) - row.begin() == target;
}

void divergence_rows(std::span<const float> reference, std::span<const float> logits,
                     int num_threads, std::span<double> divergences) {
  if (divergences.empty()) return;
  const auto vocab_size = static_cast<std::int64_t>(logits.size() / divergences.size());
  for_rows(divergences.size(), num_threads, [&](std::int64_t r) {
    const Row p(reference.data() + r * vocab_size, vocab_size);
    const Row q(logits.data() + r * vocab_size, vocab_size);
    if (!p.allFinite() || !q.allFinite()) return false;
    divergences[static_cast<std::size_t>(r)] = divergence_of(p, q);
    return true;
  });
}

}  // namespace tessera::lm::quality
