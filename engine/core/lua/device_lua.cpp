#include <fmt/format.h>

#include "core_lua.h"
#include "tessera/core/json.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/value.h"

namespace tessera {
namespace {

using lua_kit::push_text;

const OptionTable& device_options() {
  static const OptionTable table{
      "ts.device",
      "A GPU type: a name (\"T4-16G\"), a file, or its data-sheet figures.",
      "tessera.Device",
      {{.name = "file",
        .type = OptionType::text,
        .doc = "JSON file of one device; the other fields come from it"},
       {.name = "name", .type = OptionType::text, .doc = "Name to refer to it by"},
       {.name = "full_name", .type = OptionType::text, .doc = "As on the box"},
       {.name = "memory_bytes",
        .doc = "Memory as the driver reports it",
        .unit = "bytes",
        .min = 1,
        .max = 1e15},
       {.name = "memory_bytes_per_s",
        .doc = "Peak memory bandwidth",
        .unit = "bytes/s",
        .min = 1,
        .max = 1e18},
       {.name = "flop_per_s",
        .type = OptionType::table,
        .doc = "Dense peak rate by dtype: fp16 (required), fp32, bf16, int8, fp8, int4",
        .unit = "FLOP/s",
        .lua_type = "table<string, number>"},
       {.name = "compute_capability",
        .doc = "CUDA compute capability, such as 7.5",
        .min = 1,
        .max = 100},
       {.name = "pcie_bytes_per_s",
        .doc = "PCIe bandwidth, one direction",
        .unit = "bytes/s",
        .min = 1,
        .max = 1e15},
       {.name = "nvlink_bytes_per_s",
        .doc = "NVLink bandwidth to one peer, one direction",
        .unit = "bytes/s",
        .min = 1,
        .max = 1e15},
       {.name = "price_usd_per_h", .doc = "List price", .unit = "USD/h", .min = 0, .max = 1e6},
       {.name = "price_source", .type = OptionType::text, .doc = "Where the price was read"},
       {.name = "source", .type = OptionType::text, .doc = "Where the figures were read"}},
      "string"};
  return table;
}

std::string summary(const Device& d) {
  return fmt::format("device {}: {}, {:.0f} GB/s, {:.1f} TFLOP/s fp16", d.name,
                     format_bytes(d.memory_bytes), d.memory_bytes_per_s / 1e9,
                     d.flop_per_s.at("fp16") / 1e12);
}

}  // namespace

template <>
const lua_kit::ObjectType<Device>& lua_kit::object_type<Device>() {
  static const ObjectType<Device> type{
      .name = "tessera.Device",
      .doc = "A GPU type by its data sheet.",
      .fields = {{"name", "string", "Name",
                  [](lua_State* L, const Device& d) { push_text(L, d.name); }},
                 {"full_name", "string", "As on the box",
                  [](lua_State* L, const Device& d) { push_text(L, d.full_name); }},
                 {"memory_bytes", "number", "Memory as the driver reports it (bytes)",
                  [](lua_State* L, const Device& d) { lua_pushnumber(L, d.memory_bytes); }},
                 {"memory_bytes_per_s", "number", "Peak bandwidth (bytes/s)",
                  [](lua_State* L, const Device& d) { lua_pushnumber(L, d.memory_bytes_per_s); }},
                 {"flop_per_s", "table<string, number>", "Dense peak by dtype (FLOP/s)",
                  [](lua_State* L, const Device& d) { push_json(L, to_json(d)["flop_per_s"]); }},
                 {"compute_capability", "number", "CUDA compute capability",
                  [](lua_State* L, const Device& d) { lua_pushnumber(L, d.compute_capability); }},
                 {"pcie_bytes_per_s", "number", "One direction (bytes/s)",
                  [](lua_State* L, const Device& d) { lua_pushnumber(L, d.pcie_bytes_per_s); }},
                 {"nvlink_bytes_per_s", "number?", "To one peer, one direction (bytes/s)",
                  [](lua_State* L, const Device& d) { push_optional(L, d.nvlink_bytes_per_s); }},
                 {"price_usd_per_h", "number?", "List price (USD/h)",
                  [](lua_State* L, const Device& d) { push_optional(L, d.price_usd_per_h); }},
                 {"price_source", "string", "Where the price was read",
                  [](lua_State* L, const Device& d) { push_text(L, d.price_source); }},
                 {"source", "string", "Where the figures were read",
                  [](lua_State* L, const Device& d) { push_text(L, d.source); }}},
      .methods = {},
      .summary = summary};
  return type;
}

namespace core_lua {

std::shared_ptr<const Device> device_argument(lua_State* L, int index, const std::string& path) {
  if (const auto* held = lua_kit::test_object<Device>(L, index)) return *held;
  if (lua_type(L, index) == LUA_TSTRING) {
    return std::make_shared<Device>(
        find_device(lua_kit::check_text(L, index, path), environment(L).folders, path));
  }
  const lua_kit::Options options(L, index, device_options(), path);
  if (options.given("file")) {
    options.refuse_others({"file"}, "the file says it; leave it out");
    const std::string file = options.text("file");
    return std::make_shared<Device>(device_from_json(read_json_file(file), file));
  }
  Json fields = lua_kit::json_from_lua(L, index, path);
  if (fields.empty()) fields = Json::object();  // {} could be a list as well
  return std::make_shared<Device>(device_from_json(fields, path));
}

int new_device(lua_State* L) {
  lua_kit::push_object<Device>(L, device_argument(L, 1, "ts.device"));
  return 1;
}

void register_device(lua_State* L) {
  lua_kit::register_object<Device>(L);
  environment(L).reference.add_object<Device>();
  environment(L).reference.add(device_options());
}

}  // namespace core_lua
}  // namespace tessera
