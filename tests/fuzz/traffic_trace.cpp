// Traces of requests and rates over time, `ts.traffic { trace = "trace.csv" }`. What is accepted is
// written and read again.
#include "input_folder.h"
#include "target.h"
#include "tessera/serving/traffic_options.h"

namespace traffic_trace_target {
namespace {

using namespace tessera;
using serving::Request;
using serving::Traffic;

void require_sound(const Traffic& traffic) {
  serving::Ticks latest = 0;
  const auto num_ids = static_cast<std::int64_t>(traffic.block_ids.size());
  for (std::size_t i = 0; i < traffic.requests.size(); ++i) {
    const Request& r = traffic.requests[i];
    fuzz::require(r.prompt_tokens >= 1 && r.output_tokens >= 1, "a length below 1");
    fuzz::require(r.prefix_tokens >= 0 && r.prefix_tokens <= r.prompt_tokens, "a prefix too long");
    fuzz::require(r.max_tokens == 0 || r.max_tokens >= r.output_tokens, "a limit below the output");
    fuzz::require(r.after < static_cast<std::int64_t>(i), "a turn that waits for a later one");
    fuzz::require(r.num_block_ids >= 0 && r.first_block_id >= 0 &&
                      r.first_block_id + r.num_block_ids <= num_ids,
                  "block ids out of range");
    fuzz::require(r.arrival >= 0, "an arrival before the start");
    if (r.after >= 0) continue;
    fuzz::require(r.arrival >= latest, "arrivals out of order");
    latest = r.arrival;
  }
}

bool same(const Request& a, const Request& b) {
  return a.arrival == b.arrival && a.prompt_tokens == b.prompt_tokens &&
         a.output_tokens == b.output_tokens && a.max_tokens == b.max_tokens &&
         a.priority == b.priority && a.slo_class == b.slo_class &&
         a.prefix_group == b.prefix_group && a.prefix_tokens == b.prefix_tokens &&
         a.stream == b.stream && a.first_block_id == b.first_block_id &&
         a.num_block_ids == b.num_block_ids && a.after == b.after;
}

void require_read_again(const Traffic& traffic, const std::string& path) {
  serving::write_trace(traffic, path);
  try {
    const Traffic again = serving::read_trace(path);
    fuzz::require(
        again.requests.size() == traffic.requests.size() && again.block_ids == traffic.block_ids,
        "a written trace has other requests or block ids");
    for (std::size_t i = 0; i < again.requests.size(); ++i) {
      fuzz::require(same(again.requests[i], traffic.requests[i]), "a request reads back otherwise");
    }
  } catch (const Error& error) {
    fuzz::require(false, error.what());
  }
}

}  // namespace

TESSERA_FUZZ_TARGET(traffic_trace) {
  static const fuzz::Folder folder;
  return fuzz::read(data, size, [](std::string_view text) {
    const fuzz::MemoryFile file(text);
    serving::TrafficOptions options;
    options.trace = file.path();
    options.num_requests = 200;
    if (text.find("rate_per_s") != std::string_view::npos) {
      options.category = "chat";
    } else {
      options.sort = text.size() % 2 == 1;
      if (text.size() % 4 < 2) options.thin = 0.7;
      if (text.size() % 8 < 4) options.rate_scale = 2;
    }
    const Traffic traffic = serving::make_traffic(options, "input");
    require_sound(traffic);
    require_read_again(traffic, folder.path() + "/trace.csv");
  });
}

}  // namespace traffic_trace_target
