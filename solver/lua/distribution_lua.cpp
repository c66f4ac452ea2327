#include "distribution_lua.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tessera/core/statistics.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/value.h"

namespace tessera::solver_lua {
namespace {

using solver::BatchedRequest;

struct Measure {
  const char* name;
  const char* title;
  double BatchedRequest::*member;
};
constexpr Measure kMeasures[] = {{"ttft_s", "TTFT", &BatchedRequest::ttft_s},
                                 {"tpot_s", "TPOT", &BatchedRequest::tpot_s},
                                 {"e2e_s", "e2e", &BatchedRequest::e2e_s}};
struct Quantiles {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
};

/// Requests of one token have no time per token after the first.
Quantiles quantiles_of(const Distribution& distribution, const Measure& measure) {
  std::vector<double> values;
  for (const BatchedRequest& request : distribution.requests) {
    const bool has_none = measure.member == &BatchedRequest::tpot_s && request.output_tokens == 1;
    if (!has_none) values.push_back(request.*measure.member);
  }
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {sum / static_cast<double>(values.size()), quantile(values, 0.5), quantile(values, 0.9),
          quantile(values, 0.99), values.back()};
}

template <typename Value>
void set_column(lua_State* L, const Distribution& distribution, const char* name, Value value) {
  std::vector<double> column;
  for (const BatchedRequest& request : distribution.requests) {
    column.push_back(static_cast<double>(value(request)));
  }
  lua_kit::push_numbers(L, column);
  lua_setfield(L, -2, name);
}

}  // namespace

void push_quantiles(lua_State* L, const Distribution* distribution) {
  if (distribution == nullptr) {
    lua_pushnil(L);
    return;
  }
  lua_createtable(L, 0, 3);
  for (const Measure& measure : kMeasures) {
    const Quantiles q = quantiles_of(*distribution, measure);
    lua_createtable(L, 0, 5);
    for (const auto& [name, value] : {std::pair{"mean", q.mean},
                                      {"p50", q.p50},
                                      {"p90", q.p90},
                                      {"p99", q.p99},
                                      {"max", q.max}}) {
      lua_pushnumber(L, value);
      lua_setfield(L, -2, name);
    }
    lua_setfield(L, -2, measure.name);
  }
}

void push_requests(lua_State* L, const Distribution* distribution) {
  if (distribution == nullptr) {
    lua_pushnil(L);
    return;
  }
  lua_createtable(L, 0, 6);
  set_column(L, *distribution, "prompt_tokens", [](const auto& r) { return r.prompt_tokens; });
  set_column(L, *distribution, "output_tokens", [](const auto& r) { return r.output_tokens; });
  set_column(L, *distribution, "arrival_s", [](const auto& r) { return r.arrival_s; });
  for (const Measure& measure : kMeasures) {
    set_column(L, *distribution, measure.name,
               [&](const BatchedRequest& r) { return r.*measure.member; });
  }
}

double expected_error(const Distribution& distribution, const serving::BatchRun& run) {
  return distribution.expected.throughput_tok_s / run.throughput_tok_s - 1;
}

std::string describe(const Distribution& distribution, const serving::BatchRun& run) {
  const bool traced = distribution.options.arrivals == solver::BatchArrivals::trace;
  std::string text = fmt::format(
      "  {} batches, {} requests, {}, {}\n", distribution.num_batches, distribution.requests.size(),
      distribution.options.batching == solver::Batching::padded ? "padded" : "ragged",
      traced ? "each from its arrival"
             : fmt::format("drawn by seed {}", distribution.options.seed));
  text +=
      fmt::format("  {:4} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "", "mean", "p50", "p90", "p99", "max");
  for (const Measure& measure : kMeasures) {
    const Quantiles q = quantiles_of(distribution, measure);
    text += fmt::format("  {:4} {:>9} {:>9} {:>9} {:>9} {:>9}\n", measure.title,
                        format_seconds(q.mean), format_seconds(q.p50), format_seconds(q.p90),
                        format_seconds(q.p99), format_seconds(q.max));
  }
  const double error = expected_error(distribution, run);
  text += fmt::format("  by the mean lengths: {:.1f} tok/s, {:.1f} % {} than the distribution\n",
                      distribution.expected.throughput_tok_s, 100 * std::abs(error),
                      error < 0 ? "less" : "more");
  return text;
}

}  // namespace tessera::solver_lua
