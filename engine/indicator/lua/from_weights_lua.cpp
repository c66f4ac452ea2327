#include "from_weights_lua.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/indicator/from_weights.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/record.h"

namespace tessera::indicator_lua {
namespace {

using indicator::WeightsRequest;

// "dir/", "model.gguf": a path, where "opt-30b" is a name.
bool is_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".gguf") ||
         text.ends_with(".safetensors");
}

// The text of the option `model`; empty for an object.
std::string model_text(const lua_kit::Options& options) {
  lua_State* L = options.state();
  options.push("model");
  std::string text;
  if (lua_type(L, -1) == LUA_TSTRING) text = lua_kit::check_text(L, -1, options.path_of("model"));
  lua_pop(L, 1);
  return text;
}

std::shared_ptr<const weights::Weights> weights_of(const lua_kit::Options& options) {
  const std::string path = model_text(options);
  std::error_code ignored;
  if (path.empty() || (!is_path(path) && !std::filesystem::exists(path, ignored))) {
    refuse(options.path_of("model"),
           "kind '{}' is made from weights; give the folder of the model's safetensors files, or a "
           ".gguf file; {} is no path on this machine",
           options.choice("kind"), path.empty() ? "a model object" : "'" + path + "'");
  }
  return weights::Weights::open(path);
}

quant::Scheme scheme_of(const lua_kit::Options& options) {
  quant::Scheme scheme;
  scheme.granularity = options.choice("kind") == "variance" ? quant::Granularity::tensor
                                                            : quant::Granularity::channel;
  lua_kit::read_options(options, scheme);
  if (options.given("group_size") && scheme.granularity != quant::Granularity::group) {
    refuse(options.path_of("group_size"),
           "scales are per {}; group_size goes with granularity = \"group\"",
           name_of(scheme.granularity));
  }
  return scheme;
}

std::function<void(std::size_t, std::size_t)> progress_of(const lua_kit::Options& options) {
  lua_State* L = options.state();
  std::shared_ptr<lua_kit::LuaFunction> callback;
  if (options.push("progress")) {
    callback = std::make_shared<lua_kit::LuaFunction>(L, -1, options.path_of("progress"));
  }
  lua_pop(L, 1);
  return [callback](std::size_t num_done, std::size_t num_layers) {
    if (*lua_kit::interrupt::flag()) {
      throw Error(ErrorCode::interrupted,
                  fmt::format("interrupted after {} of {} layers", num_done, num_layers));
    }
    if (!callback) return;
    lua_pushinteger(callback->state(), static_cast<lua_Integer>(num_done));
    lua_pushinteger(callback->state(), static_cast<lua_Integer>(num_layers));
    callback->call(2, 0);
  };
}

}  // namespace

bool is_made_from_weights(const std::string& kind) {
  return kind != "constant" && kind != "random";
}

std::vector<std::int32_t> bitwidths_of(const lua_kit::Options& options) {
  std::vector<std::int32_t> bitwidths;
  for (const std::int64_t bit : options.integers("bitwidths"))
    bitwidths.push_back(static_cast<std::int32_t>(bit));
  if (bitwidths.empty()) {
    refuse(options.path_of("bitwidths"), "give at least one bitwidth");
  }
  std::sort(bitwidths.begin(), bitwidths.end());
  bitwidths.erase(std::unique(bitwidths.begin(), bitwidths.end()), bitwidths.end());
  return bitwidths;
}

std::int64_t num_layers_of(const lua_kit::Options& options) {
  lua_State* L = options.state();
  options.push("model");
  const auto model = core_lua::model_argument(L, -1, options.path_of("model"));
  lua_pop(L, 1);
  return model->num_layers;
}

Indicator make_from_weights(const lua_kit::Options& options) {
  WeightsRequest request;
  request.kind = options.choice("kind");
  request.variant = options.choice("variant");
  request.bitwidths = bitwidths_of(options);
  request.scheme = scheme_of(options);
  request.num_threads = static_cast<int>(options.integer("threads"));
  request.progress = progress_of(options);
  const std::shared_ptr<const weights::Weights> weights = weights_of(options);
  std::optional<quant::Statistics> statistics;
  if (options.given("statistics")) {
    statistics = quant::Statistics::open(options.text("statistics"));
  }
  return indicator::make_from_weights(*weights, statistics ? &*statistics : nullptr, request);
}

}  // namespace tessera::indicator_lua
