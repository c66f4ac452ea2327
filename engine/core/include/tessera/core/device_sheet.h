#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tessera/core/device.h"
#include "tessera/core/files.h"

namespace tessera {

/// A device's file: the device, and what drivers call it besides its full name.
struct DeviceSheet : Device {
  std::vector<std::string> driver_names;
  std::vector<std::string> pcie_driver_names;  ///< of boards without the NVLink that the sheet has
  bool usual = false;                          ///< meant by a name that fits others as well: "A100"
};

template <>
struct Fields<DeviceSheet> {
  using S = DeviceSheet;
  static constexpr auto list = std::tuple_cat(
      Fields<Device>::list,
      std::tuple{
          field<&S::driver_names>({.name = "driver_names",
                                   .doc = "What drivers call it besides its full name",
                                   .in_file = InFile::when_set}),
          field<&S::pcie_driver_names>({.name = "pcie_driver_names",
                                        .doc = "What they call boards of it that have PCIe alone",
                                        .in_file = InFile::when_set}),
          field<&S::usual>({.name = "usual",
                            .doc = "Meant by a name that fits others as well, such as A100",
                            .in_file = InFile::when_set})});
  static void check(const S& sheet, const FieldPath& path) { Fields<Device>::check(sheet, path); }
};

/// The sheet of this file's name. @throws Error{not_found}
DeviceSheet find_sheet(const std::string& name, const DataFolders& folders,
                       const std::string& where = {});

/// Those that can be read: a broken sheet of a user does not take the others with it.
std::vector<DeviceSheet> all_sheets(const DataFolders& folders);

/// A device that drivers have a name for.
struct DriverName {
  std::string name;  ///< short: without maker and form factor
  std::string device;
  bool without_nvlink = false;  ///< although its sheet may have it
};

template <>
struct Fields<DriverName> {
  using N = DriverName;
  static constexpr auto list =
      std::tuple{field<&N::name>({.name = "name", .doc = "Without maker and form factor"}),
                 field<&N::device>({.name = "device", .doc = "Its sheet"}),
                 field<&N::without_nvlink>(
                     {.name = "without_nvlink", .doc = "Whether its board has PCIe alone"})};
};

/// "NVIDIA GeForce RTX 3090" is "RTX 3090", "NVIDIA H200 (SXM5)" is "H200".
std::string short_driver_name(std::string_view name);

/// Of all sheets that can be read: full names, their own, and what they list besides.
std::vector<DriverName> driver_names(const DataFolders& folders);

/// Those that are called so, as nvidia-smi prints it.
std::vector<DriverName> called(const std::vector<DriverName>& names, std::string_view driver_name);

}  // namespace tessera
