#include "tessera/core/error.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera::error_test {
namespace {

// Calls what refuses and gives back what it threw.
template <class Refusal>
Error thrown_by(Refusal&& refusal) {
  try {
    refusal();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::internal, "nothing was thrown");
}

TEST(Refuse, NamesThePathBeforeWhatIsWrong) {
  const Error plain = thrown_by([] { refuse("a.b", "a list {} belongs here"); });
  EXPECT_STREQ(plain.what(), "a.b: a list {} belongs here");
  EXPECT_EQ(plain.where(), "a.b");
  EXPECT_EQ(plain.code(), ErrorCode::invalid_argument);
  const Error filled = thrown_by([] { refuse("a", "{} is outside [{}, {}]", 0.5, 1, "2"); });
  EXPECT_STREQ(filled.what(), "a: 0.5 is outside [1, 2]");
}

TEST(Refuse, TakesAnotherCode) {
  const Error plain = thrown_by([] { refuse(ErrorCode::io, "f", std::string("{} gone")); });
  EXPECT_STREQ(plain.what(), "f: {} gone");
  EXPECT_EQ(plain.code(), ErrorCode::io);
  const Error filled = thrown_by([] { refuse(ErrorCode::out_of_range, "f", "{} of {}", 3, 2); });
  EXPECT_STREQ(filled.what(), "f: 3 of 2");
  EXPECT_EQ(filled.where(), "f");
  EXPECT_EQ(filled.code(), ErrorCode::out_of_range);
}

// A path may hold whatever a script put there.
TEST(Refuse, KeepsWhatFollowsANul) {
  const std::string path("a\0b", 3);
  const Error error = thrown_by([&] { refuse(path, "no"); });
  EXPECT_EQ(error.where(), path);
  EXPECT_EQ(error.message(), path + ": no");
}

}  // namespace
}  // namespace tessera::error_test
