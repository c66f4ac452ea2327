// A served run as scripts read it.
#include "served_lua.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <lua.hpp>

#include "core_lua.h"
#include "lindley.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/lua_kit/guard.h"

namespace tessera::served_lua_test {
namespace {

using serving::kTicksPerSecond;
using serving::Log;
using serving::Served;

std::vector<serving::Slo> last_slos;

int take_slo(lua_State* L) {
  last_slos = serving_lua::slo_argument(L, 1, "slo");
  return 0;
}

Log two_requests() {
  Log log;
  serving::RequestRecord r;
  r.arrival = kTicksPerSecond;
  r.first_scheduled = 2 * kTicksPerSecond;
  r.first_token = 3 * kTicksPerSecond;
  r.last_token = 5 * kTicksPerSecond;
  r.output_tokens = 5;
  r.replica = 0;
  r.outcome = serving::Outcome::finished;
  r.waited[static_cast<std::size_t>(serving::Limit::seats)] = kTicksPerSecond;
  serving::RequestRecord rejected;
  rejected.arrival = 2 * kTicksPerSecond;
  rejected.outcome = serving::Outcome::rejected;
  log.requests = {r, rejected};
  serving::StepRecord step;
  step.start = 2 * kTicksPerSecond;
  step.duration = kTicksPerSecond;
  step.scheduled = {{0, 7}};
  step.finished = {0};
  step.limit = serving::Limit::tokens;
  log.steps = {step};
  log.steps_recorded = true;
  log.samples = {{0, 0, 2, 0, 0}};
  log.end = 5 * kTicksPerSecond;
  return log;
}

class ServedInLua : public testing::Test {
 protected:
  ServedInLua() : state_(luaL_newstate(), lua_close), L_(state_.get()) {
    luaL_openlibs(L_);
    core_lua::set_environment(L_, &environment_);
    core_lua::register_core(L_);
    serving_lua::register_served(L_);
    lua_pushcfunction(L_, lua_kit::guarded<take_slo>);
    lua_setglobal(L_, "slo");
    set(two_requests());
  }

  void set(Log log, bool unstable = false) {
    auto served = std::make_shared<Served>();
    served->summary = serving::summarise(log, {});
    served->log = std::move(log);
    EXPECT_EQ(served->summary.stable, !unstable);
    lua_kit::push_object<Served>(L_, served);
    lua_setglobal(L_, "served");
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

TEST_F(ServedInLua, HasTheFieldsOfItsSummary) {
  EXPECT_EQ(run("return served.ttft_s.p99 .. ' ' .. served.tpot_s.mean .. ' ' .. served.e2e_s.n"),
            "2 0.5 1");
  EXPECT_EQ(run("return tostring(served.ttft_s.p99_high) .. ' ' .. tostring(served.itl_s.mean)"),
            "nil nil");
  EXPECT_EQ(run("return tostring(served.stable) .. ' ' .. served.verdict"), "true stable");
  EXPECT_EQ(run("return served.throughput_tok_s .. ' ' .. served.num_rejected"), "1.25 1");
  EXPECT_EQ(run("return served.waited_s.seats"), "1");
  EXPECT_EQ(run("return tostring(served.usd_per_million_tokens)"), "nil");
  EXPECT_EQ(run("return served"),
            "served: 1 of 2 requests, 1.25 tok/s, TTFT p99 2.00 s, TPOT p99 "
            "500.00 ms");
}

TEST_F(ServedInLua, HasARowPerRequest) {
  EXPECT_EQ(run("local r = served:requests()[1]  return r.request .. ' ' .. r.arrival_s .. ' ' .. "
                "r.queue_s .. ' ' .. r.ttft_s .. ' ' .. r.tpot_s .. ' ' .. r.e2e_s .. ' ' .. "
                "r.output_tokens .. ' ' .. r.replica .. ' ' .. r.waited.seats .. ' ' .. r.outcome"),
            "0 1 1 2 0.5 4 5 0 1 finished");
  EXPECT_EQ(run("local r = served:requests()[2]  return r.outcome .. ' ' .. tostring(r.ttft_s) .. "
                "' ' .. tostring(r.replica)"),
            "rejected nil nil");
}

TEST_F(ServedInLua, HasARowPerStep) {
  EXPECT_EQ(run("local s = served:steps()[1]  return s.step .. ' ' .. s.start_s .. ' ' .. "
                "s.scheduled[1].request .. ' ' .. s.scheduled[1].tokens .. ' ' .. #s.preempted .. "
                "' ' .. s.finished[1] .. ' ' .. s.limit"),
            "0 2 0 7 0 0 tokens");
  Log log = two_requests();
  log.steps.clear();
  log.steps_recorded = false;
  set(log);
  EXPECT_NE(run("return served:steps()").find("not recorded"), std::string::npos);
}

TEST_F(ServedInLua, HasASeriesAndFiles) {
  EXPECT_EQ(run("local rows = served:series(5)  return #rows .. ' ' .. rows[2].time_s .. ' ' .. "
                "rows[2].running"),
            "5 1 2");
  const auto folder = std::filesystem::temp_directory_path();
  for (const char* method : {"save_trace", "save_requests"}) {
    const std::string path = (folder / (std::string("tessera_") + method)).string();
    EXPECT_EQ(run("return served:" + std::string(method) + "('" + path + "')"), "nil");
    EXPECT_GT(read_file(path).size(), 100u);
    std::filesystem::remove(path);
  }
}

TEST_F(ServedInLua, SaysUnstableFirst) {
  set(serving::queues::mm1(1.4, 3000, 1), true);
  EXPECT_EQ(run("return served").find("served: unstable above "), 0u);
  EXPECT_EQ(run("return served.text").find("UNSTABLE"), 0u);
  EXPECT_EQ(run("return served.text:find('TTFT', 1, true)"), "nil");
  EXPECT_EQ(run("return served.ttft_s.p99 > 100"), "true");  // still there to read
}

TEST_F(ServedInLua, ReadsAnSlo) {
  EXPECT_EQ(run("slo(nil)"), "nil");
  EXPECT_TRUE(last_slos.empty());
  EXPECT_EQ(run("slo { ttft_s = 0.5, tpot_s = { p99 = 0.05, mean = 0.03 }, e2e_s = math.huge }"),
            "nil");
  ASSERT_EQ(last_slos.size(), 1u);
  EXPECT_EQ(last_slos[0].ttft_s.each, .5);
  ASSERT_EQ(last_slos[0].tpot_s.of_all.size(), 2u);
  EXPECT_EQ(last_slos[0].tpot_s.of_all[0].statistic, serving::Statistic::mean);
  EXPECT_EQ(last_slos[0].tpot_s.of_all[1].limit_s, .05);
  EXPECT_EQ(run("slo { { name = 'chat', ttft_s = 1 }, { e2e_s = { each = 60, p90 = 30 } } }"),
            "nil");
  ASSERT_EQ(last_slos.size(), 2u);
  EXPECT_EQ(last_slos[0].name, "chat");
  EXPECT_EQ(last_slos[1].name, "class 1");
  EXPECT_EQ(last_slos[1].e2e_s.each, 60);
}

TEST_F(ServedInLua, RefusesWhatIsNoSlo) {
  const auto complaint = [&](const char* text, const char* part) {
    const std::string message = run(std::string("slo ") + text);
    EXPECT_NE(message.find(part), std::string::npos) << text << ": " << message;
  };
  complaint("{ ttft = 1 }", "did you mean 'ttft_s'");
  complaint("{ ttft_s = -1 }", "slo.ttft_s");
  complaint("{ ttft_s = 0/0 }", "slo.ttft_s");
  complaint("{ ttft_s = '1' }", "slo.ttft_s");
  complaint("{ ttft_s = { p98 = 1 } }", "p98");
  complaint("{ itl_s = .1 }", "p99");
  complaint("{ [true] = 1 }", "slo");
  complaint("{ { ttft_s = 1 }, 3 }", "slo[2]");
  complaint("(3)", "slo");
}

}  // namespace
}  // namespace tessera::served_lua_test
