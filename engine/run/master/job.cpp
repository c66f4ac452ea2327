#include "tessera/run/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "job_parts.h"
#include "tessera/core/error.h"
#include "tessera/run/record_body.h"

namespace tessera::run {
namespace {

constexpr Nanoseconds kShow = kSecond / 10;  // between two reports of progress
constexpr Nanoseconds kLook = kSecond / 10;  // and two looks for Ctrl-C and for what takes too long

}  // namespace

Job::Job(JobOptions options, Answers& answers, Transport& transport, JobHooks hooks)
    : options_(std::move(options)),
      answers_(answers),
      transport_(transport),
      hooks_(std::move(hooks)),
      created_(transport.now()) {
  log_.requests.resize(answers.prompts.size());
  const auto first = std::make_shared<std::int64_t>(0);
  const std::unordered_set<std::int32_t> stop(options_.stop_tokens.begin(),
                                              options_.stop_tokens.end());
  for (std::size_t e = 0; e < options_.engines.size(); ++e) {
    const EngineSpec& spec = options_.engines[e];
    serving::BlockManager::Options kv{.num_blocks = spec.kv_blocks,
                                      .block_size = spec.options.block_size,
                                      .prefix_caching = spec.options.enable_prefix_caching,
                                      .allocation = spec.options.kv_allocation,
                                      .max_model_len = spec.options.max_model_len,
                                      .named = true};
    serving::EngineCore core(
        serving::make_scheduler(spec.options, kv),
        serving::Ledger(log_, static_cast<std::int32_t>(e), options_.records, first),
        {.num_stages = spec.stages.size(), .with_tables = true});
    std::vector<std::vector<std::int32_t>> stages(spec.stages.size());
    std::map<std::size_t, std::int32_t> attention;
    std::vector<std::int32_t> all;
    for (std::size_t k = 0; k < stages.size(); ++k) {
      for (std::int32_t part = 0; part < spec.stages[k].tensor_ranks; ++part) {
        all.push_back(static_cast<std::int32_t>(ranks_.size()));
        stages[k].push_back(all.back());
        ranks_.push_back({.engine = e, .stage = k, .part = static_cast<std::size_t>(part)});
      }
      if (!spec.attention.contains(k)) continue;
      attention[k] = static_cast<std::int32_t>(ranks_.size());
      all.push_back(attention[k]);
      ranks_.push_back({.engine = e, .stage = k, .attends = true});
    }
    engines_.push_back(std::make_unique<Engine>(
        std::move(core), StageExecutor(stages, attention, stop, transport, spec.emulated)));
    Engine& engine = *engines_.back();
    engine.index = e;
    engine.shared.resize(stages.size());
    engine.most_stages = stages.size();
    engine.stages = std::move(stages);
    engine.attention = std::move(attention);
    engine.ranks = std::move(all);
    engine.executor.keep_spans(options_.records);
    if (hooks_.tokens) engine.executor.SessionExecutor::on_tokens = hooks_.tokens;
  }
  const auto with_role = [&](EngineRole role) {
    const auto found = std::ranges::find(options_.engines, role, &EngineSpec::role);
    return static_cast<std::size_t>(found - options_.engines.begin());
  };
  const std::size_t reads = with_role(EngineRole::prefill);
  if (reads < engines_.size()) {
    Engine& decodes = *engines_.at(with_role(EngineRole::decode));
    exchange_ = std::make_unique<Exchange>(*this, *engines_[reads], decodes);
  }
  loaded_.resize(ranks_.size());
  std::vector<double> given(engines_.size(), 0);
  for (std::size_t i = 0; i < answers.prompts.size(); ++i) {
    if (answers.done[i]) {
      ++num_answered_;
      continue;
    }
    engines_[next_engine(given)]->requests.push_back(static_cast<std::int64_t>(i));
  }
}

// Each prompt goes to the engine that is furthest behind its share.
std::size_t Job::next_engine(std::vector<double>& given) const {
  std::optional<std::size_t> best;
  const auto load = [&](std::size_t e) {
    return (given[e] + 1) / static_cast<double>(options_.engines[e].share);
  };
  for (std::size_t e = 0; e < given.size(); ++e) {
    if (!engines_[e]->is_lost && (!best || load(e) < load(*best))) best = e;
  }
  ++given[*best];
  return *best;
}

Job::~Job() = default;

const std::vector<StageSpan>& Job::spans(std::size_t engine) const {
  return engines_.at(engine)->executor.spans();
}

const std::vector<std::vector<std::int32_t>>& Job::ranks(std::size_t engine) const {
  return engines_.at(engine)->stages;
}

const std::map<std::size_t, std::int32_t>& Job::attention(std::size_t engine) const {
  return engines_.at(engine)->attention;
}

const std::string& Job::host(std::int32_t rank) const {
  return ranks_.at(static_cast<std::size_t>(rank)).address.host;
}

bool Job::is_done() const {
  return state_ == JobState::done || state_ == JobState::failed || state_ == JobState::interrupted;
}

std::string Job::name_of_engine(std::size_t engine) const {
  return exchange_ ? std::string(name_of(options_.engines[engine].role))
                   : fmt::format("engine{}", engine + 1);
}

std::string Job::name_of_rank(std::int32_t rank) const {
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  std::string name =
      fmt::format("{}stage {} (rank {}", r.attends ? "attention of " : "", r.stage, rank);
  if (exchange_) {
    name = fmt::format("{}, {}", name_of_engine(r.engine), name);
  } else if (engines_.size() > 1) {
    name = fmt::format("engine {}, {}", r.engine + 1, name);
  }
  if (!r.address.host.empty()) {
    name += fmt::format(", host {}, process {}", r.address.host, r.process);
  }
  return name + ")";
}

// ------------------------------------------------------------------------------------------ events

// Where requests come from outside no two moments are the same tick, so that a replay knows which
// of them was first.
void Job::begin_moment() {
  if (start_ == 0) return;
  const serving::Ticks now = engines_.front()->executor.ticks(transport_.now());
  moment_ = options_.serves ? std::max(now, moment_ + 1) : now;
  for (const auto& engine : engines_) engine->executor.set_moment(moment_);
}

void Job::on(Event event) {
  if (is_done()) return;
  begin_moment();
  if (event.peer < 0 || event.peer >= std::ssize(ranks_)) return transport_.disconnect(event.peer);
  switch (event.type) {
    case Event::Type::joined:
      return joined(event);
    case Event::Type::lost:
    case Event::Type::unreachable:
      return lost(event.peer, event.why);
    case Event::Type::message:
      break;
  }
  // One that was let go may have been busy with its last order still.
  if (ranks_[static_cast<std::size_t>(event.peer)].state == Rank::State::retired) return;
  try {
    take(event.peer, event.message);
  } catch (const Error& error) {
    // Nobody who keeps to the protocol says such a thing: the link is of no use.
    transport_.disconnect(event.peer);
    lost(event.peer, fmt::format("said what no worker says: {}", error.what()));
  }
}

void Job::joined(const Event& event) {
  Rank& rank = ranks_[static_cast<std::size_t>(event.peer)];
  if (rank.state == Rank::State::retired) return transport_.disconnect(event.peer);
  rank.state = Rank::State::joined;
  rank.address = event.address;
  rank.process = event.process;
  if (state_ == JobState::connecting) {
    const bool all =
        std::ranges::all_of(ranks_, [](const Rank& r) { return r.state == Rank::State::joined; });
    if (all) load_all();
    return;
  }
  // One that was started anew: it is given its part, and the others a new epoch.
  Engine& engine = *engines_[rank.engine];
  if (is_whole(engine)) reset(engine);
}

// Engines that send each other blocks lose steps together, and go on together.
std::vector<Job::Engine*> Job::linked(Engine& engine) const {
  if (!exchange_) return {&engine};
  std::vector<Engine*> all;
  for (const auto& one : engines_) all.push_back(one.get());
  return all;
}

void Job::take(std::int32_t rank, const Message& message) {
  Rank& r = ranks_[static_cast<std::size_t>(rank)];
  Engine& engine = *engines_[r.engine];
  const Header& header = message.header;
  switch (header.kind) {
    case Kind::loaded:
      loaded_[static_cast<std::size_t>(rank)] = record_of<Loaded>(message);
      [[fallthrough]];
    case Kind::ready:
      if (header.epoch != engine.epoch) return;
      r.state = Rank::State::ready;
      return is_loaded(rank);
    case Kind::tokens:
      if (rank != engine.stages.back().front()) refuse("message", "tokens of an inner stage");
      if (!engine.is_running || header.epoch != engine.epoch) return;
      engine.executor.on_tokens(message);
      return advance(engine);
    case Kind::taken:
      if (!exchange_) refuse("message", "blocks that nobody gave");
      if (!engine.is_running || header.epoch != engine.epoch) return;
      exchange_->taken(header.step);
      return advance(engine);
    case Kind::group:
      for (const std::int32_t other : engine.ranks) {
        if (other != rank) transport_.send(other, header, message.body);
      }
      return;
    case Kind::unlinked: {
      if (header.epoch != engine.epoch || engine.lost_link) return;
      const auto link = record_of<Unlinked>(message);
      engine.lost_link = {rank, fmt::format("its link to rank {} {}", link.rank, link.why),
                          transport_.now()};
      return;
    }
    case Kind::failed: {
      const auto failure = record_of<Failure>(message);
      transport_.disconnect(rank);
      const std::string where = failure.where.empty() ? "" : failure.where + ": ";
      const bool has_path = failure.message.starts_with(where);
      return fail(rank, (has_path ? "" : where) + failure.message);
    }
    default:
      refuse("message", "{} from a worker", name_of(header.kind));
  }
}

void Job::is_loaded(std::int32_t rank) {
  show_progress(true);
  Engine& engine = *engines_[ranks_[static_cast<std::size_t>(rank)].engine];
  if (start_ == 0) return begin_when_ready();
  if (!engine.is_running && is_ready(engine)) resume(engine);
}

bool Job::is_ready(Engine& engine) const {
  return std::ranges::all_of(linked(engine), [&](const Engine* one) {
    return std::ranges::all_of(one->ranks, [&](std::int32_t rank) {
      return ranks_[static_cast<std::size_t>(rank)].state == Rank::State::ready;
    });
  });
}

void Job::begin_when_ready() {
  for (const auto& engine : engines_) {
    if (!engine->is_lost && !is_ready(*engine)) return;
  }
  begin();
}

// ----------------------------------------------------------------------------------------- running

void Job::begin() {
  state_ = JobState::running;
  start_ = end_ = shown_ = transport_.now();
  for (const auto& engine : engines_) engine->executor.start_at(start_);
  show_progress(false);
  for (const auto& engine : engines_) {
    if (engine->is_lost) continue;
    engine->is_running = true;
    for (const std::int64_t request : engine->requests) submit(*engine, request, 0);
    engine->live.decide(0);
    answer(*engine);
  }
  if (hooks_.ready) ask([&] { hooks_.ready(); });
  if (!options_.serves && num_answered_ == std::ssize(answers_.prompts)) finish(JobState::done);
}

void Job::submit(Engine& engine, std::int64_t request, serving::Ticks now) {
  const Prompt& prompt = answers_.prompts[static_cast<std::size_t>(request)];
  serving::Sequence sequence;
  sequence.request = request;
  const std::int64_t most = most_new(prompt, options_.max_context_tokens);
  sequence.max_tokens = most;
  engine.live.submit(std::move(sequence), prompt, most, now);
}

void Job::resume(Engine& engine) {
  for (Engine* one : linked(engine)) one->is_running = true;
  state_ = JobState::running;
  for (const auto& other : engines_) {
    if (!other->is_running && !other->is_lost) state_ = JobState::recovering;
  }
  if (hooks_.ready) ask([&] { hooks_.ready(); });
  advance(engine);
}

// At a moment steps end, then engines decide in their order; who waits for blocks of one is tried
// whenever it may have some.
void Job::advance(Engine& engine) {
  end_ = transport_.now();
  engine.live.take_ends(moment_);
  if (exchange_) exchange_->try_waiting(engine);
  const std::vector<Engine*> all = linked(engine);
  for (Engine* one : all) {
    one->live.decide(moment_);
    if (exchange_) exchange_->try_waiting(*one);
  }
  for (Engine* one : all) answer(*one);
  if (is_done()) return;
  if (is_standing_still(engine)) {
    return finish(JobState::failed,
                  "the scheduler does not go on: its KV cache is too small for what waits");
  }
  if (hooks_.moment) ask([&] { hooks_.moment(); });
  show_progress(false);
  if (!options_.serves && num_answered_ == std::ssize(answers_.prompts)) finish(JobState::done);
}

bool Job::is_standing_still(Engine& engine) const {
  if (exchange_ && exchange_->handovers.num_under_way() > 0) return false;
  bool is_stalled = false;
  for (const Engine* one : linked(engine)) {
    const serving::EngineCore& core = one->live.core();
    if (one->executor.num_under_way() > 0 || core.decide_again() != serving::kNever) return false;
    is_stalled |= core.is_stalled();
  }
  return is_stalled;
}

void Job::answer(Engine& engine) {
  for (const Engine::Over& over : std::exchange(engine.over, {})) {
    if (options_.serves) {
      if (exchange_) exchange_->forget(over.request);
      ask([&] { hooks_.over(over.request, over.session, over.how); });
    } else if (over.how != Ending::rejected) {
      answer(over.request, over.session);
    } else if (!is_done()) {
      finish(JobState::failed,
             fmt::format("prompt {} does not fit the KV cache, or max_num_batched_tokens",
                         over.request + 1));
    }
  }
}

void Job::answer(std::int64_t request, const Session& session) {
  if (is_done()) return;
  const auto i = static_cast<std::size_t>(request);
  Answer answer{.stop_reason = session.stop_reason,
                .first_token = session.first_token,
                .last_token = session.last_token};
  answer.tokens.assign(session.answer().begin(), session.answer().end());
  const bool cut = session.most_new < session.prompt->max_tokens;
  if (answer.stop_reason == lm::StopReason::max_tokens && cut) {
    answer.stop_reason = lm::StopReason::context;
  }
  if (hooks_.answered) ask([&] { hooks_.answered(i, answer); });
  answers_.done[i] = std::move(answer);
  ++num_answered_;
}

// What goes wrong with those who ask is no fault of a worker's.
void Job::ask(const std::function<void()>& call) {
  if (raised_) return;
  try {
    call();
  } catch (const Error& error) {
    raised_ = std::current_exception();
    finish(JobState::failed, error.what());
  }
}

void Job::show_progress(bool loading) {
  if (!hooks_.progress) return;
  const Nanoseconds now = transport_.now();
  if (loading) {
    const auto ready = std::ranges::count(ranks_, Rank::State::ready, &Rank::state);
    const auto retired = std::ranges::count(ranks_, Rank::State::retired, &Rank::state);
    return ask([&] { hooks_.progress(true, ready, std::ssize(ranks_) - retired, 0); });
  }
  const bool last = num_answered_ == std::ssize(answers_.prompts);
  if (now - shown_ < kShow && now != start_ && !last) return;
  shown_ = now;
  std::int64_t tokens = 0;
  for (const auto& engine : engines_) tokens += engine->live.core().ledger().output_tokens();
  ask([&] { hooks_.progress(false, num_answered_, std::ssize(answers_.prompts), tokens); });
}

void Job::finish(JobState state, std::string why) {
  if (is_done()) return;
  state_ = state;
  why_ = std::move(why);
  if (start_ > 0) {
    end_ = state == JobState::done ? end_ : transport_.now();
    for (std::size_t e = 0; e < engines_.size(); ++e) {
      Engine& engine = *engines_[e];
      std::vector<serving::Ticks> busy(engine.most_stages, 0);
      for (const StageSpan& span : engine.executor.spans()) {
        busy[span.stage] += (span.end - span.start) * 1000;
      }
      serving::EngineCore& core = engine.live.core();
      core.ledger().close(core.scheduler(), engine.executor.ticks(end_), !core.is_idle(),
                          {.name = name_of_engine(e)}, std::move(busy));
    }
    std::ranges::stable_sort(log_.steps, {}, &serving::StepRecord::start);
    log_.end = engines_.front()->executor.ticks(end_);
  }
  for (std::int32_t rank = 0; rank < std::ssize(ranks_); ++rank) {
    transport_.send(rank, {.kind = Kind::stop}, {});
  }
}

Nanoseconds Job::wake_at() const {
  if (is_done()) return kNoTime;
  Nanoseconds at = next_look_;
  for (const auto& engine : engines_) {
    const serving::Ticks again = engine->live.core().decide_again();
    if (engine->is_running && again != serving::kNever) {
      at = std::min(at, start_ + again / 1000 + 1);
    }
  }
  return at;
}

void Job::tick() {
  if (is_done()) return;
  begin_moment();
  if (transport_.now() >= next_look_) {
    next_look_ = transport_.now() + kLook;
    if (hooks_.interrupted && hooks_.interrupted()) return finish(JobState::interrupted);
    check_limits();
    if (is_done()) return;
  }
  for (const auto& engine : engines_) {
    const serving::Ticks again = engine->live.core().decide_again();
    if (engine->is_running && again <= moment_) advance(*engine);
  }
}

}  // namespace tessera::run
