#include "tessera/results/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "schema.h"
#include "shape.h"
#include "store_impl.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera::results {
namespace {

nlohmann::json canonical(const Json& value) {
  if (value.is_object()) {
    nlohmann::json result = nlohmann::json::object();
    for (const auto& [key, item] : value.items()) result[key] = canonical(item);
    return result;
  }
  if (value.is_array()) {
    nlohmann::json result = nlohmann::json::array();
    for (const Json& item : value) result.push_back(canonical(item));
    return result;
  }
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::floor(number) == number && std::fabs(number) <= kMaxExactInteger) {
      return static_cast<std::int64_t>(number);
    }
  }
  return value;
}

// The writer of JSON turns these into null without a word.
void check_finite(const Json& value, const std::string& path) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    refuse(path, "a number that is not finite cannot be stored");
  }
  if (!value.is_structured()) return;
  for (const auto& [key, item] : value.items()) check_finite(item, path + "." + key);
}

template <class AnyJson>
std::string dumped(const AnyJson& value, const std::string& path) {
  try {
    return value.dump();
  } catch (const nlohmann::json::exception&) {
    refuse(path, "holds text that is not UTF-8");
  }
}

std::string written(const Json& value, const std::string& path) {
  check_finite(value, path);
  return dumped(value, path);
}

std::vector<std::string> names_of(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

std::optional<std::string> unless_empty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

template <class T>
std::optional<T> unless_same(const T& value, const T& of_run) {
  return value == of_run ? std::nullopt : std::optional(value);
}

double now() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::max(0.0, std::chrono::duration<double>(since_1970).count());  // of a wrong clock too
}

void check_spec(const RunSpec& spec) {
  check_name(spec.experiment);
  check_declaration(spec.declaration);
  check_facts(spec.origin.machine, "machine");
  check_facts(spec.origin.build, "build");
}

// Declared names come in their declared order.
std::vector<std::string> declared(const Json& declaration, const char* field) {
  std::vector<std::string> names;
  const auto list = declaration.find(field);
  if (list == declaration.end() || !list->is_array()) return names;
  for (const Json& name : *list) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  return names;
}

}  // namespace

std::string canonical_json(const Json& value) {
  check_finite(value, "value");
  if (value.is_array() && value.empty()) return "{}";
  return dumped(canonical(value), "value");
}

std::string point_key(const Json& point) {
  if (!point.is_object() && !(point.is_array() && point.empty())) {
    refuse("point", "a table of named values belongs here");
  }
  return canonical_json(point);
}

Store::Store(const std::string& path, const OpenOptions& options)
    : impl_(std::make_unique<Impl>(path, options)) {
  prepare_schema(impl_->database);
}
Store::~Store() = default;
Store::Store(Store&&) noexcept = default;

const std::string& Store::path() const { return impl_->database.path(); }
bool Store::is_open() const { return impl_->database.is_open(); }
void Store::close() { impl_->database.close(); }

std::int64_t Store::Impl::start_run(const RunSpec& spec, double created_at) {
  check_spec(spec);
  database.run(
      "INSERT INTO runs (experiment, created_at, script_path, script_text, script_hash, "
      "git_commit, seed, machine, build, quick, shard, declaration) VALUES (?, ?, ?, ?, ?, ?, ?, "
      "?, ?, ?, ?, ?)",
      spec.experiment, created_at, spec.script_path, spec.script_text, spec.origin.script_hash,
      spec.origin.git_commit, spec.origin.seed, written(spec.origin.machine, "machine"),
      written(spec.origin.build, "build"), spec.quick, spec.shard,
      written(spec.declaration, "declaration"));
  const std::int64_t id = database.last_id();
  views.note(spec.experiment, declared(spec.declaration, "keys"),
             declared(spec.declaration, "columns"));
  return id;
}

std::int64_t Store::start_run(const RunSpec& spec) {
  std::int64_t id = 0;
  impl_->write([&] { id = impl_->start_run(spec, now()); });
  return id;
}

void Store::Impl::add(std::int64_t run, const Row& row, bool replace) {
  check_row(row);
  const StoredOrigin& of_run = origin_of(run);
  const Origin* own = row.origin ? &*row.origin : nullptr;
  const auto text_of = [&](const std::string Origin::*field) {
    return own ? unless_same(own->*field, of_run.origin.*field) : std::nullopt;
  };
  const auto json_of = [&](const Json Origin::*field, const char* name) {
    const bool differs = own && own->*field != of_run.origin.*field;
    return differs ? std::optional(written(own->*field, name)) : std::nullopt;
  };
  const std::string key = point_key(row.point);
  Query insert = database.query(
      "INSERT INTO points (run_id, key, position, status, columns, error, traceback, log, "
      "provenance, error_ratio, started_at, duration_s, inputs, script_hash, git_commit, seed, "
      "machine, build) VALUES (?1, ?2, coalesce(?3, (SELECT coalesce(max(position), -1) + 1 FROM "
      "points WHERE run_id = ?1)), ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, "
      "?17, ?18) ON CONFLICT (run_id, key) DO UPDATE SET position = coalesce(?3, position), "
      "status = ?4, columns = ?5, error = ?6, traceback = ?7, log = ?8, provenance = ?9, "
      "error_ratio = ?10, started_at = ?11, duration_s = ?12, inputs = ?13, script_hash = ?14, "
      "git_commit = ?15, seed = ?16, machine = ?17, build = ?18 WHERE ?19 OR error IS NOT NULL "
      "RETURNING id",
      run, key, row.order, row.status, written(row.columns, "columns"), row.error,
      unless_empty(row.traceback), unless_empty(row.log), unless_empty(row.provenance),
      row.error_ratio, row.started_at, row.duration_s,
      row.inputs.empty() ? std::nullopt : std::optional(written(row.inputs, "inputs")),
      text_of(&Origin::script_hash), text_of(&Origin::git_commit),
      own ? unless_same(own->seed, of_run.origin.seed) : std::nullopt,
      json_of(&Origin::machine, "machine"), json_of(&Origin::build, "build"), replace);
  if (!insert.next()) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("point {}: run {} has a row for it that did not fail; it is kept. Replace "
                    "it on purpose with replace = true, or start another run",
                    quote(key, 200), run),
        database.path());
  }
  const std::int64_t id = insert.integer(0);
  insert.next();  // to its end
  database.run("DELETE FROM artefacts WHERE point_id = ?", id);
  for (const Artefact& artefact : row.artefacts) {
    database.run("INSERT INTO artefacts (point_id, name, kind, value) VALUES (?, ?, ?, ?)", id,
                 artefact.name, artefact.kind, written(artefact.value, "artefacts"));
  }
  views.note(of_run.experiment, names_of(row.point), names_of(row.columns));
}

void Store::add(std::int64_t run, const Row& row, bool replace) {
  impl_->write([&] { impl_->add(run, row, replace); });
}

void Store::add_all(std::int64_t run, const std::vector<Row>& rows, bool replace) {
  impl_->write([&] {
    for (const Row& row : rows) impl_->add(run, row, replace);
  });
}

void Store::Impl::set_claims(std::int64_t run, const Json& claims) {
  origin_of(run);
  if (!claims.is_array()) refuse("claims", "a list belongs here");
  database.run("DELETE FROM claims WHERE run_id = ?", run);
  std::int64_t position = 0;
  for (const Json& claim : claims) {
    check_claim(claim);
    std::optional<bool> passed;
    if (claim.contains("passed") && claim["passed"].is_boolean()) {
      passed = claim["passed"].get<bool>();
    }
    database.run("INSERT INTO claims (run_id, position, passed, claim) VALUES (?, ?, ?, ?)", run,
                 position++, passed, written(claim, "claims"));
  }
}

void Store::set_claims(std::int64_t run, const Json& claims) {
  impl_->write([&] { impl_->set_claims(run, claims); });
}

}  // namespace tessera::results
