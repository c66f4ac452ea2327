#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/value.h"

namespace tessera {

const OptionTable& core_lua::workload_options() {
  static const OptionTable table = lua_kit::option_table<Workload>(
      {"ts.workload",
       "One batch of requests: lengths per request and how many at once.",
       "tessera.Workload",
       {{.name = "lengths",
         .type = OptionType::text,
         .doc = "CSV file of requests (Azure's, Vidur's and ShareGPT's columns, or two lengths per "
                "line): planners use the means, ts.simulate the whole distribution and, where "
                "there are any, arrivals"}},
       "string"});
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
  lua_kit::push_numbers(L, prompts);
  lua_setfield(L, -2, "prompt_tokens");
  lua_kit::push_numbers(L, outputs);
  lua_setfield(L, -2, "output_tokens");
  if (w.trace->has_arrivals) {
    lua_kit::push_numbers(L, arrivals);
    lua_setfield(L, -2, "arrival_s");
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
      .fields = fields_of<Workload>(),
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
    throw Error(
        ErrorCode::invalid_argument,
        options.path_of("lengths") + ": give either lengths or prompt_tokens and output_tokens",
        options.path_of("lengths"));
  }
  const auto most = [&](const char* name) {
    return options.given(name) ? options.integer(name) : std::int64_t{100'000'000};
  };
  const std::string path = options.text("lengths");
  w.set_trace(std::make_shared<RequestTrace>(
      read_requests(path, most("max_prompt_tokens"), most("max_output_tokens"))));
  if (w.source.empty()) w.source = path.substr(path.rfind('/') + 1);
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
  lua_kit::read_options(options, w);
  if (options.given("lengths")) {
    take_trace(w, options);
  } else {
    if (!options.given("max_prompt_tokens")) w.max_prompt_tokens = whole_tokens(w.prompt_tokens);
    if (!options.given("max_output_tokens")) w.max_output_tokens = whole_tokens(w.output_tokens);
    check_record(w, options.field_path());
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
