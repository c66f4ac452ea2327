#include "experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "../counts.h"
#include "../expert_loads.h"
#include "models.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera::cost::models {
namespace {

constexpr std::array<double, kNumExpertTiles> kTileRows = {16, 32, 64, 128};
constexpr double kTileColumns = 128;

// Indices of the shared parameters; then one rate share and one set-up time per tile.
enum Shared { kLaunch, kEachExpert, kMemoryRatio, kMoved, kPassed, kBlend, kWaveShare, kSpread };
constexpr int kFirstRate = ExpertKernel::kNumShared;
constexpr int kFirstSetup = kFirstRate + kNumExpertTiles;

struct Parameter {
  const char* name;
  double typical, least, most;
};

// What each means: see ExpertKernel::seconds. Shares of the data sheet's rates end at 1.
constexpr std::array<Parameter, ExpertKernel::kNumParameters> kParameters = {{
    {"launch_s", 20e-6, 1e-7, 1e-2},
    {"expert_s", 5e-8, 1e-10, 1e-5},
    {"memory_ratio", 0.9, 0.05, 1},
    {"moved_ratio", 2, 0.02, 100},
    {"passed_ratio", 0.5, 1e-4, 100},
    {"blend", 3, 1.2, 8},
    {"wave_share", 0.5, 1e-3, 1},
    {"spread_s", 5e-6, 1e-9, 1e-2},
    {"rate_ratio_16", 0.2, 1e-3, 1},
    {"rate_ratio_32", 0.35, 1e-3, 1},
    {"rate_ratio_64", 0.5, 1e-3, 1},
    {"rate_ratio_128", 0.5, 1e-3, 1},
    {"setup_s_16", 1.5e-6, 1e-9, 1e-3},
    {"setup_s_32", 1.5e-6, 1e-9, 1e-3},
    {"setup_s_64", 1.5e-6, 1e-9, 1e-3},
    {"setup_s_128", 1.5e-6, 1e-9, 1e-3},
}};

Eigen::MatrixXd directions(const std::vector<std::vector<int>>& groups) {
  Eigen::MatrixXd result =
      Eigen::MatrixXd::Zero(ExpertKernel::kNumParameters, static_cast<Eigen::Index>(groups.size()));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const int parameter : groups[g]) result(parameter, static_cast<Eigen::Index>(g)) = 1;
  }
  return result;
}

std::unique_ptr<OpModel> read(const Device& device, const Json& coefficients,
                              const std::string& path) {
  JsonFields fields(coefficients, path);
  const std::string dtype = fields.text("dtype");
  const ExpertKernel kernel = ExpertKernel::read(fields.at("kernel"), fields.path_of("kernel"));
  fields.finish();
  return std::make_unique<Experts>(device, dtype, kernel);
}

std::unique_ptr<OpModel> fit(const Device& device, const std::vector<Sample>& samples,
                             const OpModel* donor) {
  if (donor == nullptr) return fit_experts(device, samples);
  const auto* form = dynamic_cast<const Experts*>(donor);
  if (form == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "experts: the donor is a model of another kind, whose form cannot be scaled",
                "donor");
  }
  return scale_experts(device, samples, *form);
}

}  // namespace

ExpertRates expert_rates(const Device& device, const std::string& dtype) {
  OpQuery unit;
  unit.op = Op::experts;
  unit.dtype = dtype;
  unit.tokens = unit.hidden_size = unit.inner_size = unit.num_experts = unit.top_k = 1;
  const OpWork work = work_of(device, unit);
  const DtypeTraits traits = dtype_traits(dtype);
  return {work.flop_per_s, work.bytes_per_s, traits.weight_bits / 8, traits.activation_bits / 8,
          multiprocessors_of(device)};
}

ExpertWork expert_work(const ExpertRates& rates, const OpQuery& q) {
  const ExpertLoads loads(q);
  const double rows = loads.rows(), all_rows = q.tokens * q.top_k;
  const double row_bytes = (2 * q.hidden_size + 3 * q.inner_size) * kFp16Bytes;
  ExpertWork work;
  work.held = q.num_experts / q.num_devices;
  work.spread = q.num_devices > 1 ? 1 : 0;
  work.bytes =
      loads.touched() * kMatricesOfExpert * q.hidden_size * q.inner_size * rates.weight_bytes +
      rows * ((q.hidden_size + q.inner_size) * rates.activation_bytes +
              (q.hidden_size + 2 * q.inner_size) * kFp16Bytes);
  work.moved = rows * row_bytes;
  // The busiest device may get more rows than the mean, and never more than there are.
  work.passed = std::max(0.0, all_rows - rows) * row_bytes;
  for (int i = 0; i < kNumExpertTiles; ++i) work.row_tiles[i] = loads.tiles(kTileRows[i]);
  work.products = {{{std::ceil(2 * q.inner_size / kTileColumns), q.hidden_size},
                    {std::ceil(q.hidden_size / kTileColumns), q.inner_size}}};
  return work;
}

double ExpertKernel::tiled_s(const ExpertRates& rates, const ExpertWork& work) const {
  const double sm_flop_per_s = rates.flop_per_s / rates.num_sms, share = values_[kWaveShare];
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kNumExpertTiles; ++i) {
    const double step_s =
        2 * kTileRows[i] * kTileColumns / (sm_flop_per_s * values_[kFirstRate + i]);
    double sum = 0;
    for (const ExpertWork::Product& product : work.products) {
      const double load = work.row_tiles[i] * product.column_tiles / rates.num_sms;
      const double waves = share * std::ceil(load) + (1 - share) * std::max(load, 1.0);
      sum += waves * (values_[kFirstSetup + i] + product.depth * step_s);
    }
    best = std::min(best, sum);
  }
  return best;
}

double ExpertKernel::seconds(const ExpertRates& rates, const ExpertWork& work) const {
  const double read_s = work.bytes / (rates.bytes_per_s * values_[kMemoryRatio]);
  const double tiled = tiled_s(rates, work), more = std::max(read_s, tiled);
  const double blend = values_[kBlend];
  const double both =
      more * std::pow(std::pow(read_s / more, blend) + std::pow(tiled / more, blend), 1 / blend);
  return values_[kLaunch] + values_[kSpread] * work.spread + values_[kEachExpert] * work.held +
         both + (values_[kMoved] * work.moved + values_[kPassed] * work.passed) / rates.bytes_per_s;
}

ExpertKernel::Vector ExpertKernel::typical() {
  Vector result;
  for (int i = 0; i < kNumParameters; ++i) result[i] = kParameters[i].typical;
  return result;
}

ExpertKernel::Vector ExpertKernel::bounded(const Vector& logarithms) {
  Vector result;
  for (int i = 0; i < kNumParameters; ++i) {
    result[i] = std::clamp(std::exp(logarithms[i]), kParameters[i].least, kParameters[i].most);
  }
  return result;
}

Eigen::MatrixXd ExpertKernel::all_directions() {
  Eigen::MatrixXd result = Eigen::MatrixXd::Identity(kNumParameters, kNumParameters);
  result(kPassed, kPassed) = result(kSpread, kSpread) = 0;
  return result;
}

Eigen::MatrixXd ExpertKernel::spread_directions() { return directions({{kPassed}, {kSpread}}); }

ExpertKernel ExpertKernel::on_one_device() const {
  Vector values = values_;
  values[kSpread] = kParameters[kSpread].least;
  return ExpertKernel(values);
}

Eigen::MatrixXd ExpertKernel::donor_directions() {
  std::vector<std::vector<int>> groups = {
      {kLaunch, kEachExpert, kSpread}, {kMemoryRatio}, {kMoved, kPassed}, {}};
  for (int i = 0; i < kNumExpertTiles; ++i) {
    groups[0].push_back(kFirstSetup + i);
    groups[3].push_back(kFirstRate + i);
  }
  return directions(groups);
}

Json ExpertKernel::coefficients() const {
  Json json;
  for (int i = 0; i < kNumParameters; ++i) {
    const bool unsaid = i == kSpread && values_[i] <= kParameters[i].least;
    if (!unsaid) json[kParameters[i].name] = values_[i];
  }
  return json;
}

ExpertKernel ExpertKernel::read(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  Vector values;
  for (int i = 0; i < kNumParameters; ++i) {
    const auto& [name, typical, least, most] = kParameters[i];
    // Of a kernel that was measured on one device at a time there is nothing to say of several.
    values[i] =
        i == kSpread ? fields.number(name, least, most, least) : fields.number(name, least, most);
  }
  fields.finish();
  return ExpertKernel(values);
}

Experts::Experts(const Device& device, std::string dtype, const ExpertKernel& kernel)
    : dtype_(std::move(dtype)), kernel_(kernel) {
  for (const std::string& known : known_dtypes()) rates_[known] = expert_rates(device, known);
}

double Experts::seconds(const OpQuery& query) const {
  check_query(query);
  const ExpertRates& rates = rates_.at(query.dtype);
  return kernel_.seconds(rates, expert_work(rates, query));
}

Json Experts::coefficients() const {
  return {{"dtype", dtype_}, {"kernel", kernel_.coefficients()}};
}

const FitMethod& experts() {
  static const FitMethod method{"experts", fit, read};
  return method;
}

}  // namespace tessera::cost::models
