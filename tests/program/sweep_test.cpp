// `tessera run` on experiments: points that fail in every way, resuming, parts, flags.

#include "sweep.h"

#include <cstdlib>

#include "sanitised.h"

namespace tessera::sweep_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Sweep = test::SweepTest;
using nlohmann::json;

struct Failure {
  const char *code, *status, *message;
};

// Of a worker. A process under a sanitizer has 180 MiB before it has done anything, and one that
// finds OpenBLAS as the system's BLAS has 256.
const char* const kLimitGib = test::kSanitised ? "1" : "0.5";
const char* const kBeyondLimit =
    test::kSanitised ? "the limit of a worker is 1.00 GiB" : "the limit of a worker is 0.50 GiB";

// Each costs its point and no other.
const Failure kFailures[] = {
    {"os.exit(3)", "crashed", "exited with status 3 before the answer"},
    {"os.exit(0)", "crashed", "exited with status 0 before the answer"},
    {"io.stderr:write 'last words\\n' require('ffi').cast('int*', 8)[0] = 1", "crashed",
     "SIGSEGV (Segmentation fault); it last printed: last words"},
    {"local f = require 'ffi' f.cdef 'void abort(void);' f.C.abort()", "crashed", "SIGABRT"},
    {"local f = require 'ffi' f.cdef 'int getpid(void); int kill(int, int);' "
     "f.C.kill(f.C.getpid(), 9)",
     "crashed", "SIGKILL"},
    {"local f = require 'ffi' f.cdef 'long write(int, const void*, unsigned long);' "
     "f.C.write(3, ('\\255'):rep(64), 64) return { x = 1 }",
     "crashed", "what is no answer"},
    {"while true do end", "time_limit", "at its time limit of 3 s"},
    {"jit.off() jit.flush() while true do end", "time_limit", "at its time limit of 3 s"},
    {"while true do pcall(function() while true do end end) end", "time_limit", "3 s"},
    {"local t = {} for n = 1, 1e9 do t[n] = ('x'):rep(1e6) .. n end", "out_of_memory",
     kBeyondLimit},
    {"local s = 'x' while true do s = s .. s end", "out_of_memory", kBeyondLimit},
    {"error 'my own mistake'", "failed", "my own mistake"},
    {"error { 1, 2 }", "failed", "the error value is a table, not a message"},
    {"error(nil)", "failed", "nil"},
    {"return nil", "failed", "run must return a table of columns, not a nil"},
    {"return 3", "failed", "run must return a table of columns, not a number"},
    {"return { f = print }", "failed", "cannot be stored: f: a function"},
    {"return { f = io.stdout }", "failed", "cannot be stored: f: a userdata"},
    {"return { v = 0 / 0 }", "failed", "cannot be stored: v: NaN"},
    {"local t = {} t.t = t return t", "failed", "contains itself"},
    {"return { s = ('x'):rep(40 * 2 ^ 20) }", "failed", "run returned 40.0 MiB"},
    {"return { s = '\\255\\254' }", "failed", "is not UTF-8"},
    {"return { status = 4 }", "failed", "it is a word"},
    {"return { point = 4 }", "failed", "a column 'point'"},
    {"return { error = 'x' }", "failed", "a column 'error'"},
};

TEST_F(Sweep, AFailingPointCostsThatPointOnly) {
  // One point crashes on purpose: the signal is to end it, also where a sanitizer would catch it.
  const char* sanitizer = std::getenv("ASAN_OPTIONS");
  setenv("ASAN_OPTIONS",
         (std::string(sanitizer == nullptr ? "" : sanitizer) + ":handle_segv=0").c_str(), 1);
  std::string body;
  const int n = static_cast<int>(std::size(kFailures));
  for (int i = 0; i < n; ++i) {
    body += "if point.i == " + std::to_string(2 * i + 1) + " then " + kFailures[i].code + " end\n";
  }
  experiment("bad", 2 * n, body + "return { x = point.i }");
  const test::Process p = tessera({"run", "bad.lua", "--jobs", "2", "--memory-limit-gib", kLimitGib,
                                   "--point-time-limit-s", "3"});
  EXPECT_EQ(p.status, 1) << p.err;
  EXPECT_THAT(p.out, HasSubstr(std::to_string(n) + " of " + std::to_string(2 * n))) << p.err;
  EXPECT_THAT(p.out, HasSubstr("--failed"));
  const auto found = rows("bad");
  ASSERT_EQ(found.size(), static_cast<std::size_t>(2 * n));
  for (int i = 0; i < n; ++i) {
    const json row = found.at(2 * i + 1);
    EXPECT_EQ(row["status"], kFailures[i].status) << kFailures[i].code << row;
    EXPECT_THAT(row.value("error", ""), HasSubstr(kFailures[i].message)) << kFailures[i].code;
    EXPECT_EQ(found.at(2 * i + 2)["x"], 2 * i + 2);
  }
}

TEST_F(Sweep, OsExitInItsOwnProcessCostsThatPointOnly) {
  experiment("exits", 4,
             "if point.i == 2 then os.exit(0) end "
             "if point.i == 3 then coroutine.wrap(function() os.exit(true) end)() end "
             "return { x = point.i }");
  const test::Process p = tessera({"run", "exits.lua", "--jobs", "0"});
  EXPECT_EQ(p.status, 1) << p.err;
  EXPECT_THAT(p.out, HasSubstr("2 of 4 points failed"));
  const auto found = rows("exits");
  ASSERT_EQ(found.size(), 4u);
  for (const int i : {2, 3}) {
    EXPECT_EQ(found.at(i)["status"], "failed");
    EXPECT_THAT(found.at(i).value("error", ""),
                HasSubstr("os.exit: it would end the whole sweep; return a row with a status"));
  }
  EXPECT_EQ(found.at(4)["x"], 4);
  experiment("claims", 1, "return { x = 1 }", "check = function() os.exit(0) end,");
  const test::Process claims = tessera({"run", "claims.lua", "--jobs", "0"});
  EXPECT_EQ(claims.status, 1) << claims.out << claims.err;
  EXPECT_THAT(claims.out, HasSubstr("check raised an error"));
  // Outside of a sweep it ends the script, as everywhere.
  EXPECT_EQ(tessera({"-e", "os.exit(5)"}).status, 5);
}

TEST_F(Sweep, AnErrorValueThatCannotBeShownSaysWhy) {
  experiment("values", 3,
             "local why = { [1] = function() error('inner reason') end, "
             "[2] = function() return {} end, [3] = function() error({}) end } "
             "error(setmetatable({}, { __tostring = why[point.i] }))");
  for (const char* jobs : {"0", "1"}) {
    EXPECT_EQ(tessera({"run", "values.lua", "--jobs", jobs, "--fresh"}).status, 1);
    const auto found = rows("values");
    ASSERT_EQ(found.size(), 3u);
    EXPECT_THAT(found.at(1).value("error", ""), HasSubstr("inner reason"));
    EXPECT_THAT(found.at(2).value("error", ""), HasSubstr("'__tostring' returned no string"));
    EXPECT_THAT(found.at(3).value("error", ""), HasSubstr("whose __tostring fails"));
  }
}

TEST_F(Sweep, FailedPointsRunAgainOnlyWhenAsked) {
  experiment("some", 4,
             "if point.i == 2 and not io.open 'mended' then error 'broken' end "
             "return { x = point.i }");
  EXPECT_EQ(tessera({"run", "some.lua"}).status, 1);
  test::Process p = tessera({"run", "some.lua"});
  EXPECT_EQ(p.status, 1);
  EXPECT_THAT(p.err, HasSubstr("4 stored (1 failed: --retry-failed runs them again), 0 to run"));
  file("mended", "");
  p = tessera({"run", "some.lua", "--retry-failed"});
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_THAT(p.err, HasSubstr("3 stored, 1 to run"));
  EXPECT_EQ(rows("some").at(2)["x"], 2);
}

TEST_F(Sweep, WorkersAndThisProcessGiveTheSameRows) {
  experiment("same", 8,
             "if point.i == 3 then error 'no' end return { r = math.random(1e9), "
             "s = context.seed, q = context.quick, at = context.point_index }");
  tessera({"run", "same.lua", "--jobs", "0", "--results", "here.db"});
  tessera({"run", "same.lua", "--jobs", "3", "--results", "there.db"});
  const auto here = rows("same", "here.db"), there = rows("same", "there.db");
  EXPECT_EQ(here.size(), 8u);
  EXPECT_EQ(here, there);
  EXPECT_NE(here.at(1)["r"], here.at(2)["r"]);
}

TEST_F(Sweep, JsonIsAlone) {
  experiment("clean", 3,
             "print 'from the point' io.write('garbage\\n') io.stdout:write 'more\\n' "
             "return { x = point.i }",
             "check = function(t) t:expect('holds', true) end,");
  for (const char* jobs : {"2", "0"}) {
    const test::Process p = tessera({"run", "clean.lua", "--json", "--fresh", "--jobs", jobs});
    EXPECT_EQ(p.status, 0) << p.err;
    if (*jobs == '0') continue;  // io.stdout is what it says, in this process
    const json list = json::parse(p.out);
    ASSERT_EQ(list.size(), 3u);
    EXPECT_EQ(list[2], json({{"point", {{"i", 3}}}, {"status", "done"}, {"x", 3}}));
    EXPECT_THAT(p.err, HasSubstr("[i=1] from the point"));
  }
}

TEST_F(Sweep, AChangedScriptIsNoticed) {
  file("helper.lua", "return 1");
  experiment("changing", 3, "return { x = require('helper_by_path') }");
  file("changing.lua", "local h = dofile 'helper.lua'\n" + read(path("changing.lua")));
  file("helper_by_path.lua", "return 7");
  EXPECT_EQ(tessera({"run", "changing.lua", "--where", "i=1"}).status, 0);
  file("helper.lua", "return 2");
  test::expect_refusal(tessera({"run", "changing.lua"}), 1, "the script has changed since run 1");
  EXPECT_EQ(rows("changing").size(), 1u);
  test::Process p = tessera({"run", "changing.lua", "--mix"});
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_EQ(rows("changing").size(), 3u);
  p = tessera({"results", "changing", "--json", "--meta"});
  EXPECT_THAT(p.out, HasSubstr("script_hash"));
  p = tessera({"run", "changing.lua", "--fresh"});
  EXPECT_THAT(p.err, HasSubstr("3 to run"));
  EXPECT_THAT(p.err, HasSubstr("run 2"));
}

TEST_F(Sweep, FlagsChooseThePoints) {
  experiment("flags", 6, "return { x = 1 }", "quick = { i = { 2, 4 } },");
  test::Process p = tessera({"run", "flags.lua", "--dry-run"});
  EXPECT_EQ(p.status, 0);
  EXPECT_THAT(p.out, HasSubstr("would run   i=6"));
  EXPECT_FALSE(std::filesystem::exists(path("results.db")));
  p = tessera({"run", "flags.lua", "--where", "i=2,3"});
  EXPECT_EQ(p.status, 0) << p.err;
  p = tessera({"run", "flags.lua", "--dry-run"});
  EXPECT_THAT(p.out, HasSubstr("stored: done"));
  EXPECT_THAT(p.out, HasSubstr("6 points, 2 stored, 4 to run"));
  p = tessera({"flags.lua", "--quick"});
  EXPECT_THAT(p.err, HasSubstr("2 points, 2 to run"));
  test::expect_refusal(tessera({"run", "flags.lua", "--where", "j=2"}), 2, "has no key 'j'");
  test::expect_refusal(tessera({"run", "flags.lua", "--where", "i=9"}), 2, "no point has i = '9'");
  test::expect_refusal(tessera({"run", "flags.lua", "--shard", "4/4"}), 2,
                       "part 4 of 4 does not exist: parts count from 0 to 3");
  test::expect_refusal(tessera({"run", "flags.lua", "--shard", "x"}), 2, "'x' is not i/n");
}

TEST_F(Sweep, LaunchersSayWhichPartAndPartsMerge) {
  experiment("parts", 10, "return { x = point.i }");
  const std::pair<const char*, const char*> launchers[] = {
      {"SLURM_PROCID", "SLURM_NTASKS"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"},
      {"RANK", "WORLD_SIZE"}};
  int part = 0;
  for (const auto& [rank, size] : launchers) {
    test::ProcessSetup setup;
    setup.environment = {{rank, std::to_string(part)}, {size, "4"}};
    const test::Process p = tessera({"run", "parts.lua", "--jobs", "1"}, setup);
    EXPECT_EQ(p.status, 0) << p.err;
    EXPECT_THAT(p.err, HasSubstr("part " + std::to_string(part) + "/4, as "));
    EXPECT_TRUE(
        std::filesystem::exists(path("results.shard-" + std::to_string(part) + "-of-4.db")));
    ++part;
  }
  const test::Process p = tessera({"results", "--results", "all.db", "--merge",
                                   "results.shard-0-of-4.db,results.shard-1-of-4.db,"
                                   "results.shard-2-of-4.db,results.shard-3-of-4.db"});
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_EQ(rows("parts", "all.db").size(), 10u);
}

TEST_F(Sweep, ClaimsDecideTheStatus) {
  experiment("claims", 3, "return { x = point.i }",
             "check = function(t) t:expect_all { column = 'x', at_most = 2 } end,");
  test::Process p = tessera({"run", "claims.lua", "--where", "i=1,2"});
  EXPECT_EQ(p.status, 0) << p.out;
  EXPECT_THAT(p.out, HasSubstr("skipped"));
  EXPECT_THAT(p.out, HasSubstr("1 point not run"));
  p = tessera({"run", "claims.lua"});
  EXPECT_EQ(p.status, 1);
  EXPECT_THAT(p.out, HasSubstr("FAIL"));
  EXPECT_THAT(p.out, HasSubstr("i=3: 3"));
}

TEST_F(Sweep, AClaimThatIsListedAsNotReproducedSaysWhyAndPasses) {
  experiment("differs", 2, "return { x = point.i }",
             "notes = { 'kernels of 2023' }, check = function(t) t:expect_all { column = 'x', "
             "at_most = tonumber(os.getenv 'BOUND'), not_reproduced = 'another GPU', here = { 1, 2 "
             "} } end,");
  ::setenv("BOUND", "1", 1);
  test::Process p = tessera({"run", "differs.lua"});
  EXPECT_EQ(p.status, 0) << p.out;
  EXPECT_THAT(p.out, HasSubstr("notes:\n  - kernels of 2023\n"));
  EXPECT_THAT(p.out, HasSubstr("claims, of which 1 is not reproduced:"));
  EXPECT_THAT(p.out, HasSubstr("i=2: 2\n           not reproduced (here 1 to 2): another GPU\n"));
  p = tessera({"results"});
  EXPECT_THAT(p.out, HasSubstr("0 of 1 passed, 1 not reproduced"));
  ::setenv("BOUND", "2", 1);
  p = tessera({"run", "differs.lua"});
  ::unsetenv("BOUND");
  EXPECT_EQ(p.status, 1) << p.out;
  EXPECT_THAT(p.out, HasSubstr("it holds, though it is listed as not reproduced (another GPU)"));
}

TEST_F(Sweep, SeveralFilesRunOneAfterTheOther) {
  experiment("one", 1, "error 'no'");
  experiment("two", 1, "return { x = 1 }");
  const test::Process p = tessera({"run", "one.lua", "two.lua"});
  EXPECT_EQ(p.status, 1);
  EXPECT_EQ(rows("two").size(), 1u);
}

}  // namespace
}  // namespace tessera::sweep_test
