// A model of a fleet, read of a script's table: what asks for it, and what may serve it.

#include "named_model_lua.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core_lua.h"
#include "deployment_lua.h"
#include "served_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/record_options.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"

namespace tessera::solver_lua {
namespace {

constexpr std::size_t kMaxClasses = 32;  // of requests of a model

using solver::NamedModel;

// Of ts.plan_serving's options those that say what a model's engines may be.
constexpr std::array<std::string_view, 13> kOfServing = {
    "model",           "traffic",           "slo",
    "quality",         "runtime",           "engine",
    "bitwidths",       "kv_bitwidths",      "tensor_parallel",
    "expert_parallel", "pipeline_parallel", "kernel_set",
    "num_requests"};

}  // namespace

const OptionTable& named_model_options() {
  static const OptionTable table = [] {
    OptionTable its = lua_kit::option_table<NamedModel>(
        {"ts.plan_fleet.models", "A model of a fleet.", "table", {}});
    for (const OptionSpec& option : plan_serving_options().options) {
      const bool wanted =
          std::find(kOfServing.begin(), kOfServing.end(), option.name) != kOfServing.end();
      if (!wanted) continue;
      its.options.push_back(option);
      // Of several classes of requests each has its own.
      const bool is_by_class = option.name == "traffic" || option.name == "slo";
      if (is_by_class) its.options.back().required = false;
    }
    its.options.push_back(
        {.name = "classes",
         .type = OptionType::table,
         .doc = "In the place of traffic: classes of requests by size, a list of { name =, "
                "traffic =, slo = }, each of which may go to the replicas that suit it; without "
                "slo the model's counts",
         .lua_type = "table[]"});
    return its;
  }();
  return table;
}

std::size_t model_named(const std::vector<NamedModel>& models, const std::string& name,
                        const std::string& path) {
  const auto found = std::find_if(models.begin(), models.end(),
                                  [&](const NamedModel& each) { return each.name == name; });
  if (found == models.end()) refuse(path, "no model is called '{}'", name);
  return static_cast<std::size_t>(found - models.begin());
}

namespace {

const OptionTable& requests_options() {
  static const OptionTable table{
      "ts.plan_fleet.models.classes",
      "Requests of one size to a model.",
      "table",
      {{.name = "name",
        .type = OptionType::text,
        .doc = "That routers know it by; left out: class 0, class 1, ..."},
       {.name = "traffic",
        .type = OptionType::table,
        .doc = "A table of the options of ts.traffic, with its rate_per_s: the demand",
        .lua_type = "tessera.Traffic|table",
        .required = true},
       {.name = "slo",
        .type = OptionType::table,
        .doc = "As for ts.max_rate; left out: the model's"}}};
  return table;
}

solver::RequestsOfModel requests_at(lua_State* L, int index, const std::string& path,
                                    const std::vector<serving::Slo>& slos) {
  const lua_kit::Options options(L, index, requests_options(), path);
  solver::RequestsOfModel its;
  if (options.given("name")) its.name = options.text("name");
  options.read("traffic", traffic_at, its.traffic);
  its.slos = slos;
  if (options.given("slo")) options.read("slo", serving_lua::slo_argument, its.slos);
  if (its.slos.empty()) refuse(path + ".slo", "give limits here, or the model's own");
  return its;
}

/// Requests of one class, or of several.
void read_requests(const lua_kit::Options& options, NamedModel& model) {
  if (options.given("slo")) options.read("slo", serving_lua::slo_argument, model.serving.slos);
  const std::string at = options.path_of("classes");
  if (options.given("classes") == options.given("traffic")) {
    refuse(options.given("traffic") ? at : options.path_of("traffic"),
           "give traffic, or classes = { { traffic = ... }, ... }: one of the two");
  }
  if (options.given("traffic")) {
    if (!options.given("slo")) refuse(options.path_of("slo"), "missing: limits on latencies");
    model.classes = {{"", {}, model.serving.slos}};
    options.read("traffic", traffic_at, model.classes.front().traffic);
    return;
  }
  options.read("classes", [&](lua_State* state, int index, const std::string& path) {
    lua_kit::for_each_item(
        state, index, path,
        [&](std::size_t b, const std::string& item) {
          model.classes.push_back(requests_at(state, lua_gettop(state), item, model.serving.slos));
          std::string& name = model.classes.back().name;
          if (name.empty()) name = fmt::format("class {}", b - 1);
          for (std::size_t k = 0; k + 1 < b; ++k) {
            if (model.classes[k].name != name) continue;
            refuse(item + ".name", "classes[{}] is called '{}' already", k + 1, name);
          }
        },
        kMaxClasses);
  });
  if (model.classes.empty()) refuse(at, "the list is empty");
}

NamedModel named_model_at(lua_State* L, int index, const std::string& path) {
  const lua_kit::Options options(L, index, named_model_options(), path);
  NamedModel model;
  lua_kit::read_options(options, model);
  read_engines(L, options, model.serving);
  read_requests(options, model);
  return model;
}

/// Whose names are not the same. @throws Error{invalid_argument}
void check_model_names(const std::vector<NamedModel>& models, const std::string& path) {
  for (std::size_t i = 0; i < models.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (models[i].name != models[k].name) continue;
      refuse(lua_kit::item_path(path, i + 1) + ".name", "models[{}] is called '{}' already", k + 1,
             models[i].name);
    }
  }
}

}  // namespace

std::vector<NamedModel> named_models_at(lua_State* L, int index, const std::string& path) {
  std::vector<NamedModel> models;
  lua_kit::for_each_item(L, index, path, [&](std::size_t, const std::string& item) {
    models.push_back(named_model_at(L, lua_gettop(L), item));
  });
  check_model_names(models, path);
  return models;
}

void register_named_model(lua_State* L) {
  lua_kit::Reference& reference = core_lua::environment(L).reference;
  reference.add(named_model_options());
  reference.add(requests_options());
}

}  // namespace tessera::solver_lua
