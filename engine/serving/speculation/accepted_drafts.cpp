#include "tessera/serving/accepted_drafts.h"

#include "tessera/core/error.h"

namespace tessera::serving {
namespace {

// A step of SplitMix64 (Steele, Lea and Flood, 2014): every bit of the input changes half of the
// output's.
std::uint64_t mixed(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace

double draw_at(std::uint64_t seed, std::int64_t request, std::int64_t step) {
  const std::uint64_t of_request = mixed(mixed(seed) ^ static_cast<std::uint64_t>(request));
  const std::uint64_t bits = mixed(of_request ^ static_cast<std::uint64_t>(step));
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

std::int64_t accepted_drafts(std::uint64_t seed, std::int64_t request, std::int64_t step,
                             std::span<const double> rates) {
  const double draw = draw_at(seed, request, step);
  std::int64_t accepted = 0;
  for (const double rate : rates) {
    if (!(draw < rate)) break;
    ++accepted;
  }
  return accepted;
}

void check_rates(std::span<const double> rates, const std::string& path) {
  for (std::size_t i = 0; i < rates.size(); ++i) {
    if (!(rates[i] >= 0 && rates[i] <= 1)) {
      refuse(ErrorCode::out_of_range, path, "rate {} is {}; give shares in [0, 1]", i + 1,
             rates[i]);
    }
    if (i > 0 && rates[i] > rates[i - 1]) {
      refuse(ErrorCode::out_of_range, path,
             "rate {} is {}, above the {} before it; they are cumulative: a draft counts where all "
             "before it were accepted too",
             i + 1, rates[i], rates[i - 1]);
    }
  }
}

std::vector<double> cumulative_rates(std::span<const double> acceptance, std::int64_t num_drafts,
                                     const std::string& path) {
  if (acceptance.empty()) refuse(path, "no rate is given; give one, or one for each draft");
  check_rates(acceptance, path);
  std::vector<double> rates;
  if (acceptance.size() == 1) {
    double rate = 1;
    for (std::int64_t i = 0; i < num_drafts; ++i) rates.push_back(rate *= acceptance[0]);
    return rates;
  }
  if (num_drafts > static_cast<std::int64_t>(acceptance.size())) {
    refuse(path, "{} rates for {} drafts; give one for each, or a single one for all",
           acceptance.size(), num_drafts);
  }
  rates.assign(acceptance.begin(), acceptance.begin() + num_drafts);
  return rates;
}

}  // namespace tessera::serving
