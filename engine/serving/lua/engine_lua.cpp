// ts.engine, and what belongs to a deployment besides its devices.

#include "engine_lua.h"

#include <fmt/format.h>

#include <algorithm>

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/serving/accepted_drafts.h"
#include "tessera/serving/scheduler.h"

namespace tessera {

using serving::EngineOptions;

template <>
const lua_kit::ObjectType<EngineOptions>& lua_kit::object_type<EngineOptions>() {
  static const ObjectType<EngineOptions> type{
      .name = "tessera.Engine",
      .doc = "A serving engine, with the knobs under vLLM's names.",
      .fields = fields_of<EngineOptions>(),
      .methods = {},
      .summary =
          [](const EngineOptions& e) {
            return fmt::format(
                "engine: {}, {} requests and {} tokens a step at most, blocks of {}{}", e.scheduler,
                e.max_num_seqs, e.max_num_batched_tokens, e.block_size,
                e.speculative ? fmt::format(", {} drafts by {}", e.speculative->num_tokens,
                                            name_of(e.speculative->method))
                              : "");
          },
      .equal = [](const EngineOptions& a, const EngineOptions& b) { return a == b; }};
  return type;
}

namespace serving_lua {

const OptionTable& engine_options() {
  static const OptionTable table = lua_kit::option_table<EngineOptions>(
      {"ts.engine",
       "A serving engine: how it batches, and what it keeps in its KV cache.",
       "tessera.Engine",
       {}});
  return table;
}

const OptionTable& speculation_options() {
  static const OptionTable table = lua_kit::option_table<serving::Speculation>(
      {"ts.engine.speculative", "Drafting tokens and verifying them in one step.", "table", {}});
  return table;
}

const OptionTable& step_cost_options() {
  static const auto seconds = [](std::string_view name, std::string_view doc) -> OptionSpec {
    return {.name = name,
            .type = OptionType::number,
            .doc = doc,
            .unit = "s",
            .default_text = "0",
            .min = 0,
            .max = 1e6};
  };
  static const auto by_stage = [](std::string_view name, std::string_view doc) -> OptionSpec {
    return {.name = name,
            .type = OptionType::table,
            .doc = doc,
            .unit = "s",
            .min = 0,
            .max = 1e6,
            .lua_type = "number[]"};
  };
  static const OptionTable table{
      "ts.deployment.step_cost",
      "What a step takes, without a model: a sum of these.",
      "table",
      {seconds("base_s", "Every step"),
       seconds("per_token_s", "Every new token"),
       seconds("per_sequence_s", "Every request in the step"),
       seconds("per_context_token_s", "Every token in their KV caches before the step"),
       seconds("ttft_s", "Or of requests one by one: a prompt"),
       seconds("tpot_s", "And a token"),
       {.name = "further_s",
        .type = OptionType::number,
        .doc = "And every further token of a step; left out: as the first",
        .unit = "s",
        .min = 0,
        .max = 1e6},
       {.name = "stage_layers",
        .type = OptionType::integer_list,
        .doc = "With these two: layers of each stage, over which both are shared out; left out: "
               "one stage",
        .unit = "layers",
        .min = 1,
        .max = 1e6},
       by_stage("stage_ttft_s", "Instead of all these: a prompt, on each stage"),
       by_stage("stage_tpot_s", "And a token"),
       by_stage("stage_further_s", "And every further token of a step; left out: as the first")},
      "fun(step: table): number"};
  return table;
}

namespace {

std::vector<double> acceptance_at(lua_State* L, int index, const std::string& path) {
  if (lua_type(L, index) == LUA_TNUMBER) return {lua_kit::check_number(L, index, path, 0, 1)};
  std::vector<double> rates;
  lua_kit::for_each_item(L, index, path, [&](std::size_t, const std::string& item) {
    rates.push_back(lua_kit::check_number(L, -1, item, 0, 1));
  });
  return rates;
}

serving::Speculation speculation_at(lua_State* L, int index, const std::string& path) {
  const lua_kit::Options options(L, index, speculation_options(), path);
  serving::Speculation speculation;
  lua_kit::read_options(options, speculation);
  if (options.push("acceptance")) {
    speculation.acceptance = acceptance_at(L, lua_gettop(L), options.path_of("acceptance"));
  }
  lua_pop(L, 1);
  // The default is of four drafts; others are told.
  if (!options.given("acceptance") && speculation.num_tokens > std::ssize(speculation.acceptance)) {
    refuse(options.path_of("acceptance"), "give the rates of {} drafts, or one number",
           speculation.num_tokens);
  }
  serving::cumulative_rates(speculation.acceptance, speculation.num_tokens,
                            options.path_of("acceptance"));
  return speculation;
}

/// What a script says of a step's time.
class ScriptStepCost final : public serving::StepCost {
 public:
  ScriptStepCost(lua_State* L, int index, std::string path)
      : path_(std::move(path)), function_(L, index, path_) {}

  serving::Ticks stage(const serving::StepLoad& load, std::size_t) const override {
    lua_State* L = function_.state();
    lua_createtable(L, 0, 8);
    const auto set = [&](const char* name, std::int64_t value) {
      lua_pushnumber(L, static_cast<double>(value));
      lua_setfield(L, -2, name);
    };
    set("num_requests", load.num_requests);
    set("tokens", load.tokens);
    set("context_tokens", load.context_tokens);
    set("num_sampled", load.num_sampled);
    set("num_decodes", load.num_decodes);
    set("decode_tokens", load.decode_tokens);
    set("decode_context_tokens", load.decode_context_tokens);
    set("num_chunks", std::ssize(load.chunks));
    function_.call(1, 1);
    const double seconds =
        lua_kit::check_number(L, -1, path_ + ": the time that it returns", 0, 1e6, "s");
    lua_pop(L, 1);
    return serving::to_ticks(seconds, path_);
  }
  std::optional<serving::DecodeLine> decode_line(std::int64_t, std::int64_t) const override {
    return std::nullopt;
  }

 private:
  std::string path_;
  lua_kit::LuaFunction function_;
};

}  // namespace

EngineOptions engine_argument(lua_State* L, int index, const std::string& path) {
  if (const auto* held = lua_kit::test_object<EngineOptions>(L, index)) return **held;
  const lua_kit::Options options(L, index, engine_options(), path);
  EngineOptions engine;
  lua_kit::read_options(options, engine);
  if (options.push("speculative")) {
    engine.speculative = speculation_at(L, lua_gettop(L), options.path_of("speculative"));
  }
  lua_pop(L, 1);
  check_record(engine, options.field_path());
  return engine;
}

int new_engine(lua_State* L) {
  lua_kit::push_object<EngineOptions>(
      L, std::make_shared<EngineOptions>(engine_argument(L, 1, "ts.engine")));
  return 1;
}

namespace {

/// The seconds of an option, stage by stage.
std::vector<serving::Ticks> stage_ticks(lua_State* L, const lua_kit::Options& options,
                                        const char* name) {
  std::vector<serving::Ticks> ticks;
  if (options.push(name)) {
    lua_kit::for_each_item(
        L, lua_gettop(L), options.path_of(name), [&](std::size_t, const std::string& item) {
          ticks.push_back(serving::to_ticks(lua_kit::check_number(L, -1, item, 0, 1e6, "s"), item));
        });
  }
  lua_pop(L, 1);
  return ticks;
}

std::shared_ptr<const serving::StepCost> cost_by_stage(lua_State* L,
                                                       const lua_kit::Options& options) {
  options.refuse_others({"stage_ttft_s", "stage_tpot_s", "stage_further_s"},
                        "given beside stage_ttft_s and stage_tpot_s, which say all that a step "
                        "takes");
  auto cost = std::make_shared<serving::RequestStepCost>();
  cost->prompt = stage_ticks(L, options, "stage_ttft_s");
  cost->token = stage_ticks(L, options, "stage_tpot_s");
  cost->further =
      options.given("stage_further_s") ? stage_ticks(L, options, "stage_further_s") : cost->token;
  const std::size_t stages = cost->token.size();
  if (stages == 0 || cost->prompt.size() != stages || cost->further.size() != stages) {
    refuse(options.path_of("stage_tpot_s"),
           "{} stages, but {} of stage_ttft_s and {} of stage_further_s; give as many", stages,
           cost->prompt.size(), cost->further.size());
  }
  if (std::any_of(cost->token.begin(), cost->token.end(),
                  [](serving::Ticks ticks) { return ticks == 0; })) {
    refuse(options.path_of("stage_tpot_s"), "give each, above 0");
  }
  return cost;
}

}  // namespace

std::shared_ptr<const serving::StepCost> step_cost_argument(lua_State* L, int index,
                                                            const std::string& path) {
  if (lua_type(L, index) == LUA_TFUNCTION) {
    return std::make_shared<ScriptStepCost>(L, index, path);
  }
  const lua_kit::Options options(L, index, step_cost_options(), path);
  auto cost = std::make_shared<serving::LinearStepCost>();
  const auto ticks = [&](const char* name) {
    return serving::to_ticks(options.number(name), options.path_of(name));
  };
  if (options.given("stage_ttft_s") || options.given("stage_tpot_s"))
    return cost_by_stage(L, options);
  if (options.given("tpot_s") || options.given("ttft_s")) {
    options.refuse_others({"ttft_s", "tpot_s", "further_s", "stage_layers"},
                          "given beside ttft_s and tpot_s, which say all that a step takes");
    if (ticks("tpot_s") == 0) refuse(options.path_of("tpot_s"), "give it, above 0");
    const std::vector<std::int64_t> layers = options.given("stage_layers")
                                                 ? options.integers("stage_layers")
                                                 : std::vector<std::int64_t>{1};
    if (layers.empty()) refuse(options.path_of("stage_layers"), "the list is empty");
    return std::make_shared<serving::RequestStepCost>(serving::RequestStepCost::of(
        ticks("ttft_s"), ticks("tpot_s"),
        ticks(options.given("further_s") ? "further_s" : "tpot_s"), layers));
  }
  cost->base = ticks("base_s");
  cost->per_token = ticks("per_token_s");
  cost->per_sequence = ticks("per_sequence_s");
  cost->per_context_token = ticks("per_context_token_s");
  if (cost->base + cost->per_token + cost->per_sequence == 0) {
    refuse(path, "steps take no time; give base_s, per_token_s or per_sequence_s");
  }
  return cost;
}

int router_list(lua_State* L) { return lua_kit::push_cards(L, serving::routers().cards()), 1; }
int scheduler_list(lua_State* L) {
  return lua_kit::push_cards(L, serving::schedulers().cards()), 1;
}

void register_engine(lua_State* L) {
  lua_kit::register_object<EngineOptions>(L);
  lua_kit::Reference& reference = core_lua::environment(L).reference;
  reference.add_object<EngineOptions>();
  reference.add(engine_options());
  reference.add(speculation_options());
  reference.add(router_options());
  reference.add(step_cost_options());
}

}  // namespace serving_lua
}  // namespace tessera
