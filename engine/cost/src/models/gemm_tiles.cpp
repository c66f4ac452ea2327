#include "gemm_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "../counts.h"
#include "../work.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera::cost::models {
namespace {

// Indices of the shared parameters; then one rate share and one set-up time per tile.
enum Shared {
  kLaunch,
  kMemoryRatio,
  kSmMemoryRatio,
  kWaveShare,
  kSplit,
  kReductionRatio,
  kSkinnyLaunch,
  kSkinnyCost,
  kQuantiseRatio,
  kQuantiseLeast,
};

struct Bounds {
  double least, most;
};

struct SharedParameter {
  const char* name;
  double typical;
  Bounds bounds;
};

// What each means: see GemmTiles::seconds.
constexpr std::array<SharedParameter, GemmTiles::kNumShared> kShared = {{
    {"launch_s", 4e-6, {1e-9, 1e-2}},
    {"memory_ratio", 0.85, {1e-3, 1e3}},
    {"sm_memory_ratio", 2, {1e-3, 1e4}},
    {"wave_share", 0.73, {1e-4, 0.9999}},
    {"split_s", 1e-6, {1e-12, 1}},
    {"reduction_ratio", 0.7, {1e-6, 1e6}},
    {"skinny_launch_s", 5e-6, {1e-9, 1e-2}},
    {"skinny_cost", 60, {1e-3, 1e9}},
    {"quantise_ratio", 1, {1e-12, 1e6}},
    {"quantise_least", 128, {1e-3, 1e6}},
}};
// Products of 8-bit activations that were fitted before there was a term for them: nothing.
constexpr double kNoQuantisation = 1e-12;
constexpr double kTypicalRateRatio = 0.7;
constexpr double kTypicalSetupS = 1.5e-6;
constexpr Bounds kRateBounds{1e-4, 1e4};
constexpr Bounds kSetupBounds{1e-12, 1};
constexpr int kFirstRate = GemmTiles::kNumShared;
constexpr int kFirstSetup = kFirstRate + GemmTiles::kNumTiles;

const Bounds& bounds_of(int parameter) {
  if (parameter >= kFirstSetup) return kSetupBounds;
  return parameter >= kFirstRate ? kRateBounds : kShared[parameter].bounds;
}

constexpr double kKernelStep = 32;  // depth of k that a tile works through at a time
constexpr double kPartialBytes = 4;
constexpr std::array<double, 7> kSplits = {1, 2, 3, 4, 6, 8, 12};

// A larger power would follow the slower of the two more closely, a smaller one add them up.
double either(double a, double b) { return std::cbrt(a * a * a + b * b * b); }

}  // namespace

GemmRates gemm_rates(const Device& device, const std::string& dtype) {
  OpQuery unit;
  unit.dtype = dtype;
  unit.m = unit.n = unit.k = 1;
  const OpWork work = work_of(device, unit);
  const DtypeTraits traits = dtype_traits(dtype);
  GemmRates rates;
  rates.flop_per_s = work.flop_per_s;
  rates.bytes_per_s = work.bytes_per_s;
  rates.weight_bytes = traits.weight_bits / 8;
  rates.activation_bytes = traits.activation_bits / 8;
  rates.num_sms = multiprocessors_of(device);
  rates.compute_capability = device.compute_capability;
  const auto cores = device.flop_per_s.find("fp32");
  rates.core_flop_per_s =
      cores == device.flop_per_s.end() ? device.flop_per_s.at("fp16") : cores->second;
  return rates;
}

bool same_chip(const GemmRates& a, const GemmRates& b) {
  return a.compute_capability == b.compute_capability && a.num_sms == b.num_sms;
}

GemmTiles GemmTiles::carried_to(const GemmRates& rates) const {
  Vector values = values_;
  if (rates.compute_capability == rates_.compute_capability) {
    const double faster =
        rates.core_flop_per_s / rates_.core_flop_per_s / (rates.bytes_per_s / rates_.bytes_per_s);
    values[kSmMemoryRatio] *= faster;
    values[kReductionRatio] /= faster;
    if (values[kQuantiseRatio] > kNoQuantisation) values[kQuantiseRatio] /= faster;
  }
  return {rates, from_free(to_free(values))};
}

const std::vector<GemmTile>& GemmTiles::tiles() {
  static const std::vector<GemmTile> tiles = {{16, 64},   {16, 128},  {32, 128},
                                              {64, 64},   {64, 128},  {128, 64},
                                              {128, 128}, {256, 128}, {128, 256}};
  return tiles;
}

GemmTiles::Vector GemmTiles::typical() {
  Vector result;
  for (int i = 0; i < kNumShared; ++i) result[i] = kShared[i].typical;
  result.segment<kNumTiles>(kFirstRate).setConstant(kTypicalRateRatio);
  result.segment<kNumTiles>(kFirstSetup).setConstant(kTypicalSetupS);
  return result;
}

GemmTiles::Vector GemmTiles::to_free(const Vector& values) {
  Vector free = values.array().log();
  free[kWaveShare] -= std::log1p(-values[kWaveShare]);
  return free;
}

GemmTiles::Vector GemmTiles::from_free(const Vector& free) {
  Vector values;
  for (int i = 0; i < kNumParameters; ++i) {
    const Bounds bounds = bounds_of(i);
    const double value = i == kWaveShare ? 1 / (1 + std::exp(-free[i])) : std::exp(free[i]);
    values[i] = std::clamp(value, bounds.least, bounds.most);
  }
  return values;
}

double GemmTiles::memory_s(const GemmShape& s) const {
  const double bytes =
      s.n * s.k * rates_.weight_bytes + s.m * s.k * rates_.activation_bytes + s.m * s.n * 2;
  return bytes / (rates_.bytes_per_s * values_[kMemoryRatio]);
}

double GemmTiles::tiled_s(const GemmShape& s) const {
  const double sm_flop_per_s = rates_.flop_per_s / rates_.num_sms;
  const double sm_bytes_per_s = rates_.bytes_per_s / rates_.num_sms * values_[kSmMemoryRatio];
  const double partial_s =
      s.m * s.n * kPartialBytes / rates_.bytes_per_s * values_[kReductionRatio];
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kNumTiles; ++i) {
    const GemmTile& tile = tiles()[i];
    const double grid = std::ceil(s.m / tile.rows) * std::ceil(s.n / tile.columns);
    const double step_s =
        std::max(2 * tile.rows * tile.columns / (sm_flop_per_s * values_[kFirstRate + i]),
                 (tile.rows * rates_.activation_bytes + tile.columns * rates_.weight_bytes) /
                     sm_bytes_per_s);
    const double setup_s = values_[kFirstSetup + i];
    for (const double split : kSplits) {
      const double load = grid * split / rates_.num_sms;
      const double waves = values_[kWaveShare] * std::ceil(load - 1e-9) +
                           (1 - values_[kWaveShare]) * std::max(load, 1.0);
      const double depth = std::ceil(s.k / split / kKernelStep) * kKernelStep;
      const double merge_s = split > 1 ? values_[kSplit] + split * partial_s : 0;
      best = std::min(best, waves * (setup_s + depth * step_s) + merge_s);
    }
  }
  return best;
}

// Activations arrive in 16 bits; a short row takes as long as one of `quantise_least` values.
double GemmTiles::quantise_s(const GemmShape& s) const {
  if (rates_.activation_bytes >= kFp16Bytes) return 0;
  const double row_bytes = either(s.k, values_[kQuantiseLeast]) * kFp16Bytes;
  return s.m * row_bytes / rates_.bytes_per_s * values_[kQuantiseRatio];
}

double GemmTiles::seconds(const GemmShape& s) const {
  const double memory = memory_s(s);
  const double tiled = values_[kLaunch] + either(tiled_s(s), memory);
  // A row of the weights at a time on the ordinary cores: cheap to start, dear per row.
  const double products_s = s.m * s.n * s.k / rates_.flop_per_s * values_[kSkinnyCost];
  return std::min(tiled, values_[kSkinnyLaunch] + either(memory, products_s)) + quantise_s(s);
}

const std::vector<std::vector<int>>& gemm_parameter_groups() {
  static const std::vector<std::vector<int>> groups = [] {
    std::vector<std::vector<int>> result = {{kLaunch, kSkinnyLaunch},
                                            {kSplit},
                                            {kMemoryRatio},
                                            {kSmMemoryRatio},
                                            {kWaveShare},
                                            {},
                                            {},
                                            {kQuantiseRatio},
                                            {kQuantiseLeast}};
    for (int i = 0; i < GemmTiles::kNumTiles; ++i) {
      result[5].push_back(kFirstRate + i);
      result[6].push_back(kFirstSetup + i);
    }
    return result;
  }();
  return groups;
}

namespace {

// What quantising activations takes is of products with 8-bit ones alone.
int num_shared_of(const GemmRates& rates) {
  return rates.activation_bytes < kFp16Bytes ? GemmTiles::kNumShared : kQuantiseRatio;
}

}  // namespace

Json to_json(const GemmTiles& tiles) {
  const GemmTiles::Vector& values = tiles.values();
  Json json;
  const bool is_quantised = values[kQuantiseRatio] > kNoQuantisation;
  const int count = is_quantised ? num_shared_of(tiles.rates()) : kQuantiseRatio;
  for (int i = 0; i < count; ++i) json[kShared[i].name] = values[i];
  json["rate_ratio"] = Json::array();
  json["setup_s"] = Json::array();
  for (int i = 0; i < GemmTiles::kNumTiles; ++i) {
    json["rate_ratio"].push_back(values[kFirstRate + i]);
    json["setup_s"].push_back(values[kFirstSetup + i]);
  }
  return json;
}

GemmTiles gemm_tiles_from_json(const GemmRates& rates, const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  GemmTiles::Vector values = GemmTiles::typical();
  for (int i = 0; i < kQuantiseRatio; ++i) {
    values[i] = fields.number(kShared[i].name, kShared[i].bounds.least, kShared[i].bounds.most);
  }
  for (int i = kQuantiseRatio; i < num_shared_of(rates); ++i) {
    const double absent = i == kQuantiseRatio ? kNoQuantisation : kShared[i].typical;
    values[i] =
        fields.number(kShared[i].name, kShared[i].bounds.least, kShared[i].bounds.most, absent);
  }
  const auto read = [&](const char* key, int first, const Bounds& bounds) {
    const std::vector<double> list =
        json_numbers(fields.at(key), fields.path_of(key), bounds.least, bounds.most);
    if (list.size() != GemmTiles::kNumTiles) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: {} numbers, one for each of the {} tiles is needed",
                              fields.path_of(key), list.size(), GemmTiles::kNumTiles),
                  key);
    }
    for (int i = 0; i < GemmTiles::kNumTiles; ++i) values[first + i] = list[i];
  };
  read("rate_ratio", kFirstRate, kRateBounds);
  read("setup_s", kFirstSetup, kSetupBounds);
  fields.finish();
  return GemmTiles(rates, values);
}

}  // namespace tessera::cost::models
