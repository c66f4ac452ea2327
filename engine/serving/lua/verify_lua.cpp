#include <algorithm>

#include "speculation_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/serving/verify.h"

namespace tessera::serving_lua {
namespace {

constexpr const char* kVerify = "ts.speculative.verify";
constexpr const char* kRule = "ts.speculative.rule";

struct Rows {
  std::vector<double> values;
  std::size_t vocab_size = 0;

  serving::ProbabilityRows<double> view() const { return {values, vocab_size}; }
  std::size_t size() const { return view().size(); }
};

Rows rows_of(const lua_kit::Options& options, std::string_view name) {
  lua_State* L = options.state();
  Rows rows;
  const lua_kit::StackGuard guard(L);
  if (!options.push(name)) return rows;
  lua_kit::for_each_item(L, -1, options.path_of(name), [&](std::size_t i, const std::string& path) {
    const std::vector<double> row = lua_kit::any_numbers(L, -1, path);
    if (i == 1) rows.vocab_size = row.size();
    if (row.empty() || row.size() != rows.vocab_size) {
      refuse(path, "{} numbers; every row has one for each token, the first has {}", row.size(),
             rows.vocab_size);
    }
    rows.values.insert(rows.values.end(), row.begin(), row.end());
  });
  return rows;
}

struct Request {
  std::vector<std::int32_t> drafts;
  bool drafts_given = false, has_q = false, greedy = false;
  Rows q, p;
  std::size_t num_drafts = 0;
};

Request request_of(const lua_kit::Options& options) {
  Request request;
  request.drafts_given = options.given("drafts");
  request.drafts = ids_of(options, "drafts");
  request.has_q = options.given("q");
  request.greedy = options.boolean("greedy");
  request.q = rows_of(options, "q");
  request.p = rows_of(options, "p");
  if (request.greedy && request.has_q) {
    refuse(options.path_of("q"),
           "greedy verification does not ask how drafts came about; leave q "
           "out");
  }
  if (!request.drafts_given && !request.has_q) {
    refuse(options.path_of("drafts"), "give the drafted tokens, or q to draw them from");
  }
  request.num_drafts = request.drafts_given ? request.drafts.size() : request.q.size();
  if (request.p.size() != request.num_drafts + 1) {
    refuse(options.path_of("p"),
           "{} rows for {} drafts; give one for each and one for the token "
           "after them",
           request.p.size(), request.num_drafts);
  }
  if (request.has_q && request.q.size() != request.num_drafts) {
    refuse(options.path_of("q"), "{} rows for {} drafts; give one for each", request.q.size(),
           request.num_drafts);
  }
  request.drafts.resize(request.num_drafts);
  return request;
}

// One step; drafts that were not given are drawn by q first.
serving::Verified step_of(Request& request, Rng& rng) {
  if (request.greedy) return serving::verify_greedy<double>(request.drafts, request.p.view());
  if (!request.has_q) return serving::verify_certain<double>(request.drafts, request.p.view(), rng);
  if (!request.drafts_given) {
    for (std::size_t i = 0; i < request.num_drafts; ++i) {
      const serving::ProbabilityRows<double> row{request.q.view()[i], request.q.vocab_size};
      request.drafts[i] = serving::verify<double>({}, {}, row, rng).next;  // a plain sample
    }
  }
  return serving::verify<double>(request.drafts, request.q.view(), request.p.view(), rng);
}

// Sums over steps, from 0 by position.
struct Totals {
  std::vector<std::vector<std::int64_t>> counts;  ///< [drafts + 1][vocab_size]
  std::vector<std::int64_t> accepted;             ///< [drafts] steps that accepted this one too
  std::int64_t tokens = 0;
};

void add_step(Totals& totals, const Request& request, const serving::Verified& step) {
  for (std::size_t i = 0; i < step.num_accepted; ++i) {
    ++totals.counts[i][static_cast<std::size_t>(request.drafts[i])];
    ++totals.accepted[i];
  }
  ++totals.counts[step.num_accepted][static_cast<std::size_t>(step.next)];
  totals.tokens += static_cast<std::int64_t>(step.num_accepted) + 1;
}

void push_totals(lua_State* L, const Totals& totals, std::int64_t num_draws) {
  lua_createtable(L, 0, 4);
  lua_kit::set_integer(L, "num_draws", num_draws);
  lua_kit::set_number(L, "tokens_per_step",
                      static_cast<double>(totals.tokens) / static_cast<double>(num_draws));
  lua_kit::push_value(L, totals.accepted);
  lua_setfield(L, -2, "accepted");
  lua_createtable(L, static_cast<int>(totals.counts.size()), 0);
  for (std::size_t i = 0; i < totals.counts.size(); ++i) {
    lua_kit::push_value(L, totals.counts[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  lua_setfield(L, -2, "counts");
}

void push_step(lua_State* L, const Request& request, const serving::Verified& step) {
  std::vector<std::int32_t> tokens(
      request.drafts.begin(),
      request.drafts.begin() + static_cast<std::ptrdiff_t>(step.num_accepted));
  tokens.push_back(step.next);
  lua_createtable(L, 0, 3);
  lua_kit::push_value(L, tokens);
  lua_setfield(L, -2, "tokens");
  lua_kit::push_value(L, request.drafts);
  lua_setfield(L, -2, "drafts");
  lua_kit::set_integer(L, "num_accepted", static_cast<std::int64_t>(step.num_accepted));
}

std::vector<double> row_of(const lua_kit::Options& options, std::string_view name) {
  options.push(name);
  std::vector<double> row = lua_kit::any_numbers(options.state(), -1, options.path_of(name));
  lua_pop(options.state(), 1);
  return row;
}

}  // namespace

const OptionTable& verify_options() {
  static const OptionTable table{
      kVerify,
      "Verifies drafts against the target model's probabilities by the rule that engines use "
      "(Leviathan et al., 2022). One step: { tokens, drafts, num_accepted }. With num_draws: "
      "{ num_draws, tokens_per_step, accepted, counts }, the steps that accepted the i-th draft, "
      "and counts[i][t + 1] of token t as the i-th that came out.",
      "table",
      {{.name = "p",
        .type = OptionType::table,
        .doc = "Probabilities by the target model: a row for each draft and one for the token "
               "after them; token 0 comes first",
        .lua_type = "number[][]",
        .required = true},
       {.name = "q",
        .type = OptionType::table,
        .doc = "By the draft model, a row for each draft; left out: the drafts were certain, as "
               "n-grams are",
        .lua_type = "number[][]"},
       {.name = "drafts",
        .type = OptionType::integer_list,
        .doc = "Drafted tokens (ids from 0); left out: drawn by q, anew for every step",
        .min = 0,
        .max = kMostTokenId},
       {.name = "greedy",
        .type = OptionType::boolean,
        .doc = "Temperature 0: a draft passes where it is the most likely token of p, which may "
               "be logits then",
        .default_text = "false"},
       {.name = "seed",
        .type = OptionType::integer,
        .doc = "Of the draws",
        .default_text = "0",
        .min = 0,
        .max = kMaxExactInteger},
       {.name = "num_draws",
        .type = OptionType::integer,
        .doc = "Steps to take, for counts instead of one step",
        .min = 1,
        .max = kMostDraws}}};
  return table;
}

const OptionTable& rule_options() {
  static const OptionTable table{
      kRule,
      "What the rule makes of one pair of distributions, exactly: { acceptance, acceptance_rate, "
      "residual, output }. acceptance: min(1, p/q) of each token, 0 where q never drafts it; "
      "residual: what a rejection draws from, absent where there are none; output: the "
      "distribution that comes out.",
      "table",
      {{.name = "q",
        .type = OptionType::table,
        .doc = "Probabilities by the draft model; token 0 comes first",
        .lua_type = "number[]",
        .required = true},
       {.name = "p",
        .type = OptionType::table,
        .doc = "By the target model",
        .lua_type = "number[]",
        .required = true}}};
  return table;
}

int verify(lua_State* L) {
  const lua_kit::Options options(L, 1, verify_options(), kVerify);
  Request request = request_of(options);
  Rng rng(static_cast<std::uint64_t>(options.integer("seed")));
  if (!options.given("num_draws")) {
    const serving::Verified step = step_of(request, rng);
    push_step(L, request, step);
    return 1;
  }
  const std::int64_t num_draws = options.integer("num_draws");
  Totals totals;
  totals.counts.assign(request.num_drafts + 1, std::vector<std::int64_t>(request.p.vocab_size, 0));
  totals.accepted.assign(request.num_drafts, 0);
  for (std::int64_t i = 0; i < num_draws; ++i) {
    lua_kit::interrupt::check_draw(i);
    const serving::Verified step = step_of(request, rng);
    add_step(totals, request, step);
  }
  push_totals(L, totals, num_draws);
  return 1;
}

int rule(lua_State* L) {
  const lua_kit::Options options(L, 1, rule_options(), kRule);
  const std::vector<double> q = row_of(options, "q"), p = row_of(options, "p");
  const double rate = serving::acceptance_rate<double>(q, p);
  std::vector<double> left(p.size()), acceptance, output;
  const double rejected = serving::residual<double>(q, p, left);
  for (std::size_t token = 0; token < p.size(); ++token) {
    acceptance.push_back(q[token] > 0 ? std::min(1.0, p[token] / q[token]) : 0);
    output.push_back(q[token] * acceptance[token] + rejected * left[token]);
  }
  lua_createtable(L, 0, 4);
  lua_kit::set_numbers(L, "acceptance", acceptance);
  lua_kit::set_number(L, "acceptance_rate", rate);
  if (rejected > 0) lua_kit::set_numbers(L, "residual", left);
  lua_kit::set_numbers(L, "output", output);
  return 1;
}

}  // namespace tessera::serving_lua
