#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core_lua.h"
#include "indicator_lua.h"
#include "lm_lua.h"
#include "quality_lua.h"
#include "tessera/core/error.h"
#include "tessera/indicator/save.h"
#include "tessera/lm/layer_loss.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/value.h"
#include "text_option.h"

namespace tessera::lm_lua {
namespace {

// ts.indicator's defaults are those of the other kinds: only what was given counts here.
void read_form(const lua_kit::Options& options, lm::LayerForm& form) {
  lua_kit::read_options(options, form.scheme);
  if (options.given("method")) lua_kit::read_option(options, "method", form.method);
  if (options.given("activation_bitwidth")) {
    lua_kit::read_option(options, "activation_bitwidth", form.activation_bitwidth);
  }
}

// 16 bits are the model as it is, where nothing is lost; they are in every indicator.
std::vector<std::int32_t> measured_bitwidths(const lua_kit::Options& options) {
  if (!options.given("bitwidths")) return {3, 4, 8};
  std::vector<std::int32_t> bitwidths;
  for (const std::int64_t bitwidth : options.integers("bitwidths")) {
    if (bitwidth == 16) continue;
    if (bitwidth != 3 && bitwidth != 4 && bitwidth != 8) {
      refuse(ErrorCode::out_of_range, options.path_of("bitwidths"),
             "{} is none of 3, 4, 8 and 16 bits", bitwidth);
    }
    bitwidths.push_back(static_cast<std::int32_t>(bitwidth));
  }
  std::sort(bitwidths.begin(), bitwidths.end());
  bitwidths.erase(std::unique(bitwidths.begin(), bitwidths.end()), bitwidths.end());
  if (bitwidths.empty()) refuse(options.path_of("bitwidths"), "give at least one below 16 bits");
  return bitwidths;
}

std::shared_ptr<const LoadedModel> load_for(const lua_kit::Options& options,
                                            const lm::LayerForm& form) {
  lua_State* L = options.state();
  options.push("model");
  std::shared_ptr<const LoadedModel> loaded;
  if (lua_type(L, -1) == LUA_TSTRING) {
    lm::LoadRequest request;
    request.path = lua_kit::check_text(L, -1, options.path_of("model"));
    if (options.given("statistics")) request.statistics = options.text("statistics");
    request.num_threads = static_cast<int>(options.integer("threads"));
    loaded = load(std::move(request));
  } else {
    loaded = lua_kit::check_object<LoadedModel>(L, -1, options.path_of("model"));
  }
  lua_pop(L, 1);
  if (form.method != quant::Method::rtn && loaded->model->request().statistics.empty()) {
    refuse(options.path_of("statistics"),
           "method {} calibrates; give the file of what the model's matrices read (tessera man "
           "statistics)",
           name_of(form.method));
  }
  return loaded;
}

std::function<void(const lm::LayerLossProgress&)> layer_progress(const lua_kit::Options& options) {
  const auto report = progress_of(options);
  return [report](const lm::LayerLossProgress& at) { report(at.num_done, at.num_layers); };
}

}  // namespace

int layer_indicator(lua_State* L) {
  const OptionTable& table = indicator_lua::indicator_options();
  const lua_kit::Options options(L, 1, table, "ts.indicator");
  options.refuse_others({"kind", "model", "bitwidths", "file", "samples", "tokens", "out", "method",
                         "activation_bitwidth", "statistics", "granularity", "group_size",
                         "symmetric", "rounding", "seed", "threads", "progress"},
                        "kind '" + options.choice("kind") + "' runs the model on a text");
  if (!options.given("file")) {
    refuse(options.path_of("file"), "kind '{}' runs the model on a text; name a file with one",
           options.choice("kind"));
  }
  lm::LayerLossRequest request;
  request.effect = *named<lm::LayerEffect>(options.choice("kind"));
  request.input = read_text_file(options.text("file"), options.path_of("file"));
  request.bitwidths = measured_bitwidths(options);
  read_form(options, request.form);
  request.num_pieces = options.integer("samples");
  request.piece_tokens = options.integer("tokens");
  if (options.given("out")) request.out = options.text("out");
  indicator::check_replaceable(request.out);
  request.progress = layer_progress(options);
  request.stop = lua_kit::interrupt::flag();
  const auto loaded = load_for(options, request.form);
  tokenizer_of(*loaded);
  lua_kit::push_object(
      L, std::make_shared<const Indicator>(lm::measure_layer_loss(*loaded->model, request)));
  return 1;
}

}  // namespace tessera::lm_lua
