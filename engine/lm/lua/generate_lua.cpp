#include <fmt/format.h>

#include <memory>

#include "core_lua.h"
#include "lm_lua.h"
#include "tessera/core/units.h"
#include "tessera/lm/generate.h"
#include "tessera/lm/speed.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/value.h"

namespace tessera {
namespace {

using lm_lua::LoadedModel;

OptionTable make_generate_options() {
  OptionTable table = lua_kit::option_table<lm::SamplingOptions>(
      lua_kit::option_table<lm::GenerateRequest>({"lm:generate",
                                                  "Continues a text. Logits pass the repetition "
                                                  "penalty, temperature, top_k and top_p, in "
                                                  "this order.",
                                                  "tessera.Generation",
                                                  {}}));
  table.options.push_back(
      {.name = "on_token",
       .type = OptionType::callback,
       .doc = "Gets what became complete of the text, in whole characters, and the token; no token "
              "with what was left at the end. false ends the text",
       .lua_type = "fun(piece: string, id: integer?): boolean?"});
  return table;
}

// false, and nothing else, ends the text.
bool call_on_token(const lua_kit::LuaFunction& function, std::string_view piece,
                   std::optional<std::int32_t> id) {
  lua_State* L = function.state();
  lua_kit::push_text(L, piece);
  lua_kit::push_value(L, id);
  function.call(2, 1);
  const bool ends = lua_isboolean(L, -1) && !lua_toboolean(L, -1);
  lua_pop(L, 1);
  return !ends;
}

std::vector<std::int32_t> prompt_argument(lua_State* L, const LoadedModel& loaded) {
  if (lua_type(L, 2) == LUA_TSTRING) {
    const std::string text = lua_kit::check_text(L, 2, "lm:generate prompt");
    return lm_lua::tokenizer_of(loaded).tokens->encode(text);
  }
  return lm_lua::ids_argument(L, 2, "lm:generate prompt");
}

OptionTable make_speed_options() {
  OptionTable table = lua_kit::option_table<lm::SpeedRequest>(
      {"lm:speed",
       "How fast sequences are: their prompts at once, then a token of each at a time.",
       "tessera.Speed",
       {}});
  table.options.push_back({.name = "progress",
                           .type = OptionType::callback,
                           .doc = "Called after each repeat",
                           .lua_type = "fun(done: integer, total: integer)"});
  return table;
}

std::string summary_of(const lm::Generation& g) {
  std::string text =
      fmt::format("generation: {} tokens after {}", g.tokens.size(), g.prompt_tokens);
  if (g.ttft_s) text += fmt::format(", first after {}", format_seconds(*g.ttft_s));
  if (g.tpot_s) text += fmt::format(", then {:.4g} tok/s", 1 / *g.tpot_s);
  return text + fmt::format(", ended by {}", name_of(g.stop_reason));
}

}  // namespace

template <>
const lua_kit::ObjectType<lm::Generation>& lua_kit::object_type<lm::Generation>() {
  static const ObjectType<lm::Generation> type{.name = "tessera.Generation",
                                               .doc = "A text that a model wrote.",
                                               .fields = fields_of<lm::Generation>(),
                                               .methods = {},
                                               .summary = summary_of};
  return type;
}

template <>
const lua_kit::ObjectType<lm::Speed>& lua_kit::object_type<lm::Speed>() {
  static const ObjectType<lm::Speed> type{
      .name = "tessera.Speed",
      .doc = "Rates of a model on this machine, one for each repeat.",
      .fields = fields_of<lm::Speed>(),
      .methods = {},
      .summary = [](const lm::Speed& s) {
        return fmt::format("speed: {} repeats", s.prefill_tok_s.size());
      }};
  return type;
}

namespace lm_lua {

const OptionTable& generate_options() {
  static const OptionTable table = make_generate_options();
  return table;
}

const OptionTable& speed_options() {
  static const OptionTable table = make_speed_options();
  return table;
}

int model_generate(lua_State* L) {
  const auto loaded = model_self(L);
  const lua_kit::Options options(L, 3, generate_options(), "lm:generate");
  const std::vector<std::int32_t> prompt = prompt_argument(L, *loaded);
  tokenizer_of(*loaded);  // which must be the model's
  lm::GenerateRequest request;
  lua_kit::read_options(options, request);
  lua_kit::read_options(options, request.sampling);
  request.interrupted = interrupted;
  if (options.push("on_token")) {
    auto function = std::make_shared<lua_kit::LuaFunction>(L, -1, options.path_of("on_token"));
    request.on_token = [function](std::string_view piece, std::optional<std::int32_t> id) {
      return call_on_token(*function, piece, id);
    };
  }
  lua_pop(L, 1);
  lua_kit::push_object(
      L, std::make_shared<const lm::Generation>(lm::generate(*loaded->model, prompt, request)));
  return 1;
}

int model_speed(lua_State* L) {
  const auto loaded = model_self(L);
  const lua_kit::Options options(L, 2, speed_options(), "lm:speed");
  lm::SpeedRequest request;
  lua_kit::read_options(options, request);
  request.interrupted = interrupted;
  request.progress = progress_of(options);
  lua_kit::push_object(
      L, std::make_shared<const lm::Speed>(lm::measure_speed(*loaded->model, request)));
  return 1;
}

void register_generation(lua_State* L) {
  lua_kit::register_object<lm::Generation>(L);
  lua_kit::register_object<lm::Speed>(L);
  auto& reference = core_lua::environment(L).reference;
  reference.add_object<lm::Generation>();
  reference.add_object<lm::Speed>();
  reference.add(generate_options());
  reference.add(speed_options());
}

}  // namespace lm_lua
}  // namespace tessera
