#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "layer_bitwidths.h"
#include "lm_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/record.h"
#include "tessera/weights/weights.h"

namespace tessera {
namespace {

/// The options of ts.language_model besides the layers' bitwidths and the scheme.
struct ModelOptions {
  std::string path;
  kernels::Real dtype = kernels::Real::f32;
  quant::Method method = quant::Method::rtn;
  std::int32_t activation_bitwidth = 16;
  bool int8 = false;
  std::string statistics;
  std::int32_t kv_bitwidth = 16;
  std::string device = "cpu";
  std::int32_t threads = 0;
};

}  // namespace

template <>
struct Fields<ModelOptions> {
  using O = ModelOptions;
  static constexpr auto list = std::tuple{
      field<&O::path>({.name = "path",
                       .doc = "Folder with config.json, weights and tokenizer, or a GGUF file",
                       .as_option = AsOption::required}),
      field<&O::dtype>({.name = "dtype",
                        .doc = "What weights of 16 bits are kept as; sums are f32",
                        .as_option = AsOption::defaulted}),
      field<&O::method>({.name = "method",
                         .doc = "How weights become codes; gptq, awq: with statistics",
                         .as_option = AsOption::defaulted}),
      field<&O::activation_bitwidth>(
          {.name = "activation_bitwidth",
           .doc = "Of what matrices in codes or blocks multiply: 16 leaves it in f32, 8 rounds it",
           .unit = "bits",
           .min = 8,
           .max = 16,
           .as_option = AsOption::defaulted}),
      field<&O::int8>({.name = "int8",
                       .doc = "Layers of 8 bits multiply in whole numbers, outliers apart, as "
                              "LLM.int8() does",
                       .as_option = AsOption::defaulted}),
      field<&O::statistics>({.name = "statistics",
                             .doc = "Calibration file of gptq and awq (tessera man statistics)"}),
      field<&O::kv_bitwidth>({.name = "kv_bitwidth",
                              .doc = "Of keys and values: 16 keeps dtype, or 8",
                              .unit = "bits",
                              .min = 8,
                              .max = 16,
                              .as_option = AsOption::defaulted}),
      field<&O::device>({.name = "device",
                         .doc = "cpu: Tessera's kernels; torch: LibTorch's operators on the CPU, "
                                "slow and independent of them; cuda, cuda:1: LibTorch on a GPU",
                         .as_option = AsOption::defaulted}),
      field<&O::threads>({.name = "threads",
                          .doc = "Of every step; 0: as many as there are processors",
                          .min = 0,
                          .max = 1024,
                          .as_option = AsOption::defaulted})};
};

namespace lm_lua {
namespace {

OptionTable make_options() {
  OptionTable table = lua_kit::option_table<ModelOptions>(
                          {"ts.language_model",
                           "A model in memory that runs: each layer at its bitwidth, logits, "
                           "texts, perplexity (tessera man language_models).",
                           "tessera.LanguageModel",
                           {}})
                          .with("dtype", quant_lua::layer_bitwidth_options());
  for (OptionSpec& option : table.options) {
    if (option.name == "method") option.choices = {"rtn", "gptq", "awq"};
  }
  table = lua_kit::option_table<quant::Scheme>(std::move(table));
  table.options.push_back({.name = "progress",
                           .type = OptionType::callback,
                           .doc = "Called after each layer; false for silence. Default: a bar on a "
                                  "terminal",
                           .lua_type = "fun(done: integer, total: integer)|false"});
  table.instead = "string";
  return table;
}

void check_one_of(const lua_kit::Options& options, std::string_view name, std::int32_t value,
                  std::initializer_list<std::int32_t> known, std::string_view words) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return;
  refuse(ErrorCode::out_of_range, options.path_of(name), "{} is none of {}", value, words);
}

// Before any module is loaded for it: cpu, torch, cuda, or cuda: and a number.
void check_device(const lua_kit::Options& options, const std::string& device) {
  if (device == "cpu" || device == "torch" || device == "cuda") return;
  const std::string number = device.starts_with("cuda:") ? device.substr(5) : "";
  const bool digits = number.find_first_not_of("0123456789") == std::string::npos;
  if (!number.empty() && digits && number.size() <= 3) return;
  refuse(options.path_of("device"), "{} is none of cpu, torch, cuda and cuda:N, the N-th from 0",
         quote(device));
}

// What says how layers are quantised has no meaning where none is.
void refuse_without_bitwidths(const lua_kit::Options& options) {
  for (const char* name : {"method", "int8", "statistics", "symmetric", "granularity", "group_size",
                           "rounding", "seed", "act_order"}) {
    if (!options.given(name)) continue;
    refuse(options.path_of(name),
           "it says how layers are quantised, but neither bitwidths nor plan says which; without "
           "them weights stay as they are stored");
  }
}

void check_plan(const lua_kit::Options& options, const ModelShape& shape) {
  const auto planned = quant_lua::model_of_plan(options);
  if (planned == nullptr) return;
  const auto key = [](const ModelShape& m) {
    return std::tuple{m.num_layers, m.hidden_size, m.num_heads, m.ffn_size};
  };
  if (key(*planned) == key(shape)) return;
  const auto words = [](const ModelShape& m) {
    return fmt::format("{} ({} layers, hidden size {}, {} heads, FFN {})", quote(m.name),
                       m.num_layers, m.hidden_size, m.num_heads, m.ffn_size);
  };
  refuse(options.path_of("plan"), "it plans {}, which is not the model here, {}", words(*planned),
         words(shape));
}

void check_method(const lua_kit::Options& options, const ModelOptions& given,
                  const std::vector<std::int32_t>& bitwidths) {
  const bool calibrated = given.method != quant::Method::rtn;
  const bool quantised = std::any_of(bitwidths.begin(), bitwidths.end(),
                                     [](std::int32_t bitwidth) { return bitwidth < 16; });
  if (calibrated && quantised && given.statistics.empty()) {
    refuse(options.path_of("statistics"),
           "method {} calibrates; give the file of what the model's matrices read (tessera man "
           "statistics)",
           name_of(given.method));
  }
  if (!calibrated && !given.statistics.empty()) {
    refuse(options.path_of("statistics"), "method rtn reads none; gptq and awq do");
  }
  const bool has_int8 = std::count(bitwidths.begin(), bitwidths.end(), 8) > 0;
  if (given.int8 && !has_int8) {
    refuse(options.path_of("int8"), "it is for layers of 8 bits, and there is none");
  }
}

std::vector<lm::LayerForm> read_layers(const lua_kit::Options& options, const ModelOptions& given,
                                       const ModelShape& shape) {
  const auto bitwidths = quant_lua::layer_bitwidths(options, [&] { return shape.num_layers; });
  const char* source = options.given("plan") ? "plan" : "bitwidths";
  if (options.given("plan")) check_plan(options, shape);
  if (static_cast<std::int64_t>(bitwidths.size()) != shape.num_layers) {
    refuse(options.path_of(source), "it has {} layers, {} has {}", bitwidths.size(),
           quote(shape.name), shape.num_layers);
  }
  for (const std::int32_t bitwidth : bitwidths) {
    check_one_of(options, source, bitwidth, {3, 4, 8, 16}, "3, 4, 8 and 16 bits");
  }
  check_method(options, given, bitwidths);
  lm::LayerForm form;
  lua_kit::read_options(options, form.scheme);
  form.method = given.method;
  form.activation_bitwidth = given.activation_bitwidth;
  std::vector<lm::LayerForm> layers;
  for (const std::int32_t bitwidth : bitwidths) {
    form.bitwidth = bitwidth;
    form.int8 = given.int8 && bitwidth == 8;
    if (bitwidth < 16) {
      form.scheme.bitwidth = bitwidth;
      quant::check(form.scheme);
    }
    layers.push_back(form);
  }
  return layers;
}

}  // namespace

const OptionTable& language_model_options() {
  static const OptionTable table = make_options();
  return table;
}

lm::LoadRequest read_request(const lua_kit::Options& options) {
  ModelOptions given;
  lua_kit::read_options(options, given);
  if (given.path.empty()) refuse(options.path_of("path"), "it is empty; name a folder or a file");
  check_one_of(options, "kv_bitwidth", given.kv_bitwidth, {8, 16}, "8 and 16 bits");
  check_one_of(options, "activation_bitwidth", given.activation_bitwidth, {8, 16}, "8 and 16 bits");
  check_device(options, given.device);
  const ModelShape shape = weights::model_of(*weights::Weights::open(given.path));
  lm::LoadRequest request;
  request.path = given.path;
  request.dtype = given.dtype;
  request.kv_bitwidth = given.kv_bitwidth;
  request.statistics = given.statistics;
  request.device = given.device;
  request.num_threads = given.threads;
  if (options.given("plan") || options.given("bitwidths")) {
    request.layers = read_layers(options, given, shape);
  } else {
    refuse_without_bitwidths(options);
    const lm::LayerForm as_stored{.activation_bitwidth = given.activation_bitwidth,
                                  .as_stored = true};
    request.layers.assign(static_cast<std::size_t>(shape.num_layers), as_stored);
  }
  return request;
}

}  // namespace lm_lua
}  // namespace tessera
