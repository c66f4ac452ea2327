// Hugging Face config.json and Tessera's own architecture files.
#include <cmath>

#include "target.h"
#include "tessera/core/model_shape.h"

TESSERA_FUZZ_TARGET(model_config) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view text) {
    const ModelShape model = model_from_json(parse_json(text, "input"), "folder/config.json");
    fuzz::require(model.num_parameters() > 0 && model.num_active_parameters() > 0, "no parameters");
    fuzz::require(model.num_active_parameters() <= model.num_parameters(), "more active than all");
    fuzz::require(
        std::isfinite(model.kv_bytes_per_token(16)) && std::isfinite(model.layer_bytes(4)),
        "sizes that are not finite");
    fuzz::require_round_trip(model,
                             [](const Json& json) { return model_shape_from_json(json, "again"); });
  });
}
