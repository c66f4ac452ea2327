#include <fmt/format.h>

#include <atomic>
#include <memory>

#include "quant_lua.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/quant/checkpoint.h"
#include "tessera/weights/weights.h"

namespace tessera::quant_lua {
namespace {

OptionTable make_options() {
  OptionTable table =
      lua_kit::option_table<quant::CheckpointRequest>(
          {"ts.quantise_model",
           "Writes a quantised copy of a model that vLLM and transformers load "
           "(compressed-tensors).",
           "tessera.QuantisedModel",
           {}})
          .with("out", {{.name = "plan",
                         .type = OptionType::table,
                         .doc = "Plan whose bitwidths the layers get",
                         .lua_type = "tessera.Plan|table"},
                        {.name = "bitwidths",
                         .type = OptionType::table,
                         .doc = "In place of a plan: one of 3, 4, 8, 16 for all layers, or a list "
                                "of one for each",
                         .unit = "bits",
                         .lua_type = "integer|integer[]"}});
  table.options.push_back(
      {.name = "progress",
       .type = OptionType::callback,
       .doc = "Called after each matrix; false for silence. Default: a bar on a terminal",
       .lua_type = "fun(done: integer, total: integer, layer_index: integer)|false"});
  return lua_kit::option_table<quant::Scheme>(std::move(table));
}

std::int32_t checked_bitwidth(lua_State* L, int index, const std::string& path) {
  return static_cast<std::int32_t>(lua_kit::check_integer(L, index, path, 3, 16, "bits"));
}

// Of the table at the top of the stack: a list of bitwidths.
void append_list(lua_State* L, const std::string& path, std::vector<std::int32_t>& out) {
  lua_kit::check_table(L, -1, path, "a bitwidth or a list of them");
  lua_kit::for_each_item(L, lua_gettop(L), path, [&](std::size_t, const std::string& item) {
    out.push_back(checked_bitwidth(L, -1, item));
  });
}

// A plan, or what plan:to_table() gives.
std::vector<std::int32_t> bitwidths_of_plan(lua_State* L, const std::string& path) {
  std::vector<std::int32_t> found;
  const std::string stages = lua_kit::field_path(path, "stages");
  if (lua_kit::push_field(L, -1, "stages", path)) {
    lua_kit::for_each_item(L, lua_gettop(L), stages, [&](std::size_t, const std::string& stage) {
      lua_kit::push_field(L, -1, "bitwidths", stage);
      append_list(L, lua_kit::field_path(stage, "bitwidths"), found);
    });
  }
  lua_pop(L, 1);
  if (found.empty()) {
    refuse(path, "it has no stages (of a plan with replicas, give one of the replicas)");
  }
  return found;
}

std::vector<std::int32_t> bitwidths_of(const lua_kit::Options& options, const std::string& model) {
  lua_State* L = options.state();
  if (options.given("plan") == options.given("bitwidths")) {
    throw Error(ErrorCode::invalid_argument, "ts.quantise_model: give either plan or bitwidths",
                "ts.quantise_model.bitwidths");
  }
  const char* name = options.given("plan") ? "plan" : "bitwidths";
  const std::string path = options.path_of(name);
  options.push(name);
  std::vector<std::int32_t> found;
  if (options.given("plan")) {
    found = bitwidths_of_plan(L, path);
  } else if (lua_type(L, -1) == LUA_TNUMBER) {
    const std::int32_t bitwidth = checked_bitwidth(L, -1, path);
    const auto layers = weights::model_of(*weights::Weights::open(model)).num_layers;
    found.assign(static_cast<std::size_t>(layers), bitwidth);
  } else {
    append_list(L, path, found);
  }
  lua_pop(L, 1);
  return found;
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
  request.bitwidths = bitwidths_of(options, request.model);
  request.progress = progress_of(options);
  lua_kit::push_object(
      L, std::make_shared<const quant::CheckpointSummary>(quant::quantise_checkpoint(request)));
  return 1;
}

}  // namespace tessera::quant_lua
