#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core_lua.h"
#include "quant_lua.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/record.h"
#include "tessera/quant/checkpoint.h"

namespace tessera {
namespace {

using quant::CheckpointSummary;
using quant::MatrixReport;

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
    Group& group = groups[{r.bitwidth, name_of(r.method)}];
    ++group.num_matrices;
    group.mse_sum += r.mse;
    group.max_error = std::max(group.max_error, r.max_error);
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
  for (const std::string& note : s.notes) text += "\n  note: " + note;
  return text;
}

}  // namespace

template <>
const lua_kit::ObjectType<CheckpointSummary>& lua_kit::object_type<CheckpointSummary>() {
  static const ObjectType<CheckpointSummary> type{
      .name = "tessera.QuantisedModel",
      .doc = "A quantised copy of a model, and what became of each matrix.",
      .fields = fields_of<CheckpointSummary>(),
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
