#include "lm_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/kernels/info.h"
#include "tessera/linear/decoder_speed.h"
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

int decoder_kernel_speed(lua_State* L) {
  static const OptionTable table = lua_kit::option_table<linear::DecoderKernelRequest>(
      {"tessera.lm.decoder_kernel_speed",
       "How fast a decoder's kernel beside its products is on this machine.",
       "table",
       {}});
  const lua_kit::Options options(L, 1, table, std::string(table.name));
  linear::DecoderKernelRequest request;
  lua_kit::read_options(options, request);
  request.stop = lua_kit::interrupt::flag();
  const linear::DecoderKernelSpeed speed = linear::measure_decoder_kernel(request);
  lua_createtable(L, 0, 5);
  lua_kit::set_text(L, "isa", speed.isa);
  lua_kit::set_integer(L, "bytes", speed.bytes);
  lua_kit::set_number(L, "flop", speed.flop);
  lua_kit::set_number(L, "nmse", speed.nmse);
  lua_kit::set_numbers(L, "call_s", speed.call_s);
  return 1;
}

int kernel_isas(lua_State* L) {
  const std::string name = lua_kit::check_text(L, 1, "kernel_isas kernel");
  std::vector<std::string> isas;
  for (const kernels::KernelInfo& version : kernels::cpu_kernels()) {
    if (version.runs_here && name == version.name) isas.emplace_back(version.isa);
  }
  if (isas.empty()) refuse("kernel", "there is no kernel by {}", quote(name));
  lua_kit::push_texts(L, isas);
  return 1;
}

}  // namespace tessera::lm_lua
