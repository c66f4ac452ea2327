// Traces that can be replayed: whatever the file says, it is read back alike or refused with its
// line, and a replay of it ends.
#include "target.h"
#include "tessera/serving/replay.h"

namespace {

using namespace tessera;
using namespace tessera::serving;

// What a replay of a small file may take.
bool is_small(const ReplayFile& file) {
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < file.card.requests.size(); ++i) {
    tokens += file.card.requests[i].prompt_tokens + file.log.requests[i].output_tokens;
  }
  return tokens < 100'000 && file.card.requests.size() < 1000;
}

}  // namespace

TESSERA_FUZZ_TARGET(step_log) {
  return fuzz::read(data, size, [](std::string_view text) {
    const ReplayFile file = replay_file_of(text, "input");
    fuzz::require(file.card.requests.size() == file.log.requests.size(),
                  "requests without records");
    if (!is_small(file)) return;
    const Replay found = replay(file.card, file.log);
    fuzz::require(found.identical != found.first_difference.has_value(), "a difference unsaid");
  });
}
