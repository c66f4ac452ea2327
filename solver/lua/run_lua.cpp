#include <fmt/format.h>

#include "core_lua.h"
#include "distribution_lua.h"
#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/value.h"
#include "tessera/serving/served.h"
#include "tessera/solver/plan/check_plan.h"
#include "tessera/solver/plan/plan_pipeline.h"

namespace tessera {

namespace solver_lua {

/// A finished simulation, with the pipeline that the trace names.
struct SimulatedRun {
  serving::BatchRun run;
  serving::BatchPipeline pipeline;  ///< of replicas: stage names only
  bool replicas = false;
  std::shared_ptr<const Distribution> distribution;  ///< where lengths vary
};

/// One stage of it.
struct RunStage {
  std::string name;
  serving::StageUse usage;
};

}  // namespace solver_lua

using solver::PipelinePlan;
using solver::Plan;
using solver::ReplicatedPlan;
using solver_lua::RunStage;
using solver_lua::SimulatedRun;

namespace {

const OptionTable& simulate_options() {
  static const OptionTable table{
      "ts.simulate",
      "Runs a plan's pipeline event by event: micro-batches, chunks, token rounds, links.",
      "tessera.Run",
      {{.name = "record",
        .type = OptionType::boolean,
        .doc = "Keep the busy intervals, for save_trace",
        .default_text = "true"},
       {.name = "micro_batches",
        .type = OptionType::choice,
        .doc =
            "real: 32 in at most 6 takes the times of 6, 6, 5, 5, 5, 5; full: of six times 6, as "
            "the objective prices them",
        .default_text = "\"real\"",
        .choices = {"real", "full"}},
       {.name = "lengths",
        .type = OptionType::choice,
        .doc = "distribution: batches of the workload's own requests; means: one batch in which "
               "all have the mean lengths, as planners price it; auto: distribution where the "
               "workload has one and the plan no replicas",
        .default_text = "\"auto\"",
        .choices = {"auto", "means", "distribution"}},
       {.name = "batching",
        .type = OptionType::choice,
        .doc = "padded: prompts to the batch's longest, rows kept until the last output of their "
               "micro-batch, as LLM-PQ's runtime does; ragged: own prompts, rows given up",
        .default_text = "\"padded\"",
        .choices = {"padded", "ragged"}},
       {.name = "arrivals",
        .type = OptionType::choice,
        .doc = "all_at_once: a batch is there when it starts, drawn by seed; trace: the first "
               "requests of the trace, each from when it came",
        .default_text = "\"all_at_once\"",
        .choices = {"all_at_once", "trace"}},
       {.name = "num_batches",
        .type = OptionType::integer,
        .doc = "Batches of a distribution, one after another",
        .default_text = "16",
        .min = 1,
        .max = 100000},
       {.name = "seed",
        .type = OptionType::integer,
        .doc = "Which requests are drawn",
        .default_text = "0",
        .min = 0,
        .max = kMaxExactInteger}}};
  return table;
}

/// Every micro-batch takes the time of a full one.
void price_as_full(serving::BatchPipeline& pipeline) {
  const auto full = [p = pipeline.prefill_micro_batch_size,
                     d = pipeline.decode_micro_batch_size](serving::BatchPhase phase) {
    return phase == serving::BatchPhase::prefill ? p : d;
  };
  pipeline.stage_s = [real = pipeline.stage_s, full](std::size_t stage, serving::BatchPhase phase,
                                                     const serving::MicroBatch&,
                                                     std::int64_t index) {
    return real(stage, phase, {0, full(phase)}, index);
  };
  pipeline.link_s = [real = pipeline.link_s, full](std::size_t stage, serving::BatchPhase phase,
                                                   const serving::MicroBatch&, std::int64_t index) {
    return real(stage, phase, {0, full(phase)}, index);
  };
  pipeline.return_s = [real = pipeline.return_s, full](std::int64_t) {
    return real(full(serving::BatchPhase::decode));
  };
}

SimulatedRun run_pipeline(const PipelinePlan& plan, bool full, bool record) {
  SimulatedRun result;
  result.pipeline = solver::PlanPipeline(plan).of_means();
  if (full) price_as_full(result.pipeline);
  result.run = serving::simulate_batch(result.pipeline, record);
  return result;
}

/// Whether the workload's own requests are simulated. @throws Error where that was asked for and
/// cannot be.
bool wants_distribution(const Plan& plan, const lua_kit::Options& options) {
  const std::string lengths = options.choice("lengths");
  const bool full = options.choice("micro_batches") == "full";
  const bool possible = std::holds_alternative<PipelinePlan>(plan) && !full;
  if (lengths == "distribution" && !possible) {
    throw Error(ErrorCode::unsupported,
                options.path_of("lengths") +
                    (full ? ": requests of their own lengths have real micro-batches only"
                          : ": replicas run side by side; simulate each plan of plan.replicas"),
                options.path_of("lengths"));
  }
  const bool chosen = lengths == "distribution" ||
                      (lengths == "auto" && possible && solver::has_trace(summary_of(plan)));
  for (const char* name : {"batching", "arrivals", "num_batches", "seed"}) {
    if (chosen || !options.given(name)) continue;
    refuse(options.path_of(name),
           "one batch of the mean lengths is simulated, which has no such thing; give the workload "
           "lengths = \"trace.csv\"");
  }
  return chosen;
}

SimulatedRun run_distribution(const PipelinePlan& plan, const lua_kit::Options& options) {
  solver::BatchTrafficOptions traffic;
  traffic.batching =
      options.choice("batching") == "padded" ? solver::Batching::padded : solver::Batching::ragged;
  traffic.arrivals = options.choice("arrivals") == "trace" ? solver::BatchArrivals::trace
                                                           : solver::BatchArrivals::all_at_once;
  traffic.num_batches = options.integer("num_batches");
  traffic.seed = static_cast<std::uint64_t>(options.integer("seed"));
  solver::BatchTraffic result = solver::simulate_batches(plan, traffic, options.boolean("record"));
  SimulatedRun run;
  run.run = std::move(result.run);
  run.pipeline = std::move(result.first_pipeline);
  run.distribution = std::make_shared<solver_lua::Distribution>(
      solver_lua::Distribution{traffic, std::move(result.requests), result.num_batches,
                               std::move(result.expected), run.pipeline.stage_names});
  return run;
}

/// Replicas side by side: the slowest decides when all is done, requests are averaged over all.
SimulatedRun run_replicas(const ReplicatedPlan& plan, bool full) {
  if (const auto violation = solver::check_plan(plan)) {
    throw Error(ErrorCode::invalid_argument, "the plan is broken: " + violation->message, "plan");
  }
  SimulatedRun all;
  all.replicas = true;
  all.pipeline.batch_size = 0;
  std::vector<SimulatedRun> parts;
  for (const PipelinePlan& replica : plan.replicas) {
    parts.push_back(run_pipeline(replica, full, false));
    all.pipeline.batch_size += parts.back().pipeline.batch_size;
  }
  for (const SimulatedRun& part : parts) {
    all.run.total_s = std::max(all.run.total_s, part.run.total_s);
    all.run.prefill_s = std::max(all.run.prefill_s, part.run.prefill_s);
    all.run.ttft_max_s = std::max(all.run.ttft_max_s, part.run.ttft_max_s);
    const double share = static_cast<double>(part.pipeline.batch_size) /
                         static_cast<double>(all.pipeline.batch_size);
    all.run.ttft_s += share * part.run.ttft_s;
    all.run.tpot_s += share * part.run.tpot_s;
    all.run.decode_round_s += share * part.run.decode_round_s;
    all.run.host_s += part.run.host_s;
  }
  all.run.decode_s = all.run.total_s - all.run.prefill_s;
  all.run.throughput_tok_s =
      static_cast<double>(all.pipeline.batch_size * parts.front().pipeline.output_tokens) /
      std::max(all.run.total_s, 1e-12);
  for (std::size_t r = 0; r < parts.size(); ++r) {
    for (std::size_t k = 0; k < parts[r].run.stages.size(); ++k) {
      const double busy = parts[r].run.stages[k].busy_s;
      all.run.stages.push_back({busy, all.run.total_s > 0 ? 1 - busy / all.run.total_s : 0});
      all.pipeline.stage_names.push_back(
          fmt::format("replica {}, {}", r + 1, parts[r].pipeline.stage_names[k]));
    }
  }
  return all;
}

int save_trace(lua_State* L) {
  const auto& run = *lua_kit::check_object<SimulatedRun>(L, 1, "run");
  if (run.replicas) {
    refuse(ErrorCode::unsupported, "run:save_trace",
           "replicas run side by side; simulate and trace each plan of plan.replicas");
  }
  serving::save_chrome_trace(run.run, run.pipeline,
                             lua_kit::check_text(L, 2, "run:save_trace path"));
  return 0;
}

void push_stages(lua_State* L, const SimulatedRun& run) {
  lua_createtable(L, static_cast<int>(run.run.stages.size()), 0);
  for (std::size_t k = 0; k < run.run.stages.size(); ++k) {
    lua_kit::push_object<RunStage>(
        L, std::make_shared<RunStage>(RunStage{run.pipeline.stage_names[k], run.run.stages[k]}));
    lua_rawseti(L, -2, static_cast<int>(k) + 1);
  }
}

/// Busy intervals beyond these are not worth a picture, and would make rows of results large.
constexpr std::size_t kTimelineEvents = 256;

/// Sets field `name` of the table on top to a list with one number per event.
template <typename Value>
void set_column(lua_State* L, const serving::BatchRun& run, const char* name, Value value) {
  const std::size_t count = std::min(run.spans.size(), kTimelineEvents);
  lua_createtable(L, static_cast<int>(count), 0);
  for (std::size_t i = 0; i < count; ++i) {
    lua_pushnumber(L, static_cast<double>(value(run.spans[i])));
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  lua_setfield(L, -2, name);
}

/// The first events as columns, for a picture; nil where none are kept.
void push_timeline(lua_State* L, const SimulatedRun& r) {
  const serving::BatchRun& run = r.run;
  if (run.spans.empty()) {
    lua_pushnil(L);
    return;
  }
  lua_createtable(L, 0, 8);
  lua_kit::set_texts(L, "stages", r.pipeline.stage_names);
  lua_kit::set_integer(L, "num_events", static_cast<std::int64_t>(run.spans.size()));
  set_column(L, run, "stage_index", [](const serving::BatchSpan& s) { return s.track / 2; });
  set_column(L, run, "is_link", [](const serving::BatchSpan& s) { return s.track % 2; });
  set_column(L, run, "is_decode",
             [](const serving::BatchSpan& s) { return s.phase == serving::BatchPhase::decode; });
  set_column(L, run, "micro_batch", [](const serving::BatchSpan& s) { return s.micro_batch; });
  set_column(L, run, "start_s", [](const serving::BatchSpan& s) { return s.start_s; });
  set_column(L, run, "duration_s", [](const serving::BatchSpan& s) { return s.duration_s; });
}

std::string describe_stage(const RunStage& s) {
  return fmt::format("{}: busy {}, idle {:.0f} %", s.name, format_seconds(s.usage.busy_s),
                     100 * s.usage.idle_ratio);
}

/// The batch of mean lengths, as a run of its own.
void push_expected(lua_State* L, const SimulatedRun& r) {
  if (r.distribution == nullptr) {
    lua_pushnil(L);
    return;
  }
  auto expected = std::make_shared<SimulatedRun>();
  expected->run = r.distribution->expected;
  expected->pipeline.stage_names = r.distribution->stage_names;
  lua_kit::push_object<SimulatedRun>(L, std::move(expected));
}

/// One row of unit_times.
void push_unit(lua_State* L, const serving::BatchPipeline& pipeline, serving::BatchPhase phase,
               std::int64_t micro_batch, const serving::MicroBatch& part, std::int64_t index) {
  const bool decodes = phase == serving::BatchPhase::decode;
  const std::size_t stages = pipeline.stage_names.size();
  std::vector<double> row{decodes ? 1.0 : 0.0, static_cast<double>(micro_batch),
                          static_cast<double>(index), decodes ? pipeline.return_s(part.size) : 0};
  for (std::size_t k = 0; k < stages; ++k) {
    row.push_back(pipeline.stage_s(k, phase, part, index));
    if (k + 1 < stages) row.push_back(pipeline.link_s(k, phase, part, index));
  }
  lua_kit::push_numbers(L, row);
}

int unit_times(lua_State* L) {
  const auto& run = *lua_kit::check_object<SimulatedRun>(L, 1, "run");
  const serving::BatchPipeline& pipeline = run.pipeline;
  if (run.replicas || run.distribution != nullptr) {
    refuse(ErrorCode::unsupported, "run:unit_times", "of one batch of mean lengths only");
  }
  lua_newtable(L);
  int count = 0;
  const auto add = [&](serving::BatchPhase phase, std::int64_t largest, std::int64_t first,
                       std::int64_t last) {
    serving::MicroBatch part;
    std::int64_t number = 0;
    for (const std::int64_t size : serving::micro_batch_sizes(pipeline.batch_size, largest)) {
      part.size = size;
      for (std::int64_t index = first; index <= last; ++index) {
        push_unit(L, pipeline, phase, number, part, index);
        lua_rawseti(L, -2, ++count);
      }
      part.first_request += size;
      ++number;
    }
  };
  add(serving::BatchPhase::prefill, pipeline.prefill_micro_batch_size, 0, pipeline.num_chunks - 1);
  add(serving::BatchPhase::decode, pipeline.decode_micro_batch_size, 1, pipeline.output_tokens - 1);
  return 1;
}

int served_requests(lua_State* L) {
  solver_lua::push_requests(L,
                            lua_kit::check_object<SimulatedRun>(L, 1, "run")->distribution.get());
  return 1;
}

std::string describe(const SimulatedRun& r) {
  const serving::BatchRun& run = r.run;
  std::string text = fmt::format(
      "Simulated: {} in all, prefill {}, decode {}; TTFT {} (worst {}), TPOT {}; {:.1f} tok/s "
      "(modelled)\n",
      format_seconds(run.total_s), format_seconds(run.prefill_s), format_seconds(run.decode_s),
      format_seconds(run.ttft_s), format_seconds(run.ttft_max_s), format_seconds(run.tpot_s),
      run.throughput_tok_s);
  if (r.distribution != nullptr) text += solver_lua::describe(*r.distribution, run);
  for (std::size_t k = 0; k < run.stages.size(); ++k) {
    text += "  " + describe_stage({r.pipeline.stage_names[k], run.stages[k]}) + "\n";
  }
  return text;
}

}  // namespace

template <>
const lua_kit::ObjectType<RunStage>& lua_kit::object_type<RunStage>() {
  static const ObjectType<RunStage> type{
      .name = "tessera.RunStage",
      .doc = "How busy a stage was.",
      .fields = {{"name", "string", "Stage and device",
                  [](lua_State* L, const RunStage& s) { push_text(L, s.name); }},
                 {"busy_s", "number", "Time it computed (s)",
                  [](lua_State* L, const RunStage& s) { lua_pushnumber(L, s.usage.busy_s); }},
                 {"idle_ratio", "number", "Share of the run it did not",
                  [](lua_State* L, const RunStage& s) { lua_pushnumber(L, s.usage.idle_ratio); }}},
      .methods = {},
      .summary = describe_stage};
  return type;
}

template <>
const lua_kit::ObjectType<SimulatedRun>& lua_kit::object_type<SimulatedRun>() {
  using R = SimulatedRun;
  using solver_lua::expected_error;
  using solver_lua::push_quantiles;
  static const ObjectType<R> type{
      .name = "tessera.Run",
      .doc = "What a simulation saw.",
      .fields = {{"total_s", "number", "Last token of the last request (s)",
                  [](lua_State* L, const R& r) { lua_pushnumber(L, r.run.total_s); }},
                 {"prefill_s", "number", "Until the last prompt is through (s)",
                  [](lua_State* L, const R& r) { lua_pushnumber(L, r.run.prefill_s); }},
                 {"decode_s", "number", "The rest (s)",
                  [](lua_State* L, const R& r) { lua_pushnumber(L, r.run.decode_s); }},
                 {"ttft_s", "number", "Time to first token, mean over requests (s)",
                  [](lua_State* L, const R& r) { lua_pushnumber(L, r.run.ttft_s); }},
                 {"ttft_max_s", "number", "Of the last request served (s)",
                  [](lua_State* L, const R& r) { lua_pushnumber(L, r.run.ttft_max_s); }},
                 {"tpot_s", "number",
                  "Time per output token after the first, mean over requests (s)",
                  [](lua_State* L, const R& r) { lua_pushnumber(L, r.run.tpot_s); }},
                 {"decode_round_s", "number", "Mean period between token rounds (s)",
                  [](lua_State* L, const R& r) { lua_pushnumber(L, r.run.decode_round_s); }},
                 {"host_s", "number",
                  "Time of the host, in the first stage's busy_s: scheduling, inputs, sampling; 0 "
                  "where the kernel set has none (s)",
                  [](lua_State* L, const R& r) { lua_pushnumber(L, r.run.host_s); }},
                 {"throughput_tok_s", "number", "Output tokens over total_s (tok/s)",
                  [](lua_State* L, const R& r) { lua_pushnumber(L, r.run.throughput_tok_s); }},
                 {"num_batches", "integer", "Batches, one after another",
                  [](lua_State* L, const R& r) {
                    push_integer(L, r.distribution == nullptr ? 1 : r.distribution->num_batches);
                  }},
                 {"quantiles", "table?",
                  "Where lengths vary, over requests: ttft_s, tpot_s and e2e_s, each { mean, p50, "
                  "p90, p99, max } (s)",
                  [](lua_State* L, const R& r) { push_quantiles(L, r.distribution.get()); }},
                 {"expected", "tessera.Run?",
                  "Where lengths vary: one batch in which all requests have the mean lengths, as "
                  "planners price it",
                  push_expected},
                 {"expected_error", "number?",
                  "Throughput by the mean lengths over that of the distribution, less 1",
                  [](lua_State* L, const R& r) {
                    r.distribution == nullptr
                        ? lua_pushnil(L)
                        : lua_pushnumber(L, expected_error(*r.distribution, r.run));
                  }},
                 {"provenance", "string", "Of the stage times",
                  [](lua_State* L, const R&) { push_text(L, "modelled"); }},
                 {"stages", "tessera.RunStage[]", "In pipeline order", push_stages},
                 {"timeline", "table?",
                  "First 256 busy intervals as columns: stage_index, is_link (of the link after "
                  "it), is_decode, micro_batch, start_s, duration_s; num_events: of the whole run",
                  push_timeline}},
      .methods = {{"save_trace", guarded<save_trace>, "(path: string)",
                   "Chrome trace for Perfetto, one track per stage; of several batches the first"},
                  {"unit_times", guarded<unit_times>, "(): number[][]",
                   "Of one batch of mean lengths, a row for each micro-batch and chunk of prefill, "
                   "then each round of decode: 1 in decode else 0, micro-batch (from 0), chunk "
                   "(from 0) or round (from 1), then s: the tokens' way back, first stage, link, "
                   "second stage, ..."},
                  {"requests", guarded<served_requests>, "(): table?",
                   "Where lengths vary, every request as columns prompt_tokens, output_tokens, "
                   "arrival_s, ttft_s, tpot_s, e2e_s"}},
      .summary =
          [](const R& r) {
            return fmt::format("run: {}, {:.1f} tok/s", format_seconds(r.run.total_s),
                               r.run.throughput_tok_s);
          },
      .describe = describe};
  return type;
}

namespace solver_lua {

int simulate(lua_State* L) {
  const Plan& plan = *lua_kit::check_object<Plan>(L, 1, "ts.simulate plan");
  const lua_kit::Options options(L, 2, simulate_options(), "ts.simulate");
  const bool full = options.choice("micro_batches") == "full";
  const bool distribution = wants_distribution(plan, options);
  auto result = std::make_shared<SimulatedRun>();
  if (const auto* pipeline = std::get_if<PipelinePlan>(&plan)) {
    *result = distribution ? run_distribution(*pipeline, options)
                           : run_pipeline(*pipeline, full, options.boolean("record"));
  } else {
    *result = run_replicas(std::get<ReplicatedPlan>(plan), full);
  }
  lua_kit::push_object<SimulatedRun>(L, std::move(result));
  return 1;
}

void register_run(lua_State* L) {
  lua_kit::register_object<SimulatedRun>(L);
  lua_kit::register_object<RunStage>(L);
  core_lua::environment(L).reference.add_object<SimulatedRun>();
  core_lua::environment(L).reference.add_object<RunStage>();
  core_lua::environment(L).reference.add(simulate_options());
  core_lua::environment(L).reference.add(
      lua_kit::FunctionCard{"ts.simulate",
                            std::string(simulate_options().doc),
                            {{"plan", "tessera.Plan", "Any plan"}},
                            "tessera.Run"});
}

}  // namespace solver_lua
}  // namespace tessera
