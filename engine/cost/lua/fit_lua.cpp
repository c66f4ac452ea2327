#include <fmt/format.h>

#include <algorithm>

#include "core_lua.h"
#include "cost_lua.h"
#include "samples_lua.h"
#include "tessera/core/error.h"
#include "tessera/cost/fit.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::cost_lua {
namespace {

constexpr std::size_t kFewSamples = 40;  ///< up to here, one is left out at a time

OptionTable with_common_options(OptionTable table) {
  table.options = {
      {.name = "device",
       .type = OptionType::table,
       .doc = "Device that was measured, or its name",
       .lua_type = "tessera.Device|string|table",
       .required = true},
      {.name = "kernel_set",
       .type = OptionType::text,
       .doc = "Kernels that were measured",
       .default_text = "\"modern\""},
      {.name = "samples",
       .type = OptionType::table,
       .doc = "Measured points { dtype, m, n, k, latency_s }, { model, bitwidth, phase, "
              "batch_size, tokens, context_tokens, latency_s }, ..., or the path of a table "
              "that ts.read_profile_data reads",
       .lua_type = "table[]|string",
       .required = true}};
  return lua_kit::option_table<cost::FitOptions>(std::move(table));
}

cost::FitOptions read_fit_options(const lua_kit::Options& options,
                                  const std::vector<cost::Sample>& samples) {
  cost::FitOptions fit;
  fit.folds = samples.size() <= kFewSamples ? 0 : 5;
  lua_kit::read_options(options, fit);
  return fit;
}

std::shared_ptr<const Device> device_of(const lua_kit::Options& options) {
  std::shared_ptr<const Device> device;
  options.read("device", core_lua::device_argument, device);
  return device;
}

std::vector<cost::Sample> samples_of(const lua_kit::Options& options) {
  std::vector<cost::Sample> samples;
  options.read("samples", samples_argument, samples);
  return samples;
}

// Frameworks and GPUs are never mixed in one fit, and what no such GPU can have measured is none.
void check_samples(const std::vector<cost::Sample>& samples, const Device& device,
                   const std::string& kernel_set, const std::string& path) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto differs = [&](const char* what, const std::string& has, const std::string& wanted) {
      if (has.empty() || has == wanted) return;
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}[{}]: measured with {} '{}', the fit is for '{}'; fit each on its "
                              "own",
                              path, i + 1, what, has, wanted),
                  path);
    };
    differs("device", samples[i].device, device.name);
    differs("kernel set", samples[i].kernel_set, kernel_set);
  }
  cost::check_plausible(device, samples, path);
}

// [sample] fold: as the samples say in `fold`, else by the fields held out.
std::vector<std::int32_t> folds_of(lua_State* L, const lua_kit::Options& options,
                                   const std::vector<cost::Sample>& samples,
                                   const cost::FitOptions& fit) {
  options.push("samples");
  const int list = lua_gettop(L);
  const bool is_file = lua_type(L, list) == LUA_TSTRING;  // which has no column for it
  std::vector<std::int32_t> folds;
  for (std::size_t i = 0; i < samples.size() && !is_file; ++i) {
    const std::string path = lua_kit::item_path(options.path_of("samples"), i + 1);
    lua_kit::push_item(L, list, i + 1, options.path_of("samples"));
    if (lua_kit::push_field(L, -1, "fold", path)) {
      folds.push_back(static_cast<std::int32_t>(
          lua_kit::check_integer(L, -1, lua_kit::field_path(path, "fold"), 0, 1e9)));
    }
    lua_pop(L, 2);
  }
  lua_pop(L, 1);
  if (folds.size() == samples.size()) return folds;
  if (!folds.empty()) {
    refuse(options.path_of("samples"), "{} of {} samples have a fold; give it to all or none",
           folds.size(), samples.size());
  }
  const auto& fields =
      fit.hold_out.empty() ? cost::fields_of(samples.front().query.op) : fit.hold_out;
  return cost::folds_by(samples, fields, fit.folds, fit.seed);
}

const cost::FitMethod& method_of(const cost::FitOptions& fit, cost::Op op) {
  if (fit.method != "auto") return cost::find_fit_method(op, fit.method);
  const auto& methods = cost::fit_methods(op);
  if (methods.empty()) cost::find_fit_method(op, fit.method);  // throws, naming what there is
  return *methods.front();
}

std::vector<std::shared_ptr<const cost::Profile>> donors_of(lua_State* L,
                                                            const lua_kit::Options& options,
                                                            const Device& device,
                                                            const std::string& kernel_set) {
  if (options.push("donor")) {
    const auto donor = profile_argument(L, lua_gettop(L), options.path_of("donor"));
    lua_pop(L, 1);
    return {donor->profile};
  }
  lua_pop(L, 1);
  const DataFolders& folders = core_lua::environment(L).folders;
  auto donors = cost::donor_profiles(device, kernel_set, folders);
  auto own = cost::find_profile(device.name, kernel_set, folders);
  if (own != nullptr && cost::is_known_device(device, folders)) {
    donors.insert(donors.begin(), std::move(own));
  }
  return donors;
}

}  // namespace

const OptionTable& fit_options() {
  static const OptionTable table =
      with_common_options({"ts.fit_profile",
                           "Fits the models of a device to measured points, and says how well they "
                           "predict what they have not seen.",
                           "tessera.Profile",
                           {}});
  return table;
}

const OptionTable& cross_validate_options() {
  static const OptionTable table = with_common_options(
      {"ts.cross_validate",
       "Predicts every sample by a model fitted without its fold: the samples with predicted_s and "
       "error_ratio. Folds are the samples' own field `fold`, or made from hold_out.",
       "table[]",
       {}});
  return table;
}

const OptionTable& calibrate_options() {
  static const OptionTable table =
      with_common_options({"ts.calibrate",
                           "Adapts a device from few measured points, GPUs that no table covers "
                           "included: a profile, and the errors { before, after, donor }. Points "
                           "without another of their kind (op, dtype, bitwidth, phase) are not in "
                           "`after`.",
                           "tessera.Profile",
                           {}})
          .with("source", {{.name = "donor",
                            .type = OptionType::table,
                            .doc = "Profile whose form is scaled; default: of the device's own and "
                                   "the shipped ones what predicts best",
                            .lua_type = "tessera.Profile|string"}});
  return table;
}

int fit_profile(lua_State* L) {
  const lua_kit::Options options(L, 1, fit_options(), "ts.fit_profile");
  const auto device = device_of(options);
  const auto samples = samples_of(options);
  const std::string kernel_set = options.text("kernel_set");
  check_samples(samples, *device, kernel_set, options.path_of("samples"));
  const cost::KernelSet kernels =
      cost::find_kernel_set(kernel_set, core_lua::environment(L).folders);
  auto profile = std::make_shared<cost::Profile>(
      cost::fit_profile(*device, kernels.name, samples, read_fit_options(options, samples)));
  profile->device_by_name = cost::is_known_device(*device, core_lua::environment(L).folders);
  lua_kit::push_object<BoundProfile>(L, bind_profile(std::move(profile), kernels));
  return 1;
}

int cross_validate(lua_State* L) {
  const lua_kit::Options options(L, 1, cross_validate_options(), "ts.cross_validate");
  const auto device = device_of(options);
  const auto samples = samples_of(options);
  check_samples(samples, *device, options.text("kernel_set"), options.path_of("samples"));
  if (cost::split_by_part(samples).size() > 1) {
    refuse(options.path_of("samples"),
           "of several ops, dtypes, bitwidths or phases; validate one at a time");
  }
  const cost::FitOptions fit = read_fit_options(options, samples);
  const auto folds = folds_of(L, options, samples, fit);
  const cost::FitMethod& method = method_of(fit, samples.front().query.op);
  const auto predicted = cost::cross_validate(method, *device, samples, folds);
  lua_createtable(L, static_cast<int>(samples.size()), 0);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    push_sample(L, samples[i]);
    lua_kit::set_number(L, "predicted_s", predicted[i]);
    lua_kit::set_number(L, "error_ratio", predicted[i] / samples[i].latency_s - 1);
    lua_kit::set_integer(L, "fold", folds[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  push_errors(L, cost::errors_of(predicted, cost::latencies_of(samples), method.name));
  return 2;
}

int calibrate(lua_State* L) {
  const lua_kit::Options options(L, 1, calibrate_options(), "ts.calibrate");
  const auto device = device_of(options);
  const auto samples = samples_of(options);
  const DataFolders& folders = core_lua::environment(L).folders;
  const cost::KernelSet kernels = cost::find_kernel_set(options.text("kernel_set"), folders);
  check_samples(samples, *device, kernels.name, options.path_of("samples"));
  cost::check_distinct(samples, options.path_of("samples"));
  cost::Calibration result = cost::calibrate(
      *device, kernels, samples, donors_of(L, options, *device, kernels.name),
      cost::profile_for(*device, kernels, folders), read_fit_options(options, samples));
  auto profile = std::make_shared<cost::Profile>(*result.profile);
  profile->device_by_name = cost::is_known_device(*device, folders);
  lua_kit::push_object<BoundProfile>(L, bind_profile(std::move(profile), kernels));
  lua_createtable(L, 0, 3);
  push_errors(L, result.before);
  lua_setfield(L, -2, "before");
  push_errors(L, result.after);
  lua_setfield(L, -2, "after");
  if (!result.donor.empty()) {
    lua_kit::set_text(L, "donor", result.donor);
  }
  return 2;
}

}  // namespace tessera::cost_lua
