// Kernel sets.
#include "tessera/cost/kernel_set.h"

#include "target.h"

TESSERA_FUZZ_TARGET(kernel_set) {
  using namespace tessera;
  using cost::to_json;
  return fuzz::read(data, size, [](std::string_view text) {
    const cost::KernelSet set = cost::kernel_set_from_json(parse_json(text, "input"), "input");
    Device device;
    device.name = "T4-16G";
    device.compute_capability = 7.5;
    device.flop_per_s = {{"fp16", 65e12}, {"int8", 130e12}};
    for (const std::int32_t bitwidth : set.bitwidths_on(device)) {
      fuzz::require(set.find(device, bitwidth) != nullptr, "a bitwidth without a rule");
    }
    fuzz::require_round_trip(
        set, [](const Json& json) { return cost::kernel_set_from_json(json, "again"); });
  });
}
