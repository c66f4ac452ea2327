#include "tessera/core/layout.h"

#include <gtest/gtest.h>

#include "tessera/core/colour.h"

namespace tessera::layout_test {
namespace {

TEST(Layout, BreaksLongLinesAtSpaces) {
  EXPECT_EQ(wrapped("one two three", 0), "one two three");
  EXPECT_EQ(wrapped("one two three", 13), "one two three");
  EXPECT_EQ(wrapped("one two three\n", 12), "one two\n    three\n");
  EXPECT_EQ(wrapped("  a  b c\nshort\n\n", 6), "  a  b\n      c\nshort\n\n");
  EXPECT_EQ(wrapped("unbreakable and more", 5), "unbreakable\n    and\n    more");
  EXPECT_EQ(wrapped("", 5), "");
}

TEST(Layout, CountsWhatIsShown) {
  EXPECT_EQ(shown_width("\xE2\x96\x88\xE2\x96\x91x"), 3u);
  const ColourScope colours(true);
  const std::string bold = paint(Tone::bold, "ab cd");
  EXPECT_GT(bold.size(), 5u);
  EXPECT_EQ(shown_width(bold), 5u);
  EXPECT_EQ(wrapped(bold, 5), bold);
}

TEST(Layout, WidthsNest) {
  EXPECT_EQ(text_columns(), 0u);
  const WidthScope outer(80);
  {
    const WidthScope inner(40);
    EXPECT_EQ(text_columns(), 40u);
  }
  EXPECT_EQ(text_columns(), 80u);
}

}  // namespace
}  // namespace tessera::layout_test
