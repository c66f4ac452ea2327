#include "tessera/run/journal.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "folder.h"
#include "tessera/core/error.h"

namespace tessera::run::journal_test {
namespace {

using test::expect_error;

class JournalTest : public test::FolderTest {
 protected:
  static Answers answers_of(std::size_t count) {
    Answers answers;
    answers.prompts.resize(count);
    answers.done.resize(count);
    return answers;
  }
};

TEST_F(JournalTest, KeepsWhatWasAnswered) {
  Answers answers = answers_of(3);
  {
    Journal journal(path("j"), "run a", answers);
    journal.add(2, {.tokens = {5, 6}, .stop_reason = lm::StopReason::stop_token});
    journal.add(0, {.tokens = {}, .stop_reason = lm::StopReason::context});
  }
  Answers again = answers_of(3);
  Journal journal(path("j"), "run a", again);
  ASSERT_TRUE(again.done[2] && again.done[0]);
  EXPECT_EQ(again.done[2]->tokens, (std::vector<std::int32_t>{5, 6}));
  EXPECT_EQ(again.done[2]->stop_reason, lm::StopReason::stop_token);
  EXPECT_EQ(again.done[0]->stop_reason, lm::StopReason::context);
  EXPECT_FALSE(again.done[1]);
}

// A first line that is cut short too.
TEST_F(JournalTest, BeginsAnewWhereItHadHardlyBegun) {
  Answers answers = answers_of(1);
  { Journal journal(path("j"), "run a", answers); }
  const std::string head = read(path("j"));
  for (std::size_t length = 0; length < head.size(); ++length) {
    file("k", head.substr(0, length));
    { Journal journal(path("k"), "run a", answers); }
    EXPECT_EQ(read(path("k")), head);
  }
}

// Wherever the last line was cut, what was whole counts, and the next answer stands on a line of
// its own.
TEST_F(JournalTest, DropsALineThatIsCutShort) {
  Answers answers = answers_of(3);
  {
    Journal journal(path("j"), "run a", answers);
    journal.add(1, {.tokens = {5, 6}});
  }
  const std::string whole = read(path("j"));
  {
    Journal journal(path("j"), "run a", answers = answers_of(3));
    journal.add(2, {.tokens = {7}});
  }
  const std::string longer = read(path("j"));
  for (std::size_t length = whole.size(); length < longer.size(); ++length) {
    file("k", longer.substr(0, length));
    Answers again = answers_of(3);
    {
      Journal journal(path("k"), "run a", again);
      EXPECT_TRUE(again.done[1]);
      EXPECT_FALSE(again.done[2]);
      journal.add(2, {.tokens = {7}});
    }
    EXPECT_EQ(read(path("k")), longer);
  }
}

TEST_F(JournalTest, RefusesTheJournalOfAnotherRun) {
  Answers answers = answers_of(1);
  { Journal journal(path("j"), "run a", answers); }
  expect_error(ErrorCode::invalid_argument, {"the journal of another run", "remove it"},
               [&] { Journal journal(path("j"), "run b", answers); });
  expect_error(ErrorCode::invalid_argument, {"k:1"}, [&] {
    file("k", "a letter to my aunt\n");
    Journal journal(path("k"), "run a", answers);
  });
  EXPECT_EQ(read(path("k")), "a letter to my aunt\n");
  for (const char* text : {"a letter without an end", "{\"tessera_journal\":1}"}) {
    file("n", text);
    expect_error(ErrorCode::invalid_argument, {"it is no journal"},
                 [&] { Journal journal(path("n"), "run a", answers); });
    EXPECT_EQ(read(path("n")), text);
  }
  const std::string head = read(path("j"));
  expect_error(ErrorCode::invalid_argument, {"l:2", "prompt 4 of 1"}, [&] {
    file("l", head + "{\"prompt\":4,\"tokens\":[],\"stop_reason\":\"context\"}\n");
    Journal journal(path("l"), "run a", answers);
  });
  const std::string line = "{\"prompt\":0,\"tokens\":[],\"stop_reason\":\"context\"}\n";
  expect_error(ErrorCode::invalid_argument, {"m:3", "answered twice"}, [&] {
    file("m", head + line + line);
    Journal journal(path("m"), "run a", answers);
  });
}

TEST_F(JournalTest, IsWrittenByOneRunAtATime) {
  Answers answers = answers_of(1), others = answers_of(1);
  Journal journal(path("j"), "run a", answers);
  expect_error(ErrorCode::io, {"another run writes it"},
               [&] { Journal second(path("j"), "run a", others); });
  expect_error(ErrorCode::io, {"cannot be opened"},
               [&] { Journal third(path("no/such/folder"), "run a", others); });
}

}  // namespace
}  // namespace tessera::run::journal_test
