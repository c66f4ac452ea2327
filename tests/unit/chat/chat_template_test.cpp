// Prompts of chats are jinja2's, character by character (tests/reference/make_chat_fixtures.py),
// and what is not understood is refused by name.

#include "tessera/chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "expect_error.h"
#include "folder.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"

namespace tessera::chat::chat_template_test {
namespace {

using testing::HasSubstr;

std::string fixtures() { return std::string(TESSERA_SOURCE_DIR) + "/tests/reference/chat"; }

std::string message_of(const std::function<void()>& run, ErrorCode code) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.message();
    return error.message();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

std::string refusal(const std::string& text, ErrorCode code = ErrorCode::unsupported) {
  return message_of([&] { ChatTemplate(text, "here"); }, code);
}

std::string rendered(const std::string& text, const Json& variables = nullptr) {
  return ChatTemplate(text, "here").render({.variables = variables});
}

std::string failure(const std::string& text, ErrorCode code) {
  return message_of([&] { rendered(text); }, code);
}

SpecialTokens special_of(const Json& json) {
  return {.bos_token = json["bos_token"].get<std::string>(),
          .eos_token = json["eos_token"].get<std::string>(),
          .unk_token = json["unk_token"].get<std::string>(),
          .pad_token = json["pad_token"].get<std::string>()};
}

// 9 March 2026, 14:05:06, as the fixtures have it.
std::tm moment() {
  std::tm now{};
  now.tm_year = 126;
  now.tm_mon = 2;
  now.tm_mday = 9;
  now.tm_hour = 14;
  now.tm_min = 5;
  now.tm_sec = 6;
  now.tm_wday = 1;
  return now;
}

TEST(ChatTemplate, IsJinjasCharacterByCharacter) {
  int num_files = 0, num_prompts = 0, num_errors = 0;
  for (const auto& entry : std::filesystem::directory_iterator(fixtures())) {
    const Json fixture = read_json_file(entry.path().string());
    const std::string name = entry.path().stem().string();
    const ChatTemplate chat_template(fixture["template"].get<std::string>(), name);
    ++num_files;
    for (const Json& one : fixture["cases"]) {
      SCOPED_TRACE(name + ", " + one["name"].get<std::string>());
      Chat chat{.messages = checked_messages(one["messages"]),
                .add_generation_prompt = one["add_generation_prompt"].get<bool>(),
                .special = special_of(fixture["special"]),
                .now = moment()};
      if (one.contains("variables")) chat.variables = one["variables"];
      if (one.contains("prompt")) {
        ++num_prompts;
        EXPECT_EQ(chat_template.render(chat), one["prompt"].get<std::string>());
      } else {
        ++num_errors;
        EXPECT_THAT(message_of([&] { chat_template.render(chat); }, ErrorCode::invalid_argument),
                    HasSubstr(one["error"].get<std::string>()));
      }
    }
  }
  EXPECT_EQ(num_files, 15);
  EXPECT_GT(num_prompts, 200);
  EXPECT_EQ(num_errors, 20);
}

TEST(ChatTemplate, RefusesByNameWhatItDoesNotKnow) {
  EXPECT_EQ(refusal("a\n{% include 'x' %}"),
            "the chat template of here: line 2: the statement 'include' is not understood");
  EXPECT_THAT(refusal("{{ x | frobnicate }}"), HasSubstr("the filter 'frobnicate'"));
  EXPECT_THAT(refusal("{{ x is prime }}"), HasSubstr("the test 'prime'"));
  EXPECT_THAT(refusal("{{ [1]|map('prime') }}"), HasSubstr("the filter 'prime'"));
  EXPECT_THAT(refusal("{{ 2 ** 3 }}"), HasSubstr("'**'"));
  EXPECT_THAT(refusal("{{ (1, 2) }}"), HasSubstr("a tuple"));
  EXPECT_THAT(refusal("{% for x in y recursive %}{% endfor %}"), HasSubstr("recursive"));
  EXPECT_THAT(failure("{{ cycler('a') }}", ErrorCode::unsupported),
              HasSubstr("line 1: the function 'cycler'"));
  EXPECT_THAT(failure("{{ 'a'.zfill(3) }}", ErrorCode::unsupported),
              HasSubstr("the method 'zfill' of a text"));
  EXPECT_THAT(failure("{% set x = [] %}{{ x.append(1) }}", ErrorCode::unsupported),
              HasSubstr("the method 'append' of a list"));
}

TEST(ChatTemplate, RefusesWhatIsNoTemplate) {
  const auto broken = [](const std::string& text) {
    return refusal(text, ErrorCode::invalid_argument);
  };
  EXPECT_THAT(broken("{% if x %}"), HasSubstr("'endif' is missing"));
  EXPECT_THAT(broken("{% endif %}"), HasSubstr("line 1"));
  EXPECT_THAT(broken("{{ x "), HasSubstr("}} is missing"));
  EXPECT_THAT(broken("{# x "), HasSubstr("comment"));
  EXPECT_THAT(broken("{{ 'x }}"), HasSubstr("does not end"));
  EXPECT_THAT(broken("{{ }}"), HasSubstr("a value is missing"));
  EXPECT_THAT(broken("{% break %}"), HasSubstr("outside of a loop"));
  EXPECT_THAT(broken("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"),
              HasSubstr("nested too deep"));
  EXPECT_THAT(broken("{{ " + std::string(5000, '-') + "1 }}"), HasSubstr("nested too deep"));
  EXPECT_THAT(broken("\xff"), HasSubstr("UTF-8"));
}

TEST(ChatTemplate, EndsWhateverATemplateDoes) {
  EXPECT_THAT(
      failure("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
              ErrorCode::out_of_range),
      HasSubstr("does not end"));
  EXPECT_THAT(failure("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", ErrorCode::out_of_range),
              HasSubstr("too deep"));
  EXPECT_THAT(failure("{{ 'x' * 999999999999 }}", ErrorCode::out_of_range), HasSubstr("too long"));
  EXPECT_THAT(failure("{{ range(9999999)|list }}", ErrorCode::out_of_range), HasSubstr("range"));
  EXPECT_THAT(failure("{{ 999999999999999999 * 999999999999999999 }}", ErrorCode::out_of_range),
              HasSubstr("too large"));
  EXPECT_THAT(failure("{{ 1 // 0 }}", ErrorCode::invalid_argument), HasSubstr("by zero"));
  EXPECT_THAT(failure("{{ nothing.of.this }}", ErrorCode::invalid_argument),
              HasSubstr("line 1: template: 'nothing' is undefined"));
  EXPECT_THAT(failure("{{ 'a' + missing }}", ErrorCode::invalid_argument), HasSubstr("'missing'"));
  EXPECT_THAT(failure("{{ 'a' < 1 }}", ErrorCode::invalid_argument), HasSubstr("no order"));
}

TEST(ChatTemplate, ContinuesTheLastMessage) {
  const ChatTemplate chat_template(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}", "here");
  const Json messages = Json::parse(R"([{"role":"user","content":"a"},
                                       {"role":"assistant","content":"It is "}])");
  EXPECT_EQ(chat_template.render({.messages = messages, .continue_final_message = true}),
            "<user>a</s><assistant>It is");
}

TEST(ChatTemplate, TakesTheVariablesOfARequest) {
  EXPECT_EQ(rendered("{{ thinks }} {{ tools is none }}", Json::parse(R"({"thinks": false})")),
            "False True");
  EXPECT_EQ(rendered("{{ tools|length }}", Json::parse(R"({"tools": [1, 2]})")), "2");
}

TEST(CheckedMessages, NamesWhatIsWrong) {
  const auto why = [](const char* text, ErrorCode code = ErrorCode::invalid_argument) {
    return message_of([&] { checked_messages(Json::parse(text)); }, code);
  };
  EXPECT_THAT(why("{}"), HasSubstr("messages: a list"));
  EXPECT_THAT(why("[]"), HasSubstr("there is none"));
  EXPECT_THAT(why("[1]"), HasSubstr("messages[0]"));
  EXPECT_THAT(why(R"([{"role":"user","content":"a"},{"content":"b"}])"),
              HasSubstr("messages[1]: it has no role"));
  EXPECT_THAT(why(R"([{"role":"user"}])"), HasSubstr("no content"));
  EXPECT_THAT(why(R"([{"role":"user","content":7}])"), HasSubstr("messages[0].content"));
  EXPECT_THAT(why(R"([{"role":"user","content":[{"type":"image_url"}]}])", ErrorCode::unsupported),
              HasSubstr("'image_url'"));
  EXPECT_THAT(why(R"([{"role":"user","content":"a","tool_calls":[]}])", ErrorCode::unsupported),
              HasSubstr("'tool_calls'"));
  EXPECT_EQ(
      checked_messages(Json::parse(
          R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])"))
          [0]["content"],
      "a\nb");
}

class ModelTemplates : public test::FolderTest {};

TEST_F(ModelTemplates, AreFoundWithTheModel) {
  file("plain/tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>",
                                          "chat_template": "one"})");
  const ModelTemplate plain = template_of_model(path("plain"));
  EXPECT_EQ(plain.text, "one");
  EXPECT_EQ(plain.special.bos_token, "<s>");
  EXPECT_EQ(plain.special.eos_token, "</s>");
  file(
      "named/tokenizer_config.json",
      R"({"chat_template": [{"name": "tools", "template": "x"}, {"name": "default", "template": "y"}]})");
  EXPECT_EQ(template_of_model(path("named")).text, "y");
  file("named/chat_template.jinja", "z\n");
  EXPECT_EQ(template_of_model(path("named")).text, "z\n");
  file("none/tokenizer_config.json", "{}");
  EXPECT_THAT(message_of([&] { template_of_model(path("none")); }, ErrorCode::not_found),
              HasSubstr("no chat template"));
  // One of the user's has the model's tokens, also where the model has no template.
  file("none/tokenizer_config.json", R"({"bos_token": "<b>"})");
  const ModelTemplate given = template_of_model(path("none"), path("named/chat_template.jinja"));
  EXPECT_EQ(given.text, "z\n");
  EXPECT_EQ(given.source, path("named/chat_template.jinja"));
  EXPECT_EQ(given.special.bos_token, "<b>");
}

}  // namespace
}  // namespace tessera::chat::chat_template_test
