// Device files.
#include "tessera/core/device.h"

#include "target.h"

TESSERA_FUZZ_TARGET(device) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view text) {
    const Device device = device_from_json(parse_json(text, "input"), "input");
    fuzz::require_round_trip(device,
                             [](const Json& json) { return device_from_json(json, "again"); });
  });
}
