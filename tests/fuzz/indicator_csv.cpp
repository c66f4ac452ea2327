// Indicators from CSV logs.
#include "target.h"
#include "tessera/indicator/indicator.h"

TESSERA_FUZZ_TARGET(indicator_csv) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view text) {
    const fuzz::MemoryFile file(text);
    const auto found = indicator::read_indicator(file.path(), "opt-13b");
    fuzz::require(found.omega.size() == found.num_layers * found.bitwidths.size(), "holes");
    fuzz::require_round_trip(found,
                             [](const Json& json) { return indicator_from_json(json, "again"); });
  });
}
