#include "schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "files.h"
#include "tessera/core/text.h"

namespace tessera::results {
namespace {

constexpr std::int64_t kApplicationId = 0x54535241;  // "TSRA", what the tool `file` shows
constexpr std::int64_t kVersion = 1;

// Times are seconds since 1970 (UTC). Columns of `points` that are NULL say what the run says. A
// file whose tables are not these, to the word, is refused: who changes them counts kVersion up and
// says how older ones are read.
constexpr const char* kTables = R"sql(
CREATE TABLE runs (
  id INTEGER PRIMARY KEY,
  experiment TEXT NOT NULL,
  created_at REAL NOT NULL,
  script_path TEXT NOT NULL,
  script_text TEXT NOT NULL,
  script_hash TEXT NOT NULL,         -- SHA-256
  git_commit TEXT NOT NULL,
  seed INTEGER NOT NULL,
  machine TEXT NOT NULL,             -- JSON
  build TEXT NOT NULL,               -- JSON
  quick INTEGER NOT NULL,
  shard TEXT NOT NULL,               -- '1/4', or ''
  declaration TEXT NOT NULL          -- JSON: name, doc, keys, columns, plots, ...
);
CREATE INDEX runs_by_experiment ON runs (experiment);
CREATE TABLE points (
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES runs (id),
  key TEXT NOT NULL,                 -- the point as JSON with sorted keys
  position INTEGER NOT NULL,         -- place among the rows
  status TEXT NOT NULL,
  columns TEXT NOT NULL,             -- JSON: what the script returned
  error TEXT,                        -- not NULL: the point failed
  traceback TEXT,
  log TEXT,
  provenance TEXT,                   -- measured, fitted, published, modelled
  error_ratio REAL,                  -- held-out relative error of the model behind the numbers
  started_at REAL NOT NULL,
  duration_s REAL NOT NULL,
  inputs TEXT,                       -- JSON: [{path, sha256}]
  script_hash TEXT,
  git_commit TEXT,
  seed INTEGER,
  machine TEXT,
  build TEXT,
  UNIQUE (run_id, key)
);
CREATE INDEX points_by_position ON points (run_id, position);
CREATE TABLE artefacts (
  point_id INTEGER NOT NULL REFERENCES points (id),
  name TEXT NOT NULL,
  kind TEXT NOT NULL,                -- plan, timeline, served, picture
  value TEXT NOT NULL,               -- JSON
  PRIMARY KEY (point_id, name)
);
CREATE TABLE claims (
  run_id INTEGER NOT NULL REFERENCES runs (id),
  position INTEGER NOT NULL,
  passed INTEGER,
  claim TEXT NOT NULL,               -- JSON
  PRIMARY KEY (run_id, position)
);
CREATE TABLE columns (               -- what the views "rows:EXPERIMENT" show
  experiment TEXT NOT NULL,
  kind TEXT NOT NULL,                -- point or column
  name TEXT NOT NULL,
  UNIQUE (experiment, kind, name)
);
)sql";

// What tells whose file it is. One statement, so that all three are of the same moment: another
// process may be making the tables.
struct Marks {
  std::int64_t application, version, num_tables;
};

Marks marks_of(Database& database) {
  Query query = database.query(
      "SELECT (SELECT application_id FROM pragma_application_id), "
      "(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)");
  if (!query.next()) return {};
  return {query.integer(0), query.integer(1), query.integer(2)};
}

// A statement without its comments and line breaks.
std::string plain(std::string_view sql) {
  std::string result;
  for (std::size_t at = 0; at < sql.size(); ++at) {
    if (sql.substr(at, 2) == "--") at = std::min(sql.find('\n', at), sql.size() - 1);
    const bool blank = sql[at] == ' ' || sql[at] == '\n';
    if (!blank) {
      result += sql[at];
    } else if (!result.empty() && result.back() != ' ') {
      result += ' ';
    }
  }
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

// The statements of kTables by the name that each makes: "CREATE TABLE runs (..." as "runs".
std::map<std::string, std::string> statements() {
  std::map<std::string, std::string> found;
  const std::string all = plain(kTables);
  for (std::size_t start = 0, end; (end = all.find(';', start)) != std::string::npos;) {
    const std::size_t first = all.find_first_not_of(' ', start);
    const std::string sql = all.substr(first, end - first);
    const std::size_t name = sql.find(' ', sql.find(' ') + 1) + 1;
    found[sql.substr(name, sql.find(' ', name) - name)] = sql;
    start = end + 1;
  }
  return found;
}

// A view, a virtual table or a computed column under one of these names would have a reader
// execute what somebody put into the file.
void check_tables(Database& database) {
  std::map<std::string, std::string> missing = statements();
  Query query = database.query("SELECT name, type, coalesce(sql, '') FROM sqlite_schema");
  while (query.next()) {
    const auto wanted = missing.find(query.text(0));
    if (wanted == missing.end()) continue;
    if (plain(query.text(2)) != wanted->second) {
      database.damaged(fmt::format("the {} '{}'", query.text(1), wanted->first),
                       "it is not as this program makes it: " + quote(wanted->second, 80));
    }
    missing.erase(wanted);
  }
  if (missing.empty()) return;
  database.damaged(fmt::format("'{}'", missing.begin()->first),
                   "it is missing: " + quote(missing.begin()->second, 80));
}

enum class Content { nothing, ours };

Content examine(Database& database) {
  const auto [application, version, num_tables] = marks_of(database);
  const bool empty = num_tables == 0;
  if (empty && application == 0 && version == 0) return Content::nothing;
  if (application != kApplicationId) {
    refuse_file(
        ErrorCode::io, database.path(),
        "is an SQLite database of another program (its application_id is not Tessera's); give "
        "another file");
  }
  if (version > kVersion) {
    refuse_file(
        ErrorCode::unsupported, database.path(),
        fmt::format("was written in format {}, this program knows up to {}; use a newer tessera",
                    version, kVersion));
  }
  if (empty || version < 1) {
    refuse_file(ErrorCode::io, database.path(),
                "has the mark of a results file and none of its tables; it is damaged");
  }
  check_tables(database);
  return Content::ours;
}

// Several processes may start on a new file together, and changing the mode does not wait for the
// others by itself. The change is one write of the first page. It is done without the journal that
// SQLite would put beside the file meanwhile: one that a kill leaves there would lock people out.
void use_log(Database& database) {
  constexpr int kAttempts = 200;
  const auto mode = [&database] {
    Query query = database.query("PRAGMA journal_mode");
    return query.next() ? query.text(0) : "";
  };
  for (int attempt = 1; mode() != "wal"; ++attempt) {
    int code = database.try_script("PRAGMA journal_mode = MEMORY");
    if (code == SQLITE_OK) code = database.try_script("PRAGMA journal_mode = WAL");
    const bool busy = (code & 0xFF) == SQLITE_BUSY;
    if (attempt == kAttempts || (code != SQLITE_OK && !busy)) {
      database.fail(code == SQLITE_OK ? SQLITE_PROTOCOL : code);
    }
    if (busy) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  // With NORMAL, a commit survives the end of the process; power loss may take the last ones.
  database.script(database.durable() ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
  // Pages of the log before it is copied back, which waits for the disk: 16 MiB of them.
  database.script("PRAGMA wal_autocheckpoint = 4000");
}

}  // namespace

void prepare_schema(Database& database) {
  Content content = examine(database);
  if (database.read_only()) {
    if (content == Content::ours) return;
    refuse_file(ErrorCode::not_found, database.path(),
                "is empty; `tessera run EXPERIMENT.lua --results FILE` fills one");
  }
  use_log(database);
  if (content == Content::ours) return;
  database.transaction([&] {
    if (examine(database) == Content::ours) return;  // another process was faster
    database.script(kTables);
    database.script(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}",
                                kApplicationId, kVersion));
  });
}

}  // namespace tessera::results
