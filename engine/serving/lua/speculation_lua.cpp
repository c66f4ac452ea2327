#include "speculation_lua.h"

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/serving/accepted_drafts.h"
#include "tessera/serving/gain.h"
#include "tessera/serving/prompt_lookup.h"

namespace tessera::serving_lua {

std::vector<std::int32_t> ids_of(const lua_kit::Options& options, std::string_view name) {
  const std::vector<std::int64_t> values = options.integers(name);
  return {values.begin(), values.end()};
}

namespace {

constexpr const char* kExpectedTokens = "ts.speculative.expected_tokens";
constexpr const char* kBreakEven = "ts.speculative.break_even_batch";
constexpr const char* kAcceptedDrafts = "ts.speculative.accepted_drafts";
constexpr const char* kPromptLookup = "ts.speculative.prompt_lookup";

std::vector<OptionSpec> acceptance_options() {
  return {{.name = "acceptance",
           .type = OptionType::table,
           .doc = "Rate of each draft whose predecessors passed; or a list, cumulative by "
                  "position: the share of steps that accept this draft and all before it",
           .lua_type = "number|number[]",
           .required = true},
          {.name = "num_tokens",
           .type = OptionType::integer,
           .doc = "Drafted in a step (tokens)",
           .unit = "tokens",
           .min = 0,
           .max = 10000,
           .required = true}};
}

std::vector<double> rates_of(const lua_kit::Options& options) {
  lua_State* L = options.state();
  const lua_kit::StackGuard guard(L);
  const std::string path = options.path_of("acceptance");
  options.push("acceptance");
  const bool is_number = lua_type(L, -1) == LUA_TNUMBER;
  std::vector<double> given;
  if (is_number) {
    given.push_back(lua_kit::any_number(L, -1, path));
  } else {
    given = lua_kit::any_numbers(L, -1, path);
    // One rate in a list is that of the first draft, and says nothing of a second.
    if (given.size() == 1 && options.integer("num_tokens") > 1) {
      refuse(path, "1 rate for {} drafts; give one for each, or a number for all",
             options.integer("num_tokens"));
    }
  }
  return serving::cumulative_rates(given, options.integer("num_tokens"), path);
}

const OptionTable& expected_tokens_options() {
  static const OptionTable table{
      kExpectedTokens,
      "Tokens that a step yields on average, the residual or bonus token included: 1 + the sum of "
      "the cumulative rates, (1 - a^(g+1)) / (1 - a) for one rate a and g drafts. The rates are "
      "the second result.",
      "number, number[]", acceptance_options()};
  return table;
}

OptionSpec seconds(std::string_view name, std::string_view doc, bool required) {
  return {.name = name,
          .type = OptionType::number,
          .doc = doc,
          .unit = "s",
          .default_text = required ? "" : "0",
          .min = 0,
          .max = 1e6,
          .required = required};
}

const OptionTable& break_even_options() {
  static const OptionTable table = [] {
    OptionTable t{kBreakEven,
                  "Batch size up to which speculation yields more tokens per second than none, 0 "
                  "where it never does, math.huge where it always does; with batch_size also the "
                  "speed-up there. A step takes base_s + per_token_s x tokens, drafting a token "
                  "draft_base_s + draft_per_sequence_s x batch.",
                  "number, number?", acceptance_options()};
    t.options.push_back(seconds("base_s", "Of a step, whatever is in it (s)", true));
    t.options.push_back(seconds("per_token_s", "Of a step, for each token in it (s)", true));
    t.options.push_back(seconds("draft_base_s", "Of drafting one token for a batch (s)", false));
    t.options.push_back(
        seconds("draft_per_sequence_s", "Of drafting one token, for each request (s)", false));
    t.options.push_back({.name = "batch_size",
                         .type = OptionType::number,
                         .doc = "Requests at once, for the speed-up",
                         .unit = "requests",
                         .min = 1e-6,
                         .max = 1e9});
    return t;
  }();
  return table;
}

const OptionTable& accepted_drafts_options() {
  static const OptionTable table = [] {
    OptionTable t{kAcceptedDrafts,
                  "How many drafts the simulator lets pass, over requests and their steps: counts, "
                  "of no draft first. What a step accepts depends on seed, request and step alone.",
                  "integer[]", acceptance_options()};
    const auto count = [](std::string_view name, std::string_view doc) -> OptionSpec {
      return {.name = name,
              .type = OptionType::integer,
              .doc = doc,
              .default_text = "1",
              .min = 1,
              .max = kMostDraws};
    };
    t.options.push_back(count("num_requests", "Requests"));
    t.options.push_back(count("num_steps", "Steps of each"));
    t.options.push_back({.name = "seed",
                         .type = OptionType::integer,
                         .doc = "Of the draws",
                         .default_text = "0",
                         .min = 0,
                         .max = kMaxExactInteger});
    return t;
  }();
  return table;
}

const OptionTable& prompt_lookup_options() {
  const auto length = [](std::string_view name, std::string_view doc) -> OptionSpec {
    return {.name = name,
            .type = OptionType::integer,
            .doc = doc,
            .unit = "tokens",
            .min = 1,
            .max = 1e9,
            .required = true};
  };
  static const OptionTable table{
      kPromptLookup,
      "Drafts from the text itself: the tokens that follow the earliest place of the longest "
      "n-gram that also ends the text. Empty where there is none.",
      "integer[]",
      {{.name = "tokens",
        .type = OptionType::integer_list,
        .doc = "The text: prompt and output so far (ids from 0)",
        .min = 0,
        .max = kMostTokenId,
        .required = true},
       length("prompt_lookup_min", "Shortest n-gram (tokens)"),
       length("prompt_lookup_max", "Longest n-gram (tokens)"),
       length("num_tokens", "Most drafts (tokens)")}};
  return table;
}

int expected_tokens(lua_State* L) {
  const lua_kit::Options options(L, 1, expected_tokens_options(), kExpectedTokens);
  const std::vector<double> rates = rates_of(options);
  lua_pushnumber(L, serving::mean_tokens(rates));
  lua_kit::push_numbers(L, rates);
  return 2;
}

int break_even_batch(lua_State* L) {
  const lua_kit::Options options(L, 1, break_even_options(), kBreakEven);
  const double tokens = serving::mean_tokens(rates_of(options));
  const std::int64_t num_drafts = options.integer("num_tokens");
  const serving::SpeculationTimes times{options.number("base_s"), options.number("per_token_s"),
                                        options.number("draft_base_s"),
                                        options.number("draft_per_sequence_s")};
  if (times.base_s + times.per_token_s <= 0) {
    refuse(options.path_of("base_s"),
           "a step of base_s 0 s and per_token_s 0 s takes no time that "
           "could be saved; give one of them");
  }
  lua_pushnumber(L, serving::break_even_batch(tokens, num_drafts, times));
  if (!options.given("batch_size")) return 1;
  lua_pushnumber(L, serving::speed_up(tokens, num_drafts, options.number("batch_size"), times));
  return 2;
}

int accepted_drafts(lua_State* L) {
  const lua_kit::Options options(L, 1, accepted_drafts_options(), kAcceptedDrafts);
  const std::vector<double> rates = rates_of(options);
  const std::int64_t num_requests = options.integer("num_requests");
  const std::int64_t num_steps = options.integer("num_steps");
  if (static_cast<double>(num_requests) * static_cast<double>(num_steps) > kMostDraws) {
    refuse(ErrorCode::out_of_range, options.path_of("num_steps"),
           "{} requests of {} steps are more than {:g} draws", num_requests, num_steps, kMostDraws);
  }
  const auto seed = static_cast<std::uint64_t>(options.integer("seed"));
  std::vector<std::int64_t> counts(rates.size() + 1, 0);
  for (std::int64_t i = 0; i < num_requests * num_steps; ++i) {
    lua_kit::interrupt::check_draw(i);
    const std::int64_t accepted =
        serving::accepted_drafts(seed, i / num_steps, i % num_steps, rates);
    ++counts[static_cast<std::size_t>(accepted)];
  }
  lua_kit::push_value(L, counts);
  return 1;
}

int prompt_lookup(lua_State* L) {
  const lua_kit::Options options(L, 1, prompt_lookup_options(), kPromptLookup);
  const std::vector<std::int32_t> tokens = ids_of(options, "tokens");
  const auto length = [&](std::string_view name) {
    return static_cast<std::size_t>(options.integer(name));
  };
  const std::size_t least = length("prompt_lookup_min"), most = length("prompt_lookup_max");
  if (least > most) {
    refuse(ErrorCode::out_of_range, options.path_of("prompt_lookup_min"),
           "{} is above prompt_lookup_max, {}", least, most);
  }
  const auto drafts = serving::prompt_lookup(tokens, least, most, length("num_tokens"));
  lua_kit::push_value(L, std::vector<std::int32_t>(drafts.begin(), drafts.end()));
  return 1;
}

}  // namespace

void register_speculation(lua_State* L) {
  lua_kit::Reference& reference = core_lua::environment(L).reference;
  for (const OptionTable* table :
       {&verify_options(), &rule_options(), &expected_tokens_options(), &break_even_options(),
        &accepted_drafts_options(), &prompt_lookup_options()}) {
    reference.add(*table);
  }
  lua_kit::register_module(L, "tessera.speculative",
                           {{"verify", lua_kit::guarded<verify>},
                            {"rule", lua_kit::guarded<rule>},
                            {"expected_tokens", lua_kit::guarded<expected_tokens>},
                            {"break_even_batch", lua_kit::guarded<break_even_batch>},
                            {"accepted_drafts", lua_kit::guarded<accepted_drafts>},
                            {"prompt_lookup", lua_kit::guarded<prompt_lookup>}});
}

}  // namespace tessera::serving_lua
