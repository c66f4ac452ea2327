// What meets a terminal is text, whatever wrote it: control sequences in files, names and messages
// show as '?'. And what a message says is all there.

#include "program.h"
#include "sweep.h"
#include "terminal.h"

namespace tessera::test::host_printing_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// As Lua source: a window title, the clipboard, the screen erased, a line overwritten, a colour.
constexpr const char* kEvil =
    "'\\27]0;owned\\7\\27]52;c;b3duZWQ=\\7\\27[2J\\rover\\27[31mred\\194\\155' .. '31m'";

class Printing : public SweepTest {
 protected:
  std::string screen(std::vector<std::string> words) const {
    return on_terminal(std::move(words), {.directory = folder_.string()}).text;
  }

  // No sequence but those that the product draws with: its styles, and a line taken away.
  static void expect_disarmed(std::string text, const std::string& what) {
    EXPECT_THAT(text, testing::ContainsRegex("[?][\\]?[]]0;owned[?]")) << what;
    for (const char* own : {"\r\n", "\r\x1b[K", "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m",
                            "\x1b[33m", "\x1b[31mtessera:"}) {
      for (std::size_t at; (at = text.find(own)) != std::string::npos;) {
        text.replace(at, std::string_view(own).size(), "\n");
      }
    }
    for (const char c : {'\x1b', '\x07', '\r', '\x9b'}) {
      EXPECT_EQ(text.find(c), std::string::npos)
          << what << " lets through " << int(c) << ": " << text;
    }
  }
};

TEST_F(Printing, ControlSequencesOfAResultsFileStayText) {
  const std::string evil = std::string("local evil = ") + kEvil + " ";
  const std::string make = file("make.lua", evil + R"(
    local store = require("tessera.store").open "results.db"
    for _, name in ipairs { "mine", evil } do
      local run = store:start_run { experiment = name, script_hash = evil, git_commit = evil, script_path = evil,
        declaration = { name = name, doc = evil, keys = { "i", evil }, columns = { "x", evil } } }
      store:add(run, { point = { i = 1, [evil] = evil }, status = "done", columns = { x = 1, [evil] = evil } })
      store:add(run, { point = { i = 2, [evil] = evil }, status = evil, columns = {}, error = evil,
        traceback = evil, log = evil })
      store:set_claims(run, { { text = evil, status = "fail", numbers = evil, lines = { evil } },
        { text = evil, status = "differs", not_reproduced = evil } })
    end)");
  ASSERT_EQ(tessera({make}).status, 0);
  const std::vector<std::vector<std::string>> commands = {
      {"results"},
      {"results", "mine"},
      {"results", "mine", "--meta"},
      {"results", "mine", "--failed"},
      {"results", "mine", "--format", "csv"},
      {"results", "mine", "--format", "markdown"},
      {"results", "mine", "--format", "latex"},
      {"results", "mine", "--where", "nope=1"},
      {"results", "mine", "--sort", "nope"},
      {"results", "mine", "--columns", "nope"},
      {"results", "mine", "--diff", "1,2"},
      {"results", "nope"},
      {"report", "nope"}};
  for (const auto& words : commands) {
    std::string what;
    for (const std::string& word : words) what += word + " ";
    const std::string text = screen(words);
    if (text.find("owned") == std::string::npos) continue;  // it shows none of the names
    expect_disarmed(text, what);
  }
  EXPECT_THAT(screen({"results", "mine"}), HasSubstr("owned"));
  EXPECT_THAT(screen({"results", "mine", "--format", "csv"}), HasSubstr("owned"));
  // A pipe gets what is stored, byte for byte.
  EXPECT_THAT(tessera({"results", "mine", "--format", "csv"}).out, HasSubstr("\x1b]0;owned\x07"));
}

TEST_F(Printing, ControlSequencesInPrintAndInMessagesStayText) {
  const std::string evil = std::string("local evil = ") + kEvil + " ";
  for (const char* code :
       {"print(evil)", "print(1, evil, nil)", "error(evil)", "error({ message = evil })",
        "require('tessera.core').raise(evil, evil, evil)",
        "print(setmetatable({}, { __tostring = function() return evil end }))",
        "local f = loadstring('error(...)', '=' .. evil) f(evil)",
        "print(require('tessera').model { name = evil, family = 'opt', num_layers = 2, "
        "hidden_size = 64, num_heads = 4, ffn_size = 256, vocab_size = 100, max_context_tokens = "
        "64 })",
        "require('tessera').model(evil)"}) {
    const std::string text = screen({"-e", evil + code});
    if (text.find("owned") == std::string::npos) continue;  // quoted already
    std::string without_colour = text;
    for (std::size_t at; (at = without_colour.find("\x1b[31mred")) != std::string::npos;) {
      without_colour.erase(at, 5);  // print lets scripts colour
    }
    expect_disarmed(without_colour, code);
  }
  const std::string evil_name = "\x1b]0;owned\x07";
  expect_disarmed(screen({"help", evil_name}) + "?]0;owned?", "help");
  expect_disarmed(screen({"run", evil_name + ".lua"}) + "?]0;owned?", "run");
  expect_disarmed(screen({evil_name}) + "?]0;owned?", "verb");
  file("evil.lua", "-- " + evil_name + "\nreturn 1\n");
  const Screen list = on_terminal({"list"}, {.environment = {{"TESSERA_PATH", folder_.string()}},
                                             .directory = folder_.string()});
  expect_disarmed(list.text, "list");
}

TEST_F(Printing, PrintLetsAScriptColour) {
  EXPECT_EQ(screen({"-e", "print('\\27[32mgreen\\27[0m')"}), "\x1b[32mgreen\x1b[0m\r\n");
  EXPECT_EQ(screen({"-e", "io.write('\\27[1;5Hthere')"}), "\x1b[1;5Hthere");
}

TEST_F(Printing, AMessageIsWholeWhereItHoldsNulBytes) {
  const Process p = tessera({"-e", "local function f() error 'a\\0b' end f()"});
  EXPECT_THAT(p.err, HasSubstr("tessera: (command line):1: a?b\n"));
  EXPECT_THAT(p.err, HasSubstr("code:  script"));
  EXPECT_THAT(p.err, HasSubstr("in function 'f'"));
  const Process through =
      tessera({"-e",
               "local ts = require 'tessera' ts.plan(ts.problem { model = 'opt-125m', cluster = "
               "'2xT4-16G', bitwidths = { 8 }, workload = { prompt_tokens = 64, output_tokens = 8, "
               "batch_size = 4 } }, { on_incumbent = function() error('c\\0d', 0) end })"});
  EXPECT_THAT(through.err, HasSubstr("c?d"));
}

TEST_F(Printing, OnlyCtrlCEndsAsCtrlC) {
  EXPECT_EQ(tessera({"-e", "require('tessera.core').raise('interrupted', 'not really')"}).status,
            1);
  EXPECT_EQ(tessera({"-e", "error({ code = 'interrupted', message = 'not really' })"}).status, 1);
}

}  // namespace
}  // namespace tessera::test::host_printing_test
