#include "best_split.h"

#include <algorithm>
#include <limits>

namespace tessera::solver {
namespace {

constexpr std::size_t kMostStates = 700;  // what is left of the devices, in lumps
// Scores count requests first and parts, which are to be few, second.
constexpr std::int64_t kRequest = 1 << 20, kPart = -1;
constexpr std::int64_t kImpossible = std::numeric_limits<std::int64_t>::min() / 4;

std::int64_t score_of(std::int64_t worth) {
  return worth > 0 ? worth * kRequest + kPart : kImpossible;
}

bool is_next(Counts& counts, const Counts& most) {  // as an odometer, the first digit fastest
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] < most[k]) {
      ++counts[k];
      return true;
    }
    counts[k] = 0;
  }
  return false;
}

bool fits(const Counts& part, const Counts& left) {
  for (std::size_t k = 0; k < part.size(); ++k) {
    if (part[k] > left[k]) return false;
  }
  return true;
}

}  // namespace

BestSplit::BestSplit(const Counts& all, bool may_leave_out)
    : all_(all), lump_(all.size(), 1), lumps_(all), may_leave_out_(may_leave_out) {
  const auto states = [&] {
    std::size_t product = 1;
    for (const std::size_t number : lumps_)
      product = std::min(product * (number + 1), kMostStates + 1);
    return product;
  };
  while (states() > kMostStates) {
    const auto most = std::max_element(lumps_.begin(), lumps_.end()) - lumps_.begin();
    const auto k = static_cast<std::size_t>(most);
    lump_[k] *= 2;
    lumps_[k] = all_[k] / lump_[k];
    complete_ = false;
  }
  add_parts();
}

void BestSplit::add_parts() {
  for (std::size_t k = 0; k < all_.size(); ++k) {
    of_alike_.emplace_back();
    for (std::size_t number = 1; number <= all_[k]; ++number) {
      of_alike_.back().push_back(parts_.size());
      parts_.emplace_back(all_.size());
      parts_.back()[k] = number;
    }
  }
  Counts in_lumps(all_.size());
  while (is_next(in_lumps, lumps_)) {
    const auto kinds =
        std::count_if(in_lumps.begin(), in_lumps.end(), [](std::size_t n) { return n > 0; });
    if (kinds < 2) continue;
    Counts part = in_lumps;
    std::size_t step = 0, digit = 1;
    for (std::size_t k = 0; k < part.size(); ++k) {
      step += digit * part[k];
      digit *= lumps_[k] + 1;
      part[k] *= lump_[k];
    }
    mixed_.push_back({parts_.size(), step, in_lumps});
    parts_.push_back(std::move(part));
  }
}

BestSplit::Row BestSplit::best_of_alike(std::size_t k,
                                        const std::vector<std::int64_t>& worth) const {
  Row row{{0}, {0}};
  for (std::size_t number = 1; number <= all_[k]; ++number) {
    row.score.push_back(may_leave_out_ ? row.score.back() : kImpossible);
    row.taken.push_back(0);
    for (std::size_t taken = 1; taken <= number; ++taken) {
      const std::int64_t score =
          score_of(worth[of_alike_[k][taken - 1]]) + row.score[number - taken];
      if (score <= row.score[number]) continue;
      row.score[number] = score;
      row.taken[number] = taken;
    }
  }
  return row;
}

std::vector<std::size_t> BestSplit::best(const std::vector<std::int64_t>& worth) const {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::vector<Row> rows;
  for (std::size_t k = 0; k < all_.size(); ++k) rows.push_back(best_of_alike(k, worth));
  std::vector<std::int64_t> score;
  std::vector<std::size_t> by_mixed;  // [state] the mixed part that is taken first; kNone: none
  Counts left(all_.size());           // in lumps; what makes no lump is always left
  const auto number_of = [&](std::size_t k) { return lump_[k] * left[k] + all_[k] % lump_[k]; };
  do {
    std::int64_t best = 0;
    for (std::size_t k = 0; k < all_.size(); ++k) best += rows[k].score[number_of(k)];
    best = std::max(best, kImpossible);
    std::size_t by = kNone;
    for (std::size_t m = 0; m < mixed_.size(); ++m) {
      const Mixed& mixed = mixed_[m];
      if (worth[mixed.part] <= 0 || !fits(mixed.lumps, left)) continue;
      const std::int64_t found = score_of(worth[mixed.part]) + score[score.size() - mixed.step];
      if (found <= best) continue;
      best = found;
      by = m;
    }
    score.push_back(best);
    by_mixed.push_back(by);
  } while (is_next(left, lumps_));
  if (score.back() < 0) return {};

  std::vector<std::size_t> parts;
  left = lumps_;
  std::size_t state = score.size() - 1;
  for (; by_mixed[state] != kNone;) {
    const Mixed& mixed = mixed_[by_mixed[state]];
    parts.push_back(mixed.part);
    for (std::size_t k = 0; k < left.size(); ++k) left[k] -= mixed.lumps[k];
    state -= mixed.step;
  }
  for (std::size_t k = 0; k < all_.size(); ++k) {
    for (std::size_t number = number_of(k); number > 0;) {
      const std::size_t taken = rows[k].taken[number];
      if (taken > 0) parts.push_back(of_alike_[k][taken - 1]);
      number -= taken > 0 ? taken : 1;
    }
  }
  return parts;
}

}  // namespace tessera::solver
