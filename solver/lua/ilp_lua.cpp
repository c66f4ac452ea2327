// What only the ILP planner understands, and its programme as a file.

#include <fmt/format.h>

#include <tuple>
#include <utility>

#include "problem_lua.h"
#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/object.h"
#include "tessera/solver/ilp/model_dump.h"
#include "tessera/solver/planning/planning.h"

namespace tessera::solver_lua {
const OptionTable& model_options() {
  static const OptionTable table{
      "problem:write_model",
      "Writes the integer programme of one pair of micro-batch sizes, CPLEX LP or free MPS by the "
      "path's extension; its objective is the plan's, in seconds. Columns (stages from 1, layers "
      "from 0): prefill_max, decode_max, decode_round; stage2_on_T4_16G, stage2_is_last_on_T4_16G; "
      "layers_done_after_stage2, layer7_by_stage2; count_stage2_T4_16G_8bit; layer7_stage2_8bit.",
      "boolean?, tessera.Error?",
      {micro_batch_option("prefill_micro_batch_size"),
       micro_batch_option("decode_micro_batch_size"),
       {.name = "device_order",
        .type = OptionType::text_list,
        .doc = "Devices by stage; default: decided inside the model"},
       {.name = "form",
        .type = OptionType::choice,
        .doc = "The programme itself, or with ranges for stage times and boundaries that hold "
               "every plan worth finding; paper: eqs. (4)-(16) as printed, for one device_order, "
               "columns z_layer7_stage2_8bit, y_layer7_8bit, u_layer7_stage2",
        .default_text = "\"base\"",
        .choices = names_of<solver::IlpForm>()}}};
  return table;
}

int write_model(lua_State* L) {
  const solver::Instance& instance = problem_argument(L, 1).first.instance();
  const std::string path = lua_kit::check_text(L, 2, "problem:write_model path");
  check_may_write(path);  // COIN-OR opens the file itself
  const lua_kit::Options options(L, 3, model_options(), "problem:write_model");
  solver::PlanRequest request;
  if (options.given("device_order")) {
    request.order = solver::order_from_names(instance, options.texts("device_order"));
  }
  for (auto [name, size] :
       {std::pair{"prefill_micro_batch_size", &request.prefill_micro_batch_size},
        std::pair{"decode_micro_batch_size", &request.decode_micro_batch_size}}) {
    *size = micro_batch_size(options, name, instance);
  }
  request.ilp_form = *named<solver::IlpForm>(options.choice("form"));
  if (!request.order && instance.num_devices() > 1 && instance.least_stages() == 1) {
    throw Error(ErrorCode::invalid_argument,
                "problem:write_model: no one programme holds plans on one device and on several; "
                "give device_order, or set use_all_devices = true in the problem",
                "problem:write_model.device_order");
  }
  if (const auto violation = solver::write_model(instance, request, path)) {
    return push_why(L, "infeasible", violation->message, violation->constraint);
  }
  lua_pushboolean(L, 1);
  return 1;
}

}  // namespace tessera::solver_lua
