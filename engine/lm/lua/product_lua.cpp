#include "lm_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
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
  lua_createtable(L, 0, 6);
  lua_kit::set_text(L, "kernel", name_of(speed.kernel));
  lua_kit::set_text(L, "isa", speed.isa);
  lua_kit::set_integer(L, "token_bytes", speed.token_bytes);
  lua_kit::set_number(L, "nmse", speed.nmse);
  lua_kit::set_numbers(L, "product_s", speed.product_s);
  lua_kit::set_integer(L, "weight_bytes", speed.weight_bytes);
  return 1;
}

int product_isas(lua_State* L) {
  const std::string name = lua_kit::check_text(L, 1, "product_isas kernel");
  const auto kernel = named<linear::ProductKernel>(name);
  if (!kernel) refuse("kernel", "there is no product by {}", quote(name));
  lua_kit::push_texts(L, linear::product_isas(*kernel));
  return 1;
}

}  // namespace tessera::lm_lua
