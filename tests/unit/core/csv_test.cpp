#include "tessera/core/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_error.h"

namespace tessera::csv_test {
namespace {

using test::expect_error;
using ::testing::ElementsAre;

TEST(CsvReader, ReadsWhatRfc4180AllowsAndWhatSpreadsheetsWrite) {
  CsvReader csv("\xEF\xBB\xBF# a note\r\nA, \"b \"\"c\"\"\" ,d\r\n\r\n1,\"two\nlines\",\n4,5,6",
                "x.csv");
  csv.read_header();
  EXPECT_THAT(csv.header(), ElementsAre("a", "b \"c\"", "d"));
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(csv.line(), 4u);
  EXPECT_THAT(csv.fields(), ElementsAre("1", "two\nlines", ""));
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(csv.line(), 6u);
  EXPECT_EQ(csv.number(csv.require_column("d"), 0, 10), 6);
  EXPECT_FALSE(csv.next());
}

TEST(CsvReader, NeedsNoHeader) {
  CsvReader csv("1,2\n3\n", "x.csv");
  ASSERT_TRUE(csv.next());
  EXPECT_THAT(csv.fields(), ElementsAre("1", "2"));
  ASSERT_TRUE(csv.next());
  expect_error(ErrorCode::invalid_argument, {"x.csv, line 2: field 1 is '3'", "in [4, 5]"},
               [&] { csv.integer(0, 4, 5); });
}

TEST(CsvReader, NamesFileAndLine) {
  const auto read = [](std::string_view text) {
    CsvReader csv(text, "x.csv");
    csv.read_header();
    while (csv.next()) csv.number(0, 0, 10);
  };
  using E = ErrorCode;
  expect_error(E::invalid_argument, {"x.csv: empty"}, [&] { read(""); });
  expect_error(E::invalid_argument, {"x.csv, line 2: 2 fields where the header has 1"},
               [&] { read("a\n1,2\n"); });
  expect_error(E::invalid_argument, {"x.csv, line 1: two columns 'a'"}, [&] { read("a,A\n"); });
  expect_error(E::invalid_argument, {"x.csv, line 3: a quoted field is not closed"},
               [&] { read("a\n1\n\"2\n3\n"); });
  expect_error(E::invalid_argument, {"x.csv, line 2: text after a quoted field"},
               [&] { read("a\n\"2\" 3\n"); });
  expect_error(E::invalid_argument, {"x.csv, line 2: a NUL byte"},
               [&] { read(std::string_view("a\n\0", 3)); });
  for (const char* text : {"nan", "inf", "1e400", "0x1", "", "1 2", "-1", "11", "+1"}) {
    expect_error(E::invalid_argument, {"x.csv, line 2: 'a' is", "a number in [0, 10]"},
                 [&] { read(std::string("a,b\n") + text + ",1\n"); });
  }
}

}  // namespace
}  // namespace tessera::csv_test
