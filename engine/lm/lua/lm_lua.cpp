#include "lm_lua.h"

#include "quality_lua.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"

namespace tessera::lm_lua {

void register_lm(lua_State* L) {
  register_language_model(L);
  register_tokenizer(L);
  register_generation(L);
  register_quality(L);
  register_sampling(L);
  lua_kit::register_module(L, "tessera.lm",
                           {{"language_model", lua_kit::guarded<new_language_model>},
                            {"tokenizer", lua_kit::guarded<new_tokenizer>},
                            {"write_gguf_tokenizer", lua_kit::guarded<write_gguf_tokenizer>},
                            {"layer_indicator", lua_kit::guarded<layer_indicator>},
                            {"chat_prompt", lua_kit::guarded<chat_prompt>},
                            {"decoder_kernel_speed", lua_kit::guarded<decoder_kernel_speed>},
                            {"kernel_isas", lua_kit::guarded<kernel_isas>},
                            {"product_speed", lua_kit::guarded<product_speed>}});
}

}  // namespace tessera::lm_lua
