// Measured latencies in every format: which one it is, the header says. The path is one that says
// device, model and phase for those formats that have them there.
#include <cmath>

#include "target.h"
#include "tessera/cost/read_samples.h"

TESSERA_FUZZ_TARGET(profile_data) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view text) {
    const cost::SampleFile file = cost::parse_samples(text, "a100/llama1_30b/t4/T4_prompt.csv", {});
    fuzz::require(!file.samples.empty(), "no samples and no error");
    for (const cost::Sample& sample : file.samples) {
      fuzz::require(std::isfinite(sample.latency_s) && sample.latency_s > 0,
                    "a latency of nothing");
      fuzz::require(!sample.device.empty() && !sample.kernel_set.empty() && !sample.source.empty(),
                    "a sample of unknown origin");
      for (const std::string& field : cost::fields_of(sample.query.op)) {
        const double value = cost::field_value(sample.query, field);
        const bool may_be_zero = cost::find_size(field)->may_be_zero;
        fuzz::require(std::isfinite(value) && (value > 0 || (may_be_zero && value == 0)),
                      ("a size of nothing: " + cost::describe(sample.query)).c_str());
      }
    }
  });
}
