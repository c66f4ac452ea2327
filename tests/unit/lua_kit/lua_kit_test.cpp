#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "case_name.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/annotations.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/value.h"

namespace tessera::lua_kit {

struct Gadget {
  std::string name;
  double mass_kg;
  std::vector<double> parts;
};

namespace {

int gadget_scaled(lua_State* L) {
  const auto& gadget = check_object<Gadget>(L, 1, "self");
  const double factor = check_number(L, 2, "gadget:scaled.factor", 0, 10);
  auto copy = std::make_shared<Gadget>(*gadget);
  copy->mass_kg *= factor;
  push_object<Gadget>(L, std::move(copy));
  return 1;
}

}  // namespace

template <>
const ObjectType<Gadget>& object_type<Gadget>() {
  static const ObjectType<Gadget> type{
      .name = "tessera.Gadget",
      .doc = "A thing for tests",
      .fields =
          {{"name", "string", "As given",
            [](lua_State* L, const Gadget& g) { push_text(L, g.name); }},
           {"mass_kg", "number", "Mass in kg",
            [](lua_State* L, const Gadget& g) { lua_pushnumber(L, g.mass_kg); }},
           {"parts", "number[]", "Mass of each part in kg",
            [](lua_State* L, const Gadget& g) { push_numbers(L, g.parts); }},
           {"child", "tessera.Gadget?", "A gadget of half the mass",
            [](lua_State* L, const Gadget& g) {
              if (g.mass_kg < 2) return lua_pushnil(L);
              push_object<Gadget>(L, std::make_shared<Gadget>(Gadget{"child", g.mass_kg / 2, {}}));
            }}},
      .methods = {{"scaled", guarded<gadget_scaled>, "(factor: number): tessera.Gadget",
                   "A copy with another mass"}},
      .summary = [](const Gadget& g) { return "gadget " + g.name; },
      .describe = [](const Gadget& g) { return "gadget " + g.name + "\n  in full"; },
      .equal = [](const Gadget& a, const Gadget& b) { return a.name == b.name; }};
  return type;
}

namespace lua_kit_test {
namespace {

using testing::HasSubstr;
using testing::Not;

const OptionTable& options_table() {
  static const OptionTable table{
      "ts.demo",
      "A demonstration",
      "tessera.Gadget",
      {{.name = "batch_size",
        .type = OptionType::integer,
        .doc = "Requests at once",
        .unit = "requests",
        .min = 1,
        .max = 1000000,
        .required = true},
       {.name = "theta",
        .type = OptionType::number,
        .doc = "Weight of omega",
        .default_text = "1.5",
        .min = 0},
       {.name = "planner",
        .type = OptionType::choice,
        .doc = "Who plans",
        .default_text = "\"exact\"",
        .choices = {"exact", "ilp"}},
       {.name = "bitwidths",
        .type = OptionType::integer_list,
        .doc = "Allowed bitwidths",
        .default_text = "{3, 4, 8, 16}",
        .min = 2,
        .max = 16},
       {.name = "names", .type = OptionType::text_list, .doc = "Names"},
       {.name = "label", .type = OptionType::text, .doc = "Label"},
       {.name = "verbose",
        .type = OptionType::boolean,
        .doc = "Says more",
        .default_text = "false"},
       {.name = "model",
        .type = OptionType::table,
        .doc = "Model",
        .lua_type = "tessera.Gadget|string"},
       {.name = "on_done", .type = OptionType::callback, .doc = "Called at the end"}}};
  return table;
}

Json options_to_json(const Options& options) {
  Json result;
  result["batch_size"] = options.integer("batch_size");
  result["theta"] = options.number("theta");
  result["planner"] = options.choice("planner");
  result["bitwidths"] = options.integers("bitwidths");
  result["names"] = options.texts("names");
  result["verbose"] = options.boolean("verbose");
  result["positional"] = options.num_positional();
  return result;
}

int demo(lua_State* L) {
  push_json(L, options_to_json(Options(L, 1, options_table(), "ts.demo")));
  return 1;
}

int demo_positional(lua_State* L) {
  const Options options(L, 1, options_table(), "ts.demo", Options::Keys::named_and_positional);
  lua_newtable(L);
  for (int i = 1; i <= options.num_positional(); ++i) {
    options.push_positional(i);
    lua_rawseti(L, -2, i);
  }
  return 1;
}

int integer(lua_State* L) {
  lua_pushnumber(L, static_cast<double>(check_integer(L, 1, "ts.f.count", 0, 1e300, "bytes")));
  return 1;
}

int gadget(lua_State* L) {
  push_object<Gadget>(L, std::make_shared<Gadget>(Gadget{check_text(L, 1, "name"), 3, {1, 2}}));
  return 1;
}

int throw_error(lua_State*) { throw Error(ErrorCode::io, "disk: full", "disk"); }
int throw_foreign(lua_State*) { throw std::out_of_range("vector::at"); }
int throw_nested(lua_State*) {
  try {
    throw std::runtime_error("inner reason");
  } catch (...) {
    std::throw_with_nested(Error(ErrorCode::solver, "outer"));
  }
}

int call_back(lua_State* L) {
  const LuaFunction function(L, 1, "ts.demo.on_done");
  lua_State* state = function.state();
  lua_pushnumber(state, 20);
  lua_pushnumber(state, 22);
  function.call(2, 1);
  return 1;
}

int round_trip(lua_State* L) {
  push_json(L, json_from_lua(L, 1, "value"));
  return 1;
}

class LuaKit : public testing::Test {
 protected:
  LuaKit() : L_(luaL_newstate()) {
    luaL_openlibs(L_);
    register_module(L_, "kit",
                    {{"demo", guarded<demo>},
                     {"demo_positional", guarded<demo_positional>},
                     {"integer", guarded<integer>},
                     {"gadget", guarded<gadget>},
                     {"throw_error", guarded<throw_error>},
                     {"throw_foreign", guarded<throw_foreign>},
                     {"throw_nested", guarded<throw_nested>},
                     {"call_back", guarded<call_back>},
                     {"round_trip", guarded<round_trip>}});
    register_object<Gadget>(L_);
    EXPECT_EQ(run("kit = require 'kit'"), "");
  }
  ~LuaKit() override {
    EXPECT_EQ(lua_gettop(L_), 0);
    lua_close(L_);
  }

  // The text of the first result, or "error: ..." with the report.
  std::string run(const std::string& code) {
    const StackGuard guard(L_);
    if (luaL_loadstring(L_, code.c_str()) != 0)
      return std::string("syntax: ") + lua_tostring(L_, -1);
    if (protected_call(L_, 0, 1) != 0) {
      report = read_error(L_, -1);
      return "error: " + report.message;
    }
    lua_getglobal(L_, "tostring");
    lua_insert(L_, -2);
    if (lua_isnil(L_, -1)) return "";
    lua_call(L_, 1, 1);
    return lua_tostring(L_, -1);
  }
  std::string json(const std::string& code) {
    const StackGuard guard(L_);
    if (luaL_dostring(L_, ("return " + code).c_str()) != 0) return "error";
    return json_from_lua(L_, -1, "value").dump();
  }

  lua_State* L_;
  ErrorReport report;
};

TEST_F(LuaKit, KeepsCodeMessageAndWhereOfAnEngineError) {
  EXPECT_EQ(run("kit.throw_error()"), "error: disk: full");
  EXPECT_EQ(report.code, "io");
  EXPECT_EQ(report.where, "disk");
  EXPECT_THAT(report.at, HasSubstr("kit.throw_error()"));
  EXPECT_THAT(report.traceback, HasSubstr("stack traceback"));
  EXPECT_EQ(run("local ok, e = pcall(kit.throw_error) return e.code .. '/' .. tostring(e)"),
            "io/disk: full");
}

TEST_F(LuaKit, NamesTheCauseOfForeignAndNestedExceptions) {
  EXPECT_EQ(run("kit.throw_foreign()"), "error: vector::at");
  EXPECT_EQ(report.code, "internal");
  EXPECT_EQ(report.cause, "std::out_of_range");
  EXPECT_EQ(run("kit.throw_nested()"), "error: outer");
  EXPECT_THAT(report.cause, HasSubstr("inner reason"));
}

TEST_F(LuaKit, ReadsAnyErrorValueWithoutFailing) {
  EXPECT_THAT(run("error('plain', 0)"), HasSubstr("plain"));
  EXPECT_THAT(run("error({})"), HasSubstr("a table, not a message"));
  EXPECT_THAT(run("error(nil)"), HasSubstr("nil"));
  EXPECT_THAT(run("error(12)"), HasSubstr("12"));
  EXPECT_THAT(run("error(setmetatable({}, {__tostring = function() error 'twice' end}))"),
              HasSubstr("twice"));
  EXPECT_THAT(run("error(setmetatable({}, {__tostring = function() return 5 end}))"),
              HasSubstr("returned no string"));
  EXPECT_EQ(run("error({code = 'mine', message = 'own table'})"), "error: own table");
  EXPECT_EQ(report.code, "mine");
  EXPECT_THAT(run("local function f() return 1 + f() end f()"), HasSubstr("stack overflow"));
}

TEST_F(LuaKit, RefusesWhatIsNoExactInteger) {
  EXPECT_EQ(run("return kit.integer(9007199254740992)"), "9.007199254741e+15");
  EXPECT_EQ(run("kit.integer(3.7)"),
            "error: ts.f.count: 3.7 is not an integer; give an integer >= 0 (bytes)");
  EXPECT_THAT(run("kit.integer(0/0)"), HasSubstr("NaN is not a number"));
  EXPECT_THAT(run("kit.integer(1/0)"), HasSubstr("inf is not finite"));
  EXPECT_THAT(run("kit.integer(2^54)"), HasSubstr("beyond 2^53"));
  EXPECT_THAT(run("kit.integer('7')"), HasSubstr("the string '7' is not a number"));
  EXPECT_THAT(run("kit.integer()"), HasSubstr("nothing is not a number"));
  EXPECT_THAT(run("kit.integer(-1)"), HasSubstr("-1 is out of range; give an integer >= 0"));
  EXPECT_EQ(report.code, "out_of_range");
}

TEST_F(LuaKit, FillsInDefaults) {
  EXPECT_EQ(json("-0.0"), "-0.0");  // a sign that 1 / x shows
  EXPECT_EQ(json("kit.demo { batch_size = 4 }"),
            R"({"batch_size":4,"bitwidths":[3,4,8,16],"names":[],"planner":"exact","positional":0,)"
            R"("theta":1.5,"verbose":false})");
  EXPECT_EQ(json("kit.demo { batch_size = 4, bitwidths = {8}, names = {'a'}, planner = 'ilp', "
                 "verbose = true }.bitwidths"),
            "[8]");
}

struct BadOption {
  const char* name;
  const char* code;
  const char* message;
};
void PrintTo(const BadOption& option, std::ostream* stream) { *stream << option.name; }

class LuaKitBadOption : public LuaKit, public testing::WithParamInterface<BadOption> {};

TEST_P(LuaKitBadOption, GivesOneLineThatNamesIt) {
  const std::string text = run(GetParam().code);
  EXPECT_THAT(text, HasSubstr("error: "));
  EXPECT_THAT(text, HasSubstr(GetParam().message));
  EXPECT_THAT(text, Not(HasSubstr("\n")));
}

INSTANTIATE_TEST_SUITE_P(
    Options, LuaKitBadOption,
    testing::Values(
        BadOption{"not_a_table", "kit.demo(5)", "ts.demo: the number 5 where a table"},
        BadOption{"no_table", "kit.demo()", "ts.demo: a table of options is needed, got nothing"},
        BadOption{"missing", "kit.demo {}", "ts.demo.batch_size: missing; give an integer in"},
        BadOption{"misspelt", "kit.demo { batch_size = 1, bitwidhts = {3} }",
                  "unknown option 'bitwidhts'; did you mean 'bitwidths'?"},
        BadOption{"number_key", "kit.demo { 1, batch_size = 1 }", "the key the number 1 was"},
        BadOption{"fraction", "kit.demo { batch_size = 3.5 }",
                  "ts.demo.batch_size: 3.5 is not an integer; give an integer in [1, 1000000] "
                  "(requests)"},
        BadOption{"range", "kit.demo { batch_size = 0 }", "0 is out of range; give an integer in"},
        BadOption{"nan", "kit.demo { batch_size = 1, theta = 0/0 }", "ts.demo.theta: NaN"},
        BadOption{"huge", "kit.demo { batch_size = 1e300 }", "beyond 2^53"},
        BadOption{"text", "kit.demo { batch_size = '1' }", "the string '1' is not a number"},
        BadOption{"choice", "kit.demo { batch_size = 1, planner = 'exakt' }",
                  "'exakt' is not a choice; did you mean 'exact'?"},
        BadOption{"choice_type", "kit.demo { batch_size = 1, planner = 5 }", "one of 'exact'"},
        BadOption{"list_item", "kit.demo { batch_size = 1, bitwidths = {3, 4.5} }",
                  "ts.demo.bitwidths[2]: 4.5 is not an integer"},
        BadOption{"list_gap", "kit.demo { batch_size = 1, bitwidths = {[1] = 3, [3] = 4} }",
                  "gaps"},
        BadOption{"list_key", "kit.demo { batch_size = 1, bitwidths = {a = 3} }", "in a list"},
        BadOption{"list_type", "kit.demo { batch_size = 1, bitwidths = 3 }", "is not a list"},
        BadOption{"texts", "kit.demo { batch_size = 1, names = {1} }", "ts.demo.names[1]"},
        BadOption{"label", "kit.demo { batch_size = 1, label = 3 }", "give a string"},
        BadOption{"boolean", "kit.demo { batch_size = 1, verbose = 'yes' }", "true or false"},
        BadOption{"model", "kit.demo { batch_size = 1, model = 3 }", "ts.demo.model: the number 3"},
        BadOption{"callback", "kit.demo { batch_size = 1, on_done = {} }", "give a function"}),
    test::case_name);

TEST_F(LuaKit, ReadsAnArrayPartWhereAllowed) {
  EXPECT_EQ(json("kit.demo_positional { {'T4', 3}, {'V100', 1}, batch_size = 1 }"),
            R"([["T4",3],["V100",1]])");
  EXPECT_THAT(run("kit.demo_positional { [1] = 1, [3] = 1, batch_size = 1 }"), HasSubstr("error"));
  EXPECT_THAT(run("kit.demo_positional { [true] = 1, batch_size = 1 }"),
              HasSubstr("neither an option nor an item"));
}

TEST_F(LuaKit, CallsLuaAndKeepsItsErrors) {
  EXPECT_EQ(run("return kit.call_back(function(a, b) return a + b end)"), "42");
  EXPECT_EQ(run("local co = coroutine.wrap(function() return kit.call_back(function(a, b) "
                "return a * b end) end) return co()"),
            "440");
  EXPECT_THAT(run("kit.call_back(function() error 'inside' end)"), HasSubstr("inside"));
  EXPECT_EQ(report.code, "script");
  EXPECT_THAT(report.traceback, HasSubstr("function <"));
  EXPECT_EQ(run("kit.call_back(kit.throw_error)"), "error: disk: full");
  EXPECT_EQ(report.code, "io");
  EXPECT_EQ(run("local mine = {code = 'infeasible'} local ok, e = pcall(kit.call_back, function() "
                "error(mine) end) return e == mine"),
            "true");
  EXPECT_THAT(run("kit.call_back(5)"), HasSubstr("the number 5 where a function belongs"));
}

TEST(LuaFunctionTest, OutlivesItsState) {
  lua_State* L = luaL_newstate();
  luaL_loadstring(L, "return 1");
  std::optional<LuaFunction> function(std::in_place, L, -1, "f");
  lua_pop(L, 1);
  EXPECT_NO_THROW(function->call(0, 0));
  lua_close(L);
  EXPECT_THROW(function->call(0, 0), Error);
  function.reset();
}

TEST_F(LuaKit, ObjectsAreReadOnlyAndExplainThemselves) {
  EXPECT_EQ(run("return kit.gadget('a').mass_kg"), "3");
  EXPECT_EQ(run("return kit.gadget('a'):scaled(2).mass_kg"), "6");
  EXPECT_EQ(run("return kit.gadget('a')"), "gadget a");
  EXPECT_EQ(run("return getmetatable(kit.gadget('a'))"), "tessera.Gadget");
  EXPECT_EQ(run("return kit.gadget('a') == kit.gadget('a')"), "true");
  EXPECT_EQ(run("return kit.gadget('a') == kit.gadget('b')"), "false");
  EXPECT_THAT(run("return kit.gadget('a').mas_kg"),
              HasSubstr("tessera.Gadget has no field 'mas_kg'; did you mean 'mass_kg'?"));
  EXPECT_THAT(run("kit.gadget('a').name = 'b'"), HasSubstr("read-only: cannot set 'name'"));
  EXPECT_THAT(run("return kit.gadget('a')[1]"), HasSubstr("a field has a name"));
  EXPECT_THAT(run("return kit.gadget('a').scaled(2)"), HasSubstr("call methods with ':'"));
  EXPECT_THAT(run("kit.gadget('a'):scaled(kit.gadget('b'))"), HasSubstr("a tessera.Gadget is not"));
  EXPECT_THAT(run("local g = kit.gadget('a') debug.getmetatable(g).__gc(g) return g.name"),
              HasSubstr("has been released"));
  EXPECT_EQ(json("kit.gadget('a'):to_table()"),
            R"({"child":{"mass_kg":1.5,"name":"child","parts":[]},"mass_kg":3,"name":"a",)"
            R"("parts":[1,2]})");
}

TEST_F(LuaKit, ConvertsJsonBothWays) {
  EXPECT_EQ(json("kit.round_trip { 1, 2.5, 'x', true, { a = { b = {} } } }"),
            R"([1,2.5,"x",true,{"a":{"b":[]}}])");
  EXPECT_EQ(json("kit.round_trip { g = kit.gadget('a') }.g.name"), "\"a\"");
  push_json(L_, Json::parse("[9007199254740993, 18446744073709551615, null]"));
  lua_setglobal(L_, "big");
  EXPECT_EQ(run("return big[1] .. ' ' .. big[2]"), "9007199254740993 18446744073709551615");
}

INSTANTIATE_TEST_SUITE_P(
    Json, LuaKitBadOption,
    testing::Values(
        BadOption{"function_value", "kit.round_trip { a = { print } }", "value.a[1]: a function"},
        BadOption{"userdata_value", "kit.round_trip { io.stdout }", "value[1]: a userdata"},
        BadOption{"cycle", "local t = {} t.t = t kit.round_trip(t)", "value.t: the table contains"},
        BadOption{"not_finite", "kit.round_trip { x = 0/0 }", "value.x: "},
        BadOption{"mixed", "kit.round_trip { 1, a = 2 }", "both items and named"},
        BadOption{"gaps", "kit.round_trip { [1] = 1, [9] = 2 }", "gaps"},
        BadOption{"boolean_key", "kit.round_trip { [true] = 1 }", "the key true"},
        BadOption{"binary", "kit.round_trip { '\\255\\254' }", "not UTF-8"},
        BadOption{"deep", "local t = {} for i = 1, 100 do t = { t } end kit.round_trip(t)",
                  "nested deeper"}),
    test::case_name);

TEST(ReferenceTest, WritesHelpAndAnnotationsFromTheTables) {
  Reference reference;
  reference.add(options_table());
  reference.add(FunctionCard{"ts.load", "Reads a file", {{"path", "string", "File"}}, "table"});
  reference.add_object<Gadget>();
  EXPECT_THAT(reference.topics(), testing::ElementsAre("tessera.Gadget", "ts.demo", "ts.load"));
  const std::string help = reference.help("ts.demo").value();
  EXPECT_THAT(help, HasSubstr("an integer in [1, 1000000] (requests), required"));
  EXPECT_THAT(help, HasSubstr("default {3,\n                            4, 8, 16}"));
  EXPECT_FALSE(reference.help("ts.nothing").has_value());
  EXPECT_THAT(reference.help("tessera.Gadget").value(), HasSubstr(":scaled(factor: number)"));
  const std::string luacats = reference.luacats();
  EXPECT_THAT(luacats, HasSubstr("---@class tessera.options.demo\n---@field batch_size integer"));
  EXPECT_THAT(luacats, HasSubstr("---@field planner? \"exact\"|\"ilp\" Who plans"));
  EXPECT_THAT(luacats, HasSubstr("function ts.demo(options) end"));
  EXPECT_THAT(luacats, HasSubstr("---@param path string File\n---@return table\nfunction "
                                 "ts.load(path) end"));
  EXPECT_THAT(luacats, HasSubstr("---@field scaled fun(self, factor: number): tessera.Gadget"));
}

TEST(ReferenceTest, MakeTheTableOfAGroupOfFunctionsOnce) {
  Reference reference;
  reference.add(FunctionCard{"ts.group.first", "One", {}, "number"});
  reference.add(FunctionCard{"ts.group.second", "Two", {}, "number"});
  reference.add(FunctionCard{"ts.alone", "Three", {}, "number"});
  const std::string luacats = reference.luacats();
  const std::size_t table = luacats.find("ts.group = {}\n");
  ASSERT_NE(table, std::string::npos);
  EXPECT_EQ(luacats.find("ts.group = {}", table + 1), std::string::npos);
  EXPECT_LT(table, luacats.find("function ts.group.first() end"));
  EXPECT_NE(luacats.find("function ts.group.second() end"), std::string::npos);
  EXPECT_EQ(luacats.find("ts.alone = {}"), std::string::npos);
}

TEST(Setters, SetFieldsOfTheTableOnTop) {
  const std::unique_ptr<lua_State, decltype(&lua_close)> state(luaL_newstate(), lua_close);
  lua_State* L = state.get();
  lua_newtable(L);
  set_text(L, "text", std::string_view("a\0b", 3));
  set_texts(L, "texts", {"x", "y"});
  set_number(L, "number", 0.5);
  set_numbers(L, "numbers", {1, 2.5});
  set_integer(L, "integer", 7);
  set_integer(L, "long", (std::int64_t{1} << 53) + 1);
  set_boolean(L, "boolean", true);
  set_json(L, "json", Json{{"a", 1}});
  set_optional(L, "some", 3.0);
  set_optional(L, "none", std::nullopt);
  EXPECT_EQ(lua_gettop(L), 1);
  EXPECT_EQ(json_from_lua(L, 1, "t"),
            Json::parse(R"({"boolean": true, "integer": 7, "json": {"a": 1},
                            "long": "9007199254740993", "number": 0.5, "numbers": [1, 2.5],
                            "some": 3, "text": "a\u0000b", "texts": ["x", "y"]})"));
  push_optional(L, 2.0);
  push_optional(L, std::nullopt);
  EXPECT_EQ(lua_tonumber(L, -2), 2);
  EXPECT_TRUE(lua_isnil(L, -1));
}

}  // namespace
}  // namespace lua_kit_test
}  // namespace tessera::lua_kit
