#include "expert_loads.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera::cost {
namespace {

constexpr double kFewRowsSpread = 200;   // the largest load over the least, 0.01 .. 2
constexpr double kTokensSpread = 0.8;    // the same, per token
constexpr double kWholeTile = 1 - 1e-9;  // what rounding takes for a full tile

// Load `share` of the way from the least to the most, the least being 1.
double power_law(double share, double spread, double exponent) {
  const double steepness = 1 - exponent;
  if (std::fabs(steepness) < 1e-6) return std::pow(spread, share);
  return std::pow(1 + share * (std::pow(spread, steepness) - 1), 1 / steepness);
}

template <std::size_t Size>
void sample(std::array<double, Size>& loads, double spread, double exponent, double mean) {
  for (std::size_t i = 0; i < Size; ++i) {
    loads[i] = power_law((static_cast<double>(i) + 0.5) / Size, spread, exponent);
  }
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  for (double& load : loads) load *= mean * Size / sum;
}

template <std::size_t Size>
double squared_variation(const std::array<double, Size>& loads) {
  double sum = 0, squares = 0;
  for (const double load : loads) sum += load, squares += load * load;
  return std::max(0.0, Size * squares / (sum * sum) - 1);
}

// The busiest of several devices gets so much more than the mean as the largest of that many
// numbers that are near normal, being sums of independent loads and of tokens that go by chance.
double busiest_share(double num_devices, double squared_variation) {
  if (num_devices == 1) return 1;
  const double largest_normal = 0.8 * std::pow(std::log(num_devices), 0.75);
  return 1 + largest_normal * std::sqrt(squared_variation);
}

}  // namespace

ExpertLoads::ExpertLoads(const OpQuery& query)
    : held_(query.num_experts / query.num_devices),
      tokens_(query.tokens),
      dealt_(query.batch_size == 0) {
  const double rows = query.tokens * query.top_k, mean = rows / query.num_experts;
  const double by_chance = dealt_ ? 0 : (query.num_devices - 1) / rows;  // of a device's rows
  if (query.routing == 0) {
    loads_.fill(std::min(mean * busiest_share(query.num_devices, by_chance), query.tokens));
    return;
  }
  // Fewer rows than experts spread otherwise than more do, and not less than the first of these: it
  // would let more tokens cost less.
  const double few_rows = std::max(kFewRowsSpread, kTokensSpread * query.num_experts / query.top_k);
  const double of_tokens = std::max(1.0, kTokensSpread * query.tokens);
  double share = 1;
  if (query.num_devices > 1) {
    sample(loads_, std::max(few_rows, of_tokens), query.routing, mean);
    share = busiest_share(query.num_devices, squared_variation(loads_) / held_ + by_chance);
  }
  sample(loads_, rows > query.num_experts ? of_tokens : few_rows, query.routing, mean);
  // What an expert cannot take, because it would get a token twice, the others do.
  double over = 0, room = 0;
  for (double& load : loads_) {
    over += std::max(0.0, load - query.tokens);
    load = std::min(load, query.tokens);
    room += query.tokens - load;
  }
  for (double& load : loads_) {
    if (room > 0) load += over * std::min(1.0, (query.tokens - load) / room);
    load = std::min(load * share, query.tokens);
  }
}

double ExpertLoads::rows() const {
  return held_ * std::accumulate(loads_.begin(), loads_.end(), 0.0) / kNumGroups;
}

// Each token takes it or not, by its share of all.
double ExpertLoads::visited(double load) const {
  if (dealt_) return std::min(load, 1.0);
  return 1 - std::pow(1 - std::min(1.0, load / tokens_), tokens_);
}

double ExpertLoads::touched() const {
  double sum = 0;
  for (const double load : loads_) sum += visited(load);
  return held_ * sum / kNumGroups;
}

double ExpertLoads::tiles(double tile_rows) const {
  double sum = 0;
  for (const double load : loads_) {
    sum += visited(load) * std::max(1.0, std::floor(load / tile_rows + kWholeTile));
  }
  return held_ * sum / kNumGroups;
}

}  // namespace tessera::cost
