#include "schema.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::results {
namespace {

constexpr std::int64_t kApplicationId = 0x54535241;  // "TSRA", what the tool `file` shows
constexpr std::int64_t kVersion = 1;

// Times are seconds since 1970 (UTC). Columns of `points` that are NULL say what the run says.
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
  kind TEXT NOT NULL,                -- plan, timeline, picture
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

enum class Content { nothing, ours };

Content examine(Database& database) {
  const auto refuse = [&database](ErrorCode code, const std::string& problem) {
    throw Error(code, fmt::format("results file {}: {}", quote(database.path(), 300), problem),
                database.path());
  };
  const auto [application, version, num_tables] = marks_of(database);
  const bool empty = num_tables == 0;
  if (empty && application == 0 && version == 0) return Content::nothing;
  if (application != kApplicationId) {
    refuse(ErrorCode::io,
           "is an SQLite database of another program (its application_id is not Tessera's); give "
           "another file");
  }
  if (version > kVersion) {
    refuse(ErrorCode::unsupported,
           fmt::format("was written in format {}, this program knows up to {}; use a newer tessera",
                       version, kVersion));
  }
  if (empty || version < 1) {
    refuse(ErrorCode::io, "has the mark of a results file and none of its tables; it is damaged");
  }
  return Content::ours;
}

// Several processes may start on a new file together. Changing the mode does not wait for the
// others by itself.
void use_log(Database& database) {
  constexpr int kAttempts = 200;
  for (int attempt = 1;; ++attempt) {
    const int code = database.try_script("PRAGMA journal_mode = WAL");
    if (code == SQLITE_OK) break;
    if ((code & 0xFF) != SQLITE_BUSY || attempt == kAttempts) database.fail(code);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  // A commit survives the end of the process; only power loss may take the last ones with it.
  database.script("PRAGMA synchronous = NORMAL");
  // Pages of the log before it is copied back, which waits for the disk: 16 MiB of them.
  database.script("PRAGMA wal_autocheckpoint = 4000");
}

}  // namespace

void prepare_schema(Database& database) {
  Content content = examine(database);
  if (database.read_only()) {
    if (content == Content::ours) return;
    throw Error(ErrorCode::io,
                fmt::format("results file {}: is empty; `tessera run EXPERIMENT.lua --results "
                            "FILE` fills one",
                            quote(database.path(), 300)),
                database.path());
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
