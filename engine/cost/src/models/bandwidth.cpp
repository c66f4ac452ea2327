#include <algorithm>
#include <limits>
#include <vector>

#include "models.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera::cost::models {
namespace {

constexpr double kLeastSeconds = 1e-9;

/// seconds = latency_s + bytes / bytes_per_s: element-wise kernels and transfers.
class Bandwidth final : public OpModel {
 public:
  Bandwidth(const Device& device, double latency_s, double bytes_per_s)
      : peak_bytes_per_s_(device.memory_bytes_per_s),
        latency_s_(latency_s),
        bytes_per_s_(bytes_per_s) {}

  double seconds(const OpQuery& query) const override {
    return std::max(kLeastSeconds, latency_s_ + query.bytes / bytes_per_s_);
  }
  Json coefficients() const override {
    return {{"latency_s", latency_s_}, {"bytes_per_s", bytes_per_s_}};
  }

  /// The same launches, and the same share of the other device's peak bandwidth.
  std::unique_ptr<OpModel> carried_to(const Device& device) const {
    const double ratio = device.memory_bytes_per_s / peak_bytes_per_s_;
    return std::make_unique<Bandwidth>(device, latency_s_, ratio * bytes_per_s_);
  }

 private:
  double peak_bytes_per_s_, latency_s_, bytes_per_s_;
};

// Weighted least squares of relative errors: the line a + b x through points of weight 1 / y^2,
// neither coefficient negative.
struct Line {
  double a = 0, b = 0;
};

Line fit_line(const std::vector<Sample>& samples) {
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
  for (const Sample& sample : samples) {
    const double x = sample.query.bytes, y = sample.latency_s, weight = 1 / (y * y);
    w += weight, wx += weight * x, wxx += weight * x * x, wy += weight * y, wxy += weight * x * y;
  }
  const double determinant = w * wxx - wx * wx;
  if (determinant <= 1e-12 * w * wxx) return {0, wxy / wxx};  // one size only: all bandwidth
  const Line line{(wy * wxx - wxy * wx) / determinant, (w * wxy - wx * wy) / determinant};
  if (line.a < 0) return {0, wxy / wxx};
  if (line.b < 0) return {wy / w, 0};
  return line;
}

std::unique_ptr<OpModel> fit(const Device& device, const std::vector<Sample>& samples,
                             const OpModel* donor) {
  const auto* known = dynamic_cast<const Bandwidth*>(donor);
  if (known != nullptr && samples.empty()) return known->carried_to(device);
  if (samples.empty()) {
    throw Error(ErrorCode::invalid_argument, "bandwidth: no samples to fit", "samples");
  }
  const Line line = fit_line(samples);
  return std::make_unique<Bandwidth>(device, line.a,
                                     line.b > 0 ? 1 / line.b : device.memory_bytes_per_s);
}

std::unique_ptr<OpModel> read(const Device& device, const Json& coefficients,
                              const std::string& path) {
  JsonFields fields(coefficients, path);
  auto model = std::make_unique<Bandwidth>(device, fields.number("latency_s", 0, 3600),
                                           fields.number("bytes_per_s", 1, 1e18));
  fields.finish();
  return model;
}

}  // namespace

const FitMethod& bandwidth() {
  static const FitMethod method{"bandwidth", fit, read};
  return method;
}

}  // namespace tessera::cost::models
