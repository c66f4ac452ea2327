// Mutated files of every kind that the product reads, each used as a user would: readers.lua.

#include "battery.h"

namespace tessera::readers_test {
namespace {

class Readers : public test::Battery {};

TEST_F(Readers, AnswerEveryMutatedFile) {
  const long count = test::attack_count(4000);
  const test::Tally tally = run_cases("readers.lua", count, 1000);
  EXPECT_GE(tally.size(), 20u);
  // A kind of which nothing is accepted tests its first line of defence alone.
  if (count < 4000) return;
  for (const auto& [kind, counts] : tally) EXPECT_GT(counts.first, 0) << kind;
}

}  // namespace
}  // namespace tessera::readers_test
