#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/run/job.h"

/// A run from its start to its end: workers, links, the job. What scripts and verbs call, through
/// the module of the runtime (module.h).
namespace tessera::run {

/// Who starts the workers.
enum class Starter {
  itself,    ///< the master, on its machine
  others,    ///< `tessera stage` by hand, on any machine
  launcher,  ///< torchrun, Slurm or mpirun: this process is rank 0, and starts stage 0 alone
};

/// What carries hidden states from a stage to the next.
enum class Carrier {
  automatic,  ///< c10d between GPUs, else TCP
  tcp,
  c10d,  ///< PyTorch's process groups, by LibTorch
};

struct ExecuteOptions {
  Carrier transport = Carrier::automatic;
  std::string host = "127.0.0.1";
  std::int32_t port = 0;
  std::string secret_file;
  Starter workers = Starter::itself;
  kernels::Real activation_dtype = kernels::Real::f32;
  bool pin = true;
  bool recover = false;
  std::string journal;
  double start_limit_s = 120;
  double step_limit_s = 0;
  double stage_memory_gib = 0;  ///< 0: no limit
};

/// A pipeline of the run.
struct EngineRequest {
  struct Stage {
    std::int64_t first_layer = 0, num_layers = 0;
    std::int32_t tensor_ranks = 1;  ///< processes that share its layers
    std::string device = {};        ///< as lm::LoadRequest has it; empty: the model's
    /// Ratio of its KV heads that a process of their own attends to, on a device of its own.
    double attention_elsewhere = 0;
    std::string attention_device = {};
    Emulation emulated = {}, attention_emulated = {};  ///< of its processes, and of that one

    std::int32_t num_ranks() const { return tensor_ranks + (attention_elsewhere > 0 ? 1 : 0); }
  };
  std::vector<Stage> stages;
  EngineRole role = EngineRole::mixed;  ///< as EngineSpec has it
  std::vector<std::int32_t> bitwidths;  ///< [num_layers]; 0: as stored
  std::int64_t kv_bitwidth = 16;
  std::int64_t batch_size = 1;  ///< requests at a time
  std::int64_t prefill_micro_batch_size = 1, decode_micro_batch_size = 1;
  std::int64_t chunk_tokens = 0;
  /// Predicted for the longest step of each kind; negative: nothing is.
  double prefill_step_s = -1, decode_step_s = -1;
  Emulated emulated;
};

/// An engine's layers after a rank of it was lost for good.
struct NewStages {
  struct Stage {
    std::int32_t rank = 0;  ///< of those that it has left
    std::int64_t first_layer = 0, num_layers = 0;
  };
  std::vector<Stage> stages;
  std::vector<std::int32_t> bitwidths;  ///< as EngineRequest has them
};

/// Requests that come while a run goes on, in place of prompts: a server's, of one engine, or of
/// one that reads prompts and one that decodes them.
struct Online {
  serving::EngineOptions engine;  ///< that decides, in place of the plan's micro-batches
  std::int64_t kv_blocks = 1;     ///< of each engine
  bool records = false;
  /// work, ready, moment, tokens and over.
  JobHooks hooks = {};
  /// Called before the run begins, with how to end its wait from any thread; and at its end, with
  /// none.
  std::function<void(Job* job, std::function<void()> wake)> attach = {};
};

struct ExecuteRequest {
  lm::LoadRequest model;  ///< all of it; forms of layers aside, which engines have
  std::vector<EngineRequest> engines;
  ExecuteOptions options;
  std::vector<Prompt> prompts;
  std::optional<Online> online = {};
  bool ignore_stop_tokens = false;
  std::string build;    ///< of the program
  std::string program;  ///< its path
  /// Where layers go when a rank is lost that is not started again; nothing: the run ends.
  std::function<std::optional<NewStages>(std::size_t engine, std::int32_t rank)> replan = {};
  std::function<bool()> interrupted = {};
  std::function<void(std::size_t prompt, const Answer& answer)> answered = {};
  std::function<void(const Fault& fault)> faulted = {};
  std::function<void(bool loading, std::int64_t done, std::int64_t total, std::int64_t tokens)>
      progress = {};
};

/// A stage as it ran.
struct StageReport {
  std::int64_t engine = 0, stage = 0, rank = 0, tensor_rank = 0;  ///< 0-based
  std::int64_t first_layer = 0, num_layers = 0;
  Loaded loaded;
  double busy_s = 0, idle_ratio = 0;
  std::int64_t sent_bytes = 0;  ///< hidden states or tokens, of all ranks of the stage
  bool attends = false;         ///< it is a rank that attends for a stage
  std::string host;
  double computed_s = 0;  ///< of busy_s; less where another device is emulated
};

struct Executed {
  JobState state = JobState::failed;
  std::string why;  ///< where it failed
  Answers answers;
  serving::Log log;
  std::vector<StageReport> stages;
  std::vector<std::vector<StageSpan>> spans;  ///< by engine
  std::vector<Fault> faults;
  Carrier transport = Carrier::tcp;
  std::int64_t num_replans = 0;
  double load_s = 0;   ///< until all workers were ready
  double total_s = 0;  ///< from then to the last token
  std::int64_t num_refused = 0;
  std::string last_refused;
};

/// @throws Error{invalid_argument, out_of_range, not_found, io} for what cannot begin, naming the
/// option; what goes wrong later is in the result
Executed execute(ExecuteRequest request);

/// A worker that somebody started.
struct StageRequest {
  std::int32_t rank = 0;
  Address master;
  std::string host = {};  ///< where it listens for the stage before it; empty: at the address from
                          ///< which it reaches the master
  std::string secret;
  std::string build;
  std::int64_t parent = 0;       ///< process that it dies with; 0: none
  std::int64_t local_ranks = 1;  ///< that share the cores of its machine, where nobody bound it
};
/// Serves until the master lets it go. Why it ended otherwise; empty: it did not.
std::string serve_stage(const StageRequest& request);

/// @throws Error{invalid_argument, io} for a file that others may read, or that holds nothing
std::string read_secret(const std::string& path, std::string_view option);

}  // namespace tessera::run

namespace tessera {

template <>
inline constexpr auto kEnumNames<run::Starter> =
    enum_names<run::Starter>({{run::Starter::itself, "itself"},
                              {run::Starter::others, "others"},
                              {run::Starter::launcher, "launcher"}});

template <>
inline constexpr auto kEnumNames<run::Carrier> = enum_names<run::Carrier>(
    {{run::Carrier::automatic, "auto"}, {run::Carrier::tcp, "tcp"}, {run::Carrier::c10d, "c10d"}});

template <>
struct Fields<run::ExecuteOptions> {
  using O = run::ExecuteOptions;
  static constexpr auto list = std::tuple{
      field<&O::transport>({.name = "transport",
                            .doc = "What carries hidden states between stages: tcp; c10d, which is "
                                   "PyTorch's process groups; auto: c10d between GPUs and under "
                                   "torchrun, where this build has LibTorch, else tcp",
                            .as_option = AsOption::defaulted}),
      field<&O::host>({.name = "host",
                       .doc = "Where the master listens; beyond loopback it needs secret_file",
                       .as_option = AsOption::defaulted}),
      field<&O::port>({.name = "port",
                       .doc = "Port of the master; 0: any that is free",
                       .min = 0,
                       .max = 65535,
                       .as_option = AsOption::defaulted}),
      field<&O::secret_file>(
          {.name = "secret_file",
           .doc = "File that only its owner may read, with what master and workers know"}),
      field<&O::workers>({.name = "workers",
                          .doc = "Who starts the stages: itself, here; others, by tessera stage; "
                                 "launcher: torchrun, Slurm or mpirun, as rank 0 of it",
                          .as_option = AsOption::defaulted}),
      field<&O::activation_dtype>(
          {.name = "activation_dtype",
           .doc = "Hidden states from a stage to the next: f32 changes no bit of what is computed; "
                  "f16 and bf16 halve what is sent, and a token may be another",
           .as_option = AsOption::defaulted}),
      field<&O::pin>({.name = "pin",
                      .doc = "Workers on this machine keep to cores of their own, where there are "
                             "enough",
                      .as_option = AsOption::defaulted}),
      field<&O::recover>(
          {.name = "recover",
           .doc = "A worker that is lost is started again, twice a minute at "
                  "most, or awaited where others started it; then its layers move "
                  "to those that are left of its replica, or its prompts to other replicas. What "
                  "was not answered is computed again",
           .as_option = AsOption::defaulted}),
      field<&O::journal>({.name = "journal",
                          .doc = "File that keeps the answers; a run that finds it goes on there"}),
      field<&O::start_limit_s>({.name = "start_limit_s",
                                .doc = "Until all workers have come, or one that was lost again",
                                .unit = "s",
                                .min = 0.1,
                                .max = 1e6,
                                .as_option = AsOption::defaulted}),
      field<&O::stage_memory_gib>(
          {.name = "stage_memory_gib",
           .doc =
               "Most that a stage may take, by the plan's prediction; what takes more is refused "
               "before anything starts",
           .unit = "GiB",
           .min = 0,
           .max = 1e6}),
      field<&O::step_limit_s>(
          {.name = "step_limit_s",
           .doc = "Of a step on all stages, whose workers count as lost then; default: 30 s and 10 "
                  "times what the plan predicts for it, or 600 s where it predicts nothing",
           .unit = "s",
           .min = 0.1,
           .max = 1e6})};
};

}  // namespace tessera
