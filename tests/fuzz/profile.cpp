// Profiles: what was read predicts times that are positive and finite, and reads back as written.
#include "tessera/cost/profile.h"

#include <cmath>

#include "target.h"

TESSERA_FUZZ_TARGET(profile) {
  using namespace tessera;
  using cost::to_json;
  static const DataFolders folders({TESSERA_SOURCE_DIR "/datasets"});
  return fuzz::read(data, size, [](std::string_view text) {
    const cost::Profile profile =
        cost::profile_from_json(parse_json(text, "input"), "input", folders);
    for (const cost::ProfilePart& part : profile.parts) {
      if (part.op == cost::Op::layer) continue;  // needs a model's shape
      cost::OpQuery query;
      query.op = part.op;
      query.dtype = part.dtype;
      query.kv_dtype = part.kv_dtype;
      query.phase = part.phase.value_or(cost::Phase::prefill);
      query.m = query.n = query.k = 512;
      query.batch_size = query.num_heads = query.num_kv_heads = 8;
      query.tokens = query.phase == cost::Phase::decode ? 1 : 512;
      query.context_tokens = 512 - query.tokens;
      query.head_dim = 128;
      query.bytes = 1e6;
      const double seconds = part.model->seconds(query);
      fuzz::require(std::isfinite(seconds) && seconds > 0, "a time of nothing");
    }
    fuzz::require_round_trip(
        profile, [](const Json& json) { return cost::profile_from_json(json, "again", folders); });
  });
}
