#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <optional>

#include "core_lua.h"
#include "executed_lua.h"
#include "lm_lua.h"
#include "run_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/run/module.h"
#include "tessera/run/run_summary.h"
#include "tessera/serving/served.h"

namespace tessera {
namespace run_lua {
namespace {

using run::Executed;

/// The table that scripts hand over, beside the options: what they made of plan and prompts.
class RequestReader {
 public:
  RequestReader(lua_State* L, int index) : L_(L), index_(index) {}

  std::int64_t integer(const char* name, std::int64_t low, std::int64_t high) const {
    push(name);
    const std::int64_t value = lua_kit::check_integer(
        L_, -1, path_ + name, static_cast<double>(low), static_cast<double>(high));
    lua_pop(L_, 1);
    return value;
  }
  /// 0: it is not given.
  double number(const char* name, double most) const {
    push(name);
    const double value =
        lua_isnil(L_, -1) ? 0 : lua_kit::check_number(L_, -1, path_ + name, 0, most);
    lua_pop(L_, 1);
    return value;
  }
  /// Negative: it is not given.
  double seconds(const char* name) const {
    push(name);
    const double value =
        lua_isnil(L_, -1) ? -1 : lua_kit::check_number(L_, -1, path_ + name, 0, 1e9);
    lua_pop(L_, 1);
    return value;
  }
  std::string text(const char* name) const {
    push(name);
    std::string value = lua_kit::check_text(L_, -1, path_ + name);
    lua_pop(L_, 1);
    return value;
  }
  /// mixed: it is not given.
  EngineRole role() const {
    push("role");
    const std::string text = lua_isnil(L_, -1) ? std::string(name_of(EngineRole::mixed))
                                               : lua_kit::check_text(L_, -1, path_ + "role");
    lua_pop(L_, 1);
    const auto role = named<EngineRole>(text);
    if (!role) refuse("roles", "{} is none: prefill or decode", quote(text));
    return *role;
  }
  template <class T>
  std::vector<T> integers(const char* name) const {
    push(name);
    std::vector<T> values;
    lua_kit::for_each_item(
        L_, lua_gettop(L_), path_ + name, [&](std::size_t, const std::string& item) {
          values.push_back(static_cast<T>(lua_kit::check_integer(L_, -1, item, 0, 2147483647)));
        });
    lua_pop(L_, 1);
    return values;
  }
  std::vector<double> numbers() const { return lua_kit::any_numbers(L_, index_, path_); }
  template <class Body>
  void each(const char* name, Body&& body) const {
    push(name);
    lua_kit::for_each_item(L_, lua_gettop(L_), path_ + name, [&](std::size_t, const std::string&) {
      body(RequestReader(L_, lua_gettop(L_)));
    });
    lua_pop(L_, 1);
  }

 private:
  void push(const char* name) const { lua_kit::push_field(L_, index_, name, path_ + name); }
  lua_State* L_;
  int index_;
  std::string path_ = "ts.execute.";
};

constexpr std::int64_t kMost = 2147483647;

// A row of run:unit_times().
void add_unit(const std::vector<double>& row, run::EngineRequest& engine) {
  if (row.size() != 3 + 2 * engine.stages.size()) refuse("ts.execute.emulated", "a row is short");
  std::vector<run::Nanoseconds> times;
  for (std::size_t i = 3; i < row.size(); ++i) {
    if (!(row[i] >= 0 && row[i] < 1e6)) {
      refuse(ErrorCode::out_of_range, "ts.execute.emulated", "a step of {} s", row[i]);
    }
    times.push_back(static_cast<run::Nanoseconds>(row[i] * run::kSecond));
  }
  engine.emulated[{row[0] > 0, static_cast<std::int64_t>(row[1]),
                   static_cast<std::int64_t>(row[2])}] = std::move(times);
}

run::EngineRequest engine_of(const RequestReader& given) {
  run::EngineRequest engine;
  engine.bitwidths = given.integers<std::int32_t>("bitwidths");
  engine.role = given.role();
  engine.kv_bitwidth = given.integer("kv_bitwidth", 8, 16);
  engine.batch_size = given.integer("batch_size", 1, kMost);
  engine.prefill_micro_batch_size = given.integer("prefill_micro_batch_size", 1, kMost);
  engine.decode_micro_batch_size = given.integer("decode_micro_batch_size", 1, kMost);
  engine.chunk_tokens = given.integer("chunk_tokens", 0, kMost);
  engine.prefill_step_s = given.seconds("prefill_step_s");
  engine.decode_step_s = given.seconds("decode_step_s");
  given.each("stages", [&](const RequestReader& stage) {
    const run::Emulation link{1, stage.number("link_bytes_per_s", 1e15),
                              stage.number("link_latency_s", 1e3)};
    engine.stages.push_back(
        {.first_layer = stage.integer("first_layer", 0, 1000000),
         .num_layers = stage.integer("num_layers", 0, 1000000),
         .tensor_ranks = static_cast<std::int32_t>(stage.integer("tensor_ranks", 1, 1024)),
         .device = stage.text("device"),
         .attention_elsewhere = stage.number("attention_elsewhere", 1),
         .attention_device = stage.text("attention_device"),
         .emulated = link,
         .attention_emulated = link});
    run::EngineRequest::Stage& made = engine.stages.back();
    if (const double speed = stage.number("speed", 1); speed > 0) made.emulated.speed = speed;
    if (const double speed = stage.number("attention_speed", 1); speed > 0)
      made.attention_emulated.speed = speed;
  });
  given.each("emulated", [&](const RequestReader& unit) { add_unit(unit.numbers(), engine); });
  return engine;
}

run::NewStages new_stages_of(const RequestReader& given) {
  run::NewStages made;
  made.bitwidths = given.integers<std::int32_t>("bitwidths");
  given.each("stages", [&](const RequestReader& stage) {
    made.stages.push_back({static_cast<std::int32_t>(stage.integer("rank", 0, 65535)),
                           stage.integer("first_layer", 0, 1000000),
                           stage.integer("num_layers", 0, 1000000)});
  });
  return made;
}

run::Prompt prompt_of(const RequestReader& given, const lm::SamplingOptions& sampling) {
  run::Prompt prompt;
  prompt.tokens = given.integers<std::int32_t>("tokens");
  prompt.max_tokens = given.integer("max_tokens", 1, kMost);
  prompt.sampling = sampling;
  prompt.sampling.seed = static_cast<std::uint64_t>(
      given.integer("seed", 0, static_cast<std::int64_t>(kMaxExactInteger)));
  return prompt;
}

void set_callbacks(const lua_kit::Options& options, run::ExecuteRequest& request) {
  lua_State* L = options.state();
  if (options.push("on_fault")) {
    auto function = std::make_shared<lua_kit::LuaFunction>(L, -1, options.path_of("on_fault"));
    request.faulted = [function](const run::Fault& fault) {
      push_fault(function->state(), fault);
      function->call(1, 0);
    };
  }
  lua_pop(L, 1);
  if (options.push("on_answer")) {
    auto function = std::make_shared<lua_kit::LuaFunction>(L, -1, options.path_of("on_answer"));
    request.answered = [function](std::size_t prompt, const run::Answer& answer) {
      lua_State* state = function->state();
      lua_kit::push_integer(state, static_cast<std::int64_t>(prompt) + 1);
      lm_lua::push_ids(state, answer.tokens);
      lua_kit::push_text(state, name_of(answer.stop_reason));
      function->call(3, 0);
    };
  }
  lua_pop(L, 1);
  if (options.push("progress") && lua_isfunction(L, -1)) {
    auto function = std::make_shared<lua_kit::LuaFunction>(L, -1, options.path_of("progress"));
    request.progress = [function](bool loading, std::int64_t done, std::int64_t total,
                                  std::int64_t tokens) {
      lua_State* state = function->state();
      lua_kit::push_text(state, loading ? "load" : "answer");
      lua_kit::push_integer(state, done);
      lua_kit::push_integer(state, total);
      lua_kit::push_integer(state, tokens);
      function->call(4, 0);
    };
  }
  lua_pop(L, 1);
  request.interrupted = lm_lua::interrupted;
}

// request.replan(engine, rank): the stages that an engine goes on with, or nil.
void set_replan(lua_State* L, int request_index, run::ExecuteRequest& request) {
  lua_kit::push_field(L, request_index, "replan", "ts.execute.replan");
  if (lua_isfunction(L, -1)) {
    auto function = std::make_shared<lua_kit::LuaFunction>(L, -1, "ts.execute.replan");
    request.replan = [function](std::size_t engine,
                                std::int32_t rank) -> std::optional<run::NewStages> {
      lua_State* state = function->state();
      lua_kit::push_integer(state, static_cast<std::int64_t>(engine) + 1);
      lua_kit::push_integer(state, rank);
      function->call(2, 1);
      std::optional<run::NewStages> made;
      if (lua_istable(state, -1)) made = new_stages_of(RequestReader(state, lua_gettop(state)));
      lua_pop(state, 1);
      return made;
    };
  }
  lua_pop(L, 1);
}

/// check_options(options): whether ts.execute takes them.
int check_options(lua_State* L) {
  const lua_kit::Options options(L, 1, execute_options(), "ts.execute");
  return 0;
}

/// execute(model, options, request): a table of what came of it, and the object that traces.
int execute(lua_State* L) {
  push_executed(
      L, std::make_shared<const Executed>(run::module().execute(read_execute_request(L, 1))));
  return 1;
}

// "HOST:PORT", "[::1]:PORT"
run::Address address_of(const std::string& text, const std::string& path) {
  const std::size_t colon = text.rfind(':');
  std::int32_t port = 0;
  const char* end = text.data() + text.size();
  if (colon == std::string::npos || colon == 0 ||
      std::from_chars(text.data() + colon + 1, end, port).ptr != end || port < 1 || port > 65535) {
    refuse(path, "{} is no HOST:PORT", quote(text));
  }
  std::string host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {std::move(host), port};
}

/// serve_stage(options, secret, build): why it ended, "" where it was let go
int serve_stage(lua_State* L) {
  run::StageRequest request;
  const lua_kit::Options options(L, 1, stage_options(), "tessera stage");
  request.rank = static_cast<std::int32_t>(options.integer("rank"));
  request.master = address_of(options.text("connect"), options.path_of("connect"));
  if (options.given("host")) request.host = options.text("host");
  request.parent = options.integer("parent");
  if (options.given("local_ranks")) request.local_ranks = options.integer("local_ranks");
  if (options.given("secret_file")) {
    request.secret = run::module().read_secret(options.text("secret_file"), "secret_file");
  } else {
    request.secret = lua_kit::check_text(L, 2, "tessera stage");
  }
  request.build = lua_kit::check_text(L, 3, "tessera stage");
  lua_kit::push_text(L, run::module().serve_stage(request));
  return 1;
}

// How layers are kept, as ts.language_model has it; bitwidths are the plan's.
void add_model_options(OptionTable& table) {
  for (OptionSpec option : lm_lua::language_model_options().options) {
    if (option.name == "path" || option.name == "bitwidths" || option.name == "plan" ||
        option.name == "progress" || table.find(option.name) != nullptr) {
      continue;
    }
    if (option.name == "kv_bitwidth" || option.name == "threads") option.default_text.clear();
    if (option.name == "device") {
      option.default_text = "\"auto\"";
      option.doc =
          "auto: the plan's devices; cpu: stages on shares of this CPU, whatever the plan's are";
    }
    table.options.push_back(std::move(option));
  }
}

OptionTable make_execute_options() {
  OptionTable table{"ts.execute",
                    "Runs a plan: each stage a process with its layers at their bitwidths, prompts "
                    "in the plan's micro-batches (tessera man execute).",
                    "table",
                    {}};
  table.options.push_back({.name = "model",
                           .type = OptionType::text,
                           .doc = "Folder with config.json, weights and tokenizer, or a GGUF file",
                           .required = true});
  table.options.push_back({.name = "prompts",
                           .type = OptionType::table,
                           .doc = "Texts, or lists of token ids, or { prompt = or tokens =, "
                                  "max_tokens =, seed =, id = }",
                           .lua_type = "(string|integer[]|table)[]",
                           .required = true});
  table.options.push_back({.name = "max_tokens",
                           .type = OptionType::integer,
                           .doc =
                               "Most tokens of an answer; default: 128, or the plan's where that "
                               "is less",
                           .unit = "tokens",
                           .min = 1,
                           .max = static_cast<double>(kMost)});
  table = lua_kit::option_table<run::ExecuteOptions>(
      lua_kit::option_table<lm::SamplingOptions>(std::move(table)));
  add_model_options(table);
  table.options.push_back({.name = "trace",
                           .type = OptionType::text,
                           .doc = "File for a Chrome trace of the stages, for Perfetto"});
  table.options.push_back({.name = "emulated",
                           .type = OptionType::boolean,
                           .doc = "Steps and links take what the plan predicts, at least: its "
                                  "devices and network, emulated on this machine; the arithmetic "
                                  "is done all the same",
                           .default_text = "false"});
  table.options.push_back({.name = "speeds",
                           .type = OptionType::table,
                           .doc = "Of each process, in (0, 1]: what it computes ends no earlier "
                                  "than its time here over its speed. A stage comes before who "
                                  "attends for it",
                           .lua_type = "number[]"});
  table.options.push_back({.name = "link_gbps",
                           .type = OptionType::number,
                           .doc = "Between processes, one way, at most: what comes is held until "
                                  "its bytes over the rate, and link_latency_s, have passed",
                           .unit = "Gb/s",
                           .min = 1e-6,
                           .max = 1e6});
  table.options.push_back({.name = "link_latency_s",
                           .type = OptionType::number,
                           .doc = "Of such a link",
                           .unit = "s",
                           .min = 0,
                           .max = 1e3});
  table.options.push_back({.name = "ignore_stop_tokens",
                           .type = OptionType::boolean,
                           .doc = "Goes on where the model ends its text",
                           .default_text = "false"});
  table.options.push_back({.name = "on_answer",
                           .type = OptionType::callback,
                           .doc = "Called as each prompt is answered, with its number",
                           .lua_type = "fun(prompt: integer, tokens: integer[], stop_reason: "
                                       "string)"});
  table.options.push_back(
      {.name = "on_fault",
       .type = OptionType::callback,
       .doc = "Called as a worker is lost, with what run.faults has of it; its "
              "remedy is restarted, awaited, relinked, moved (its layers), handed_on (its "
              "engine's prompts) or none",
       .lua_type = "fun(fault: table)"});
  table.options.push_back({.name = "progress",
                           .type = OptionType::callback,
                           .doc = "Called while workers load and prompts are answered; false for "
                                  "silence. Default: a bar on a terminal",
                           .lua_type = "fun(what: \"load\"|\"answer\", done: integer, total: "
                                       "integer, tokens: integer)|false"});
  return table;
}

}  // namespace

run::ExecuteRequest read_execute_request(lua_State* L, int first) {
  const lua_kit::Options model(L, first, lm_lua::language_model_options(), "ts.execute");
  const lua_kit::Options options(L, first + 1, execute_options(), "ts.execute");
  const RequestReader given(L, first + 2);
  run::ExecuteRequest request;
  request.model = lm_lua::read_request(model);
  lua_kit::read_options(options, request.options);
  lm::SamplingOptions sampling;
  lua_kit::read_options(options, sampling);
  request.ignore_stop_tokens = options.boolean("ignore_stop_tokens");
  given.each("engines",
             [&](const RequestReader& engine) { request.engines.push_back(engine_of(engine)); });
  given.each("prompts", [&](const RequestReader& prompt) {
    request.prompts.push_back(prompt_of(prompt, sampling));
  });
  request.build = given.text("build");
  request.program = given.text("program");
  set_callbacks(options, request);
  set_replan(L, first + 2, request);
  return request;
}

const OptionTable& execute_options() {
  static const OptionTable table = make_execute_options();
  return table;
}

const OptionTable& stage_options() {
  static const OptionTable table{
      "tessera stage",
      "A worker of a run: connects to the master, loads its layers, serves until it is let go",
      "",
      {{.name = "rank",
        .type = OptionType::integer,
        .doc = "Which worker it is, from 0; default: as torchrun, Slurm or mpirun say",
        .min = 0,
        .max = 65535},
       {.name = "connect",
        .type = OptionType::text,
        .doc = "HOST:PORT of the master; default: as torchrun, Slurm or mpirun say"},
       {.name = "host",
        .type = OptionType::text,
        .doc = "Where it listens for the stage before it; default: at the address from which it "
               "reaches the master"},
       {.name = "secret_file",
        .type = OptionType::text,
        .doc = "File that only its owner may read, with what master and workers know"},
       {.name = "local_ranks",
        .type = OptionType::integer,
        .doc = "Ranks that share the cores of this machine, unless each was bound to its own; "
               "default: as torchrun, Slurm or mpirun say, else 1",
        .min = 1,
        .max = 65535},
       {.name = "parent",
        .type = OptionType::integer,
        .doc = "Process that it ends with; 0: none",
        .default_text = "0",
        .min = 0,
        .max = 1e15}}};
  return table;
}

void register_run(lua_State* L) {
  lua_kit::register_object<Executed>(L);
  lua_kit::register_module(L, "tessera.run",
                           {{"check_options", lua_kit::guarded<check_options>},
                            {"execute", lua_kit::guarded<execute>},
                            {"serve_stage", lua_kit::guarded<serve_stage>},
                            {"server", lua_kit::guarded<server>}});
  auto& reference = core_lua::environment(L).reference;
  reference.add(execute_options());
  reference.add(serve_real_options());
}

}  // namespace run_lua

}  // namespace tessera
