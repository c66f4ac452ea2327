#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/placement.h"
#include "tessera/run/live_engine.h"
#include "tessera/run/stage_executor.h"
#include "tessera/run/worker_records.h"
#include "tessera/serving/engine_options.h"
#include "tessera/serving/log.h"

namespace tessera::run {

/// One pipeline of a run, its stages in order. Ranks are counted through all engines.
struct EngineSpec {
  std::vector<LoadOrder> stages;  ///< of a stage's first rank; who feeds whom, epoch, blocks and
                                  ///< shared memory aside
  /// By stage: of the rank that attends to some of its heads, where there is one.
  std::map<std::size_t, LoadOrder> attention = {};
  serving::EngineOptions options;
  /// prefill and decode: of a run that serves, one engine of each, in this order; a request is read
  /// by the first and goes to the second, with its blocks.
  EngineRole role = EngineRole::mixed;
  std::int64_t kv_blocks = 1;
  std::int64_t share = 1;  ///< of the prompts, in proportion to the other engines'
  /// Predicted for the longest step of each kind, from its decision to its end; negative: nobody
  /// knows.
  Nanoseconds prefill_step = -1, decode_step = -1;
  Emulated emulated;
};

/// A stage of an engine that goes on without what was lost.
struct MovedStage {
  std::int32_t rank = 0;
  LoadOrder order;  ///< as EngineSpec has it
};

struct JobOptions {
  std::vector<EngineSpec> engines;
  std::vector<std::int32_t> stop_tokens;  ///< none: answers are as long as they may be
  std::int64_t max_context_tokens = 0;    ///< of the model
  bool recover = false;
  /// Requests come while it runs, and it goes on until it is told to end; of one engine, or one
  /// that reads and one that decodes. It keeps nothing of what is over, unless it records.
  bool serves = false, records = true;
  bool by_process_group = false;            ///< hidden states, where an engine has several ranks
  Nanoseconds start_limit = 120 * kSecond;  ///< until all workers have come, or one comes again
  Nanoseconds load_limit = 3600 * kSecond;  ///< until all are loaded
  Nanoseconds step_limit = 0;  ///< of the oldest step under way; 0: 30 s and 10 times its
                               ///< prediction, or 600 s where it has none
  std::int64_t most_restarts_per_minute = 2;  ///< of one worker
  std::string address = "HOST:PORT";          ///< where workers of others find it
};

/// What a job does about a worker that is lost.
enum class Remedy {
  none,       ///< the run ends
  restarted,  ///< it is started again
  awaited,    ///< others started it, and are to do so again
  relinked,   ///< it is there, and opens a link to another worker again
  moved,      ///< its layers go to those that are left
  handed_on,  ///< other engines answer what its engine has not
};

/// A worker that was lost, or would not go on.
struct Fault {
  std::int32_t rank = 0;
  std::int64_t engine = 0, stage = 0;
  Nanoseconds at = 0;  ///< from the start of the run
  std::string why;
  Remedy remedy = Remedy::none;
};

/// What a job asks of those around it.
struct JobHooks {
  /// Starts a worker where it was, after it is gone; false where that is for others to do.
  std::function<bool(std::int32_t rank)> restart;
  /// A rank is lost for good: where its engine's layers go, on ranks that it has left. Empty: it
  /// cannot go on. Absent: none can.
  std::function<std::vector<MovedStage>(std::size_t engine, std::int32_t rank)> replan;
  /// Memory for the sums of the tensor-parallel ranks of a stage; what they had before is given up.
  std::function<std::string(std::size_t engine, std::size_t stage, std::int32_t ranks)> share;
  /// A rank of a stage is gone: the others' sums end.
  std::function<void(std::size_t engine, std::size_t stage)> abort_sums;
  /// How a worker's process ended, where that is known: "signal 9 (killed)".
  std::function<std::string(std::int32_t rank)> ending;
  /// The same of one that is gone, empty of one that runs or is nobody's: it does not wait.
  std::function<std::string(std::int32_t rank)> ended;
  std::function<bool()> interrupted;
  std::function<void(const Fault& fault)> faulted;
  std::function<void(std::size_t prompt, const Answer& answer)> answered;
  // Where it serves.
  /// Called where nothing else happens: whether it had anything to do.
  std::function<bool()> work;
  /// All stages are there: for the first time, or again.
  std::function<void()> ready;
  /// The end of a moment at which something happened.
  std::function<void()> moment;
  /// As SessionExecutor::on_tokens and LiveEngine::OnEnd.
  std::function<void(std::int64_t request, const Session& session, std::int64_t first)> tokens;
  std::function<void(std::int64_t request, const Session& session, Ending how)> over;
  /// Of loading (ranks), then of answers (prompts, and tokens generated so far).
  std::function<void(bool loading, std::int64_t done, std::int64_t total, std::int64_t tokens)>
      progress;
};

enum class JobState { connecting, loading, running, recovering, done, failed, interrupted };

/// The master of a run: loads a model over its workers, has every prompt answered by the engines'
/// schedulers, and starts again what was lost.
class Job final : public Actor {
 public:
  /// @param answers prompts; those that are done already are left alone
  Job(JobOptions options, Answers& answers, Transport& transport, JobHooks hooks);
  ~Job() override;

  void on(Event event) override;
  Nanoseconds wake_at() const override;
  void tick() override;
  bool work() override;
  bool is_done() const override;

  // Where it serves, from hooks.work.
  /// @param prompt stays until the request is over
  void submit(serving::Sequence sequence, const Prompt& prompt, const std::string& salt);
  void cancel(std::int64_t request);
  /// What came is decided on.
  void go_on();
  /// It is done.
  void end() { finish(JobState::done); }
  std::vector<serving::EngineCore*> cores();
  /// On their way from the engine that read them to the one that decodes.
  std::int64_t num_handovers() const;
  /// The moment, from the start of the run: no two are the same.
  serving::Ticks time() const { return moment_; }

  JobState state() const { return state_; }
  /// Why it failed: one line.
  const std::string& why() const { return why_; }
  const std::vector<Fault>& faults() const { return faults_; }
  /// [ranks], as each said it; after its last start.
  const std::vector<Loaded>& loaded() const { return loaded_; }
  /// Engines as they are now, whose stages may have moved.
  const std::vector<EngineSpec>& specs() const { return options_.engines; }
  /// Ranks of an engine's stages, now.
  const std::vector<std::vector<std::int32_t>>& ranks(std::size_t engine) const;
  /// Ranks that attend for a stage of it, by stage.
  const std::map<std::size_t, std::int32_t>& attention(std::size_t engine) const;
  /// Where a worker listens, or listened.
  const std::string& host(std::int32_t rank) const;
  std::int64_t num_replans() const { return num_replans_; }
  const serving::Log& log() const { return log_; }
  /// Spans of an engine's stages, in nanoseconds from the start of the run.
  const std::vector<StageSpan>& spans(std::size_t engine) const;
  /// What a hook raised, which ended the run; null: none did.
  std::exception_ptr raised() const { return raised_; }
  /// From the first decision to the last token.
  Nanoseconds duration() const { return end_ - start_; }

 private:
  struct Engine;
  struct Rank;
  struct Exchange;

  void begin_moment();
  std::vector<Engine*> linked(Engine& engine) const;

  void joined(const Event& event);
  void lost(std::int32_t rank, const std::string& why, bool is_ending = true);
  void note_fault(std::int32_t rank, const std::string& why, Remedy remedy);
  void take(std::int32_t rank, const Message& message);
  void send_load(std::int32_t rank);
  void is_loaded(std::int32_t rank);
  void reset(Engine& engine);
  void load_all();
  void begin();
  void resume(Engine& engine);
  void advance(Engine& engine);
  void answer(Engine& engine);
  void answer(std::int64_t request, const Session& session);
  void finish(JobState state, std::string why = {});
  void fail(std::int32_t rank, const std::string& why);
  void check_limits();
  void show_progress(bool loading);
  void ask(const std::function<void()>& call);
  void share(Engine& engine);
  std::vector<Feed> feeds_of(std::int32_t rank) const;
  std::vector<std::int32_t> from_of(std::int32_t rank) const;
  std::string name_of_rank(std::int32_t rank) const;
  std::string name_of_engine(std::size_t engine) const;
  bool may_return(std::int32_t rank);
  void relink(Engine& engine);
  bool replan(std::int32_t rank);
  bool hand_on(std::int32_t rank);
  void submit(Engine& engine, std::int64_t request, serving::Ticks now);
  std::size_t next_engine(std::vector<double>& given) const;
  void begin_when_ready();
  void lose_steps(Engine& engine);
  bool is_whole(Engine& engine) const;
  bool is_ready(Engine& engine) const;
  bool is_standing_still(Engine& engine) const;
  Nanoseconds step_limit(const Engine& engine) const;

  JobOptions options_;
  Answers& answers_;
  Transport& transport_;
  JobHooks hooks_;
  JobState state_ = JobState::connecting;
  std::string why_;
  std::exception_ptr raised_;
  serving::Log log_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::unique_ptr<Exchange> exchange_;  ///< null: engines do all for their requests
  std::vector<Rank> ranks_;
  std::vector<Loaded> loaded_;
  std::vector<Fault> faults_;
  serving::Ticks moment_ = 0;
  Nanoseconds created_ = 0, start_ = 0, end_ = 0, shown_ = 0, next_look_ = 0;
  std::int64_t num_answered_ = 0, num_replans_ = 0;
};

}  // namespace tessera::run

namespace tessera {

template <>
inline constexpr auto kEnumNames<run::JobState> =
    enum_names<run::JobState>({{run::JobState::connecting, "connecting"},
                               {run::JobState::loading, "loading"},
                               {run::JobState::running, "running"},
                               {run::JobState::recovering, "recovering"},
                               {run::JobState::done, "done"},
                               {run::JobState::failed, "failed"},
                               {run::JobState::interrupted, "interrupted"}});

template <>
inline constexpr auto kEnumNames<run::Remedy> =
    enum_names<run::Remedy>({{run::Remedy::none, "none"},
                             {run::Remedy::restarted, "restarted"},
                             {run::Remedy::awaited, "awaited"},
                             {run::Remedy::relinked, "relinked"},
                             {run::Remedy::moved, "moved"},
                             {run::Remedy::handed_on, "handed_on"}});

}  // namespace tessera
