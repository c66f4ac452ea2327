#include "quant_lua.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/value.h"
#include "tessera/quant/quantise.h"
#include "tessera/weights/tensor.h"
#include "weights_lua.h"

namespace tessera {
namespace {

using quant::Quantised;
using weights::Tensor;

/// What ts.quantise gives: the codes, and how far they are from the weights.
struct Result {
  std::string name;
  Quantised quantised;
  quant::WeightError error;
};

OptionTable make_quantise_options() {
  OptionTable table{"ts.quantise",
                    "The codes of one weight matrix, and the error they make.",
                    "tessera.Quantised",
                    {{.name = "tensor",
                      .type = OptionType::table,
                      .doc = "The weights, [out_features, in_features]",
                      .lua_type = "tessera.Tensor",
                      .required = true},
                     {.name = "bitwidth",
                      .type = OptionType::integer,
                      .doc = "3, 4 or 8",
                      .unit = "bits",
                      .min = 3,
                      .max = 8,
                      .required = true},
                     {.name = "method",
                      .type = OptionType::choice,
                      .doc = "rtn: to the nearest code; gptq, awq: with calibration",
                      .default_text = "\"rtn\"",
                      .choices = {"rtn", "gptq", "awq"}},
                     {.name = "activations",
                      .type = OptionType::table,
                      .doc = "Inputs of the linear to calibrate with, [tokens, in_features]; or a "
                             "function that gives them a batch at a time, then nil",
                      .lua_type = "tessera.Tensor|fun(): tessera.Tensor?"},
                     {.name = "statistics",
                      .type = OptionType::text,
                      .doc = "Calibration file in place of activations (tessera man statistics)",
                      .lua_type = "string"},
                     {.name = "layer_index",
                      .type = OptionType::integer,
                      .doc = "Of statistics: the layer, from 0",
                      .min = 0,
                      .max = 100000},
                     {.name = "linear",
                      .type = OptionType::text,
                      .doc = "Of statistics: the linear, such as \"q_proj\""},
                     {.name = "scale_type",
                      .type = OptionType::choice,
                      .doc = "What scales are rounded to, upwards",
                      .default_text = "\"f32\"",
                      .choices = names_of<kernels::Real>()}}};
  return lua_kit::option_table<quant::Scheme>(std::move(table));
}

const OptionTable& quantise_options() {
  static const OptionTable table = make_quantise_options();
  return table;
}

std::vector<float> matrix_values(const Tensor& tensor, const std::string& path) {
  if (tensor.shape().size() != 2) {
    refuse(path, "{} is {}; a matrix of two dimensions belongs there", tensor.name(),
           weights::describe_shape(tensor.shape()));
  }
  return tensor.values();
}

std::optional<quant::LinearStatistics> from_file(const lua_kit::Options& options) {
  if (!options.given("layer_index") || !options.given("linear")) {
    refuse("ts.quantise.statistics", "say which of its linears with layer_index and linear");
  }
  const auto file = quant::Statistics::open(options.text("statistics"));
  auto found = file.find(options.integer("layer_index"), options.text("linear"));
  if (found) return found;
  throw Error(ErrorCode::not_found,
              fmt::format("{} holds nothing of layer {} {}", options.text("statistics"),
                          options.integer("layer_index"), options.text("linear")),
              "ts.quantise.linear");
}

quant::LinearStatistics from_batches(const lua_kit::LuaFunction& next, const std::string& path) {
  std::optional<quant::InputSums> sums;
  std::int64_t in_features = 0;
  while (true) {
    next.call(0, 1);
    lua_State* L = next.state();
    if (lua_isnil(L, -1)) break;
    const auto batch = weights_lua::tensor_argument(L, -1, path + "()");
    lua_pop(L, 1);
    const std::vector<float> values = matrix_values(*batch, path + "()");
    if (!sums) {
      in_features = batch->shape()[1];
      sums.emplace(in_features, true);
    }
    if (batch->shape()[1] != in_features) {
      refuse(path, "a batch has {} input features, those before it have {}", batch->shape()[1],
             in_features);
    }
    sums->add(values.data(), batch->shape()[0]);
  }
  lua_pop(next.state(), 1);
  if (!sums) {
    refuse(path, "the function gave no batch");
  }
  return std::move(*sums).statistics();
}

std::optional<quant::LinearStatistics> inputs_of(const lua_kit::Options& options) {
  lua_State* L = options.state();
  if (options.given("statistics") && options.given("activations")) {
    throw Error(ErrorCode::invalid_argument,
                "ts.quantise: give activations or statistics, not both", "ts.quantise.statistics");
  }
  if (options.given("statistics")) return from_file(options);
  if (!options.given("activations")) return std::nullopt;
  options.push("activations");
  const std::string path = options.path_of("activations");
  if (lua_isfunction(L, -1)) {
    const lua_kit::LuaFunction next(L, -1, path);
    lua_pop(L, 1);
    return from_batches(next, path);
  }
  const auto tensor = weights_lua::tensor_argument(L, -1, path);
  lua_pop(L, 1);
  const std::vector<float> values = matrix_values(*tensor, path);
  return quant::statistics_of(values.data(), tensor->shape()[0], tensor->shape()[1], true);
}

int quantise(lua_State* L) {
  const lua_kit::Options options(L, 1, quantise_options(), "ts.quantise");
  options.push("tensor");
  const auto tensor = weights_lua::tensor_argument(L, -1, options.path_of("tensor"));
  lua_pop(L, 1);
  const std::vector<float> values = matrix_values(*tensor, options.path_of("tensor"));
  const quant::MatrixView view{values.data(), tensor->shape()[0], tensor->shape()[1]};
  quant::Scheme scheme;
  lua_kit::read_options(options, scheme);
  lua_kit::read_option(options, "bitwidth", scheme.bitwidth);
  lua_kit::read_option(options, "scale_type", scheme.scale_type);
  auto method = quant::Method::rtn;
  lua_kit::read_option(options, "method", method);
  const auto inputs = inputs_of(options);
  auto result = std::make_shared<Result>();
  result->name = tensor->name();
  result->quantised = quant::quantise(view, scheme, method, inputs ? &*inputs : nullptr);
  result->error = quant::weight_error(view, result->quantised);
  lua_kit::push_object<Result>(L, std::move(result));
  return 1;
}

int dequantised(lua_State* L) {
  const auto& result = *lua_kit::check_object<Result>(L, 1, "quantised");
  const Quantised& q = result.quantised;
  lua_kit::push_object<Tensor>(
      L, std::make_shared<Tensor>(result.name, std::vector<std::int64_t>{q.rows, q.columns},
                                  q.dequantised()));
  return 1;
}

std::string summary_of(const Result& r) {
  const Quantised& q = r.quantised;
  return fmt::format("quantised: {} [{}, {}] at {} bits by {}, mse {:.4g}, {}", r.name, q.rows,
                     q.columns, q.scheme.bitwidth, name_of(q.method), r.error.mse,
                     format_bytes(static_cast<double>(q.size_bytes())));
}

std::string describe_result(const Result& r) {
  const Quantised& q = r.quantised;
  std::string text = summary_of(r);
  text += fmt::format("\n  max error {:.4g}, largest scale {:.4g}", r.error.max_error,
                      static_cast<double>(q.scale_max()));
  if (q.output_error) text += fmt::format("\n  output error {:.4g}", *q.output_error);
  if (q.rtn_output_error) text += fmt::format(", {:.4g} by round-to-nearest", *q.rtn_output_error);
  return text;
}

}  // namespace

template <>
const lua_kit::ObjectType<Result>& lua_kit::object_type<Result>() {
  static const ObjectType<Result> type{
      .name = "tessera.Quantised",
      .doc = "A weight matrix as codes, and how far they are from it.",
      .fields =
          {{"method", "string", "What made the codes: rtn where gptq did worse than it",
            [](lua_State* L, const Result& r) { push_value(L, r.quantised.method); }},
           {"bitwidth", "integer", "Bits of a code",
            [](lua_State* L, const Result& r) { push_integer(L, r.quantised.scheme.bitwidth); }},
           {"mse", "number", "Mean squared difference of the weights",
            [](lua_State* L, const Result& r) { lua_pushnumber(L, r.error.mse); }},
           {"max_error", "number", "Largest difference of a weight",
            [](lua_State* L, const Result& r) { lua_pushnumber(L, r.error.max_error); }},
           {"scale_max", "number", "Largest scale",
            [](lua_State* L, const Result& r) {
              lua_pushnumber(L, static_cast<double>(r.quantised.scale_max()));
            }},
           {"bytes", "integer", "Of codes, scales and zero points as a checkpoint stores them",
            [](lua_State* L, const Result& r) { push_integer(L, r.quantised.size_bytes()); }},
           {"output_error", "number?",
            "Squared error of the outputs for a token, summed over them; nil without calibration",
            [](lua_State* L, const Result& r) { push_value(L, r.quantised.output_error); }},
           {"rtn_output_error", "number?", "The same by round-to-nearest, where it was compared",
            [](lua_State* L, const Result& r) { push_value(L, r.quantised.rtn_output_error); }},
           {"damping", "number", "Of gptq: added to the Hessian's diagonal, over its mean",
            [](lua_State* L, const Result& r) { lua_pushnumber(L, r.quantised.damping); }}},
      .methods = {{"dequantised", guarded<dequantised>, "(): tessera.Tensor",
                   "The values that the codes stand for"}},
      .summary = summary_of,
      .describe = describe_result};
  return type;
}

namespace quant_lua {

void register_quant(lua_State* L) {
  lua_kit::register_object<Result>(L);
  register_quantised_model(L);
  register_pruned_model(L);
  auto& reference = core_lua::environment(L).reference;
  reference.add_object<Result>();
  reference.add(quantise_options());
  reference.add(quantise_model_options());
  lua_kit::register_module(L, "tessera.quant",
                           {{"quantise", lua_kit::guarded<quantise>},
                            {"quantise_model", lua_kit::guarded<quantise_model>},
                            {"prune_model", lua_kit::guarded<prune_model>}});
}

}  // namespace quant_lua
}  // namespace tessera
