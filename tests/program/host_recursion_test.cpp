// Recursion that the C stack feels ends as an error with a line, whatever stack the shell gives.

#include <sys/resource.h>

#include "case_name.h"
#include "program.h"
#include "sanitised.h"

namespace tessera::test::host_recursion_test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

struct Endless {
  const char* name;
  const char* code;  ///< defines `f`, which calls itself without end
};
void PrintTo(const Endless& endless, std::ostream* stream) { *stream << endless.name; }

constexpr Endless kEndless[] = {
    {"plan",
     "local p = ts.problem { model = 'opt-125m', cluster = '2xT4-16G', bitwidths = { 8, 16 }, "
     "workload = { prompt_tokens = 64, output_tokens = 8, batch_size = 4 } } "
     "function f() ts.plan(p, { on_incumbent = f }) end"},
    {"gsub", "function f() return (string.gsub('x', '.', f)) end"},
    {"gsub_by_index",
     "function f() return (('x'):gsub('.', setmetatable({}, { __index = f }))) end"},
    {"wrap", "function f() coroutine.wrap(f)() end"},
    {"resume", "function f() assert(coroutine.resume(coroutine.create(f))) end"},
    {"gsub_in_coroutines",
     "local function g() return (string.gsub('x', '.', f)) end "
     "function f() return coroutine.wrap(g)() end"},
    {"sort_in_coroutines", "function f() table.sort({ 1, 2, 3 }, coroutine.wrap(f)) end"},
    {"sort", "function f() table.sort({ 1, 2, 3 }, f) end"},
    {"print",
     "local o = setmetatable({}, { __tostring = function(o) print(o) end }) "
     "function f() print(o) end"},
    {"tostring",
     "local o = setmetatable({}, { __tostring = function(o) return tostring(o) .. '' "
     "end }) function f() tostring(o) end"},
    {"index",
     "local t = setmetatable({}, { __index = function(t, k) return t[k .. 'x'] end }) "
     "function f() return t.x end"}};

class Recursion : public testing::TestWithParam<Endless> {};

TEST_P(Recursion, EndsAsAnErrorThatAScriptCanCatch) {
  const std::string start =
      "local ts = require 'tessera' local f " + std::string(GetParam().code) + " ";
  const std::string catches = start + "local ok, why = pcall(f) print(ok, (tostring(why)))";
  for (const rlim_t stack_bytes : {rlim_t{8u << 20}, RLIM_INFINITY}) {
    ProcessSetup limit;
    limit.in_child = [stack_bytes] {
      const rlimit both{stack_bytes, stack_bytes};
      ::setrlimit(RLIMIT_STACK, &both);
    };
    const Process caught = run_program({"-e", catches}, limit);
    EXPECT_EQ(caught.status, 0) << caught.err;
    EXPECT_THAT(caught.out, HasSubstr("false\t"));
    EXPECT_THAT(caught.out, AnyOf(HasSubstr("nested too deeply"), HasSubstr("stack overflow")));
    const Process raised = run_program({"-e", start + "f()"}, limit);
    EXPECT_EQ(raised.status, 1);
    EXPECT_THAT(first_line(raised.err),
                AnyOf(HasSubstr("nested too deeply"), HasSubstr("stack overflow")));
  }
}

// Of loops over tables in traces that were stitched together, one in three runs had one that saw an
// empty table: the list of planners "had gaps".
TEST(RecursionInTraces, SeesWholeTables) {
  const std::string code =
      "local ts = require 'tessera' local function f() return ts.plan(ts.problem { model = "
      "'opt-125m', cluster = '2xT4-16G', bitwidths = { 8, 16 }, workload = { prompt_tokens = 64, "
      "output_tokens = 8, batch_size = 4 } }, { planner = { 'adabits', 'again' } }) end "
      "ts.register_heuristic { name = 'again', doc = 'd', improve = f } print(pcall(f))";
  const int num_runs = kSanitised ? 1 : 10;  // each takes 20 s there
  for (int run = 0; run < num_runs; ++run) {
    EXPECT_THAT(run_program({"-e", code}).out, HasSubstr("false\tcalls are nested too deeply"));
  }
}

INSTANTIATE_TEST_SUITE_P(Host, Recursion, testing::ValuesIn(kEndless), case_name);

}  // namespace
}  // namespace tessera::test::host_recursion_test
