#include "shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"

namespace tessera::results {
namespace {

// What the rest of the product would read as part of the row itself.
constexpr std::string_view kReserved[] = {"point", "status", "error", "meta"};

[[noreturn]] void misplaced(const std::string& path, const std::string& problem) {
  refuse(path, problem);
}

[[noreturn]] void misfit(const Json& value, const std::string& path, const char* wanted) {
  const char* found = value.is_string()    ? "text"
                      : value.is_number()  ? "a number"
                      : value.is_boolean() ? "true or false"
                      : value.is_array()   ? "a list"
                      : value.is_object()  ? "an object"
                                           : "nothing";
  misplaced(path, fmt::format("{} where {} belongs", found, wanted));
}

void text(const Json& value, const std::string& path) {
  if (!value.is_string()) misfit(value, path, "text");
}

void number(const Json& value, const std::string& path) {
  if (!value.is_number()) misfit(value, path, "a number");
}

void boolean(const Json& value, const std::string& path) {
  if (!value.is_boolean()) misfit(value, path, "true or false");
}

// Lua does not tell an empty list from an empty object, so either may be stored.
void object(const Json& value, const std::string& path) {
  if (!value.is_object() && !(value.is_array() && value.empty())) misfit(value, path, "an object");
}

void structure(const Json& value, const std::string& path) {
  if (!value.is_structured()) misfit(value, path, "an object");
}

using Check = void (*)(const Json&, const std::string&);

template <Check item>
void list_of(const Json& value, const std::string& path) {
  if (!value.is_array() && !(value.is_object() && value.empty())) misfit(value, path, "a list");
  std::size_t index = 0;
  for (const Json& each : value) item(each, fmt::format("{}[{}]", path, ++index));
}

void published_row(const Json& row, const std::string& path) {
  object(row, path);
  if (row.is_object() && row.contains("point")) object(row["point"], path + ".point");
}

void paper(const Json& value, const std::string& path) {
  if (value.is_array()) return list_of<published_row>(value, path);
  object(value, path);
  if (value.contains("rows")) list_of<published_row>(value["rows"], path + ".rows");
}

void text_or_number(const Json& value, const std::string& path) {
  if (!value.is_string() && !value.is_number()) misfit(value, path, "text");
}

struct Field {
  std::string_view name;
  Check check;
};

// Fields that are there and not null.
template <std::size_t count>
void check_fields(const Json& value, const std::string& path, const Field (&fields)[count]) {
  object(value, path);
  for (const Field& field : fields) {
    if (!value.is_object()) return;
    const auto found = value.find(field.name);
    if (found == value.end() || found->is_null()) continue;
    field.check(*found, fmt::format("{}.{}", path, field.name));
  }
}

constexpr Field kDeclaration[] = {
    {"name", text},           {"doc", text},
    {"keys", list_of<text>},  {"columns", list_of<text>},
    {"points", number},       {"plots", list_of<object>},
    {"notes", list_of<text>}, {"paper", paper},
    {"paper_source", text},   {"time_limit_s", number},
    {"over", text},
};

constexpr Field kClaim[] = {
    {"text", text},           {"status", text},    {"passed", boolean}, {"numbers", text_or_number},
    {"lines", list_of<text>}, {"checked", number}, {"skipped", number}, {"not_reproduced", text},
    {"here", text},           {"note", text},
};

}  // namespace

void check_declaration(const Json& declaration) {
  check_fields(declaration, "declaration", kDeclaration);
}

void check_claim(const Json& claim) {
  check_fields(claim, "claim", kClaim);
  const std::string status =
      claim.is_object() && claim.contains("status") && claim["status"].is_string()
          ? claim["status"].get<std::string>()
          : "skipped";
  if (status == "pass" || status == "fail" || status == "skipped") return;
  const bool is_note = status == "note";
  if (!is_note && status != "differs") {
    misplaced("claim.status",
              fmt::format("{} is none of 'pass', 'fail', 'skipped', 'differs' and 'note'",
                          quote(status)));
  }
  const char* why = is_note ? "note" : "not_reproduced";
  if (!claim.contains(why) || !claim[why].is_string()) {
    misplaced(fmt::format("claim.{}", why),
              fmt::format("nothing where the reason why the claim {} belongs",
                          is_note ? "is a note" : "differs"));
  }
}

void check_name(const std::string& experiment) {
  if (!experiment.empty() && experiment.size() <= 1000 &&
      experiment.find('\0') == std::string::npos && is_utf8(experiment)) {
    return;
  }
  misplaced("experiment",
            fmt::format("{}: a name is 1 to 1000 bytes of UTF-8 without NUL", quote(experiment)));
}

void check_facts(const Json& facts, const std::string& name) { object(facts, name); }

void check_time(double time_s, const char* name) {
  if (!(time_s >= 0 && time_s <= kMaxTime_s)) {
    misplaced(name, fmt::format("{} s is outside [0, {}]", time_s, kMaxTime_s));
  }
}

void check_row(const Row& row) {
  if (!row.point.is_object() && !(row.point.is_array() && row.point.empty())) {
    misplaced("point", "a table of named values belongs here");
  }
  object(row.columns, "columns");
  for (const std::string_view name : kReserved) {
    if (row.columns.contains(name)) {
      misplaced("columns",
                fmt::format("column '{0}': the name is taken by the row's own field; call it "
                            "something else, such as '{0}_value'",
                            name));
    }
  }
  if (row.status.empty() || !is_utf8(row.status)) misplaced("status", "it is empty or not UTF-8");
  list_of<structure>(row.inputs, "inputs");
  check_time(row.started_at, "started_at");
  if (!(row.duration_s >= 0 && std::isfinite(row.duration_s))) {
    misplaced("duration_s", fmt::format("{} s is no length of time", row.duration_s));
  }
}

}  // namespace tessera::results
