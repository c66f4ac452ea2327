#include "read.h"

#include <fmt/format.h>

#include <algorithm>

#include "shape.h"
#include "store_impl.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera::results {
namespace {

std::string place_of(std::int64_t run) { return fmt::format("run {}", run); }

std::int64_t exact(std::int64_t value, const char* name) {
  if (value >= -kMaxExactInteger && value <= kMaxExactInteger) return value;
  throw Error(ErrorCode::io, fmt::format("{}: {} is beyond 2^53", name, value));
}

Json facts_at(const Query& query, int column, const char* name) {
  Json facts = json_at(query, column, name);
  check_facts(facts, name);
  return facts;
}

std::int64_t id_at(const Query& query, int column) {
  const std::int64_t id = query.integer(column);
  if (id >= 1 && id <= kMaxExactInteger) return id;
  throw Error(ErrorCode::io, fmt::format("id: {} is outside [1, 2^53]", id));
}

// Of a row of the statement in runs_where.
Run run_at(const Query& query) {
  Run run;
  run.id = id_at(query, 0);
  check_name(query.text(1));
  run.created_at = query.number(2);
  check_time(run.created_at, "created_at");
  run.spec = {query.utf8(1),
              query.utf8(3),
              "",
              {query.utf8(4), query.utf8(5), exact(query.integer(6), "seed"),
               facts_at(query, 7, "machine"), facts_at(query, 8, "build")},
              query.integer(9) != 0,
              query.utf8(10),
              json_at(query, 11, "declaration")};
  check_declaration(run.spec.declaration);
  run.num_points = query.integer(12);
  run.num_failed = query.integer(13);
  const auto changed_at = query.unless_null(&Query::number, 14);
  // A point may claim to have taken longer than dates go.
  run.changed_at = std::clamp(changed_at.value_or(0), run.created_at, kMaxTime_s);
  return run;
}

Json claims_of(Database& database, std::int64_t run) {
  Json claims = Json::array();
  Query query = database.query("SELECT claim FROM claims WHERE run_id = ? ORDER BY position", run);
  while (query.next()) {
    const auto place = [&] { return fmt::format("run {}, claim {}", run, claims.size() + 1); };
    claims.push_back(read_at(database, place, [&] {
      Json claim = json_at(query, 0, "claim");
      check_claim(claim);
      return claim;
    }));
  }
  return claims;
}

// `condition`: of r, with ?1. The index says in which order the rows lie in the file; by the one of
// keys, a million of them takes several times as long.
template <class Value>
std::vector<Run> runs_where(Database& database, const char* condition, const Value& value) {
  Query query = database.query(
      fmt::format(
          "SELECT r.id, r.experiment, r.created_at, r.script_path, r.script_hash, r.git_commit, "
          "r.seed, r.machine, r.build, r.quick, r.shard, r.declaration, count(p.id), "
          "count(p.error), max(p.started_at + p.duration_s) FROM runs r LEFT JOIN points p INDEXED "
          "BY points_by_position ON p.run_id = r.id WHERE {} GROUP BY r.id ORDER BY r.id",
          condition),
      value);
  std::vector<Run> runs;
  while (query.next()) {
    const auto place = [&query] { return place_of(query.integer(0)); };
    runs.push_back(read_at(database, place, [&query] { return run_at(query); }));
    runs.back().claims = claims_of(database, runs.back().id);
  }
  return runs;
}

// Of a point whose key may be anything.
std::string place_of(std::int64_t run, std::int64_t row, const Query& query, int key_column) {
  if (!query.is_text(key_column)) return fmt::format("run {}, row {}", run, row);
  return fmt::format("run {}, point {}", run, quote(query.text(key_column), 200));
}

// What a row says of its own origin where it differs from its run's.
std::optional<Origin> origin_at(const Query& query, const StoredOrigin& of_run) {
  constexpr int kFirst = 12;
  bool differs = false;
  for (int column = kFirst; column < kFirst + 5; ++column) {
    differs = differs || !query.is_null(column);
  }
  if (!differs) return std::nullopt;
  Origin own = of_run.origin;
  own.script_hash = query.unless_null(&Query::utf8, kFirst).value_or(own.script_hash);
  own.git_commit = query.unless_null(&Query::utf8, kFirst + 1).value_or(own.git_commit);
  own.seed = exact(query.unless_null(&Query::integer, kFirst + 2).value_or(own.seed), "seed");
  if (!query.is_null(kFirst + 3)) own.machine = facts_at(query, kFirst + 3, "machine");
  if (!query.is_null(kFirst + 4)) own.build = facts_at(query, kFirst + 4, "build");
  return own;
}

Row row_at(const Query& query, const StoredOrigin& of_run, bool meta) {
  Row row;
  row.point = json_at(query, 0, "key");
  row.status = query.utf8(1);
  row.columns = json_at(query, 2, "columns");
  row.order = exact(query.integer(3), "position");
  row.error = query.unless_null(&Query::utf8, 4);
  if (meta) {
    row.traceback = query.unless_null(&Query::utf8, 5).value_or("");
    row.log = query.unless_null(&Query::utf8, 6).value_or("");
    row.provenance = query.unless_null(&Query::utf8, 7).value_or("");
    row.error_ratio = query.unless_null(&Query::number, 8);
    row.started_at = query.number(9);
    row.duration_s = query.number(10);
    if (!query.is_null(11)) row.inputs = json_at(query, 11, "inputs");
    row.origin = origin_at(query, of_run);
  }
  check_row(row);
  return row;
}

}  // namespace

Json json_at(const Query& query, int column, const char* name) {
  return parse_json(query.text(column), name, {1ull << 30, 200});
}

const StoredOrigin& Store::Impl::origin_of(std::int64_t run) {
  const auto known = origins.find(run);
  if (known != origins.end()) return known->second;
  Query query = database.query(
      "SELECT experiment, script_hash, git_commit, machine, build, seed FROM runs WHERE id = ?",
      run);
  if (query.next()) {
    return origins[run] = read_at(
               database, [run] { return place_of(run); },
               [&] {
                 return StoredOrigin{query.utf8(0),
                                     {query.utf8(1), query.utf8(2), exact(query.integer(5), "seed"),
                                      facts_at(query, 3, "machine"), facts_at(query, 4, "build")},
                                     query.text(3),
                                     query.text(4)};
               });
  }
  std::vector<std::string> ids;
  Query all = database.query("SELECT id FROM runs ORDER BY id DESC LIMIT 12");
  while (all.next()) ids.push_back(std::to_string(all.integer(0)));
  throw Error(ErrorCode::not_found,
              fmt::format("results file {}: there is no run {}; {}", quote(database.path(), 300),
                          run, ids.empty() ? "it has none" : "the last are " + join(ids, ", ")),
              database.path());
}

std::vector<Run> Store::runs(const std::optional<std::string>& experiment) {
  impl_->database.refresh();
  if (experiment) return runs_where(impl_->database, "r.experiment = ?", *experiment);
  return runs_where(impl_->database, "r.id >= ?", std::numeric_limits<std::int64_t>::min());
}

Run Store::run(std::int64_t id) {
  Database& database = impl_->database;
  database.refresh();
  impl_->origin_of(id);  // says which runs there are
  std::vector<Run> found = runs_where(database, "r.id = ?", id);
  if (found.empty()) database.damaged(place_of(id), "its table and the index of it disagree");
  found[0].spec.script_text = script_text(id);
  return std::move(found[0]);
}

std::string Store::script_text(std::int64_t run) {
  impl_->database.refresh();
  Query query = impl_->database.query("SELECT script_text FROM runs WHERE id = ?", run);
  if (!query.next()) return "";
  return read_at(
      impl_->database, [run] { return place_of(run); }, [&] { return query.utf8(0); });
}

Origin Store::origin(std::int64_t run) {
  impl_->database.refresh();
  return impl_->origin_of(run).origin;
}

std::vector<StoredKey> Store::keys(std::int64_t run) {
  impl_->database.refresh();
  impl_->origin_of(run);
  Query query = impl_->database.query(
      "SELECT key, status, error IS NOT NULL FROM points WHERE run_id = ? ORDER BY position, id",
      run);
  std::vector<StoredKey> keys;
  while (query.next()) {
    const auto row = static_cast<std::int64_t>(keys.size()) + 1;
    const auto place = [&] { return place_of(run, row, query, 0); };
    keys.push_back(read_at(impl_->database, place, [&query] {
      return StoredKey{query.utf8(0), query.utf8(1), query.integer(2) != 0};
    }));
  }
  return keys;
}

void Store::each_row(std::int64_t run, const std::function<void(const Row&)>& visit,
                     const RowChoice& choice) {
  Database& database = impl_->database;
  database.refresh();
  const StoredOrigin& of_run = impl_->origin_of(run);
  Query query = database.query(
      "SELECT key, status, columns, position, error, traceback, log, provenance, error_ratio, "
      "started_at, duration_s, inputs, script_hash, git_commit, seed, machine, build FROM points "
      "INDEXED BY points_by_position WHERE run_id = ?1 AND (?2 = 0 OR error IS NOT NULL) ORDER BY "
      "position, id LIMIT ?3",
      run, choice.failed, choice.limit.value_or(-1));
  std::int64_t count = 0;
  while (query.next()) {
    ++count;
    const auto place = [&] { return place_of(run, count, query, 0); };
    visit(read_at(database, place, [&] { return row_at(query, of_run, choice.meta); }));
  }
}

std::vector<Artefact> Store::artefacts(std::int64_t run, const std::string& key) {
  impl_->database.refresh();
  impl_->origin_of(run);
  Query query = impl_->database.query(
      "SELECT a.name, a.kind, a.value FROM artefacts a JOIN points p ON p.id = a.point_id WHERE "
      "p.run_id = ? AND p.key = ? ORDER BY a.rowid",
      run, key);
  std::vector<Artefact> artefacts;
  const auto place = [&] {
    return fmt::format("run {}, point {}, artefact {}", run, quote(key, 200), artefacts.size() + 1);
  };
  while (query.next()) {
    artefacts.push_back(read_at(impl_->database, place, [&query] {
      return Artefact{query.utf8(0), query.utf8(1), json_at(query, 2, "value")};
    }));
  }
  return artefacts;
}

}  // namespace tessera::results
