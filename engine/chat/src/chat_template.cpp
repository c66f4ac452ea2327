#include "tessera/chat/chat_template.h"

#include <fmt/format.h>

#include <array>

#include "evaluate.h"
#include "syntax.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::chat {
namespace {

constexpr std::size_t kMostTemplate = 1 << 20;  // bytes

Value strftime_of(const Arguments& given, const std::optional<std::tm>& fixed) {
  const Value format = given.at(0, "format");
  if (!format.text() || format.text()->size() > 200)
    refuse("strftime_now", "it takes a format of 200 bytes at most");
  std::tm now{};
  if (fixed) {
    now = *fixed;
  } else {
    const std::time_t clock = std::time(nullptr);
    localtime_r(&clock, &now);
  }
  std::array<char, 1024> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), format.text()->c_str(), &now);
  return std::string(text.data(), size);
}

// A message's content: a text, or the texts of its parts.
std::string content_of(const Json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) refuse(path, "a text, or a list of text parts, belongs here");
  std::string text;
  for (const Json& part : content) {
    const bool is_object = part.is_object() && part.contains("type") && part["type"].is_string();
    if (!is_object) refuse(path, "a part is an object with its type");
    const std::string type = part["type"].get<std::string>();
    if (type != "text" && type != "input_text")
      refuse(ErrorCode::unsupported, path, "parts of type {} are not offered; text is",
             quote(type));
    if (!part.contains("text") || !part["text"].is_string()) refuse(path, "a part has no text");
    if (!text.empty()) text += "\n";
    text += part["text"].get<std::string>();
  }
  return text;
}

}  // namespace

Json checked_messages(const Json& messages) {
  if (!messages.is_array()) refuse("messages", "a list of messages belongs here");
  if (messages.empty()) refuse("messages", "there is none");
  Json checked = Json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string path = fmt::format("messages[{}]", i);
    const Json& message = messages[i];
    if (!message.is_object()) refuse(path, "an object with role and content belongs here");
    if (!message.contains("role") || !message["role"].is_string() ||
        message["role"].get_ref<const std::string&>().empty()) {
      refuse(path, "it has no role");
    }
    Json one = Json::object();
    one["role"] = message["role"];
    for (const auto& [key, value] : message.items()) {
      if (key == "role" || value.is_null()) continue;
      if (key == "tool_calls" || key == "function_call" || key == "tool_call_id" || key == "audio")
        refuse(ErrorCode::unsupported, path, "{} is not offered by this server", quote(key));
      if (key != "content") one[key] = value;
    }
    if (!message.contains("content") || message["content"].is_null())
      refuse(path, "it has no content");
    one["content"] = content_of(message["content"], path + ".content");
    checked.push_back(std::move(one));
  }
  return checked;
}

struct ChatTemplate::Parts {
  std::string source;
  Block block;
};

ChatTemplate::ChatTemplate(const std::string& text, std::string source) {
  try {
    if (text.size() > kMostTemplate) throw Error(ErrorCode::out_of_range, "it is over 1 MiB");
    if (!is_utf8(text)) throw Error(ErrorCode::invalid_argument, "it is not UTF-8");
    parts_ = std::make_unique<const Parts>(Parts{source, parse_template(text)});
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("the chat template of {}: {}", source, error.message()));
  }
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const Chat& chat) const {
  Dict variables{{"messages", Value::of(chat.messages)},
                 {"add_generation_prompt", chat.add_generation_prompt},
                 {"tools", Value::None{}},
                 {"documents", Value::None{}},
                 {"bos_token", chat.special.bos_token},
                 {"eos_token", chat.special.eos_token},
                 {"unk_token", chat.special.unk_token},
                 {"pad_token", chat.special.pad_token}};
  variables.emplace_back("strftime_now", Value::Function([now = chat.now](const Arguments& given) {
                           return strftime_of(given, now);
                         }));
  if (!chat.variables.is_null()) {
    if (!chat.variables.is_object())
      refuse("chat_template_kwargs", "an object of variables belongs here");
    for (const auto& [name, value] : chat.variables.items()) {
      std::erase_if(variables, [&key = name](const auto& entry) { return entry.first == key; });
      variables.emplace_back(name, Value::of(value));
    }
  }
  std::string text;
  try {
    text = evaluate(parts_->block, std::move(variables));
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("the chat template of {}: {}", parts_->source, error.message()),
                "messages");
  }
  if (!chat.continue_final_message || chat.messages.empty()) return text;
  // What the template puts behind the last message's text is left out.
  const Value last = Value::of(chat.messages.back()["content"]);
  std::string end = last.text() ? *last.text() : "";
  while (!end.empty() && (end.back() == ' ' || end.back() == '\n')) end.pop_back();
  const std::size_t at = text.rfind(end);
  if (end.empty() || at == std::string::npos)
    refuse("continue_final_message", "the template does not show the last message as it is");
  return text.substr(0, at + end.size());
}

}  // namespace tessera::chat
