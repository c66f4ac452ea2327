#include "tessera/cost/profile.h"

#include <fmt/format.h>

#include "tessera/core/cluster.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"

namespace tessera::cost {
namespace {

constexpr std::size_t kMaxParts = 1024;
constexpr double kLargest = 1e18;
constexpr double kNearOneValue = 1.25;  ///< ratio to the only value that was fitted

[[noreturn]] void fail(const std::string& path, const std::string& problem) {
  throw Error(ErrorCode::invalid_argument, path + ": " + problem, path);
}

Op read_op(JsonFields& fields) {
  const std::string word = fields.text("op");
  if (const auto op = op_from_string(word)) return *op;
  fail(fields.path_of("op"),
       fmt::format("unknown op {}{}", quote(word),
                   did_you_mean(word, {"gemm", "attention", "layer", "elementwise", "all_reduce",
                                       "send_recv"})));
}

void read_range(const Json& json, const std::string& path, ProfilePart& part) {
  if (!json.is_object()) fail(path, "an object from field to [least, largest] belongs here");
  OpQuery query;
  query.op = part.op;
  for (const auto& [field, bounds] : json.items()) {
    const std::string where = path + "." + field;
    field_value(query, field);  // throws for a field that there is not
    const std::vector<double> pair = json_numbers(bounds, where, 0, kLargest);
    if (pair.size() != 2 || pair[0] > pair[1]) fail(where, "[least, largest] belongs here");
    part.range[field] = {pair[0], pair[1]};
  }
}

Provenance read_provenance(JsonFields& fields) {
  const std::string word = fields.text("provenance");
  if (const auto known = provenance_from_string(word)) return *known;
  fail(fields.path_of("provenance"),
       fmt::format("unknown word {}{}", quote(word),
                   did_you_mean(word, {"measured", "fitted", "published", "modelled"})));
}

ProfilePart read_part(const Json& json, const std::string& path, const Device& device) {
  JsonFields fields(json, path);
  ProfilePart part;
  part.op = read_op(fields);
  part.dtype = fields.text("dtype", "");
  part.kv_dtype = fields.text("kv_dtype", "");
  for (const std::string& dtype : {part.dtype, part.kv_dtype}) {
    if (!dtype.empty()) dtype_traits(dtype);
  }
  if (fields.has("bitwidth")) {
    part.bitwidth = static_cast<std::int32_t>(fields.integer("bitwidth", 1, 16));
  }
  if (fields.has("phase")) part.phase = phase_field(fields);
  part.name = fields.text("name", "");
  part.method = fields.text("method");
  if (fields.has("range")) read_range(fields.at("range"), fields.path_of("range"), part);
  part.num_points = fields.integer("num_points", 0, 1'000'000'000);
  if (fields.has("held_out")) {
    part.held_out = errors_from_json(fields.at("held_out"), fields.path_of("held_out"));
  }
  part.provenance = read_provenance(fields);
  part.source = fields.text("source", "");
  part.model = find_fit_method(part.op, part.method)
                   .read(device, fields.at("coefficients"), fields.path_of("coefficients"));
  fields.finish();
  return part;
}

Json part_to_json(const ProfilePart& part) {
  Json json;
  json["op"] = std::string(to_string(part.op));
  if (!part.name.empty()) json["name"] = part.name;
  if (!part.dtype.empty()) json["dtype"] = part.dtype;
  if (!part.kv_dtype.empty()) json["kv_dtype"] = part.kv_dtype;
  if (part.bitwidth) json["bitwidth"] = *part.bitwidth;
  if (part.phase) json["phase"] = std::string(to_string(*part.phase));
  json["method"] = part.method;
  for (const auto& [field, bounds] : part.range) {
    json["range"][field] = {bounds.first, bounds.second};
  }
  json["num_points"] = part.num_points;
  if (part.held_out) json["held_out"] = to_json(*part.held_out);
  json["provenance"] = std::string(to_string(part.provenance));
  if (!part.source.empty()) json["source"] = part.source;
  json["coefficients"] = part.model->coefficients();
  return json;
}

bool answers(const ProfilePart& part, const OpQuery& query) {
  if (part.op != query.op || part.name != query.name) return false;
  if (part.phase && *part.phase != query.phase) return false;
  if (query.op == Op::layer) return part.bitwidth.value_or(16) == query.bitwidth;
  const std::string& kv = query.kv_dtype.empty() ? query.dtype : query.kv_dtype;
  return part.dtype == query.dtype &&
         (query.op != Op::attention || (part.kv_dtype.empty() ? part.dtype : part.kv_dtype) == kv);
}

void read_parts(const Json& parts, const std::string& path, Profile& profile) {
  if (!parts.is_array() || parts.empty() || parts.size() > kMaxParts) {
    fail(path, fmt::format("parts: a list of 1 to {} parts belongs here", kMaxParts));
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string part_path = fmt::format("{}: parts[{}]", path, i);
    profile.parts.push_back(read_part(parts[i], part_path, profile.device));
    for (std::size_t k = 0; k < i; ++k) {
      if (same_kind(profile.parts[k], profile.parts[i])) {
        fail(part_path, fmt::format("the same op, dtype, bitwidth and phase as parts[{}]", k));
      }
    }
  }
}

}  // namespace

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
  profile.kernel_set = fields.text("kernel_set");
  profile.doc = fields.text("doc", "");
  profile.source = fields.text("source", "");
  read_parts(fields.at("parts"), path, profile);
  fields.finish();
  return profile;
}

Json to_json(const Profile& profile) {
  Json json;
  json["device"] = profile.device_by_name ? Json(profile.device.name) : to_json(profile.device);
  json["kernel_set"] = profile.kernel_set;
  if (!profile.doc.empty()) json["doc"] = profile.doc;
  if (!profile.source.empty()) json["source"] = profile.source;
  json["parts"] = Json::array();
  for (const ProfilePart& part : profile.parts) json["parts"].push_back(part_to_json(part));
  return json;
}

}  // namespace tessera::cost
