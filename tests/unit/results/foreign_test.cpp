// Results files that somebody made by hand: what is stored is checked where it is read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "results_files.h"
#include "tessera/results/store.h"

namespace tessera::results::foreign_test {
namespace {

using test::all_rows;
using test::expect_error;
using test::row_of;
using test::run_of;

class ResultsForeign : public test::FolderTest {
 protected:
  // A file with one run of one row, and what `statements` make of it.
  std::string changed(const std::string& statements) {
    const std::string name = path("r" + std::to_string(++num_files_) + ".db");
    {
      Store store(name);
      const std::int64_t run = store.start_run(run_of("e"));
      Row row = row_of(R"({"i": 1})", R"({"v": 1.5})");
      row.artefacts = {{"plan", "plan", Json::object()}};
      row.inputs = Json::parse(R"([{"path": "p", "sha256": "s"}])");
      store.add(run, row);
      store.set_claims(run, Json::parse(R"([{"text": "t", "status": "pass"}])"));
    }
    test::run_sql(name, statements);
    return name;
  }
  static void read_all(Store& store) {
    for (const results::Run& listed : store.runs()) {
      store.run(listed.id);
      for (const Row& row : all_rows(store, listed.id)) {
        store.artefacts(listed.id, point_key(row.point));
      }
      store.keys(listed.id);
    }
  }
  // Reading all there is says what is wrong, and where.
  void misplaced(const std::string& statement, const std::vector<std::string>& parts) {
    SCOPED_TRACE(statement);
    const std::string name = changed(statement);
    expect_error(ErrorCode::io, parts, [&] {
      Store store(name, {.read_only = true});
      read_all(store);
    });
  }
  int num_files_ = 0;
};

TEST_F(ResultsForeign, TablesAreTables) {
  const std::string endless =
      "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT ";
  for (const std::string table : {"runs", "points", "artefacts", "claims", "columns"}) {
    const std::string gone = "DROP TABLE " + table + "; ";
    misplaced(gone, {"'" + table + "'", "missing"});
    misplaced(gone + "CREATE VIEW " + table + " AS " + endless + "x AS id FROM n",
              {"view '" + table + "'", "not as this program makes it"});
    misplaced(gone + "CREATE VIRTUAL TABLE " + table + " USING fts5(x)",
              {"table '" + table + "'", "not as this program makes it"});
  }
  misplaced("ALTER TABLE points ADD COLUMN more GENERATED ALWAYS AS (zeroblob(1 << 29))",
            {"'points'", "not as this program makes it"});
  misplaced("DROP INDEX points_by_position", {"'points_by_position'", "missing"});
}

TEST_F(ResultsForeign, WhatBelongsToOthersMayBeThere) {
  Store store(
      changed("CREATE TABLE own (x); CREATE VIEW v AS SELECT * FROM runs; CREATE INDEX i "
              "ON points (status); CREATE TRIGGER t AFTER INSERT ON points BEGIN DELETE "
              "FROM runs; END"));
  store.add(1, row_of(R"({"i": 2})", "{}"));
  EXPECT_EQ(store.runs().at(0).num_points, 2) << "triggers of a file do nothing";
}

TEST_F(ResultsForeign, ValuesAreOfTheTypesThatBelongThere) {
  const auto runs = [&](const std::string& set, const std::vector<std::string>& parts) {
    misplaced("UPDATE runs SET " + set, parts);
  };
  runs("experiment = x'ff'", {"run 1", "experiment: bytes where text belongs"});
  runs("experiment = CAST(x'ff' AS TEXT)", {"run 1", "experiment", "UTF-8"});
  runs("created_at = 'soon'", {"run 1", "created_at: text where a number belongs"});
  runs("created_at = 9e999", {"created_at", "a finite one"});
  runs("created_at = 1e300", {"created_at", "outside"});
  runs("seed = 'x'", {"seed: text where a whole number belongs"});
  runs("seed = 1.5", {"seed: a number where a whole number belongs"});
  runs("seed = 9223372036854775807", {"seed", "beyond 2^53"});
  runs("machine = '[1]'", {"machine: a list where an object belongs"});
  runs("build = '7'", {"build: a number where an object belongs"});
  runs("script_text = x'00'", {"script_text: bytes"});
  runs("id = -4", {"run -4", "id: -4 is outside"});
  const auto points = [&](const std::string& set, const std::vector<std::string>& parts) {
    misplaced("UPDATE points SET " + set, parts);
  };
  points("key = 'x'", {"run 1, point 'x'", "key: not valid JSON"});
  points("key = '[1]'", {"point '[1]'", "point: a table of named values"});
  points("columns = '3'", {R"(point '{"i":1}')", "columns: a number where an object belongs"});
  points("columns = '{\"meta\": 1}'", {"column 'meta'"});
  points("position = 'x'", {"position: text where a whole number"});
  points("status = ''", {"status: it is empty"});
  points("error = x'00'", {"error: bytes where text belongs"});
  points("error_ratio = 'x'", {"error_ratio: text where a number"});
  points("started_at = -1", {"started_at", "outside"});
  points("duration_s = 'x'", {"duration_s: text where a number"});
  points("inputs = '[3]'", {"inputs[1]: a number where an object belongs"});
  points("machine = '3'", {"machine: a number where an object"});
  misplaced("UPDATE artefacts SET name = x'00'", {"artefact 1", "name: bytes"});
  misplaced("UPDATE artefacts SET value = '{'", {"artefact 1", "value: not valid JSON"});
}

TEST_F(ResultsForeign, DeclarationsAndClaimsHaveTheirShape) {
  const auto declared = [&](const std::string& json, const std::string& part) {
    misplaced("UPDATE runs SET declaration = '" + json + "'", {"r", "run 1", part});
  };
  declared("3", "declaration: a number where an object belongs");
  declared(R"({"keys": 3})", "declaration.keys: a number where a list belongs");
  declared(R"({"keys": ["a", 3]})", "declaration.keys[2]: a number where text belongs");
  declared(R"({"columns": {"a": 1}})", "declaration.columns: an object where a list belongs");
  declared(R"({"notes": [null]})", "declaration.notes[1]: nothing where text belongs");
  declared(R"({"doc": []})", "declaration.doc: a list where text belongs");
  declared(R"({"points": "9"})", "declaration.points: text where a number belongs");
  declared(R"({"time_limit_s": true})", "declaration.time_limit_s: true or false");
  declared(R"({"plots": [3]})", "declaration.plots[1]: a number where an object belongs");
  declared(R"({"paper": 3})", "declaration.paper: a number where an object belongs");
  declared(R"({"paper": {"rows": 3}})", "declaration.paper.rows: a number where a list belongs");
  declared(R"({"paper": {"rows": [{"point": 3}]}})", "paper.rows[1].point: a number");
  declared(R"({"paper": [3]})", "declaration.paper[1]: a number where an object belongs");
  const auto claimed = [&](const std::string& json, const std::string& part) {
    misplaced("UPDATE claims SET claim = '" + json + "'", {"run 1, claim 1", part});
  };
  claimed("3", "claim: a number where an object belongs");
  claimed(R"({"status": "odd"})", "claim.status: 'odd' is none of");
  claimed(R"({"status": 3})", "claim.status: a number where text belongs");
  claimed(R"({"status": "differs"})", "claim.not_reproduced: nothing where the reason");
  claimed(R"({"status": "note"})", "claim.note: nothing where the reason");
  claimed(R"({"here": 3})", "claim.here: a number where text belongs");
  claimed(R"({"text": 3})", "claim.text: a number where text belongs");
  claimed(R"({"lines": "x"})", "claim.lines: text where a list belongs");
  claimed(R"({"numbers": []})", "claim.numbers: a list where text belongs");
  claimed(R"({"passed": "x"})", "claim.passed: text where true or false belongs");
}

// What could not be read is not stored in the first place.
TEST_F(ResultsForeign, NothingOfAWrongShapeIsStored) {
  Store store(path("own.db"));
  RunSpec spec = run_of("e");
  spec.declaration = Json::parse(R"({"keys": 3})");
  expect_error(ErrorCode::invalid_argument, {"declaration.keys"}, [&] { store.start_run(spec); });
  const std::int64_t run = store.start_run(run_of("e"));
  expect_error(ErrorCode::invalid_argument, {"claim.status"},
               [&] { store.set_claims(run, Json::parse(R"([{"status": "odd"}])")); });
  Row row = row_of("{}", "{}");
  row.started_at = -1;
  expect_error(ErrorCode::invalid_argument, {"started_at"}, [&] { store.add(run, row); });
  read_all(store);
}

TEST_F(ResultsForeign, ARunThatItsIndexDoesNotKnowIsADamagedFile) {
  const std::string name = changed("UPDATE runs SET experiment = 'other'");
  Store store(name, {.read_only = true});
  EXPECT_EQ(store.run(1).spec.experiment, "other");
}

TEST_F(ResultsForeign, LongSilenceEndsAStatement) {
  const std::string name = changed(
      "WITH RECURSIVE n(x) AS (SELECT 2 UNION ALL SELECT x + 1 FROM n WHERE x < 300000) INSERT "
      "INTO points (run_id, key, position, status, columns, started_at, duration_s) SELECT 1, x, "
      "x, 's', '{}', 0, 0 FROM n");
  expect_error(ErrorCode::io, {"r1.db", "worked for 0.001 s", "gave nothing"}, [&] {
    Store store(name, {.read_only = true, .silence_limit_s = 0.001});
    store.runs();
  });
  bool asked = false;
  expect_error(ErrorCode::interrupted, {"Ctrl-C"}, [&] {
    Store store(name, {.read_only = true, .interrupted = [&] { return asked = true; }});
    store.runs();
  });
  EXPECT_TRUE(asked);
  EXPECT_EQ(Store(name, {.read_only = true}).runs().at(0).num_points, 300000);
}

}  // namespace
}  // namespace tessera::results::foreign_test
