// How hostile scripts end in the sandbox: within their limits, with a clean message, and without a
// trace outside their output folder; also when somebody looks later at what they have left there.

#include <pty.h>

#include <map>

#include "case_name.h"
#include "hostile_scripts.h"
#include "program.h"
#include "sanitised.h"

namespace tessera::sandbox_test {
namespace {

namespace fs = std::filesystem;
using test::End;
using test::Hostile;
using testing::HasSubstr;
using testing::Not;

// For scripts that never end; those that do have the time that they need, also on a busy machine.
constexpr const char* kShortTimeS = test::kSanitised ? "5" : "1";
constexpr const char* kLongTimeS = "60";

/// work/ is where scripts run, work/x-out is their output folder, outside/ is not to be touched.
class HostileFolder : public test::FolderTest {
 protected:
  HostileFolder() {
    folder_ = fs::canonical(folder_);
    file("outside/precious", "what a user would miss");
    file("work/mine.lua",
         "return require 'tessera'.experiment { name = 'mine', grid = { i = { 1, 2 } }, run = "
         "function(p) return { x = p.i } end }");
    fs::create_directories(folder_ / "work" / "x-out");
  }

  // Path -> content of everything but the output folder.
  std::map<std::string, std::string> everything_outside() const {
    std::map<std::string, std::string> files;
    for (fs::recursive_directory_iterator it(folder_), end; it != end; ++it) {
      if (it->path().filename() == "x-out") it.disable_recursion_pending();
      files[it->path().string()] =
          it->is_regular_file() ? read(it->path().string()) : std::string("no file");
    }
    return files;
  }

  test::Process run_sandboxed(const std::string& code,
                              const char* time_limit_s = kLongTimeS) const {
    file("work/x.lua", test::kPrelude + code);
    return test::run_program({"run", "--sandbox", "--sandbox-time-limit-s", time_limit_s,
                              "--sandbox-memory-gib", "0.25", "x.lua"},
                             {.directory = path("work"), .timeout_s = 120});
  }
  test::Process run_outside(const std::vector<std::string>& arguments) const {
    return test::run_program(arguments, {.directory = path("work")});
  }
};

// Of a flood what comes first and last.
std::string ends_of(const std::string& text) {
  constexpr std::size_t kShown = 10000;
  if (text.size() <= 2 * kShown) return text;
  return text.substr(0, kShown) + text.substr(text.size() - kShown);
}

// No raw text, no crash, nothing that a terminal would obey.
void expect_clean(const test::Process& p) {
  EXPECT_LT(p.status, 128) << p.err.substr(0, 2000);
  for (const char* raw : {"died of signal", "terminate called", "Sanitizer",
                          "runtime error:", "error in error handling", "[json.exception"}) {
    EXPECT_THAT(ends_of(p.err), Not(HasSubstr(raw)));
  }
  for (const char* raw : {"std::", "bad_alloc"})
    EXPECT_THAT(test::first_line(ends_of(p.err)), Not(HasSubstr(raw)));
}

class HostileScript : public HostileFolder, public testing::WithParamInterface<Hostile> {};

TEST_P(HostileScript, EndsAsItShould) {
  const Hostile& script = GetParam();
  // Where no file can be opened, the sanitizer takes every object for one of another type.
  for (const char* name : {"files_left_open", "results_left_open"}) {
    if (test::kSanitised && script.name == std::string_view(name)) {
      GTEST_SKIP() << "UBSan's look at types needs a file";
    }
  }
  file("work/x.lua", test::kPrelude + std::string(script.code));
  const auto before = everything_outside();
  const bool ends =
      script.end == End::done || (script.end == End::failed && script.says != test::kDeep);
  const test::Process p = run_sandboxed(script.code, ends ? kLongTimeS : kShortTimeS);
  const std::string said = ends_of(p.err) + ends_of(p.out);
  expect_clean(p);
  EXPECT_EQ(everything_outside(), before);
  if (script.says == test::kDeep) {
    EXPECT_THAT(said, testing::AnyOf(HasSubstr(test::kDeep), HasSubstr("stack overflow"),
                                     HasSubstr("--sandbox-time-limit-s")));
  } else {
    EXPECT_THAT(said, HasSubstr(script.says));
  }
  if (script.end != End::any) {
    EXPECT_EQ(p.status, script.end == End::done ? 0 : 1) << said;
  }
  if (script.end == End::limit) {
    EXPECT_THAT(
        said, testing::AnyOf(HasSubstr("--sandbox-time-limit-s"), HasSubstr("--sandbox-memory-gib"),
                             HasSubstr("after it had printed")));
  }
}

INSTANTIATE_TEST_SUITE_P(Recursion, HostileScript, testing::ValuesIn(test::kRecursion),
                         test::case_name);
INSTANTIATE_TEST_SUITE_P(Loops, HostileScript, testing::ValuesIn(test::kLoops), test::case_name);
INSTANTIATE_TEST_SUITE_P(Greed, HostileScript, testing::ValuesIn(test::kGreed), test::case_name);
INSTANTIATE_TEST_SUITE_P(Output, HostileScript, testing::ValuesIn(test::kOutput), test::case_name);
INSTANTIATE_TEST_SUITE_P(Errors, HostileScript, testing::ValuesIn(test::kErrors), test::case_name);
INSTANTIATE_TEST_SUITE_P(Exits, HostileScript, testing::ValuesIn(test::kExits), test::case_name);
INSTANTIATE_TEST_SUITE_P(Rows, HostileScript, testing::ValuesIn(test::kRows), test::case_name);
INSTANTIATE_TEST_SUITE_P(Tricks, HostileScript, testing::ValuesIn(test::kTricks), test::case_name);

// What a script leaves in its output folder is opened later, without the sandbox.
constexpr const char* kStore = "ts.results 'other':add({ i = 1 }, { x = 1 }) ";
// A rollback journal whose super-journal is the user's file: playing it back deletes that.
constexpr const char* kHotJournal = R"lua(
local f = assert(io.open('x-out/results.db', 'rb')) local db = f:read '*a' f:close()
local function be(n) return string.char(n / 2 ^ 24 % 256, n / 2 ^ 16 % 256, n / 2 ^ 8 % 256, n % 256) end
local page = db:byte(17) * 256 + db:byte(18)
local magic = '\217\213\5\249\32\161\99\215'
local head = magic .. be(0) .. be(1) .. be(#db / page) .. be(512) .. be(page)
local name, sum = '../outside/precious', 0
for i = 1, #name do sum = sum + name:byte(i) end
f = assert(io.open('x-out/results.db-journal', 'wb'))
f:write(head, ('\0'):rep(512 - #head), be(2 ^ 30 / page + 1), name, be(#name), be(sum), magic) f:close()
)lua";

class DelayedAttack : public HostileFolder, public testing::WithParamInterface<const char*> {
 protected:
  void put_link(const std::string& name, const std::string& target) const {
    const fs::path link = folder_ / "work" / "x-out" / name;
    fs::remove(link);
    fs::create_symlink(folder_ / "outside" / target, link);
  }

  // Every way to open the planted database; whatever each says, the user's files stay.
  void expect_harmless() {
    const auto before = everything_outside();
    for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
             {"results", "--results", "x-out/results.db"},
             {"results", "mine", "--results", "x-out/results.db", "--format", "csv"},
             {"report", "--results", "x-out/results.db", "--out", "x-out/report.html"},
             {"results", "--merge", "x-out/results.db", "--results", "x-out/all.db"},
             {"run", "mine.lua", "--jobs", "0", "--results", "x-out/results.db"},
             {"-e",
              "require('tessera').results('mine', { db = 'x-out/results.db' }):add({ i = 5 "
              "}, { x = 1 })"},
             {"results", "--merge", "x-out/results.db", "--results", "x-out/results.db"}}) {
      const test::Process p = run_outside(command);
      EXPECT_LT(p.status, 128) << command[0];
      EXPECT_EQ(everything_outside(), before) << command[0];
    }
  }
};

TEST_F(DelayedAttack, AHotJournalDeletesNoFileOfTheUser) {
  ASSERT_EQ(run_sandboxed(kStore).status, 0);
  const test::Process p = run_sandboxed(kHotJournal);
  ASSERT_EQ(p.status, 0) << p.err;
  ASSERT_TRUE(fs::exists(folder_ / "work" / "x-out" / "results.db-journal"));
  const test::Process opened =
      run_outside({"run", "mine.lua", "--jobs", "0", "--results", "x-out/results.db"});
  EXPECT_EQ(opened.status, 1);
  EXPECT_THAT(opened.err, HasSubstr("results.db-journal"));
  EXPECT_TRUE(fs::exists(folder_ / "outside" / "precious"));
  expect_harmless();
}

TEST_P(DelayedAttack, ALinkWritesNoFileOfTheUser) {
  ASSERT_EQ(run_sandboxed(kStore).status, 0);
  put_link(GetParam(), "precious");
  expect_harmless();
}

TEST_P(DelayedAttack, ADanglingLinkMakesNoFile) {
  ASSERT_EQ(run_sandboxed(kStore).status, 0);
  put_link(GetParam(), "new");
  expect_harmless();
}

// A dangling one may mean that somebody keeps the database elsewhere.
TEST_F(DelayedAttack, ALinkForTheDatabaseWritesNoFileOfTheUser) {
  put_link("results.db", "precious");
  expect_harmless();
}

TEST_P(DelayedAttack, NoiseWritesNoFileOfTheUser) {
  ASSERT_EQ(run_sandboxed(kStore).status, 0);
  const std::string noise = std::string("local f = assert(io.open('x-out/") + GetParam() +
                            "', 'w')) f:write(('noise'):rep(5000)) f:close()";
  ASSERT_EQ(run_sandboxed(noise).status, 0);
  expect_harmless();
}

INSTANTIATE_TEST_SUITE_P(Sandbox, DelayedAttack,
                         testing::Values("results.db-journal", "results.db-wal", "results.db-shm"),
                         test::case_name);

// What the program prints when its output is a terminal.
std::string on_a_terminal(const std::vector<std::string>& command, const std::string& directory) {
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (pid == 0) {
    if (chdir(directory.c_str()) != 0) _exit(126);
    std::vector<char*> words{const_cast<char*>(TESSERA_PROGRAM)};
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    setenv("NO_COLOR", "1", 1);  // its own colours are control sequences, too
    setenv("TERM", "dumb", 1);
    execv(TESSERA_PROGRAM, words.data());
    _exit(127);
  }
  std::string text;
  char block[4096];
  for (ssize_t n = 0; (n = read(terminal, block, sizeof block)) > 0;)
    text.append(block, static_cast<std::size_t>(n));
  waitpid(pid, nullptr, 0);
  close(terminal);
  return text;
}

// The window's title, the screen, the clipboard; as bytes and as the C1 characters of UTF-8.
constexpr const char* kObeyed = R"(\27]0;owned\7\27[2J\27]52;c;eA==\7\8\127\194\155)";

struct Shown {
  const char* name;
  const char* code;  ///< in which EVIL stands for kObeyed
};
void PrintTo(const Shown& shown, std::ostream* stream) { *stream << shown.name; }

constexpr Shown kShown[] = {
    {"print", "print 'EVIL'"},
    {"write", "io.write 'EVIL'"},
    {"stderr", "io.stderr:write 'EVIL'"},
    {"error", "error('EVIL', 0)"},
    {"error_of_ours", "core.raise('usage', 'EVIL')"},
    {"error_object", "error(setmetatable({}, { __tostring = function() return 'EVIL' end }))"},
    {"column", "return sweep(function() return { ['EVIL'] = 'EVIL' } end)"},
    {"status", "return sweep(function() return { status = 'EVIL', x = 1 } end)"},
    {"failed_point", "return sweep(function() error('EVIL', 0) end)"},
    {"declaration",
     "return sweep(function() return { x = 1 } end, { doc = 'EVIL', notes = { 'EVIL' }, check = "
     "function(t) t:expect('EVIL', false, 'EVIL') end })"},
    {"point",
     "return sweep(function(p) return { x = p.k } end, { grid = { k = { 'EVIL', 'b' } } })"},
    {"plan", "plan():with_note 'EVIL' print(plan():with_note 'EVIL')"},
};

class Terminal : public HostileFolder, public testing::WithParamInterface<Shown> {};

TEST_P(Terminal, ObeysNoScript) {
  std::string code = GetParam().code;
  for (std::size_t at = 0; (at = code.find("EVIL")) != std::string::npos;)
    code.replace(at, 4, kObeyed);
  file("work/x.lua", test::kPrelude + code);
  std::string shown = on_a_terminal({"run", "--sandbox", "x.lua"}, path("work"));
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"results", "--results", "x-out/results.db"},
           {"results", "s/x", "--results", "x-out/results.db", "--failed", "--meta"},
           {"results", "s/x", "--results", "x-out/results.db", "--format", "csv"},
           {"results", "s/x", "--results", "x-out/results.db", "--where", "none=1"}})
    shown += on_a_terminal(command, path("work"));
  EXPECT_THAT(shown, Not(HasSubstr("\x1b]")));
  EXPECT_THAT(shown, Not(HasSubstr("\x1b[2J")));
  for (const char* c : {"\a", "\b", "\x7f", "\xc2\x9b"}) EXPECT_THAT(shown, Not(HasSubstr(c)));
}

INSTANTIATE_TEST_SUITE_P(Sandbox, Terminal, testing::ValuesIn(kShown), test::case_name);

}  // namespace
}  // namespace tessera::sandbox_test
