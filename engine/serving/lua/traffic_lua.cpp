#include <fmt/format.h>

#include <cmath>
#include <unordered_map>

#include "core_lua.h"
#include "serving_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/serving/joined_traffic.h"
#include "tessera/serving/traffic_options.h"

namespace tessera {

using serving::Request;
using serving::Traffic;
using serving::TrafficOptions;

const OptionTable& serving_lua::traffic_options() {
  static const OptionTable table = lua_kit::option_table<TrafficOptions>(
      {"ts.traffic",
       "The requests of a served run: when they come, how long they are, what they share.",
       "tessera.Traffic",
       {}});
  return table;
}

namespace {

const OptionTable& scaled_options() {
  static const OptionTable table{"traffic:scaled",
                                 "The same requests at another rate: gaps are divided, lengths and "
                                 "think times stay.",
                                 "tessera.Traffic",
                                 {{.name = "rate_per_s",
                                   .type = OptionType::number,
                                   .doc = "Requests per second",
                                   .unit = "1/s",
                                   .min = 0,
                                   .required = true}}};
  return table;
}

const Traffic& self(lua_State* L) { return *lua_kit::check_object<Traffic>(L, 1, "traffic"); }

/// Counts the turns of sessions, from 1 on.
class Turns {
 public:
  std::int64_t of(const Request& request) {
    return request.stream < 0 ? 1 : ++seen_[request.stream];
  }

 private:
  std::unordered_map<std::int64_t, std::int64_t> seen_;
};

void push_request(lua_State* L, const Traffic& traffic, const Request& r, std::int64_t turn) {
  lua_createtable(L, 0, 8);
  lua_kit::set_number(L, r.after < 0 ? "arrival_s" : "think_s", serving::to_seconds(r.arrival));
  lua_kit::set_integer(L, "prompt_tokens", r.prompt_tokens);
  lua_kit::set_integer(L, "output_tokens", r.output_tokens);
  lua_kit::set_integer(L, "max_tokens", r.max_tokens > 0 ? r.max_tokens : r.output_tokens);
  if (r.model >= 0) {
    lua_kit::set_text(L, "model", traffic.models[static_cast<std::size_t>(r.model)]);
  }
  lua_kit::set_integer(L, "priority", r.priority);
  lua_kit::set_integer(L, "slo_class", r.slo_class);
  if (r.prefix_group >= 0) {
    lua_kit::set_integer(L, "prefix_group", r.prefix_group);
    lua_kit::set_integer(L, "prefix_tokens", r.prefix_tokens);
  }
  if (r.stream >= 0) {
    lua_kit::set_integer(L, "session", r.stream);
    lua_kit::set_integer(L, "turn", turn);
  }
  if (r.after >= 0) lua_kit::set_integer(L, "after", r.after);
  if (r.cancel_after != serving::kNever) {
    lua_kit::set_number(L, "cancel_after_s", serving::to_seconds(r.cancel_after));
  }
}

int requests(lua_State* L) {
  const Traffic& traffic = self(L);
  lua_createtable(L, static_cast<int>(traffic.requests.size()), 0);
  Turns turns;
  int row = 0;
  for (const Request& request : traffic.requests) {
    push_request(L, traffic, request, turns.of(request));
    lua_rawseti(L, -2, ++row);
  }
  return 1;
}

int save(lua_State* L) {
  serving::write_trace(self(L), lua_kit::check_text(L, 2, "traffic:save path"));
  return 0;
}

int scaled(lua_State* L) {
  const Traffic& traffic = self(L);
  const lua_kit::Options options(L, 2, scaled_options(), "traffic:scaled");
  lua_kit::push_object<Traffic>(
      L, std::make_shared<Traffic>(serving::scaled(traffic, options.number("rate_per_s"),
                                                   options.path_of("rate_per_s"))));
  return 1;
}

/// traffic:joined { other, ... }
int joined_with(lua_State* L) {
  const std::string path = "traffic:joined";
  std::vector<std::shared_ptr<const Traffic>> held;  // made of tables, and so of nobody else
  std::vector<std::reference_wrapper<const Traffic>> streams{self(L)};
  lua_kit::for_each_item(L, 2, path, [&](std::size_t, const std::string& item) {
    held.push_back(serving_lua::traffic_argument(L, lua_gettop(L), item));
    streams.emplace_back(*held.back());
  });
  lua_kit::push_object<Traffic>(L, std::make_shared<Traffic>(serving::joined(streams, path)));
  return 1;
}

std::string summary(const Traffic& traffic) { return "traffic: " + traffic.description; }

std::string describe(const Traffic& traffic) {
  const serving::TrafficSummary known = serving::summary_of(traffic);
  std::string text = summary(traffic);
  text += fmt::format("\n  {} prompt and {} output tokens on average, the last arrival after {}",
                      format_number(known.mean_prompt_tokens),
                      format_number(known.mean_output_tokens), format_seconds(known.duration_s));
  if (known.cv) text += fmt::format(", CV of gaps {:.3g}", *known.cv);
  for (const std::string& note : traffic.notes) text += "\n  note: " + note;
  return text;
}

}  // namespace

template <>
const lua_kit::ObjectType<Traffic>& lua_kit::object_type<Traffic>() {
  constexpr auto show = [](const Traffic& traffic, auto&& read) {
    read(serving::summary_of(traffic));
  };
  static const ObjectType<Traffic> type{
      .name = "tessera.Traffic",
      .doc = "Requests and when they come.",
      .fields = joined<Traffic>(
          {fields_shown<Traffic, serving::TrafficSummary, show>(),
           {{"concurrency", "integer?", "Requests under way in a closed loop; nil of an open one",
             [](lua_State* L, const Traffic& t) { push_value(L, t.concurrency); }},
            {"models", "string[]", "That its requests name, in the order of their first",
             [](lua_State* L, const Traffic& t) { push_texts(L, t.models); }},
            {"description", "string", "What was asked for, in one line",
             [](lua_State* L, const Traffic& t) { push_text(L, t.description); }},
            {"notes", "string[]", "What was left out or changed, and what that does",
             [](lua_State* L, const Traffic& t) { push_texts(L, t.notes); }}}}),
      .methods = {{"requests", guarded<requests>, "(): table[]",
                   "A row per request: arrival_s, of a later turn think_s and after (0-based) in "
                   "its place; prompt_tokens, output_tokens, max_tokens, priority, slo_class and, "
                   "where it has them, model, prefix_group, prefix_tokens, session, turn, "
                   "cancel_after_s"},
                  {"save", guarded<save>, "(path: string)",
                   "Writes the requests as a CSV that ts.traffic { trace = path } reads again, the "
                   "same to the picosecond; the limit of a closed loop is not among them"},
                  {"joined", guarded<joined_with>,
                   "(others: (tessera.Traffic|table)[]): tessera.Traffic",
                   "All of these requests and those of the others, in order of arrival: streams of "
                   "unlike lengths at once, told apart by slo_class or priority"},
                  {"scaled", guarded<scaled>, "(options: { rate_per_s: number }): tessera.Traffic",
                   "The same requests at another rate: gaps are divided, lengths and think times "
                   "stay"}},
      .summary = summary,
      .describe = describe};
  return type;
}

namespace {

/// Options are finite numbers, but a rate may be math.huge. Leaves a table without such a rate on
/// the stack, and says whether there was one.
bool take_infinite_rate(lua_State* L, int index, const std::string& path) {
  lua_pushvalue(L, index);
  if (!lua_istable(L, -1)) return false;
  const bool has_rate = lua_kit::push_field(L, -1, "rate_per_s", path);
  const bool infinite =
      has_rate && lua_type(L, -1) == LUA_TNUMBER && lua_kit::any_number(L, -1, path) == HUGE_VAL;
  lua_pop(L, 1);
  if (!infinite) return false;
  lua_newtable(L);
  const int copy = lua_gettop(L);
  lua_kit::for_each_pair(L, copy - 1, path, [&] {
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, copy);
  });
  lua_kit::push_text(L, "rate_per_s");
  lua_pushnil(L);
  lua_rawset(L, copy);
  return true;
}

/// Distributions, sessions and classes: records of their own.
void read_parts(const lua_kit::Options& options, TrafficOptions& o) {
  for_each_field<TrafficOptions>([&]<auto Member, class Codec>(const Field<Member, Codec>& field) {
    using Value = typename Field<Member, Codec>::Value;
    if constexpr (!lua_kit::kIsRead<Value>) {
      const std::string_view name = field.spec.name;
      if (!options.given(name)) return;
      const Json json = options.json(name, Json::object());
      field.get(o) = Codec::read(json, options.path_of(name), field.spec);
    }
  });
}

}  // namespace

namespace serving_lua {

TrafficOptions traffic_options_argument(lua_State* L, int index, const std::string& path) {
  const lua_kit::StackGuard guard(L);
  luaL_checkstack(L, 6, "traffic");
  TrafficOptions o;
  if (take_infinite_rate(L, index, path)) o.rate_per_s = HUGE_VAL;
  const lua_kit::Options options(L, lua_gettop(L), traffic_options(), path);
  lua_kit::read_options(options, o);
  read_parts(options, o);
  return o;
}

std::shared_ptr<const Traffic> traffic_argument(lua_State* L, int index, const std::string& path) {
  if (const auto* held = lua_kit::test_object<Traffic>(L, index)) return *held;
  return std::make_shared<Traffic>(
      serving::make_traffic(traffic_options_argument(L, index, path), path));
}

int new_traffic(lua_State* L) {
  lua_settop(L, 1);
  lua_kit::push_object<Traffic>(L, traffic_argument(L, 1, "ts.traffic"));
  return 1;
}

void register_traffic(lua_State* L) {
  lua_kit::register_object<Traffic>(L);
  lua_kit::Reference& reference = core_lua::environment(L).reference;
  reference.add_object<Traffic>();
  reference.add(traffic_options());
  reference.add(scaled_options());
}

}  // namespace serving_lua
}  // namespace tessera
