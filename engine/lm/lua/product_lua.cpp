#include "lm_lua.h"
#include "tessera/linear/product_speed.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/value.h"

namespace tessera::lm_lua {

int product_speed(lua_State* L) {
  static const OptionTable table = lua_kit::option_table<linear::ProductRequest>(
      {"tessera.lm.product_speed",
       "How fast a product of one shape is on this machine.",
       "table",
       {}});
  const lua_kit::Options options(L, 1, table, std::string(table.name));
  linear::ProductRequest request;
  lua_kit::read_options(options, request);
  request.stop = lua_kit::interrupt::flag();
  const linear::ProductSpeed speed = linear::measure_product(request);
  lua_createtable(L, 0, 2);
  lua_kit::set_numbers(L, "product_s", speed.product_s);
  lua_kit::set_integer(L, "weight_bytes", speed.weight_bytes);
  return 1;
}

}  // namespace tessera::lm_lua
