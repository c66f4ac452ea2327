// Scripts that try to get out of the sandbox, and scripts that have no reason to.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "case_name.h"
#include "program.h"
#include "sandbox_escapes.h"
#include "sanitised.h"

namespace tessera::sandbox_test {
namespace {

namespace fs = std::filesystem;
using test::Escape;
using testing::HasSubstr;
using testing::Not;

/// work/ is where scripts run, work/x-out is their output folder, outside/ is not to be touched.
class SandboxFolder : public test::FolderTest {
 protected:
  SandboxFolder() {
    folder_ = fs::canonical(folder_);
    file("outside/secret", "{ \"secret\": true }");
    file("work/.keys", "secret");
    fs::create_directories(folder_ / "work" / "x-out");
    fs::create_symlink(folder_ / "outside" / "secret", folder_ / "work" / "x-out" / "link");
    fs::create_symlink(folder_ / "outside" / "new", folder_ / "work" / "x-out" / "dangling");
    fs::create_symlink(folder_ / "outside", folder_ / "work" / "x-out" / "folder");
  }

  // Path -> content of everything but the output folder.
  std::map<std::string, std::string> everything_outside() const {
    std::map<std::string, std::string> files;
    for (fs::recursive_directory_iterator it(folder_), end; it != end; ++it) {
      if (it->path().filename() == "x-out") it.disable_recursion_pending();
      if (it->is_regular_file()) files[it->path().string()] = read(it->path().string());
      if (it->is_directory()) files[it->path().string()] = "folder";
    }
    return files;
  }

  test::Process run(std::vector<std::string> command, const std::string& code,
                    const std::vector<std::string>& flags = {}) {
    const std::string script = file("work/x.lua", code);
    for (const char* word : {"run", "--sandbox"}) command.emplace_back(word);
    command.insert(command.end(), flags.begin(), flags.end());
    command.push_back(script);
    test::ProcessSetup setup;
    setup.directory = path("work");
    setup.environment = {{"TESSERA_TEST_SECRET", "secret"}};
    return test::run_process(command, setup);
  }
  test::Process run_product(const std::string& code, const std::vector<std::string>& flags = {}) {
    return run({TESSERA_PROGRAM}, code, flags);
  }

  std::string script_of(const Escape& escape, const std::string& prelude) const {
    std::string code = escape.code;
    if (const auto at = code.find("PLAN "); at != std::string::npos) {
      code.replace(at, 5, test::kSmallPlan);
    }
    return "local ts = require 'tessera'\nlocal out, outside, secret = '" + path("work/x-out") +
           "', '" + path("outside") + "', '" + path("outside/secret") + "'\n" + prelude +
           "local function escape() " + code +
           " end\n"
           "local result = { pcall(escape) }\n"
           "if result[1] and result[2] then print('GOT OUT') os.exit(0) end\n"
           "io.stderr:write('refused: ', tostring(result[2] or result[3]), '\\n')\n"
           "os.exit(7)\n";
  }

  void expect_refused(const std::vector<std::string>& command, const Escape& escape,
                      const std::string& prelude = "") {
    const std::string script = script_of(escape, prelude);
    file("work/x.lua", script);
    const auto before = everything_outside();
    const test::Process p = run(command, script);
    EXPECT_EQ(p.status, 7) << p.out << p.err;
    EXPECT_THAT(p.err, HasSubstr("refused: "));
    EXPECT_THAT(p.err, HasSubstr(escape.message));
    EXPECT_THAT(p.out, Not(HasSubstr("GOT OUT")));
    EXPECT_EQ(everything_outside(), before);
  }
};

class LuaEscape : public SandboxFolder, public testing::WithParamInterface<Escape> {};

TEST_P(LuaEscape, IsRefused) { expect_refused({TESSERA_PROGRAM}, GetParam()); }
TEST_P(LuaEscape, IsRefusedByLuasWallAlone) {
  expect_refused({TESSERA_SANDBOX_WALLS, "lua"}, GetParam());
}
INSTANTIATE_TEST_SUITE_P(Sandbox, LuaEscape, testing::ValuesIn(test::kLuaEscapes), test::case_name);

#if defined(__x86_64__)  // the system calls are numbers there
class KernelEscape : public SandboxFolder, public testing::WithParamInterface<Escape> {};

TEST_P(KernelEscape, IsRefusedByTheKernelsWallAlone) {
  if (test::kSanitised && GetParam().name == std::string_view("more_memory")) {
    GTEST_SKIP() << "AddressSanitizer maps terabytes: mapped memory has no limit under it";
  }
  expect_refused(
      {TESSERA_SANDBOX_WALLS, "kernel"}, GetParam(),
      "local ffi = require 'ffi'\n"
      "ffi.cdef [[ int fork(); long syscall(long, ...); int execv(const char*, char**);\n"
      "int socket(int, int, int); int kill(int, int); int getppid();\n"
      "int open(const char*, int); int truncate(const char*, long);\n"
      "int mkdir(const char*, int); int symlink(const char*, const char*);\n"
      "int link(const char*, const char*); int chmod(const char*, int);\n"
      "int setuid(int); int chroot(const char*); int unshare(int);\n"
      "int ioctl(int, unsigned long, ...); int setrlimit(int, long*);\n"
      "char* strerror(int); ]]\n"
      "local C = ffi.C\n"
      "local function no(what) error(what .. ': ' .. ffi.string(C.strerror(ffi.errno()))) end\n");
}
INSTANTIATE_TEST_SUITE_P(Sandbox, KernelEscape, testing::ValuesIn(test::kKernelEscapes),
                         test::case_name);
#endif

// Without walls the same way of looking sees that the script got out.
TEST_F(SandboxFolder, IsNeededForTheseTests) {
  const Escape escape{"open_to_write", "return io.open(outside .. '/new', 'w')", ""};
  const std::string script = file("work/x.lua", script_of(escape, ""));
  const auto before = everything_outside();
  const test::Process p = test::run_program({"run", script}, {.directory = path("work")});
  EXPECT_EQ(p.out, "GOT OUT\n");
  EXPECT_NE(everything_outside(), before);
}

struct Burden {
  const char* name;
  const char* code;
};
void PrintTo(const Burden& burden, std::ostream* stream) { *stream << burden.name; }

// Scripts that never end by themselves, or that want all memory: whichever limit comes first.
constexpr Burden kBurdens[] = {
    {"loop", "while true do end"},
    {"loop_in_pcall", "while true do pcall(error, 'x') end"},
    {"pcall_that_calls_itself", "local function f() pcall(f) return f() end f()"},
    {"error_handler_that_loops", "xpcall(error, function() while true do end end)"},
    {"coroutines",
     "local kept = {} while true do local c = coroutine.create(function() coroutine.yield() end) "
     "coroutine.resume(c) kept[#kept + 1] = c end"},
    {"text_that_doubles", "local s = 'x' while true do s = s .. s end"},
    {"text_that_doubles_in_pcall",
     "local s = 'x' while true do pcall(function() s = s .. s end) end"},
    {"huge_rep", "local t = {} for i = 1, 1e9 do t[i] = string.rep('x' .. i, 1e7) end"},
    {"huge_concat",
     "local t = {} for i = 1, 1e7 do t[i] = 'abcdefgh' end local s = {} "
     "for i = 1, 1e6 do s[i] = table.concat(t, i) end"},
    {"pattern_that_backtracks",
     "local s = string.rep('a', 5000) string.find(s, string.rep('a*', 30) .. 'b')"},
    {"planner_with_all_the_time",
     "local ts = require 'tessera' ts.register_planner { name = 'slow', doc = 'd', "
     "plan = function() while true do end end } ts.plan(ts.problem { model = 'opt-125m', "
     "cluster = '2xT4-16G', theta = 1 }, { planner = 'slow', time_limit_s = 1e6 })"},
    {"option_that_never_answers",
     "local ts = require 'tessera' ts.plan(ts.problem { model = 'opt-125m', cluster = '2xT4-16G', "
     "theta = 1 }, setmetatable({}, { __index = function() while true do end end }))"},
    {"error_that_never_answers",
     "error(setmetatable({}, { __tostring = function() while true do end end }))"},
    {"incumbent_that_never_returns",
     "local ts = require 'tessera' ts.plan(ts.problem { model = 'opt-125m', cluster = '2xT4-16G', "
     "theta = 1 }, { time_limit_s = 1e6, on_incumbent = function() while true do end end })"},
    {"heuristic_that_never_stops",
     "local ts = require 'tessera' ts.register_heuristic { name = 'slow', doc = 'd', improve = "
     "function(s) while true do for _ in s:moves {} do end end end } ts.plan(ts.problem { model = "
     "'opt-125m', cluster = '2xT4-16G', theta = 1 }, { planner = { 'adabits', 'slow' }, "
     "time_limit_s = 1e6 })"},
    {"check_that_never_returns",
     "return require('tessera').experiment { name = 's/x', doc = 'd', grid = { i = { 1 } }, "
     "run = function() return { x_s = 1 } end, check = function() while true do end end }"},
    {"point_that_catches_everything",
     "return require('tessera').experiment { name = 's/x', doc = 'd', grid = { i = { 1 } }, "
     "run = function() while true do pcall(error) end end }"},
    {"coroutines_in_turn",
     "local c = coroutine.wrap(function() while true do coroutine.yield() end end) "
     "while true do c() end"},
    {"objects_of_the_engine",
     "local ts = require 'tessera' local p, t = ts.problem { model = 'opt-125m', cluster = "
     "'2xT4-16G', theta = 1 }, {} for i = 1, 1e9 do t[i] = p:with { theta = i } end"},
    {"data_that_grows_while_read",
     "require('tessera.core').from_json('[' .. string.rep('[1],', 1e7) .. '1]')"},
    {"pipe_that_nobody_reads", "io.open('x-out/pipe', 'w')"},
    {"pipe_that_nobody_writes", "require('tessera.core').read_file 'x-out/pipe'"},
    {"prints_without_end", "while true do print(string.rep('x', 1e6)) end"},
    {"writes_without_end",
     "local f = io.open('x-out/f', 'w') for i = 1, 1e12 do f:seek('set', 0) f:write('x') end"},
};

class Limit : public SandboxFolder, public testing::WithParamInterface<Burden> {};

TEST_P(Limit, EndsTheScript) {
  ASSERT_EQ(::mkfifo(path("work/x-out/pipe").c_str(), 0600), 0);
  const test::Process p = run_product(
      GetParam().code, {"--sandbox-time-limit-s", "1.5", "--sandbox-memory-gib", "0.125"});
  EXPECT_EQ(p.status, 1) << p.err;
  EXPECT_THAT(p.err, testing::AnyOf(HasSubstr("time limit of 1.5 s; --sandbox-time-limit-s"),
                                    HasSubstr("--sandbox-memory-gib allows more"),
                                    HasSubstr("after it had printed 256.0 MiB")));
}
INSTANTIATE_TEST_SUITE_P(Sandbox, Limit, testing::ValuesIn(kBurdens), test::case_name);

class Sandbox : public SandboxFolder {};

TEST_F(Sandbox, ReadsBesideTheScriptAndWritesIntoTheOutputFolder) {
  file("work/helper.lua", "return { answer = 42 }");
  file("work/data.txt", "data");
  const test::Process p = run_product(
      "local here = debug.getinfo(1, 'S').source:match '^@(.*)/'\n"
      "assert(io.open(here .. '/data.txt')):close()\n"
      "print(require('helper').answer, ...)\n"
      "local name = os.tmpname()\n"
      "local f = assert(io.open(name, 'w')) f:write 'mine' f:close()\n"
      "assert(os.rename(name, 'x-out/mine'))\n"
      "for line in io.lines 'x-out/mine' do print(line) end\n"
      "print(load 'return 1 + 1'(), string.format('%d', 3), pcall(error, 'x'))\n"
      "assert(os.remove 'x-out/mine')\n");
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_EQ(p.out, "42\nmine\n2\t3\tfalse\tx\n");
  EXPECT_EQ(p.err, "");
}

TEST_F(Sandbox, PlansSimulatesAndSaves) {
  const test::Process p = run_product(
      std::string("local ts = require 'tessera' ") + test::kSmallPlan +
      "plan = assert(ts.plan(problem, { planner = 'exact' })) plan:save 'x-out/plan.json' "
      "ts.picture(plan, 'x-out/plan.svg') ts.simulate(plan):save_trace 'x-out/trace.json' "
      "assert(ts.plan(problem, { planner = { 'adabits', 'bitwidth_transfer_lua' } })) "
      "local whole = problem:with { use_all_devices = true } "
      "for _, kind in ipairs { 'lp', 'mps' } do assert(whole:write_model('x-out/model.' .. kind, "
      "{ prefill_micro_batch_size = 2, decode_micro_batch_size = 4 })) end "
      "assert(ts.check(ts.load_plan 'x-out/plan.json')) print(plan.status)");
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_EQ(p.out, "optimal\n");
  for (const char* name : {"plan.json", "plan.svg", "trace.json", "model.lp", "model.mps"}) {
    EXPECT_TRUE(fs::exists(folder_ / "work" / "x-out" / name)) << name;
  }
}

// Parts that are loaded when a script first names them.
TEST_F(Sandbox, HasEveryPartOfTheLibrary) {
  const test::Process p = run_product(
      "local ts = require 'tessera'\n"
      "local workload = { prompt_tokens = 64, output_tokens = 8, batch_size = 4 }\n"
      "local problem = ts.problem { model = 'opt-125m', cluster = '2xT4-16G', theta = 1, "
      "bitwidths = { 8, 16 }, workload = workload }\n"
      "local plan = assert(ts.plan(problem))\n"
      "assert(ts.size { model = 'opt-125m', devices = { 'T4-16G' }, workload = workload, "
      "target = { latency_s = 10 } })\n"
      "assert(#ts.pareto(problem) >= 1)\n"
      "assert(ts.replan(plan, ts.cluster '1xT4-16G'))\n"
      "assert(ts.max_batch(problem)) assert(#ts.beside(plan) > 0)\n"
      "ts.plot { kind = 'bars', rows = { { a = 'x', b_s = 1 } }, x = 'a', y = 'b_s' }:save "
      "'x-out/plot.svg'\n"
      "local results = ts.results 'mine' results:add({ a = 1 }, { b = 2 })\n"
      "assert(#results:rows() == 1 and #ts.grid { a = { 1, 2 } } == 2)\n"
      "assert(ts.table { { a = 1 } } and ts.paper 'llmpq/table4.csv' and ts.help_topics().models)\n"
      "for _, name in ipairs(ts.planners()) do assert(name.name) end print 'all'");
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_EQ(p.out, "all\n");
  EXPECT_TRUE(fs::exists(folder_ / "work" / "x-out" / "plot.svg"));
  EXPECT_TRUE(fs::exists(folder_ / "work" / "x-out" / "results.db"));
}

TEST_F(Sandbox, SweepsAnExperimentIntoTheOutputFolder) {
  const test::Process p = run_product(
      "local ts = require 'tessera' return ts.experiment { name = 's/x', doc = 'd', "
      "grid = { i = { 1, 2, 3 } }, run = function(point) return { x_s = 2 * point.i } end }",
      {"--json"});
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_THAT(p.out, HasSubstr("\"x_s\": 6"));
  EXPECT_TRUE(fs::exists(folder_ / "work" / "x-out" / "results.db"));
  const test::Process elsewhere = run_product(
      "local ts = require 'tessera' ts.results('s', { db = '../outside/new' }):add({ a = 1 }, {})");
  EXPECT_EQ(elsewhere.status, 1);
  EXPECT_THAT(elsewhere.err, HasSubstr("writes beneath"));
  EXPECT_FALSE(fs::exists(folder_ / "outside" / "new"));
}

TEST_F(Sandbox, RunsTheScriptsThatShip) {
  int count = 0;
  for (const char* folder : {"examples", "tutorial", "llmpq", "splitquant"}) {
    for (const auto& entry :
         fs::directory_iterator(fs::path(TESSERA_SOURCE_DIR) / "experiments" / folder)) {
      if (entry.path().extension() != ".lua") continue;
      const std::string name = folder + ("/" + entry.path().stem().string());
      const test::Process p =
          test::run_program({"run", "--sandbox", "--quick", name, "--sandbox-out", "out"},
                            {.directory = path("work"), .timeout_s = 120});
      EXPECT_EQ(p.status, 0) << name << "\n" << p.err;
      ++count;
    }
  }
  EXPECT_GE(count, 13);
}

TEST_F(Sandbox, MakesItsOutputFolderAndNamesABadOne) {
  file("work/y.lua", "io.open('y-out/f', 'w'):write 'x'");
  EXPECT_EQ(test::run_program({"run", "--sandbox", "y.lua"}, {.directory = path("work")}).status,
            0);
  EXPECT_EQ(read(path("work/y-out/f")), "x");
  test::expect_refusal(test::run_program({"run", "--sandbox", "--sandbox-out", "y.lua", "y.lua"},
                                         {.directory = path("work")}),
                       1, "cannot make the sandbox's output folder 'y.lua'");
}

// Whoever wrote the script may have put a link of this name beside it.
TEST_F(Sandbox, DoesNotFollowALinkToItsOutputFolder) {
  fs::create_symlink(folder_ / "outside", folder_ / "work" / "z-out");
  file("work/z.lua", "io.open('z-out/new', 'w'):write 'x'");
  test::expect_refusal(
      test::run_program({"run", "--sandbox", "z.lua"}, {.directory = path("work")}), 1,
      "is a link to");
  EXPECT_FALSE(fs::exists(folder_ / "outside" / "new"));
  // Naming it is a decision.
  EXPECT_EQ(test::run_program({"run", "--sandbox", "z.lua", "--sandbox-out", "z-out"},
                              {.directory = path("work")})
                .status,
            0);
}

TEST_F(Sandbox, DoesNotWriteWhereItRunsOrWhereTheProgramIs) {
  file("work/z.lua", "print 'ran'");
  for (const std::string& folder :
       {std::string("/"), std::string("."), folder_.string(), std::string(TESSERA_SOURCE_DIR)}) {
    test::expect_refusal(test::run_program({"run", "--sandbox", "z.lua", "--sandbox-out", folder},
                                           {.directory = path("work")}),
                         1, "give a folder of its own as --sandbox-out");
  }
  fs::create_directories(folder_ / "home" / "me");
  test::ProcessSetup setup;
  setup.directory = path("work");
  setup.environment = {{"HOME", path("home/me")}};
  test::expect_refusal(
      test::run_program({"run", "--sandbox", "z.lua", "--sandbox-out", path("home")}, setup), 1,
      "home/me");
}

TEST_F(Sandbox, NamesItsOwnMemoryLimit) {
  const test::Process p = run_product(
      "return require('tessera').experiment { name = 's/x', doc = 'd', grid = { i = { 1 } }, "
      "run = function() local s = 'x' while true do s = s .. s end end }",
      {"--sandbox-memory-gib", "0.125"});
  EXPECT_EQ(p.status, 1);
  EXPECT_THAT(p.out + p.err, HasSubstr("not enough memory; --sandbox-memory-gib allows more"));
}

TEST_F(Sandbox, RefusesFlagsThatMakeNoSense) {
  test::expect_refusal(run_product("", {"--jobs", "2"}), 2, "--jobs");
  test::expect_refusal(
      run_product("return require('tessera').experiment { name = 's/x', doc = 'd', "
                  "grid = { i = { 1 } }, run = function() return {} end }",
                  {"--memory-limit-gib", "1"}),
      1, "--sandbox-memory-gib limits it");
  test::expect_refusal(run_product("", {"--sandbox-time-limit-s", "0"}), 2,
                       "--sandbox-time-limit-s");
  test::expect_refusal(run_product("", {"--sandbox-memory-gib", "lots"}), 2,
                       "--sandbox-memory-gib");
  test::expect_refusal(test::run_program({"run", "--sandbox", "-"}, {.input = "print(1)"}), 2,
                       "has to be a file");
  test::expect_refusal(
      test::run_program({"run", "--sandbox", "nowhere.lua"}, {.directory = path("work")}), 1,
      "nowhere.lua");
}

// A user who asks for the sandbox in the wrong place must not run the script without it.
TEST_F(Sandbox, IsNeverTakenForAnArgument) {
  const std::string script = file("work/x.lua", "io.open('../outside/new', 'w') return nil");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{script, "--sandbox"},
        {script, "a", "--sandbox-out", "o"},
        {"-e", "io.open('../outside/new', 'w')", "--sandbox=true"}}) {
    test::expect_refusal(test::run_program(words, {.directory = path("work")}), 2,
                         "tessera run --sandbox FILE");
  }
  EXPECT_FALSE(fs::exists(folder_ / "outside" / "new"));
  file("work/x.lua", "print(...)");
  EXPECT_EQ(test::run_program({script, "--", "--sandbox"}, {.directory = path("work")}).out,
            "--sandbox\n");
  file("work/x.lua",
       "return require('tessera').experiment { name = 's/x', doc = 'd', grid = { i = { 1 } }, "
       "run = function() return {} end }");
  test::expect_refusal(
      test::run_program({"run", script, "--", "--sandbox"}, {.directory = path("work")}), 2,
      "came behind --");
}

TEST_F(Sandbox, PassesOnTheStatusAndWhatIsPrinted) {
  EXPECT_EQ(run_product("os.exit(5)").status, 5);
  const test::Process failed = run_product("print 'before' error 'no'");
  EXPECT_EQ(failed.status, 1);
  EXPECT_EQ(failed.out, "before\n");
  EXPECT_THAT(failed.err, HasSubstr("no"));
  const test::Process p = run_product("io.write(io.read '*a', string.rep('x', 3e6))");
  EXPECT_EQ(p.out.size(), 3'000'000u);
}

TEST_F(Sandbox, SaysWhichSignalEndedTheScript) {
  // The signal is to end it, also where a sanitizer would catch it.
  const char* sanitizer = std::getenv("ASAN_OPTIONS");
  setenv("ASAN_OPTIONS",
         (std::string(sanitizer == nullptr ? "" : sanitizer) + ":handle_segv=0").c_str(), 1);
  const test::Process p =
      run({TESSERA_SANDBOX_WALLS, "kernel"}, "require('ffi').cast('int*', 8)[0] = 1");
  EXPECT_EQ(p.status, 1);
  EXPECT_THAT(p.err, HasSubstr("died of signal 11"));
}

TEST_F(Sandbox, EndsAtCtrlC) {
  const std::string script = file("work/x.lua", "io.stderr:write 'ready\\n' while true do end");
  for (const char* loop : {"while true do end", "while true do pcall(error) end"}) {
    file("work/x.lua", std::string("io.stderr:write 'ready\\n' ") + loop);
    const test::Process p =
        test::run_program({"run", "--sandbox", script},
                          {.directory = path("work"), .wait_for = "ready", .then = [](pid_t id) {
                             kill(id, SIGINT);
                           }});
    EXPECT_EQ(p.status, 130) << p.err;
  }
}

}  // namespace
}  // namespace tessera::sandbox_test
