// What a sweep shows on a terminal, and what it asks there.

#include <pty.h>
#include <sys/wait.h>

#include "sweep.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Screen {
  std::string text;
  int status = -1;
};

class SweepTerminal : public test::SweepTest {
 protected:
  /// Runs `script` as a user does at a terminal; types `answer` once the screen shows a question.
  Screen on_terminal(const std::string& script,
                     const std::vector<std::pair<std::string, std::string>>& environment,
                     unsigned short columns = 100, const std::string& answer = "") const {
    winsize size{24, columns, 0, 0};
    int terminal = -1;
    const pid_t pid = forkpty(&terminal, nullptr, nullptr, &size);
    if (pid == 0) {
      setenv("TERM", "xterm", 1);
      unsetenv("NO_COLOR");
      for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
      if (chdir(folder_.c_str()) != 0) _exit(126);
      execl(TESSERA_PROGRAM, "tessera", "run", script.c_str(), "--jobs", "2", nullptr);
      _exit(127);
    }
    Screen screen;
    bool is_answered = answer.empty();
    char block[4096];
    for (ssize_t n; (n = ::read(terminal, block, sizeof block)) > 0;) {
      screen.text.append(block, static_cast<std::size_t>(n));
      if (is_answered || screen.text.find("[s] stop: ") == std::string::npos) continue;
      is_answered = ::write(terminal, answer.data(), answer.size()) > 0;
    }
    close(terminal);
    int status = 0;
    waitpid(pid, &status, 0);
    screen.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return screen;
  }
};

constexpr const char* kSlow = R"(
  local core = require "tessera.core"
  local stop = core.clock() + 0.3
  while core.clock() < stop do end
  return { x_s = point.i })";

TEST_F(SweepTerminal, HasALiveLine) {
  experiment("bar", 12, kSlow);
  const std::string colored = on_terminal("bar.lua", {}).text;
  EXPECT_THAT(colored, HasSubstr("\r\x1b[K"));
  EXPECT_THAT(colored, HasSubstr("\x1b[32m"));
  EXPECT_THAT(colored, HasSubstr("█"));
  EXPECT_THAT(colored, HasSubstr("left "));
  EXPECT_THAT(colored, HasSubstr("best x_s 1 (i=1)"));
  std::filesystem::remove(path("results.db"));
  const std::string plain = on_terminal("bar.lua", {{"NO_COLOR", "1"}}, 50).text;
  EXPECT_THAT(plain, HasSubstr("\r\x1b[K"));
  EXPECT_THAT(plain, Not(HasSubstr("\x1b[32m")));
}

TEST_F(SweepTerminal, ThatCannotRedrawGetsPlainLines) {
  experiment("dumb", 4, "return { x_s = point.i }");
  const Screen screen = on_terminal("dumb.lua", {{"TERM", "dumb"}});
  EXPECT_EQ(screen.status, 0) << screen.text;
  EXPECT_THAT(screen.text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(screen.text, HasSubstr("4/4"));
}

TEST_F(SweepTerminal, AsksWhatToDoWithAChangedScript) {
  experiment("asked", 2, "return { x = 1 }");
  ASSERT_EQ(tessera({"run", "asked.lua", "--where", "i=1"}).status, 0);
  experiment("asked", 2, "return { x = 2 }");

  Screen screen = on_terminal("asked.lua", {}, 100, "s\n");
  EXPECT_EQ(screen.status, 130) << screen.text;
  EXPECT_THAT(screen.text, HasSubstr("the script has changed since run 1, which has 1 rows"));
  EXPECT_EQ(rows("asked").size(), 1u);

  screen = on_terminal("asked.lua", {}, 100, "m\n");
  EXPECT_EQ(screen.status, 0) << screen.text;
  auto found = rows("asked");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found.at(1)["x"], 1);
  EXPECT_EQ(found.at(2)["x"], 2);

  screen = on_terminal("asked.lua", {}, 100, "f\n");
  EXPECT_EQ(screen.status, 0) << screen.text;
  EXPECT_THAT(screen.text, HasSubstr("2 to run"));
  EXPECT_THAT(screen.text, HasSubstr("run 2"));
  EXPECT_EQ(rows("asked").at(1)["x"], 2);
}

}  // namespace
}  // namespace tessera
