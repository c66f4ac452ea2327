// Calibration statistics: the names and metadata over the safetensors reader, and every linear.
#include "tessera/quant/statistics.h"

#include "target.h"

TESSERA_FUZZ_TARGET(statistics) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view text) {
    const fuzz::MemoryFile file(text);
    const auto statistics = quant::Statistics::open(file.path());
    for (std::int64_t layer = 0; layer < std::min<std::int64_t>(statistics.num_layers(), 4);
         ++layer) {
      for (const char* linear : {"q_proj", "k_proj"}) {
        const auto found = statistics.find(layer, linear);
        fuzz::require(!found || found->mean.allFinite(), "statistics that are not finite");
      }
    }
  });
}
