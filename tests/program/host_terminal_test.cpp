// The prompt as someone at a terminal meets it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "program.h"
#include "terminal.h"

namespace tessera::host_terminal_test {
namespace {

using testing::HasSubstr;

// The prompt on a terminal: types, and waits for what should appear.
class HostTerminal : public test::FolderTest {
 protected:
  HostTerminal() {
    pid_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      setenv("TERM", "xterm", 1);
      setenv("LC_ALL", "C.UTF-8", 1);
      setenv("XDG_STATE_HOME", folder_.c_str(), 1);
      execl(TESSERA_PROGRAM, "tessera", "repl", nullptr);
      _exit(127);
    }
  }
  ~HostTerminal() override {
    close(terminal_);
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  void type(const std::string& keys) {
    EXPECT_EQ(write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  // Whether `text` appears within 10 s; what came before it is dropped.
  bool shows(const std::string& text) {
    for (int i = 0; i < 100; ++i) {
      if (const std::size_t at = screen_.find(text); at != std::string::npos) {
        screen_.erase(0, at + text.size());
        return true;
      }
      pollfd file{terminal_, POLLIN, 0};
      char block[4096];
      if (poll(&file, 1, 100) == 0) continue;
      const ssize_t n = ::read(terminal_, block, sizeof block);
      if (n > 0) screen_.append(block, static_cast<std::size_t>(n));
    }
    ADD_FAILURE() << "not shown: " << text << "\non screen: " << screen_;
    return false;
  }
  // Of the program, which must end within 10 s.
  int status() {
    int status = 0;
    for (int i = 0; waitpid(pid_, &status, WNOHANG) == 0; ++i) {
      if (i == 1000) kill(pid_, SIGKILL);
      usleep(10'000);
    }
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  pid_t pid_ = 0;
  int terminal_ = -1;
  std::string screen_;
};

// A disk that is full looks the same to libedit.
TEST_F(HostTerminal, KeepsTheHistoryThatItCannotReplace) {
  shows("tessera> ");
  type("print('first line')\n");
  shows("\r\nfirst line");
  shows("tessera> ");
  const std::string history = path("tessera/history"), before = read(history);
  EXPECT_THAT(before, HasSubstr("line"));
  const rlimit limit{before.size() + 4, before.size() + 4};
  ASSERT_EQ(prlimit(pid_, RLIMIT_FSIZE, &limit, nullptr), 0);
  type("print('second line')\n");
  shows("\r\nsecond line");
  shows("tessera> ");
  EXPECT_EQ(read(history), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("tessera")), {}), 1);
}

TEST_F(HostTerminal, SaysThatAFileIsTypedHere) {
  shows("tessera> ");
  type("=loadfile('/dev/stdin')()\n");
  shows("tessera: '/dev/stdin' is the terminal: type the text, then Ctrl-D");
  type("return 6 * 7\n\x04");
  shows("\r\n42");
  shows("tessera> ");
}

TEST_F(HostTerminal, CompletesRemembersAndSurvivesCtrlC) {
  shows("tessera> ");
  type("string.form\t");
  shows("at");
  type("('<%d>', 42)\n");
  shows("\"<42>\"");
  shows("tessera> ");
  type("local half = (");
  shows("(");
  type("\x03");
  shows("^C");
  shows("tessera> ");
  type("kept = 41 while true do end\n");
  shows("end\r\n");
  usleep(200'000);
  type("\x03");
  shows("interrupted by Ctrl-C");
  shows("tessera> ");
  type("kept + 1\n");
  shows("42");
  shows("tessera> ");
  type("for i = 1, 1 do\n");
  shows(".. ");
  type("print(i, 'h\xC3\xA9llo') end\n");
  shows("1\th\xC3\xA9llo");
  shows("tessera> ");
  type("\x04");
  EXPECT_EQ(status(), 0);
  std::ifstream history(folder_ / "tessera" / "history");
  const std::string text{std::istreambuf_iterator<char>(history), {}};
  EXPECT_THAT(text, HasSubstr("kept\\040="));
}

TEST_F(HostTerminal, CompletesOptionsDescribesTimesAndReloads) {
  shows("tessera> ");
  type("p = ts.problem { model = 'opt-125\t', cluster = '2xT4-16G', th\t = 1 }\n");
  shows("tessera> ");
  type("p.model.name, p.theta\n");
  shows("\"opt-125m\"");
  shows("tessera> ");
  type("{\n");
  shows(".. ");
  type("\t1, 2 }\n");  // as pasted: an indent
  shows("{ 1, 2 }");
  shows("tessera> ");
  type("describe(p)\n");
  shows("tessera.Problem: What is to be planned");
  shows("tessera> ");
  type("help(p.with)\n");
  shows("A copy with options of ts.problem changed");
  shows("tessera> ");
  type(":time\n");
  shows("prints the time of every line");
  type("1 + 1\n");
  shows("2\r\n");
  shows(" s\r\n");
  const std::string script = file("again.lua", "return 'first run'");
  type("reload '" + script + "'\n");
  shows("\"first run\"");
  file("again.lua", "return 'second run'");
  type("reload()\n");
  shows("\"second run\"");
  shows("tessera> ");
  type("\x04");
  EXPECT_EQ(status(), 0);
}

TEST_F(HostTerminal, EndsByTheWordsForIt) {
  shows("tessera> ");
  type("help ts.tensor\n");
  shows("Numbers of your own");
  shows("tessera> ");
  type("quit()\n");
  EXPECT_EQ(status(), 0);
}

TEST_F(HostTerminal, EndsACompiledLoopAtTheSecondCtrlC) {
  shows("tessera> ");
  type("loadstring('while true do end')()\n");
  shows("()\r\n");
  usleep(200'000);
  type("\x03");
  usleep(200'000);
  type("\x03");
  EXPECT_EQ(status(), 130);
}

/// What a program prints on a terminal of 123 columns, with NO_COLOR as given.
std::string on_terminal(const std::string& code, const char* no_color) {
  return test::on_terminal({"-e", code}, {.environment = {{"NO_COLOR", no_color}}, .columns = 123})
      .text;
}

TEST(HostOnATerminal, KnowsItsWidthAndWhetherToColour) {
  const std::string facts =
      "local t = require('tessera.host').terminal() print(t.is_terminal, t.columns, t.colour)";
  EXPECT_EQ(on_terminal(facts, ""), "true\t123\ttrue\r\n");
  EXPECT_EQ(on_terminal(facts, "1"), "true\t123\tfalse\r\n");
  test::ProcessSetup setup;
  setup.environment = {{"COLUMNS", "55"}};
  EXPECT_EQ(test::run_program({"-e", facts}, setup).out, "false\t55\tfalse\n");
}

TEST(HostWithoutRsvgConvert, NamesThePackageForPngFiles) {
  test::ProcessSetup setup;
  setup.environment = {{"PATH", "/nowhere"}};
  const test::Process p = test::run_program(
      {"-e",
       "require('tessera').plot { kind = 'bars', rows = { { a = 'x', b = 1 } }, x = 'a', y = 'b' }"
       ":save 'never.png'"},
      setup);
  test::expect_refusal(p, 1, "install the package librsvg2-bin, or save as .svg");
  EXPECT_FALSE(std::ifstream("never.png").good());
}

TEST(HostOnATerminal, ColoursPlots) {
  const std::string code =
      "print(require('tessera').plot { kind = 'bars', rows = { { a = 'x', b = 1 } }, x = 'a', y = "
      "'b' })";
  EXPECT_THAT(on_terminal(code, ""), HasSubstr("\x1b[34m"));
  EXPECT_THAT(on_terminal(code, "1"), testing::Not(HasSubstr("\x1b[")));
  EXPECT_THAT(test::run_program({"-e", code}).out, testing::Not(HasSubstr("\x1b[")));
}

}  // namespace
}  // namespace tessera::host_terminal_test
