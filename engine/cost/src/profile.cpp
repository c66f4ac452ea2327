#include "tessera/cost/profile.h"

#include <fmt/format.h>

#include "counts.h"
#include "tessera/core/cluster.h"
#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"

namespace tessera::cost {
namespace {

constexpr std::size_t kMaxParts = 1024;
constexpr double kNearOneValue = 1.25;  ///< ratio to the only value that was fitted

ProfilePart read_part(const Json& json, const std::string& path, const Device& device) {
  JsonFields fields(json, path);
  ProfilePart part;
  read_fields(fields, part);
  check_record(part, FieldPath{path});
  part.model = find_fit_method(part.op, part.method)
                   .read(device, fields.at("coefficients"), fields.path_of("coefficients"));
  fields.finish();
  return part;
}

bool answers(const ProfilePart& part, const OpQuery& query) {
  if (part.op != query.op || part.name != query.name) return false;
  if (part.phase && *part.phase != query.phase) return false;
  if (query.op == Op::layer) return part.bitwidth.value_or(16) == query.bitwidth;
  if (moves_only(query.op)) return true;  // whatever the bytes are
  const std::string& kv = query.kv_dtype.empty() ? query.dtype : query.kv_dtype;
  return part.dtype == query.dtype &&
         (query.op != Op::attention || (part.kv_dtype.empty() ? part.dtype : part.kv_dtype) == kv);
}

/// Whether all that leaves the range is more rows of a product at its rate.
bool is_only_taller(const ProfilePart& part, const OpQuery& query) {
  if (!part.beyond || query.op != Op::gemm || !is_compute_bound(query)) return false;
  const auto rows = part.range.find("m");
  if (rows == part.range.end() || query.m > kMostBeyond * rows->second.second) return false;
  OpQuery fitted = query;
  fitted.m = rows->second.second;
  return query.m > fitted.m && !outside(part, fitted);
}

void read_parts(const Json& parts, const std::string& path, Profile& profile) {
  if (!parts.is_array() || parts.empty() || parts.size() > kMaxParts) {
    refuse(path, "parts: a list of 1 to {} parts belongs here", kMaxParts);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string part_path = fmt::format("{}: parts[{}]", path, i);
    profile.parts.push_back(read_part(parts[i], part_path, profile.device));
    for (std::size_t k = 0; k < i; ++k) {
      if (same_kind(profile.parts[k], profile.parts[i])) {
        refuse(part_path, "the same op, dtype, bitwidth and phase as parts[{}]", k);
      }
    }
  }
}

}  // namespace

Json FittedRange::write(const std::map<std::string, std::pair<double, double>>& range) {
  Json json = Json::object();
  for (const auto& [field, bounds] : range) json[field] = {bounds.first, bounds.second};
  return json;
}

std::map<std::string, std::pair<double, double>> FittedRange::read(const Json& json,
                                                                   const std::string& path,
                                                                   const FieldSpec& spec) {
  if (!json.is_object()) refuse(path, "an object from field to [least, largest] belongs here");
  std::map<std::string, std::pair<double, double>> range;
  for (const auto& [field, bounds] : json.items()) {
    const std::string where = path + "." + field;
    const std::vector<double> pair = json_numbers(bounds, where, spec.min, spec.max);
    if (pair.size() != 2 || pair[0] > pair[1]) refuse(where, "[least, largest] belongs here");
    range[field] = {pair[0], pair[1]};
  }
  return range;
}

bool same_kind(const ProfilePart& a, const ProfilePart& b) {
  return a.op == b.op && a.dtype == b.dtype && a.kv_dtype == b.kv_dtype &&
         a.bitwidth == b.bitwidth && a.phase == b.phase && a.name == b.name;
}

std::optional<std::string> outside(const ProfilePart& part, const OpQuery& query) {
  for (const auto& [field, bounds] : part.range) {
    const double value = field_value(query, field);
    // One value cannot say how far it holds: physics carries the model a little to both sides.
    const double slack = bounds.first == bounds.second ? kNearOneValue : 1;
    if (value >= bounds.first / slack && value <= bounds.second * slack) continue;
    return fmt::format("{} {} is {} the fitted {} .. {}", field, value,
                       value < bounds.first ? "below" : "above", bounds.first, bounds.second);
  }
  return std::nullopt;
}

bool is_compute_bound(const OpQuery& gemm) {
  constexpr double kFlopPerByte = 512;  // H200: 206 in BF16, 412 in FP8
  const double elements = gemm.m * gemm.k + gemm.k * gemm.n + gemm.m * gemm.n;
  return 2 * gemm.m * gemm.n * gemm.k >= kFlopPerByte * kFp16Bytes * elements;
}

Prediction predict(const ProfilePart& part, const OpQuery& query) {
  Prediction prediction{{part.model->seconds(query), part.provenance, std::nullopt},
                        part.method,
                        outside(part, query)};
  if (prediction.outside && is_only_taller(part, query)) {
    prediction.outside.reset();
    prediction.seconds.error = part.beyond->mean;
    return prediction;
  }
  if (prediction.outside) {
    prediction.seconds.provenance = weaker(part.provenance, Provenance::modelled);
  } else if (part.held_out) {
    prediction.seconds.error = part.held_out->mean;
  }
  return prediction;
}

const ProfilePart* Profile::find(const OpQuery& query) const {
  for (const ProfilePart& part : parts) {
    if (answers(part, query)) return &part;
  }
  return nullptr;
}

Profile profile_from_json(const Json& json, const std::string& path, const DataFolders& folders) {
  JsonFields fields(json, path);
  Profile profile;
  const Json& device = fields.at("device");
  profile.device_by_name = device.is_string();
  profile.device = profile.device_by_name ? find_device(device.get<std::string>(), folders)
                                          : device_from_json(device, fields.path_of("device"));
  read_fields(fields, profile);
  read_parts(fields.at("parts"), path, profile);
  fields.finish();
  return profile;
}

Json to_json(const ProfilePart& part) {
  Json json = json_of(part);
  json["coefficients"] = part.model->coefficients();
  return json;
}

Json to_json(const Profile& profile) {
  Json json;
  json["device"] = profile.device_by_name ? Json(profile.device.name) : to_json(profile.device);
  write_fields(profile, json);
  json["parts"] = Json::array();
  for (const ProfilePart& part : profile.parts) json["parts"].push_back(to_json(part));
  return json;
}

}  // namespace tessera::cost

namespace tessera {

void Fields<cost::ProfilePart>::check(const cost::ProfilePart& part, const FieldPath& path) {
  const bool is_tuned = part.op == cost::Op::experts && part.name == cost::kTunedExperts;
  if (!part.tuned.empty() && !is_tuned) {
    refuse(path("tuned"), "a list of experts is of a part for experts called {}",
           quote(cost::kTunedExperts));
  }
  for (const std::string& dtype : {part.dtype, part.kv_dtype}) {
    if (!dtype.empty()) cost::dtype_traits(dtype);
  }
  cost::OpQuery query;
  query.op = part.op;
  for (const auto& [field, bounds] : part.range) cost::field_value(query, field);
}

}  // namespace tessera
