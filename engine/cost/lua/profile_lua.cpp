#include <fmt/format.h>

#include <cmath>
#include <string>

#include "core_lua.h"
#include "cost_lua.h"
#include "samples_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/cost/fit.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/value.h"

namespace tessera {

using cost_lua::BoundProfile;

namespace {

using cost::Op;

// Seconds, and { provenance, error, method, in_range, why }.
int push_prediction(lua_State* L, const cost::Prediction& prediction) {
  const Sourced& seconds = prediction.seconds;
  lua_pushnumber(L, seconds.value);
  lua_createtable(L, 0, 5);
  lua_kit::set_text(L, "provenance", name_of(seconds.provenance));
  if (seconds.error) {
    lua_kit::set_number(L, "error", *seconds.error);
  }
  lua_kit::set_text(L, "method", prediction.method);
  const bool modelled = seconds.provenance == Provenance::modelled;
  lua_kit::set_boolean(L, "in_range", prediction.outside || modelled ? 0 : 1);
  if (prediction.outside) {
    lua_kit::push_text(L, *prediction.outside);
  } else if (modelled) {
    lua_kit::push_text(L, "nothing was fitted to measurements of this: " + prediction.method);
  } else {
    lua_pushnil(L);
  }
  lua_setfield(L, -2, "why");
  return 2;
}

template <Op op>
int op_s(lua_State* L) {
  const auto& bound = *lua_kit::check_object<BoundProfile>(L, 1, "profile");
  const std::string path = fmt::format("profile:{}_s", name_of(op));
  return push_prediction(L, bound.model->op(cost_lua::query_argument(L, 2, path, false, op)));
}

const OptionTable& layer_options() {
  static const OptionTable table = lua_kit::option_table<cost::LayerWork>(
      {"profile:layer_s",
       "Seconds of one decoder layer, and { provenance, error, method, in_range, why }.",
       "number",
       {{.name = "model",
         .type = OptionType::table,
         .doc = "Model whose first layer it is, or its name",
         .lua_type = "tessera.Model|string|table",
         .required = true},
        {.name = "bitwidth",
         .type = OptionType::integer,
         .doc = "Of the weights",
         .unit = "bits",
         .default_text = "16",
         .min = 1,
         .max = 16},
        {.name = "kv_bitwidth",
         .type = OptionType::integer,
         .doc = "Of keys and values",
         .unit = "bits",
         .default_text = "16",
         .min = kMinKvBitwidth,
         .max = kMaxKvBitwidth}}});
  return table;
}

int layer_s(lua_State* L) {
  const auto& bound = *lua_kit::check_object<BoundProfile>(L, 1, "profile");
  const lua_kit::Options options(L, 2, layer_options(), "profile:layer_s");
  options.push("model");
  const auto model = core_lua::model_argument(L, lua_gettop(L), options.path_of("model"));
  lua_pop(L, 1);
  cost::LayerWork work;
  lua_kit::read_options(options, work);
  if (!options.given("tokens") && work.phase == cost::Phase::prefill) {
    refuse("profile:layer_s.tokens", "missing; prefill needs the prompt's tokens per sequence");
  }
  return push_prediction(
      L, bound.model->layer(model->layer_classes.front(),
                            static_cast<std::int32_t>(options.integer("bitwidth")),
                            static_cast<std::int32_t>(options.integer("kv_bitwidth")), work));
}

int save(lua_State* L) {
  const auto& bound = *lua_kit::check_object<BoundProfile>(L, 1, "profile");
  write_file(lua_kit::check_text(L, 2, "profile:save path"),
             json_text(cost::to_json(*bound.profile), 1) + "\n");
  return 0;
}

// As in its file; a source also where it is empty.
void push_part(lua_State* L, const cost::ProfilePart& part) {
  Json json = cost::to_json(part);
  json["source"] = part.source;
  lua_kit::push_json(L, json);
}

std::string describe_part(const cost::ProfilePart& part) {
  std::string what(name_of(part.op));
  for (const std::string& word : {part.name, part.dtype, part.kv_dtype}) {
    if (!word.empty()) what += " " + word;
  }
  if (part.bitwidth) what += fmt::format(" {} bit", *part.bitwidth);
  if (part.phase) what += fmt::format(" {}", name_of(*part.phase));
  std::string text = fmt::format("  {:<30} {:<11} {:<9} {:>6} points", what, part.method,
                                 name_of(part.provenance), part.num_points);
  if (part.held_out) {
    text += fmt::format("  held out: median {:.1f} %, p90 {:.1f} %, worst {:.0f} %",
                        100 * part.held_out->median, 100 * part.held_out->p90,
                        100 * part.held_out->worst);
  }
  return text + "\n";
}

std::string summary(const BoundProfile& bound) {
  return fmt::format("profile: {} with {} kernels, {} parts", bound.profile->device.name,
                     bound.kernels.name, bound.profile->parts.size());
}

std::string description(const BoundProfile& bound) {
  std::string text = summary(bound) + "\n";
  for (const cost::ProfilePart& part : bound.profile->parts) text += describe_part(part);
  if (bound.profile->parts.empty()) {
    text += "  nothing measured: the roofline of the data sheet prices everything\n";
  }
  return text;
}

// Positional by nature: every method takes self.
const std::vector<lua_kit::ObjectMethod>& methods() {
  static const std::vector<lua_kit::ObjectMethod> list = {
      {"layer_s", lua_kit::guarded<layer_s>, "(query: table): number, table",
       "Seconds of one decoder layer { model, bitwidth, phase, batch_size, tokens, "
       "context_tokens }, and { provenance, error, method, in_range, why }"},
      {"gemm_s", lua_kit::guarded<op_s<Op::gemm>>, "(query: table): number, table",
       "Seconds of a product { dtype, m, n, k }, and the same"},
      {"attention_s", lua_kit::guarded<op_s<Op::attention>>, "(query: table): number, table",
       "Seconds of attention { phase, dtype, batch_size, tokens, context_tokens, num_heads, "
       "num_kv_heads, head_dim }, and the same"},
      {"experts_s", lua_kit::guarded<op_s<Op::experts>>, "(query: table): number, table",
       "Seconds of all experts of a layer { dtype, tokens, hidden_size, inner_size, num_experts, "
       "top_k, routing, num_devices }, and the same"},
      {"all_reduce_s", lua_kit::guarded<op_s<Op::all_reduce>>, "(query: table): number, table",
       "Seconds in which num_devices of a node sum a buffer { dtype, bytes, num_devices }, and the "
       "same; by the runtime's kernel, or NCCL where that is not used; name = \"nccl\": by NCCL"},
      {"all_gather_s", lua_kit::guarded<op_s<Op::all_gather>>, "(query: table): number, table",
       "Seconds in which num_devices, each with a share of a buffer, all get the whole of it "
       "{ bytes, num_devices }, and the same"},
      {"reduce_scatter_s", lua_kit::guarded<op_s<Op::reduce_scatter>>,
       "(query: table): number, table",
       "Seconds in which num_devices sum a buffer and each get a share of it { bytes, num_devices "
       "}, "
       "and the same"},
      {"all_to_all_s", lua_kit::guarded<op_s<Op::all_to_all>>, "(query: table): number, table",
       "Seconds in which num_devices exchange shares of their buffers { bytes, num_devices }, and "
       "the same"},
      {"send_recv_s", lua_kit::guarded<op_s<Op::send_recv>>, "(query: table): number, table",
       "Seconds in which a device of a node sends { bytes } to another, and the same"},
      {"save", lua_kit::guarded<save>, "(path: string)", "Writes it as JSON"}};
  return list;
}

}  // namespace

template <>
const lua_kit::ObjectType<BoundProfile>& lua_kit::object_type<BoundProfile>() {
  static const ObjectType<BoundProfile> type{
      .name = "tessera.Profile",
      .doc = "What is known about the speed of a device under a kernel set.",
      .fields = {{"device", "string", "The device's name",
                  [](lua_State* L, const BoundProfile& p) {
                    push_text(L, p.profile->device.name);
                  }},
                 {"kernel_set", "string", "Kernels that were measured",
                  [](lua_State* L, const BoundProfile& p) { push_text(L, p.kernels.name); }},
                 {"source", "string", "Where it comes from",
                  [](lua_State* L, const BoundProfile& p) { push_text(L, p.profile->source); }},
                 {"parts", "table[]",
                  "By op and dtype: method, coefficients, range, num_points, held_out, beyond, "
                  "provenance",
                  [](lua_State* L, const BoundProfile& p) {
                    const auto& parts = p.profile->parts;
                    lua_createtable(L, static_cast<int>(parts.size()), 0);
                    for (std::size_t i = 0; i < parts.size(); ++i) {
                      push_part(L, parts[i]);
                      lua_rawseti(L, -2, static_cast<int>(i) + 1);
                    }
                  }}},
      .methods = methods(),
      .summary = summary,
      .describe = description};
  return type;
}

namespace cost_lua {

std::shared_ptr<const BoundProfile> bind_profile(std::shared_ptr<const cost::Profile> profile,
                                                 const cost::KernelSet& kernels) {
  auto bound = std::make_shared<BoundProfile>();
  bound->profile = profile;
  bound->kernels = kernels;
  bound->model = cost::make_profiled(std::move(profile), kernels);
  return bound;
}

namespace {

std::shared_ptr<const BoundProfile> profile_from_file(lua_State* L, const std::string& path) {
  const DataFolders& folders = core_lua::environment(L).folders;
  auto profile =
      std::make_shared<cost::Profile>(cost::profile_from_json(read_json_file(path), path, folders));
  profile->path = path;
  const cost::KernelSet kernels = cost::find_kernel_set(profile->kernel_set, folders);
  return bind_profile(std::move(profile), kernels);
}

}  // namespace

std::shared_ptr<const BoundProfile> profile_argument(lua_State* L, int index,
                                                     const std::string& path) {
  if (const auto* held = lua_kit::test_object<BoundProfile>(L, index)) return *held;
  if (lua_type(L, index) == LUA_TSTRING) {
    return profile_from_file(L, lua_kit::check_text(L, index, path));
  }
  refuse(path, "{} where a profile or its file belongs", lua_kit::describe_value(L, index));
}

const OptionTable& profile_options() {
  static const OptionTable table{
      "ts.profile",
      "What is known about the speed of a device under a kernel set: fitted models with their "
      "held-out errors, the roofline where nothing was measured.",
      "tessera.Profile",
      {{.name = "device",
        .type = OptionType::table,
        .doc = "Device, or its name; without a file it is needed",
        .lua_type = "tessera.Device|string|table"},
       {.name = "kernel_set",
        .type = OptionType::text,
        .doc = "Kernels: llmpq_2023, modern, vllm, ...",
        .default_text = "\"modern\""},
       {.name = "donor",
        .type = OptionType::table,
        .doc = "Profile of another device, or its file, to carry over by the data sheets "
               "(`modelled`) instead of looking for one of this device",
        .lua_type = "tessera.Profile|string"},
       {.name = "file", .type = OptionType::text, .doc = "A saved profile, instead of the rest"}}};
  return table;
}

namespace {

std::shared_ptr<const cost::Profile> carried_over(lua_State* L, const lua_kit::Options& options,
                                                  const Device& device) {
  const std::string path = options.path_of("donor");
  options.push("donor");
  const auto donor = profile_argument(L, lua_gettop(L), path)->profile;
  lua_pop(L, 1);
  if (options.given("kernel_set") && options.text("kernel_set") != donor->kernel_set) {
    refuse(path, "of kernel set {}, not {}", donor->kernel_set, options.text("kernel_set"));
  }
  if (auto profile = cost::carried_over(device, *donor)) return profile;
  refuse(path, "no part of {}'s profile can be carried over to {} by data sheet",
         donor->device.name, device.name);
}

}  // namespace

int new_profile(lua_State* L) {
  const lua_kit::Options options(L, 1, profile_options(), "ts.profile");
  if (options.given("file")) {
    options.refuse_others({"file"}, "a file says what device and kernels it is of");
    lua_kit::push_object<BoundProfile>(L, profile_from_file(L, options.text("file")));
    return 1;
  }
  if (!options.given("device")) {
    refuse("ts.profile.device", "missing; name a device, or give file =");
  }
  options.push("device");
  const auto device = core_lua::device_argument(L, lua_gettop(L), options.path_of("device"));
  lua_pop(L, 1);
  const DataFolders& folders = core_lua::environment(L).folders;
  std::shared_ptr<const cost::Profile> donated;
  if (options.given("donor")) donated = carried_over(L, options, *device);
  const cost::KernelSet kernels = cost::find_kernel_set(
      donated != nullptr ? donated->kernel_set : options.text("kernel_set"), folders);
  auto profile =
      donated != nullptr ? std::move(donated) : cost::profile_for(*device, kernels, folders);
  lua_kit::push_object<BoundProfile>(L, bind_profile(std::move(profile), kernels));
  return 1;
}

void register_profile(lua_State* L) {
  lua_kit::register_object<BoundProfile>(L);
  lua_kit::Reference& reference = core_lua::environment(L).reference;
  reference.add_object<BoundProfile>();
  reference.add(profile_options());
}

}  // namespace cost_lua
}  // namespace tessera
