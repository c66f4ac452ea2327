// Drafts from the text: by hand. tests/property has them against a search that tries every place.

#include "tessera/serving/prompt_lookup.h"

#include <vector>

#include "expect_error.h"

namespace tessera::serving::prompt_lookup_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::int32_t> looked_up(const std::vector<std::int32_t>& tokens, std::size_t least,
                                    std::size_t most, std::size_t num_drafts) {
  const auto found = prompt_lookup(tokens, least, most, num_drafts);
  return {found.begin(), found.end()};
}

TEST(PromptLookup, GoesOnAsTheTextDidBefore) {
  const std::vector<std::int32_t> tokens{1, 2, 3, 4, 5, 9, 2, 3};
  EXPECT_THAT(looked_up(tokens, 1, 3, 2), ElementsAre(4, 5));
  EXPECT_THAT(looked_up(tokens, 2, 2, 9), ElementsAre(4, 5, 9, 2, 3));
  EXPECT_THAT(looked_up(tokens, 3, 4, 2), IsEmpty());  // 9 2 3 stands at the end alone
  EXPECT_THAT(looked_up(tokens, 1, 3, 0), IsEmpty());
}

TEST(PromptLookup, TakesTheLongestAndOfThoseTheEarliest) {
  EXPECT_THAT(looked_up({7, 3, 1, 2, 3, 5, 1, 2, 3, 6, 2, 3}, 1, 3, 1), ElementsAre(5));
  EXPECT_THAT(looked_up({3, 1, 2, 3, 5, 2, 3}, 1, 3, 1), ElementsAre(5));  // not the 1 behind a 3
  EXPECT_THAT(looked_up({3, 1, 2, 3, 5, 2, 3}, 1, 1, 1), ElementsAre(1));
}

TEST(PromptLookup, MayOverlapTheEnd) {
  EXPECT_THAT(looked_up({4, 4, 4, 4}, 1, 2, 5), ElementsAre(4, 4));
  EXPECT_THAT(looked_up({1, 2, 1, 2, 1}, 1, 3, 5), ElementsAre(2, 1));
}

TEST(PromptLookup, FindsNothingInShortTexts) {
  EXPECT_THAT(looked_up({}, 1, 2, 3), IsEmpty());
  EXPECT_THAT(looked_up({5}, 1, 2, 3), IsEmpty());
  EXPECT_THAT(looked_up({5, 5}, 2, 2, 3), IsEmpty());
  EXPECT_THAT(looked_up({5, 5}, 1, 1'000'000'000, 3), ElementsAre(5));
}

TEST(PromptLookup, RefusesLengthsThatAreNone) {
  test::expect_error(ErrorCode::out_of_range, {"0 to 2"}, [] { prompt_lookup({}, 0, 2, 1); });
  test::expect_error(ErrorCode::out_of_range, {"3 to 2"}, [] { prompt_lookup({}, 3, 2, 1); });
}

}  // namespace
}  // namespace tessera::serving::prompt_lookup_test
