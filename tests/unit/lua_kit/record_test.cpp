// A record that scripts give as options and get as a table.
#include "tessera/lua_kit/record.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera {
namespace {

enum class Shade { light, dark };

struct Spot {
  std::string name;
  std::optional<double> size_m;
};

struct GpuCard {
  std::string title;
  std::string paper = "matt";
  Shade shade = Shade::dark;
  std::int32_t copies = 1;
  Json facts = Json::object();
  Json notes = Json::array();
  std::vector<Spot> spots;
  std::string secret = "s";
  std::int32_t pages() const { return 2 * copies; }
};

std::vector<std::string_view> papers() { return {"matt", "card"}; }

}  // namespace

template <>
inline constexpr auto kEnumNames<Shade> = enum_names<Shade>({{Shade::light, "light"},
                                                             {Shade::dark, "dark"}});

template <>
struct Fields<Spot> {
  static constexpr auto list = std::tuple{field<&Spot::name>({.name = "name", .doc = "Name"}),
                                          field<&Spot::size_m>({.name = "size_m", .doc = "Size"})};
};

template <>
struct Fields<GpuCard> {
  static constexpr auto list = std::tuple{
      field<&GpuCard::title>(
          {.name = "title", .doc = "What it is called", .as_option = AsOption::required}),
      field<&GpuCard::paper>({.name = "paper", .doc = "Paper", .choices = papers}),
      field<&GpuCard::shade>({.name = "shade", .doc = "Shade"}),
      field<&GpuCard::copies>({.name = "copies", .doc = "Copies", .min = 1, .max = 9}),
      field<&GpuCard::facts>({.name = "facts", .doc = "Known of it"}),
      field<&GpuCard::notes>({.name = "notes", .doc = "Said of it"}),
      field<&GpuCard::spots>({.name = "spots", .doc = "Spots", .as_option = AsOption::never}),
      field<&GpuCard::secret>({.name = "secret",
                               .doc = "Not for scripts",
                               .as_option = AsOption::never,
                               .in_scripts = false}),
      field<&GpuCard::pages>({.name = "pages", .doc = "Pages"})};
};

namespace lua_kit::record_test {
namespace {

class ScriptRecord : public testing::Test {
 protected:
  ScriptRecord() : state_(luaL_newstate(), lua_close), L_(state_.get()) {}

  GpuCard read(const std::string& options) {
    static const OptionTable table = option_table<GpuCard>({"card", "", "", {}});
    EXPECT_EQ(luaL_dostring(L_, ("return " + options).c_str()), 0) << lua_tostring(L_, -1);
    GpuCard card;
    read_options(Options(L_, -1, table, "card"), card);
    return card;
  }

  std::unique_ptr<lua_State, decltype(&lua_close)> state_;
  lua_State* L_;
};

TEST_F(ScriptRecord, TakesWhatTheOptionsGive) {
  const GpuCard card = read(
      "{ title = 'a', paper = 'card', shade = 'light', copies = 3, facts = { b = 1 }, "
      "notes = { 'x' } }");
  EXPECT_EQ(card.title, "a");
  EXPECT_EQ(card.paper, "card");
  EXPECT_EQ(card.shade, Shade::light);
  EXPECT_EQ(card.copies, 3);
  EXPECT_EQ(json_text(card.facts), R"({"b":1})");
  EXPECT_EQ(json_text(card.notes), R"(["x"])");
}

TEST_F(ScriptRecord, KeepsInitialValues) {
  const GpuCard card = read("{ title = 'a' }");
  EXPECT_EQ(card.paper, "matt");
  EXPECT_EQ(card.shade, Shade::dark);
  EXPECT_EQ(card.copies, 1);
}

// Lua has one empty table for both.
TEST_F(ScriptRecord, TellsAnEmptyObjectFromAnEmptyList) {
  const GpuCard card = read("{ title = 'a', facts = {}, notes = {} }");
  EXPECT_EQ(json_text(card.facts), "{}");
  EXPECT_EQ(json_text(card.notes), "[]");
}

TEST_F(ScriptRecord, RefusesWhatNoOptionIs) {
  for (const char* options : {"{}", "{ title = 'a', paper = 'silk' }",
                              "{ title = 'a', copies = 10 }", "{ title = 'a', pages = 4 }",
                              "{ title = 'a', secret = 'b' }", "{ title = 'a', facts = 1 }"}) {
    EXPECT_THROW(read(options), Error) << options;
  }
}

TEST_F(ScriptRecord, IsATableOfItsFields) {
  GpuCard card = read("{ title = 'a', facts = { b = 1 } }");
  card.spots = {{"left", 0.5}, {"right", std::nullopt}};
  push_value(L_, card);
  const Json table = json_from_lua(L_, -1, "card");
  EXPECT_EQ(json_text(table),
            R"({"copies":1,"facts":{"b":1},"notes":[],"pages":2,"paper":"matt","shade":"dark",)"
            R"("spots":[{"name":"left","size_m":0.5},{"name":"right"}],"title":"a"})");
}

/// An object that may show a card.
struct Envelope {
  std::optional<GpuCard> card;
};
constexpr auto show_card = [](const Envelope& envelope, auto&& read) {
  if (envelope.card) read(*envelope.card);
};

TEST_F(ScriptRecord, IsShownByAnotherObjectWhereItIsThere) {
  const auto fields = fields_shown<Envelope, GpuCard, show_card>(false);
  const auto title = std::find_if(fields.begin(), fields.end(), [](const auto& field) {
    return std::string_view(field.name) == "title";
  });
  ASSERT_NE(title, fields.end());
  EXPECT_EQ(title->lua_type, "string?");
  Envelope full;
  full.card.emplace().title = "ace";
  title->get(L_, full);
  EXPECT_STREQ(lua_tostring(L_, -1), "ace");
  title->get(L_, Envelope{});
  EXPECT_TRUE(lua_isnil(L_, -1));
  EXPECT_EQ(fields_of<GpuCard>().size(), fields.size());
  EXPECT_EQ(fields_of<GpuCard>().front().lua_type, "string");
}

TEST_F(ScriptRecord, SetsItsFieldsBesideOthers) {
  lua_newtable(L_);
  set_number(L_, "size_m", 2.0);
  set_integer(L_, "count", 3);
  set_fields(L_, Spot{"left", std::nullopt});
  EXPECT_EQ(json_text(json_from_lua(L_, -1, "t")), R"({"count":3,"name":"left"})");
}

}  // namespace
}  // namespace lua_kit::record_test
}  // namespace tessera
