#include "tessera/core/json.h"

#include <gtest/gtest.h>

#include "expect_error.h"

namespace tessera::json_test {
namespace {

std::string repeated(const std::string& first, const std::string& last, std::size_t count,
                     const std::function<std::string(std::size_t)>& item) {
  std::string text = first;
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + item(i);
  return text + last;
}

// Were time quadratic in the number of elements, these would run for hours, not a second.
TEST(ParseJson, ReadsHugeArraysOfObjects) {
  constexpr std::size_t kCount = 1'000'000;
  const Json json =
      parse_json(repeated("[", "]", kCount, [](std::size_t) { return "{}"; }), "input");
  EXPECT_EQ(json.size(), kCount);
}

TEST(ParseJson, ReadsObjectsWithManyKeys) {
  constexpr std::size_t kCount = 500'000;
  const auto item = [](std::size_t i) {
    return "\"" + std::to_string(i) + "\":" + std::to_string(i);
  };
  const Json json = parse_json(repeated("{", "}", kCount, item), "input");
  EXPECT_EQ(json.size(), kCount);
  EXPECT_EQ(json.items().begin().key(), "0");
  EXPECT_EQ(json["77"], 77);
}

TEST(ParseJson, KeepsEveryKindOfValueAndTheOrderOfKeys) {
  const std::string text =
      R"({"z":[null,true,-3,18446744073709551615,2.5,"\u00e9"],"a":{"b":{},"c":[[]]},"m":0})";
  EXPECT_EQ(parse_json(text, "input"), Json::parse(text));
  EXPECT_EQ(parse_json(text, "input").dump(),
            "{\"z\":[null,true,-3,18446744073709551615,2.5,\"\xC3\xA9\"],\"a\":{\"b\":{},\"c\":"
            "[[]]},\"m\":0}");
}

TEST(ParseJson, CountsLevelsOfContainers) {
  const JsonLimits limits{.max_depth = 3};
  EXPECT_EQ(parse_json("[[[1]]]", "input", limits).dump(), "[[[1]]]");
  test::expect_error(ErrorCode::invalid_argument, {"input", "deeper than 3"},
                     [&] { (void)parse_json("[[{\"a\":[]}]]", "input", limits); });
}

TEST(ParseJson, SeesKeysTwiceInOneObjectOnly) {
  EXPECT_NO_THROW((void)parse_json(R"([{"a":{"a":1}},{"a":2}])", "input"));
  test::expect_error(ErrorCode::invalid_argument, {"'a' appears twice"},
                     [] { (void)parse_json(R"({"a":{"b":1},"a":2})", "input"); });
}

TEST(JsonText, WritesOneLineOrIndentedAndRefusesWhatIsNotUtf8) {
  const Json value = {{"a", 1}, {"b", {1.5, "x"}}};
  EXPECT_EQ(json_text(value), R"({"a":1,"b":[1.5,"x"]})");
  EXPECT_EQ(json_text({{"a", 1}}, 2), "{\n  \"a\": 1\n}");
  const Json broken = {{"name", "caf\xE9"}};
  EXPECT_EQ(shown_json(broken), "{\"name\":\"caf\xEF\xBF\xBD\"}");
  test::expect_error(ErrorCode::invalid_argument, {"not UTF-8", "name"},
                     [&] { (void)json_text(broken); });
}

}  // namespace
}  // namespace tessera::json_test
