// What only the ILP planner understands, and its programme as a file.

#include <fmt/format.h>

#include <tuple>
#include <utility>

#include "problem_lua.h"
#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/object.h"
#include "tessera/solver/ilp/model_dump.h"

namespace tessera::solver_lua {
namespace {

solver::IlpForm form_of(const lua_kit::Options& options) {
  return options.choice("form") == "base" ? solver::IlpForm::base : solver::IlpForm::tightened;
}

/// The plan to start from, which must solve this problem under what the options fix.
solver::Candidate start_argument(const solver::Instance& instance, const lua_kit::Options& options,
                                 const solver::PlanRequest& request) {
  const std::string where = options.path_of("start");
  const auto refuse = [&](const std::string& reason) {
    throw Error(ErrorCode::invalid_argument, where + ": " + reason, where);
  };
  lua_State* L = options.state();
  options.push("start");
  const auto given = lua_kit::check_object<solver::Plan>(L, -1, where);
  lua_pop(L, 1);
  const solver::PipelinePlan& plan = pipeline_of(*given, where);
  solver::Candidate start;
  try {
    start = solver::candidate_of(instance, plan);
  } catch (const Error& e) {
    refuse(std::string("the plan is none of this problem: ") + e.what());
  }
  if (const auto violation = solver::find_violation(instance, start)) {
    refuse("the plan breaks this problem: " + violation->message);
  }
  if (request.order && *request.order != start.order) {
    refuse("its devices are in another order than device_order says");
  }
  for (const auto& [name, asked, has] :
       {std::tuple{"prefill", request.prefill_micro_batch_size, start.prefill_micro_batch_size},
        std::tuple{"decode", request.decode_micro_batch_size, start.decode_micro_batch_size}}) {
    if (asked && *asked != has) {
      refuse(fmt::format("its {} micro-batch size is {}, {} was asked for", name, has, *asked));
    }
  }
  return start;
}

}  // namespace

OptionSpec form_option(std::string_view default_form, std::string_view doc) {
  return {.name = "form",
          .type = OptionType::choice,
          .doc = doc,
          .default_text = std::string(default_form),
          .choices = {"base", "tightened"}};
}

OptionSpec start_option() {
  return {.name = "start",
          .type = OptionType::table,
          .doc = "Of planner \"ilp\": a plan of this problem that it starts from",
          .lua_type = "tessera.Plan"};
}

void read_ilp_options(const solver::Instance& instance, const lua_kit::Options& options,
                      solver::PlanRequest& request) {
  for (const char* name : {"start", "form"}) {
    if (!options.given(name) || options.text("planner") == "ilp") continue;
    throw Error(ErrorCode::invalid_argument,
                options.path_of(name) + ": only planner = \"ilp\" takes it", options.path_of(name));
  }
  request.ilp_form = form_of(options);
  if (options.given("start")) request.start = start_argument(instance, options, request);
}

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
       form_option("\"base\"",
                   "The programme itself, or with ranges for stage times and boundaries "
                   "that hold every plan worth finding")}};
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
  request.ilp_form = form_of(options);
  if (const auto violation = solver::write_model(instance, request, path)) {
    return push_why(L, "infeasible", violation->message, violation->constraint);
  }
  lua_pushboolean(L, 1);
  return 1;
}

}  // namespace tessera::solver_lua
