#include "tessera/cost/recalibration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/core/error.h"

namespace tessera::cost {

RatioFit fit_ratios(const std::vector<double>& ratios) {
  RatioFit fit;
  if (ratios.empty()) return fit;
  const auto count = static_cast<double>(ratios.size());
  double sum = 0;
  for (const double ratio : ratios) sum += std::log(ratio);
  const double mean = sum / count;
  fit.factor = std::exp(mean);
  if (ratios.size() == 1) return fit;
  double squares = 0, worst = 0;
  for (const double ratio : ratios) {
    squares += (std::log(ratio) - mean) * (std::log(ratio) - mean);
    const double others = (sum - std::log(ratio)) / (count - 1);
    worst = std::max(worst, std::exp(std::abs(std::log(ratio) - others)) - 1);
  }
  fit.spread = std::sqrt(squares / (count - 1));
  if (ratios.size() > 2) fit.left_out_error = worst;
  return fit;
}

bool Recalibration::ran_on(const Device& device) const {
  return std::find(devices.begin(), devices.end(), device.name) != devices.end();
}

void Recalibration::check_is_of(const ModelShape& wanted, const std::string& path) const {
  if (model == wanted.name) return;
  refuse(path, "runs of {} corrected it, which say nothing of {}; plan by kernel set {}", model,
         wanted.name, of);
}

void Recalibration::check_ran_on(const Cluster& cluster, const std::string& path) const {
  const bool did = std::any_of(cluster.devices.begin(), cluster.devices.end(),
                               [&](const ClusterDevice& slot) { return ran_on(slot.device); });
  if (did) return;
  refuse(path, "runs on {} corrected it, of which the cluster has none; plan by kernel set {}",
         fmt::join(devices, ", "), of);
}

std::optional<double> Recalibration::error() const {
  const auto prefill = fit_ratios(prefill_ratios).error();
  const auto decode = fit_ratios(decode_ratios).error();
  return prefill && decode ? std::max(prefill, decode) : prefill ? prefill : decode;
}

std::string Recalibration::text() const {
  const auto of_phase = [&](Phase phase) {
    const std::size_t runs = ratios(phase).size();
    return fmt::format("{} x {:.3g} by {} run{}", name_of(phase), factor(phase), runs,
                       runs == 1 ? "" : "s");
  };
  std::string text = prefill_ratios.empty() ? "" : of_phase(Phase::prefill);
  if (!decode_ratios.empty()) text += (text.empty() ? "" : ", ") + of_phase(Phase::decode);
  text += fmt::format(" of {} on {}", model, fmt::join(devices, ", "));
  const auto off = error();
  return off ? text + fmt::format(", {:.2g} % off", 100 * *off)
             : text + ", whose error is not known";
}

}  // namespace tessera::cost

namespace tessera {

void Fields<cost::Recalibration>::check(const cost::Recalibration& own, const FieldPath& path) {
  if (own.devices.empty()) refuse(path("devices"), "names none; name the types that served");
  if (own.prefill_ratios.empty() && own.decode_ratios.empty()) {
    refuse(path("decode_ratios"), "no ratio of any run; give one here or in prefill_ratios");
  }
}

}  // namespace tessera
