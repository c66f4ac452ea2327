// The model behind ts.serve with real.
#include <fmt/format.h>

#include "core_lua.h"
#include "lm_lua.h"
#include "run_lua.h"
#include "served_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/run/module.h"

namespace tessera::run_lua {
namespace {

OptionTable make_serve_real_options() {
  OptionTable table = lua_kit::option_table<lm::SamplingOptions>(
      {"ts.serve.real", "How a model serves a traffic.", "tessera.RealServer", {}});
  for (OptionSpec& option : table.options) {
    if (option.name == "temperature") option.default_text = "0";
    if (option.name == "seed") option.doc = "Of the draws: request i, from 0, draws by seed + i";
  }
  table.options.push_back({.name = "token_seed",
                           .type = OptionType::integer,
                           .doc = "Of the prompts' tokens, of which a traffic knows the number",
                           .default_text = "0",
                           .min = 0,
                           .max = kMaxExactInteger});
  table.options.push_back({.name = "ignore_stop_tokens",
                           .type = OptionType::boolean,
                           .doc =
                               "Outputs are as long as the traffic has them; false: as the model "
                               "ends them, and no longer",
                           .default_text = "true"});
  table.options.push_back({.name = "draft_model",
                           .type = OptionType::table,
                           .doc = "Guesses for the model, where the engine's speculation is by "
                                  "draft_model: its path, or of ts.language_model",
                           .lua_type = "string|table|tessera.LanguageModel"});
  table.options.push_back({.name = "on_tokens",
                           .type = OptionType::callback,
                           .doc = "Called with tokens as they come; request from 0",
                           .lua_type = "fun(request: integer, tokens: integer[])"});
  return table;
}

void set_on_tokens(const lua_kit::Options& options, run::ServeRequest& request) {
  if (options.push("on_tokens")) {
    auto function =
        std::make_shared<lua_kit::LuaFunction>(options.state(), -1, options.path_of("on_tokens"));
    request.on_tokens = [function](std::int64_t id, std::span<const std::int32_t> tokens) {
      lua_State* L = function->state();
      lua_kit::push_integer(L, id);
      lm_lua::push_ids(L, {tokens.begin(), tokens.end()});
      function->call(2, 0);
    };
  }
  lua_pop(options.state(), 1);
}

// What was said, as text. A model may choose tokens that its tokenizer does not have.
void decode(const lm::LanguageModel& model, std::vector<serving::Output>& outputs) {
  try {
    const lm::Tokens& tokens = model.tokens();
    for (serving::Output& output : outputs) output.text = tokens.decode(output.tokens);
  } catch (const Error&) {
    for (serving::Output& output : outputs) output.text.clear();
  }
}

}  // namespace

const OptionTable& serve_real_options() {
  static const OptionTable table = make_serve_real_options();
  return table;
}

/// server(model, options, clock, draft_model?): what ts.serve serves with.
int server(lua_State* L) {
  auto request = std::make_shared<run::ServeRequest>();
  request->model = lua_kit::check_object<lm_lua::LoadedModel>(L, 1, "ts.serve.real")->model;
  const lua_kit::Options options(L, 2, serve_real_options(), "ts.serve.real");
  lua_kit::read_options(options, request->sampling);
  request->token_seed = static_cast<std::uint64_t>(options.integer("token_seed"));
  request->ignore_stop_tokens = options.boolean("ignore_stop_tokens");
  set_on_tokens(options, *request);
  const std::string clock = lua_kit::check_text(L, 3, "ts.serve.clock");
  const auto named_clock = named<run::ServeClock>(clock);
  if (!named_clock) refuse("ts.serve.clock", "'{}' is neither wall nor model", clock);
  request->clock = *named_clock;
  if (!lua_isnoneornil(L, 4)) {
    request->draft_model =
        lua_kit::check_object<lm_lua::LoadedModel>(L, 4, "ts.serve.real.draft_model")->model;
  }
  serving_lua::RealServer real;
  if (request->clock == run::ServeClock::wall) {
    const lm::LanguageModel& model = *request->model;
    real.source = fmt::format("measured here, {} on {} thread{}", quote(model.shape().name),
                              model.num_threads(), model.num_threads() == 1 ? "" : "s");
  }
  real.serve = [request](const serving::Deployment& deployment, const serving::Traffic& traffic,
                         const serving::SimulationOptions& run) {
    serving::Ran ran = run::module().serve_traffic(*request, deployment, traffic, run);
    decode(*request->model, ran.outputs);
    return ran;
  };
  lua_kit::push_object(L, std::make_shared<const serving_lua::RealServer>(std::move(real)));
  return 1;
}

}  // namespace tessera::run_lua
