// One declaration of a record gives its JSON, both ways, and its options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/core/record_options.h"

namespace {

enum class Shade { light, dark };

struct Spot {
  std::int32_t row = 0;
};

struct Card {
  std::string title;
  std::string note;
  double width_m = 2.5;
  std::int64_t copies = 1;
  bool glossy = false;
  Shade shade = Shade::dark;
  std::optional<double> price_usd;
  std::optional<double> weight_kg;
  std::vector<std::int32_t> pages = {1, 2};
  std::vector<Spot> spots;
  std::string paper = "matt";
  double grams = 80;
  tessera::Json extra = tessera::Json::object();
  double area() const { return 2 * width_m; }
};

}  // namespace

template <>
inline constexpr auto tessera::kEnumNames<Shade> =
    tessera::enum_names<Shade>({{Shade::light, "light"}, {Shade::dark, "dark"}});

template <>
struct tessera::Fields<Spot> {
  static constexpr auto list =
      std::tuple{field<&Spot::row>({.name = "row", .doc = "Row", .min = 0, .max = 9})};
};

std::vector<std::string_view> papers() { return {"matt", "card"}; }

template <>
struct tessera::Fields<Card> {
  static constexpr auto list =
      std::tuple{field<&Card::title>({.name = "title", .doc = "What it is called"}),
                 field<&Card::note>({.name = "note", .doc = "More", .in_file = InFile::when_set}),
                 field<&Card::width_m>({.name = "width_m",
                                        .doc = "Width",
                                        .unit = "m",
                                        .min = 1,
                                        .max = 5,
                                        .in_file = InFile::defaulted,
                                        .as_option = AsOption::defaulted}),
                 field<&Card::copies>({.name = "copies", .doc = "Copies", .min = 1, .max = 10}),
                 field<&Card::glossy>({.name = "glossy",
                                       .doc = "Shines",
                                       .in_file = InFile::defaulted,
                                       .as_option = AsOption::defaulted}),
                 field<&Card::shade>({.name = "shade",
                                      .doc = "Shade",
                                      .in_file = InFile::defaulted,
                                      .as_option = AsOption::defaulted}),
                 field<&Card::price_usd>(
                     {.name = "price_usd", .doc = "Price", .min = 0, .in_file = InFile::when_set}),
                 field<&Card::weight_kg>(
                     {.name = "weight_kg", .doc = "Weight", .min = 0, .in_file = InFile::or_null}),
                 field<&Card::pages>({.name = "pages",
                                      .doc = "Pages",
                                      .min = 1,
                                      .max = 99,
                                      .in_file = InFile::when_set,
                                      .as_option = AsOption::defaulted}),
                 field<&Card::spots>({.name = "spots",
                                      .doc = "Spots",
                                      .in_file = InFile::when_set,
                                      .as_option = AsOption::never}),
                 field<&Card::paper>({.name = "paper",
                                      .doc = "Paper",
                                      .in_file = InFile::when_set,
                                      .as_option = AsOption::required,
                                      .choices = papers}),
                 field<&Card::grams, WholeNumber>({.name = "grams",
                                                   .doc = "Weight of the paper",
                                                   .min = 1,
                                                   .max = 500,
                                                   .in_file = InFile::when_set,
                                                   .as_option = AsOption::never}),
                 field<&Card::extra>({.name = "extra",
                                      .doc = "Whatever",
                                      .in_file = InFile::when_set,
                                      .as_option = AsOption::never}),
                 OptionOnly{{.name = "envelope",
                             .doc = "What it comes in",
                             .as_option = AsOption::required,
                             .choices = papers,
                             .as_flag = false},
                            OptionType::text},
                 field<&Card::area>({.name = "area", .doc = "Area"})};
  static void check(const Card& card, const FieldPath& path) {
    if (card.copies <= 5 || card.glossy) return;
    throw Error(ErrorCode::invalid_argument, path("copies") + ": more than 5 are glossy",
                path("copies"));
  }
};

namespace tessera::record_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const char* text) {
  try {
    from_json<Card>(parse_json(text, "card"), "card");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Record, IsWrittenInTheOrderOfItsFields) {
  Card card;
  card.title = "a";
  card.copies = 3;
  EXPECT_EQ(
      json_text(json_of(card)),
      R"({"title":"a","width_m":2.5,"copies":3,"glossy":false,"shade":"dark","weight_kg":null})");
  card.note = "b";
  card.shade = Shade::light;
  card.price_usd = 2;
  card.weight_kg = 0.5;
  card.pages = {};
  card.spots = {{4}, {5}};
  EXPECT_EQ(json_text(json_of(card)),
            R"({"title":"a","note":"b","width_m":2.5,"copies":3,"glossy":false,"shade":"light",)"
            R"("price_usd":2.0,"weight_kg":0.5,"pages":[],"spots":[{"row":4},{"row":5}]})");
}

TEST(Record, ReadsBackWhatItWrote) {
  Card card;
  card.title = "a";
  card.price_usd = 0.1;
  card.pages = {7};
  card.spots = {{9}};
  card.grams = 120;
  card.extra = Json::array({1, "b"});
  const Json json = json_of(card);
  EXPECT_EQ(json_of(from_json<Card>(json, "card")), json);
}

TEST(Record, GivesInitialValuesToWhatAFileLeavesOut) {
  const Card card = from_json<Card>(parse_json(R"({"title": "a", "copies": 2})", "card"), "card");
  EXPECT_EQ(card.width_m, 2.5);
  EXPECT_EQ(card.shade, Shade::dark);
  EXPECT_THAT(card.pages, ElementsAre(1, 2));
  EXPECT_FALSE(card.price_usd.has_value());
}

TEST(Record, NamesThePathOfWhatItRefuses) {
  EXPECT_THAT(refusal(R"({"copies": 2})"), HasSubstr("card: the field 'title' is missing"));
  EXPECT_THAT(refusal(R"({"title": "a", "copies": 11})"),
              HasSubstr("card: copies: 11 is outside [1, 10]"));
  EXPECT_THAT(refusal(R"({"title": "a", "copies": 2, "colour": 1})"),
              HasSubstr("card: unknown field 'colour'"));
  EXPECT_THAT(refusal(R"({"title": "a", "copies": 2, "spots": [{"row": 1}, {"row": 10}]})"),
              HasSubstr("card: spots[1]: row: 10 is outside [0, 9]"));
  EXPECT_THAT(refusal(R"({"title": "a", "copies": 2, "area": 1})"),
              HasSubstr("unknown field 'area'"));
}

TEST(Record, OffersTheNearestNameOfAnEnumeration) {
  EXPECT_THAT(refusal(R"({"title": "a", "copies": 2, "shade": "ligth"})"),
              HasSubstr("card: shade: 'ligth' is not known; did you mean 'light'?"));
}

// Without a near name they are listed once.
TEST(Record, ListsTheNamesOfAnEnumeration) {
  EXPECT_EQ(refusal(R"({"title": "a", "copies": 2, "shade": "x"})"),
            "card: shade: 'x' is not known; one of 'light', 'dark' belongs here");
}

TEST(Record, TakesOnlyTheWordsOfAText) {
  EXPECT_EQ(refusal(R"({"title": "a", "copies": 2, "paper": "card"})"), "accepted");
  EXPECT_THAT(refusal(R"({"title": "a", "copies": 2, "paper": "cart"})"),
              HasSubstr("card: paper: 'cart' is not known; did you mean 'card'? One of 'matt', "
                        "'card' belongs here"));
}

TEST(Record, TakesWholeNumbersOnlyWhereTheyBelong) {
  EXPECT_THAT(refusal(R"({"title": "a", "copies": 2, "grams": 1.5})"),
              HasSubstr("card: grams: 1.5 is not an integer"));
}

TEST(Record, ChecksFieldsAgainstEachOther) {
  EXPECT_THAT(refusal(R"({"title": "a", "copies": 6})"),
              HasSubstr("card: copies: more than 5 are glossy"));
  EXPECT_EQ(refusal(R"({"title": "a", "copies": 6, "glossy": true})"), "accepted");
}

TEST(Record, GivesOptionsWithTheirDefaults) {
  const std::vector<OptionSpec> options = options_of<Card>();
  std::vector<std::string> shown;
  for (const OptionSpec& option : options) {
    shown.push_back(std::string(option.name) + " = " + option.default_text + ", " +
                    describe_range(option));
  }
  EXPECT_THAT(
      shown,
      ElementsAre("title = , a string", "note = , a string",
                  "width_m = 2.5, a number in [1, 5] (m)", "copies = , an integer in [1, 10]",
                  "glossy = false, true or false", "shade = \"dark\", one of 'light', 'dark'",
                  "price_usd = , a number >= 0", "weight_kg = , a number >= 0",
                  "pages = {1, 2}, a list, each item an integer in [1, 99]",
                  "paper = , one of 'matt', 'card'", "envelope = , one of 'matt', 'card'"));
  EXPECT_FALSE(options.front().required);
  EXPECT_TRUE(options.front().flag);
  EXPECT_TRUE(options[options.size() - 2].required);
  EXPECT_TRUE(options.back().required);
  EXPECT_FALSE(options.back().flag);
}

TEST(OptionTable, TakesMoreOptionsBehindOneOfThem) {
  const OptionTable table{"t", "", "", {{.name = "a", .doc = ""}, {.name = "b", .doc = ""}}};
  std::string names;
  for (const OptionSpec& option :
       table.with("a", {{.name = "x", .doc = ""}, {.name = "y", .doc = ""}}).options)
    names += option.name;
  EXPECT_EQ(names, "axyb");
  EXPECT_THROW(table.with("c", {}), Error);
}

TEST(EnumNames, GoBothWays) {
  EXPECT_EQ(name_of(Shade::light), "light");
  EXPECT_EQ(named<Shade>("dark"), Shade::dark);
  EXPECT_FALSE(named<Shade>("Dark").has_value());
  EXPECT_THAT(names_of<Shade>(), ElementsAre("light", "dark"));
}

}  // namespace
}  // namespace tessera::record_test
