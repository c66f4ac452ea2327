#include <fmt/format.h>

#include <algorithm>
#include <charconv>
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
        .doc = "Longest prompt, for which memory is reserved; default: the mean",
        .unit = "tokens",
        .min = 1,
        .max = 1e8},
       {.name = "max_output_tokens",
        .type = OptionType::integer,
        .doc = "Longest output, for which memory is reserved; default: the mean",
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
        .doc = "CSV file with a prompt and an output length per line; the lengths become "
               "expectations over it"},
       {.name = "source", .type = OptionType::text, .doc = "Where the figures come from"}},
      "string"};
  return table;
}

namespace {

/// The last two numbers of each line are prompt and output tokens; a header line is skipped.
struct Lengths {
  double prompt_sum = 0, output_sum = 0, count = 0;
  std::int64_t prompt_max = 0, output_max = 0;
};

Lengths read_lengths(const std::string& path) {
  const std::string text = read_file(path);
  Lengths lengths;
  std::size_t line_number = 0;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    start = end + 1;
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    const std::size_t last = line.rfind(',');
    const std::size_t before =
        last == std::string::npos || last == 0 ? std::string::npos : line.rfind(',', last - 1);
    const std::size_t first = before == std::string::npos ? 0 : before + 1;
    std::int64_t prompt = 0, output = 0;
    const char* data = line.data();
    const bool ok =
        last != std::string::npos &&
        std::from_chars(data + first, data + last, prompt).ptr == data + last &&
        std::from_chars(data + last + 1, data + line.size(), output).ptr == data + line.size();
    if (!ok && lengths.count == 0 && line_number == 1) continue;
    if (!ok || prompt < 1 || output < 1 || prompt > 100'000'000 || output > 100'000'000) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: line {}: {} does not end in two lengths in [1, 1e8] (prompt "
                              "tokens, output tokens)",
                              path, line_number, quote(line)),
                  path);
    }
    lengths.prompt_sum += static_cast<double>(prompt);
    lengths.output_sum += static_cast<double>(output);
    lengths.prompt_max = std::max(lengths.prompt_max, prompt);
    lengths.output_max = std::max(lengths.output_max, output);
    ++lengths.count;
  }
  if (lengths.count == 0)
    throw Error(ErrorCode::invalid_argument, path + ": no lengths in it", path);
  return lengths;
}

std::string summary(const Workload& w) {
  std::string text =
      fmt::format("workload: {} requests of {} prompt and {} output tokens", w.batch_size,
                  format_number(w.prompt_tokens), format_number(w.output_tokens));
  if (w.chunk_tokens)
    text += fmt::format(", prefill in {} chunks of {}", w.num_chunks(), *w.chunk_tokens);
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
                 {"source", "string", "Where the figures come from",
                  [](lua_State* L, const Workload& w) { push_text(L, w.source); }}},
      .methods = {},
      .summary = summary};
  return type;
}

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
  w.max_prompt_tokens = static_cast<std::int64_t>(std::ceil(w.prompt_tokens));
  w.max_output_tokens = static_cast<std::int64_t>(std::ceil(w.output_tokens));
  if (options.given("lengths")) {
    if (options.given("prompt_tokens") || options.given("output_tokens")) {
      throw Error(ErrorCode::invalid_argument,
                  path + ".lengths: give either lengths or prompt_tokens and output_tokens",
                  path + ".lengths");
    }
    const Lengths lengths = read_lengths(options.text("lengths"));
    w.prompt_tokens = lengths.prompt_sum / lengths.count;
    w.output_tokens = lengths.output_sum / lengths.count;
    w.max_prompt_tokens = lengths.prompt_max;
    w.max_output_tokens = lengths.output_max;
  }
  const auto longest = [&](const char* name, double mean, std::int64_t fallback) {
    if (!options.given(name)) return fallback;
    const std::int64_t given = options.integer(name);
    if (static_cast<double>(given) < mean) {
      throw Error(ErrorCode::out_of_range,
                  fmt::format("{}: {} is below the mean of {} tokens", options.path_of(name), given,
                              format_number(mean)),
                  options.path_of(name));
    }
    return given;
  };
  w.max_prompt_tokens = longest("max_prompt_tokens", w.prompt_tokens, w.max_prompt_tokens);
  w.max_output_tokens = longest("max_output_tokens", w.output_tokens, w.max_output_tokens);
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
