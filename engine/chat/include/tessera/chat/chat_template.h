#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>

#include "tessera/core/json.h"

/// Prompts of chats, by the templates that models bring along.
namespace tessera::chat {

/// Texts of a model's special tokens, which templates know by these names; "" for none.
struct SpecialTokens {
  std::string bos_token = {}, eos_token = {}, unk_token = {}, pad_token = {};
};

struct Chat {
  Json messages = Json::array();      ///< [{ role, content, ... }], as checked_messages gives them
  bool add_generation_prompt = true;  ///< with what begins the answer
  bool continue_final_message = false;  ///< ends with the last message's text
  SpecialTokens special = {};
  Json variables = nullptr;         ///< further ones: an object, or null
  std::optional<std::tm> now = {};  ///< for templates that ask for the date; absent: the clock's
};

/// The messages of a request: each an object with a role, its content a text or a list of text
/// parts, which become one text. @throws Error{invalid_argument} naming the message
Json checked_messages(const Json& messages);

/// The part of Jinja that chat templates of published models use, read as transformers reads them
/// (trim_blocks, lstrip_blocks, loop controls). What is not understood is refused by name when it
/// is read, or where only values tell, when it is rendered. Never changes, so several threads may
/// render.
class ChatTemplate {
 public:
  /// @param source is named in errors. @throws Error{unsupported, invalid_argument} with the line
  ChatTemplate(const std::string& text, std::string source);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  /// @throws Error{invalid_argument} with what the template raises, or what is wrong with the chat;
  /// Error{unsupported} for what is not understood, Error{out_of_range} for work or text without
  /// end
  std::string render(const Chat& chat) const;

 private:
  struct Parts;
  std::unique_ptr<const Parts> parts_;
};

/// The template that lies with a model, or another in its place, and the model's special tokens.
struct ModelTemplate {
  std::string text, source;
  SpecialTokens special = {};
};
/// @param path a folder with chat_template.jinja or tokenizer_config.json, or a GGUF file.
/// @param file the template in place of the model's own; empty: that one
/// @throws Error{not_found} where it has none
ModelTemplate template_of_model(const std::string& path, const std::string& file = {});

}  // namespace tessera::chat
