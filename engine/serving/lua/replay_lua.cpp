// ts.replay.
#include "core_lua.h"
#include "scheduler_lua.h"
#include "served_lua.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/record.h"

namespace tessera::serving_lua {
namespace {

void look_up() {
  if (!*lua_kit::interrupt::flag() && lua_kit::interrupt::left_s() > 0) return;
  throw Error(ErrorCode::interrupted, "ts.replay: interrupted");
}

// A run at index 1, or the file of one, taken again.
serving::Replay taken_again(lua_State* L, const char* path,
                            const std::function<void(serving::EngineView)>& on_view = {}) {
  if (lua_type(L, 1) == LUA_TSTRING) {
    const serving::ReplayFile file = serving::read_replay_file(lua_kit::check_text(L, 1, path));
    return serving::replay(file.card, file.log, scheduler_maker(L), look_up, on_view);
  }
  const auto served = lua_kit::check_object<serving::Served>(L, 1, path);
  return serving::replay(serving::replay_card(*served), served->log, scheduler_maker(L), look_up,
                         on_view);
}

}  // namespace

int replay(lua_State* L) {
  const serving::Replay found = taken_again(L, "ts.replay");
  lua_createtable(L, 0, 4);
  lua_kit::set_fields(L, found);
  return 1;
}

int views(lua_State* L) {
  std::vector<std::string> lines;
  taken_again(L, "ts.view",
              [&](const serving::EngineView& view) { lines.push_back(serving::json_line(view)); });
  lua_kit::push_texts(L, lines);
  return 1;
}

}  // namespace tessera::serving_lua
