// A run taken again by the simulator, from what was recorded of it.

#include "tessera/serving/replay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/serving/engine_setup.h"
#include "tessera/serving/log_names.h"
#include "tessera/serving/served.h"
#include "tessera/serving/simulate.h"

namespace tessera::serving {
namespace {

/// Hashes of the full blocks of a request's tokens, each of all up to its end.
std::vector<std::uint64_t> block_hashes(Content content, std::int64_t num_blocks,
                                        std::int64_t block_size) {
  std::vector<std::uint64_t> hashes;
  for (std::int64_t i = 0; i < num_blocks; ++i) {
    hashes.push_back(content.block_hash(i, block_size));
  }
  return hashes;
}

// Equal numbers for equal hashes; blocks at the end that nobody else has need none.
void number_blocks(const std::vector<std::vector<std::uint64_t>>& hashes, ReplayCard& card) {
  struct Number {
    std::int64_t uses = 0, number = -1;
  };
  std::unordered_map<std::uint64_t, Number> numbers;
  for (const auto& request : hashes) {
    for (const std::uint64_t hash : request) ++numbers[hash].uses;
  }
  std::int64_t next = 0;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const auto own = [&](std::uint64_t hash) { return numbers[hash].uses == 1; };
    std::size_t count = hashes[i].size();
    while (count > 0 && own(hashes[i][count - 1])) --count;
    for (std::size_t k = 0; k < count; ++k) {
      Number& number = numbers[hashes[i][k]];
      if (number.number < 0) number.number = next++;
      card.requests[i].blocks.push_back(number.number);
    }
  }
}

/// Tokens that are equal where the numbers say so.
std::vector<Token> tokens_of(const ReplayedRequest& request, std::size_t number, std::int64_t count,
                             std::int64_t block_size) {
  const auto own = static_cast<std::int64_t>(number);
  std::vector<Token> tokens;
  for (std::int64_t p = 0; p < count; ++p) {
    const std::int64_t block = p / block_size;
    const bool shared = block < std::ssize(request.blocks);
    const std::int64_t of = shared ? request.blocks[static_cast<std::size_t>(block)] : -1 - own;
    const std::uint64_t hash = mixed_hash(static_cast<std::uint64_t>(of),
                                          static_cast<std::uint64_t>(shared ? p % block_size : p));
    tokens.push_back(static_cast<Token>(hash & 0x7fffffff));
  }
  return tokens;
}

std::vector<std::vector<Token>> all_tokens(const ReplayCard& card, const Log& log) {
  constexpr std::int64_t kMost = 200'000'000;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < card.requests.size(); ++i) {
    sum += card.requests[i].prompt_tokens + log.requests[i].output_tokens;
  }
  if (sum > kMost) {
    refuse(ErrorCode::out_of_range, "ts.replay", "{} tokens with a prefix cache; up to {} fit", sum,
           kMost);
  }
  std::vector<std::vector<Token>> tokens;
  for (std::size_t i = 0; i < card.requests.size(); ++i) {
    tokens.push_back(tokens_of(card.requests[i], i,
                               card.requests[i].prompt_tokens + log.requests[i].output_tokens,
                               card.engine.block_size));
  }
  return tokens;
}

Ticks end_of(const Log& log) {
  Ticks end = 0;
  for (const StepRecord& step : log.steps) end = std::max(end, step.start + step.duration);
  for (const RequestRecord& r : log.requests) {
    for (const Ticks time : {r.taken, r.cancelled})
      end = time == kNever ? end : std::max(end, time);
  }
  return end;
}

/// Times come from a log.
struct NoCost final : StepCost {
  explicit NoCost(std::int64_t stages) : stages_(static_cast<std::size_t>(stages)) {}
  std::size_t num_stages() const override { return stages_; }
  Ticks stage(const StepLoad&, std::size_t) const override { return 1; }
  std::optional<DecodeLine> decode_line(std::int64_t, std::int64_t) const override { return {}; }

 private:
  std::size_t stages_;
};

/// At the end of steps that are far enough from each other, so that a page of them is no film of
/// hours.
void show(const std::function<void(EngineView)>& on_view, Ticks end, SimulationOptions& options) {
  constexpr Ticks kMostViews = 600;
  options.named_blocks = true;
  options.on_step = [&on_view, gap = end / kMostViews, next = Ticks{0}, viewer = EngineViewer(),
                     engines = std::vector<const EngineCore*>()](
                        const EngineCore& core, const Work& work, const StepTimes& times,
                        const std::vector<Pass>&) mutable {
    // Who decodes has its first step behind who reads.
    if (std::ranges::find(engines, &core) == engines.end()) engines.push_back(&core);
    viewer.step(work, times);
    if (times.end < next) return;
    next = times.end + gap;
    on_view(viewer.take(engines, times.end));
  };
}

// ------------------------------------------------------------------------------------- comparing

class Difference {
 public:
  explicit Difference(std::string of) : of_(std::move(of)) {}
  template <class Value>
  void expect(std::string_view what, const Value& a, const Value& b) {
    if (text_.empty() && !(a == b))
      text_ = fmt::format("{}: {} is {}, in the replay {}", of_, what, a, b);
  }
  void time(std::string_view what, Ticks a, Ticks b) {
    const auto shown = [](Ticks t) {
      return t == kNever ? std::string("never") : fmt::format("{:.12f} s", to_seconds(t));
    };
    if (a != b) expect(what, shown(a), shown(b));
  }
  const std::string& text() const { return text_; }

 private:
  std::string of_, text_;
};

std::vector<std::pair<std::int64_t, std::int64_t>> pairs_of(const StepRecord& step) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (const ScheduledTokens& part : step.scheduled) pairs.emplace_back(part.request, part.tokens);
  return pairs;
}

std::vector<std::vector<std::int64_t>> drafts_of(const StepRecord& step) {
  std::vector<std::vector<std::int64_t>> all;
  for (const DraftRecord& d : step.drafts) {
    all.push_back({d.request, d.drafts, d.accepted, d.next_drafts});
  }
  return all;
}

std::string difference_of(const StepRecord& a, const StepRecord& b) {
  Difference d(fmt::format("{}step {}", a.replica > 0 ? "decode " : "", a.step));
  d.expect("engine", a.replica, b.replica);
  d.expect("what it computes ((request, tokens), ...)", pairs_of(a), pairs_of(b));
  d.expect("preempted", a.preempted, b.preempted);
  d.expect("drafts ([request, drafts, accepted, next], ...)", drafts_of(a), drafts_of(b));
  d.expect("finished", a.finished, b.finished);
  d.expect("free_blocks", a.free_blocks, b.free_blocks);
  d.expect("waiting", a.num_waiting, b.num_waiting);
  d.expect("running", a.num_running, b.num_running);
  d.expect("limit", name_of(a.limit), name_of(b.limit));
  d.time("start", a.start, b.start);
  d.time("end", a.start + a.duration, b.start + b.duration);
  return d.text();
}

std::string difference_of(std::size_t number, const RequestRecord& a, const RequestRecord& b) {
  Difference d(fmt::format("request {}", number));
  d.expect("outcome", name_of(a.outcome), name_of(b.outcome));
  d.time("arrival", a.arrival, b.arrival);
  d.time("taken", a.taken, b.taken);
  d.time("first step", a.first_scheduled, b.first_scheduled);
  d.time("first token", a.first_token, b.first_token);
  d.time("last token", a.last_token, b.last_token);
  d.time("cancelled", a.cancelled, b.cancelled);
  d.time("from engine to engine", a.transferred, b.transferred);
  d.expect("output_tokens", a.output_tokens, b.output_tokens);
  d.expect("cached_tokens", a.cached_tokens, b.cached_tokens);
  d.expect("recomputed_tokens", a.recomputed_tokens, b.recomputed_tokens);
  d.expect("preemptions", a.num_preemptions, b.num_preemptions);
  for (std::size_t i = 0; i < kNumLimits; ++i) {
    d.time(fmt::format("time in the queue for {}", name_of(static_cast<Limit>(i))), a.waited[i],
           b.waited[i]);
  }
  return d.text();
}

}  // namespace

std::string why_no_replay(const Served& served) {
  if (!served.traffic || !served.deployment) return "nobody kept what this run served";
  if (!served.log.steps_recorded) {
    return "the steps of this run were not recorded; pass record = true to ts.serve";
  }
  const std::vector<Replica>& engines = served.deployment->replicas;
  if (!served.log.models.empty()) return "its engines come and go with models";
  const bool hands_over = engines.size() == 2 && engines[0].role == Role::prefill &&
                          engines[1].role == Role::decode && engines[0].engine == engines[1].engine;
  if (engines.size() != 1 && !hands_over) {
    return fmt::format(
        "a run of one engine can be replayed, or of one that reads and one like it "
        "that decodes; this one has {}",
        engines.size());
  }
  if (!hands_over && engines.front().role != Role::mixed)
    return "its engine reads or decodes alone";
  const auto comes_or_goes = [](const Replica& engine) {
    return engine.from_s > 0 || engine.until_s;
  };
  if (std::ranges::any_of(engines, comes_or_goes)) return "an engine of it comes or goes";
  return {};
}

ReplayCard replay_card(const Served& served) {
  const std::string why_not = why_no_replay(served);
  if (!why_not.empty()) refuse(ErrorCode::unsupported, "ts.replay", "{}", why_not);
  const Traffic& traffic = *served.traffic;
  const Log& log = served.log;
  const Replica& replica = served.deployment->replicas.front();
  ReplayCard card{.engine = replica.engine,
                  .kv_blocks = replica.kv_blocks,
                  .num_stages = replica.num_stages(),
                  .kv_bytes_per_token = replica.kv_bytes_per_token};
  if (served.deployment->replicas.size() > 1) {
    const Replica& decoder = served.deployment->replicas.back();
    card.decoder = {.kv_blocks = decoder.kv_blocks, .num_stages = decoder.num_stages()};
  }
  const std::int64_t size = card.engine.block_size;
  std::vector<std::vector<std::uint64_t>> hashes(traffic.requests.size());
  for (std::size_t i = 0; i < traffic.requests.size(); ++i) {
    const Request& r = traffic.requests[i];
    Sequence s = sequence_of(traffic, r, 0);
    card.requests.push_back({.prompt_tokens = r.prompt_tokens,
                             .max_tokens = s.max_tokens,
                             .priority = r.priority,
                             .slo_class = r.slo_class});
    if (!card.engine.enable_prefix_caching || log.requests[i].taken == kNever) continue;
    s.content.own = i;
    std::int64_t known = r.prompt_tokens + log.requests[i].output_tokens;
    if (!served.outputs.empty()) {
      s.content.tokens = std::make_shared<TokenChain>(size, served.outputs[i].salt);
      s.content.tokens->append(served.outputs[i].prompt);
      s.content.tokens->append(served.outputs[i].tokens);
      known = s.content.tokens->num_blocks() * size;
    }
    hashes[i] = block_hashes(s.content, known / size, size);
  }
  number_blocks(hashes, card);
  return card;
}

Replay replay(const ReplayCard& card, const Log& log, MakeScheduler make_scheduler,
              std::function<void()> poll, std::function<void(EngineView)> on_view) {
  Replica engine;
  engine.name = log.replicas.empty() ? "engine" : log.replicas.front().name;
  engine.engine = card.engine;
  if (engine.engine.speculative) engine.engine.speculative->acceptance = {0.5};  // nobody asks
  engine.kv_blocks = card.kv_blocks;
  engine.kv_bytes_per_token = card.kv_bytes_per_token;
  engine.cost = std::make_shared<NoCost>(card.num_stages);
  engine.make_scheduler = std::move(make_scheduler);
  Deployment deployment;
  deployment.replicas.push_back(std::move(engine));
  if (card.decoder) {
    Replica decoder = deployment.replicas.front();
    deployment.replicas.front().role = Role::prefill;
    decoder.role = Role::decode;
    decoder.kv_blocks = card.decoder->kv_blocks;
    decoder.cost = std::make_shared<NoCost>(card.decoder->num_stages);
    deployment.replicas.push_back(std::move(decoder));
  }
  Traffic traffic;
  Recorded recorded{.log = &log, .end = end_of(log)};
  if (card.engine.enable_prefix_caching) recorded.tokens = all_tokens(card, log);
  for (std::size_t i = 0; i < card.requests.size(); ++i) {
    const ReplayedRequest& r = card.requests[i];
    const RequestRecord& record = log.requests[i];
    Request request;
    request.prompt_tokens = r.prompt_tokens;
    request.max_tokens = r.max_tokens;
    request.output_tokens =
        record.outcome == Outcome::finished ? record.output_tokens : r.max_tokens;
    request.priority = r.priority;
    request.slo_class = r.slo_class;
    traffic.requests.push_back(request);
  }
  SimulationOptions options;
  options.record_steps = true;
  options.recorded = &recorded;
  options.most_steps = 2 * std::ssize(log.steps) + 1000;  // beyond them it is another run
  if (poll) options.poll = [&](std::int64_t) { poll(); };
  if (on_view) show(on_view, recorded.end, options);
  const Log again = simulate(deployment, traffic, options);
  Replay result{.num_steps = std::ssize(log.steps), .num_requests = std::ssize(log.requests)};
  std::string difference = first_difference(log, again);
  result.identical = difference.empty();
  if (!result.identical) result.first_difference = std::move(difference);
  return result;
}

std::string first_difference(const Log& run, const Log& again) {
  for (std::size_t i = 0; i < std::min(run.steps.size(), again.steps.size()); ++i) {
    std::string found = difference_of(run.steps[i], again.steps[i]);
    if (!found.empty()) return found;
  }
  const bool cut = !run.cut_off.empty() && run.steps.size() < again.steps.size();
  if (run.steps.size() != again.steps.size() && !cut) {
    return fmt::format("the run has {} steps, its replay {}", run.steps.size(), again.steps.size());
  }
  if (run.requests.size() != again.requests.size()) {
    return fmt::format("the run has {} requests, its replay {}", run.requests.size(),
                       again.requests.size());
  }
  for (std::size_t i = 0; i < run.requests.size(); ++i) {
    if (run.requests[i].outcome == Outcome::unfinished) continue;
    std::string found = difference_of(i, run.requests[i], again.requests[i]);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace tessera::serving
