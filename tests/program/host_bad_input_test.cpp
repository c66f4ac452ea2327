// What a hostile new user types: every case starts the real program and expects one clear line, the
// right exit status, and no half-written file.

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "program.h"

namespace tessera::test::host_bad_input_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Words = std::vector<std::string>;

Words small_plan(const Words& more = {}) {
  Words words = {"plan",     "--model",         "opt-125m", "--cluster",
                 "1xT4-16G", "--batch-size",    "2",        "--prompt-tokens",
                 "16",       "--output-tokens", "4",        "--planner",
                 "uniform"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class BadInput : public FolderTest {
 protected:
  /// Runs `code` with the library as `ts` and a file's path as `path`.
  Process run_with(const std::string& path, const std::string& code) {
    return run_program({"-e", "local path = ... local ts = require 'tessera' " + code, path});
  }
};

TEST_F(BadInput, FlagsOfPlan) {
  const std::vector<std::tuple<Words, int, std::string>> cases = {
      {{"--promt-tokens", "3"}, 2, "'--promt-tokens'; did you mean '--prompt-tokens'"},
      {{"--promt-tokens=3"}, 2, "did you mean '--prompt-tokens'"},
      {{"extra"}, 2, "extra"},
      {{"--theta"}, 2, "--theta"},
      {{"--theta", "1", "--theta", "2"}, 2, "--theta"},
      {{"--theta", "abc"}, 2, "--theta: the string 'abc' is not a number; give a number in [0, "},
      {{"--theta", ""}, 2, "--theta: the string '' is not a number"},
      {{"--theta", "nan"}, 2, "--theta: NaN is not a number"},
      {{"--theta", "inf"}, 2, "--theta: inf is not finite"},
      {{"--theta", "1e400"}, 2, "--theta: inf is not finite"},
      {{"--theta=-1"}, 2, "--theta: -1 is out of range"},
      {{"--time-limit-s=-1"}, 2, "(s)"},
      {{"--seed", "9007199254740994"}, 2, "beyond 2^53"},
      {{"--seed", "3.7"}, 2, "--seed: 3.7 is not an integer"},
      {{"--bitwidths", "3,,4"}, 2, "--bitwidths[2]: the string ''"},
      {{"--bitwidths", "4,"}, 2, "--bitwidths[2]: the string ''"},
      {{"--bitwidths", ""}, 2, "--bitwidths[1]: the string ''"},
      {{"--bitwidths", "0"}, 2, "(bits)"},
      {{"--objective", "fast"}, 2, "'steady', 'paper'"},
      {{"--quality", "unifrom"}, 1, "unknown planner 'unifrom'; did you mean 'uniform'"},
      {{"--kernel-set", "vlm"}, 1, "did you mean 'vllm'"}};
  for (const auto& [flags, status, text] : cases) {
    SCOPED_TRACE(flags.front());
    expect_refusal(run_program(small_plan(flags)), status, text);
  }
  for (const char* batch : {"0", "-3", "3.7", "1e300", "9007199254740993", "0x", "32 ", "nan"}) {
    SCOPED_TRACE(batch);
    expect_refusal(run_program({"plan", "--model", "opt-125m", "--cluster", "1xT4-16G",
                                "--batch-size=" + std::string(batch)}),
                   2, "(requests)");
  }
}

TEST_F(BadInput, UnknownNamesOfferTheNearest) {
  const auto plan = [](const std::string& model, const std::string& cluster) {
    return run_program({"plan", "--model", model, "--cluster", cluster});
  };
  expect_refusal(plan("opt-30", "1xT4-16G"), 1, "unknown model 'opt-30'; did you mean 'opt-30b'");
  expect_refusal(plan("", "1xT4-16G"), 1, "unknown model ''");
  expect_refusal(plan("opt-30b", "1xT4-16"), 1, "unknown device 'T4-16'; did you mean 'T4-16G'");
  expect_refusal(plan("opt-30b", "lmpq-3"), 1, "did you mean 'llmpq-3'");
  expect_refusal(plan("opt-30b", ""), 1, "unknown cluster ''");
  expect_refusal(plan("opt-30b", "0xT4-16G"), 1, "0");
  expect_refusal(plan("opt-30b", "99999999999999999999xT4-16G"), 1, "has 1 to 4096");
  expect_refusal(plan("opt-30b", "1xT4-16G@-5Gbps"), 1, "Gb/s");
  expect_refusal(plan(std::string(100'000, 'x'), "1xT4-16G"), 1, "unknown model 'xxx");
  expect_refusal(run_program(small_plan({"--kernel-set", "\xff"})), 2, "not UTF-8");
  expect_refusal(
      run_program({"plan", "--model", "opt-30b", "--cluster", "1xT4-16G", "--planner", "unifrom"}),
      1, "unknown planner 'unifrom'; did you mean 'uniform'");
  expect_refusal(plan("opt-175b", "1xT4-16G"), 3, "keeps to the SLO");
  expect_refusal(
      run_program({"plan", "--model", "opt-175b", "--cluster", "1xT4-16G", "--batch-size", "32"}),
      3, "need 170.26 GiB");
}

struct Hostile {
  const char* name;
  std::string content;
  const char* text;
};

std::vector<Hostile> hostile_files() {
  return {{"empty", "", "empty, JSON expected"},
          {"blank", " \n\t", "empty, JSON expected"},
          {"truncated", R"({"name": "x", "vers)", "not valid JSON at line 1"},
          {"array", "[1, 2]", "an object"},
          {"null", "null", "null where an object belongs"},
          {"two_values", "{} {}", "not valid JSON"},
          {"deep_arrays", std::string(100'000, '['), "nested deeper than 64 levels"},
          {"deep_objects", "{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}",
           "nested deeper than 64 levels"},
          {"huge_number", R"({"name": 1e400})", "too large for a double"},
          {"duplicate", R"({"name": "a", "name": "b"})", "'name' appears twice"},
          {"latin1", "{\"name\": \"\xe9\"}", "not valid JSON"},
          {"control", "{\"name\": \"\x01\"}", "not valid JSON"},
          {"nul", std::string("{\"name\":\0}", 10), "not valid JSON"},
          {"not_a_number", R"({"name": nAn})", "not valid JSON"},
          {"binary",
           "\x7f"
           "ELF\x02\x01\x01",
           "not valid JSON"},
          {"surrogate", R"({"name": "\ud800"})", "not valid JSON"},
          {"big_string", "{\"name\": \"" + std::string(100u << 20, 'x') + "\"}",
           "100.0 MiB or more, the limit is 64.0 MiB"}};
}

// Python writes NaN and Infinity, which configurations of models have, and JSON does not.
TEST_F(BadInput, NumbersThatJsonDoesNotHave) {
  const std::string path = file("nan.json", R"({"name": NaN})");
  expect_refusal(run_with(path, "ts.model { config = path }"), 1, "no 'model_type'");
  expect_refusal(run_with(path, "ts.device { file = path }"), 1, "not valid JSON");
  const std::string within =
      file("within.json", R"({"model_type": "llama", "num_hidden_layers": NaN})");
  expect_refusal(run_with(within, "ts.model { config = path }"), 1, "num_hidden_layers");
}

// Everything that reads a file from outside, given every hostile file.
TEST_F(BadInput, HostileFiles) {
  const std::vector<std::pair<const char*, const char*>> readers = {
      {"model", "ts.model { config = path }"},
      {"device", "ts.device { file = path }"},
      {"instance", "ts.problem { instance = path }"},
      {"plan", "ts.load_plan(path)"},
      {"indicator", "ts.indicator(path)"}};
  for (const Hostile& hostile : hostile_files()) {
    const std::string file_path = file(std::string(hostile.name) + ".json", hostile.content);
    for (const auto& [name, code] : readers) {
      SCOPED_TRACE(std::string(hostile.name) + " as " + name);
      const Process p = run_with(file_path, code);
      expect_refusal(p, 1, hostile.text);
      EXPECT_THAT(first_line(p.err), HasSubstr(file_path));
      EXPECT_THAT(p.out, IsEmpty());
    }
    fs::remove(file_path);
  }
}

TEST_F(BadInput, HostileNamedFiles) {
  ProcessSetup setup;
  setup.environment = {{"TESSERA_PATH", folder_.string()}};
  for (const auto& [kind, call] :
       std::vector<std::pair<std::string, std::string>>{{"models", "model"},
                                                        {"devices", "device"},
                                                        {"clusters", "cluster"},
                                                        {"workloads", "workload"}}) {
    SCOPED_TRACE(kind);
    for (const char* content : {"", "{", "[]", "{}", "{\"name\": \"bad\", \"name\": 1}"}) {
      const std::string file_path = file("datasets/" + kind + "/bad.json", content);
      const Process p = run_program({"-e", "require('tessera')." + call + " 'bad'"}, setup);
      expect_refusal(p, 1, file_path);
    }
    fs::remove(path("datasets/" + kind + "/bad.json"));
    fs::create_directory(path("datasets/" + kind + "/bad.json"));
    expect_refusal(run_program({"-e", "require('tessera')." + call + " 'bad'"}, setup), 1,
                   "unknown " + call + " 'bad'");
  }
}

TEST_F(BadInput, FilesThatCannotBeRead) {
  for (const char* code :
       {"ts.model { config = path }", "ts.device { file = path }", "ts.problem { instance = path }",
        "ts.load_plan(path)", "ts.indicator(path)", "ts.workload { lengths = path }"}) {
    SCOPED_TRACE(code);
    expect_refusal(run_with(path("absent.json"), code), 1, "No such file or directory");
    expect_refusal(run_with(file("plain", "") + "/below.json", code), 1, "Not a directory");
    expect_refusal(run_with("", code), 1, "No such file or directory");
    expect_refusal(run_with(path(std::string(300, 'n')), code), 1, "File name too long");
  }
  expect_refusal(run_with(folder_.string(), "ts.load_plan(path)"), 1, "Is a directory");
  expect_refusal(run_program({"-e", "require('tessera').load_plan '/dev/null'"}), 1, "empty");
  expect_refusal(run_program({"-e", "require('tessera').load_plan '/dev/zero'"}), 1,
                 "the limit is 64.0 MiB");
}

// Root may read and write everything; the tests often run as root.
void drop_file_capabilities() {
  prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0);
  prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH, 0, 0, 0);
}

TEST_F(BadInput, NoPermission) {
  ProcessSetup setup;
  setup.in_child = drop_file_capabilities;
  const std::string locked = file("locked.json", "{}");
  fs::permissions(locked, fs::perms::none);
  expect_refusal(run_program({"-e", "require('tessera').load_plan(...)", locked}, setup), 1,
                 "Permission denied");
  expect_refusal(run_program({locked}, setup), 1, "Permission denied");
  expect_refusal(run_program({"plan", "--model", locked, "--cluster", "1xT4-16G"}, setup), 1,
                 "Permission denied");
  const std::string precious = file("precious.json", "precious");
  fs::permissions(precious, fs::perms::owner_read);
  expect_refusal(run_program(small_plan({"--save", precious}), setup), 1, "Permission denied");
  EXPECT_EQ(read(precious), "precious");
  fs::create_directory(path("sealed"));
  fs::permissions(path("sealed"), fs::perms::owner_read | fs::perms::owner_exec);
  expect_refusal(run_program(small_plan({"--save", path("sealed/plan.json")}), setup), 1,
                 "Permission denied");
  EXPECT_TRUE(fs::is_empty(path("sealed")));
  fs::permissions(path("sealed"), fs::perms::owner_all);
}

TEST_F(BadInput, OutputThatCannotBeWritten) {
  for (const auto& [target, text] : std::vector<std::pair<std::string, std::string>>{
           {path("no/such/folder/plan.json"), "No such file or directory"},
           {folder_.string(), "Is a directory"},
           {"", "cannot write ''"},
           {"/dev/full", "No space left on device"},
           {"/proc/plan.json", "cannot write '/proc/plan.json'"},
           {path(std::string(300, 'n')), "File name too long"}}) {
    SCOPED_TRACE(target);
    expect_refusal(run_program(small_plan({"--save", target})), 1, text);
  }
  EXPECT_EQ(num_files(), 0u);
}

TEST_F(BadInput, ADiskThatFillsUpLeavesTheOldFile) {
  ProcessSetup setup;
  setup.in_child = [] {
    const rlimit limit{1024, 1024};
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  const std::string old = file("plan.json", "old");
  expect_refusal(run_program(small_plan({"--save", old}), setup), 1, "File too large");
  EXPECT_EQ(read(old), "old");
  EXPECT_EQ(num_files(), 1u);
}

TEST_F(BadInput, StandardStreamsThatAreClosedOrFull) {
  const auto shell = [](const std::string& redirection, const Words& arguments) {
    Words command = {"/bin/sh", "-c", "exec \"$0\" \"$@\" " + redirection, TESSERA_PROGRAM};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run_process(command);
  };
  for (const Words& arguments :
       {Words{"-e", "print(1)"}, Words{"version"}, Words{"help"}, Words{"list"},
        Words{"--json", "version"}, small_plan(), Words{"--json", "-e", "return 1"}}) {
    SCOPED_TRACE(arguments.back());
    expect_refusal(shell(">&-", arguments), 1, "cannot write to stdout");
    expect_refusal(shell(">/dev/full", arguments), 1, "cannot write to stdout");
  }
  const Process silent = shell("2>&-", {"-e", "print(1)"});
  EXPECT_EQ(silent.status, 0);
  EXPECT_EQ(silent.out, "1\n");
  EXPECT_EQ(shell("2>&-", {"-e", "error 'x'"}).status, 1);
  EXPECT_EQ(shell("<&- >&- 2>&-", {"-e", "error 'x'"}).status, 1);
  expect_refusal(shell("<&-", {"-"}), 1, "cannot read '/dev/stdin'");
  EXPECT_EQ(shell("<&-", {"-e", "assert(io.read() == nil)"}).status, 0);
  EXPECT_EQ(shell("<&-", {"repl"}).status, 0);
  // A file that is written while stdout is closed must not receive what is printed.
  const std::string code = "local f = io.open(..., 'w') print 'stray' f:write 'mine' f:close()";
  shell(">&-", {"-e", code, path("out.txt")});
  EXPECT_THAT(read(path("out.txt")), Not(HasSubstr("stray")));
}

TEST_F(BadInput, SavingToStdoutWritesThereAndReplacesNothing) {
  const std::string out = file("out.txt", "");
  ProcessSetup setup;
  setup.out_path = out;
  const Process p = run_program(small_plan({"--save", "/dev/stdout"}), setup);
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_TRUE(fs::is_symlink("/dev/stdout"));
  EXPECT_THAT(read(out), HasSubstr("\"format\": \"tessera-plan\""));
  EXPECT_THAT(read(out), HasSubstr("Plan for opt-125m"));
}

TEST_F(BadInput, Scripts) {
  expect_refusal(run_program({path("absent.lua")}), 1, "No such file or directory");
  expect_refusal(run_program({""}), 1, "cannot read ''");
  expect_refusal(run_program({folder_.string()}), 1, "a folder, not a script");
  expect_refusal(run_program({file("code.luac", "\x1bLJ\x02\x0a")}), 1, "bytecode is not loaded");
  expect_refusal(run_program({file("elf",
                                   "\x7f"
                                   "ELF\x02")}),
                 1, "elf:1:");
  expect_refusal(run_program({file("zip.lua", std::string("PK\x03\x04\0\0", 6))}), 1, "NUL byte");
  expect_refusal(run_program({file("utf16.lua", std::string("\xff\xfep\0r\0", 6))}), 1, "NUL byte");
  expect_refusal(run_program({"lits"}), 2, "did you mean 'list'");
  expect_refusal(run_program({"run"}), 2, "FILE");
  expect_refusal(run_program({"-e"}), 2, "-e");
  expect_refusal(run_program({"-x"}), 2, "-x");
  expect_refusal(run_program({"--jsn", "version"}), 2, "did you mean '--json'");
  EXPECT_EQ(run_program({file("empty.lua", "")}).status, 0);
  EXPECT_EQ(run_program({"-e", ""}).status, 0);
  EXPECT_EQ(run_program({"-e", "-- only a comment"}).status, 0);
  EXPECT_EQ(run_program({"-e", "--[[ c ]] print(1)"}).out, "1\n");
}

TEST_F(BadInput, ErrorsOfEveryKind) {
  const std::vector<std::tuple<std::string, int, std::string>> cases = {
      {"error {}", 1, "a table, not a message"},
      {"error(nil)", 1, "without a message"},
      {"error()", 1, "without a message"},
      {"error ''", 1, ""},
      {"error(true)", 1, "true"},
      {"error(io.stdout)", 1, "file"},
      {"error(coroutine.create(print))", 1, "a thread"},
      {"error(setmetatable({}, { __tostring = function() error 'worse' end }))", 1, "worse"},
      {"error(setmetatable({}, { __tostring = function() return 5 end }))", 1, "no string"},
      {"error(setmetatable({}, { __tostring = function() os.exit(9) end }))", 9, "-"},
      {"error(setmetatable({}, { __tostring = function() return nil end }))", 1, "no string"},
      {"error(setmetatable({}, { __index = function() error 'index' end }))", 1, "a table"},
      {"error(setmetatable({}, { __metatable = 'tessera.Error' }))", 1, "tessera.Error"},
      {"error { code = 'infeasible', message = 'too small' }", 3, "too small"},
      {"error { code = {}, message = {} }", 1, "a table"},
      {"local function f() return 1 + f() end f()", 1, "stack overflow"},
      {"local t = {} setmetatable(t, { __index = function(s, k) return s[k] end }) return t.x", 1,
       "stack overflow"},
      {"error(('x'):rep(1e8))", 1, "xxx"},
      {"os.exit(3.7)", 1, "3.7 is not an integer"},
      {"os.exit(-1)", 1, "out of range"},
      {"os.exit(256)", 1, "give an integer in [0, 255]"},
      {"os.exit 'now'", 1, "the string 'now'"},
      {"os.exit {}", 1, "a table"},
      {"os.exit(0/0)", 1, "NaN"},
      {"coroutine.yield()", 1, "yield"},
      {"string.rep('x', -1)()", 1, "call"},
      {"require 'tessera'.plan({ model = 'opt-175b', cluster = '1xT4-16G' }).x()", 1, "nil"},
      {"assert(require 'tessera'.plan { model = 'opt-175b', cluster = '1xT4-16G' })", 3, "GiB"},
      {"require 'tessera'.model { config = '/no' .. '\\0' .. 'such' }", 1, "NUL"}};
  for (const auto& [code, status, text] : cases) {
    SCOPED_TRACE(code);
    const Process p = run_program({"-e", code});
    if (text == "-") {
      EXPECT_EQ(p.status, status);
    } else if (code.find("rep(1e8)") != std::string::npos) {
      EXPECT_EQ(p.status, 1);
      EXPECT_LT(p.err.size(), 1u << 20) << "a message of 100 MB is not shown in full";
    } else {
      expect_refusal(p, status, text);
    }
  }
}

TEST_F(BadInput, APlanFileCutAtAnyLengthIsRefused) {
  const std::string saved = path("plan.json");
  ASSERT_EQ(run_program(small_plan({"--save", saved})).status, 0);
  EXPECT_EQ(run_with(saved, "assert(ts.check(ts.load_plan(path)))").status, 0);
  const std::string content = read(saved);
  for (const std::size_t length : {std::size_t{1}, content.size() / 2, content.size() - 2}) {
    const std::string cut = file("cut.json", content.substr(0, length));
    expect_refusal(run_with(cut, "ts.load_plan(path)"), 1, "cut.json: not valid JSON");
  }
}

TEST_F(BadInput, KernelsThatNothingRunsByThatName) {
  for (const char* isa : {"neon9", "AVX2"}) {
    const Process p = run_program({"version"}, {.environment = {{"TESSERA_KERNELS_ISA", isa}}});
    expect_refusal(p, 2, std::string("TESSERA_KERNELS_ISA: '") + isa + "' is none of");
    EXPECT_THAT(p.err, HasSubstr("scalar"));
  }
}

}  // namespace
}  // namespace tessera::test::host_bad_input_test
