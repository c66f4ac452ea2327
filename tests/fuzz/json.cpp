// The strict JSON parser: what it accepts, it writes and reads back.
#include "target.h"

TESSERA_FUZZ_TARGET(json) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view text) {
    const Json json = parse_json(text, "input");
    fuzz::require(parse_json(json.dump(), "again") == json, "JSON changed when written and read");
  });
}
