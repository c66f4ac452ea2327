// ts.serve.

#include <fmt/format.h>

#include "core_lua.h"
#include "deployment_lua.h"
#include "served_lua.h"
#include "serving_lua.h"
#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/serving/simulate.h"

namespace tessera::solver_lua {
namespace {

// Steps of more tokens than these are kept only when asked for: 16 bytes each, and what Lua makes.
constexpr std::int64_t kRecordedTokens = 4'000'000;

std::int64_t tokens_of(const serving::Traffic& traffic) {
  std::int64_t tokens = 0;
  for (const serving::Request& r : traffic.requests) tokens += r.output_tokens + 1;
  return tokens;
}

serving::SummaryOptions summary_options_at(const lua_kit::Options& options,
                                           const solver::AssembledDeployment& deployment,
                                           const serving::Traffic& traffic) {
  serving::SummaryOptions summary = solver::summary_options(deployment, traffic);
  lua_kit::read_options(options, summary);
  options.read("slo", serving_lua::slo_argument, summary.slos);
  if (options.given("slo") && !deployment.model_slos.empty()) {
    summary.slo_classes.clear();
    for (const serving::Request& r : traffic.requests) summary.slo_classes.push_back(r.slo_class);
  }
  summary.closed_loop = traffic.concurrency.has_value();
  return summary;
}

// Without what belongs to scripts, which may be gone when somebody asks.
std::shared_ptr<const serving::Deployment> kept(serving::Deployment deployment) {
  deployment.make_router = serving::make_router;
  deployment.models.reset();
  for (serving::Replica& replica : deployment.replicas) {
    replica.make_scheduler = serving::Replica::make_scheduler_of_engine;
  }
  return std::make_shared<serving::Deployment>(std::move(deployment));
}

}  // namespace

const OptionTable& serve_options() {
  static const OptionTable table =
      lua_kit::option_table<serving::SummaryOptions>(
          {"ts.serve",
           "Serves traffic on a deployment, step by step in simulated time.",
           "tessera.Served",
           {}})
          .with("slo",
                {{.name = "seed",
                  .type = OptionType::integer,
                  .doc = "Of accepted drafts",
                  .default_text = "0",
                  .min = 0,
                  .max = kMaxExactInteger},
                 {.name = "record",
                  .type = OptionType::boolean,
                  .doc = "Keep every step, for :steps() and the trace; left out: of runs of up to "
                         "4 million tokens"},
                 {.name = "skip",
                  .type = OptionType::boolean,
                  .doc = "Take stretches of decode steps at once, where steps are not kept; the "
                         "results are the same",
                  .default_text = "true"},
                 {.name = "horizon_s",
                  .type = OptionType::number,
                  .doc = "What is not done by then stays unfinished",
                  .unit = "s",
                  .default_text = "9e6",
                  .min = 0,
                  .max = serving::kLongestRun_s},
                 {.name = "real",
                  .type = OptionType::table,
                  .doc = "A model that runs, instead of a simulation: the options of "
                         "ts.language_model, and temperature, top_k, top_p, repetition_penalty, "
                         "seed, token_seed, ignore_stop_tokens, on_tokens (tessera man serving)"},
                 {.name = "clock",
                  .type = OptionType::choice,
                  .doc = "With real: wall, steps take what they take; or model, what the "
                         "deployment's step costs say, so that the log is the simulator's",
                  .default_text = "\"wall\"",
                  .choices = {"wall", "model"}}});
  return table;
}

void check_time(const char* who) {
  if (*lua_kit::interrupt::flag()) {
    throw Error(ErrorCode::interrupted, fmt::format("{}: interrupted", who));
  }
  if (lua_kit::interrupt::left_s() <= 0) {
    throw Error(ErrorCode::interrupted, fmt::format("{}: stopped at the script's time limit", who));
  }
}

int serve(lua_State* L) {
  const auto held = lua_kit::check_object<solver::AssembledDeployment>(L, 1, "ts.serve deployment");
  const auto traffic = serving_lua::traffic_argument(L, 2, "ts.serve traffic");
  const lua_kit::Options options(L, 3, serve_options(), "ts.serve");
  serving::SimulationOptions run;
  run.skip = options.boolean("skip");
  run.seed = static_cast<std::uint64_t>(options.integer("seed"));
  run.horizon_s = options.number("horizon_s");
  run.record_steps =
      options.given("record") ? options.boolean("record") : tokens_of(*traffic) <= kRecordedTokens;
  run.poll = [](std::int64_t) { check_time("ts.serve"); };
  serving::Deployment deployment = held->deployment;
  serving::fill_kv_blocks(deployment, *traffic);
  auto served = std::make_shared<serving::Served>();
  serving::SummaryOptions summary = summary_options_at(options, *held, *traffic);
  if (lua_isnoneornil(L, 4)) {
    served->log = serving::simulate(deployment, *traffic, std::move(run));
  } else {
    if (deployment.models) {
      refuse("ts.serve.real", "a model that runs is one; models that share GPUs are simulated");
    }
    const auto real = lua_kit::check_object<serving_lua::RealServer>(L, 4, "ts.serve real");
    serving::Ran ran = real->serve(deployment, *traffic, run);
    served->log = std::move(ran.log);
    served->outputs = std::move(ran.outputs);
    if (!real->source.empty()) summary.source = real->source;
  }
  served->traffic = traffic;
  served->deployment = kept(std::move(deployment));
  served->summary = serving::summarise(served->log, summary);
  if (!served->log.models.empty()) {
    served->models = serving::summarise_models(served->log, served->summary, summary);
  }
  lua_kit::push_object<serving::Served>(L, std::move(served));
  return 1;
}

}  // namespace tessera::solver_lua
