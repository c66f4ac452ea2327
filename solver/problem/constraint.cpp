#include "tessera/solver/problem/constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"

namespace tessera::solver {
namespace {

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
  refuse(ErrorCode::not_found, path, "the cluster has no {}{}", quote(device),
         did_you_mean(device.substr(0, device.find('@')), known));
}

std::size_t bit_of(const Instance& instance, std::int64_t bitwidth, const std::string& path) {
  const auto it = std::find(instance.bitwidths.begin(), instance.bitwidths.end(), bitwidth);
  if (it != instance.bitwidths.end()) {
    return static_cast<std::size_t>(it - instance.bitwidths.begin());
  }
  std::vector<std::string> known;
  for (const std::int32_t bit : instance.bitwidths) known.push_back(std::to_string(bit));
  refuse(path, "{} is not one of the problem's bitwidths ({})", bitwidth, join(known, ", "));
}

std::size_t stage_of(const Instance& instance, std::int64_t stage, const std::string& path) {
  if (stage <= static_cast<std::int64_t>(instance.num_devices())) {
    return static_cast<std::size_t>(stage);
  }
  refuse(ErrorCode::out_of_range, path, "stage {}, but {} devices make {} stages at most", stage,
         instance.num_devices(), instance.num_devices());
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
    refuse(ErrorCode::out_of_range, path + ".layer",
           "layer {}, but the last one is {} (the first is 0)", *term.layer,
           instance.num_layers() - 1);
  }
  result.layer = static_cast<std::size_t>(*term.layer);
  return result;
}

}  // namespace

void check_names_differ(const std::vector<Constraint>& constraints, const std::string& path) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < constraints.size(); ++i) {
    if (names.insert(constraints[i].name).second) continue;
    refuse(fmt::format("{}[{}].name", path, i + 1),
           "{} is the name of another constraint; choose one of its own",
           quote(constraints[i].name));
  }
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

namespace tessera {
namespace {

constexpr std::size_t kMaxTerms = 100'000;

}  // namespace

void Fields<solver::ConstraintTerm>::check(const T& term, const FieldPath& path) {
  if (term.stage && term.boundary) {
    refuse(path.record, "give stage (one stage) or boundary (all stages up to it), not both");
  }
  if (!term.stage && !term.boundary && !term.device && !term.bitwidth && !term.layer) {
    refuse(path.record,
           "it says nothing about which layers count; give stage, boundary, device, bitwidth or "
           "layer");
  }
}

void Fields<solver::Constraint>::check(const C& constraint, const FieldPath& path) {
  if (constraint.name.empty()) {
    refuse(path("name"), "it is empty; messages call the row by it");
  }
  if (constraint.terms.empty() || constraint.terms.size() > kMaxTerms) {
    refuse(path("terms"), "give a list of 1 to {} terms", kMaxTerms);
  }
}

}  // namespace tessera
