#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/value.h"

namespace tessera {

const OptionTable& core_lua::workload_options() {
  static const OptionTable table{
      "ts.workload",
      "One batch of requests: lengths per request and how many at once.",
      "tessera.Workload",
      {{.name = "name", .type = OptionType::text, .doc = "Name to refer to it by"},
       {.name = "prompt_tokens",
        .doc = "Prompt length per request, the mean where lengths vary",
        .unit = "tokens",
        .default_text = "512",
        .min = 1,
        .max = 1e8},
       {.name = "output_tokens",
        .doc = "Generated tokens per request, the mean where lengths vary",
        .unit = "tokens",
        .default_text = "100",
        .min = 1,
        .max = 1e8},
       {.name = "batch_size",
        .type = OptionType::integer,
        .doc = "Requests served together",
        .unit = "requests",
        .default_text = "32",
        .min = 1,
        .max = 1e6},
       {.name = "max_prompt_tokens",
        .type = OptionType::integer,
        .doc = "Longest prompt, for which memory is reserved; default: the mean, or the longest "
               "of lengths, whose longer requests are left out",
        .unit = "tokens",
        .min = 1,
        .max = 1e8},
       {.name = "max_output_tokens",
        .type = OptionType::integer,
        .doc = "Longest output, for which memory is reserved; default: as for prompts",
        .unit = "tokens",
        .min = 1,
        .max = 1e8},
       {.name = "chunk_tokens",
        .type = OptionType::integer,
        .doc = "Chunked prefill: tokens of a prompt per pass",
        .unit = "tokens",
        .min = 1,
        .max = 1e8},
       {.name = "lengths",
        .type = OptionType::text,
        .doc = "CSV file of requests (Azure's, Vidur's and ShareGPT's columns, or two lengths per "
               "line): planners use the means, ts.simulate the whole distribution and, where "
               "there are any, arrivals"},
       {.name = "source", .type = OptionType::text, .doc = "Where the figures come from"}},
      "string"};
  return table;
}

namespace {

/// The trace as columns, for tables and pictures; nil where all requests are alike.
int requests(lua_State* L) {
  const Workload& w = *lua_kit::check_object<Workload>(L, 1, "workload");
  if (w.trace == nullptr) {
    lua_pushnil(L);
    return 1;
  }
  std::vector<double> prompts, outputs, arrivals;
  for (const TracedRequest& request : w.trace->requests) {
    prompts.push_back(static_cast<double>(request.prompt_tokens));
    outputs.push_back(static_cast<double>(request.output_tokens));
    arrivals.push_back(request.arrival_s);
  }
  lua_createtable(L, 0, 3);
  lua_kit::set_numbers(L, "prompt_tokens", prompts);
  lua_kit::set_numbers(L, "output_tokens", outputs);
  if (w.trace->has_arrivals) {
    lua_kit::set_numbers(L, "arrival_s", arrivals);
  }
  return 1;
}

std::string summary(const Workload& w) {
  std::string text =
      fmt::format("workload: {} requests of {} prompt and {} output tokens", w.batch_size,
                  format_number(w.prompt_tokens), format_number(w.output_tokens));
  if (w.chunk_tokens)
    text += fmt::format(", prefill in {} chunks of {}", w.num_chunks(), *w.chunk_tokens);
  if (w.trace != nullptr) {
    text += fmt::format(" on average over {} traced requests{} (at most {} and {})",
                        w.trace->requests.size(), w.trace->has_arrivals ? " with arrivals" : "",
                        w.max_prompt_tokens, w.max_output_tokens);
  }
  return text;
}

}  // namespace

template <>
const lua_kit::ObjectType<Workload>& lua_kit::object_type<Workload>() {
  static const ObjectType<Workload> type{
      .name = "tessera.Workload",
      .doc = "One batch of requests.",
      .fields = {{"name", "string", "Name",
                  [](lua_State* L, const Workload& w) { push_text(L, w.name); }},
                 {"prompt_tokens", "number", "Mean prompt length (tokens)",
                  [](lua_State* L, const Workload& w) { lua_pushnumber(L, w.prompt_tokens); }},
                 {"output_tokens", "number", "Mean output length (tokens)",
                  [](lua_State* L, const Workload& w) { lua_pushnumber(L, w.output_tokens); }},
                 {"batch_size", "integer", "Requests",
                  [](lua_State* L, const Workload& w) { push_integer(L, w.batch_size); }},
                 {"max_prompt_tokens", "integer", "Longest prompt (tokens)",
                  [](lua_State* L, const Workload& w) { push_integer(L, w.max_prompt_tokens); }},
                 {"max_output_tokens", "integer", "Longest output (tokens)",
                  [](lua_State* L, const Workload& w) { push_integer(L, w.max_output_tokens); }},
                 {"chunk_tokens", "integer?", "Tokens per prefill pass",
                  [](lua_State* L, const Workload& w) {
                    if (w.chunk_tokens) {
                      push_integer(L, *w.chunk_tokens);
                    } else {
                      lua_pushnil(L);
                    }
                  }},
                 {"num_chunks", "integer", "Prefill passes per prompt",
                  [](lua_State* L, const Workload& w) { push_integer(L, w.num_chunks()); }},
                 {"context_tokens", "number",
                  "Tokens in a request's KV cache, mean over decode steps (tokens)",
                  [](lua_State* L, const Workload& w) {
                    lua_pushnumber(L, w.mean_context_tokens());
                  }},
                 {"num_requests", "integer?", "Requests that the lengths vary over",
                  [](lua_State* L, const Workload& w) {
                    w.trace == nullptr
                        ? lua_pushnil(L)
                        : push_integer(L, static_cast<std::int64_t>(w.trace->requests.size()));
                  }},
                 {"num_left_out", "integer?", "Requests of the file beyond the longest allowed",
                  [](lua_State* L, const Workload& w) {
                    w.trace == nullptr ? lua_pushnil(L) : push_integer(L, w.trace->num_left_out);
                  }},
                 {"has_arrivals", "boolean", "Whether it is known when the requests came",
                  [](lua_State* L, const Workload& w) {
                    lua_pushboolean(L, w.trace != nullptr && w.trace->has_arrivals ? 1 : 0);
                  }},
                 {"source", "string", "Where the figures come from",
                  [](lua_State* L, const Workload& w) { push_text(L, w.source); }}},
      .methods = {{"requests", guarded<requests>, "(): table?",
                   "The traced requests as columns prompt_tokens, output_tokens and, where known, "
                   "arrival_s; nil where all are alike"}},
      .summary = summary};
  return type;
}

namespace {

/// Requests beyond the given maxima are left out, so what stays is what memory is reserved for.
void take_trace(Workload& w, const lua_kit::Options& options) {
  if (options.given("prompt_tokens") || options.given("output_tokens")) {
    refuse(options.path_of("lengths"), "give either lengths or prompt_tokens and output_tokens");
  }
  const auto most = [&](const char* name) {
    return options.given(name) ? options.integer(name) : std::int64_t{100'000'000};
  };
  const std::string path = options.text("lengths");
  w.set_trace(std::make_shared<RequestTrace>(
      read_requests(path, most("max_prompt_tokens"), most("max_output_tokens"))));
  if (w.source.empty()) w.source = path.substr(path.rfind('/') + 1);
}

void set_longest(Workload& w, const lua_kit::Options& options) {
  const auto longest = [&](const char* name, double mean) {
    if (!options.given(name)) return static_cast<std::int64_t>(std::ceil(mean));
    const std::int64_t given = options.integer(name);
    if (static_cast<double>(given) < mean) {
      refuse(ErrorCode::out_of_range, options.path_of(name), "{} is below the mean of {} tokens",
             given, format_number(mean));
    }
    return given;
  };
  w.max_prompt_tokens = longest("max_prompt_tokens", w.prompt_tokens);
  w.max_output_tokens = longest("max_output_tokens", w.output_tokens);
}

}  // namespace

namespace core_lua {

std::shared_ptr<const Workload> workload_argument(lua_State* L, int index,
                                                  const std::string& path) {
  if (const auto* held = lua_kit::test_object<Workload>(L, index)) return *held;
  if (lua_type(L, index) == LUA_TSTRING) {
    const std::string file =
        environment(L).folders.require("workloads", lua_kit::check_text(L, index, path), path);
    return std::make_shared<Workload>(workload_from_json(read_json_file(file), file));
  }
  const lua_kit::Options options(L, index, core_lua::workload_options(), path);
  Workload w;
  if (options.given("name")) w.name = options.text("name");
  if (options.given("source")) w.source = options.text("source");
  w.prompt_tokens = options.number("prompt_tokens");
  w.output_tokens = options.number("output_tokens");
  w.batch_size = options.integer("batch_size");
  if (options.given("chunk_tokens")) w.chunk_tokens = options.integer("chunk_tokens");
  if (options.given("lengths")) {
    take_trace(w, options);
  } else {
    set_longest(w, options);
  }
  return std::make_shared<Workload>(w);
}

int new_workload(lua_State* L) {
  lua_kit::push_object<Workload>(L, workload_argument(L, 1, "ts.workload"));
  return 1;
}

void register_workload(lua_State* L) {
  lua_kit::register_object<Workload>(L);
  environment(L).reference.add_object<Workload>();
  environment(L).reference.add(core_lua::workload_options());
}

}  // namespace core_lua
}  // namespace tessera
