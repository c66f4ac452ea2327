#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "answering.h"
#include "tessera/chat/chat_template.h"
#include "tessera/lm/language_model.h"

namespace tessera::http {

/// What requests are read with. Never changes, so several threads may use it.
struct Premises {
  std::shared_ptr<const lm::LanguageModel> model;
  std::string name;                ///< of the model, for clients
  std::int64_t max_model_len = 0;  ///< prompt and answer
  std::int64_t max_kv_tokens = 0;  ///< that the KV cache holds
  std::optional<chat::ChatTemplate> chat_template = {};
  std::string why_no_chat = {};  ///< where there is none
  bool in_stages = false;        ///< whose last one draws, by fewer options
  chat::SpecialTokens special = {};
};

/// A body of one of the endpoints. @throws Refusal, Error
Prepared prepare(const Premises& premises, Endpoint endpoint, const std::string& body);

/// Those of /tokenize and /detokenize: what is answered. @throws as prepare
std::string tokenize(const Premises& premises, const std::string& body);
std::string detokenize(const Premises& premises, const std::string& body);

}  // namespace tessera::http
