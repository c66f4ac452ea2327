// What ts.serve gives.
#include "served_lua.h"

#include <fmt/format.h>

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/value.h"

namespace tessera {

using serving::Log;
using serving::RequestRecord;
using serving::Served;
using serving::StepRecord;
using serving::Summary;
using serving::Ticks;

namespace {

const Served& served_of(lua_State* L) { return *lua_kit::check_object<Served>(L, 1, "served"); }

void set_time(lua_State* L, const char* name, Ticks time) {
  if (time != serving::kNever) lua_kit::set_number(L, name, serving::to_seconds(time));
}

/// Time from one point to another, where both were reached.
void set_between(lua_State* L, const char* name, Ticks from, Ticks to) {
  if (from != serving::kNever && to != serving::kNever) set_time(L, name, to - from);
}

void push_request(lua_State* L, std::size_t index, const RequestRecord& r) {
  lua_createtable(L, 0, 18);
  lua_kit::set_integer(L, "request", static_cast<std::int64_t>(index));
  lua_kit::set_text(L, "outcome", name_of(r.outcome));
  set_time(L, "arrival_s", r.arrival);
  set_time(L, "first_scheduled_s", r.first_scheduled);
  set_time(L, "first_token_s", r.first_token);
  set_time(L, "cancelled_s", r.cancelled);
  set_between(L, "queue_s", r.arrival, r.first_scheduled);
  set_between(L, "ttft_s", r.arrival, r.first_token);
  if (r.outcome == serving::Outcome::finished) {
    set_time(L, "last_token_s", r.last_token);
    set_between(L, "e2e_s", r.arrival, r.last_token);
    if (r.output_tokens > 1) {
      lua_kit::set_number(L, "tpot_s",
                          serving::to_seconds(r.last_token - r.first_token) /
                              static_cast<double>(r.output_tokens - 1));
    }
  }
  lua_kit::set_integer(L, "output_tokens", r.output_tokens);
  lua_kit::set_integer(L, "cached_tokens", r.cached_tokens);
  lua_kit::set_integer(L, "recomputed_tokens", r.recomputed_tokens);
  lua_kit::set_integer(L, "preemptions", r.num_preemptions);
  if (r.replica >= 0) lua_kit::set_integer(L, "replica", r.replica);
  if (r.is_unplaced) lua_kit::set_boolean(L, "unplaced", true);
  set_time(L, "transfer_s", r.transferred);
  static constexpr const char* limits[serving::kNumLimits] = {"step", "seats", "tokens", "blocks",
                                                              "policy"};
  lua_createtable(L, 0, serving::kNumLimits);
  for (std::size_t limit = 0; limit < serving::kNumLimits; ++limit) {
    set_time(L, limits[limit], r.waited[limit]);
  }
  lua_setfield(L, -2, "waited");
}

int served_requests(lua_State* L) {
  const Log& log = served_of(L).log;
  lua_createtable(L, static_cast<int>(log.requests.size()), 0);
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    push_request(L, i, log.requests[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  return 1;
}

void set_ids(lua_State* L, const char* name, const std::vector<std::int64_t>& ids) {
  lua_kit::push_value(L, ids);
  lua_setfield(L, -2, name);
}

void push_step(lua_State* L, const StepRecord& step) {
  lua_createtable(L, 0, 12);
  lua_kit::set_integer(L, "step", step.step);
  lua_kit::set_integer(L, "replica", step.replica);
  set_time(L, "start_s", step.start);
  set_time(L, "duration_s", step.duration);
  lua_createtable(L, static_cast<int>(step.scheduled.size()), 0);
  int place = 0;
  for (const serving::ScheduledTokens& part : step.scheduled) {
    lua_createtable(L, 0, 2);
    lua_kit::set_integer(L, "request", part.request);
    lua_kit::set_integer(L, "tokens", part.tokens);
    lua_rawseti(L, -2, ++place);
  }
  lua_setfield(L, -2, "scheduled");
  lua_createtable(L, static_cast<int>(step.drafts.size()), 0);
  place = 0;
  for (const serving::DraftRecord& part : step.drafts) {
    if (part.drafts == 0) continue;
    lua_createtable(L, 0, 3);
    lua_kit::set_integer(L, "request", part.request);
    lua_kit::set_integer(L, "drafts", part.drafts);
    lua_kit::set_integer(L, "accepted", part.accepted);
    lua_rawseti(L, -2, ++place);
  }
  lua_setfield(L, -2, "verified");
  set_ids(L, "preempted", step.preempted);
  set_ids(L, "finished", step.finished);
  lua_kit::set_integer(L, "free_blocks", step.free_blocks);
  lua_kit::set_integer(L, "waiting", step.num_waiting);
  lua_kit::set_integer(L, "running", step.num_running);
  lua_kit::set_text(L, "limit", name_of(step.limit));
}

int served_steps(lua_State* L) {
  const Log& log = served_of(L).log;
  if (!log.steps_recorded) {
    refuse(ErrorCode::unsupported, "served:steps",
           "the steps of this run were not recorded; pass record = true to ts.serve");
  }
  lua_createtable(L, static_cast<int>(log.steps.size()), 0);
  int row = 0;
  for (const StepRecord& step : log.steps) {
    push_step(L, step);
    lua_rawseti(L, -2, ++row);
  }
  return 1;
}

int served_series(lua_State* L) {
  const std::int64_t rows =
      lua_isnoneornil(L, 2) ? 500 : lua_kit::check_integer(L, 2, "served:series rows", 1, 1e6);
  lua_kit::push_value(L, serving::series_of(served_of(L).log, static_cast<std::size_t>(rows)));
  return 1;
}

int served_save_trace(lua_State* L) {
  const Served& served = served_of(L);
  const std::string path = lua_kit::check_text(L, 2, "served:save_trace path");
  std::optional<serving::ReplayCard> card;
  if (serving::why_no_replay(served).empty()) card = serving::replay_card(served);
  serving::save_chrome_trace(served.log, path, serving::kMostTraceEvents, card ? &*card : nullptr);
  return 0;
}

const std::vector<serving::Output>& outputs_of(lua_State* L, const char* what) {
  const Served& served = served_of(L);
  if (served.outputs.empty()) {
    refuse(ErrorCode::unsupported, what,
           "a simulation generates no tokens; ts.serve with real = { path = DIR } does");
  }
  return served.outputs;
}

template <auto Of>
int served_tokens(lua_State* L) {
  const auto& outputs = outputs_of(L, "served:tokens");
  lua_createtable(L, static_cast<int>(outputs.size()), 0);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    lua_kit::push_value(L, outputs[i].*Of);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  return 1;
}

int served_save_requests(lua_State* L) {
  serving::save_requests_csv(served_of(L).log,
                             lua_kit::check_text(L, 2, "served:save_requests path"));
  return 0;
}

std::string served_summary(const Served& served) {
  const Summary& s = served.summary;
  if (!s.stable) return "served: " + s.verdict;
  std::string text = fmt::format("served: {} of {} requests, {} tok/s", s.num_finished,
                                 s.num_requests, format_number(s.throughput_tok_s, 4));
  if (s.ttft_s.p99) text += ", TTFT p99 " + format_seconds(*s.ttft_s.p99);
  if (s.tpot_s.p99) text += ", TPOT p99 " + format_seconds(*s.tpot_s.p99);
  return text;
}

std::string served_text(const Served& served) {
  std::string text = serving::describe(served.summary);
  if (served.models) text += serving::describe(*served.models);
  return text;
}

}  // namespace

/// Its place, and the figures of its requests.
template <>
struct lua_kit::ScriptValue<serving::ModelSummary> {
  static std::string type() { return "table"; }
  static void push(lua_State* L, const serving::ModelSummary& model) {
    luaL_checkstack(L, 1, "a model");
    lua_newtable(L);
    set_fields(L, model.run);
    set_fields(L, model);
  }
};

template <>
const lua_kit::ObjectType<Served>& lua_kit::object_type<Served>() {
  constexpr auto show = [](const Served& served, auto&& read) { read(served.summary); };
  constexpr auto show_models = [](const Served& served, auto&& read) {
    if (served.models) read(*served.models);
  };
  static const ObjectType<Served> type{
      .name = "tessera.Served",
      .doc =
          "What became of traffic. Where `stable` is false its latencies measure how long the "
          "run went on.",
      .fields =
          joined<Served>({fields_shown<Served, Summary, show>(),
                          fields_shown<Served, serving::ModelsSummary, show_models>(false),
                          {{"text", "string", "What print shows",
                            [](lua_State* L, const Served& s) { push_text(L, served_text(s)); }}}}),
      .methods =
          {{"tokens", guarded<served_tokens<&serving::Output::tokens>>, "(): integer[][]",
            "Where a model ran: what it said to each request, in order of the traffic, without the "
            "token that ended it"},
           {"prompts", guarded<served_tokens<&serving::Output::prompt>>, "(): integer[][]",
            "Where a model ran: the tokens of each request's prompt"},
           {"texts", guarded<served_tokens<&serving::Output::text>>, "(): string[]",
            "Where a model ran: what it said, as text"},
           {"stop_reasons", guarded<served_tokens<&serving::Output::stop_reason>>, "(): string[]",
            "Where a model ran: why each ended, stop_token, max_tokens or context; empty: it did "
            "not"},
           {"requests", guarded<served_requests>, "(): table[]",
            "A row per request: request (0-based), outcome, arrival_s, first_scheduled_s, "
            "first_token_s, last_token_s, queue_s, ttft_s, tpot_s, e2e_s, output_tokens, "
            "cached_tokens, recomputed_tokens, preemptions, replica (0-based), transfer_s, and "
            "unplaced (rejected, as its model was not there), "
            "waited: seconds before its first step by what stopped the queue (step, seats, tokens, "
            "blocks, policy). What did not happen is nil"},
           {"steps", guarded<served_steps>, "(): table[]",
            "A row per step: step, replica (0-based), start_s, duration_s, scheduled (a list of "
            "{ request, tokens }), verified (a list of { request, drafts, accepted }), preempted, "
            "finished, free_blocks, waiting, running, and limit, which stopped admission (none, "
            "seats, tokens, blocks, policy)"},
           {"series", guarded<served_series>, "(rows: integer?): table[]",
            "The state over time in equal stretches, 500 unless said: time_s, waiting, running, "
            "used_blocks, throughput_tok_s"},
           {"save_trace", guarded<served_save_trace>, "(path: string)",
            "Writes a trace for Perfetto or chrome://tracing: steps, requests, counters. Of a run "
            "of "
            "one engine whose steps were kept ts.replay reads it"},
           {"save_requests", guarded<served_save_requests>, "(path: string)",
            "Writes a CSV with a row per request"}},
      .summary = served_summary,
      .describe = served_text};
  return type;
}

template <>
const lua_kit::ObjectType<serving_lua::RealServer>&
lua_kit::object_type<serving_lua::RealServer>() {
  static const ObjectType<serving_lua::RealServer> type{
      .name = "tessera.RealServer",
      .doc = "A model that serves, for ts.serve.",
      .fields = {},
      .methods = {},
      .summary = [](const serving_lua::RealServer&) { return std::string("a model that serves"); }};
  return type;
}

namespace serving_lua {

void register_served(lua_State* L) {
  lua_kit::register_object<Served>(L);
  lua_kit::register_object<RealServer>(L);
  lua_kit::Reference& reference = core_lua::environment(L).reference;
  reference.add_object<Served>();
  reference.add(lua_kit::FunctionCard{
      "ts.replay",
      "Takes a recorded run again: the simulator with the starts and ends of its steps, its "
      "arrivals, cancels, draft counts and accepted drafts. Whether decisions, blocks, preemptions "
      "and ends are the same: { identical, num_steps, num_requests, first_difference }.",
      {{"run", "tessera.Served|string", "Of ts.serve, or the file of served:save_trace"}},
      "table"});
}

}  // namespace serving_lua
}  // namespace tessera
