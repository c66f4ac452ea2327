// A server from its address to its end.

#include "serve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "engine_loop.h"
#include "http_server.h"
#include "metrics.h"
#include "pipeline_loop.h"
#include "service.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/run/local_engine.h"
#include "tessera/serving/replay.h"
#include "tessera/serving/served.h"
#include "tessera/workers/pool.h"

namespace tessera::http {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr double kKvShare = 0.1;   // of the machine's memory
constexpr double kMostFree = 0.5;  // of what of it is free

HttpServer::Limits limits_of(const ServerOptions& options) {
  return {.max_body = static_cast<std::size_t>(options.max_body_mib * kMiB),
          .max_connections = static_cast<std::size_t>(options.max_connections),
          .request_timeout = HttpServer::Seconds(options.request_timeout_s)};
}

void check_key(const HttpServer& server, const ServerOptions& options, bool has_key) {
  if (server.is_loopback() || has_key) return;
  refuse("host",
         "{} can be reached from other machines: give --api-key-file (or TESSERA_API_KEY), with "
         "what clients have to show",
         options.host);
}

Premises premises_of(const ServeRequest& request, const serving::Replica& engine) {
  const lm::LanguageModel& model = *request.model;
  const std::string& path = model.request().path;
  Premises premises{.model = request.model, .name = request.options.served_model_name};
  if (premises.name.empty()) {
    const auto own = std::filesystem::weakly_canonical(path);
    premises.name = (own.extension() == ".gguf" ? own.stem() : own.filename()).string();
  }
  premises.max_model_len = engine.engine.max_model_len;
  premises.max_kv_tokens = engine.kv_tokens();
  premises.in_stages = request.stages.has_value();
  model.tokens();  // a folder without any is refused here
  try {
    const auto found = chat::template_of_model(path, request.options.chat_template);
    premises.special = found.special;
    premises.chat_template.emplace(found.text, found.source);
  } catch (const Error& error) {
    if (!request.options.chat_template.empty()) throw;
    premises.why_no_chat = "no chats: " + error.message();
  }
  return premises;
}

// With as many blocks as its seats can use, within a share of the memory that all have together,
// where nobody says.
serving::Replica engine_for(const ServeRequest& request) {
  serving::Replica engine = request.engine;
  const lm::LanguageModel& model = *request.model;
  const lm::LanguageModel* draft_model = request.draft_model.get();
  engine.kv_bytes_per_token =
      model.kv_bytes_per_token() + (draft_model != nullptr ? draft_model->kv_bytes_per_token() : 0);
  if (engine.kv_blocks == 0) {
    const serving::EngineOptions& o = engine.engine;
    const std::int64_t context =
        o.max_model_len > 0 ? o.max_model_len : model.shape().max_context_tokens;
    const double block_bytes = run::block_bytes_of(model, draft_model, o.block_size);
    const double room = std::min(kKvShare * workers::machine_memory_bytes(),
                                 kMostFree * workers::free_memory_bytes());
    const double fit = room / (request.decoder ? 2 : 1) / block_bytes;
    const std::int64_t most = o.max_num_seqs * ((context + o.block_size - 1) / o.block_size);
    engine.kv_blocks = std::clamp<std::int64_t>(static_cast<std::int64_t>(fit), 1, most);
  }
  serving::Deployment deployment;
  deployment.replicas = {std::move(engine)};
  return run::engine_of(deployment, model, "tessera serve", draft_model);
}

std::vector<serving::Replica> engines_for(const ServeRequest& request) {
  std::vector<serving::Replica> engines{engine_for(request)};
  if (!request.decoder) return engines;
  engines.push_back(engines.front());
  engines.front().role = serving::Role::prefill;
  engines.back().role = serving::Role::decode;
  engines.back().cost = request.decoder->cost;
  return engines;
}

bool records(const ServeRequest& request) {
  return !request.options.step_log.empty() || request.on_record;
}

std::unique_ptr<Engine> make_engine(const ServeRequest& request,
                                    const std::vector<serving::Replica>& engines,
                                    std::function<void(News)> tell) {
  if (request.stages) {
    return std::make_unique<PipelineLoop>(*request.stages, engines, std::move(tell),
                                          records(request));
  }
  return std::make_unique<EngineLoop>(request.model, engines.front(), std::move(tell),
                                      records(request), request.draft_model);
}

void write_step_log(const serving::Served& served, const std::string& path) {
  if (served.log.steps.empty() || path.empty()) return;
  const serving::ReplayCard card = serving::replay_card(served);
  serving::save_chrome_trace(served.log, path, serving::kMostTraceEvents, &card);
}

}  // namespace

void check(const ServerOptions& options, bool has_key) {
  const HttpServer server(options.host, options.port, limits_of(options));
  check_key(server, options, has_key);
  const std::string& file = options.chat_template;
  if (!file.empty()) chat::ChatTemplate(read_file(file, kMiB), file);
}

std::string serve(const ServeRequest& request) {
  HttpServer server(request.options.host, request.options.port, limits_of(request.options));
  check_key(server, request.options, !request.api_key.empty());
  const std::vector<serving::Replica> engines = engines_for(request);
  const serving::Replica& replica = engines.front();
  const Premises premises = premises_of(request, replica);
  Metrics metrics(premises.name, replica.engine,
                  replica.kv_blocks * static_cast<std::int64_t>(engines.size()));
  Service* told = nullptr;
  const std::unique_ptr<Engine> made = make_engine(request, engines, [&](News news) {
    server.post([&told, news = std::move(news)]() mutable { told->take(std::move(news)); });
  });
  Engine& engine = *made;
  const bool is_open = !request.api_key.empty() || !server.is_loopback();
  Service service(server, engine, premises, metrics,
                  {.api_key = request.api_key,
                   .listens_on = is_open ? "" : request.options.host,
                   .max_unfinished = request.options.max_waiting + replica.engine.max_num_seqs,
                   .page = request.page});
  told = &service;
  std::string why;
  int num_signals = 0;
  const auto end = [&] {
    const std::int64_t ended = service.fail_all(503, "the server was told to end");
    if (ended > 0) why = fmt::format("{} requests were ended with an error", ended);
    engine.stop();
  };
  server.on_signal([&] {
    if (++num_signals > 1) return end();
    service.drain([&] { engine.stop(); });
    server.drain();
    server.post_after(HttpServer::Seconds(request.options.shutdown_timeout_s), end);
  });
  const auto listen = [&] {
    server.start(service);
    if (request.on_listening) {
      request.on_listening({.name = premises.name,
                            .host = server.address(),
                            .port = server.port(),
                            .kv_blocks = replica.kv_blocks,
                            .block_size = replica.engine.block_size});
    }
  };
  try {
    engine.run(listen);
  } catch (const std::exception& error) {
    why = error.what();
    server.post([&] { service.fail_all(500, why); });
  }
  server.stop();
  if (records(request)) {
    serving::Served served = engine.take_record();
    write_step_log(served, request.options.step_log);
    if (request.on_record) request.on_record(std::move(served));
  }
  return why;
}

}  // namespace tessera::http
