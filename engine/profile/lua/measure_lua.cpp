#include "measure_lua.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core_lua.h"
#include "lm_lua.h"
#include "tessera/core/error.h"
#include "tessera/lm/module.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/profile/deployment.h"
#include "tessera/profile/passes.h"
#include "tessera/profile/random_model.h"
#include "tessera/profile/rates.h"
#include "tessera/weights/weights.h"

namespace tessera {
namespace profile_lua {
namespace {

/// Which other cores work while a pass is timed.
enum class Load { both, others, none };

/// The grid of ts.measure_profile, and how its points are measured.
struct Grid {
  std::vector<std::int32_t> bitwidths = {3, 4, 8, 16};
  std::vector<std::int64_t> batch_sizes = {1, 2, 4, 8, 16, 32};
  std::vector<std::int64_t> prompt_tokens = {16, 64, 256, 512};
  std::vector<std::int64_t> context_tokens = {32, 128, 512, 1024};
  std::int64_t max_rows = 2048;
  kernels::Real dtype = kernels::Real::f32;
  std::int32_t activation_bitwidth = 16;
  std::int64_t cores_per_device = 1;
  Load load = Load::both;
  bool quick = false;
};

}  // namespace
}  // namespace profile_lua

template <>
inline constexpr auto kEnumNames<profile_lua::Load> =
    enum_names<profile_lua::Load>({{profile_lua::Load::both, "both"},
                                   {profile_lua::Load::others, "others"},
                                   {profile_lua::Load::none, "none"}});

template <>
struct Fields<profile_lua::Grid> {
  using G = profile_lua::Grid;
  static constexpr auto list = std::tuple{
      field<&G::bitwidths>({.name = "bitwidths",
                            .doc = "Of the layers: 3, 4, 8 and 16",
                            .unit = "bits",
                            .min = 3,
                            .max = 16,
                            .as_option = AsOption::defaulted}),
      field<&G::batch_sizes>({.name = "batch_sizes",
                              .doc = "Sequences of a pass",
                              .min = 1,
                              .max = 4096,
                              .as_option = AsOption::defaulted}),
      field<&G::prompt_tokens>({.name = "prompt_tokens",
                                .doc = "New tokens of each, in passes of prefill",
                                .unit = "tokens",
                                .min = 2,
                                .max = 1e6,
                                .as_option = AsOption::defaulted}),
      field<&G::context_tokens>({.name = "context_tokens",
                                 .doc = "In the cache before a step of decode, and before a later "
                                        "piece of a prompt",
                                 .unit = "tokens",
                                 .min = 1,
                                 .max = 1e6,
                                 .as_option = AsOption::defaulted}),
      field<&G::max_rows>({.name = "max_rows",
                           .doc = "Most new tokens of a pass; larger ones are left out",
                           .unit = "tokens",
                           .min = 1,
                           .max = 1e6,
                           .as_option = AsOption::defaulted}),
      field<&G::dtype>({.name = "dtype",
                        .doc = "As ts.language_model has it",
                        .as_option = AsOption::defaulted}),
      field<&G::activation_bitwidth>({.name = "activation_bitwidth",
                                      .doc = "As ts.language_model has it",
                                      .unit = "bits",
                                      .min = 8,
                                      .max = 16,
                                      .as_option = AsOption::defaulted}),
      field<&G::cores_per_device>({.name = "cores_per_device",
                                   .doc = "Of a device that is a share of this CPU",
                                   .unit = "cores",
                                   .min = 1,
                                   .max = 4096,
                                   .as_option = AsOption::defaulted}),
      field<&G::load>({.name = "load",
                       .doc = "What the other cores do meanwhile: the same (others), nothing "
                              "(none), or each point is measured twice (both); the profile is of "
                              "busy ones where they were measured",
                       .as_option = AsOption::defaulted}),
      field<&G::quick>({.name = "quick",
                        .doc = "A few points in seconds, to try it out",
                        .as_option = AsOption::defaulted})};
};

namespace profile_lua {
namespace {

using profile::Piece;

constexpr std::int64_t kMostBytes = 1 << 30;

const OptionTable& timing_options() {
  static const OptionTable table =
      lua_kit::option_table<profile::TimingOptions>({"measure.loopback", "", "", {}});
  return table;
}

const OptionTable& passes_options() {
  static const OptionTable table = lua_kit::option_table<profile::TimingOptions>(
      {"measure.passes",
       "",
       "",
       {{.name = "passes", .type = OptionType::table, .doc = "What to time", .required = true},
        {.name = "num_layers",
         .type = OptionType::integer,
         .doc = "Of the model, from the first on",
         .min = 1,
         .max = kLayersRange.high,
         .required = true},
        {.name = "cores",
         .type = OptionType::integer,
         .doc = "That they run on; 0: wherever the system puts them",
         .default_text = "0",
         .min = 0,
         .max = 1e6},
        {.name = "others",
         .type = OptionType::integer,
         .doc = "Cores that run the same meanwhile",
         .default_text = "0",
         .min = 0,
         .max = 1e6},
        {.name = "progress", .type = OptionType::callback, .doc = "Called after each pass"}}});
  return table;
}

OptionTable make_measure_options() {
  OptionTable timing = lua_kit::option_table<profile::TimingOptions>({});
  OptionTable table = lua_kit::option_table<Grid>(
      {"ts.measure_profile",
       "Measures one decoder layer of a model on this machine at each bitwidth, over a grid of "
       "batches, prompts and contexts, and what is beside the layers; fits a profile to it. The "
       "profile, and a report: rows, samples, alone, loading, before, after.",
       "tessera.Profile, table",
       {{.name = "device",
         .type = OptionType::table,
         .doc = "A device of ts.detect { cpu = true }, or a GPU that is here; default: the former",
         .lua_type = "tessera.Device|string|table"},
        {.name = "model",
         .type = OptionType::table,
         .doc = "A shape, whose weights are made up, or a folder with weights",
         .lua_type = "tessera.Model|string|table",
         .required = true}}});
  table.options.insert(table.options.end(), timing.options.begin(), timing.options.end());
  table.options.push_back({.name = "progress",
                           .type = OptionType::callback,
                           .doc = "Called after each point; false for silence. Default: a bar on a "
                                  "terminal",
                           .lua_type = "fun(done: integer, total: integer, left_s: number)|false"});
  return table;
}

profile::TimingOptions timing_of(const lua_kit::Options& options) {
  profile::TimingOptions timing;
  lua_kit::read_options(options, timing);
  return timing;
}

// The options of ts.measure_profile as a table of all numbers and words, given or default; timings
// in `timing`.
int read_options(lua_State* L) {
  const lua_kit::Options options(L, 1, measure_options(), "ts.measure_profile");
  Grid grid;
  lua_kit::read_options(options, grid);
  if (options.given("quick") && grid.quick) {
    const Grid few{.bitwidths = {4, 16},
                   .batch_sizes = {1, 2, 4},
                   .prompt_tokens = {8, 32},
                   .context_tokens = {16, 64}};
    if (!options.given("bitwidths")) grid.bitwidths = few.bitwidths;
    if (!options.given("batch_sizes")) grid.batch_sizes = few.batch_sizes;
    if (!options.given("prompt_tokens")) grid.prompt_tokens = few.prompt_tokens;
    if (!options.given("context_tokens")) grid.context_tokens = few.context_tokens;
  }
  profile::TimingOptions timing;
  if (grid.quick) timing.repeats = 3, timing.least_s = 0.002;
  lua_kit::read_options(options, timing);
  lua_kit::push_value(L, grid);
  lua_kit::push_value(L, timing);
  lua_setfield(L, -2, "timing");
  return 1;
}

int cpu(lua_State* L) {
  lua_kit::push_value(L, profile::this_cpu());
  return 1;
}

int rates(lua_State* L) {
  const auto cores = lua_kit::check_integer(L, 1, "measure.rates.cores", 1, 1e6);
  lua_kit::push_value(L, profile::measure_rates(profile::this_cpu(), cores));
  return 1;
}

// What a row is of, and its time.
template <class T>
void push_timed(lua_State* L, const T& what, const profile::Timing& timing) {
  lua_kit::push_value(L, timing);
  lua_kit::set_fields(L, what);
}

std::vector<std::int64_t> read_sizes(lua_State* L, int index, const char* path) {
  std::vector<std::int64_t> bytes;
  for (const double size : lua_kit::any_numbers(L, index, path)) {
    if (!(size >= 1 && size <= kMostBytes)) {
      refuse(ErrorCode::out_of_range, path, "{} bytes; 1 to {} are sent", size, kMostBytes);
    }
    bytes.push_back(static_cast<std::int64_t>(size));
  }
  return bytes;
}

int push_transfers(lua_State* L, const std::vector<profile::Transfer>& transfers) {
  lua_createtable(L, static_cast<int>(transfers.size()), 0);
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    lua_kit::push_value(L, transfers[i].timing);
    lua_kit::set_number(L, "bytes", transfers[i].bytes);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  return 1;
}

int loopback(lua_State* L) {
  const auto bytes = read_sizes(L, 1, "measure.loopback.bytes");
  const lua_kit::Options options(L, 2, timing_options(), "measure.loopback");
  return push_transfers(L, profile::measure_loopback(bytes, timing_of(options)));
}

// sums(bytes, timing, cores, ranks)
int sums(lua_State* L) {
  const auto bytes = read_sizes(L, 1, "measure.sums.bytes");
  const lua_kit::Options options(L, 2, timing_options(), "measure.sums");
  const auto cores = lua_kit::check_integer(L, 3, "measure.sums.cores", 1, 1e6);
  const auto ranks = lua_kit::check_integer(L, 4, "measure.sums.ranks", 2, 1024);
  return push_transfers(
      L, profile::measure_sums(profile::this_cpu(), cores, static_cast<std::int32_t>(ranks), bytes,
                               timing_of(options)));
}

profile::Pass read_pass(lua_State* L, const std::string& path) {
  const int row = lua_gettop(L);
  const auto whole = [&](const char* name, std::int64_t otherwise) {
    const bool given = lua_kit::push_field(L, row, name, path);
    if (given) {
      otherwise = lua_kit::check_integer(L, -1, lua_kit::field_path(path, name), 0, 1e6);
    }
    lua_pop(L, 1);
    return otherwise;
  };
  profile::Pass pass;
  lua_kit::push_field(L, row, "piece", path);
  const auto piece = named<Piece>(lua_kit::check_text(L, -1, lua_kit::field_path(path, "piece")));
  lua_pop(L, 1);
  if (!piece)
    refuse(lua_kit::field_path(path, "piece"), "none of layer, embedding, head, sampling");
  pass.piece = *piece;
  pass.batch_size = std::max<std::int64_t>(1, whole("batch_size", 1));
  pass.tokens = std::max<std::int64_t>(1, whole("tokens", 1));
  pass.context_tokens = whole("context_tokens", 0);
  return pass;
}

profile::PassesRequest read_passes(lua_State* L) {
  const lua_kit::Options options(L, 2, passes_options(), "measure.passes");
  profile::PassesRequest request;
  request.timing = timing_of(options);
  request.cpu = profile::this_cpu();
  request.cores = options.integer("cores");
  request.others = options.integer("others");
  request.interrupted = lm_lua::interrupted;
  request.progress = lm_lua::progress_of(options);
  options.push("passes");
  lua_kit::for_each_item(L, lua_gettop(L), options.path_of("passes"),
                         [&](std::size_t, const std::string& where) {
                           request.passes.push_back(read_pass(L, where));
                         });
  lua_pop(L, 1);
  return request;
}

bool has(const profile::PassesRequest& request, Piece piece) {
  return std::any_of(request.passes.begin(), request.passes.end(),
                     [&](const profile::Pass& pass) { return pass.piece == piece; });
}

// Layers alone, so that their bytes and their time to load are theirs; or what is beside them.
int passes(lua_State* L) {
  const lua_kit::Options model_options(L, 1, lm_lua::language_model_options(), "ts.language_model");
  const lua_kit::Options options(L, 2, passes_options(), "measure.passes");
  lm::LoadRequest load = lm_lua::read_request(model_options);
  profile::PassesRequest request = read_passes(L);
  load.last_layer = has(request, Piece::layer) ? options.integer("num_layers") : 0;
  load.with_embedding = has(request, Piece::embedding);
  load.with_head = has(request, Piece::head);
  const double start = profile::steady_s();
  const auto model = lm::module().load(load);
  const double load_s = profile::steady_s() - start;
  const bool is_busy = request.cores > 0 && request.others > 0;
  std::shared_ptr<const lm::LanguageModel> other;
  if (is_busy) {
    load.num_threads = 1;
    other = lm::module().load(load);
  }
  const auto timed = profile::time_passes(*model, other.get(), request);
  lua_newtable(L);
  lua_kit::set_number(L, "load_s", load_s);
  lua_kit::set_number(L, "weight_bytes", static_cast<double>(model->weight_bytes()));
  lua_kit::push_text(L, "rows");
  lua_createtable(L, static_cast<int>(timed.size()), 0);
  for (std::size_t i = 0; i < timed.size(); ++i) {
    push_timed(L, timed[i].pass, timed[i].timing);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  lua_rawset(L, -3);
  return 1;
}

const OptionTable& deployment_options() {
  static const OptionTable table =
      lua_kit::option_table<profile::DeploymentRequest>({"measure.deployment", "", "", {}});
  return table;
}

// deployment(options of ts.language_model, DeploymentRequest)
int deployment(lua_State* L) {
  const lua_kit::Options model_options(L, 1, lm_lua::language_model_options(), "ts.language_model");
  const lua_kit::Options options(L, 2, deployment_options(), "measure.deployment");
  const lm::LoadRequest load = lm_lua::read_request(model_options);
  profile::DeploymentRequest request;
  lua_kit::read_options(options, request);
  request.interrupted = lm_lua::interrupted;
  const ModelShape shape = weights::model_of(*weights::Weights::open(load.path));
  const auto loader = [](const lm::LoadRequest& part) { return lm::module().load(part); };
  lua_kit::push_value(L, profile::measure_deployment(load, shape, request, loader));
  return 1;
}

// random_model(shape, num_layers, fn): calls fn(path) while it is there.
int random_model(lua_State* L) {
  const auto shape = core_lua::model_argument(L, 1, "model");
  const auto layers =
      lua_kit::check_integer(L, 2, "num_layers", 1, static_cast<double>(kLayersRange.high));
  const profile::RandomModel model(*shape, layers);
  const lua_kit::LuaFunction function(L, 3, "measure.random_model.fn");
  lua_settop(L, 3);
  lua_kit::push_text(L, model.path());
  function.call(1, 0);
  return 0;
}

}  // namespace

const OptionTable& measure_options() {
  static const OptionTable table = make_measure_options();
  return table;
}

void register_profile(lua_State* L) {
  core_lua::environment(L).reference.add(measure_options());
  lua_kit::register_module(L, "tessera.measure",
                           {{"read_options", lua_kit::guarded<read_options>},
                            {"cpu", lua_kit::guarded<cpu>},
                            {"rates", lua_kit::guarded<rates>},
                            {"loopback", lua_kit::guarded<loopback>},
                            {"sums", lua_kit::guarded<sums>},
                            {"passes", lua_kit::guarded<passes>},
                            {"deployment", lua_kit::guarded<deployment>},
                            {"random_model", lua_kit::guarded<random_model>}});
}

}  // namespace profile_lua
}  // namespace tessera
