#include "http_lua.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "core_lua.h"
#include "engine_lua.h"
#include "lm_lua.h"
#include "run_lua.h"
#include "scheduler_lua.h"
#include "served_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/text.h"
#include "tessera/http/module.h"
#include "tessera/lm/module.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/run/module.h"
#include "tessera/serving/summary.h"

namespace tessera::http_lua {
namespace {

http::ServerOptions options_at(lua_State* L, int index) {
  const lua_kit::Options options(L, index, server_options(), "tessera serve");
  http::ServerOptions read;
  lua_kit::read_options(options, read);
  return read;
}

/// Steps whose times nobody asks for: the engine takes the machine's.
struct NoCost final : serving::StepCost {
  explicit NoCost(std::size_t stages) : stages_(stages) {}
  std::size_t num_stages() const override { return stages_; }
  serving::Ticks stage(const serving::StepLoad&, std::size_t) const override { return 0; }
  std::optional<serving::DecodeLine> decode_line(std::int64_t, std::int64_t) const override {
    return std::nullopt;
  }

 private:
  std::size_t stages_;
};

serving::Replica engine_at(lua_State* L, int index, const lm::LanguageModel& model,
                           std::size_t stages = 1) {
  serving::Replica engine{.name = model.shape().name,
                          .engine = serving_lua::engine_argument(L, index, "tessera serve"),
                          .cost = std::make_shared<NoCost>(stages),
                          .make_scheduler = serving_lua::scheduler_maker(L)};
  engine.kv_blocks = engine.engine.kv_blocks.value_or(0);
  return engine;
}

std::string key_of(const http::ServerOptions& options) {
  if (!options.api_key_file.empty())
    return run::module().read_secret(options.api_key_file, "api_key_file");
  const char* key = std::getenv("TESSERA_API_KEY");
  return key != nullptr ? key : "";
}

/// option_names(): of what says where it listens and what it takes of clients.
int option_names(lua_State* L) {
  std::vector<std::string> names;
  for (const OptionSpec& option : server_options().options) names.emplace_back(option.name);
  lua_kit::push_texts(L, names);
  return 1;
}

/// check(options): raises what is wrong before anything is loaded.
int check(lua_State* L) {
  const http::ServerOptions options = options_at(L, 1);
  http::module().check(options, !key_of(options).empty());
  return 0;
}

/// get(url, path, time_limit_s, max_bytes): what it answers; see Module::get.
int get(lua_State* L) {
  constexpr double kLongest = 3600, kMostBytes = 1 << 30;
  const std::string url = lua_kit::check_text(L, 1, "tessera.http.get.url");
  const std::string path = lua_kit::check_text(L, 2, "tessera.http.get.path");
  const double limit_s = lua_kit::check_number(L, 3, "tessera.http.get.time_limit_s", 0, kLongest);
  const double bytes = lua_kit::check_number(L, 4, "tessera.http.get.max_bytes", 1, kMostBytes);
  lua_kit::push_text(L, http::module().get(url, path, limit_s, static_cast<std::size_t>(bytes)));
  return 1;
}

/// What came of it as ts.serve gives it, or nothing where no request came.
void push_record(lua_State* L, serving::Served record, const std::string& name) {
  if (record.log.requests.empty()) return lua_pushnil(L);
  serving::SummaryOptions options;
  options.block_size = record.deployment->replicas.front().engine.block_size;
  for (const serving::Request& r : record.traffic->requests) {
    options.prompt_tokens.push_back(r.prompt_tokens);
  }
  options.source = fmt::format("measured here, {} behind HTTP", quote(name));
  auto served = std::make_shared<serving::Served>(std::move(record));
  served->summary = serving::summarise(served->log, options);
  lua_kit::push_object<serving::Served>(L, std::move(served));
}

// Told when it listens: the function at an index.
std::function<void(const http::Listening&)> on_listening_at(lua_State* L, int index) {
  auto function = std::make_shared<lua_kit::LuaFunction>(L, index, "on_listening");
  return [function](const http::Listening& now) {
    lua_State* state = function->state();
    lua_kit::push_text(state, now.name);
    lua_kit::push_text(state, now.host);
    lua_kit::push_integer(state, now.port);
    lua_kit::push_integer(state, now.kv_blocks);
    lua_kit::push_integer(state, now.block_size);
    function->call(5, 0);
  };
}

// Until it is told to end; pushes why it ended otherwise, or "", and where options has a report
// what was served.
int push_served(lua_State* L, http::ServeRequest request) {
  std::optional<serving::Served> record;
  if (!request.options.report.empty()) {
    request.on_record = [&record](serving::Served served) { record = std::move(served); };
  }
  lua_kit::push_text(L, http::module().serve(request));
  if (!record) return 1;
  push_record(L, std::move(*record), request.model->shape().name);
  return 2;
}

/// serve(options, on_listening, page, engine, model, draft_model?): as push_served.
int serve(lua_State* L) {
  const auto loaded = lua_kit::check_object<lm_lua::LoadedModel>(L, 5, "tessera serve");
  http::ServeRequest request{.model = loaded->model,
                             .engine = engine_at(L, 4, *loaded->model),
                             .options = options_at(L, 1)};
  request.api_key = key_of(request.options);
  request.page = lua_kit::check_text(L, 3, "page");
  request.on_listening = on_listening_at(L, 2);
  if (!lua_isnoneornil(L, 6)) {
    request.draft_model =
        lua_kit::check_object<lm_lua::LoadedModel>(L, 6, "speculative_model")->model;
  }
  return push_served(L, std::move(request));
}

/// serve_stages(options, on_listening, page, engine, ...): the same of a model whose layers are in
/// stages, by what tessera.run's execute takes.
int serve_stages(lua_State* L) {
  run::ExecuteRequest stages = run_lua::read_execute_request(L, 5);
  stages.interrupted = {};
  lm::LoadRequest no_layers = stages.model;
  no_layers.last_layer = 0;
  no_layers.with_embedding = no_layers.with_head = false;
  no_layers.layers.clear();
  no_layers.device = "cpu";
  const auto model = lm::module().load(no_layers);
  const auto engine_of = [&](const run::EngineRequest& engine) {
    return engine_at(L, 4, *model, engine.stages.size());
  };
  http::ServeRequest request{
      .model = model, .engine = engine_of(stages.engines.at(0)), .options = options_at(L, 1)};
  if (stages.engines.size() > 1) request.decoder = engine_of(stages.engines.back());
  request.stages = std::move(stages);
  request.api_key = key_of(request.options);
  request.page = lua_kit::check_text(L, 3, "page");
  request.on_listening = on_listening_at(L, 2);
  return push_served(L, std::move(request));
}

}  // namespace

const OptionTable& server_options() {
  static const OptionTable table = lua_kit::option_table<http::ServerOptions>(
      {"tessera serve", "A model behind OpenAI's HTTP interface.", "", {}});
  return table;
}

void register_http(lua_State* L) {
  lua_kit::register_module(L, "tessera.http",
                           {{"check", lua_kit::guarded<check>},
                            {"get", lua_kit::guarded<get>},
                            {"option_names", lua_kit::guarded<option_names>},
                            {"serve", lua_kit::guarded<serve>},
                            {"serve_stages", lua_kit::guarded<serve_stages>}});
}

}  // namespace tessera::http_lua
