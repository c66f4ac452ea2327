#include "tessera/run/execute.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <numeric>
#include <optional>

#include "stage_orders.h"
#include "tessera/core/access.h"
#include "tessera/core/cpu_cores.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/record_json.h"
#include "tessera/core/signal_action.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lm/module.h"
#include "tessera/lm/reducer.h"
#include "tessera/run/handshake.h"
#include "tessera/run/journal.h"
#include "tessera/run/local_workers.h"
#include "tessera/run/tcp_transport.h"
#include "tessera/run/worker.h"
#include "tessera/weights/weights.h"

namespace tessera::run {
namespace {

constexpr double kGraceToEnd_s = 3;

Nanoseconds nanoseconds(double seconds) { return static_cast<Nanoseconds>(seconds * kSecond); }

// Links of a worker's process group, whose ranks tell each other by the master where they are.
std::unique_ptr<GroupLink> join(TcpTransport& transport, GroupOptions options) {
  const Header header{.kind = Kind::group, .epoch = options.epoch};
  GroupHooks hooks;
  hooks.open = [](const ProcessGroupRequest& request) {
    return reinterpret_cast<ProcessGroupEntry*>(
        lm::module_entry(lm::kTorchModule, kProcessGroupEntry))(request);
  };
  hooks.tell = [&transport, header](std::vector<std::byte> body) {
    transport.send(kMaster, header, std::move(body));
  };
  hooks.deliver = [&transport](Event event) { transport.deliver(std::move(event)); };
  return std::make_unique<GroupLink>(std::move(options), std::move(hooks));
}

// Threads of one of so many ranks of a machine; 0, which is all, where it is alone or was bound to
// cores of its own.
std::int32_t share_of_cores(std::int64_t local_ranks) {
  const auto cores = std::ssize(usable_cores());
  if (local_ranks == 1 || cores < ::sysconf(_SC_NPROCESSORS_ONLN)) return 0;
  return static_cast<std::int32_t>(std::max<std::int64_t>(1, cores / local_ranks));
}

// localhost has two addresses on many machines, and who listens and who connects must mean the
// same.
std::string address_of(const std::string& host) { return host == "localhost" ? "127.0.0.1" : host; }

bool is_loopback(const std::string& host) { return host == "::1" || host.starts_with("127."); }

void check_secret(const std::string& host, bool is_given) {
  if (is_given || is_loopback(host)) return;
  refuse("secret_file",
         "host {} is reached from other machines, and whoever reaches it could take part; give a "
         "file that holds a secret, the same for every stage",
         quote(host));
}

// Of all addresses of this machine: "0.0.0.0", "::".
bool is_wildcard(const std::string& host) {
  return host.find_first_not_of("0.:") == std::string::npos;
}

volatile std::sig_atomic_t is_terminated = 0;

class Run {
 public:
  explicit Run(ExecuteRequest request)
      : request_(std::move(request)),
        shape_(weights::model_of(*weights::Weights::open(request_.model.path))),
        tokens_(lm::module().load_tokens(request_.model.path)) {
    request_.options.host = address_of(request_.options.host);
    check();
    result_.answers.prompts = std::move(request_.prompts);
    result_.answers.done.resize(result_.answers.prompts.size());
    fingerprint_ = model_fingerprint(request_.model.path);
  }

  Executed run() {
    open_journal();
    if (!request_.online && is_answered()) {
      result_.state = JobState::done;
      return std::move(result_);
    }
    result_.transport = carrier();
    JobOptions job = job_options();
    secret_ = secret();
    TcpTransport transport({.host = request_.options.host,
                            .port = request_.options.port,
                            .secret = secret_,
                            .build = request_.build,
                            .num_ranks = static_cast<std::int32_t>(count_ranks(request_))});
    job.address = fmt::format("{}:{}", request_.options.host, transport.port());
    std::optional<LocalWorkers> workers;
    JobHooks hooks = request_.online ? request_.online->hooks : JobHooks();
    // By it launchers and schedulers end a process: it ends the run and not the process, so that
    // that can say what is done and, where a stage was lost, which.
    // A server ends by its own.
    std::optional<SignalAction> terminated;
    is_terminated = 0;
    if (!request_.online) terminated.emplace(SIGTERM, [](int) { is_terminated = 1; });
    hooks.interrupted = [&] {
      return is_terminated != 0 || (request_.interrupted && request_.interrupted());
    };
    hooks.progress = request_.progress;
    hooks.faulted = request_.faulted;
    if (request_.replan) {
      hooks.replan = [&](std::size_t engine, std::int32_t rank) { return replan(engine, rank); };
    }
    hooks.answered = [&](std::size_t prompt, const Answer& answer) {
      if (journal_) journal_->add(prompt, answer);
      if (request_.answered) request_.answered(prompt, answer);
    };
    std::map<std::pair<std::size_t, std::size_t>, std::shared_ptr<lm::SharedRanks>> shared;
    hooks.share = [&](std::size_t engine, std::size_t stage, std::int32_t ranks) {
      auto& memory = shared[{engine, stage}];
      memory = lm::SharedRanks::create(ranks);
      return memory->path();
    };
    hooks.abort_sums = [&](std::size_t engine, std::size_t stage) {
      const auto& memory = shared[{engine, stage}];
      if (memory) memory->reducer(0, std::chrono::milliseconds(1))->abort();
    };
    const std::int64_t num_ranks = count_ranks(request_);
    if (request_.options.workers != Starter::others) {
      workers.emplace(LocalWorkers::Options{
          request_.program,
          fmt::format("{}:{}",
                      is_wildcard(request_.options.host) ? "127.0.0.1" : request_.options.host,
                      transport.port()),
          secret_, num_ranks});
      hooks.ending = [&](std::int32_t rank) { return workers->ending(rank); };
      hooks.ended = [&](std::int32_t rank) { return workers->ended(rank); };
    }
    hooks.restart = [&](std::int32_t rank) {
      if (starts(rank)) workers->start(rank);
      return starts(rank);
    };
    const Nanoseconds begin = transport.now();
    Job master(std::move(job), result_.answers, transport, std::move(hooks));
    for (std::int32_t rank = 0; rank < num_ranks; ++rank) {
      if (starts(rank)) workers->start(rank);
    }
    if (request_.online) request_.online->attach(&master, [&] { transport.wake(); });
    run_actor(master, transport);
    if (request_.online) request_.online->attach(nullptr, {});
    if (workers) workers->stop(kGraceToEnd_s);
    if (master.raised()) std::rethrow_exception(master.raised());
    result_.load_s = static_cast<double>(transport.now() - begin - master.duration()) / kSecond;
    take(master);
    result_.num_refused = transport.num_refused();
    result_.last_refused = transport.last_refused();
    return std::move(result_);
  }

 private:
  bool starts(std::int32_t rank) const {
    switch (request_.options.workers) {
      case Starter::itself:
        return true;
      case Starter::others:
        return false;
      case Starter::launcher:
        return rank == 0;
    }
    return false;
  }

  void check() const {
    check_may_start_processes("ts.execute");
    if (request_.online) {
      check_online(*request_.online);
    } else if (request_.prompts.empty()) {
      refuse("prompts", "there are none");
    }
    check_stages(request_, shape_);
    check_secret(request_.options.host, !request_.options.secret_file.empty());
    for (std::size_t i = 0; i < request_.prompts.size(); ++i) {
      check_prompt(request_.prompts[i], fmt::format("prompts[{}]", i + 1));
    }
  }

  void check_online(const Online& online) const {
    const auto no = [](const std::string& what) {
      refuse(ErrorCode::unsupported, "plan", "stages in processes do not serve with {}", what);
    };
    const bool has_pools =
        request_.engines.size() > 1 || request_.engines.front().role != EngineRole::mixed;
    if (has_pools) check_pools(request_);
    if (online.engine.speculative) no("speculation");
    if (online.engine.preemption_mode == serving::PreemptionMode::swap) no("preemption by swap");
    if (online.engine.async_scheduling.value_or(false)) no("async_scheduling");
  }

  void check_prompt(const Prompt& prompt, const std::string& path) const {
    if (prompt.tokens.empty()) refuse(path, "it has no token");
    const auto length = std::ssize(prompt.tokens);
    if (length >= shape_.max_context_tokens) {
      refuse(ErrorCode::out_of_range, path,
             "{} tokens fill the context of {}, {} tokens, and nothing can follow; shorten it",
             length, shape_.name, shape_.max_context_tokens);
    }
    for (const std::int32_t token : prompt.tokens) {
      if (token >= 0 && token < shape_.vocab_size) continue;
      refuse(ErrorCode::out_of_range, path, "token {} is none of the {} of {}", token,
             shape_.vocab_size, shape_.name);
    }
  }

  Carrier carrier() const {
    const Carrier asked = request_.options.transport;
    if (asked == Carrier::tcp) return asked;
    const bool hands_over = request_.online && request_.engines.size() > 1;
    if (asked == Carrier::automatic && hands_over) return Carrier::tcp;
    if (attends_elsewhere(request_)) {
      if (asked == Carrier::automatic) return Carrier::tcp;
      refuse(ErrorCode::unsupported, "transport",
             "c10d carries hidden states alone, and the plan has attention on another device: tcp");
    }
    const bool has_torch = lm::has_module(lm::kTorchModule);
    if (asked == Carrier::automatic) {
      const bool by_torch = has_torch && request_.model.device.starts_with("cuda");
      return by_torch ? Carrier::c10d : Carrier::tcp;
    }
    if (has_torch) return asked;
    refuse(ErrorCode::unsupported, "transport",
           "c10d is LibTorch's, and this build has none; tcp needs nothing more, and bash "
           "scripts/quickstart.sh --models builds with it");
  }

  // Of all that the answers depend on.
  std::string digest() const {
    std::string text = fmt::format("{} {} {} {}\n", fingerprint_, request_.model.kv_bitwidth,
                                   name_of(request_.model.dtype), request_.ignore_stop_tokens);
    for (const EngineRequest& engine : request_.engines) {
      LoadOrder order = load_order_of(request_.model);
      order.path.clear();
      order.bitwidths = engine.bitwidths;
      order.activation_dtype = request_.options.activation_dtype;
      order.threads = 0;
      text += json_text(json_of(order)) + "\n";
    }
    for (const Prompt& prompt : result_.answers.prompts) {
      const lm::SamplingOptions& s = prompt.sampling;
      text += fmt::format("{} {} {} {} {} {}:", prompt.max_tokens, s.temperature, s.top_k, s.top_p,
                          s.repetition_penalty, s.seed);
      for (const std::int32_t token : prompt.tokens) text += fmt::format(" {}", token);
      text += "\n";
    }
    return digest_of(text);
  }

  void open_journal() {
    if (!request_.options.journal.empty()) {
      journal_.emplace(request_.options.journal, digest(), result_.answers);
    }
  }

  // All of it, by the journal.
  bool is_answered() const {
    return std::ranges::all_of(result_.answers.done,
                               [](const auto& answer) { return answer.has_value(); });
  }

  // Of workers that this process starts alone nobody else needs to know it.
  std::string secret() const {
    if (!request_.options.secret_file.empty())
      return read_secret(request_.options.secret_file, "secret_file");
    return request_.options.workers == Starter::itself ? make_nonce() : std::string();
  }

  // In the cache when its last token is drawn.
  std::int64_t cached_tokens(const Prompt& prompt) const {
    return std::ssize(prompt.tokens) + most_new(prompt, shape_.max_context_tokens) - 1;
  }

  // Of a block. Each holds what layers that keep a state have of after its last token, and only
  // that of a request's last one is read again: there a request is one block.
  std::int64_t block_tokens() const {
    if (!shape_.has_state()) return lm::kBlockTokens;
    std::int64_t longest = 1;
    for (const Prompt& prompt : result_.answers.prompts)
      longest = std::max(longest, cached_tokens(prompt));
    return std::min(longest, kMostBlockTokens);
  }

  // For so many of the longest requests at a time.
  std::int64_t blocks_for(std::int64_t batch_size, std::int64_t block_tokens) const {
    std::vector<std::int64_t> blocks;
    for (const Prompt& prompt : result_.answers.prompts)
      blocks.push_back(ceil_div(cached_tokens(prompt), block_tokens));
    std::sort(blocks.begin(), blocks.end(), std::greater<>());
    const auto count = std::min<std::size_t>(blocks.size(), static_cast<std::size_t>(batch_size));
    return std::accumulate(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(count),
                           std::int64_t{0});
  }

  JobOptions job_options() const {
    JobOptions job;
    const std::int64_t block_size = block_tokens();
    std::int32_t rank = 0;
    for (const EngineRequest& given : request_.engines) {
      EngineSpec spec;
      spec.share = given.batch_size;
      spec.kv_blocks = blocks_for(given.batch_size, block_size);
      spec.options.scheduler = "micro_batches";
      spec.options.max_num_seqs = given.batch_size;
      spec.options.block_size = block_size;
      spec.options.enable_prefix_caching = false;
      spec.options.max_model_len = shape_.max_context_tokens;
      spec.options.prefill_micro_batch_size = given.prefill_micro_batch_size;
      spec.options.decode_micro_batch_size = given.decode_micro_batch_size;
      spec.options.chunk_tokens = given.chunk_tokens;
      spec.prefill_step = nanoseconds(given.prefill_step_s);
      spec.decode_step = nanoseconds(given.decode_step_s);
      spec.emulated = given.emulated;
      if (request_.online) {
        spec.options = request_.online->engine;
        spec.kv_blocks = request_.online->kv_blocks;
        spec.role = given.role;
      }
      for (const EngineRequest::Stage& stage : given.stages) {
        spec.stages.push_back(stage_order(request_, fingerprint_, given, stage, rank));
        if (stage.attention_elsewhere > 0) {
          spec.attention[spec.stages.size() - 1] =
              attention_order(request_, stage, spec.stages.back(), rank + stage.tensor_ranks);
        }
        rank += stage.num_ranks();
      }
      job.engines.push_back(std::move(spec));
    }
    if (!request_.ignore_stop_tokens) job.stop_tokens = tokens_->stop_token_ids();
    job.max_context_tokens = shape_.max_context_tokens;
    job.recover = request_.options.recover;
    job.serves = request_.online.has_value();
    job.records = !request_.online || request_.online->records;
    job.by_process_group = result_.transport == Carrier::c10d;
    job.start_limit = nanoseconds(request_.options.start_limit_s);
    job.step_limit = nanoseconds(request_.options.step_limit_s);
    return job;
  }

  std::vector<MovedStage> replan(std::size_t engine, std::int32_t lost) const {
    const std::optional<NewStages> made = request_.replan(engine, lost);
    if (!made) return {};
    EngineRequest moved = request_.engines[engine];
    moved.bitwidths = made->bitwidths;
    moved.stages.clear();
    for (const NewStages::Stage& stage : made->stages)
      moved.stages.push_back({stage.first_layer, stage.num_layers});
    std::vector<MovedStage> stages;
    for (std::size_t k = 0; k < moved.stages.size(); ++k) {
      const std::int32_t rank = made->stages[k].rank;
      stages.push_back({rank, stage_order(request_, fingerprint_, moved, moved.stages[k], rank)});
    }
    return stages;
  }

  void take(const Job& master) {
    result_.state = master.state();
    result_.why = master.why();
    result_.log = master.log();
    result_.faults = master.faults();
    result_.total_s = static_cast<double>(master.duration()) / kSecond;
    result_.num_replans = master.num_replans();
    for (std::size_t e = 0; e < master.specs().size(); ++e) {
      result_.spans.push_back(master.spans(e));
      const auto& stages = master.ranks(e);
      for (std::size_t k = 0; k < stages.size(); ++k) {
        for (std::size_t part = 0; part < stages[k].size(); ++part) {
          StageReport report = report_of(master.specs()[e].stages[k], stages[k].front(), e);
          report.engine = static_cast<std::int64_t>(e);
          report.stage = static_cast<std::int64_t>(k);
          report.rank = stages[k][part];
          report.tensor_rank = static_cast<std::int64_t>(part);
          report.loaded = master.loaded()[static_cast<std::size_t>(report.rank)];
          report.host = master.host(report.rank);
          result_.stages.push_back(std::move(report));
        }
        const auto attention = master.attention(e).find(k);
        if (attention == master.attention(e).end()) continue;
        StageReport report;
        report.engine = static_cast<std::int64_t>(e);
        report.stage = static_cast<std::int64_t>(k);
        report.rank = attention->second;
        report.attends = true;
        report.first_layer = master.specs()[e].stages[k].first_layer;
        report.num_layers = master.specs()[e].stages[k].last_layer - report.first_layer;
        report.loaded = master.loaded()[static_cast<std::size_t>(report.rank)];
        report.host = master.host(report.rank);
        result_.stages.push_back(std::move(report));
      }
    }
  }

  // What a stage did, whose first rank this is.
  StageReport report_of(const LoadOrder& order, std::int32_t rank, std::size_t engine) const {
    StageReport report;
    report.first_layer = order.first_layer;
    report.num_layers = order.last_layer - order.first_layer;
    for (const StageSpan& span : result_.spans[engine]) {
      if (span.rank != rank) continue;
      report.busy_s += static_cast<double>(span.end - span.start) / kSecond;
      report.computed_s += static_cast<double>(span.computed - span.start) / kSecond;
      report.sent_bytes += span.sent_bytes;
    }
    if (result_.total_s > 0) report.idle_ratio = std::max(0.0, 1 - report.busy_s / result_.total_s);
    return report;
  }

  ExecuteRequest request_;
  ModelShape shape_;
  std::shared_ptr<const lm::Tokens> tokens_;
  std::string fingerprint_, secret_;
  std::optional<Journal> journal_;
  Executed result_;
};

}  // namespace

Executed execute(ExecuteRequest request) { return Run(std::move(request)).run(); }

std::string serve_stage(const StageRequest& request) {
  if (request.parent > 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != request.parent) return "the master is gone";
  }
  ::prctl(PR_SET_TIMERSLACK, 1);  // waits of devices that are emulated end when they are to end
  const Address master{address_of(request.master.host), request.master.port};
  const std::string host = request.host.empty() ? local_address(master) : address_of(request.host);
  check_secret(host, !request.secret.empty());
  TcpTransport transport({.self = request.rank,
                          .host = host,
                          .secret = request.secret,
                          .build = request.build,
                          .lets_replace = true});
  transport.connect(kMaster, master);
  Worker worker(
      request.rank, transport,
      [&](LoadOrder order, std::unique_ptr<StagePart> before,
          std::shared_ptr<lm::HeadsElsewhere> elsewhere) {
        if (order.threads == 0) order.threads = share_of_cores(request.local_ranks);
        return load_model_part(order, std::move(before), std::move(elsewhere));
      },
      [&](GroupOptions options) { return join(transport, std::move(options)); });
  run_actor(worker, transport);
  return worker.why();
}

std::string read_secret(const std::string& path, std::string_view option) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    refuse(ErrorCode::not_found, option, "there is no {}", quote(path, 300));
  }
  if ((status.st_mode & 077) != 0) {
    refuse(option, "others may read {} (mode {:03o}): chmod 600", quote(path, 300),
           status.st_mode & 0777);
  }
  std::string secret = read_file(path, 1 << 16);
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.size() < 16) {
    refuse(option, "{} holds {} characters, 16 at least are needed", quote(path, 300),
           secret.size());
  }
  return secret;
}

}  // namespace tessera::run
