#include <fmt/format.h>

#include "core_lua.h"
#include "tessera/core/cluster.h"
#include "tessera/core/device_sheet.h"
#include "tessera/core/json.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera {
namespace {

const OptionTable& device_options() {
  static const OptionTable table = lua_kit::option_table<Device>(
      {"ts.device",
       "A GPU type: a name (\"T4-16G\"), a file, or its data-sheet figures, as files have them "
       "(memory_gib or memory_mib instead of memory_bytes).",
       "tessera.Device",
       {{.name = "file",
         .type = OptionType::text,
         .doc = "JSON file of one device; the other fields come from it"}},
       "string"});
  return table;
}

/// Whether a table is as files have it, with the memory in another unit than the options'.
bool has_memory_unit(lua_State* L, int index, const std::string& path) {
  if (!lua_istable(L, index)) return false;
  const auto has = [&](const char* name) {
    const bool is_there = lua_kit::push_field(L, index, name, path);
    lua_pop(L, 1);
    return is_there;
  };
  return has("memory_gib") || has("memory_mib");
}

std::string summary(const Device& d) {
  return fmt::format("device {}: {}, {:.0f} GB/s, {:.1f} TFLOP/s fp16", d.name,
                     format_bytes(d.memory_bytes), d.memory_bytes_per_s / 1e9,
                     d.flop_per_s.at("fp16") / 1e12);
}

}  // namespace

template <>
const lua_kit::ObjectType<Device>& lua_kit::object_type<Device>() {
  static const ObjectType<Device> type{.name = "tessera.Device",
                                       .doc = "A GPU type by its data sheet.",
                                       .fields = fields_of<Device>(),
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
  if (has_memory_unit(L, index, path)) {
    return std::make_shared<Device>(device_from_json(lua_kit::json_from_lua(L, index, path), path));
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

/// device_meant(name): { device =, note = } of any spelling of a name; `note` says which was taken
/// where it fits several.
int device_meant(lua_State* L) {
  std::vector<std::string> notes;
  const std::string name = lua_kit::check_text(L, 1, "name");
  auto device = std::make_shared<Device>(find_device(name, environment(L).folders, {}, &notes));
  lua_createtable(L, 0, 2);
  lua_kit::push_object<Device>(L, std::move(device));
  lua_setfield(L, -2, "device");
  if (!notes.empty()) lua_kit::set_text(L, "note", notes.front());
  return 1;
}

/// devices_called(name): { name =, device =, without_nvlink = } of the sheets that the driver's
/// name is of.
int devices_called(lua_State* L) {
  const std::string name = lua_kit::check_text(L, 1, "name");
  lua_kit::push_value(L, called(driver_names(environment(L).folders), name));
  return 1;
}

/// short_driver_name(name): without maker and form factor.
int short_name(lua_State* L) {
  lua_kit::push_text(L, short_driver_name(lua_kit::check_text(L, 1, "name")));
  return 1;
}

void register_device(lua_State* L) {
  lua_kit::register_object<Device>(L);
  environment(L).reference.add_object<Device>();
  environment(L).reference.add(device_options());
}

}  // namespace core_lua
}  // namespace tessera
