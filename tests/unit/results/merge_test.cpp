#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "folder.h"
#include "results_rows.h"
#include "tessera/results/store.h"

namespace tessera::results::merge_test {
namespace {

using test::all_rows;
using test::expect_error;
using test::row_of;
using test::run_of;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Merge : public test::FolderTest {
 protected:
  // A file with one run of "e", whose points have these values.
  std::string file_of(const std::string& name, const std::vector<std::pair<int, int>>& values,
                      const std::string& shard = "", const std::string& hash = "h") {
    Store store(path(name));
    RunSpec spec = run_of("e", hash);
    spec.shard = shard;
    const std::int64_t run = store.start_run(spec);
    for (const auto& [key, value] : values) {
      Row row = row_of(Json{{"k", key}}.dump(), Json{{"v", value}}.dump());
      row.order = key;
      row.artefacts = {{"plan", "plan", Json(value)}};
      if (value < 0) row.error = "failed";
      store.add(run, row);
    }
    return path(name);
  }
  static std::vector<std::pair<int, int>> values_of(Store& store, std::int64_t run = 1) {
    std::vector<std::pair<int, int>> values;
    for (const Row& row : all_rows(store, run)) {
      values.emplace_back(row.point["k"].get<int>(), row.columns["v"].get<int>());
    }
    return values;
  }
  using Values = std::vector<std::pair<int, int>>;
};

TEST_F(Merge, ShardsBecomeOneRun) {
  const auto a = file_of("a.db", {{0, 10}, {2, 12}}, "0/2");
  const auto b = file_of("b.db", {{1, 11}, {3, 13}}, "1/2");
  Store store(path("all.db"));
  const MergeReport report = store.merge({a, b});
  EXPECT_EQ(report.num_runs, 1);
  EXPECT_EQ(report.num_rows, 4);
  ASSERT_THAT(store.runs(), SizeIs(1));
  EXPECT_EQ(store.runs()[0].spec.shard, "0/2, 1/2");
  EXPECT_EQ(values_of(store), (Values{{0, 10}, {1, 11}, {2, 12}, {3, 13}}));
  EXPECT_EQ(store.artefacts(1, R"({"k":1})").at(0).value, 11);
}

TEST_F(Merge, AgainChangesNothing) {
  const auto a = file_of("a.db", {{0, 10}, {2, 12}});
  Store store(path("all.db"));
  store.merge({a});
  const MergeReport report = store.merge({a, a});
  EXPECT_EQ(report.num_runs, 0);
  EXPECT_EQ(report.num_rows, 0);
  EXPECT_EQ(report.num_duplicates, 4);
  EXPECT_THAT(store.runs(), SizeIs(1));
  EXPECT_EQ(values_of(store), (Values{{0, 10}, {2, 12}}));
}

TEST_F(Merge, RunsOfOneFileStayApart) {
  const auto a = file_of("a.db", {{0, 10}});
  file_of("a.db", {{0, 20}});
  Store store(path("all.db"));
  EXPECT_THAT(store.merge({a, a}).contradictions, IsEmpty());
  EXPECT_THAT(store.runs(), SizeIs(2));
  EXPECT_EQ(values_of(store, 1), (Values{{0, 10}}));
  EXPECT_EQ(values_of(store, 2), (Values{{0, 20}}));
}

TEST_F(Merge, RunsOfOtherScriptsStayApart) {
  const auto a = file_of("a.db", {{0, 10}}, "", "h1");
  const auto b = file_of("b.db", {{0, 20}}, "", "h2");
  Store store(path("all.db"));
  EXPECT_EQ(store.merge({a, b}).num_runs, 2);
}

TEST_F(Merge, ContradictionsAreListedAndNothingIsMerged) {
  const auto a = file_of("a.db", {{0, 10}, {1, 11}});
  const auto b = file_of("b.db", {{1, 99}, {2, 12}});
  Store store(path("all.db"));
  const MergeReport report = store.merge({a, b});
  ASSERT_THAT(report.contradictions, SizeIs(1));
  EXPECT_EQ(report.contradictions[0].experiment, "e");
  EXPECT_EQ(report.contradictions[0].key, R"({"k":1})");
  EXPECT_EQ(report.contradictions[0].where, b);
  EXPECT_EQ(report.num_rows, 0);
  EXPECT_THAT(store.runs(), IsEmpty());
  store.merge({a, b}, Prefer::first);
  EXPECT_EQ(values_of(store), (Values{{0, 10}, {1, 11}, {2, 12}}));
  store.merge({b}, Prefer::last);
  EXPECT_EQ(values_of(store), (Values{{0, 10}, {1, 99}, {2, 12}}));
  EXPECT_EQ(store.artefacts(1, R"({"k":1})").at(0).value, 99);
}

TEST_F(Merge, AFailureGivesWayToAnyResult) {
  const auto a = file_of("a.db", {{0, -1}, {1, 11}, {2, -2}});
  const auto b = file_of("b.db", {{0, 10}, {1, -1}, {2, -3}});
  Store store(path("all.db"));
  const MergeReport report = store.merge({a, b});
  EXPECT_THAT(report.contradictions, IsEmpty());
  EXPECT_EQ(report.num_replaced, 1);
  EXPECT_EQ(values_of(store), (Values{{0, 10}, {1, 11}, {2, -2}}));
  EXPECT_EQ(store.runs()[0].num_failed, 1);
}

TEST_F(Merge, RowsKeepWhereTheyCameFrom) {
  for (const char* name : {"a", "b"}) {
    Store store(path(std::string(name) + ".db"));
    RunSpec spec = run_of("e");
    spec.origin.machine = Json{{"host", name}};
    spec.origin.git_commit = name;
    store.add(store.start_run(spec), row_of(Json{{"k", name}}.dump(), "{}"));
  }
  Store store(path("all.db"));
  store.merge({path("a.db"), path("b.db")});
  const std::vector<Row> rows = all_rows(store, 1);
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_FALSE(rows[0].origin.has_value()) << "as the run says";
  ASSERT_TRUE(rows[1].origin.has_value());
  EXPECT_EQ(rows[1].origin->machine["host"], "b");
  EXPECT_EQ(rows[1].origin->git_commit, "b");
}

TEST_F(Merge, ClaimsOfAPartAreNoClaimsOfTheWhole) {
  const auto a = file_of("a.db", {{0, 10}});
  const auto b = file_of("b.db", {{1, 11}});
  Store(a).set_claims(1, Json::parse(R"([{"passed": true}])"));
  Store store(path("all.db"));
  store.merge({a});
  EXPECT_THAT(store.run(1).claims, SizeIs(1));
  store.merge({b});
  EXPECT_THAT(store.run(1).claims, IsEmpty());
}

TEST_F(Merge, ABadFileLeavesTheStoreAsItWas) {
  const auto a = file_of("a.db", {{0, 10}});
  Store store(path("all.db"));
  expect_error(ErrorCode::io, {"bad.db", "no SQLite database"}, [&] {
    store.merge({a, file("bad.db", "no database")});
  });
  expect_error(ErrorCode::not_found, {"none.db"}, [&] { store.merge({a, path("none.db")}); });
  expect_error(ErrorCode::invalid_argument, {"into itself"}, [&] {
    store.merge({a, path("all.db")});
  });
  EXPECT_THAT(store.runs(), IsEmpty());
  EXPECT_EQ(store.merge({a}).num_rows, 1);
}

}  // namespace
}  // namespace tessera::results::merge_test
