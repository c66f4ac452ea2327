#include "lm_lua.h"
#include "tessera/chat/chat_template.h"
#include "tessera/core/json.h"
#include "tessera/lua_kit/value.h"

namespace tessera::lm_lua {
// The same steps as a request of the server's takes (engine/http/src/prepare.cpp).
int chat_prompt(lua_State* L) {
  const std::string path = lua_kit::check_text(L, 1, "chat_prompt path");
  const std::string messages = lua_kit::check_text(L, 2, "chat_prompt messages");
  const std::string file = lua_isnoneornil(L, 3) ? "" : lua_kit::check_text(L, 3, "chat_template");
  const chat::ModelTemplate found = chat::template_of_model(path, file);
  const chat::ChatTemplate chosen(found.text, found.source);
  const Json parsed = parse_json(messages, "messages");
  lua_kit::push_text(
      L, chosen.render({.messages = chat::checked_messages(parsed), .special = found.special}));
  return 1;
}

}  // namespace tessera::lm_lua
