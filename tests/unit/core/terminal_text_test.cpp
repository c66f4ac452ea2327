#include "tessera/core/terminal_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/core/colour.h"
#include "tessera/core/text.h"

namespace tessera::terminal_text_test {
namespace {

TEST(TerminalText, ControlCharactersAreShownAndNotObeyed) {
  EXPECT_EQ(printable("plain\ttext, Größe ≤ 3 🙂\r\n"),
            "plain\ttext, Größe ≤ 3 🙂\r\n");
  EXPECT_EQ(printable("\x1b]0;title\x07"), "?]0;title?");
  EXPECT_EQ(printable("\x1b[2J\x1b[31mred\x7f\b"), "?[2J?[31mred??");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a?b");
  EXPECT_EQ(printable("over\rwritten"), "over?written");
  EXPECT_EQ(printable("last\r"), "last?");
  EXPECT_EQ(printable("c1 \xc2\x9b"
                      "31m"),
            "c1 ?31m");
  EXPECT_EQ(printable("lone \x9b"
                      "31m"),
            "lone ?31m");
  EXPECT_EQ(printable("\xe2\x9c\x93"), "\xe2\x9c\x93");  // a check mark has a byte that is C1 alone
}

TEST(TerminalText, StylesOfOursPassWhereTheyMay) {
  const ColourScope colours(true);
  for (const Tone tone : {Tone::bold, Tone::faint, Tone::good, Tone::warning, Tone::bad}) {
    const std::string painted = paint(tone, "x");
    EXPECT_EQ(printable_with_styles("a " + painted + " b"), "a " + painted + " b");
    EXPECT_EQ(printable(painted).find('\x1b'), std::string::npos);
  }
  EXPECT_EQ(printable_with_styles("\x1b[5m \x1b[31;1m \x1b[2J \x1b]0;t\x07 \x1b"),
            "?[5m ?[31;1m ?[2J ?]0;t? ?");
}

TEST(TerminalText, ACutTextIsDisarmedAsAWhole) {
  unsigned char previous = 0;
  std::string first = "a\xc2", second =
                                   "\x9b"
                                   "b\r";
  disarm(first, previous);
  disarm(second, previous);
  EXPECT_EQ(first + second, "a\xc2?b\r");
}

}  // namespace
}  // namespace tessera::terminal_text_test
