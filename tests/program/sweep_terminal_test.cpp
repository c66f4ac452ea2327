// What a sweep shows on a terminal, and what it asks there.

#include "sweep.h"
#include "terminal.h"

namespace tessera::sweep_terminal_test {
namespace {

using testing::HasSubstr;
using testing::Not;

using test::Screen;

class SweepTerminal : public test::SweepTest {
 protected:
  /// Runs `script` as a user does at a terminal; types `answer` once the screen shows a question.
  Screen on_terminal(const std::string& script,
                     const std::vector<std::pair<std::string, std::string>>& environment,
                     unsigned short columns = 100, const std::string& answer = "") const {
    return test::on_terminal({"run", script, "--jobs", "2"},
                             {.environment = environment,
                              .columns = columns,
                              .directory = folder_.string(),
                              .question = answer.empty() ? "" : "[s] stop: ",
                              .answer = answer});
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
}  // namespace tessera::sweep_terminal_test
