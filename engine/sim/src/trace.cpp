#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/sim/pipeline.h"

namespace tessera::sim {
namespace {

// A name as a JSON string; bytes that are not UTF-8 become replacement characters.
std::string json_text(const std::string& text) { return shown_json(text); }

// Whole nanoseconds: rounding is monotone, so intervals that touch do not overlap in the file.
long long nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

std::string microseconds(long long ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

void metadata(fmt::memory_buffer& out, const char* what, std::size_t track,
              const std::string& args) {
  fmt::format_to(std::back_inserter(out),
                 "{{\"name\":\"{}\",\"ph\":\"M\",\"pid\":1,\"tid\":{},\"args\":{{{}}}}},\n", what,
                 track, args);
}

// Stages first, links below them.
void name_tracks(fmt::memory_buffer& out, const Run& run, const Pipeline& pipeline) {
  const std::size_t num_stages = pipeline.stage_names.size();
  metadata(out, "process_name", 0, "\"name\":\"pipeline\"");
  std::set<std::size_t> tracks;
  for (std::size_t stage = 0; stage < num_stages; ++stage) tracks.insert(2 * stage);
  for (const Span& span : run.spans) tracks.insert(span.track);
  for (const std::size_t track : tracks) {
    const std::size_t stage = track / 2;
    const bool is_link = track % 2 == 1;
    const std::string name =
        is_link ? fmt::format("link {} to {}", stage, stage + 1) : pipeline.stage_names.at(stage);
    metadata(out, "thread_name", track, "\"name\":" + json_text(name));
    metadata(out, "thread_sort_index", track,
             fmt::format("\"sort_index\":{}", is_link ? num_stages + stage : stage));
  }
}

void complete_event(fmt::memory_buffer& out, const Span& span, std::int64_t requests) {
  const bool prefill = span.phase == Phase::prefill;
  const char* phase = prefill ? "prefill" : "decode";
  const char* index = prefill ? "chunk" : "token";
  const long long begin = nanoseconds(span.start_s);
  const long long end = nanoseconds(span.start_s + span.duration_s);
  fmt::format_to(
      std::back_inserter(out),
      "{{\"name\":\"{0} mb {1} {2} {3}\",\"cat\":\"{0}\",\"ph\":\"X\",\"pid\":1,\"tid\":{4},"
      "\"ts\":{5},\"dur\":{6},\"args\":{{\"micro_batch\":{1},\"requests\":{7},\"{2}\":{3}}}}},\n",
      phase, span.micro_batch, index, span.index, span.track, microseconds(begin),
      microseconds(end - begin), requests);
}

}  // namespace

void save_chrome_trace(const Run& run, const Pipeline& pipeline, const std::string& path) {
  if (run.spans.empty() && run.total_s > 0) {
    throw Error(ErrorCode::invalid_argument,
                "the run holds no spans to write; simulate with spans recorded", path);
  }
  const auto prefill = micro_batch_sizes(pipeline.batch_size, pipeline.prefill_micro_batch_size);
  const auto decode = micro_batch_sizes(pipeline.batch_size, pipeline.decode_micro_batch_size);
  fmt::memory_buffer out;
  fmt::format_to(std::back_inserter(out), "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  name_tracks(out, run, pipeline);
  for (const Span& span : run.spans) {
    const auto& sizes = span.phase == Phase::prefill ? prefill : decode;
    complete_event(out, span, sizes.at(static_cast<std::size_t>(span.micro_batch)));
  }
  out.resize(out.size() - 2);  // the comma and newline after the last event
  fmt::format_to(std::back_inserter(out), "\n]}}\n");
  write_file(path, fmt::to_string(out));
}

}  // namespace tessera::sim
