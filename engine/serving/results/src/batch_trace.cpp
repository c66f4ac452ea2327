// The trace of a plan's batch: one track per stage, links below them.

#include <cmath>
#include <set>

#include "event_file.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/serving/batch_run.h"
#include "tessera/serving/served.h"

namespace tessera::serving {
namespace {

void metadata(EventFile& out, const char* what, std::size_t track, const std::string& args) {
  out.add(R"({{"name":"{}","ph":"M","pid":1,"tid":{},"args":{{{}}}}})", what, track, args);
}

void name_tracks(EventFile& out, const BatchRun& run, const BatchPipeline& pipeline) {
  const std::size_t num_stages = pipeline.stage_names.size();
  metadata(out, "process_name", 0, R"("name":"pipeline")");
  std::set<std::size_t> tracks;
  for (std::size_t stage = 0; stage < num_stages; ++stage) tracks.insert(2 * stage);
  for (const BatchSpan& span : run.spans) tracks.insert(span.track);
  for (const std::size_t track : tracks) {
    const std::size_t stage = track / 2;
    const bool is_link = track % 2 == 1;
    const std::string name =
        is_link ? fmt::format("link {} to {}", stage, stage + 1) : pipeline.stage_names.at(stage);
    metadata(out, "thread_name", track, R"("name":)" + shown_json(name));
    metadata(out, "thread_sort_index", track,
             fmt::format(R"("sort_index":{})", is_link ? num_stages + stage : stage));
  }
}

Ticks ticks_of(double seconds) { return static_cast<Ticks>(std::llround(seconds * 1e12)); }

void add_span(EventFile& out, const BatchSpan& span, std::int64_t requests) {
  const bool prefill = span.phase == BatchPhase::prefill;
  const Ticks begin = ticks_of(span.start_s), end = ticks_of(span.start_s + span.duration_s);
  out.add(
      R"({{"name":"{0} mb {1} {2} {3}","cat":"{0}","ph":"X","pid":1,"tid":{4},"ts":{5},"dur":{6},)"
      R"("args":{{"micro_batch":{1},"requests":{7},"{2}":{3}}}}})",
      prefill ? "prefill" : "decode", span.micro_batch, prefill ? "chunk" : "token", span.index,
      span.track, microseconds(begin),
      microseconds((end + 500) / 1000 * 1000 - (begin + 500) / 1000 * 1000), requests);
}

}  // namespace

void save_chrome_trace(const BatchRun& run, const BatchPipeline& pipeline,
                       const std::string& path) {
  if (run.spans.empty() && run.total_s > 0) {
    throw Error(ErrorCode::invalid_argument,
                "the run holds no spans to write; simulate with spans recorded", path);
  }
  const auto prefill = micro_batch_sizes(pipeline.batch_size, pipeline.prefill_micro_batch_size);
  const auto decode = micro_batch_sizes(pipeline.batch_size, pipeline.decode_micro_batch_size);
  EventFile out(path);
  name_tracks(out, run, pipeline);
  for (const BatchSpan& span : run.spans) {
    const auto& sizes = span.phase == BatchPhase::prefill ? prefill : decode;
    add_span(out, span,
             span.num_requests > 0 ? span.num_requests
                                   : sizes.at(static_cast<std::size_t>(span.micro_batch)));
  }
  out.commit();
}

}  // namespace tessera::serving
