// What bindings read out of a script's values: only what has the type that they say.

#include <functional>
#include <memory>
#include <string>

#include "expect_error.h"
#include "lua_type.h"
#include "tessera/core/error.h"
#include "tessera/core/option.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/nesting.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/table.h"

namespace tessera {
namespace {

struct Widget {
  std::string name;
};

}  // namespace

template <>
const lua_kit::ObjectType<Widget>& lua_kit::object_type<Widget>() {
  static const ObjectType<Widget> type{
      .name = "tessera.Widget",
      .doc = "Something with a name",
      .fields = {{"name", "string", "Its name",
                  [](lua_State* L, const Widget& w) { lua_pushstring(L, w.name.c_str()); }}},
      .methods = {},
      .summary = [](const Widget& w) { return w.name; }};
  return type;
}

namespace lua_kit::reading_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Types = std::vector<std::string_view>;

class LuaKitReading : public testing::Test {
 protected:
  LuaKitReading() : state_(luaL_newstate(), lua_close), L_(state_.get()) {
    luaL_openlibs(L_);
    register_object<Widget>(L_);
    push_object<Widget>(L_, std::make_shared<Widget>(Widget{"w"}));
    lua_setglobal(L_, "widget");
  }

  // Pushes the value of an expression.
  void push(const std::string& expression) {
    ASSERT_EQ(luaL_dostring(L_, ("return " + expression).c_str()), 0) << lua_tostring(L_, -1);
  }
  std::string message_of(const std::function<void()>& read) {
    try {
      read();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::unique_ptr<lua_State, void (*)(lua_State*)> state_;
  lua_State* L_;
};

TEST_F(LuaKitReading, TypesAreSplitIntoWholeAlternatives) {
  EXPECT_THAT(alternatives("number[]"), ElementsAre("number[]"));
  EXPECT_THAT(alternatives("tessera.Plan|table<string, number|boolean>|string?"),
              ElementsAre("tessera.Plan", "table<string, number|boolean>", "string"));
  EXPECT_THAT(alternatives("fun(a: string|number): boolean|false"),
              ElementsAre("fun(a: string|number): boolean", "false"));
  EXPECT_THAT(alternatives("(integer|string)"), ElementsAre("integer", "string"));
  EXPECT_THAT(alternatives("(tessera.Profile|string)[]"),
              ElementsAre("(tessera.Profile|string)[]"));
  EXPECT_THAT(alternatives("{ a: number|string }|\"auto\""),
              ElementsAre("{ a: number|string }", "\"auto\""));
  EXPECT_TRUE(alternatives("").empty());
}

TEST_F(LuaKitReading, AValueFitsATypeOrDoesNot) {
  const std::string values[] = {"4",      "'a'",       "true",
                                "false",  "{ 1 }",     "print",
                                "widget", "io.stdout", "coroutine.create(print)"};
  const struct {
    std::string type;
    std::string fitting;  // of the values above, by their index
  } cases[] = {{"number[]", "4"},
               {"table<string, number>", "4"},
               {"{ low: number }", "4"},
               {"(tessera.Widget|string)[]", "4"},
               {"integer|integer[]|string", "014"},
               {"tessera.Widget|string", "16"},
               {"tessera.Other|table", "4"},
               {"fun(x: number): number", "5"},
               {"fun()|false", "35"},
               {"boolean", "23"},
               {"string", "1"},
               {"any", "012345678"}};
  for (const auto& [type, fitting] : cases) {
    std::string found;
    for (std::size_t i = 0; i < std::size(values); ++i) {
      push(values[i]);
      if (fits_type(L_, -1, type)) found += std::to_string(i);
      lua_pop(L_, 1);
    }
    EXPECT_EQ(found, fitting) << type;
  }
}

TEST_F(LuaKitReading, ATableOptionTakesNothingThatOnlySoundsLikeItsType) {
  const OptionTable table{
      "ts.demo",
      "",
      "",
      {{.name = "data", .type = OptionType::table, .doc = "Its numbers", .lua_type = "number[]"}}};
  for (const char* value : {"4", "'4'", "true", "print", "widget", "io.stdout"}) {
    push(std::string("{ data = ") + value + " }");
    EXPECT_THAT(message_of([&] { Options(L_, -1, table, "ts.demo"); }),
                testing::AllOf(HasSubstr("ts.demo.data: "),
                               HasSubstr("has the wrong type; give number[]: Its numbers")))
        << value;
  }
  push("{ data = { 1, 2 } }");
  EXPECT_TRUE(Options(L_, -1, table, "ts.demo").given("data"));
}

TEST_F(LuaKitReading, WhatIsNoTableIsNeverReadAsOne) {
  for (const char* value : {"nil", "4", "'4'", "true", "print", "io.stdout", "widget"}) {
    push(value);
    const int at = lua_gettop(L_);
    const std::function<void()> reads[] = {
        [&] { list_length(L_, at, "x"); },
        [&] { push_item(L_, at, 1, "x"); },
        [&] { next_pair(L_, at, "x"); },
        [&] { check_table(L_, at, "x"); },
        [&] { for_each_item(L_, at, "x", [](std::size_t, const std::string&) {}); },
        [&] { for_each_pair(L_, at, "x", [] {}); }};
    for (const auto& read : reads) EXPECT_THAT(message_of(read), HasSubstr("x: ")) << value;
    EXPECT_EQ(border(L_, at), 0u);
    if (std::string(value) != "widget") {
      EXPECT_THAT(message_of([&] { push_field(L_, at, "name", "x"); }), HasSubstr("x: ")) << value;
    }
    lua_settop(L_, 0);
  }
}

TEST_F(LuaKitReading, ListsAreReadInOrderAndWhole) {
  push("{ 'a', 'b', 'c' }");
  std::string read;
  for_each_item(L_, 1, "x", [&](std::size_t i, const std::string& path) {
    read += std::to_string(i) + path + check_text(L_, -1, path) + " ";
  });
  EXPECT_EQ(read, "1x[1]a 2x[2]b 3x[3]c ");
  EXPECT_EQ(lua_gettop(L_), 1);
  const struct {
    const char* list;
    const char* message;
  } wrong[] = {{"{ 1, nil, 3 }", "x: the list has gaps"},
               {"{ 1, a = 2 }", "x: the key the string 'a' in a list"},
               {"{ [0.5] = 1 }", "x: the list has gaps"},
               {"{ [1e300] = 1 }", "x: the list has gaps"},
               {"{ 1, 2, 3, 4 }", "x: a list of 4 items is too long, 3 are allowed"}};
  for (const auto& [list, message] : wrong) {
    push(list);
    EXPECT_THAT(message_of([&] { list_length(L_, lua_gettop(L_), "x", {}, 3); }),
                HasSubstr(message));
  }
}

TEST_F(LuaKitReading, FieldsComeFromTablesAsTheyStandAndFromObjects) {
  push("setmetatable({ a = 1 }, { __index = { b = 2 } })");
  EXPECT_TRUE(push_field(L_, 1, "a", "x"));
  EXPECT_FALSE(push_field(L_, 1, "b", "x"));
  push("widget");
  EXPECT_TRUE(push_field(L_, -1, "name", "x"));
  EXPECT_EQ(text_or_empty(L_, -1), "w");
}

TEST_F(LuaKitReading, NumbersAreNumbersAndTextsAreTexts) {
  push("0/0");
  EXPECT_TRUE(std::isnan(any_number(L_, -1, "x")));
  push("'4'");
  EXPECT_THROW(any_number(L_, -1, "x"), Error);
  EXPECT_THROW(check_pointer(L_, -1, "x"), Error);
  push("4");
  EXPECT_EQ(text_or_empty(L_, -1), "");
  EXPECT_EQ(text_of_scalar(L_, -1), "4");
  EXPECT_EQ(lua_type(L_, -1), LUA_TNUMBER);  // reading has not changed it
}

// On a stack of its own, so that the end is near whatever the machine gives its programs.
TEST_F(LuaKitReading, RecursionThroughCEndsAsAnError) {
  guard_recursion(L_);
  const char* const endless[] = {
      "local function f() return (('x'):gsub('.', f)) end f()",
      "local function f() coroutine.wrap(f)() end f()",
      "local function f() assert(coroutine.resume(coroutine.create(f))) end f()",
      "local f local function g() return (string.gsub('x', '.', f)) end "
      "f = function() return coroutine.wrap(g)() end f()"};
  for (const char* code : endless) {
    EXPECT_NE(luaL_dostring(L_, code), 0);
    EXPECT_THAT(read_error(L_, -1).message, HasSubstr("nested too deeply")) << code;
    lua_settop(L_, 0);
    lua_gc(L_, LUA_GCCOLLECT, 0);
  }
}

TEST_F(LuaKitReading, GuardedFunctionsOfLuaSayWhatTheySaidBefore) {
  const char* const calls[] = {"return string.gsub('abc', 'b', 'x')",
                               "return ('abc'):gsub('(.)', { a = 1 })",
                               "string.gsub(1)",
                               "return ('x'):gsub({}, 'a')",
                               "coroutine.resume(1)",
                               "coroutine.wrap(1)",
                               "return coroutine.wrap(function(...) return ... end)(1, nil, 3)",
                               "local f = coroutine.wrap(function() error('boom') end) f()",
                               "local f = coroutine.wrap(function() end) f() f()",
                               "local f f = coroutine.wrap(function() f() end) f()",
                               "local c c = coroutine.create(function() return "
                               "coroutine.resume(c) end) return coroutine.resume(c)"};
  const auto outcomes = [&] {
    std::vector<std::string> found;
    for (const char* code : calls) {
      lua_settop(L_, 0);
      const int status = luaL_dostring(L_, code);
      std::string text = std::to_string(status);
      for (int i = 1; i <= lua_gettop(L_); ++i) text += " " + describe_value(L_, i);
      found.push_back(text);
    }
    return found;
  };
  const std::vector<std::string> before = outcomes();
  guard_recursion(L_);
  EXPECT_EQ(outcomes(), before);
}

}  // namespace
}  // namespace lua_kit::reading_test
}  // namespace tessera
