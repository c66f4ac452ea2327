// `tessera run` on a collection: which scripts it runs, what it says of them, one report of them
// all.

#include "sweep.h"

namespace tessera::sweep_collection_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class Collection : public test::SweepTest {
 protected:
  void SetUp() override {
    SweepTest::SetUp();
    experiment("part/b10", 2, "return { x = point.i }",
               "check = function(t) t:expect_all { column = 'x', at_most = 2 } end,");
    experiment("part/b9", 1, "return { x = point.i }",
               "check = function(t) t:expect_all { column = 'x', at_most = 0, not_reproduced = "
               "'another GPU', here = { 1, 1 } } end,");
    experiment("part/deeper/hidden", 1, "return { x = 1 }");
    file("part/helper.lua", "return { 1 }");
    file("all.lua", collection("scripts = { 'part', 'nothing' }"));
  }

  static std::string collection(const std::string& fields) {
    return "return require('tessera').collection { name = 'all', " + fields + " }";
  }

  json runs() const {
    const test::Process p = tessera({"results", "--json"});
    return p.status == 0 ? json::parse(p.out) : json();
  }
};

TEST_F(Collection, RunsWhatAFolderHoldsAndReportsItOnce) {
  const test::Process p = tessera({"run", "all.lua"});
  EXPECT_EQ(p.status, 0) << p.out << p.err;
  EXPECT_LT(p.out.find("part/b9 "), p.out.find("part/b10 ")) << p.out;
  EXPECT_THAT(p.out, HasSubstr("left out: nothing holds no script"));
  EXPECT_THAT(p.out, HasSubstr("wrote all.html: 2 experiments, 3 rows"));
  EXPECT_THAT(p.out, Not(HasSubstr("claims")));
  EXPECT_EQ(rows("part/b10").size(), 2u);
  EXPECT_EQ(runs().size(), 2u);
  const std::string page = read(path("all.html"));
  EXPECT_THAT(page, HasSubstr("id=\"e2\""));
  EXPECT_THAT(page, HasSubstr("another GPU"));
}

TEST_F(Collection, GoesOnWhereItStopped) {
  EXPECT_EQ(tessera({"run", "all.lua"}).status, 0);
  const test::Process p = tessera({"run", "all.lua"});
  EXPECT_EQ(p.status, 0);
  EXPECT_THAT(p.err, HasSubstr("2 points, 2 stored, 0 to run"));
}

TEST_F(Collection, AScriptThatFailsCostsThatScript) {
  file("part/a.lua", "error 'no such luck'");
  experiment("part/c", 1, "return { x = 3 }",
             "check = function(t) t:expect_all { column = 'x', at_most = 2 } end,");
  const test::Process p = tessera({"run", "all.lua"});
  EXPECT_EQ(p.status, 1);
  EXPECT_THAT(p.err, HasSubstr("no such luck"));
  EXPECT_THAT(p.out, HasSubstr("FAIL     x <= 2"));
  EXPECT_THAT(p.out, HasSubstr("3 experiments"));
}

TEST_F(Collection, LeavesOutWhatItIsTold) {
  file("all.lua", collection("scripts = { 'part' }, except = { 'part/b9.lua' }"));
  const test::Process p = tessera({"run", "all.lua", "--results", "part/own.db"});
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_THAT(p.out, HasSubstr("wrote part/all.html: 1 experiments, 2 rows"));
}

TEST_F(Collection, TellsWhatWouldRun) {
  const test::Process p = tessera({"run", "all.lua", "--dry-run"});
  EXPECT_EQ(p.status, 0);
  EXPECT_THAT(p.out, HasSubstr("part/b10: 2 points, 2 to run"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "all.html"));
  const test::Process where = tessera({"run", "all.lua", "--where", "i=1"});
  EXPECT_EQ(where.status, 2);
  EXPECT_THAT(where.err, HasSubstr("have different keys"));
}

TEST_F(Collection, GivesAllRowsToPrograms) {
  const test::Process p = tessera({"run", "all.lua", "--json"});
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_EQ(json::parse(p.out).size(), 3u);
}

TEST_F(Collection, RefusesScriptsThatAreNotThere) {
  const std::pair<const char*, const char*> cases[] = {
      {"scripts = { 'absent.lua' }", "there is no script absent.lua"},
      {"scripts = { 'absent' }", "no script is there"},
      {"scripts = { '../up' }", "no path below the folder"},
      {"scripts = { '/etc' }", "no path below the folder"},
      {"scripts = { 3 }", "no path below the folder"},
      {"scripts = { 'part' }, except = { 'part/b8.lua' }", "there is no script part/b8.lua"},
      {"scripts = { 'part' }, exept = {}", "did you mean 'except'"},
      {"doc = 'x'", "scripts"},
  };
  for (const auto& [fields, message] : cases) {
    file("all.lua", collection(fields));
    const test::Process p = tessera({"run", "all.lua"});
    EXPECT_EQ(p.status, 1) << fields;
    EXPECT_THAT(p.err, HasSubstr(message)) << fields;
  }
}

}  // namespace
}  // namespace tessera::sweep_collection_test
