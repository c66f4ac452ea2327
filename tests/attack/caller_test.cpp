// Random arguments to everything that is documented: caller.lua.

#include "battery.h"

namespace tessera::caller_test {
namespace {

class Caller : public test::Battery {};

TEST_F(Caller, AnswersEveryArgument) {
  const test::Tally tally = run_cases("caller.lua", test::attack_count(20000), 2000);
  EXPECT_GE(tally.size(), 100u);
}

}  // namespace
}  // namespace tessera::caller_test
