#include <fmt/format.h>

#include <chrono>
#include <numeric>
#include <utility>

#include "core_lua.h"
#include "lm_lua.h"
#include "quality_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lm/generate.h"
#include "tessera/lm/module.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "weights_lua.h"

namespace tessera {
namespace {

using lm_lua::LoadedModel;

constexpr std::size_t kMostIds = 10'000'000;

int logits(lua_State* L) {
  const auto loaded = lm_lua::model_self(L);
  const lm::LanguageModel& model = *loaded->model;
  const auto ids = lm_lua::ids_argument(L, 2, "lm:logits ids");
  lm::check_tokens(model, ids, "lm:logits ids");
  std::vector<float> values = lm::logits_of(model, ids, lm_lua::interrupted);
  lua_kit::push_object(L, std::make_shared<const weights::Tensor>(
                              "logits",
                              std::vector<std::int64_t>{static_cast<std::int64_t>(ids.size()),
                                                        model.shape().vocab_size},
                              std::move(values)));
  return 1;
}

std::vector<std::string> describe_layers(const lm::LanguageModel& model) {
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < model.shape().num_layers; ++i) {
    texts.push_back(model.describe_layer(i));
  }
  return texts;
}

void push_bitwidths(lua_State* L, const LoadedModel& loaded) {
  std::vector<std::int32_t> bitwidths;
  for (const lm::LayerForm& form : loaded.model->request().layers) {
    if (form.as_stored) return lua_pushnil(L);
    bitwidths.push_back(form.bitwidth);
  }
  if (bitwidths.empty()) return lua_pushnil(L);
  lua_kit::push_value(L, bitwidths);
}

std::string summary_of(const LoadedModel& loaded) {
  const lm::LanguageModel& model = *loaded.model;
  const auto& layers = model.request().layers;
  std::string bits = "as stored";
  if (!layers.empty() && !layers.front().as_stored) {
    double sum = 0;
    for (const lm::LayerForm& form : layers) sum += form.bitwidth;
    bits = fmt::format("{:.3g} bits", sum / static_cast<double>(layers.size()));
  }
  return fmt::format("language model {}: {} layers, {}, {}, {} of weights, {} thread{}",
                     quote(model.shape().name), model.shape().num_layers, bits,
                     name_of(model.request().dtype),
                     format_bytes(static_cast<double>(model.weight_bytes())), model.num_threads(),
                     model.num_threads() == 1 ? "" : "s");
}

// Layers in a row that are kept alike are one line.
std::string describe(const LoadedModel& loaded) {
  const lm::LanguageModel& model = *loaded.model;
  std::string text = summary_of(loaded);
  const auto layers = describe_layers(model);
  for (std::size_t first = 0; first < layers.size();) {
    std::size_t end = first + 1;
    while (end < layers.size() && layers[end] == layers[first]) ++end;
    text += end == first + 1
                ? fmt::format("\n  layer {}: {}", first, layers[first])
                : fmt::format("\n  layers {} to {}: {}", first, end - 1, layers[first]);
    first = end;
  }
  text += fmt::format("\n  keys and values: {}, {} a token",
                      model.request().kv_bitwidth == 8 ? "8 bits" : name_of(model.request().dtype),
                      format_bytes(model.kv_bytes_per_token()));
  text += fmt::format("\n  loaded in {} from {}", format_seconds(loaded.load_s),
                      quote(model.request().path, 300));
  return text;
}

int describe_model(lua_State* L) {
  lua_kit::push_text(L, describe(*lm_lua::model_self(L)));
  return 1;
}

std::vector<lua_kit::ObjectField<LoadedModel>> fields() {
  using lua_kit::push_text;
  return {
      {"model", "tessera.Model", "Its architecture",
       [](lua_State* L, const LoadedModel& m) {
         lua_kit::push_object(L, std::make_shared<const ModelShape>(m.model->shape()));
       }},
      {"tokenizer", "tessera.Tokenizer", "Text to tokens and back; read when first used",
       [](lua_State* L, const LoadedModel& m) {
         lua_kit::push_object(L, std::make_shared<const lm_lua::Tokenizer>(tokenizer_of(m)));
       }},
      {"path", "string", "Where it came from",
       [](lua_State* L, const LoadedModel& m) { push_text(L, m.model->request().path); }},
      {"dtype", "string", "What weights of 16 bits are kept as",
       [](lua_State* L, const LoadedModel& m) { push_text(L, name_of(m.model->request().dtype)); }},
      {"bitwidths", "integer[]?", "Of each layer (bits); absent where they are as stored",
       push_bitwidths},
      {"layers", "string[]", "How each layer is kept, in words",
       [](lua_State* L, const LoadedModel& m) {
         lua_kit::push_texts(L, describe_layers(*m.model));
       }},
      {"kv_bitwidth", "integer", "Of keys and values (bits); 16 stands for dtype",
       [](lua_State* L, const LoadedModel& m) {
         lua_kit::push_integer(L, m.model->request().kv_bitwidth);
       }},
      {"weight_bytes", "integer", "All weights in memory (bytes)",
       [](lua_State* L, const LoadedModel& m) {
         lua_kit::push_integer(L, m.model->weight_bytes());
       }},
      {"threads", "integer", "Of every step",
       [](lua_State* L, const LoadedModel& m) {
         lua_kit::push_integer(L, m.model->num_threads());
       }},
      {"load_s", "number", "Time that loading took (s)",
       [](lua_State* L, const LoadedModel& m) { lua_pushnumber(L, m.load_s); }}};
}

// A tokenizer may be missing, or another model's, and a table of the fields is still one.
int to_table(lua_State* L) {
  const auto loaded = lm_lua::model_self(L);
  lua_newtable(L);
  for (const auto& field : lua_kit::object_type<LoadedModel>().fields) {
    try {
      field.get(L, *loaded);
    } catch (const Error&) {
      lua_pushnil(L);
    }
    lua_kit::detail::plain_value(L, 0);
    lua_setfield(L, -2, field.name);
  }
  return 1;
}

}  // namespace

template <>
const lua_kit::ObjectType<LoadedModel>& lua_kit::object_type<LoadedModel>() {
  using namespace lm_lua;
  static const ObjectType<LoadedModel> type{
      .name = "tessera.LanguageModel",
      .doc = "A model in memory that runs (tessera man language_models).",
      .fields = fields(),
      .methods =
          {{"logits", guarded<logits>, "(ids: integer[]): tessera.Tensor",
            "[#ids, vocab_size], after each of the tokens (from 0)"},
           {"generate", guarded<model_generate>,
            "(prompt: string|integer[], options: tessera.options.lm.generate?): tessera.Generation",
            "Continues a text; see lm:generate"},
           {"perplexity", guarded<model_perplexity>,
            "(options: tessera.options.lm.perplexity): tessera.Perplexity",
            "How well it predicts a text; see lm:perplexity"},
           {"zero_shot", guarded<model_zero_shot>,
            "(options: tessera.options.lm.zero_shot): tessera.ZeroShot",
            "Answers to questions, as lm-evaluation-harness scores them; see lm:zero_shot"},
           {"calibrate", guarded<model_calibrate>,
            "(options: tessera.options.lm.calibrate): tessera.Calibration",
            "Writes the statistics that gptq, awq and indicators read; see lm:calibrate"},
           {"speed", guarded<model_speed>, "(options: tessera.options.lm.speed?): tessera.Speed",
            "How fast one or several sequences are; see lm:speed"},
           {"describe", guarded<describe_model>, "(): string",
            "What print shows: how each layer is kept"},
           {"to_table", guarded<to_table>, "(): table",
            "Its fields; without a tokenizer where it has none"}},
      .summary = summary_of,
      .describe = describe};
  return type;
}

namespace lm_lua {

std::shared_ptr<const LoadedModel> model_self(lua_State* L) {
  return lua_kit::check_object<LoadedModel>(L, 1, "language model");
}

bool interrupted() { return lua_kit::interrupt::flag()->load(); }

std::function<void(std::int64_t, std::int64_t)> progress_of(const lua_kit::Options& options) {
  std::shared_ptr<lua_kit::LuaFunction> callback;
  if (options.push("progress")) {
    callback =
        std::make_shared<lua_kit::LuaFunction>(options.state(), -1, options.path_of("progress"));
  }
  lua_pop(options.state(), 1);
  return [callback](std::int64_t done, std::int64_t total) {
    if (!callback) return;
    lua_State* state = callback->state();
    lua_kit::push_integer(state, done);
    lua_kit::push_integer(state, total);
    callback->call(2, 0);
  };
}

std::vector<std::int32_t> ids_argument(lua_State* L, int index, const std::string& path) {
  std::vector<std::int32_t> ids;
  lua_kit::check_table(L, index, path, "a list of token ids");
  lua_kit::for_each_item(
      L, index, path,
      [&](std::size_t, const std::string& item) {
        ids.push_back(
            static_cast<std::int32_t>(lua_kit::check_integer(L, -1, item, 0, kVocabRange.high)));
      },
      kMostIds);
  return ids;
}

void push_ids(lua_State* L, const std::vector<std::int32_t>& ids) { lua_kit::push_value(L, ids); }

std::shared_ptr<const LoadedModel> load(lm::LoadRequest request) {
  request.progress = [report = std::move(request.progress)](std::int64_t done, std::int64_t total) {
    if (interrupted()) {
      throw Error(ErrorCode::interrupted,
                  fmt::format("interrupted after {} of {} layers", done, total));
    }
    if (report) report(done, total);
  };
  const auto start = std::chrono::steady_clock::now();
  auto loaded = std::make_shared<LoadedModel>();
  loaded->model = lm::module().load(request);
  loaded->load_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return loaded;
}

std::shared_ptr<const LoadedModel> model_argument(lua_State* L, int index,
                                                  const std::string& path) {
  if (lua_type(L, index) != LUA_TSTRING) return lua_kit::check_object<LoadedModel>(L, index, path);
  lm::LoadRequest request;
  request.path = lua_kit::check_text(L, index, path);
  return load(std::move(request));
}

int new_language_model(lua_State* L) {
  if (lua_type(L, 1) == LUA_TSTRING) {
    lua_kit::push_object(L, model_argument(L, 1, "ts.language_model"));
    return 1;
  }
  const lua_kit::Options options(L, 1, language_model_options(), "ts.language_model");
  lm::LoadRequest request = read_request(options);
  request.progress = progress_of(options);
  lua_kit::push_object(L, load(std::move(request)));
  return 1;
}

void register_language_model(lua_State* L) {
  lua_kit::register_object<LoadedModel>(L);
  core_lua::environment(L).reference.add_object<LoadedModel>();
  core_lua::environment(L).reference.add(language_model_options());
}

}  // namespace lm_lua
}  // namespace tessera
