// Few-sample calibration: the form of a device that was measured well, scaled to one that was not.

#include <algorithm>
#include <optional>

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
  const Profile* donor = nullptr;
};

// The best of the points alone and of every donor. With one point there is nothing to compare by:
// the first donor's form, scaled, goes before a fit of one point.
Candidate best_part(const Device& device, const std::vector<Sample>& samples,
                    const std::vector<std::shared_ptr<const Profile>>& donors,
                    const FitOptions& options) {
  std::optional<Candidate> best;
  std::optional<Error> last;
  const auto attempt = [&](const Profile* donor) {
    const ProfilePart* form = donor == nullptr ? nullptr : donor->find(samples.front().query);
    if (donor != nullptr && form == nullptr) return;
    try {
      Candidate candidate{fit_part(device, samples, options, form), donor};
      if (!best || predicts_better(candidate.part, best->part)) best = std::move(candidate);
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

// Every point predicted without it, over all parts.
Errors errors_after(const std::vector<Candidate>& parts) {
  Errors after;
  after.split = "each point predicted without it";
  std::vector<Errors> known;
  for (const Candidate& candidate : parts) {
    if (candidate.part.held_out) known.push_back(*candidate.part.held_out);
  }
  double total = 0;
  for (const Errors& errors : known) {
    const auto weight = static_cast<double>(errors.num_points);
    after.median += weight * errors.median;
    after.mean += weight * errors.mean;
    after.p90 = std::max(after.p90, errors.p90);
    after.worst = std::max(after.worst, errors.worst);
    after.num_points += errors.num_points;
    total += weight;
  }
  if (total > 0) after.median /= total, after.mean /= total;
  return after;
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
  std::vector<Candidate> parts;
  for (const auto& part : split_by_part(samples)) {
    parts.push_back(best_part(device, part, donors, options));
  }
  result.after = errors_after(parts);
  auto profile = std::make_shared<Profile>();
  profile->device = device;
  profile->kernel_set = kernels.name;
  const Profile* donor = nullptr;
  for (Candidate& candidate : parts) {
    if (donor == nullptr) donor = candidate.donor;
    profile->parts.push_back(std::move(candidate.part));
  }
  if (donor != nullptr) {
    result.donor = donor->device.name;
    if (const auto others = carried_over(device, *donor)) {
      for (const ProfilePart& other : others->parts) {
        const bool measured =
            std::any_of(profile->parts.begin(), profile->parts.end(),
                        [&](const ProfilePart& part) { return same_kind(part, other); });
        if (!measured) profile->parts.push_back(other);
      }
    }
  }
  result.profile = std::move(profile);
  return result;
}

}  // namespace tessera::cost
