#include <fmt/format.h>

#include <atomic>
#include <memory>

#include "layer_bitwidths.h"
#include "quant_lua.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/value.h"
#include "tessera/quant/checkpoint.h"
#include "tessera/weights/weights.h"

namespace tessera::quant_lua {
namespace {

OptionTable make_options() {
  OptionTable table = lua_kit::option_table<quant::CheckpointRequest>(
                          {"ts.quantise_model",
                           "Writes a quantised copy of a model that vLLM and transformers load "
                           "(compressed-tensors).",
                           "tessera.QuantisedModel",
                           {}})
                          .with("out", layer_bitwidth_options());
  table.options.push_back(
      {.name = "progress",
       .type = OptionType::callback,
       .doc = "Called after each matrix; false for silence. Default: a bar on a terminal",
       .lua_type = "fun(done: integer, total: integer, layer_index: integer)|false"});
  return lua_kit::option_table<quant::Scheme>(std::move(table));
}

void stop_if_interrupted() {
  if (lua_kit::interrupt::flag()->load())
    throw Error(ErrorCode::interrupted, "interrupted; nothing was written");
}

std::function<void(const quant::CheckpointProgress&)> progress_of(const lua_kit::Options& options) {
  if (!options.given("progress")) return [](const auto&) { stop_if_interrupted(); };
  options.push("progress");
  auto callback =
      std::make_shared<lua_kit::LuaFunction>(options.state(), -1, options.path_of("progress"));
  lua_pop(options.state(), 1);
  return [callback](const quant::CheckpointProgress& at) {
    stop_if_interrupted();
    lua_State* state = callback->state();
    lua_kit::push_integer(state, at.done);
    lua_kit::push_integer(state, at.total);
    lua_kit::push_integer(state, at.layer_index);
    callback->call(3, 0);
  };
}

}  // namespace

const OptionTable& quantise_model_options() {
  static const OptionTable table = make_options();
  return table;
}

int quantise_model(lua_State* L) {
  const lua_kit::Options options(L, 1, quantise_model_options(), "ts.quantise_model");
  quant::CheckpointRequest request;
  lua_kit::read_options(options, request);
  lua_kit::read_options(options, request.scheme);
  request.bitwidths = layer_bitwidths(options, [&] {
    return weights::model_of(*weights::Weights::open(request.model)).num_layers;
  });
  request.progress = progress_of(options);
  lua_kit::push_object(
      L, std::make_shared<const quant::CheckpointSummary>(quant::quantise_checkpoint(request)));
  return 1;
}

}  // namespace tessera::quant_lua
