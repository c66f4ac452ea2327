#include "pipeline_loop.h"

#include <algorithm>
#include <utility>

#include "tessera/core/error.h"

namespace tessera::http {

PipelineLoop::PipelineLoop(run::ExecuteRequest request, std::vector<serving::Replica> engines,
                           std::function<void(News)> tell, bool records)
    : Engine(std::move(tell), records),
      request_(std::move(request)),
      engines_(std::move(engines)) {}

void PipelineLoop::came() {
  if (wake_) wake_();
}

void PipelineLoop::run(const std::function<void()>& on_ready) {
  run::Online online{.engine = engines_.front().engine,
                     .kv_blocks = engines_.front().kv_blocks,
                     .records = records_};
  online.hooks.work = [this] { return take(); };
  online.hooks.ready = [this, on_ready, is_first = true]() mutable {
    if (std::exchange(is_first, false) && on_ready) on_ready();
    note();
  };
  online.hooks.moment = [this] { note(); };
  online.hooks.tokens = [this](std::int64_t id, const run::Session& session, std::int64_t first) {
    brought(id, session, first);
  };
  online.hooks.over = [this](std::int64_t id, const run::Session& session, run::Ending how) {
    over(id, session, how);
  };
  online.attach = [this](run::Job* job, std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    job_ = job;
    wake_ = std::move(wake);
  };
  request_.online = std::move(online);
  request_.faulted = [this, told = request_.faulted](const run::Fault& fault) {
    if (told) told(fault);
    note();
  };
  run::Executed done = run::execute(request_);
  log_ = std::move(done.log);
  if (done.state == run::JobState::failed) throw Error(ErrorCode::internal, done.why, "stages");
}

void PipelineLoop::note() {
  stir();
  end_moment(job_->time(), job_->state() == run::JobState::running, job_->num_handovers());
}

bool PipelineLoop::take() {
  {
    const std::lock_guard lock(mutex_);
    if (inbox_.stops) {
      // A step under way ends first: a replay would take it.
      const bool runs = job_->state() == run::JobState::running;
      if (runs && !std::ranges::all_of(cores(), &serving::EngineCore::is_idle)) return false;
      job_->end();
      return true;
    }
    if (inbox_.empty() && view_due() > job_->time()) return false;
  }
  take_inbox(
      job_->time(),
      [&](serving::Sequence sequence, const run::Prompt& prompt, const std::string& salt) {
        job_->submit(std::move(sequence), prompt, salt);
      },
      [&](std::int64_t request) { job_->cancel(request); });
  job_->go_on();
  return true;
}

serving::Served PipelineLoop::take_record() {
  const auto is_unfinished = [](const serving::RequestRecord& r) {
    return r.outcome == serving::Outcome::unfinished;
  };
  if (std::ranges::any_of(log_.requests, is_unfinished))
    log_.cut_off = "the server ended before its requests";
  log_.steps_recorded = records_;
  return served(std::move(log_), engines_, {});
}

}  // namespace tessera::http
