#include "quality_lua.h"

#include <fmt/format.h>

#include <memory>

#include "core_lua.h"
#include "lm_lua.h"
#include "quality_records.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/value.h"
#include "text_option.h"

namespace tessera {
namespace {

using lm_lua::LoadedModel;

OptionSpec progress_option(std::string_view doc, std::string_view type) {
  return {.name = "progress", .type = OptionType::callback, .doc = doc, .lua_type = type};
}

OptionTable make_perplexity_options() {
  OptionTable table{"lm:perplexity",
                    "How well the model predicts a text: exp of the mean loss of a token.",
                    "tessera.Perplexity", lm_lua::text_options()};
  table = lua_kit::option_table<lm::PerplexityRequest>(std::move(table));
  table.options.push_back({.name = "reference",
                           .type = OptionType::table,
                           .doc =
                               "The divergence from this model and the rise of the loss over its "
                               "own are measured too: of the same vocabulary, mostly the same "
                               "one unquantised",
                           .lua_type = "tessera.LanguageModel",
                           .flag = false});
  table.options.push_back(
      progress_option("Called now and then",
                      "fun(done: integer, total: integer, loss_nats: number, tok_s: number)"));
  return table;
}

OptionTable make_zero_shot_options() {
  OptionTable table = lua_kit::option_table<lm::ZeroShotRequest>(
      {"lm:zero_shot",
       "Answers questions without examples, scored as lm-evaluation-harness does.",
       "tessera.ZeroShot",
       {}});
  table.options.push_back({.name = "file",
                           .type = OptionType::text,
                           .doc = "The items, as JSON lines as they were published",
                           .required = true});
  table.options.push_back({.name = "limit",
                           .type = OptionType::integer,
                           .doc = "Items from the start at most; 0: all",
                           .default_text = "0",
                           .min = 0,
                           .max = 1e9});
  table.options.push_back(
      progress_option("Called after each item", "fun(done: integer, total: integer)"));
  return table;
}

const OptionTable& calibrate_options() {
  static const OptionTable table = [] {
    OptionTable t{"lm:calibrate",
                  "Runs a text and writes what every matrix of the model multiplies: the "
                  "statistics that gptq, awq and indicators read.",
                  "tessera.Calibration", lm_lua::text_options()};
    t = lua_kit::option_table<lm::CalibrationRequest>(std::move(t));
    t.options.push_back(
        progress_option("Called after each piece", "fun(done: integer, total: integer)"));
    return t;
  }();
  return table;
}

// A progress of perplexity has a loss and a rate.
std::function<void(const lm::PerplexityProgress&)> perplexity_progress(
    const lua_kit::Options& options) {
  if (!options.given("progress")) return {};
  lua_State* L = options.state();
  options.push("progress");
  auto callback = std::make_shared<lua_kit::LuaFunction>(L, -1, options.path_of("progress"));
  lua_pop(L, 1);
  return [callback](const lm::PerplexityProgress& at) {
    lua_State* state = callback->state();
    lua_kit::push_integer(state, at.num_tokens);
    lua_kit::push_integer(state, at.total_tokens);
    lua_pushnumber(state, at.loss_nats);
    lua_pushnumber(state, at.tok_s);
    callback->call(4, 0);
  };
}

std::string summary_of(const lm::Perplexity& p) {
  std::string text = fmt::format("perplexity {:.5g}", p.perplexity);
  if (p.standard_error) text += fmt::format(" +- {:.2g}", p.perplexity * *p.standard_error);
  text += fmt::format(" over {} tokens in segments of {}", p.num_tokens, p.context_tokens);
  if (p.kl_nats) text += fmt::format(", {:.3g} nats from the reference", *p.kl_nats);
  return p.partial ? text + ", interrupted" : text;
}

std::string summary_of(const lm::ZeroShotResult& r) {
  std::string text = fmt::format("zero shot: accuracy {:.4f}", r.accuracy);
  if (r.standard_error) text += fmt::format(" +- {:.4f}", *r.standard_error);
  if (r.accuracy_norm) text += fmt::format(", {:.4f} by length", *r.accuracy_norm);
  text += fmt::format(" of {} items", r.num_items);
  return r.partial ? text + ", interrupted" : text;
}

}  // namespace

template <>
const lua_kit::ObjectType<lm::Perplexity>& lua_kit::object_type<lm::Perplexity>() {
  static const ObjectType<lm::Perplexity> type{.name = "tessera.Perplexity",
                                               .doc = "How well a model predicts a text.",
                                               .fields = fields_of<lm::Perplexity>(),
                                               .methods = {},
                                               .summary = summary_of};
  return type;
}

template <>
const lua_kit::ObjectType<lm::ZeroShotResult>& lua_kit::object_type<lm::ZeroShotResult>() {
  static const ObjectType<lm::ZeroShotResult> type{.name = "tessera.ZeroShot",
                                                   .doc = "Answers of a model to questions.",
                                                   .fields = fields_of<lm::ZeroShotResult>(),
                                                   .methods = {},
                                                   .summary = summary_of};
  return type;
}

template <>
const lua_kit::ObjectType<lm::Calibration>& lua_kit::object_type<lm::Calibration>() {
  static const ObjectType<lm::Calibration> type{
      .name = "tessera.Calibration",
      .doc = "What a calibration wrote.",
      .fields = fields_of<lm::Calibration>(),
      .methods = {},
      .summary = [](const lm::Calibration& c) {
        return fmt::format("calibration: {} inputs over {} tokens in {}", c.num_inputs,
                           c.num_tokens, format_seconds(c.seconds));
      }};
  return type;
}

namespace lm_lua {

const OptionTable& perplexity_options() {
  static const OptionTable table = make_perplexity_options();
  return table;
}

const OptionTable& zero_shot_options() {
  static const OptionTable table = make_zero_shot_options();
  return table;
}

int model_perplexity(lua_State* L) {
  const auto loaded = model_self(L);
  const lua_kit::Options options(L, 2, perplexity_options(), "lm:perplexity");
  lm::PerplexityRequest request;
  lua_kit::read_options(options, request);
  request.input = read_text(options);
  tokenizer_of(*loaded);  // which must be the model's
  std::shared_ptr<const LoadedModel> reference;
  if (options.push("reference")) {
    reference = lua_kit::check_object<LoadedModel>(L, -1, options.path_of("reference"));
    request.reference = reference->model.get();
    request.reference_states = reference->states;
  }
  lua_pop(L, 1);
  request.progress = perplexity_progress(options);
  request.stop = lua_kit::interrupt::flag();
  lua_kit::push_object(
      L, std::make_shared<const lm::Perplexity>(lm::measure_perplexity(*loaded->model, request)));
  return 1;
}

int model_zero_shot(lua_State* L) {
  const auto loaded = model_self(L);
  const lua_kit::Options options(L, 2, zero_shot_options(), "lm:zero_shot");
  lm::ZeroShotRequest request;
  lua_kit::read_options(options, request);
  tokenizer_of(*loaded);
  request.items = lm::read_zero_shot(request.task, options.text("file"), options.integer("limit"));
  if (request.items.empty()) refuse(options.path_of("file"), "it has no item");
  request.progress = progress_of(options);
  request.stop = lua_kit::interrupt::flag();
  lua_kit::push_object(L, std::make_shared<const lm::ZeroShotResult>(
                              lm::measure_zero_shot(*loaded->model, request)));
  return 1;
}

int model_calibrate(lua_State* L) {
  const auto loaded = model_self(L);
  const lua_kit::Options options(L, 2, calibrate_options(), "lm:calibrate");
  lm::CalibrationRequest request;
  lua_kit::read_options(options, request);
  request.input = read_text(options);
  tokenizer_of(*loaded);
  request.progress = progress_of(options);
  request.stop = lua_kit::interrupt::flag();
  lua_kit::push_object(
      L, std::make_shared<const lm::Calibration>(lm::calibrate(*loaded->model, request)));
  return 1;
}

void register_quality(lua_State* L) {
  lua_kit::register_object<lm::Perplexity>(L);
  lua_kit::register_object<lm::ZeroShotResult>(L);
  lua_kit::register_object<lm::Calibration>(L);
  auto& reference = core_lua::environment(L).reference;
  reference.add_object<lm::Perplexity>();
  reference.add_object<lm::ZeroShotResult>();
  reference.add_object<lm::Calibration>();
  reference.add(perplexity_options());
  reference.add(zero_shot_options());
  reference.add(calibrate_options());
}

}  // namespace lm_lua
}  // namespace tessera
