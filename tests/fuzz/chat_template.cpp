// Chat templates of models of others, and what they do with a chat.
#include "tessera/chat/chat_template.h"

#include "target.h"

TESSERA_FUZZ_TARGET(chat_template) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view text) {
    const chat::ChatTemplate chat_template(std::string(text), "input");
    Json messages = Json::array();
    messages.push_back({{"role", "system"}, {"content", "Be brief."}});
    messages.push_back({{"role", "user"}, {"content", "Why <x>?"}});
    messages.push_back({{"role", "assistant"}, {"content", "\xC3\xA4"}});
    const chat::Chat chat{.messages = messages,
                          .special = {.bos_token = "<s>", .eos_token = "</s>"}};
    fuzz::require(chat_template.render(chat) == chat_template.render(chat),
                  "the same chat gives two prompts");
  });
}
