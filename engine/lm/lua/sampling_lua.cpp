#include <limits>

#include "core_lua.h"
#include "lm_lua.h"
#include "tessera/core/error.h"
#include "tessera/lm/sampling.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::lm_lua {
namespace {

constexpr const char* kProbabilities = "ts.sampling.probabilities";
constexpr const char* kDraw = "ts.sampling.draw";

// The filters of lm:generate, by its own options.
OptionTable with_filters(OptionTable table) {
  table.options = {{.name = "logits",
                    .type = OptionType::table,
                    .doc = "Of every token; -math.huge for one that may not follow",
                    .lua_type = "number[]",
                    .required = true},
                   {.name = "text",
                    .type = OptionType::integer_list,
                    .doc = "Tokens so far (ids from 0), for the repetition penalty",
                    .min = 0,
                    .max = std::numeric_limits<std::int32_t>::max()}};
  return lua_kit::option_table<lm::SamplingOptions>(std::move(table));
}

const OptionTable& probabilities_options() {
  static const OptionTable table = with_filters(
      {kProbabilities,
       "The probability of every token as lm:generate draws it: logits through the repetition "
       "penalty, temperature, top_k and top_p, in this order. Token 0 comes first.",
       "number[]",
       {}});
  return table;
}

const OptionTable& draw_options() {
  static const OptionTable table = [] {
    OptionTable t = with_filters(
        {kDraw,
         "Draws tokens by these probabilities, each as the next step of one text: the tokens (ids "
         "from 0), and how often each token came.",
         "integer[], integer[]",
         {}});
    t.options.push_back({.name = "num_draws",
                         .type = OptionType::integer,
                         .doc = "Tokens to draw",
                         .default_text = "1",
                         .min = 1,
                         .max = 1e7});
    return t;
  }();
  return table;
}

std::vector<float> logits_of(const lua_kit::Options& options) {
  options.push("logits");
  const std::string path = options.path_of("logits");
  const std::vector<double> values = lua_kit::any_numbers(options.state(), -1, path);
  lua_pop(options.state(), 1);
  if (values.empty()) refuse(path, "there are none; give one number for each token");
  return {values.begin(), values.end()};
}

lm::Sampler sampler_of(const lua_kit::Options& options, std::size_t vocab_size) {
  lm::SamplingOptions sampling;
  lua_kit::read_options(options, sampling);
  lm::Sampler sampler(sampling, static_cast<std::int64_t>(vocab_size));
  for (const std::int64_t token : options.integers("text")) {
    if (static_cast<std::size_t>(token) >= vocab_size) {
      refuse(ErrorCode::out_of_range, options.path_of("text"),
             "token {} where logits are of 0 to {}", token, vocab_size - 1);
    }
    sampler.see(static_cast<std::int32_t>(token));
  }
  return sampler;
}

int probabilities(lua_State* L) {
  const lua_kit::Options options(L, 1, probabilities_options(), kProbabilities);
  const std::vector<float> logits = logits_of(options);
  lm::Sampler sampler = sampler_of(options, logits.size());
  const std::vector<double> chances = sampler.probabilities(logits);
  lua_kit::push_numbers(L, {chances.begin(), chances.end()});
  return 1;
}

int draw(lua_State* L) {
  const lua_kit::Options options(L, 1, draw_options(), kDraw);
  const std::vector<float> logits = logits_of(options);
  lm::Sampler sampler = sampler_of(options, logits.size());
  const std::int64_t num_draws = options.integer("num_draws");
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> counts(logits.size(), 0);
  for (std::int64_t i = 0; i < num_draws; ++i) {
    lua_kit::interrupt::check_draw(i);
    tokens.push_back(sampler.choose(logits, i));
    ++counts[static_cast<std::size_t>(tokens.back())];
  }
  lua_kit::push_value(L, tokens);
  lua_kit::push_value(L, counts);
  return 2;
}

}  // namespace

void register_sampling(lua_State* L) {
  lua_kit::Reference& reference = core_lua::environment(L).reference;
  reference.add(probabilities_options());
  reference.add(draw_options());
  lua_kit::register_module(
      L, "tessera.sampling",
      {{"probabilities", lua_kit::guarded<probabilities>}, {"draw", lua_kit::guarded<draw>}});
}

}  // namespace tessera::lm_lua
