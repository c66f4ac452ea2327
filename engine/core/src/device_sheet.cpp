#include "tessera/core/device_sheet.h"

#include <set>

#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera {

std::string short_driver_name(std::string_view name) {
  for (const std::string_view maker : {"NVIDIA ", "Tesla ", "GeForce "}) {
    if (name.starts_with(maker)) name.remove_prefix(maker.size());
  }
  const std::size_t form = name.rfind(" (");
  if (form != std::string_view::npos && name.ends_with(')')) name = name.substr(0, form);
  return std::string(name);
}

std::vector<DeviceSheet> all_sheets(const DataFolders& folders) {
  std::vector<DeviceSheet> sheets;
  for (const std::string& file : folders.list("devices")) {
    try {
      sheets.push_back(find_sheet(file, folders));
    } catch (const Error&) {
      continue;
    }
  }
  return sheets;
}

std::vector<DriverName> driver_names(const DataFolders& folders) {
  std::vector<DriverName> names;
  std::set<std::pair<std::string, std::string>> known;
  for (const DeviceSheet& sheet : all_sheets(folders)) {
    const auto add = [&](const std::string& name, bool without_nvlink) {
      std::string text = short_driver_name(name);
      if (text.empty() || !known.emplace(text, sheet.name).second) return;
      names.push_back({std::move(text), sheet.name, without_nvlink});
    };
    add(sheet.full_name, false);
    add(sheet.name, false);
    for (const std::string& name : sheet.driver_names) add(name, false);
    for (const std::string& name : sheet.pcie_driver_names) add(name, true);
  }
  return names;
}

std::vector<DriverName> called(const std::vector<DriverName>& names, std::string_view driver_name) {
  const std::string text = short_driver_name(driver_name);
  std::vector<DriverName> found;
  for (const DriverName& name : names) {
    if (name.name == text) found.push_back(name);
  }
  return found;
}

}  // namespace tessera
