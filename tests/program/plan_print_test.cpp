// How a plan prints: neighbours and replicas that look the same share lines, tables keep to the
// width, and what is drawn keeps to the locale.

#include <sstream>

#include "program.h"
#include "terminal.h"
#include "tessera/core/layout.h"

namespace tessera::test::plan_print_test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> plan_words(const std::string& cluster) {
  return {"plan",     "--model",    "opt-30b",  "--cluster", cluster,        "--no-beside",
          "--preset", "splitquant", "--memory", "physical",  "--kernel-set", "tessera"};
}

std::string printed(const std::vector<std::string>& words, const std::string& name,
                    const std::string& value) {
  ProcessSetup setup;
  setup.environment = {{name, value}};
  const Process p = run_program(words, setup);
  EXPECT_EQ(p.status, 0) << p.err;
  return p.out;
}

TEST(PlanPrint, FoldsNeighboursThatLookTheSame) {
  const std::string many = printed(plan_words("16xT4-16G"), "LC_ALL", "C.UTF-8");
  EXPECT_THAT(many, HasSubstr("\n   1-14  14 x T4-16G  3-44, 3 each  3 x 4-bit"));
  EXPECT_THAT(many, HasSubstr("\n     15  T4-16G       45-47"));
  EXPECT_THAT(many, Not(HasSubstr("\n      2  T4-16G")));
  const std::string few = printed(plan_words("3xT4-16G+1xV100-32G"), "LC_ALL", "C.UTF-8");
  EXPECT_THAT(few, HasSubstr("\n      1  T4-16G    9-17     9 x 4-bit"));
  EXPECT_THAT(few, HasSubstr("\n      2  T4-16G    18-26    9 x 4-bit"));
}

TEST(PlanPrint, FoldsReplicasThatLookTheSame) {
  auto words = plan_words("4xA100-80G");
  words.insert(words.end(), {"--replicas", "4"});
  const std::string text = printed(words, "LC_ALL", "C.UTF-8");
  EXPECT_THAT(text, HasSubstr("\n replicas 1-4 of 4, each 8 requests on 1xA100-80G"));
  EXPECT_THAT(text, Not(HasSubstr("replica 2 of 4")));
  words[4] = "1xA100-80G+1xV100-32G";
  words.back() = "2";
  const std::string mixed = printed(words, "LC_ALL", "C.UTF-8");
  EXPECT_THAT(mixed, HasSubstr("\n replica 1 of 2: "));
  EXPECT_THAT(mixed, HasSubstr("\n replica 2 of 2: "));
}

TEST(PlanPrint, KeepsToTheWidth) {
  auto words = plan_words("3xT4-16G+1xV100-32G");
  words.pop_back();
  for (const unsigned short columns : {80, 100, 140}) {
    std::istringstream lines(on_terminal(words, {.columns = columns}).text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      EXPECT_LE(shown_width(line), columns) << line;
    }
  }
  EXPECT_THAT(printed(plan_words("3xT4-16G+1xV100-32G"), "COLUMNS", "80"),
              HasSubstr("\n      3  V100-32G  27-47    3x8 18x4 "));
  EXPECT_THAT(printed(plan_words("3xT4-16G+1xV100-32G"), "COLUMNS", ""),
              HasSubstr("3 x 8-bit, 18 x 4-bit"));
}

TEST(PlanPrint, KeepsToTheLocale) {
  const auto words = plan_words("16xT4-16G");
  const std::string unicode = printed(words, "LC_ALL", "C.UTF-8"),
                    plain = printed(words, "LC_ALL", "C");
  EXPECT_THAT(unicode, HasSubstr("\xE2\x96\x88\xE2\x96\x91"));
  EXPECT_THAT(plain, HasSubstr("#."));
  const std::string plot = printed({"-e",
                                    "for _, kind in ipairs { 'lines', 'bars' } do print(ts.plot { "
                                    "kind = kind, x = 'x', y = 'y', "
                                    "rows = { { x = 1, y = 2 }, { x = 2, y = 3 } } }) end"},
                                   "LC_ALL", "C");
  EXPECT_THAT(plot, HasSubstr("###"));
  for (const std::string& text : {plain, plot}) {
    for (const char c : text) ASSERT_GE(c, 0) << text;
  }
}

}  // namespace
}  // namespace tessera::test::plan_print_test
