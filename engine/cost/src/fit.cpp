#include "tessera/cost/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/cost/collectives.h"

namespace tessera::cost {
namespace {

using PartKey = std::tuple<Op, std::string, std::string, std::string, std::int32_t, Phase>;

PartKey key_of(const OpQuery& q) {
  const bool layer = q.op == Op::layer;
  const bool phased = layer || q.op == Op::attention;
  const std::string kv = q.kv_dtype.empty() ? q.dtype : q.kv_dtype;
  return {q.op,
          q.name,
          layer ? "" : q.dtype,
          q.op == Op::attention ? kv : "",
          layer ? q.bitwidth : 0,
          phased ? q.phase : Phase::prefill};
}

ProfilePart described(const std::vector<Sample>& samples, const FitOptions& options) {
  const OpQuery& first = samples.front().query;
  ProfilePart part;
  part.op = first.op;
  part.name = first.name;
  if (first.op != Op::layer) part.dtype = first.dtype;
  if (first.op == Op::attention && first.kv_dtype != first.dtype) part.kv_dtype = first.kv_dtype;
  if (first.op == Op::layer) part.bitwidth = first.bitwidth;
  if (first.op == Op::layer || first.op == Op::attention) part.phase = first.phase;
  std::vector<std::string> fields = fields_of(first.op);
  if (first.op == Op::layer) fields.emplace_back("layer_parameters");
  if (is_collective(first.op) || first.op == Op::experts) fields.emplace_back("num_devices");
  for (const std::string& field : fields) {
    auto [it, added] = part.range.try_emplace(field, field_value(first, field), 0);
    if (added) it->second.second = it->second.first;
    for (const Sample& sample : samples) {
      const double value = field_value(sample.query, field);
      it->second = {std::min(it->second.first, value), std::max(it->second.second, value)};
    }
  }
  part.num_points = static_cast<std::int64_t>(samples.size());
  part.source = options.source.empty() ? samples.front().source : options.source;
  return part;
}

std::string split_text(const FitOptions& options, std::int32_t num_folds,
                       const std::vector<std::string>& fields) {
  const std::string what = "unseen (" + join(fields, ", ") + ")";
  return options.folds == 0 ? what + ", one left out at a time"
                            : fmt::format("{}, {} folds", what, num_folds);
}

struct HeldOut {
  std::vector<double> predicted_s;  ///< [sample] empty where the points are all of one query
  std::optional<Errors> errors;
};

HeldOut hold_out(const FitMethod& method, const Device& device, const std::vector<Sample>& samples,
                 const FitOptions& options, const OpModel* donor) {
  std::vector<std::string> fields =
      options.hold_out.empty() ? fields_of(samples.front().query.op) : options.hold_out;
  std::set<std::vector<double>> groups;
  for (const Sample& sample : samples) {
    std::vector<double> group;
    for (const std::string& field : fields) group.push_back(field_value(sample.query, field));
    groups.insert(std::move(group));
  }
  if (groups.size() < 2) return {};
  const auto folds = folds_by(samples, fields, options.folds, options.seed);
  const std::int32_t count = 1 + *std::max_element(folds.begin(), folds.end());
  HeldOut result{cross_validate(method, device, samples, folds, donor), std::nullopt};
  result.errors =
      errors_of(result.predicted_s, latencies_of(samples), split_text(options, count, fields));
  return result;
}

/// Products at their rate, predicted by a fit that has seen a quarter of their rows at most.
std::optional<Errors> hold_out_beyond(const FitMethod& method, const Device& device,
                                      const std::vector<Sample>& samples) {
  constexpr std::size_t kLeast = 20;
  double most = 0;
  for (const Sample& sample : samples) most = std::max(most, sample.query.m);
  std::vector<Sample> seen;
  std::vector<Sample> beyond;
  for (const Sample& sample : samples) {
    if (sample.query.m <= most / kMostBeyond) {
      seen.push_back(sample);
    } else if (is_compute_bound(sample.query)) {
      beyond.push_back(sample);
    }
  }
  if (seen.size() < kLeast || beyond.size() < kLeast) return std::nullopt;
  const auto model = method.fit(device, seen, nullptr);
  std::vector<double> predicted_s;
  for (const Sample& sample : beyond) predicted_s.push_back(model->seconds(sample.query));
  return errors_of(
      predicted_s, latencies_of(beyond),
      fmt::format("m above {:g}, from m up to {:g}", most / kMostBeyond, most / kMostBeyond));
}

const OpModel* donor_model(const ProfilePart* donor, const FitMethod& method) {
  return donor != nullptr && donor->method == method.name ? donor->model.get() : nullptr;
}

}  // namespace

bool predicts_better(const ProfilePart& a, const ProfilePart& b) {
  if (a.held_out.has_value() != b.held_out.has_value()) return a.held_out.has_value();
  return a.held_out && a.held_out->mean < b.held_out->mean;
}

std::vector<std::vector<Sample>> split_by_part(const std::vector<Sample>& samples) {
  std::map<PartKey, std::vector<Sample>> parts;
  for (const Sample& sample : samples) parts[key_of(sample.query)].push_back(sample);
  std::vector<std::vector<Sample>> result;
  for (auto& [key, part] : parts) result.push_back(std::move(part));
  return result;
}

ProfilePart fit_part(const Device& device, const std::vector<Sample>& samples,
                     const FitOptions& options, const ProfilePart* donor,
                     std::vector<double>* held_out_s) {
  const Op op = samples.front().query.op;
  std::vector<const FitMethod*> methods = fit_methods(op);
  if (options.method != "auto") methods = {&find_fit_method(op, options.method)};
  std::optional<ProfilePart> best;
  std::optional<Error> last;
  for (const FitMethod* method : methods) {
    const OpModel* form = donor_model(donor, *method);
    if (donor != nullptr && form == nullptr) continue;
    try {
      ProfilePart part = described(samples, options);
      part.method = method->name;
      HeldOut held_out = hold_out(*method, device, samples, options, form);
      part.held_out = std::move(held_out.errors);
      if (!part.held_out) part.provenance = Provenance::modelled;
      if (op == Op::gemm && form == nullptr) {
        part.beyond = hold_out_beyond(*method, device, samples);
      }
      part.model = method->fit(device, samples, form);
      if (best && !predicts_better(part, *best)) continue;
      best = std::move(part);
      if (held_out_s != nullptr) *held_out_s = std::move(held_out.predicted_s);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
      last = error;
    }
  }
  if (best) return *std::move(best);
  if (last) throw *last;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("no method fits {} from {} samples", describe(samples.front().query),
                          samples.size()),
              "samples");
}

namespace {

/// The errors of choosing a method and fitting it: each fold is predicted by the method that does
/// best within the rest, so that the choice has not seen the fold either.
Errors errors_of_choice(const Device& device, const std::vector<Sample>& samples,
                        const FitOptions& options, const std::string& split) {
  constexpr std::int32_t kMostFoldsWithin = 5;
  const std::vector<std::string> fields =
      options.hold_out.empty() ? fields_of(samples.front().query.op) : options.hold_out;
  FitOptions within = options;
  if (options.folds == 0 || options.folds > kMostFoldsWithin) within.folds = kMostFoldsWithin;
  const auto predicted_s =
      cross_validate([&](const auto& rest) { return fit_part(device, rest, within).model; },
                     samples, folds_by(samples, fields, options.folds, options.seed));
  return errors_of(predicted_s, latencies_of(samples), split + ", method chosen within");
}

}  // namespace

Profile fit_profile(const Device& device, const std::string& kernel_set,
                    const std::vector<Sample>& samples, const FitOptions& options) {
  if (samples.empty()) {
    throw Error(ErrorCode::invalid_argument, "no samples to fit a profile to", "samples");
  }
  Profile profile;
  profile.device = device;
  profile.kernel_set = kernel_set;
  for (const auto& part : split_by_part(samples)) {
    ProfilePart fitted = fit_part(device, part, options);
    if (options.method == "auto" && fitted.held_out && fit_methods(fitted.op).size() > 1) {
      fitted.held_out = errors_of_choice(device, part, options, fitted.held_out->split);
    }
    profile.parts.push_back(std::move(fitted));
  }
  return profile;
}

namespace {

/// Transfers are of the links: these methods say at which share of a link's rate they run. What
/// one node's PCIe does, with its switches and host bridges, says nothing of another's.
bool is_carried(const ProfilePart& part, const Device& donor, const Device& device) {
  if (!is_collective(part.op) && part.op != Op::send_recv) return true;
  const bool knows_link = part.method == "all_reduce" || part.method == "nccl";
  return knows_link && node_link(donor).kind == "nvlink" && node_link(device).kind == "nvlink";
}

}  // namespace

std::shared_ptr<const Profile> carried_over(const Device& device, const Profile& donor) {
  auto profile = std::make_shared<Profile>();
  profile->device = device;
  profile->kernel_set = donor.kernel_set;
  profile->donor = donor.device.name;
  profile->source = "carried over from " + donor.device.name + " by data sheet";
  for (const ProfilePart& from : donor.parts) {
    if (!is_carried(from, donor.device, device)) continue;
    try {
      ProfilePart part = from;
      part.model = find_fit_method(from.op, from.method).fit(device, {}, from.model.get());
      part.provenance = Provenance::modelled;
      part.held_out.reset();
      part.beyond.reset();
      part.num_points = 0;
      part.source = profile->source;
      profile->parts.push_back(std::move(part));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
    }
  }
  if (profile->parts.empty()) return nullptr;
  return profile;
}

}  // namespace tessera::cost
