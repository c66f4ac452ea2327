#include "view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "read.h"
#include "tessera/core/text.h"

namespace tessera::results {
namespace {

constexpr std::size_t kMaxColumns = 1000;  // SQLite's own limit is 2000 per view

std::string quoted(std::string_view text, char mark) {
  std::string result(1, mark);
  for (const char c : text) {
    if (c == mark) result += mark;
    result += c;
  }
  return result + mark;
}

std::string identifier(std::string_view name) { return quoted(name, '"'); }
std::string literal(std::string_view text) { return quoted(text, '\''); }

std::string folded(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// One member of a JSON object. In a path, a name with these characters would mean something else.
std::string member(const char* object, const std::string& name) {
  const bool plain = !name.empty() && std::none_of(name.begin(), name.end(), [](unsigned char c) {
    return c == '"' || c == '\\' || c < 0x20;
  });
  if (plain) return fmt::format("json_extract({}, {})", object, literal("$.\"" + name + "\""));
  return fmt::format("(SELECT value FROM json_each({}) WHERE key = {})", object, literal(name));
}

// SQL does not tell names apart that differ in case only; the later one gets a number.
std::string unused_name(const std::string& name, std::set<std::string>& used) {
  std::string candidate = name;
  for (int i = 2; !used.insert(folded(candidate)).second; ++i) {
    candidate = fmt::format("{}_{}", name, i);
  }
  return candidate;
}

}  // namespace

bool Views::note_name(const std::string& experiment, const char* kind, const std::string& name) {
  if (!known_.insert(experiment + '\0' + kind + '\0' + name).second) return false;
  database_.run("INSERT OR IGNORE INTO columns (experiment, kind, name) VALUES (?, ?, ?)",
                experiment, kind, name);
  return database_.num_changed() > 0;
}

void Views::note(const std::string& experiment, const std::vector<std::string>& point_keys,
                 const std::vector<std::string>& columns) {
  bool changed = false;
  for (const std::string& name : point_keys) {
    changed = note_name(experiment, "point", name) || changed;
  }
  for (const std::string& name : columns) {
    changed = note_name(experiment, "column", name) || changed;
  }
  if (changed) write(experiment);
}

// The first of several experiments whose names differ in case only has the plain name.
std::string Views::suffix(const std::string& experiment) {
  Query rivals = database_.query(
      "SELECT count(DISTINCT experiment) FROM columns WHERE experiment = ?1 COLLATE NOCASE AND "
      "experiment <> ?1 AND rowid < (SELECT min(rowid) FROM columns WHERE experiment = ?1)",
      experiment);
  rivals.next();
  const std::int64_t before = rivals.integer(0);
  return before == 0 ? "" : fmt::format(" ({})", before + 1);
}

void Views::write(const std::string& experiment) {
  std::set<std::string> used;
  std::string select;
  const auto add = [&](const std::string& expression, const std::string& name) {
    if (used.size() >= kMaxColumns || name.find('\0') != std::string::npos) return;
    select += fmt::format("{}\n  {} AS {}", select.empty() ? "" : ",", expression,
                          identifier(unused_name(name, used)));
  };
  add("p.run_id", "run_id");
  for (const char* kind : {"point", "column"}) {
    const bool of_point = std::string_view(kind) == "point";
    if (!of_point) add("p.status", "status");
    Query names =
        database_.query("SELECT name FROM columns WHERE experiment = ? AND kind = ? ORDER BY rowid",
                        experiment, kind);
    while (names.next()) {
      const std::string name = read_at(
          database_, [] { return std::string("the table 'columns'"); },
          [&names] { return names.utf8(0); });
      add(member(of_point ? "p.key" : "p.columns", name), name);
    }
  }
  for (const char* name : {"error", "provenance", "error_ratio", "started_at", "duration_s"}) {
    add(fmt::format("p.{}", name), name);
  }
  const std::string view = identifier("rows:" + experiment + suffix(experiment));
  database_.script(fmt::format(
      "DROP VIEW IF EXISTS {0};\nCREATE VIEW {0} AS SELECT{1}\nFROM points p JOIN runs r ON r.id = "
      "p.run_id\nWHERE r.experiment = {2}\nORDER BY p.run_id, p.position, p.id;",
      view, select, literal(experiment)));
}

}  // namespace tessera::results
