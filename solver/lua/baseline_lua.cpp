#include <fmt/format.h>

#include <algorithm>

#include "problem_lua.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/instance/partition.h"
#include "tessera/solver/serving/place.h"

namespace tessera::solver_lua {
namespace {

/// As device_order takes it.
std::string full_name(const solver::DeviceGroup& group) {
  return group.node.empty() ? group.name : group.name + "@" + group.node;
}

/// Both micro-batch sizes that the options give, refused beyond the batch.
std::pair<std::int64_t, std::int64_t> micro_batch_sizes_of(const lua_kit::Options& options,
                                                           const solver::Instance& instance) {
  return {micro_batch_size(options, "prefill_micro_batch_size", instance),
          micro_batch_size(options, "decode_micro_batch_size", instance)};
}

/// Seconds per unit of one layer, mean over the layers, by bitwidth; where no kernel exists, none.
void push_layer_s(lua_State* L, const solver::Instance& instance, const solver::PhaseCosts& costs,
                  std::size_t group) {
  lua_newtable(L);
  for (std::size_t bit = 0; bit < instance.num_bits(); ++bit) {
    if (!instance.allowed_at(group, bit)) continue;
    double total = 0;
    for (const std::int32_t cls : instance.layer_class)
      total += instance.layer_s(costs, group, cls, bit);
    lua_pushnumber(L, total / static_cast<double>(instance.num_layers()));
    lua_rawseti(L, -2, instance.bitwidths[bit]);
  }
}

}  // namespace

/// vllm_layer_split(num_layers, num_stages): layers of each stage.
int vllm_layer_split(lua_State* L) {
  const std::int64_t layers = lua_kit::check_integer(L, 1, "num_layers", 1, 1e6);
  const std::int64_t stages = lua_kit::check_integer(L, 2, "num_stages", 1, 1e6);
  lua_kit::push_value(L, solver::vllm_layer_split(layers, stages));
  return 1;
}

int evaluate(lua_State* L) {
  const auto [p, candidate, notes] =
      decision_argument(L, 2, problem_argument(L, 1).first, "problem:evaluate");
  if (offload_argument(L, 2, "problem:evaluate")) {
    throw Error(ErrorCode::unsupported,
                "problem:evaluate prices plans that stay on their devices; ask problem:offload",
                "problem:evaluate.offload");
  }
  auto violation = solver::find_violation(p.instance(), candidate);
  if (!violation && p.batch() != nullptr) {
    violation = solver::find_full_attender(*p.batch(), candidate);
  }
  lua_createtable(L, 0, 8);
  lua_kit::set_boolean(L, "fits", !violation);
  if (violation) {
    lua_kit::set_text(L, "constraint", violation->constraint);
    lua_kit::set_text(L, "message", violation->message);
    const std::string& broken = violation->constraint;
    if (broken != "memory" && broken != "quality" && broken != "row") return 1;
  }
  const solver::Evaluation e = solver::evaluate(p.instance(), candidate);
  lua_kit::set_number(L, "objective", e.objective);
  lua_kit::set_number(L, "latency_s", e.latency_s);
  lua_kit::set_number(L, "prefill_s", solver::prefill_s(p.instance(), candidate, e));
  lua_kit::set_number(L, "decode_s", solver::decode_s(p.instance(), candidate, e));
  lua_kit::set_number(L, "omega", e.omega);
  return 1;
}

int micro_batch_sizes(lua_State* L) {
  const auto sizes = solver::useful_micro_batch_sizes(problem_argument(L, 1).first.instance());
  lua_kit::push_numbers(L, {sizes.begin(), sizes.end()});
  return 1;
}

const OptionTable& partition_options() {
  static const OptionTable table{"problem:balanced_partition",
                                 "Layers per stage that minimise the largest stage's time, at one "
                                 "bitwidth, within memory.",
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
                                  micro_batch_option("decode_micro_batch_size"),
                                  {.name = "phase",
                                   .type = OptionType::choice,
                                   .doc = "What is balanced: a stage's share of the latency, or "
                                          "its time in one phase",
                                   .default_text = "\"both\"",
                                   .choices = {"both", "prefill", "decode"}}}};
  return table;
}

int balanced_partition(lua_State* L) {
  const solver::LoweredProblem& p = problem_argument(L, 1).first;
  const lua_kit::Options options(L, 2, partition_options(), "problem:balanced_partition");
  const auto& bits = p.instance().bitwidths;
  const auto bit = std::find(bits.begin(), bits.end(), options.integer("bitwidth"));
  if (bit == bits.end()) refuse(options.path_of("bitwidth"), "not one of the problem's bitwidths");
  const auto [prefill, decode] = micro_batch_sizes_of(options, p.instance());
  const std::string phase = options.choice("phase");
  const auto counts = solver::balanced_partition(
      p.instance(), solver::order_from_names(p.instance(), options.texts("device_order")),
      static_cast<std::size_t>(bit - bits.begin()), prefill, decode,
      phase == "prefill"  ? solver::BalancedPhase::prefill
      : phase == "decode" ? solver::BalancedPhase::decode
                          : solver::BalancedPhase::both);
  if (!counts) return 0;
  lua_kit::push_numbers(L, {counts->begin(), counts->end()});
  return 1;
}

const OptionTable& facts_options() {
  static const OptionTable table{
      "problem:device_facts",
      "What baselines ask about devices, one record by position: name, device (its type), "
      "usable_bytes, fp16_flop_per_s (absent for an instance), prefill_layer_s and decode_layer_s "
      "(seconds of one layer by bitwidth, mean over the layers).",
      "table[]",
      {{.name = "device_order",
        .type = OptionType::text_list,
        .doc = "Devices by position",
        .required = true},
       micro_batch_option("prefill_micro_batch_size"),
       micro_batch_option("decode_micro_batch_size")}};
  return table;
}

int device_facts(lua_State* L) {
  const solver::LoweredProblem& p = problem_argument(L, 1).first;
  const lua_kit::Options options(L, 2, facts_options(), "problem:device_facts");
  const auto [prefill, decode] = micro_batch_sizes_of(options, p.instance());
  const auto order = solver::order_from_names(p.instance(), options.texts("device_order"));
  std::vector<solver::MeshGroup> groups;
  const solver::BatchProblem* batch = p.batch();
  if (batch != nullptr) groups = solver::groups_of(*batch);
  lua_createtable(L, static_cast<int>(order.size()), 0);
  for (std::size_t k = 0; k < order.size(); ++k) {
    const solver::DeviceGroup& group = p.instance().groups[order[k]];
    lua_createtable(L, 0, 6);
    lua_kit::set_text(L, "name", full_name(group));
    lua_kit::set_text(L, "device", group.name);
    lua_kit::set_number(L, "usable_bytes", group.usable_bytes);
    if (batch != nullptr) {
      const solver::MeshGroup& members = groups[order[k]];
      const std::size_t index = members.members.front().front();
      const Device& device = batch->cluster.devices[index].device;
      lua_kit::set_number(L, "fp16_flop_per_s", members.degree * device.flop_per_s.at("fp16"));
    }
    push_layer_s(L, p.instance(), p.instance().prefill(prefill), order[k]);
    lua_setfield(L, -2, "prefill_layer_s");
    push_layer_s(L, p.instance(), p.instance().decode(decode), order[k]);
    lua_setfield(L, -2, "decode_layer_s");
    lua_rawseti(L, -2, static_cast<int>(k) + 1);
  }
  return 1;
}

/// device_orders(limit): distinct orders of all devices, in lexicographic order of their groups, at
/// most `limit`.
int device_orders(lua_State* L) {
  const solver::LoweredProblem& p = problem_argument(L, 1).first;
  const auto limit = lua_isnoneornil(L, 2)
                         ? 1000
                         : lua_kit::check_integer(L, 2, "problem:device_orders limit", 1, 1e6);
  std::vector<std::size_t> order;
  for (std::size_t g = 0; g < p.instance().groups.size(); ++g) {
    order.insert(order.end(), static_cast<std::size_t>(p.instance().groups[g].count), g);
  }
  lua_newtable(L);
  int n = 0;
  do {
    std::vector<std::string> names;
    for (std::size_t g : order) names.push_back(full_name(p.instance().groups[g]));
    lua_kit::push_texts(L, names);
    lua_rawseti(L, -2, ++n);
  } while (n < limit && std::next_permutation(order.begin(), order.end()));
  return 1;
}

}  // namespace tessera::solver_lua
