// Workload files.
#include "tessera/core/workload.h"

#include "target.h"

TESSERA_FUZZ_TARGET(workload) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view text) {
    const Workload workload = workload_from_json(parse_json(text, "input"), "input");
    fuzz::require(workload.num_chunks() >= 1, "no chunk");
    fuzz::require(workload.tokens_in_chunk(0) >= 1, "an empty first chunk");
    fuzz::require(workload.tokens_in_chunk(workload.num_chunks() - 1) >= 1, "an empty last chunk");
    fuzz::require_round_trip(workload,
                             [](const Json& json) { return workload_from_json(json, "again"); });
  });
}
