// Readers of the files of zero-shot tasks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "folder.h"
#include "tessera/lm/zero_shot.h"

namespace tessera::lm::zero_shot_items_test {
namespace {

using tessera::test::expect_error;
using ::testing::ElementsAre;
using ::testing::EndsWith;

class ZeroShotItems : public tessera::test::FolderTest {
 protected:
  void refused(ZeroShotTask task, const std::string& content,
               const std::vector<std::string>& parts) {
    const std::string name = file("items.jsonl", content);
    expect_error(ErrorCode::invalid_argument, parts, [&] { read_zero_shot(task, name); });
  }
};

TEST_F(ZeroShotItems, OfArcAsPublishedAndAsHuggingFaceHasIt) {
  const std::string published =
      R"({"id": "a", "question": {"stem": "Which?", "choices": [{"text": "one", "label": "A"}, )"
      R"({"text": "two", "label": "B", "para": "x"}]}, "answerKey": "B"})";
  const std::string hugging_face =
      R"({"id": "b", "question": "How?", "choices": {"text": ["so", "or so", "not"], )"
      R"("label": ["1", "2", "3"]}, "answerKey": "1"})";
  const auto items = read_zero_shot(ZeroShotTask::arc_easy,
                                    file("arc.jsonl", published + "\r\n" + hugging_face + "\n"));
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].context, "Question: Which?\nAnswer:");
  EXPECT_THAT(items[0].continuations, ElementsAre(" one", " two"));
  EXPECT_EQ(items[0].answer, 1u);
  EXPECT_THAT(items[0].where, EndsWith("arc.jsonl:1"));
  EXPECT_EQ(items[1].context, "Question: How?\nAnswer:");
  EXPECT_THAT(items[1].continuations, ElementsAre(" so", " or so", " not"));
  EXPECT_EQ(items[1].answer, 0u);
  EXPECT_THAT(items[1].where, EndsWith("arc.jsonl:2"));
}

TEST_F(ZeroShotItems, OfPiqaWithLabelsInTheLineOrBeside) {
  const std::string line = R"({"goal": "Boil", "sol1": "heat", "sol2": "cool")";
  auto items = read_zero_shot(ZeroShotTask::piqa, file("a.jsonl", line + R"(, "label": 1})"));
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].context, "Question: Boil\nAnswer:");
  EXPECT_THAT(items[0].continuations, ElementsAre(" heat", " cool"));
  EXPECT_EQ(items[0].answer, 1u);

  const std::string three = line + "}\n" + line + "}\n" + line + "}\n";
  const std::string path = file("valid.jsonl", three);
  expect_error(ErrorCode::invalid_argument, {"valid.jsonl", "0 of 3", "-labels.lst"},
               [&] { read_zero_shot(ZeroShotTask::piqa, path); });
  file("valid-labels.lst", "0\n1\n1\n");
  items = read_zero_shot(ZeroShotTask::piqa, path);
  EXPECT_EQ(items[0].answer, 0u);
  EXPECT_EQ(items[2].answer, 1u);
  EXPECT_EQ(read_zero_shot(ZeroShotTask::piqa, path, 2).size(), 2u);
  file("valid-labels.lst", "0\n1\n");
  expect_error(ErrorCode::invalid_argument, {"valid-labels.lst", "2 labels for 3"},
               [&] { read_zero_shot(ZeroShotTask::piqa, path); });
  file("valid-labels.lst", "0\n2\n1\n");
  expect_error(ErrorCode::invalid_argument, {"valid-labels.lst:2", "'2'"},
               [&] { read_zero_shot(ZeroShotTask::piqa, path); });
  file("short.jsonl", line + "}\n");
  file("short.lst", "1");
  EXPECT_EQ(read_zero_shot(ZeroShotTask::piqa, folder_ / "short.jsonl")[0].answer, 1u);
}

TEST_F(ZeroShotItems, OfLambadaSplitAtTheLastBlank) {
  const auto items = read_zero_shot(
      ZeroShotTask::lambada,
      file("l.jsonl", "{\"text\": \"the cat  sat\"}\n{\"text\": \"alone\", \"more\": 1}\n"));
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].context, "the cat ");
  EXPECT_THAT(items[0].continuations, ElementsAre(" sat"));
  EXPECT_EQ(items[1].context, "");
  EXPECT_THAT(items[1].continuations, ElementsAre(" alone"));
}

TEST_F(ZeroShotItems, StopAtTheLimitBeforeWhatIsBroken) {
  const std::string path = file("l.jsonl", "{\"text\": \"a b\"}\nbroken\n");
  EXPECT_EQ(read_zero_shot(ZeroShotTask::lambada, path, 1).size(), 1u);
  expect_error(ErrorCode::invalid_argument, {"l.jsonl:2"},
               [&] { read_zero_shot(ZeroShotTask::lambada, path, 2); });
  expect_error(ErrorCode::out_of_range, {"limit", "-1"},
               [&] { read_zero_shot(ZeroShotTask::lambada, path, -1); });
}

TEST_F(ZeroShotItems, AreRefusedWithFileAndLine) {
  const auto arc = ZeroShotTask::arc_challenge;
  refused(arc, "", {"items.jsonl", "no items"});
  refused(arc, "\n", {"items.jsonl:1", "empty"});
  refused(arc, "[1]", {"items.jsonl:1"});
  refused(arc, R"({"question": "x", "answerKey": "A"})", {"items.jsonl:1", "choices"});
  refused(
      arc,
      R"({"question": "", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "A"})",
      {"question", "empty"});
  refused(arc,
          R"({"question": "x", "choices": {"text": ["a", "b"], "label": ["A"]}, "answerKey": "A"})",
          {"choices", "2 texts and 1 labels"});
  refused(arc, R"({"question": "x", "choices": {"text": ["a"], "label": ["A"]}, "answerKey": "A"})",
          {"choices", "1 texts"});
  refused(
      arc,
      R"({"question": "x", "choices": {"text": ["a", 2], "label": ["A", "B"]}, "answerKey": "A"})",
      {"choices", "text[1]"});
  refused(
      arc,
      R"({"question": "x", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "C"})",
      {"answerKey", "'C'", "'A', 'B'"});
  refused(
      arc,
      R"({"question": "x", "choices": {"text": ["a", "b"], "label": ["A", "A"]}, "answerKey": "A"})",
      {"answerKey"});
  refused(ZeroShotTask::piqa, R"({"goal": "x", "sol1": "a", "sol2": ""})", {"sol2", "empty"});
  refused(ZeroShotTask::lambada, R"({"text": 5})", {"items.jsonl:1", "text"});
  refused(ZeroShotTask::lambada, R"({"text": "ends "})", {"text", "blank"});
  expect_error(ErrorCode::out_of_range, {"label"}, [&] {
    read_zero_shot(ZeroShotTask::piqa,
                   file("p.jsonl", R"({"goal": "x", "sol1": "a", "sol2": "b", "label": 2})"));
  });
  expect_error(ErrorCode::not_found, {"nowhere.jsonl"},
               [&] { read_zero_shot(arc, path("nowhere.jsonl")); });
}

}  // namespace
}  // namespace tessera::lm::zero_shot_items_test
