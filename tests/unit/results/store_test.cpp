#include "tessera/results/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <bit>
#include <limits>

#include "expect_error.h"
#include "folder.h"
#include "results_rows.h"
#include "tessera/core/json.h"
#include "tessera/results/origin.h"

namespace tessera::results::store_test {
namespace {

using test::all_rows;
using test::expect_error;
using test::row_of;
using test::run_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StoreTest : public test::FolderTest {
 protected:
  Store open(const std::string& name = "r.db") { return Store(path(name)); }
  Store read(const std::string& name = "r.db") { return Store(path(name), {.read_only = true}); }
};

TEST_F(StoreTest, KeepsARunWithAllItSays) {
  RunSpec spec = run_of("llmpq/table4");
  spec.script_path = "a/b.lua";
  spec.script_text = "return 1";
  spec.origin = {"abc", "def", -5, Json{{"cpu", "x"}}, Json{{"commit", "y"}}};
  spec.quick = true;
  spec.shard = "1/4";
  spec.declaration = Json::parse(R"({"keys": ["b", "a"], "doc": "é\u0000\n"})");
  std::int64_t id = 0;
  {
    Store store = open();
    id = store.start_run(spec);
    store.set_claims(id, Json::parse(R"([{"passed": true, "text": "x"}, {"passed": false}])"));
  }
  Store store = read();
  const results::Run run = store.run(id);
  EXPECT_EQ(run.spec.experiment, spec.experiment);
  EXPECT_EQ(run.spec.script_path, spec.script_path);
  EXPECT_EQ(run.spec.script_text, spec.script_text);
  EXPECT_EQ(run.spec.origin.script_hash, "abc");
  EXPECT_EQ(run.spec.origin.git_commit, "def");
  EXPECT_EQ(run.spec.origin.seed, -5);
  EXPECT_EQ(run.spec.origin.machine, spec.origin.machine);
  EXPECT_EQ(run.spec.origin.build, spec.origin.build);
  EXPECT_TRUE(run.spec.quick);
  EXPECT_EQ(run.spec.shard, "1/4");
  EXPECT_EQ(run.spec.declaration, spec.declaration);
  EXPECT_EQ(run.claims, Json::parse(R"([{"passed": true, "text": "x"}, {"passed": false}])"));
  EXPECT_GT(run.created_at, 1.7e9);
  EXPECT_EQ(run.num_points, 0);
}

TEST_F(StoreTest, KeepsARowWithAllItSays) {
  Row row = row_of(R"({"b": 2, "a": "x"})", R"({"v": 1.5, "list": [1, {"deep": null}]})");
  row.status = "optimal";
  row.order = 7;
  row.traceback = "t";
  row.log = std::string("l\0g", 3);
  row.provenance = "fitted";
  row.error_ratio = 0.03;
  row.origin = Origin{"h", "c", 9, Json{{"cpu", "other"}}, Json::object()};
  row.started_at = 1.7e9 + 0.25;
  row.duration_s = 0.125;
  row.inputs = Json::parse(R"([{"path": "p", "sha256": "s"}])");
  row.artefacts = {{"plan", "plan", Json::parse(R"({"z": 1, "a": [2]})")},
                   {"line", "timeline", Json::array()}};
  Store store = open();
  const std::int64_t run = store.start_run(run_of("e"));
  store.add(run, row);
  const std::vector<Row> rows = all_rows(store, run);
  ASSERT_THAT(rows, SizeIs(1));
  const Row& back = rows[0];
  EXPECT_EQ(point_key(back.point), R"({"a":"x","b":2})");
  EXPECT_EQ(back.columns, row.columns);
  EXPECT_EQ(back.status, "optimal");
  EXPECT_EQ(back.order, 7);
  EXPECT_FALSE(back.failed());
  EXPECT_EQ(back.traceback, "t");
  EXPECT_EQ(back.log, row.log);
  EXPECT_EQ(back.provenance, "fitted");
  EXPECT_EQ(back.error_ratio, 0.03);
  ASSERT_TRUE(back.origin.has_value());
  EXPECT_EQ(back.origin->script_hash, "h");
  EXPECT_EQ(back.origin->git_commit, "c");
  EXPECT_EQ(back.origin->seed, 9);
  EXPECT_EQ(back.origin->machine, row.origin->machine);
  EXPECT_EQ(back.started_at, row.started_at);
  EXPECT_EQ(back.duration_s, row.duration_s);
  EXPECT_EQ(back.inputs, row.inputs);
  const auto artefacts = store.artefacts(run, point_key(row.point));
  ASSERT_THAT(artefacts, SizeIs(2));
  EXPECT_EQ(artefacts[0].name, "plan");
  EXPECT_EQ(artefacts[0].value, row.artefacts[0].value);
  EXPECT_EQ(artefacts[1].kind, "timeline");
  EXPECT_THAT(store.artefacts(run, "{}"), IsEmpty());
}

TEST_F(StoreTest, NumbersAndTextsComeBackBitByBit) {
  const std::vector<double> numbers = {0.1,
                                       1.0 / 3,
                                       -0.0,
                                       5e-324,
                                       1.7976931348623157e308,
                                       2.2250738585072014e-308,
                                       9007199254740991.0,
                                       -9007199254740992.0,
                                       1e22,
                                       123456789012345680.0};
  Json columns = Json::object();
  for (std::size_t i = 0; i < numbers.size(); ++i) columns["n" + std::to_string(i)] = numbers[i];
  columns["integer"] = 9007199254740992;
  columns["empty"] = "";
  columns["unicode"] = "\xF0\x9F\x98\x80 é ' \" ; -- \\ \u0001 \n";
  columns["huge"] = std::string(3 << 20, 'x');
  columns["' ; DROP TABLE points; --"] = true;
  columns[""] = nullptr;
  Row row = row_of("{}", "{}");
  row.columns = columns;
  Store store = open();
  const std::int64_t run = store.start_run(run_of("e"));
  store.add(run, row);
  const Row back = all_rows(store, run).at(0);
  EXPECT_EQ(back.columns, columns);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double value = back.columns["n" + std::to_string(i)].get<double>();
    EXPECT_EQ(std::bit_cast<std::uint64_t>(value), std::bit_cast<std::uint64_t>(numbers[i])) << i;
  }
}

TEST_F(StoreTest, RowsKeepTheirOrder) {
  Store store = open();
  const std::int64_t run = store.start_run(run_of("e"));
  for (const int order : {5, 1, 3}) {
    Row row = row_of(Json{{"o", order}}.dump(), "{}");
    row.order = order;
    store.add(run, row);
  }
  store.add(run, row_of(R"({"o": "last"})", "{}"));
  std::vector<std::string> keys;
  for (const StoredKey& key : store.keys(run)) keys.push_back(key.key);
  EXPECT_THAT(keys, ElementsAre(R"({"o":1})", R"({"o":3})", R"({"o":5})", R"({"o":"last"})"));
}

TEST_F(StoreTest, AFailedRowGivesWayAndAGoodOneStays) {
  Store store = open();
  const std::int64_t run = store.start_run(run_of("e"));
  Row row = row_of(R"({"k": 1})", "{}");
  row.status = "time_limit";
  row.error = "stopped after 3 s";
  row.artefacts = {{"plan", "plan", Json(1)}};
  store.add(run, row);
  store.add(run, row_of(R"({"k": 2})", "{}"));
  EXPECT_TRUE(store.keys(run)[0].failed);
  EXPECT_EQ(store.runs()[0].num_failed, 1);
  store.add(run, row_of(R"({"k": 1})", R"({"v": 1})"));
  EXPECT_EQ(store.keys(run)[0].key, R"({"k":1})") << "it keeps its place";
  EXPECT_FALSE(store.keys(run)[0].failed);
  EXPECT_THAT(store.artefacts(run, R"({"k":1})"), IsEmpty()) << "they belonged to the failure";
  expect_error(ErrorCode::invalid_argument, {R"({"k":1})", "run 1", "replace = true"},
               [&] { store.add(run, row_of(R"({"k": 1.0})", R"({"v": 2})")); });
  EXPECT_EQ(all_rows(store, run)[0].columns["v"], 1);
  store.add(run, row_of(R"({"k": 1})", R"({"v": 3})"), true);
  EXPECT_EQ(all_rows(store, run)[0].columns["v"], 3);
  EXPECT_EQ(store.runs()[0].num_points, 2);
}

TEST_F(StoreTest, ARefusedRowChangesNothing) {
  Store store = open();
  const std::int64_t run = store.start_run(run_of("e"));
  for (const char* name : {"point", "status", "error", "meta"}) {
    expect_error(ErrorCode::invalid_argument, {"column '", name, "taken"}, [&] {
      store.add(run, row_of("{}", Json{{name, 1}}.dump()));
    });
  }
  Row row = row_of("{}", "{}");
  row.columns["x"] = std::numeric_limits<double>::quiet_NaN();
  expect_error(ErrorCode::invalid_argument, {"columns.x", "not finite"},
               [&] { store.add(run, row); });
  row.columns["x"] = "\xFF";
  expect_error(ErrorCode::invalid_argument, {"UTF-8"}, [&] { store.add(run, row); });
  row = row_of("{}", "{}");
  row.point = Json::array({1});
  expect_error(ErrorCode::invalid_argument, {"point"}, [&] { store.add(run, row); });
  row = row_of("{}", R"({"new": 1})");
  row.artefacts = {{"same", "plan", Json(1)}, {"same", "plan", Json(2)}};
  expect_error(ErrorCode::io, {"UNIQUE"}, [&] { store.add(run, row); });
  expect_error(ErrorCode::not_found, {"no run 99", "the last are 1"},
               [&] { store.add(99, row_of("{}", "{}")); });
  EXPECT_THAT(store.keys(run), IsEmpty());
  store.add(run, row_of("{}", R"({"new": 1})"));
  EXPECT_THAT(store.keys(run), SizeIs(1));
}

TEST_F(StoreTest, RefusesNamesThatCannotBe) {
  Store store = open();
  for (const std::string& name :
       {std::string(), std::string("a\0b", 3), std::string("\xFF"), std::string(1001, 'x')}) {
    expect_error(ErrorCode::invalid_argument, {"experiment", "UTF-8"},
                 [&] { store.start_run(run_of(name)); });
  }
  EXPECT_THAT(store.runs(), IsEmpty());
  EXPECT_THAT(store.runs("e"), IsEmpty());
}

TEST_F(StoreTest, ListsRunsOfAnExperiment) {
  Store store = open();
  store.start_run(run_of("a"));
  store.start_run(run_of("b"));
  store.start_run(run_of("a"));
  std::vector<std::int64_t> ids;
  for (const results::Run& run : store.runs("a")) ids.push_back(run.id);
  EXPECT_THAT(ids, ElementsAre(1, 3));
  EXPECT_THAT(store.runs(), SizeIs(3));
  EXPECT_THAT(store.runs("A"), IsEmpty());
}

TEST_F(StoreTest, SaysWhenItIsClosed) {
  Store store = open();
  EXPECT_TRUE(store.is_open());
  store.close();
  store.close();
  EXPECT_FALSE(store.is_open());
  expect_error(ErrorCode::invalid_argument, {"r.db", "closed"}, [&] { store.runs(); });
  expect_error(ErrorCode::invalid_argument, {"closed"}, [&] { store.start_run(run_of("e")); });
}

TEST(PointKey, HasOneSpelling) {
  EXPECT_EQ(point_key(Json::parse(R"({"b": 1.0, "a": {"d": [], "c": [2.5, -0.0]}})")),
            R"({"a":{"c":[2.5,0],"d":[]},"b":1})");
  EXPECT_EQ(point_key(Json::array()), "{}");
  EXPECT_EQ(point_key(Json::object()), "{}");
  EXPECT_NE(point_key(Json{{"a", 1}}), point_key(Json{{"a", "1"}}));
  EXPECT_THROW(point_key(Json(3)), Error);
}

TEST(Origin, HashesAsTheStandardSays) {  // FIPS 180-4, examples by NIST
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Origin, KnowsTheMachine) {
  const Json facts = machine_facts();
  EXPECT_GT(facts.at("num_cores").get<int>(), 0);
  EXPECT_GT(facts.at("memory_bytes").get<double>(), 1e8);
  EXPECT_THAT(facts.at("kernel").get<std::string>(), HasSubstr("Linux"));
}

class GitTest : public test::FolderTest {};

TEST_F(GitTest, FindsTheCommitInGitsFiles) {
  const std::string a(40, 'a'), b(40, 'b');
  EXPECT_EQ(git_commit(path(".")), "");
  file("repo/.git/HEAD", "ref: refs/heads/x\n");
  EXPECT_EQ(git_commit(path("repo/deep/script.lua")), "") << "a branch without a commit";
  file("repo/.git/packed-refs", "# pack-refs\n" + b + " refs/heads/x\n");
  EXPECT_EQ(git_commit(path("repo/deep/script.lua")), b);
  file("repo/.git/refs/heads/x", a + "\n");
  EXPECT_EQ(git_commit(path("repo/deep/script.lua")), a);
  file("repo/.git/worktrees/w/HEAD", b + "\n");
  file("repo/.git/worktrees/w/commondir", "../..\n");
  file("linked/.git", "gitdir: " + path("repo/.git/worktrees/w") + "\n");
  EXPECT_EQ(git_commit(path("linked/s.lua")), b) << "a detached head";
  file("repo/.git/worktrees/w/HEAD", "ref: refs/heads/x\n");
  EXPECT_EQ(git_commit(path("linked/s.lua")), a) << "branches are shared";
  file("odd/.git", "nonsense");
  EXPECT_EQ(git_commit(path("odd")), "");
}

TEST_F(StoreTest, APipeInThePlaceOfGitsFilesIsNotWaitedFor) {
  std::filesystem::create_directory(path("x"));
  std::filesystem::create_directory(path("x/.git"));
  ASSERT_EQ(::mkfifo(path("x/.git/HEAD").c_str(), 0600), 0);
  EXPECT_EQ(git_commit(path("x")), "");
}

}  // namespace
}  // namespace tessera::results::store_test
