#include <fmt/format.h>

#include <cmath>
#include <string>

#include "damped_fit.h"
#include "experts.h"
#include "tessera/core/error.h"

namespace tessera::cost::models {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Chosen by held-out error over shapes, and over A100 and H200, each from the other with 20 points.
constexpr std::size_t kMostPoints = 1500;  // enough for 14 parameters; the rest only costs time
constexpr int kSteps = 40;
constexpr double kScale = 0.1;       // errors beyond this count linearly
constexpr double kPrecision = 0.01;  // of the prior, per squared logarithm
constexpr double kDonorPrecision = 0.09;

struct Points {
  std::vector<ExpertWork> works;
  std::vector<double> log_s;
};

Points points_of(const ExpertRates& rates, const std::vector<Sample>& samples) {
  Points points;
  for (const std::size_t i : some_of(samples.size(), kMostPoints)) {
    const Sample& sample = samples[i];
    check_query(sample.query);
    if (!(sample.latency_s > 0) || !std::isfinite(sample.latency_s)) {
      throw Error(ErrorCode::invalid_argument,
                  describe(sample.query) + ": latency_s is not a positive time", "latency_s");
    }
    points.works.push_back(expert_work(rates, sample.query));
    points.log_s.push_back(std::log(sample.latency_s));
  }
  return points;
}

/// The kernel after it has moved along the directions to where the points want it.
ExpertKernel moved(const ExpertKernel& from, const ExpertRates& rates, const Points& points,
                   const MatrixXd& directions, double precision) {
  if (points.works.empty()) return from;
  const ExpertKernel::Vector start = from.values().array().log();
  const auto at = [&](const VectorXd& moves) {
    return ExpertKernel(ExpertKernel::bounded(start + directions * moves));
  };
  const auto residuals = [&](const VectorXd& moves) {
    const ExpertKernel kernel = at(moves);
    VectorXd result(static_cast<Index>(points.works.size()));
    for (std::size_t i = 0; i < points.works.size(); ++i) {
      result[static_cast<Index>(i)] =
          std::log(kernel.seconds(rates, points.works[i])) - points.log_s[i];
    }
    return result;
  };
  const DampedFit fit{residuals, VectorXd::Constant(directions.cols(), precision), kScale, kSteps};
  return at(fit.solve());
}

/// To the digits that a file keeps, so that what is read back is what was fitted.
std::unique_ptr<Experts> rounded_model(const Device& device, const std::string& dtype,
                                       const ExpertKernel& kernel) {
  ExpertKernel::Vector values = kernel.values();
  for (double& value : values) value = std::stod(fmt::format("{:.5g}", value));
  return std::make_unique<Experts>(device, dtype, ExpertKernel(values));
}

/// Points of one device, or of several that share the experts.
std::vector<Sample> chosen(const std::vector<Sample>& samples, bool alone) {
  std::vector<Sample> result;
  for (const Sample& sample : samples) {
    if ((sample.query.num_devices == 1) == alone) result.push_back(sample);
  }
  return result;
}

}  // namespace

std::unique_ptr<Experts> fit_experts(const Device& device, const std::vector<Sample>& samples) {
  if (samples.empty()) {
    throw Error(ErrorCode::invalid_argument, "experts: no samples to fit", "samples");
  }
  const std::string& dtype = samples.front().query.dtype;
  const ExpertRates rates = expert_rates(device, dtype);
  const std::vector<Sample> alone = chosen(samples, true), shared = chosen(samples, false);
  const ExpertKernel first = moved(ExpertKernel(ExpertKernel::typical()), rates,
                                   points_of(rates, alone.empty() ? shared : alone),
                                   ExpertKernel::all_directions(), kPrecision);
  const ExpertKernel all = shared.empty() ? first.on_one_device()
                                          : moved(first, rates, points_of(rates, shared),
                                                  ExpertKernel::spread_directions(), kPrecision);
  return rounded_model(device, dtype, all);
}

std::unique_ptr<Experts> scale_experts(const Device& device, const std::vector<Sample>& samples,
                                       const Experts& donor) {
  const ExpertRates rates = expert_rates(device, donor.dtype());
  return rounded_model(device, donor.dtype(),
                       moved(donor.kernel(), rates, points_of(rates, samples),
                             ExpertKernel::donor_directions(), kDonorPrecision));
}

}  // namespace tessera::cost::models
