#include <fmt/format.h>

#include <algorithm>

#include "problem_lua.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/partition.h"

namespace tessera::solver_lua {
namespace {

const LoweredProblem& self(lua_State* L) {
  return *lua_kit::check_object<LoweredProblem>(L, 1, "problem");
}

}  // namespace

int evaluate(lua_State* L) {
  const LoweredProblem& p = self(L);
  const solver::Candidate candidate = candidate_argument(L, 2, p.instance, "problem:evaluate");
  const auto violation = solver::find_violation(p.instance, candidate);
  lua_createtable(L, 0, 6);
  lua_pushboolean(L, !violation);
  lua_setfield(L, -2, "fits");
  if (violation) {
    lua_kit::push_text(L, violation->constraint);
    lua_setfield(L, -2, "constraint");
    lua_kit::push_text(L, violation->message);
    lua_setfield(L, -2, "message");
    const std::string& broken = violation->constraint;
    if (broken != "memory" && broken != "quality" && broken != "row") return 1;
  }
  const solver::Evaluation e = solver::evaluate(p.instance, candidate);
  const auto number = [L](const char* name, double value) {
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
  };
  number("objective", e.objective);
  number("latency_s", e.latency_s);
  number("omega", e.omega);
  return 1;
}

int micro_batch_sizes(lua_State* L) {
  const auto sizes = solver::useful_micro_batch_sizes(self(L).instance);
  lua_kit::push_numbers(L, {sizes.begin(), sizes.end()});
  return 1;
}

const OptionTable& partition_options() {
  static const OptionTable table{"problem:balanced_partition",
                                 "Layers per stage that minimise the largest stage's share of the "
                                 "latency, at one bitwidth, within memory.",
                                 "integer[]?",
                                 {{.name = "device_order",
                                   .type = OptionType::text_list,
                                   .doc = "Devices by position",
                                   .required = true},
                                  {.name = "bitwidth",
                                   .type = OptionType::integer,
                                   .doc = "Of every layer",
                                   .unit = "bits",
                                   .min = 1,
                                   .max = 16,
                                   .required = true},
                                  micro_batch_option("prefill_micro_batch_size"),
                                  micro_batch_option("decode_micro_batch_size")}};
  return table;
}

int balanced_partition(lua_State* L) {
  const LoweredProblem& p = self(L);
  const lua_kit::Options options(L, 2, partition_options(), "problem:balanced_partition");
  const auto& bits = p.instance.bitwidths;
  const auto bit = std::find(bits.begin(), bits.end(), options.integer("bitwidth"));
  if (bit == bits.end())
    throw Error(ErrorCode::invalid_argument,
                options.path_of("bitwidth") + ": not one of the problem's bitwidths",
                options.path_of("bitwidth"));
  const auto counts = solver::balanced_partition(
      p.instance, solver::order_from_names(p.instance, options.texts("device_order")),
      static_cast<std::size_t>(bit - bits.begin()),
      micro_batch_size(options, "prefill_micro_batch_size", p.instance),
      micro_batch_size(options, "decode_micro_batch_size", p.instance));
  if (!counts) return 0;
  lua_kit::push_numbers(L, {counts->begin(), counts->end()});
  return 1;
}

/// device_orders(limit): distinct orders of all devices, in lexicographic order of their groups, at
/// most `limit`.
int device_orders(lua_State* L) {
  const LoweredProblem& p = self(L);
  const auto limit = lua_isnoneornil(L, 2)
                         ? 1000
                         : lua_kit::check_integer(L, 2, "problem:device_orders limit", 1, 1e6);
  std::vector<std::size_t> order;
  for (std::size_t g = 0; g < p.instance.groups.size(); ++g) {
    order.insert(order.end(), static_cast<std::size_t>(p.instance.groups[g].count), g);
  }
  lua_newtable(L);
  int n = 0;
  do {
    std::vector<std::string> names;
    for (std::size_t g : order) {
      const solver::DeviceGroup& group = p.instance.groups[g];
      names.push_back(group.node.empty() ? group.name : group.name + "@" + group.node);
    }
    lua_kit::push_texts(L, names);
    lua_rawseti(L, -2, ++n);
  } while (n < limit && std::next_permutation(order.begin(), order.end()));
  return 1;
}

}  // namespace tessera::solver_lua
