// ts.traffic as scripts call it.
#include <gtest/gtest.h>

#include <lua.hpp>

#include "core_lua.h"
#include "folder.h"
#include "serving_lua.h"
#include "tessera/lua_kit/guard.h"

namespace tessera::traffic_lua_test {
namespace {

class TrafficInLua : public test::FolderTest {
 protected:
  TrafficInLua() : state_(luaL_newstate(), lua_close), L_(state_.get()) {
    luaL_openlibs(L_);
    core_lua::set_environment(L_, &environment_);
    core_lua::register_core(L_);
    serving_lua::register_traffic(L_);
    lua_pushcfunction(L_, lua_kit::guarded<serving_lua::new_traffic>);
    lua_setglobal(L_, "traffic");
    lua_pushstring(L_, path("saved.csv").c_str());
    lua_setglobal(L_, "path");
  }

  /// What a chunk returns, or its error, as text.
  std::string run(const std::string& chunk) {
    lua_settop(L_, 0);
    luaL_dostring(L_, chunk.c_str());
    lua_getglobal(L_, "tostring");
    lua_insert(L_, 1);
    lua_settop(L_, 2);
    lua_call(L_, 1, 1);
    return lua_tostring(L_, -1);
  }

  lua_kit::Reference reference_;
  core_lua::Environment environment_{DataFolders({}), reference_};
  std::unique_ptr<lua_State, void (*)(lua_State*)> state_;
  lua_State* L_;
};

TEST_F(TrafficInLua, HasFieldsAndRows) {
  EXPECT_EQ(run("return traffic { rate_per_s = 4, num_requests = 10, seed = 3 }"),
            "traffic: 10 requests, poisson 4 req/s, 512 in, 128 out, seed 3");
  EXPECT_EQ(
      run("local t = traffic { rate_per_s = 4, num_requests = 10, arrivals = 'constant' }"
          "return t.num_requests .. ' ' .. t.rate_per_s .. ' ' .. t.mean_prompt_tokens .. ' '"
          ".. t.cv .. ' ' .. t.duration_s .. ' ' .. tostring(t.concurrency) .. ' ' .. #t.notes"),
      "10 4 512 0 2.5 nil 0");
  EXPECT_EQ(run("local r = traffic { rate_per_s = 4, arrivals = 'constant', num_requests = 4, "
                "prompt_tokens = 100, sessions = { turns = 2, think_s = 0 } }:requests()[2]"
                "return r.prompt_tokens .. ' ' .. r.after .. ' ' .. r.think_s .. ' ' .. r.turn .. "
                "' ' .. r.session .. ' ' .. tostring(r.arrival_s)"),
            "328 0 0 2 0 nil");
}

TEST_F(TrafficInLua, TakesDistributionsAndClasses) {
  EXPECT_EQ(run("return traffic { rate_per_s = 4, num_requests = 10, cv = 2, seed = 7,"
                "prompt_tokens = { distribution = 'lognormal', mean = 300, cv = 1, max = 4000 },"
                "output_tokens = { distribution = 'uniform', min = 1, max = 9 },"
                "classes = { { share = 0.5 }, { share = 0.5, priority = 2, slo_class = 1 } } }"),
            "traffic: 10 requests, gamma (cv 2) 4 req/s, 300 in (lognormal, cv 1, at most 4000), 1 "
            "to 9 out, seed 7");
  EXPECT_EQ(run("return traffic { rate_per_s = math.huge, num_requests = 3 }"),
            "traffic: 3 requests, all at once, 512 in, 128 out, seed 0");
  EXPECT_EQ(run("return traffic { arrivals = 'closed', concurrency = 8 }.concurrency"), "8");
}

TEST_F(TrafficInLua, SavesAndScales) {
  EXPECT_EQ(run("local t = traffic { rate_per_s = 4, num_requests = 100 }; t:save(path)"
                "local u = traffic { trace = path }"
                "local a, b = t:requests(), u:requests()"
                "for i = 1, 100 do assert(a[i].arrival_s == b[i].arrival_s) end "
                "return u:scaled { rate_per_s = 8 }.rate_per_s"),
            "8");
}

TEST_F(TrafficInLua, RefusesInOneLine) {
  const auto refused = [&](const std::string& options, const std::string& part) {
    EXPECT_THAT(run("return traffic " + options), testing::HasSubstr(part)) << options;
  };
  refused("{}", "ts.traffic.rate_per_s: missing");
  refused("{ rate_per_s = 0 }", "ts.traffic.rate_per_s: 0: no request");
  refused("{ rate_per_s = -math.huge }", "ts.traffic.rate_per_s");
  refused("{ rate = 4 }", "unknown option 'rate'; did you mean 'rate_per_s'");
  refused("{ rate_per_s = 4, prompt_tokens = { distribution = 'normal', mean = 4 } }",
          "ts.traffic.prompt_tokens: distribution: 'normal' is not known");
  refused("{ rate_per_s = 4, prompt_tokens = { mean = 4, sd = 2 } }", "sd");
  refused("{ rate_per_s = 4, prompt_tokens = 0 }", "ts.traffic.prompt_tokens");
  refused("{ rate_per_s = 4, prompt_tokens = 1e9 }", "ts.traffic.prompt_tokens");
  refused("{ rate_per_s = 4, classes = { { share = 2 } } }", "ts.traffic.classes[1]: share");
  refused("{ trace = '/no/such.csv' }", "/no/such.csv");
  refused("{ rate_per_s = 4 }:scaled { rate_per_s = 0 }", "traffic:scaled.rate_per_s");
}

}  // namespace
}  // namespace tessera::traffic_lua_test
