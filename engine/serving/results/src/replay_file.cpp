// Traces with what a replay needs, read back: line by line, as strictly as they were written.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "event_file.h"
#include "replay_lines.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"

namespace tessera::serving {
namespace {

constexpr std::uint64_t kMostBytes = 4ull << 30;

Ticks shown(Ticks time) { return time == kNever ? -1 : time; }
Ticks meant(Ticks time) { return time < 0 ? kNever : time; }

RequestRecord record_of(const RequestLine& line, const std::string& where) {
  if (line.waited.size() != kNumLimits) {
    refuse(where, "waited has {} times; {} belong there", line.waited.size(), kNumLimits);
  }
  RequestRecord r;
  r.arrival = meant(line.arrival);
  r.taken = meant(line.taken);
  r.first_scheduled = meant(line.first_scheduled);
  r.first_token = meant(line.first_token);
  r.last_token = meant(line.last_token);
  r.cancelled = meant(line.cancelled);
  r.transferred = line.transferred;
  r.output_tokens = line.output_tokens;
  r.cached_tokens = line.cached_tokens;
  r.recomputed_tokens = line.recomputed_tokens;
  r.num_preemptions = static_cast<std::int32_t>(line.preemptions);
  std::copy(line.waited.begin(), line.waited.end(), r.waited.begin());
  r.outcome = line.outcome;
  if (r.outcome == Outcome::finished && r.output_tokens < 1) {
    refuse(where, "a request finished without a token");
  }
  if (r.arrival == kNever || (r.taken != kNever && r.taken < r.arrival) ||
      (r.cancelled != kNever && (r.taken == kNever || r.cancelled < r.taken))) {
    refuse(where, "a request arrives at {}, is taken at {} and leaves at {} ps", line.arrival,
           line.taken, line.cancelled);
  }
  return r;
}

StepRecord record_of(const StepLine& line, std::int64_t number, const std::string& where) {
  if (line.scheduled.size() % 2 != 0 || line.drafts.size() % 4 != 0) {
    refuse(where, "scheduled has {} numbers and drafts {}; pairs and fours belong there",
           line.scheduled.size(), line.drafts.size());
  }
  StepRecord step;
  step.step = number;
  step.replica = static_cast<std::int32_t>(line.engine);
  step.start = line.start;
  step.duration = line.duration;
  if (step.start < 0 || step.duration < 0 || step.start > kNever - step.duration) {
    refuse(where, "a step from {} of {} ps", step.start, step.duration);
  }
  for (std::size_t i = 0; i < line.scheduled.size(); i += 2) {
    step.scheduled.push_back({line.scheduled[i], line.scheduled[i + 1]});
  }
  for (std::size_t i = 0; i < line.drafts.size(); i += 4) {
    step.drafts.push_back(
        {line.drafts[i], line.drafts[i + 1], line.drafts[i + 2], line.drafts[i + 3]});
  }
  const auto ascend = [](const auto& list) {
    return std::is_sorted(list.begin(), list.end(),
                          [](const auto& a, const auto& b) { return a.request < b.request; });
  };
  if (!ascend(step.scheduled) || !ascend(step.drafts)) refuse(where, "requests do not ascend");
  step.preempted = line.preempted;
  step.finished = line.finished;
  step.free_blocks = line.free_blocks;
  step.num_waiting = line.waiting;
  step.num_running = line.running;
  step.limit = line.limit;
  return step;
}

/// The lines of a file, one after the other.
class Reader {
 public:
  Reader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  ReplayFile read() {
    if (next() != kTraceHead) {
      refuse(where(), "this is no trace of served:save_trace: its first line is another");
    }
    bool ended = false;
    while (!ended) {
      if (text_.empty()) refuse(where(), "the file ends in the middle; its last line is ]}}");
      std::string_view line = next();
      ended = line == "]}";
      if (ended) break;
      if (line.ends_with(',')) line.remove_suffix(1);
      take(line);
    }
    if (!text_.empty()) refuse(where(), "something follows the end of the trace");
    if (!has_run_) {
      refuse(path_,
             "no event says what ran: it is a trace for viewers alone, of several engines or "
             "without its steps");
    }
    return std::move(file_);
  }

 private:
  std::string where() const { return fmt::format("{}:{}", path_, number_); }

  std::string_view next() {
    ++number_;
    const std::size_t end = text_.find('\n');
    const std::string_view line = text_.substr(0, end);
    text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
    return line;
  }

  void take(std::string_view line) {
    const Json event = parse_json(line, where());
    if (!event.is_object()) refuse(where(), "an event is no object");
    const auto args = event.find("args");
    if (args == event.end() || !args->is_object()) return;
    const auto found = args->find("replay");
    if (found == args->end()) return;
    const auto kind = event.find("cat");
    const std::string name =
        kind == event.end() || !kind->is_string() ? "" : kind->get<std::string>();
    const std::string at = where() + ": replay";
    if (name == "run") return take_run(from_json<RunLine>(*found, at));
    if (!has_run_) refuse(where(), "a {} before the event that says what ran", quote(name));
    if (name == "request") return take_request(event, from_json<RequestLine>(*found, at));
    if (name == "step") {
      auto& steps = file_.log.steps;
      const auto said = from_json<StepLine>(*found, at);
      const auto engine = static_cast<std::size_t>(said.engine);
      if (engine >= file_.log.replicas.size())
        refuse(where(), "a step of an engine that nothing names");
      steps.push_back(record_of(said, num_steps_[engine]++, where()));
      if (steps.size() > 1 && steps.back().start < steps[steps.size() - 2].start) {
        refuse(where(), "a step starts before the one before it");
      }
      return check_requests(steps.back());
    }
    refuse(where(), "nothing is known of {} in a replay", quote(name));
  }

  void take_run(const RunLine& run) {
    if (has_run_) refuse(where(), "says once more what ran");
    has_run_ = true;
    file_.card = {.engine = run.engine,
                  .kv_blocks = run.kv_blocks,
                  .num_stages = run.num_stages,
                  .kv_bytes_per_token = run.kv_bytes_per_token};
    if (run.decoder) file_.card.decoder = {run.decoder->kv_blocks, run.decoder->num_stages};
    const auto count = static_cast<std::size_t>(run.num_requests);
    if (count > text_.size() / 8)
      refuse(where(), "{} requests are more than the file holds", count);
    file_.card.requests.resize(count);
    file_.log.requests.resize(count);
    add_engine(run.name, run.retries);
    if (run.decoder) add_engine(run.decoder->name, run.decoder->retries);
    file_.log.cut_off = run.cut_off;
    file_.log.steps_recorded = true;
  }

  void add_engine(const std::string& name, const std::vector<Ticks>& retries) {
    if (!std::is_sorted(retries.begin(), retries.end())) refuse(where(), "retries do not ascend");
    ReplicaRecord& engine = file_.log.replicas.emplace_back();
    engine.name = name;
    engine.retries = retries;
  }

  void take_request(const Json& event, const RequestLine& line) {
    const std::int64_t id = json_integer(event.value("id", Json(-1)), where() + ": id", 0,
                                         std::ssize(file_.card.requests) - 1);
    const auto index = static_cast<std::size_t>(id);
    if (file_.log.requests[index].arrival != kNever) {
      refuse(where(), "request {} is there twice", id);
    }
    file_.card.requests[index] = {.prompt_tokens = line.prompt_tokens,
                                  .max_tokens = line.max_tokens,
                                  .priority = static_cast<std::int32_t>(line.priority),
                                  .slo_class = static_cast<std::int32_t>(line.slo_class),
                                  .blocks = line.blocks};
    file_.log.requests[index] = record_of(line, where());
  }

  void check_requests(const StepRecord& step) const {
    for (const ScheduledTokens& part : step.scheduled) {
      if (part.request < std::ssize(file_.card.requests)) continue;
      refuse(where(), "request {} of a step, and the run had {}", part.request,
             file_.card.requests.size());
    }
  }

  std::string_view text_;
  const std::string& path_;
  std::int64_t number_ = 0;
  bool has_run_ = false;
  std::array<std::int64_t, 2> num_steps_{};  ///< by engine
  ReplayFile file_;
};

}  // namespace

RunLine line_of(const ReplayCard& card, const Log& log) {
  std::optional<DecoderLine> decoder;
  if (card.decoder) {
    const ReplicaRecord& sums = log.replicas.at(1);
    decoder = {card.decoder->kv_blocks, card.decoder->num_stages, sums.name, sums.retries};
  }
  return {.engine = card.engine,
          .kv_blocks = card.kv_blocks,
          .num_stages = card.num_stages,
          .num_requests = std::ssize(card.requests),
          .kv_bytes_per_token = card.kv_bytes_per_token,
          .name = log.replicas.empty() ? "" : log.replicas.front().name,
          .cut_off = log.cut_off,
          .retries = log.replicas.empty() ? std::vector<Ticks>{} : log.replicas.front().retries,
          .decoder = std::move(decoder)};
}

RequestLine line_of(const ReplayedRequest& request, const RequestRecord& r) {
  return {.prompt_tokens = request.prompt_tokens,
          .max_tokens = request.max_tokens,
          .output_tokens = r.output_tokens,
          .priority = request.priority,
          .slo_class = request.slo_class,
          .blocks = request.blocks,
          .arrival = shown(r.arrival),
          .taken = shown(r.taken),
          .first_scheduled = shown(r.first_scheduled),
          .first_token = shown(r.first_token),
          .last_token = shown(r.last_token),
          .cancelled = shown(r.cancelled),
          .transferred = r.transferred,
          .cached_tokens = r.cached_tokens,
          .recomputed_tokens = r.recomputed_tokens,
          .preemptions = r.num_preemptions,
          .waited = {r.waited.begin(), r.waited.end()},
          .outcome = r.outcome};
}

StepLine line_of(const StepRecord& step) {
  StepLine line{.engine = step.replica,
                .start = step.start,
                .duration = step.duration,
                .preempted = step.preempted,
                .finished = step.finished,
                .free_blocks = step.free_blocks,
                .waiting = step.num_waiting,
                .running = step.num_running,
                .limit = step.limit};
  for (const ScheduledTokens& part : step.scheduled) {
    line.scheduled.insert(line.scheduled.end(), {part.request, part.tokens});
  }
  for (const DraftRecord& d : step.drafts) {
    line.drafts.insert(line.drafts.end(), {d.request, d.drafts, d.accepted, d.next_drafts});
  }
  return line;
}

ReplayFile replay_file_of(std::string_view text, const std::string& path) {
  return Reader(text, path).read();
}

ReplayFile read_replay_file(const std::string& path) {
  return replay_file_of(read_file(path, kMostBytes), path);
}

}  // namespace tessera::serving
