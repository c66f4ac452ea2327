#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core_lua.h"
#include "quant_lua.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/value.h"
#include "tessera/quant/checkpoint.h"

namespace tessera {
namespace {

using quant::CheckpointSummary;
using quant::MatrixReport;

void push_row(lua_State* L, const MatrixReport& r) {
  lua_createtable(L, 0, 8);
  lua_kit::set_text(L, "tensor", r.tensor);
  lua_kit::set_text(L, "method", to_string(r.method));
  lua_kit::set_number(L, "layer_index", static_cast<double>(r.layer_index));
  lua_kit::set_number(L, "bitwidth", r.bitwidth);
  lua_kit::set_number(L, "mse", r.error.mse);
  lua_kit::set_number(L, "max_error", r.error.max_error);
  lua_kit::set_optional(L, "output_error", r.output_error);
  lua_kit::set_optional(L, "rtn_output_error", r.rtn_output_error);
}

void push_matrices(lua_State* L, const CheckpointSummary& s) {
  lua_createtable(L, static_cast<int>(s.matrices.size()), 0);
  for (std::size_t i = 0; i < s.matrices.size(); ++i) {
    push_row(L, s.matrices[i]);
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
}

std::string summary_of(const CheckpointSummary& s) {
  return fmt::format("quantised model {}: {} matrices, {} where they took {}, in {}", s.out,
                     s.matrices.size(), format_bytes(static_cast<double>(s.bytes_after)),
                     format_bytes(static_cast<double>(s.bytes_before)), format_seconds(s.seconds));
}

// Errors of the matrices that one method gave one bitwidth.
struct Group {
  std::int64_t num_matrices = 0;
  double mse_sum = 0, max_error = 0, output_error = 0, rtn_output_error = 0;
  bool calibrated = true, compared = true;  ///< whether every matrix has these errors
};

std::string describe_result(const CheckpointSummary& s) {
  std::map<std::pair<int, std::string_view>, Group> groups;
  for (const MatrixReport& r : s.matrices) {
    Group& group = groups[{r.bitwidth, to_string(r.method)}];
    ++group.num_matrices;
    group.mse_sum += r.error.mse;
    group.max_error = std::max(group.max_error, r.error.max_error);
    group.calibrated = group.calibrated && r.output_error;
    group.compared = group.compared && r.rtn_output_error;
    group.output_error += r.output_error.value_or(0);
    group.rtn_output_error += r.rtn_output_error.value_or(0);
  }
  std::string text = summary_of(s);
  for (const auto& [key, group] : groups) {
    text += fmt::format("\n  {} bits by {}: {} matrices, mean mse {:.4g}, max error {:.4g}",
                        key.first, key.second, group.num_matrices,
                        group.mse_sum / static_cast<double>(group.num_matrices), group.max_error);
    if (group.calibrated) text += fmt::format(", output error {:.4g}", group.output_error);
    if (group.compared) text += fmt::format(", {:.4g} by round-to-nearest", group.rtn_output_error);
  }
  return text;
}

}  // namespace

template <>
const lua_kit::ObjectType<CheckpointSummary>& lua_kit::object_type<CheckpointSummary>() {
  static const ObjectType<CheckpointSummary> type{
      .name = "tessera.QuantisedModel",
      .doc = "A quantised copy of a model, and what became of each matrix.",
      .fields = {{"out", "string", "The folder",
                  [](lua_State* L, const CheckpointSummary& s) { push_text(L, s.out); }},
                 {"bytes_before", "integer", "Of all tensors of the model",
                  [](lua_State* L, const CheckpointSummary& s) {
                    push_integer(L, static_cast<std::int64_t>(s.bytes_before));
                  }},
                 {"bytes_after", "integer", "Of all tensors of the copy",
                  [](lua_State* L, const CheckpointSummary& s) {
                    push_integer(L, static_cast<std::int64_t>(s.bytes_after));
                  }},
                 {"seconds", "number", "Time it took (s)",
                  [](lua_State* L, const CheckpointSummary& s) { lua_pushnumber(L, s.seconds); }},
                 {"matrices", "table[]",
                  "{ tensor, layer_index, bitwidth, method, mse, max_error, output_error, "
                  "rtn_output_error } of each, the last two where calibration gave them",
                  push_matrices}},
      .methods = {},
      .summary = summary_of,
      .describe = describe_result};
  return type;
}

namespace quant_lua {

void register_quantised_model(lua_State* L) {
  lua_kit::register_object<CheckpointSummary>(L);
  core_lua::environment(L).reference.add_object<CheckpointSummary>();
}

}  // namespace quant_lua
}  // namespace tessera
