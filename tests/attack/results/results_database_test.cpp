// Results files that somebody changed with SQL, or whose bytes did: whatever they hold, every way
// of reading them gives a result or one clear error, never a defect of ours.
//
//   TESSERA_ATTACK_COUNT=100000 TESSERA_TEST_SEED=7 build/release/tests/attack_test

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdio>
#include <cstdlib>

#include "mutate.h"
#include "program.h"
#include "results_rows.h"
#include "tessera/core/error.h"
#include "tessera/results/store.h"

namespace tessera::results::results_database_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kDatabases = 1200;   // in this process
constexpr int kPerProcess = 80;    // one of so many is also given to the program, eight commands
constexpr double kLongest_s = 10;  // for one database; the limit of the store itself is 60 s

int num_databases() {
  const char* text = std::getenv("TESSERA_ATTACK_COUNT");
  return text == nullptr ? kDatabases : std::atoi(text);
}

class ResultsDatabase : public test::FolderTest {
 protected:
  ResultsDatabase() : rng_(test::test_seed()) {
    make_sample();
    // Goes on with the stored rows of the sample, and judges them.
    file("e.lua", R"lua(return require "tessera".experiment { name = "e",
  grid = { planner = { "a", "b" }, i = { 0, 1, 7 } }, columns = { "v_s" },
  run = function(point) return { v_s = point.i } end,
  check = function(t)
    t:expect_all { column = "v_s", at_least = 0 }
    t:expect_best { column = "v_s", is = { planner = "a" } }
    t:expect("sums", #t:rows() > 0, #t:rows())
  end }
)lua");
  }

  std::size_t below(std::size_t n) {
    return static_cast<std::size_t>(rng_.integer(0, static_cast<std::int64_t>(n) - 1));
  }
  const char* one_of(const std::vector<const char*>& list) { return list[below(list.size())]; }

  void make_sample() {
    Store store(path("sample.db"));
    for (const char* name : {"e", "f"}) {
      RunSpec spec = test::run_of(name);
      spec.script_text = "return 1";
      spec.declaration = Json::parse(R"({"name": "e", "doc": "d", "keys": ["planner", "i"],
        "columns": ["v_s"], "notes": ["n"], "points": 6, "time_limit_s": 5, "paper_source": "p",
        "plots": [{"kind": "lines", "x": "i", "y": "v_s", "by": "planner"}],
        "paper": {"rows": [{"point": {"planner": "a", "i": 1}, "v_s": 2}]}})");
      const std::int64_t run = store.start_run(spec);
      for (int i = 0; i < 6; ++i) {
        Row row = test::row_of(Json{{"planner", i % 2 == 0 ? "a" : "b"}, {"i", i}}.dump(),
                               Json{{"v_s", i * 0.5}, {"list", {1, "x"}}}.dump());
        row.status = i == 5 ? "failed" : "optimal";
        if (i == 5) row.error = "it broke";
        row.provenance = "fitted";
        row.error_ratio = 0.05;
        row.started_at = 1.7e9;
        row.duration_s = 0.5;
        row.inputs = Json::parse(R"([{"path": "p", "sha256": "00"}])");
        row.artefacts = {{"plan", "plan", Json::parse(R"({"stages": [{"device": "x"}]})")},
                         {"line", "timeline", Json::parse(R"({"events": []})")}};
        store.add(run, row);
      }
      store.set_claims(run, Json::parse(R"([{"text": "t", "status": "pass", "numbers": "5",
        "lines": ["l"], "checked": 2, "skipped": 0}, {"text": "u", "status": "differs",
        "not_reproduced": "why", "here": "0 to 1"}, {"text": "v", "status": "note", "note": "n"}])"));
    }
  }

  // A value of SQL of any kind.
  std::string any_value() {
    return one_of({"NULL",
                   "0",
                   "-1",
                   "1",
                   "3.5",
                   "9e999",
                   "-9e999",
                   "1e300",
                   "9223372036854775807",
                   "''",
                   "'x'",
                   "'{}'",
                   "'[]'",
                   "'[1]'",
                   "'null'",
                   "'3'",
                   "'\"s\"'",
                   "'{\"meta\": 1}'",
                   "'{\"a\": {\"b\": [1, {}]}}'",
                   "x'00ff'",
                   "x''",
                   "CAST(x'ff' AS TEXT)",
                   "zeroblob(100000)",
                   "'a' || char(0) || 'b'",
                   "printf('%.*c', 70000, '[')",
                   "char(27) || ']0;x'"});
  }
  // A JSON text of a column with one of its values changed in kind, or its bytes.
  std::string changed_json(const std::string& column, const std::string& table) {
    const char* place = one_of({"$.keys",
                                "$.keys[0]",
                                "$.columns",
                                "$.columns[0]",
                                "$.notes",
                                "$.notes[0]",
                                "$.doc",
                                "$.points",
                                "$.plots",
                                "$.plots[0]",
                                "$.plots[0].kind",
                                "$.plots[0].x",
                                "$.plots[0].rows",
                                "$.plots[0].title",
                                "$.paper",
                                "$.paper.rows",
                                "$.paper.rows[0]",
                                "$.paper.rows[0].point",
                                "$.paper_source",
                                "$.time_limit_s",
                                "$.name",
                                "$.text",
                                "$.status",
                                "$.passed",
                                "$.numbers",
                                "$.lines",
                                "$.lines[0]",
                                "$.not_reproduced",
                                "$.here",
                                "$.note",
                                "$.checked",
                                "$[0]",
                                "$[0].path",
                                "$.v_s",
                                "$.list",
                                "$.planner",
                                "$.i",
                                "$.stages",
                                "$.stages[0]",
                                "$.events",
                                "$.cpu",
                                "$.host"});
    const char* value = one_of({"3", "-1", "'x'", "NULL", "json('[]')", "json('{}')", "json('[1]')",
                                "json('{\"a\":1}')", "json('true')", "1e308"});
    return "UPDATE " + table + " SET " + column + " = json_set(" + column + ", '" + place + "', " +
           value + ") WHERE json_valid(" + column + ")";
  }
  struct Column {
    const char* table;
    const char* name;
    bool json;
  };
  std::string change() {
    static const std::vector<Column> kColumns = {
        {"runs", "id", false},           {"runs", "experiment", false},
        {"runs", "created_at", false},   {"runs", "script_path", false},
        {"runs", "script_text", false},  {"runs", "script_hash", false},
        {"runs", "git_commit", false},   {"runs", "seed", false},
        {"runs", "machine", true},       {"runs", "build", true},
        {"runs", "quick", false},        {"runs", "shard", false},
        {"runs", "declaration", true},   {"runs", "declaration", true},
        {"runs", "declaration", true},   {"points", "run_id", false},
        {"points", "key", true},         {"points", "position", false},
        {"points", "status", false},     {"points", "columns", true},
        {"points", "columns", true},     {"points", "error", false},
        {"points", "traceback", false},  {"points", "log", false},
        {"points", "provenance", false}, {"points", "error_ratio", false},
        {"points", "started_at", false}, {"points", "duration_s", false},
        {"points", "inputs", true},      {"points", "script_hash", false},
        {"points", "seed", false},       {"points", "machine", true},
        {"artefacts", "name", false},    {"artefacts", "kind", false},
        {"artefacts", "value", true},    {"claims", "position", false},
        {"claims", "passed", false},     {"claims", "claim", true},
        {"claims", "claim", true},       {"columns", "name", false}};
    const std::size_t kind = below(12);
    if (kind == 0) return structural();
    const Column& column = kColumns[below(kColumns.size())];
    if (column.json && kind < 9) return changed_json(column.name, column.table);
    const std::string some = below(2) == 0 ? "" : " WHERE rowid % 2 = 1";
    return std::string("UPDATE OR IGNORE ") + column.table + " SET " + column.name + " = " +
           any_value() + some;
  }
  std::string structural() {
    const std::string table = one_of({"runs", "points", "artefacts", "claims", "columns"});
    const std::string endless =
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id, x AS "
        "run_id, x AS position FROM n";
    switch (below(7)) {
      case 0:
        return "DROP TABLE " + table;
      case 1:
        return "DROP TABLE " + table + "; CREATE VIEW " + table + " AS " + endless;
      case 2:
        return "DROP TABLE " + table + "; CREATE VIRTUAL TABLE " + table + " USING fts5(a, b)";
      case 3:
        return "ALTER TABLE " + table + " ADD COLUMN g AS (zeroblob(1 << 28))";
      case 4:
        return "DELETE FROM " + table;
      case 5:
        return "CREATE TRIGGER t AFTER INSERT ON points BEGIN DELETE FROM runs; END";
      default:
        return "PRAGMA user_version = " + std::to_string(rng_.integer(-2, 3));
    }
  }

  // A copy of the sample with one to three changes, or with some of its bytes changed.
  std::string mutated(int index, std::string& how) {
    const std::string name = path("m" + std::to_string(index) + ".db");
    if (below(10) == 0) {
      how = "bytes";
      std::string bytes = read(path("sample.db"));
      const std::size_t count = 1 + below(20);
      for (std::size_t i = 0; i < count; ++i) {
        bytes[below(bytes.size())] = static_cast<char>(below(256));
      }
      return file(fs::path(name).filename(), bytes);
    }
    fs::copy_file(path("sample.db"), name);
    sqlite3* connection = nullptr;
    EXPECT_EQ(sqlite3_open(name.c_str(), &connection), SQLITE_OK);
    sqlite3_exec(connection, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", nullptr,
                 nullptr, nullptr);
    const std::size_t count = 1 + below(3);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string statement = change();
      how += statement + "; ";
      sqlite3_exec(connection, statement.c_str(), nullptr, nullptr, nullptr);  // some do not apply
    }
    sqlite3_close(connection);
    return name;
  }

  // Whether `body` came to its end; an error must be one that helps its reader.
  bool reads(const std::string& how, const char* what, const std::function<void()>& body) {
    try {
      body();
      return true;
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::internal) << what << " of " << how;
      EXPECT_THAT(error.what(), HasSubstr(".db")) << what << " of " << how;
      EXPECT_FALSE(std::string(error.what()).empty());
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << " of " << how << ": " << error.what();
    }
    return false;
  }

  // Reads all there is, and then merges the file or adds to it, which wait for the disk.
  bool read_all(const std::string& name, const std::string& how, bool merges) {
    const bool whole = reads(how, "reading", [&] {
      Store store(name, {.read_only = true, .silence_limit_s = kLongest_s});
      for (const results::Run& listed : store.runs()) {
        store.run(listed.id);
        store.origin(listed.id);
        for (const Row& row : test::all_rows(store, listed.id)) {
          store.artefacts(listed.id, point_key(row.point));
        }
        for (const StoredKey& key : store.keys(listed.id)) store.artefacts(listed.id, key.key);
      }
    });
    if (merges) return merge(name, how) && whole;
    return add(name, how) && whole;
  }
  bool merge(const std::string& name, const std::string& how) {
    const bool whole = reads(how, "merging", [&] {
      Store into(path("into.db"));
      into.merge({name}, Prefer::last);
    });
    for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(path("into.db") + suffix);
    return whole;
  }
  bool add(const std::string& name, const std::string& how) {
    return reads(how, "writing", [&] {
      Store store(name);
      for (const results::Run& listed : store.runs()) {
        store.add(listed.id, test::row_of(R"({"new": 1})", R"({"v": 1})"), true);
      }
    });
  }

  // The program gives a result or one line of our own.
  void program_reads(const std::string& name, const std::string& how) {
    for (std::vector<std::string> words : {std::vector<std::string>{"results"},
                                           {"results", "e"},
                                           {"results", "e", "--meta"},
                                           {"results", "e", "--format", "csv"},
                                           {"results", "f", "--json"},
                                           {"report", "--out", path("out.html")},
                                           {"run", path("e.lua"), "--dry-run", "--mix"},
                                           {"run", path("e.lua"), "--jobs", "0", "--mix"}}) {
      words.insert(words.end(), {"--results", name});
      const test::Process p = test::run_program(words);
      const std::string what = words[0] + " of " + how + ": " + p.err;
      EXPECT_LE(p.status, 2) << what;
      for (const char* raw : {".lua:", "attempt to", "internal", "bad argument", "Sanitizer"}) {
        EXPECT_THAT(p.err, Not(HasSubstr(raw))) << what;
      }
      if (p.status != 0 && words[0] != "run") {  // a sweep says more, and may fail by its claims
        EXPECT_THAT(p.err, testing::StartsWith("tessera: ")) << what;
      }
      if (words[0] == "report" && p.status == 0) {
        const std::string page = read(path("out.html"));
        EXPECT_EQ(page.find("attempt to"), std::string::npos) << what;
        EXPECT_EQ(page.find(".lua:"), std::string::npos) << what;
      }
    }
  }

  Rng rng_;
};

TEST_F(ResultsDatabase, IsReadOrRefusedWithOneClearError) {
  const int count = num_databases();
  int whole = 0, refused = 0, processes = 0;
  for (int i = 0; i < count && !HasFailure(); ++i) {
    std::string how;
    const std::string name = mutated(i, how);
    if (i % kPerProcess == 0) {
      program_reads(name, how);
      ++processes;
    }
    ++(read_all(name, how, i % 2 == 0) ? whole : refused);
    for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(name + suffix);
  }
  std::printf("seed %llu: %d databases, %d read whole, %d refused; %d of them by the program too\n",
              static_cast<unsigned long long>(test::test_seed()), whole + refused, whole, refused,
              processes);
  EXPECT_GT(whole, count / 10);
  EXPECT_GT(refused, count / 10);
}

}  // namespace
}  // namespace tessera::results::results_database_test
