// Indicators: JSON in both forms, and CSV. The reader tells them apart by the path, so JSON comes
// from the parsed text and CSV through a file.
#include "tessera/core/indicator.h"

#include "target.h"

TESSERA_FUZZ_TARGET(indicator) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view text) {
    const auto found = indicator_from_json(parse_json(text, "input"), "input");
    fuzz::require(found.omega.size() == found.num_layers * found.bitwidths.size(), "holes");
    fuzz::require_round_trip(found,
                             [](const Json& json) { return indicator_from_json(json, "again"); });
  });
}
