#include <fmt/format.h>

#include <algorithm>

#include "event_file.h"
#include "replay_lines.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/record_json.h"
#include "tessera/serving/served.h"

namespace tessera::serving {
namespace {

void name_process(EventFile& out, std::size_t pid, const std::string& name) {
  out.add(R"({{"name":"process_name","ph":"M","pid":{},"tid":0,"args":{{"name":{}}}}})", pid,
          shown_json(name));
  out.add(
      R"({{"name":"process_sort_index","ph":"M","pid":{0},"tid":0,"args":{{"sort_index":{0}}}}})",
      pid);
}

void counters(EventFile& out, std::size_t pid, Ticks time, std::int64_t waiting,
              std::int64_t running, std::int64_t used_blocks) {
  out.add(R"({{"name":"requests","ph":"C","pid":{},"ts":{},"args":{{"waiting":{},"running":{}}}}})",
          pid, microseconds(time), waiting, running);
  out.add(R"({{"name":"used blocks","ph":"C","pid":{},"ts":{},"args":{{"used":{}}}}})", pid,
          microseconds(time), used_blocks);
}

/// Process 1 is the requests', replica r is process r + 2.
std::size_t process_of(std::int32_t replica) { return static_cast<std::size_t>(replica) + 2; }

/// ,"replay":{...} of a record; nothing where nobody can replay the run.
template <class... Args>
std::string for_replay(bool wanted, const Args&... args) {
  return wanted ? ",\"replay\":" + json_text(json_of(line_of(args...))) : "";
}

void add_step(EventFile& out, const Log& log, const StepRecord& step, std::size_t track,
              bool replays) {
  std::int64_t tokens = 0;
  for (const ScheduledTokens& part : step.scheduled) tokens += part.tokens;
  const Ticks begin = step.start, end = step.start + step.duration;
  const std::size_t pid = process_of(step.replica);
  out.add(
      R"({{"name":"step {}","cat":"step","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"args":{{)"
      R"("tokens":{},"requests":{},"preempted":{},"finished":{},"free_blocks":{},"limit":"{}"{}}}}})",
      step.step, pid, track, microseconds(begin),
      microseconds((end + 500) / 1000 * 1000 - (begin + 500) / 1000 * 1000), tokens,
      step.scheduled.size(), step.preempted.size(), step.finished.size(), step.free_blocks,
      name_of(step.limit), for_replay(replays, step));
  const auto& replicas = log.replicas;
  const auto r = static_cast<std::size_t>(step.replica);
  const std::int64_t blocks = r < replicas.size() ? replicas[r].kv_blocks : 0;
  counters(out, pid, step.start, step.num_waiting, step.num_running,
           std::max<std::int64_t>(0, blocks - step.free_blocks));
}

void add_steps(EventFile& out, const Log& log, bool replays) {
  std::vector<std::vector<Ticks>> busy_until;  // by replica and track
  for (const StepRecord& step : log.steps) {
    const auto r = static_cast<std::size_t>(step.replica);
    if (r >= busy_until.size()) busy_until.resize(r + 1);
    auto& tracks = busy_until[r];
    const auto track = std::find_if(tracks.begin(), tracks.end(),
                                    [&](Ticks until) { return until <= step.start; });
    const auto index = static_cast<std::size_t>(track - tracks.begin());
    if (track == tracks.end()) tracks.push_back(0);
    tracks[index] = step.start + step.duration;
    add_step(out, log, step, index, replays);
  }
}

void begin_slice(EventFile& out, std::size_t id, std::string_view name, Ticks time,
                 const std::string& args = {}) {
  out.add(
      R"({{"name":"{}","cat":"request","ph":"b","pid":1,"tid":0,"id":{},"ts":{},"args":{{{}}}}})",
      name, id, microseconds(time), args);
}

void end_slice(EventFile& out, std::size_t id, std::string_view name, Ticks time) {
  out.add(R"({{"name":"{}","cat":"request","ph":"e","pid":1,"tid":0,"id":{},"ts":{}}})", name, id,
          microseconds(time));
}

void add_request(EventFile& out, const Log& log, std::size_t id, const ReplayCard* card) {
  const RequestRecord& r = log.requests[id];
  if (r.arrival == kNever || r.arrival > log.end) return;
  const auto or_end = [&](Ticks time) { return time == kNever ? log.end : time; };
  const Ticks end = r.outcome == Outcome::rejected    ? r.arrival
                    : r.outcome == Outcome::cancelled ? r.cancelled
                                                      : or_end(r.last_token);
  const std::string name = fmt::format("request {}", id);
  begin_slice(out, id, name, r.arrival,
              fmt::format(R"("outcome":"{}","output_tokens":{},"cached_tokens":{},)"
                          R"("preemptions":{},"replica":{},"transfer_s":{}{})",
                          name_of(r.outcome), r.output_tokens, r.cached_tokens, r.num_preemptions,
                          r.replica, to_seconds(r.transferred),
                          card != nullptr ? for_replay(true, card->requests[id], r) : ""));
  if (r.outcome != Outcome::rejected) {
    const Ticks marks[] = {r.arrival, r.first_scheduled, r.first_token, r.last_token};
    const std::string_view phases[] = {"queued", "prefill", "decode"};
    for (std::size_t phase = 0; phase < 3 && marks[phase] != kNever; ++phase) {
      begin_slice(out, id, phases[phase], marks[phase]);
      end_slice(out, id, phases[phase], or_end(marks[phase + 1]));
    }
  }
  end_slice(out, id, name, end);
}

}  // namespace

void save_chrome_trace(const Log& log, const std::string& path, std::int64_t max_events,
                       const ReplayCard* card) {
  if (log.requests.empty() && log.steps.empty()) {
    refuse(path, "the run has neither requests nor steps to draw");
  }
  const std::size_t num_events = 3 * log.steps.size() + 8 * log.requests.size() +
                                 (log.steps.empty() ? 2 * log.samples.size() : 0);
  if (num_events > static_cast<std::size_t>(std::max<std::int64_t>(max_events, 0))) {
    refuse(ErrorCode::out_of_range, path,
           "a trace of {} requests and {} steps has about {} events, more than {}, which no viewer "
           "opens; serve fewer requests, or do not record steps",
           log.requests.size(), log.steps.size(), num_events, max_events);
  }
  EventFile out(path);
  name_process(out, 1, "requests");
  for (std::size_t r = 0; r < log.replicas.size(); ++r) {
    name_process(out, r + 2, log.replicas[r].name);
  }
  if (card != nullptr) {
    out.add(
        R"({{"name":"engine","cat":"run","ph":"M","pid":2,"tid":0,"args":{{"kv_blocks":{}{}}}}})",
        card->kv_blocks, for_replay(true, *card, log));
  }
  add_steps(out, log, card != nullptr);
  if (log.steps.empty()) {
    for (const StateSample& s : log.samples) {
      counters(out, 1, s.time, s.num_waiting, s.num_running, s.used_blocks);
    }
  }
  for (std::size_t i = 0; i < log.requests.size(); ++i) add_request(out, log, i, card);
  out.commit();
}

}  // namespace tessera::serving
