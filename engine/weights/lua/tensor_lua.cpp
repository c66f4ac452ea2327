#include <fmt/format.h>

#include <limits>
#include <utility>

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "weights_lua.h"

namespace tessera {
namespace {

using weights::Tensor;

// A Lua table has 16 bytes an element, and LuaJIT memory for two thousand million bytes.
constexpr std::int64_t kMostInTable = 20'000'000;

const OptionTable& tensor_options() {
  static const OptionTable table{"ts.tensor",
                                 "Numbers of your own, as ts.quantise takes them.",
                                 "tessera.Tensor",
                                 {{.name = "shape",
                                   .type = OptionType::integer_list,
                                   .doc = "Sizes, slowest first: { rows, columns }",
                                   .min = 0,
                                   .max = kMaxExactInteger,
                                   .required = true},
                                  {.name = "data",
                                   .type = OptionType::table,
                                   .doc = "The numbers, row by row; kept as f32",
                                   .lua_type = "number[]",
                                   .required = true},
                                  {.name = "name",
                                   .type = OptionType::text,
                                   .doc = "What messages call it",
                                   .default_text = "\"tensor\""}}};
  return table;
}

const Tensor& tensor_self(lua_State* L) { return *lua_kit::check_object<Tensor>(L, 1, "tensor"); }

int shape(lua_State* L) {
  const auto& sizes = tensor_self(L).shape();
  lua_kit::push_numbers(L, {sizes.begin(), sizes.end()});
  return 1;
}

int dtype(lua_State* L) {
  lua_kit::push_text(L, to_string(tensor_self(L).dtype()));
  return 1;
}

// nil where there is no number to speak of.
template <double kernels::Moments::*field>
int moment(lua_State* L) {
  const kernels::Moments& moments = tensor_self(L).moments();
  if (moments.count == 0) {
    lua_pushnil(L);
  } else {
    lua_pushnumber(L, moments.*field);
  }
  return 1;
}

int num_not_finite(lua_State* L) {
  lua_kit::push_integer(L, tensor_self(L).moments().num_not_finite);
  return 1;
}

int to_table(lua_State* L) {
  const Tensor& tensor = tensor_self(L);
  const auto most = static_cast<double>(tensor.num_elements());
  const std::int64_t first =
      lua_isnoneornil(L, 2) ? 1
                            : lua_kit::check_integer(L, 2, "tensor:to_table first", 1, most + 1);
  const std::int64_t left = tensor.num_elements() - (first - 1);
  const std::int64_t count =
      lua_isnoneornil(L, 3)
          ? left
          : lua_kit::check_integer(L, 3, "tensor:to_table count", 0, static_cast<double>(left));
  if (count > kMostInTable) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("tensor:to_table: {} numbers, a table takes {}; give first and count",
                            count, kMostInTable),
                "tensor:to_table count");
  }
  std::vector<float> values(static_cast<std::size_t>(count));
  tensor.read_f32(first - 1, values);
  lua_createtable(L, static_cast<int>(count), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    lua_pushnumber(L, static_cast<double>(values[static_cast<std::size_t>(i)]));
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
  return 1;
}

std::vector<float> data_of(const lua_kit::Options& options) {
  lua_State* L = options.state();
  options.push("data");
  const int list = lua_gettop(L);
  const std::string path = options.path_of("data");
  const std::size_t count = lua_kit::list_length(L, list, path, {}, kMostInTable);
  std::vector<float> values;
  values.reserve(count);
  const double most = static_cast<double>(std::numeric_limits<float>::max());
  for (std::size_t i = 1; i <= count; ++i) {
    lua_kit::push_item(L, list, i, path);
    values.push_back(
        static_cast<float>(lua_kit::check_number(L, -1, lua_kit::item_path(path, i), -most, most)));
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return values;
}

std::string describe_tensor(const Tensor& tensor) {
  const kernels::Moments& moments = tensor.moments();
  std::string text = lua_kit::object_type<Tensor>().summary(tensor);
  if (moments.count > 0) {
    text += fmt::format("\n  min {:.6g}, max {:.6g}, mean {:.6g}, variance {:.6g}", moments.min,
                        moments.max, moments.mean, moments.variance);
  }
  if (moments.num_not_finite > 0) {
    text += fmt::format("\n  {} of {} numbers are NaN or infinite, and left out above",
                        moments.num_not_finite, tensor.num_elements());
  }
  return text;
}

}  // namespace

template <>
const lua_kit::ObjectType<Tensor>& lua_kit::object_type<Tensor>() {
  static const ObjectType<Tensor> type{
      .name = "tessera.Tensor",
      .doc = "Numbers with a shape: of a file, read when they are asked for, or your own.",
      .fields = {{"name", "string", "As in the file",
                  [](lua_State* L, const Tensor& t) { push_text(L, t.name()); }},
                 {"num_elements", "integer", "Product of the shape",
                  [](lua_State* L, const Tensor& t) { push_integer(L, t.num_elements()); }}},
      .methods = {{"shape", guarded<shape>, "(): integer[]", "Sizes, slowest first"},
                  {"dtype", guarded<dtype>, "(): string",
                   "What it is stored as, in the file's words: F32, F16, BF16, Q4_K, ..."},
                  {"min", guarded<moment<&kernels::Moments::min>>, "(): number?",
                   "Least of the finite numbers; nil where there is none"},
                  {"max", guarded<moment<&kernels::Moments::max>>, "(): number?",
                   "Greatest of the finite numbers"},
                  {"mean", guarded<moment<&kernels::Moments::mean>>, "(): number?",
                   "Mean of the finite numbers"},
                  {"variance", guarded<moment<&kernels::Moments::variance>>, "(): number?",
                   "Their variance: of the population, divided by the count"},
                  {"num_not_finite", guarded<num_not_finite>, "(): integer",
                   "How many numbers are NaN or infinite"},
                  {"to_table", guarded<to_table>, "(first: integer?, count: integer?): number[]",
                   "The numbers from `first` (1-based), row by row, as f32; all by default"}},
      .summary =
          [](const Tensor& t) {
            return fmt::format("tensor {}: {} {}", t.name(), to_string(t.dtype()),
                               weights::describe_shape(t.shape()));
          },
      .describe = describe_tensor};
  return type;
}

namespace weights_lua {

std::shared_ptr<const Tensor> tensor_argument(lua_State* L, int index, const std::string& path) {
  return lua_kit::check_object<Tensor>(L, index, path);
}

int new_tensor(lua_State* L) {
  const lua_kit::Options options(L, 1, tensor_options(), "ts.tensor");
  lua_kit::push_object<Tensor>(
      L,
      std::make_shared<Tensor>(options.text("name"), options.integers("shape"), data_of(options)));
  return 1;
}

void register_tensor(lua_State* L) {
  lua_kit::register_object<Tensor>(L);
  core_lua::environment(L).reference.add_object<Tensor>();
  core_lua::environment(L).reference.add(tensor_options());
}

}  // namespace weights_lua
}  // namespace tessera
