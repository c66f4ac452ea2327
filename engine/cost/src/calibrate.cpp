// Few-sample calibration: the form of a device that was measured well, scaled to one that was not.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/cost/fit.h"

namespace tessera::cost {
namespace {

constexpr double kKvBits = 16;

// What was predicted before: by the profile, or by the roofline where there is none.
double predicted_s(const ProfiledModel& model, const OpQuery& query) {
  if (query.op != Op::layer || !query.name.empty()) return model.op(query).seconds.value;
  const LayerWork work{query.phase, query.batch_size, query.tokens, query.context_tokens};
  return model.layer(*query.layer, query.bitwidth, kKvBits, work).seconds.value;
}

Errors errors_before(const Device& device, const KernelSet& kernels,
                     const std::vector<Sample>& samples, std::shared_ptr<const Profile> before) {
  if (before == nullptr) {
    auto none = std::make_shared<Profile>();
    none->device = device;
    before = std::move(none);
  }
  const std::string split = before->parts.empty() ? "by the roofline" : "by the profile there was";
  const auto model = make_profiled(std::move(before), kernels);
  std::vector<double> predicted, measured;
  for (const Sample& sample : samples) {
    predicted.push_back(predicted_s(*model, sample.query));
    measured.push_back(sample.latency_s);
  }
  return errors_of(predicted, measured, split);
}

struct Candidate {
  ProfilePart part;
  std::vector<double> held_out_s;  ///< [sample] without it; empty where nothing can be held out
  const Profile* donor = nullptr;
};

double mean_error(const Candidate& candidate, const std::vector<double>& measured) {
  return candidate.held_out_s.empty() ? std::numeric_limits<double>::infinity()
                                      : errors_of(candidate.held_out_s, measured, "").mean;
}

// A part of this very device as it is: the points are not in its fit.
Candidate kept(const ProfilePart& part, const Profile* donor, const std::vector<Sample>& samples) {
  Candidate candidate{part, {}, donor};
  for (const Sample& sample : samples) {
    candidate.held_out_s.push_back(part.model->seconds(sample.query));
  }
  return candidate;
}

// The device under other kernels is another machine, whose points are not this one's.
bool is_own(const Profile& donor, const Device& device, const KernelSet& kernels) {
  return donor.device.name == device.name && kernels.takes_profiles_of(donor.kernel_set);
}

// The share by which a mean error over n points must be lower to be so by more than chance: errors
// spread about as widely as they are large, so their mean is known to 1 / sqrt(n) of itself.
double doubt(std::size_t num_points) { return 1 / std::sqrt(static_cast<double>(num_points)); }

// The donor's part of the points' dtype; of products nobody measured there in it, that of another
// dtype, 16 bits first, whose kernels were nearest in the runtimes that were measured.
const ProfilePart* form_of(const Profile& donor, OpQuery query) {
  if (const ProfilePart* part = donor.find(query)) return part;
  if (query.op != Op::gemm) return nullptr;
  for (const char* dtype : {"bfloat16", "float16", "fp8", "sq", "int8_wo", "int4_wo"}) {
    query.dtype = dtype;
    if (const ProfilePart* part = donor.find(query)) return part;
  }
  return nullptr;
}

// The best donor's form, or the points alone where these do clearly better. With one point there is
// nothing to compare by: the first donor's form, scaled, goes before a fit of one point.
Candidate best_part(const Device& device, const KernelSet& kernels,
                    const std::vector<Sample>& samples,
                    const std::vector<std::shared_ptr<const Profile>>& donors,
                    const FitOptions& options) {
  const std::vector<double> measured = latencies_of(samples);
  std::optional<Candidate> best;
  std::optional<Error> last;
  const auto consider = [&](Candidate candidate) {
    const double handicap = candidate.donor == nullptr ? 1 - doubt(measured.size()) : 1;
    if (best && !(mean_error(candidate, measured) < handicap * mean_error(*best, measured))) return;
    best = std::move(candidate);
  };
  const auto attempt = [&](const Profile* donor) {
    const ProfilePart* form = donor == nullptr ? nullptr : form_of(*donor, samples.front().query);
    if (donor != nullptr && form == nullptr) return;
    try {
      Candidate candidate{{}, {}, donor};
      candidate.part = fit_part(device, samples, options, form, &candidate.held_out_s);
      const bool comparable = !candidate.held_out_s.empty();
      consider(std::move(candidate));
      if (comparable && donor != nullptr && is_own(*donor, device, kernels) &&
          form->dtype == samples.front().query.dtype) {
        consider(kept(*form, donor, samples));
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
      last = error;
    }
  };
  for (const auto& donor : donors) attempt(donor.get());
  attempt(nullptr);
  if (!best) throw *last;
  return *std::move(best);
}

// Predictions of points by what has not seen them, over all parts.
struct Pooled {
  std::vector<double> predicted, measured;
  std::size_t num_alone = 0;  ///< points without another of their kind

  void add(const Candidate& candidate, const std::vector<Sample>& samples) {
    if (candidate.held_out_s.empty()) {
      num_alone += samples.size();
      return;
    }
    predicted.insert(predicted.end(), candidate.held_out_s.begin(), candidate.held_out_s.end());
    const std::vector<double> latencies = latencies_of(samples);
    measured.insert(measured.end(), latencies.begin(), latencies.end());
  }

  Errors errors() const {
    std::string split = "each point predicted without it";
    if (num_alone > 0) {
      split += fmt::format("; {} of {} left out, as no other point is of the same kind", num_alone,
                           num_alone + measured.size());
    }
    if (!measured.empty()) return errors_of(predicted, measured, std::move(split));
    Errors none;
    none.split = "no point can be predicted without it: none has another of the same kind";
    return none;
  }
};

// Parts of a kind that the profile does not have yet.
void add_missing(Profile& profile, const std::vector<ProfilePart>& others) {
  for (const ProfilePart& other : others) {
    const bool known = std::any_of(profile.parts.begin(), profile.parts.end(),
                                   [&](const ProfilePart& part) { return same_kind(part, other); });
    if (!known) profile.parts.push_back(other);
  }
}

}  // namespace

Calibration calibrate(const Device& device, const KernelSet& kernels,
                      const std::vector<Sample>& samples,
                      const std::vector<std::shared_ptr<const Profile>>& donors,
                      std::shared_ptr<const Profile> before, const FitOptions& options) {
  if (samples.empty()) {
    throw Error(ErrorCode::invalid_argument,
                "no samples to calibrate with; measure at least one point", "samples");
  }
  Calibration result;
  result.before = errors_before(device, kernels, samples, std::move(before));
  auto profile = std::make_shared<Profile>();
  profile->device = device;
  profile->kernel_set = kernels.profile_set();
  const Profile* donor = nullptr;
  Pooled held_out;
  for (const auto& points : split_by_part(samples)) {
    Candidate candidate = best_part(device, kernels, points, donors, options);
    held_out.add(candidate, points);
    if (donor == nullptr) donor = candidate.donor;
    profile->parts.push_back(std::move(candidate.part));
  }
  result.after = held_out.errors();
  for (const auto& own : donors) {
    if (is_own(*own, device, kernels)) add_missing(*profile, own->parts);
  }
  if (donor != nullptr) {
    result.donor = donor->device.name;
    const bool own = is_own(*donor, device, kernels);
    const auto others = own ? nullptr : carried_over(device, *donor);
    if (others != nullptr) add_missing(*profile, others->parts);
  }
  result.profile = std::move(profile);
  return result;
}

}  // namespace tessera::cost
