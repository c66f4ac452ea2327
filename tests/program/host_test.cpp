// The program as its users meet it: every case starts the real executable.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "case_name.h"
#include "program.h"

namespace tessera::host_test {
namespace {

namespace fs = std::filesystem;
using test::Process;
using test::ProcessSetup;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

using test::first_line;

Process tessera(std::vector<std::string> arguments, ProcessSetup setup = {}) {
  return test::run_program(std::move(arguments), std::move(setup));
}

Process run_code(const std::string& code) { return tessera({"-e", code}); }

class Host : public test::FolderTest {
 protected:
  Process run_script(const std::string& content) { return tessera({file("script.lua", content)}); }
};

TEST_F(Host, RunsAScriptWithItsArguments) {
  const std::string script =
      file("a.lua", "local a, b = ...\nprint(a, b, #arg, arg[0]:match '[^/]+$')\n");
  const Process p = tessera({script, "x", "--quick"});
  EXPECT_EQ(p.status, 0);
  EXPECT_EQ(p.out, "x\t--quick\t2\ta.lua\n");
  EXPECT_THAT(p.err, IsEmpty());
  EXPECT_EQ(tessera({"run", script, "x", "y"}).out, "x\ty\t2\ta.lua\n");
}

TEST_F(Host, RunsSeveralFilesInOneState) {
  const std::string a = file("a.lua", "rawset(_G, 'shared', 5)");
  const std::string b = file("b.lua", "print(rawget(_G, 'shared'))");
  EXPECT_EQ(tessera({"run", a, b}).out, "5\n");
  const std::string bad = file("bad.lua", "error 'stop'");
  const Process p = tessera({"run", bad, b});
  EXPECT_EQ(p.status, 1);
  EXPECT_THAT(p.out, IsEmpty());
}

TEST_F(Host, AcceptsEmptyFilesMarksAndInterpreterLines) {
  EXPECT_EQ(run_script("").status, 0);
  EXPECT_EQ(run_script("#!/usr/bin/env tessera\nprint(1)").out, "1\n");
  EXPECT_EQ(run_script("\xEF\xBB\xBFprint(2)").out, "2\n");
  ProcessSetup setup;
  setup.input = "print('from stdin')";
  EXPECT_EQ(tessera({"-"}, setup).out, "from stdin\n");
}

TEST_F(Host, KeepsStdoutForDataWithJson) {
  const std::string script = file("a.lua",
                                  "local host = require 'tessera.host'\n"
                                  "print('chatter') io.write('more\\n')\n"
                                  "host.set_result { json = host.json, list = { 1, 2 } }\n");
  const Process p = tessera({script, "--json"});
  EXPECT_EQ(p.status, 0);
  EXPECT_EQ(nlohmann::json::parse(p.out),
            nlohmann::json::parse(R"({"json": true, "list": [1, 2]})"));
  EXPECT_EQ(p.err, "chatter\nmore\n");
  EXPECT_EQ(tessera({script}).out, "chatter\nmore\n");
}

struct Failure {
  const char* name;
  const char* code;
  const char* first_line;
};
void PrintTo(const Failure& failure, std::ostream* stream) { *stream << failure.name; }

class HostFailure : public Host, public testing::WithParamInterface<Failure> {};

TEST_P(HostFailure, PrintsOneClearLineAndFails) {
  const Process p = run_script(GetParam().code);
  EXPECT_EQ(p.status, 1);
  EXPECT_THAT(first_line(p.err), StartsWith("tessera: "));
  EXPECT_THAT(first_line(p.err), HasSubstr(GetParam().first_line));
  EXPECT_THAT(p.out, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Errors, HostFailure,
    testing::Values(
        Failure{"text", "error 'broken'", "script.lua:1: broken"},
        Failure{"table", "error {}", "a table, not a message"},
        Failure{"nil", "error(nil)", "without a message"}, Failure{"number", "error(42)", "42"},
        Failure{"function", "error(print)", "a function"},
        Failure{"tostring_raises",
                "error(setmetatable({}, { __tostring = function() error 'worse' end }))", "worse"},
        Failure{"tostring_loops",
                "local t = {} setmetatable(t, { __tostring = function() error(t) end }) error(t)",
                "__tostring fails"},
        Failure{"finalizer",
                "local p = newproxy(true) getmetatable(p).__gc = function() error 'in gc' end",
                "in gc"},
        Failure{"recursion", "local function f() return 1 + f() end f()", "stack overflow"},
        Failure{"c_recursion", "local s = ('('):rep(1e5) assert(loadstring(s))", "script.lua"},
        Failure{"string_recursion",
                "local t = setmetatable({}, {}) getmetatable(t).__index = function(_, k) "
                "return t[k + 1] end return t[1]",
                "stack overflow"},
        Failure{"memory",
                "require 'tessera.host'.limit_memory(2^26) local t = {} "
                "while true do t[#t + 1] = ('x'):rep(1e5) .. #t end",
                "not enough memory"},
        Failure{"coroutine", "local co = coroutine.wrap(function() error 'inside' end) co()",
                "inside"},
        Failure{"syntax", "local = 5", "script.lua:1:"},
        Failure{"read_global", "print(foo)", "undeclared global 'foo'"},
        Failure{"near_global", "pritn(1)", "did you mean 'print'"},
        Failure{"write_global", "x = 1", "undeclared global 'x'; use 'local'"},
        Failure{"global_function", "function f() end", "use 'local'"},
        Failure{"module", "require 'no.such.module'", "no.such.module"},
        Failure{"bytecode", "\x1bLJ\x02", "bytecode is not loaded"},
        Failure{"result", "require 'tessera.host'.set_result(print)", "a function"}),
    test::case_name);

TEST_F(Host, ShowsCodePositionAndTraceback) {
  const Process p = run_script("local function inner()\n  print(nothing_here)\nend\ninner()\n");
  EXPECT_THAT(p.err, HasSubstr("  code:  script\n"));
  EXPECT_THAT(p.err, HasSubstr("script.lua:2"));
  EXPECT_THAT(p.err, HasSubstr("stack traceback:"));
  EXPECT_THAT(p.err, HasSubstr("in function 'inner'"));
}

TEST_F(Host, ShowsTheCallersLineOfALibraryErrorAndNoTraceback) {
  const Process p = run_script(
      "local ts = require 'tessera'\n"
      "local problem = ts.problem { model = 'opt-13b', cluster = '1xA100-40G' }\n"
      "local plan = ts.plan(problem, { planner = 'exakt' })\nprint(plan)\n");
  EXPECT_EQ(p.status, 1);
  EXPECT_THAT(p.err, HasSubstr("  code:  not_found\n"));
  EXPECT_THAT(p.err, HasSubstr("script.lua:3\n"));
  EXPECT_THAT(p.err, Not(HasSubstr("planners.lua")));
  EXPECT_THAT(p.err, Not(HasSubstr("traceback")));
}

TEST_F(Host, RefusesWhatIsNoScript) {
  const auto refused = [](const std::string& path, const std::string& why) {
    const Process p = tessera({path});
    EXPECT_EQ(p.status, 1) << path;
    EXPECT_THAT(first_line(p.err), HasSubstr(why));
    EXPECT_EQ(std::count(p.err.begin(), p.err.end(), '\n'), 3) << p.err;
  };
  refused((folder_ / "absent.lua").string(), "No such file");
  refused(folder_.string(), "a folder, not a script; `tessera list`");
  refused(file("nul.lua", std::string("print(1)\0", 9)), "NUL byte at offset 8");
  refused(TESSERA_PROGRAM, "");
  refused(file("huge.lua", std::string((16u << 20) + 1, ' ')), "the limit is 16.0 MiB");
  const std::string locked = file("locked.lua", "print(1)");
  fs::permissions(locked, fs::perms::none);
  if (geteuid() != 0) refused(locked, "Permission denied");
}

TEST_F(Host, ReportsUnwritableOutput) {
  ProcessSetup setup;
  setup.out_path = "/dev/full";
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"-e", "print(1)"},
           {"-e", "for i = 1, 1e5 do print(i) end"},
           {"version"},
           {"help"},
           {"-e", "print(1) os.exit(0)"},
           {"--json", "-e", "require 'tessera.host'.set_result(1)"}}) {
    const Process p = tessera(arguments, setup);
    EXPECT_EQ(p.status, 1) << arguments.back();
    EXPECT_THAT(first_line(p.err), HasSubstr("cannot write to stdout")) << arguments.back();
  }
}

TEST_F(Host, ExitsWithThreeWhenInfeasible) {
  const Process p = run_script(
      "local why = { code = 'infeasible', message = 'stage 1 needs 17 GiB, has 15 GiB' }\n"
      "assert(nil, why)");
  EXPECT_EQ(p.status, 3);
  EXPECT_EQ(first_line(p.err), "tessera: stage 1 needs 17 GiB, has 15 GiB");
}

TEST_F(Host, KeepsTheStatusOfOsExit) {
  EXPECT_EQ(run_code("print(1) os.exit(7)").status, 7);
  EXPECT_EQ(run_code("os.exit(true)").status, 0);
  EXPECT_EQ(run_code("os.exit(false)").status, 1);
}

TEST_F(Host, ReportsUsageErrorsWithTwo) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--bogus"}, "--bogus"},
      {{"lst"}, "did you mean 'list'"},
      {{"-e"}, "-e"},
      {{"run"}, "FILE"},
      {{"list", "extra"}, "extra"},
      {{"help", "no_such_topic"}, "no help on 'no_such_topic'"},
      {{"plan"}, "is required"},
      {{"plan", "--model", "m", "--cluster", "c", "--batch-size", "3.7"},
       "--batch-size: 3.7 is not an integer; give an integer in [1, 1000000] (requests)"},
      {{"plan", "--model", "m", "--cluster", "c", "--theta", "nan"}, "--theta: NaN"},
      {{"plan", "--model", "m", "--cluster", "c", "--theta", "-1"}, "out of range"},
      {{"plan", "--model", "m", "--cluster", "c", "--bitwidths", "3,x"}, "--bitwidths[2]: the str"},
      {{"plan", "--model", "m", "--cluster", "c", "--memory", "llmpq"}, "'llm-pq'"},
      {{"plan", "--promt-tokens", "3"}, "did you mean '--prompt-tokens'"}};
  for (const auto& [arguments, message] : cases) {
    const Process p = tessera(arguments);
    EXPECT_EQ(p.status, 2) << arguments.back();
    EXPECT_THAT(first_line(p.err), StartsWith("tessera: "));
    EXPECT_THAT(p.err, HasSubstr(message));
    EXPECT_THAT(p.out, IsEmpty());
  }
  const Process nothing = tessera({});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.err, HasSubstr("tessera FILE.lua"));
}

TEST_F(Host, SaysWhatItWasBuiltFrom) {
  const Process text = tessera({"version"});
  EXPECT_EQ(text.status, 0);
  for (const char* part : {"commit", "compiler", "flags", "LuaJIT", "cbc", "cuda", "libtorch"}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
  const auto fields = nlohmann::json::parse(tessera({"version", "--json"}).out);
  EXPECT_TRUE(fields.contains("commit"));
  EXPECT_EQ(tessera({"--version"}).out, text.out);
}

TEST_F(Host, ListsItsKernels) {
  const Process text = tessera({"version", "--kernels"});
  EXPECT_EQ(text.status, 0);
  const auto fields = nlohmann::json::parse(tessera({"version", "--kernels", "--json"}).out);
  std::map<std::string, int> chosen;
  for (const auto& kernel : fields.at("kernels")) {
    EXPECT_THAT(text.out, HasSubstr(kernel.at("name").get<std::string>()));
    EXPECT_THAT(text.out, HasSubstr(kernel.at("isa").get<std::string>()));
    chosen[kernel.at("name")] += kernel.at("chosen").get<bool>();
    EXPECT_TRUE(kernel.at("runs_here").get<bool>() || !kernel.at("chosen").get<bool>());
  }
  EXPECT_GE(chosen.size(), 7u);
  for (const auto& [name, count] : chosen) EXPECT_EQ(count, 1) << name;
}

TEST_F(Host, HelpsOnVerbsAndTopics) {
  const std::string all = tessera({"help"}).out;
  EXPECT_THAT(all, AllOf(HasSubstr("repl"), HasSubstr("\nStart here:\n")));
  EXPECT_LT(all.find("  moves "), all.find("  ts.workload "));
  EXPECT_THAT(tessera({"help", "search"}).out, HasSubstr(":random_move("));
  EXPECT_EQ(tessera({"--help"}).out, all);
  for (const char* verb : {"repl", "list", "help", "version"}) {
    EXPECT_EQ(tessera({verb, "--help"}).out, all) << verb;
  }
  EXPECT_THAT(tessera({"help", "plan"}).out, HasSubstr("time_limit_s"));
  EXPECT_THAT(tessera({"help", "ts.beside"}).out, HasSubstr("What people run today"));  // in Lua
  const Process flags = tessera({"plan", "--help"});
  EXPECT_EQ(flags.status, 0);
  EXPECT_THAT(flags.out, HasSubstr("--prompt-tokens"));
}

TEST_F(Host, ListsScriptsWithTheirFirstComment) {
  file("mine/one.lua", "#!/usr/bin/env tessera\n\n--- Sweeps theta.\nprint(1)\n");
  file("mine/two.lua", "print(2)\n-- too late\n");
  file("mine/.hidden.lua", "-- hidden\n");
  ProcessSetup setup;
  setup.environment = {{"TESSERA_PATH", folder_.string()}};
  const Process p = tessera({"list"}, setup);
  EXPECT_EQ(p.status, 0);
  EXPECT_THAT(p.out, HasSubstr("one.lua  Sweeps theta.\n"));
  EXPECT_THAT(p.out, HasSubstr("two.lua\n"));
  EXPECT_THAT(p.out, Not(HasSubstr("hidden")));
  EXPECT_TRUE(nlohmann::json::parse(tessera({"list", "--json"}, setup).out).is_array());
}

TEST_F(Host, FindsModulesOfTheUser) {
  file("lib/mine.lua", "return { answer = 42 }");
  ProcessSetup setup;
  setup.environment = {{"TESSERA_PATH", "/no/such/folder:" + (folder_ / "lib").string()}};
  setup.directory = "/";
  EXPECT_EQ(tessera({"-e", "print(require('mine').answer, type(require('tessera')))"}, setup).out,
            "42\ttable\n");
}

// Copies the program below a prefix with a small library, as an installation would.
class InstalledHost : public Host {
 protected:
  InstalledHost() {
    fs::create_directories(folder_ / "bin");
    fs::copy_file(TESSERA_PROGRAM, folder_ / "bin" / "tessera");
    const std::string library = "share/tessera/scripts/tessera/";
    file(library + "init.lua",
         "return { help_topic = function(name) if name == 'planners' then return 'exact, ilp' end "
         "end, help_topics = function() return { planners = 'who plans' } end }");
    file(library + "cli/plan.lua",
         "return { main = function(o)\n"
         "  if o.model == 'too-big' then\n"
         "    return nil, { code = 'infeasible', message = 'no device holds it' }\n"
         "  end\n"
         "  if o.model == 'broken' then error { code = 'io', message = 'broken' } end\n"
         "  print(o.model, o.cluster, o.prompt_tokens, table.concat(o.bitwidths, ' '), o.gap)\n"
         "  return true\nend }");
    file("share/tessera/experiments/examples/01_first.lua", "-- First plan.\nprint('first')");
  }
  Process run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), (folder_ / "bin" / "tessera").string());
    ProcessSetup setup;
    setup.directory = "/";
    return test::run_process(arguments, setup);
  }
};

TEST_F(InstalledHost, PlansFromFlags) {
  const Process p =
      run({"plan", "--model", "m", "--cluster", "3xT4-16G", "--bitwidths", "4,8", "--gap=0.1"});
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_EQ(p.out, "m\t3xT4-16G\tnil\t4 8\t0.1\n");
  const Process infeasible = run({"plan", "--model", "too-big", "--cluster", "c"});
  EXPECT_EQ(infeasible.status, 3);
  EXPECT_EQ(first_line(infeasible.err), "tessera: no device holds it");
  EXPECT_EQ(run({"plan", "--model", "broken", "--cluster", "c"}).status, 1);
}

TEST_F(InstalledHost, ListsRunsAndHelpsFromThePrefix) {
  EXPECT_THAT(run({"list"}).out, StartsWith("examples/01_first "));
  EXPECT_EQ(run({"examples/01_first"}).out, "first\n");
  EXPECT_EQ(run({"help", "planners"}).out, "exact, ilp\n");
  EXPECT_THAT(run({"help"}).out, HasSubstr("  planners"));
  EXPECT_THAT(run({"help", "planer"}).err, HasSubstr("did you mean 'planners'"));
}

TEST_F(InstalledHost, SaysWhenItsLibraryIsMissing) {
  fs::remove_all(folder_ / "share");
  const Process p = run({"-e", "print(1)"});
  EXPECT_EQ(p.status, 1);
  EXPECT_THAT(first_line(p.err), HasSubstr("the Lua library"));
  EXPECT_EQ(run({"version"}).status, 0);
}

TEST_F(Host, FindsPlannersAndHeuristicsInTesseraPath) {
  fs::create_directories(folder_ / "heuristics");
  fs::create_directories(folder_ / "planners");
  fs::copy_file(fs::path(TESSERA_SOURCE_DIR) / "scripts/tessera/heuristics/_template.lua",
                folder_ / "heuristics" / "mine.lua");
  std::ofstream(folder_ / "planners" / "bad.lua") << "error 'oops'";
  ProcessSetup setup;
  setup.environment = {{"TESSERA_PATH", folder_.string()}};
  const Process help = tessera({"help", "planners"}, setup);
  EXPECT_THAT(help.out, HasSubstr("\n  my_heuristic\n"));
  EXPECT_THAT(help.out, HasSubstr("Not loaded: " + (folder_ / "planners/bad.lua").string()));
  const std::vector<std::string> problem = {"plan", "--model", "opt-125m", "--cluster", "2xT4-16G"};
  auto with = [&](const std::string& planner) {
    auto arguments = problem;
    arguments.insert(arguments.end(), {"--planner", planner});
    return tessera(arguments, setup);
  };
  EXPECT_THAT(with("my_heuristic").out, HasSubstr("by adabits + my_heuristic"));
  const Process unknown = with("my_heuristics");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'my_heuristic'?; not loaded: "));
}

// A heuristic that never calls the engine, on a plan that fits.
std::string silent_heuristic(const std::string& loop) {
  return "local ts = require 'tessera' ts.register_heuristic { name = 'stuck', doc = 'Loops', "
         "improve = function() " +
         loop +
         " end } local plan = ts.plan(ts.problem { model = 'opt-125m', cluster = '2xT4-16G' }, "
         "{ planner = { 'threshold', 'stuck' }, time_limit_s = 0.3 }) "
         "print(plan.notes[#plan.notes])";
}

TEST_F(Host, EndsASilentHeuristicAtItsTimeLimit) {
  const Process compiled = tessera({"-e", silent_heuristic("while true do end")});
  EXPECT_EQ(compiled.status, 1);
  EXPECT_LT(compiled.cpu_s, 5);
  EXPECT_THAT(compiled.out, HasSubstr("opt-125m"));  // the incumbent
  EXPECT_THAT(compiled.err, HasSubstr("tessera: heuristic 'stuck' was still running, silent, past "
                                      "its time limit of 0."));
  EXPECT_THAT(compiled.err, HasSubstr("search:expired()"));
  const Process interpreted = tessera({"-e", silent_heuristic("jit.off() while true do end")});
  EXPECT_EQ(interpreted.status, 0) << interpreted.err;
  EXPECT_EQ(interpreted.out, "heuristic 'stuck' was stopped at its time limit\n");
}

class HostInterrupt : public Host {
 protected:
  // Sends SIGINT once the script has printed "ready".
  Process interrupt(const std::string& code, int times = 1,
                    std::vector<std::string> arguments = {}) {
    ProcessSetup setup;
    setup.wait_for = "ready";
    setup.then = [times](pid_t pid) {
      for (int i = 0; i < times; ++i) {
        usleep(100'000);
        kill(pid, SIGINT);
      }
    };
    arguments.insert(arguments.end(), {"-e", "io.stderr:write 'ready\\n' " + code});
    return tessera(std::move(arguments), setup);
  }
};

TEST_F(HostInterrupt, EndsACompiledLoop) {
  const Process p = interrupt("print 'said before' while true do end");
  EXPECT_EQ(p.status, 130);
  EXPECT_LT(p.cpu_s, 3);
  EXPECT_EQ(p.out, "said before\n");
  EXPECT_THAT(p.err, HasSubstr("tessera: interrupted by Ctrl-C"));
}

TEST_F(HostInterrupt, EndsAtOnceOnTheSecond) {
  const Process p = interrupt("while true do end", 2);
  EXPECT_EQ(p.status, 130);
  EXPECT_LT(p.cpu_s, 1.1);
}

TEST_F(HostInterrupt, PrintsTheIncumbent) {
  const std::string set = "require 'tessera.host'.set_incumbent 'objective 12.5, bound 11' ";
  const Process compiled = interrupt("print 'before' " + set + "while true do end");
  EXPECT_EQ(compiled.status, 130);
  EXPECT_EQ(compiled.out, "before\nobjective 12.5, bound 11\n");
  EXPECT_LT(compiled.cpu_s, 3);
  const Process interpreted = interrupt(set + "jit.off() while true do end");
  EXPECT_EQ(interpreted.status, 130);
  EXPECT_EQ(interpreted.out, "objective 12.5, bound 11\n");
}

TEST_F(HostInterrupt, KeepsStdoutForDataWithJson) {
  const Process p = interrupt(
      "require 'tessera.host'.set_incumbent 'objective 12.5' while true do end", 1, {"--json"});
  EXPECT_EQ(p.status, 130);
  EXPECT_THAT(p.out, IsEmpty());
  EXPECT_THAT(p.err, HasSubstr("objective 12.5\n"));
}

TEST_F(HostInterrupt, RaisesInInterpretedCode) {
  const Process p = interrupt("jit.off() while true do end");
  EXPECT_EQ(p.status, 130);
  EXPECT_LT(p.cpu_s, 1.1);
  EXPECT_THAT(p.err, HasSubstr("stack traceback"));
}

TEST_F(HostInterrupt, IsNotLostInPcallOrBlockingCalls) {
  EXPECT_EQ(interrupt("jit.off() while true do pcall(function() while true do end end) end").status,
            130);
  const Process p = interrupt("pcall(function() while true do end end) print 'went on'");
  EXPECT_EQ(p.status, 130);
}

TEST_F(Host, PromptReadsAPipe) {
  ProcessSetup setup;
  setup.input =
      "x = { 1, 2, b = { c = 'd' } }\n"
      "x\n"
      "=x.b.c\n"
      "for i = 1, 2 do\n"
      "print(i)\n"
      "end\n"
      "error {}\n"
      "local = 4\n"
      "x.self = x\n"
      "x\n"
      "type(ts), type(help)\n"
      "help 'plan'\n"
      "help(print)\n"
      "nil\n";
  const Process p = tessera({"repl"}, setup);
  EXPECT_EQ(p.status, 1);  // some of these lines fail
  EXPECT_THAT(p.out, StartsWith("{ 1, 2, b = { c = \"d\" } }\n\"d\"\n1\n2\n"));
  EXPECT_THAT(p.out, HasSubstr("self = <cycle>"));
  EXPECT_THAT(p.out, HasSubstr("\"table\"\n\"function\"\n"));
  EXPECT_THAT(p.out, HasSubstr("prefill_micro_batch_size"));
  EXPECT_THAT(p.out, HasSubstr("no help on a function"));
  EXPECT_THAT(p.out, Not(HasSubstr("tessera>")));
  EXPECT_THAT(p.err, HasSubstr("a table, not a message"));
  setup.input = "1 + 1\n\nfor i = 1, 2 do\nend\n";
  EXPECT_EQ(tessera({"repl"}, setup).status, 0);
}

TEST_F(Host, PromptRefusesHalfAStatement) {
  ProcessSetup setup;
  setup.input = "for i = 1, 2 do\n";
  const Process p = tessera({"repl"}, setup);
  EXPECT_EQ(p.status, 1);
  EXPECT_THAT(p.err, HasSubstr("in the middle of a statement"));
}

}  // namespace
}  // namespace tessera::host_test
