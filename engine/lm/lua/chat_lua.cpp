#include "lm_lua.h"
#include "tessera/chat/chat_template.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/lua_kit/value.h"

namespace tessera::lm_lua {
namespace {

constexpr std::int64_t kMostTemplateBytes = 1 << 20;

}  // namespace

// The same steps as a request of the server's takes (engine/http/src/prepare.cpp).
int chat_prompt(lua_State* L) {
  const std::string path = lua_kit::check_text(L, 1, "chat_prompt path");
  const std::string messages = lua_kit::check_text(L, 2, "chat_prompt messages");
  const std::string file = lua_isnoneornil(L, 3) ? "" : lua_kit::check_text(L, 3, "chat_template");
  chat::ModelTemplate own;
  try {
    own = chat::template_of_model(path);
  } catch (const Error& error) {
    if (file.empty() || error.code() != ErrorCode::not_found) throw;
  }
  const chat::ChatTemplate chosen =
      file.empty() ? chat::ChatTemplate(own.text, own.source)
                   : chat::ChatTemplate(read_file(file, kMostTemplateBytes), file);
  const Json parsed = parse_json(messages, "messages");
  lua_kit::push_text(
      L, chosen.render({.messages = chat::checked_messages(parsed), .special = own.special}));
  return 1;
}

}  // namespace tessera::lm_lua
