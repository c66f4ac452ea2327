#include <fmt/format.h>

#include <memory>
#include <utility>

#include "core_lua.h"
#include "lm_lua.h"
#include "tessera/core/error.h"
#include "tessera/lm/train.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/record.h"

namespace tessera {
namespace {

constexpr std::size_t kMostTokens = 1'000'000'000;

OptionTable make_train_options() {
  OptionTable table{
      "ts.train_language_model",
      "Trains a decoder of OPT's architecture and writes it as Hugging Face's "
      "OPTForCausalLM in f16. Outliers change its parameters after that, and not its function.",
      "tessera.Training",
      {{.name = "tokens",
        .type = OptionType::table,
        .doc = "The text as ids from 0, of which windows are taken in random order; or a function "
               "that gives it a piece at a time, then nil",
        .lua_type = "integer[]|fun(): integer[]?",
        .required = true},
       {.name = "held_out_tokens",
        .type = OptionType::table,
        .doc = "Another text, for the loss of what was written",
        .lua_type = "integer[]|fun(): integer[]?"}}};
  table = lua_kit::option_table<lm::TrainRequest>(std::move(table));
  table.options.push_back({.name = "progress",
                           .type = OptionType::callback,
                           .doc = "Called with { step, loss_nats, learning_rate, gradient_norm, "
                                  "elapsed_s, tok_s }; false ends training",
                           .lua_type = "fun(progress: table): boolean?"});
  return table;
}

const OptionTable& train_options() {
  static const OptionTable table = make_train_options();
  return table;
}

std::vector<std::int32_t> pieces_of(const lua_kit::LuaFunction& next, const std::string& path) {
  lua_State* L = next.state();
  std::vector<std::int32_t> tokens;
  while (true) {
    next.call(0, 1);
    const bool ended = lua_isnil(L, -1);
    if (!ended) {
      const std::vector<std::int32_t> piece = lm_lua::ids_argument(L, -1, path + "()");
      if (tokens.size() + piece.size() > kMostTokens) {
        refuse(path, "the function gave more than {} tokens", kMostTokens);
      }
      tokens.insert(tokens.end(), piece.begin(), piece.end());
    }
    lua_pop(L, 1);
    if (ended) return tokens;
  }
}

std::vector<std::int32_t> tokens_of(const lua_kit::Options& options, std::string_view name) {
  lua_State* L = options.state();
  const std::string path = options.path_of(name);
  std::vector<std::int32_t> tokens;
  if (options.push(name)) {
    tokens = lua_isfunction(L, -1) ? pieces_of(lua_kit::LuaFunction(L, -1, path), path)
                                   : lm_lua::ids_argument(L, -1, path);
  }
  lua_pop(L, 1);
  return tokens;
}

// false, and nothing else, ends training.
bool call_progress(const lua_kit::LuaFunction& function, const lm::TrainProgress& progress) {
  lua_State* L = function.state();
  lua_kit::push_value(L, progress);
  function.call(1, 1);
  const bool ends = lua_isboolean(L, -1) && !lua_toboolean(L, -1);
  lua_pop(L, 1);
  return !ends;
}

std::string summary_of(const lm::TrainSummary& s) {
  return fmt::format("training: {} parameters on {} tokens, {:.4f} nats/token at the end",
                     s.num_parameters, s.num_tokens, s.loss_nats);
}

}  // namespace

template <>
const lua_kit::ObjectType<lm::TrainSummary>& lua_kit::object_type<lm::TrainSummary>() {
  static const ObjectType<lm::TrainSummary> type{.name = "tessera.Training",
                                                 .doc = "What became of a training.",
                                                 .fields = fields_of<lm::TrainSummary>(),
                                                 .methods = {},
                                                 .summary = summary_of};
  return type;
}

namespace lm_lua {

int train_language_model(lua_State* L) {
  const lua_kit::Options options(L, 1, train_options(), "ts.train_language_model");
  lm::TrainRequest request;
  lua_kit::read_options(options, request);
  request.tokens = tokens_of(options, "tokens");
  request.held_out_tokens = tokens_of(options, "held_out_tokens");
  std::shared_ptr<lua_kit::LuaFunction> function;
  if (options.push("progress")) {
    function = std::make_shared<lua_kit::LuaFunction>(L, -1, options.path_of("progress"));
  }
  lua_pop(L, 1);
  request.interrupted = interrupted;
  if (function) {
    request.progress = [function](const lm::TrainProgress& progress) {
      return call_progress(*function, progress);
    };
  }
  lua_kit::push_object(L, std::make_shared<const lm::TrainSummary>(lm::train_by_module(request)));
  return 1;
}

void register_training(lua_State* L) {
  lua_kit::register_object<lm::TrainSummary>(L);
  auto& reference = core_lua::environment(L).reference;
  reference.add_object<lm::TrainSummary>();
  reference.add(train_options());
}

}  // namespace lm_lua
}  // namespace tessera
