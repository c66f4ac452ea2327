#include "tessera/solver/problem/constraint.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"

namespace tessera::solver {
namespace {

constexpr double kMaxTerm = 1e15;  // beyond it a count no longer changes a sum
constexpr std::size_t kMaxTerms = 100'000;

[[noreturn]] void fail(ErrorCode code, const std::string& path, const std::string& problem) {
  throw Error(code, path + ": " + problem, path);
}

Sense sense_from_text(const std::string& text, const std::string& path) {
  for (const Sense sense : {Sense::at_most, Sense::at_least, Sense::equal}) {
    if (text == to_string(sense)) return sense;
  }
  fail(ErrorCode::invalid_argument, path, quote(text) + " is none of '<=', '>=' and '=='");
}

ConstraintTerm term_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  ConstraintTerm term;
  const auto integer = [&](const char* name, std::int64_t low) -> std::optional<std::int64_t> {
    if (!fields.has(name)) return std::nullopt;
    return fields.integer(name, low, 1'000'000);
  };
  term.stage = integer("stage", 1);
  term.boundary = integer("boundary", 1);
  if (fields.has("device")) term.device = fields.text("device");
  term.bitwidth = integer("bitwidth", 1);
  term.layer = integer("layer", 0);
  term.coefficient = fields.number("coefficient", -kMaxTerm, kMaxTerm, 1);
  fields.finish();
  if (term.stage && term.boundary) {
    fail(ErrorCode::invalid_argument, path,
         "give stage (one stage) or boundary (all stages up to it), not both");
  }
  if (!term.stage && !term.boundary && !term.device && !term.bitwidth && !term.layer) {
    fail(ErrorCode::invalid_argument, path,
         "it says nothing about which layers count; give stage, boundary, device, bitwidth or "
         "layer");
  }
  return term;
}

// Groups called `device`, "type" or "type@node".
std::vector<std::uint8_t> groups_called(const Instance& instance, const std::string& device,
                                        const std::string& path) {
  std::vector<std::uint8_t> groups;
  std::vector<std::string> known;
  for (const DeviceGroup& group : instance.groups) {
    const std::string full = group.node.empty() ? group.name : group.name + "@" + group.node;
    groups.push_back(device == group.name || device == full ? 1 : 0);
    known.push_back(group.name);
  }
  if (std::count(groups.begin(), groups.end(), 1) > 0) return groups;
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  fail(ErrorCode::not_found, path,
       fmt::format("the cluster has no {}{}", quote(device),
                   did_you_mean(device.substr(0, device.find('@')), known)));
}

std::size_t bit_of(const Instance& instance, std::int64_t bitwidth, const std::string& path) {
  const auto it = std::find(instance.bitwidths.begin(), instance.bitwidths.end(), bitwidth);
  if (it != instance.bitwidths.end()) {
    return static_cast<std::size_t>(it - instance.bitwidths.begin());
  }
  std::vector<std::string> known;
  for (const std::int32_t bit : instance.bitwidths) known.push_back(std::to_string(bit));
  fail(ErrorCode::invalid_argument, path,
       fmt::format("{} is not one of the problem's bitwidths ({})", bitwidth, join(known, ", ")));
}

std::size_t stage_of(const Instance& instance, std::int64_t stage, const std::string& path) {
  if (stage <= static_cast<std::int64_t>(instance.num_devices())) {
    return static_cast<std::size_t>(stage);
  }
  fail(ErrorCode::out_of_range, path,
       fmt::format("stage {}, but {} devices make {} stages at most", stage, instance.num_devices(),
                   instance.num_devices()));
}

RowTerm resolve_term(const ConstraintTerm& term, const Instance& instance,
                     const std::string& path) {
  RowTerm result;
  result.coefficient = term.coefficient;
  if (term.stage) {
    result.end_stage = stage_of(instance, *term.stage, path + ".stage");
    result.first_stage = result.end_stage - 1;
  }
  if (term.boundary) result.end_stage = stage_of(instance, *term.boundary, path + ".boundary");
  if (term.device) result.groups = groups_called(instance, *term.device, path + ".device");
  if (term.bitwidth) result.bit = bit_of(instance, *term.bitwidth, path + ".bitwidth");
  if (!term.layer) return result;
  if (*term.layer >= static_cast<std::int64_t>(instance.num_layers())) {
    fail(ErrorCode::out_of_range, path + ".layer",
         fmt::format("layer {}, but the last one is {} (the first is 0)", *term.layer,
                     instance.num_layers() - 1));
  }
  result.layer = static_cast<std::size_t>(*term.layer);
  return result;
}

}  // namespace

Json to_json(const Constraint& constraint) {
  Json terms = Json::array();
  for (const ConstraintTerm& term : constraint.terms) {
    Json item = Json::object();
    const auto put = [&](const char* name, const auto& value) {
      if (value) item[name] = *value;
    };
    put("stage", term.stage);
    put("boundary", term.boundary);
    put("device", term.device);
    put("bitwidth", term.bitwidth);
    put("layer", term.layer);
    item["coefficient"] = term.coefficient;
    terms.push_back(std::move(item));
  }
  return {{"name", constraint.name},
          {"terms", std::move(terms)},
          {"sense", to_string(constraint.sense)},
          {"rhs", constraint.rhs}};
}

Constraint constraint_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  Constraint constraint;
  constraint.name = fields.text("name");
  const Json& terms = fields.at("terms");
  constraint.sense = sense_from_text(fields.text("sense"), path + ".sense");
  constraint.rhs = fields.number("rhs", -kMaxTerm, kMaxTerm);
  fields.finish();
  if (constraint.name.empty()) {
    fail(ErrorCode::invalid_argument, path + ".name", "it is empty; messages call the row by it");
  }
  if (!terms.is_array() || terms.empty() || terms.size() > kMaxTerms) {
    fail(ErrorCode::invalid_argument, path + ".terms",
         fmt::format("give a list of 1 to {} terms", kMaxTerms));
  }
  for (std::size_t i = 0; i < terms.size(); ++i) {
    constraint.terms.push_back(term_from_json(terms[i], fmt::format("{}.terms[{}]", path, i + 1)));
  }
  return constraint;
}

std::vector<Constraint> constraints_from_json(const Json& json, const std::string& path) {
  if (!json.is_array()) {
    fail(ErrorCode::invalid_argument, path, "a list of side constraints belongs here");
  }
  std::vector<Constraint> constraints;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string where = fmt::format("{}[{}]", path, i + 1);
    Constraint next = constraint_from_json(json[i], where);
    for (const Constraint& other : constraints) {
      if (other.name != next.name) continue;
      fail(ErrorCode::invalid_argument, where + ".name",
           quote(next.name) + " is the name of another constraint; choose one of its own");
    }
    constraints.push_back(std::move(next));
  }
  return constraints;
}

Row resolve(const Constraint& constraint, const Instance& instance, const std::string& path) {
  Row row{constraint.name, {}, constraint.sense, constraint.rhs};
  for (std::size_t i = 0; i < constraint.terms.size(); ++i) {
    row.terms.push_back(
        resolve_term(constraint.terms[i], instance, fmt::format("{}.terms[{}]", path, i + 1)));
  }
  return row;
}

}  // namespace tessera::solver
