#include "tessera/lm/sampling.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>

#include "tessera/core/error.h"
#include "tessera/core/rng.h"
#include "tessera/kernels/parallel.h"
#include "tessera/kernels/softmax.h"

namespace tessera::lm {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr std::size_t kBlock = 64;          // scores whose highest is known
constexpr std::size_t kRow = 4 * kBlock;    // scores that are summed up at once
constexpr std::size_t kLanes = kBlock / 2;  // of a maximum, so that the compiler uses vectors

void check_logits(std::span<const float> logits) {
  bool any = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    if (std::isnan(logit) || (std::isinf(logit) && logit > 0)) {
      refuse("logits",
             "token {} of {} got {}; the weights hold numbers that are not finite, or overflowed "
             "in this dtype (f32 has the widest range)",
             i, logits.size(), std::isnan(logit) ? "NaN" : "infinity");
    }
    any = any || !std::isinf(logit);
  }
  if (!any) refuse("logits", "all {} are -infinity: no token can follow", logits.size());
}

// Highest of each block; false where a number is not finite.
bool find_highs(std::span<const float> scores, std::span<float> highs) {
  float spoilt[kLanes] = {};  // Inf - Inf and NaN are NaN, and stay
  for (std::size_t block = 0; block < highs.size(); ++block) {
    const auto in =
        scores.subspan(block * kBlock, std::min(kBlock, scores.size() - block * kBlock));
    if (in.size() < kBlock) {
      highs[block] = *std::max_element(in.begin(), in.end());
      for (const float score : in) spoilt[0] += score - score;
      continue;
    }
    float high[kLanes];
    for (std::size_t i = 0; i < kLanes; ++i) {
      const float a = in[i], b = in[i + kLanes];
      high[i] = a > b ? a : b;
      spoilt[i] += (a - a) + (b - b);
    }
    for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i)
        high[i] = high[i] > high[i + half] ? high[i] : high[i + half];
    }
    highs[block] = high[0];
  }
  return std::accumulate(std::begin(spoilt), std::end(spoilt), 0.0f) == 0;
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options, std::int64_t vocab_size, Adjustments adjustments)
    : options_(options),
      adjustments_(std::move(adjustments)),
      key_(Rng(options.seed).next()),
      seen_(static_cast<std::size_t>(vocab_size), 0),
      highs_((static_cast<std::size_t>(vocab_size) + kBlock - 1) / kBlock) {
  check_adjustments();
}

void Sampler::check_adjustments() const {
  const auto check_token = [&](const char* where, std::int32_t token) {
    if (token >= 0 && token < std::ssize(seen_)) return;
    refuse(ErrorCode::out_of_range, where, "token {} is not in the vocabulary, [0, {})", token,
           seen_.size());
  };
  const auto check_number = [](const char* where, double number) {
    if (!std::isfinite(number)) refuse(where, "{} is no number to add to logits", number);
  };
  for (const auto& [token, number] : adjustments_.bias) {
    check_token("bias", token);
    check_number("bias", double{number});
  }
  for (const std::int32_t token : adjustments_.stop_tokens) check_token("stop_tokens", token);
  check_number("frequency_penalty", adjustments_.frequency_penalty);
  check_number("presence_penalty", adjustments_.presence_penalty);
}

void Sampler::see(std::int32_t token) {
  char& seen = seen_.at(static_cast<std::size_t>(token));
  if (!seen) text_.push_back(token);
  seen = 1;
}

void Sampler::add(std::int32_t token) {
  see(token);
  if (adjustments_.frequency_penalty != 0 || adjustments_.presence_penalty != 0)
    ++generated_[token];
}

bool Sampler::adjusts(std::int64_t step) const {
  return options_.repetition_penalty != 1 || !adjustments_.bias.empty() || !generated_.empty() ||
         (step < adjustments_.min_tokens && !adjustments_.stop_tokens.empty());
}

// In f32, as what is compared with does.
void Sampler::adjust(std::int64_t step) {
  const auto score = [&](std::int32_t token) -> float& {
    return adjusted_[static_cast<std::size_t>(token)];
  };
  for (const auto& [token, number] : adjustments_.bias) score(token) += number;
  if (step < adjustments_.min_tokens) {
    for (const std::int32_t token : adjustments_.stop_tokens) score(token) = kNever;
  }
  if (options_.repetition_penalty != 1) {
    const auto penalty = static_cast<float>(options_.repetition_penalty);
    for (const std::int32_t token : text_)
      score(token) = score(token) < 0 ? score(token) * penalty : score(token) / penalty;
  }
  const auto frequency = static_cast<float>(adjustments_.frequency_penalty);
  const auto presence = static_cast<float>(adjustments_.presence_penalty);
  for (const auto& [token, times] : generated_) {
    score(token) -= frequency * static_cast<float>(times);
    score(token) -= presence;
  }
}

void Sampler::read(std::span<const float> logits, std::int64_t step) {
  if (logits.size() != seen_.size()) {
    refuse("logits", "there are {} for a vocabulary of {} tokens", logits.size(), seen_.size());
  }
  scores_ = logits;
  if (adjusts(step)) {
    adjusted_.assign(logits.begin(), logits.end());
    adjust(step);
    scores_ = adjusted_;
  }
  if (!find_highs(scores_, highs_)) check_logits(scores_);
  highest_ = *std::max_element(highs_.begin(), highs_.end());
}

std::int32_t Sampler::most_likely() const {
  const auto block = std::find(highs_.begin(), highs_.end(), highest_) - highs_.begin();
  const auto first = scores_.begin() + block * static_cast<std::ptrdiff_t>(kBlock);
  return static_cast<std::int32_t>(std::find(first, scores_.end(), highest_) - scores_.begin());
}

// The highest is taken off first, as a small temperature would make it infinite.
double Sampler::weight_of(float score) const {
  return std::exp((double{score} - double{highest_}) / options_.temperature);
}

// Calls f(token) for each whose score is `least` or more, in their order.
template <class F>
void Sampler::each_from(float least, const F& f) const {
  for (std::size_t block = 0; block < highs_.size(); ++block) {
    if (highs_[block] < least) continue;
    const std::size_t end = std::min((block + 1) * kBlock, scores_.size());
    for (std::size_t i = block * kBlock; i < end; ++i) {
      if (scores_[i] >= least) f(i);
    }
  }
}

void Sampler::gather(float least) {
  candidates_.clear();
  each_from(least, [&](std::size_t i) {
    candidates_.push_back({static_cast<std::int32_t>(i), weight_of(scores_[i])});
  });
}

double Sampler::sum_of_candidates() const {
  double sum = 0;
  for (const Candidate& candidate : candidates_) sum += candidate.weight;
  return sum;
}

// Whatever is as likely as the k-th stays, as in Hugging Face's TopKLogitsWarper. The k-th highest
// of the blocks' highest scores is no higher than the k-th highest score.
void Sampler::keep_top_k() {
  const auto k = static_cast<std::ptrdiff_t>(options_.top_k);
  std::vector<float>& scores = scaled_;
  const auto kth = [&] {
    std::nth_element(scores.begin(), scores.begin() + (k - 1), scores.end(), std::greater<>());
    return scores[static_cast<std::size_t>(k - 1)];
  };
  float least = kNever;
  if (k <= static_cast<std::ptrdiff_t>(highs_.size())) {
    scores = highs_;
    least = kth();
  }
  scores.clear();
  each_from(least, [&](std::size_t i) { scores.push_back(scores_[i]); });
  gather(kth());
}

// Tokens that together have top_p, and some more: those within so many times the temperature of the
// highest score, more and more of them.
void Sampler::gather_top_p() {
  const double total = sum_by_rows();
  for (double depth = 4;; depth *= 2) {
    const bool whole = depth > 64;
    gather(whole ? kNever : static_cast<float>(double{highest_} - depth * options_.temperature));
    const double sum = sum_of_candidates();
    if (whole || sum > options_.top_p * total) return keep_top_p(whole ? sum : total);
  }
}

// A token stays where those before it, in the order of their probability, have less than top_p
// together: TopPLogitsWarper, which sums from the other end.
void Sampler::keep_top_p(double total) {
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  };
  // The first one that has top_p before it, by halves.
  auto first = candidates_.begin(), last = candidates_.end();
  double sum = 0;
  while (last - first > 1) {
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, before);
    double half = 0;
    for (auto it = first; it != middle; ++it) half += it->weight;
    if (sum + half < options_.top_p * total) {
      sum += half;
      first = middle;
    } else {
      last = middle;
    }
  }
  candidates_.erase(last, candidates_.end());
  std::ranges::sort(candidates_, {}, &Candidate::id);
}

void Sampler::select() {
  all_ = options_.top_k == 0 || options_.top_k >= static_cast<std::int64_t>(scores_.size());
  if (!all_) {
    keep_top_k();
    if (options_.top_p < 1) keep_top_p(sum_of_candidates());
  } else if (options_.top_p < 1) {
    all_ = false;
    gather_top_p();
  }
}

// Weights of each row of scores, and of all.
double Sampler::sum_by_rows() {
  const std::size_t count = scores_.size(), whole = count / kRow, rest = count % kRow;
  scaled_.resize(count);
  // A difference of two scores over the smallest temperature that is a number is 0 or very large.
  const auto temperature =
      static_cast<float>(std::max(options_.temperature, double{std::numeric_limits<float>::min()}));
  for (std::size_t i = 0; i < count; ++i) scaled_[i] = (scores_[i] - highest_) / temperature;
  row_sums_.resize(whole + (rest > 0 ? 1 : 0));
  const auto columns = static_cast<std::int64_t>(kRow);
  if (whole > 0) {
    kernels::log_sum_exp(scaled_.data(), {0, static_cast<std::int64_t>(whole)}, columns,
                         row_sums_.data());
  }
  if (rest > 0) {
    kernels::log_sum_exp(scaled_.data() + whole * kRow, {0, 1}, static_cast<std::int64_t>(rest),
                         &row_sums_.back());
  }
  double total = 0;
  for (float& sum : row_sums_) total += double{sum = std::exp(sum)};
  return total;
}

std::int32_t Sampler::draw_from_all(double draw) {
  double left = draw * sum_by_rows();
  std::size_t row = 0,
              possible = 0;  // the last row with a weight is taken where rounding leaves something
  for (; row < row_sums_.size(); ++row) {
    if (row_sums_[row] > 0) possible = row;
    if (left < double{row_sums_[row]}) break;
    left -= double{row_sums_[row]};
  }
  const std::size_t first = possible * kRow, end = std::min(first + kRow, scores_.size());
  std::size_t token = first;
  for (std::size_t i = first; i < end; ++i) {
    const double weight = weight_of(scores_[i]);
    if (weight <= 0) continue;
    token = i;
    if ((left -= weight) < 0) break;
  }
  return static_cast<std::int32_t>(token);
}

std::int32_t Sampler::draw_from_candidates(double draw) const {
  double left = draw * sum_of_candidates();
  std::int32_t token = 0;
  for (const Candidate& candidate : candidates_) {
    if (candidate.weight <= 0) continue;
    token = candidate.id;
    if ((left -= candidate.weight) < 0) break;
  }
  return token;  // the last one where rounding leaves something
}

std::int32_t Sampler::choose(std::span<const float> logits, std::int64_t step) {
  read(logits, step);
  if (options_.temperature == 0) return most_likely();
  select();
  const double draw = Rng(key_ + static_cast<std::uint64_t>(step)).uniform();
  return all_ ? draw_from_all(draw) : draw_from_candidates(draw);
}

std::vector<double> Sampler::probabilities(std::span<const float> logits, std::int64_t step) {
  read(logits, step);
  std::vector<double> result(scores_.size(), 0);
  if (options_.temperature == 0) {
    result[static_cast<std::size_t>(most_likely())] = 1;
    return result;
  }
  select();
  if (all_) gather(kNever);
  const double total = sum_of_candidates();
  for (const Candidate& candidate : candidates_)
    result[static_cast<std::size_t>(candidate.id)] = candidate.weight / total;
  return result;
}

void choose(std::span<Choice> choices, int num_threads) {
  std::vector<std::exception_ptr> thrown(choices.size());
  const auto some = [&](std::int64_t first, std::int64_t last) {
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
      Choice& choice = choices[i];
      try {
        choice.token = choice.sampler->choose(choice.logits, choice.step);
      } catch (...) {
        thrown[i] = std::current_exception();
      }
    }
  };
  kernels::for_slices(num_threads > 0 ? num_threads : kernels::hardware_threads(),
                      std::ssize(choices), 1, some);
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

LogProbabilities log_probabilities(std::span<const float> logits, std::int32_t token,
                                   std::int64_t num_top) {
  const std::int64_t count = std::ssize(logits);
  if (token < 0 || token >= count || num_top < 0 || num_top > count) {
    refuse(ErrorCode::out_of_range, "log_probabilities",
           "of token {} and the {} likeliest, in a vocabulary of {}", token, num_top, count);
  }
  float total = 0;
  kernels::log_sum_exp(logits.data(), {0, 1}, count, &total);
  if (!std::isfinite(total)) check_logits(logits);
  LogProbabilities found;
  found.chosen = double{logits[static_cast<std::size_t>(token)]} - double{total};
  const auto higher = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  // A heap whose first is the least of the highest so far: hardly any token gets past it.
  std::vector<std::int32_t> top;
  for (std::int32_t id = 0; id < count && num_top > 0; ++id) {
    if (std::ssize(top) == num_top) {
      if (!higher(id, top.front())) continue;
      std::ranges::pop_heap(top, higher);
      top.pop_back();
    }
    top.push_back(id);
    std::ranges::push_heap(top, higher);
  }
  std::ranges::sort(top, higher);
  for (const std::int32_t id : top)
    found.top.push_back({id, double{logits[static_cast<std::size_t>(id)]} - double{total}});
  return found;
}

}  // namespace tessera::lm
