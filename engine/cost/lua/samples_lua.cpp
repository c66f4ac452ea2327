#include "samples_lua.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/terminal_text.h"
#include "tessera/core/text.h"
#include "tessera/cost/read_samples.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::cost_lua {
namespace {

using cost::Op;
using cost::OpQuery;

constexpr double kLargest = 1e15;
constexpr double kLongest_s = 1e6;

std::vector<std::string> known_keys(bool is_sample) {
  std::vector<std::string> keys = {"op",       "phase", "dtype", "kv_dtype",
                                   "bitwidth", "model", "name",  "num_devices"};
  for (const cost::SizeField& size : cost::size_fields()) {
    keys.emplace_back(size.name);
    if (std::string_view(size.column) != size.name) keys.emplace_back(size.column);
  }
  if (!is_sample) return keys;
  keys.insert(keys.end(), {"latency_s", "device", "kernel_set", "source", "fold", "predicted_s",
                           "error_ratio"});
  return keys;
}

// Reads one table field by field; the value is on top of the stack while it is looked at.
class Fields {
 public:
  Fields(lua_State* L, int index, std::string path)
      : L_(L), index_(index), path_(std::move(path)) {}

  bool push(const char* name) const {
    if (lua_kit::push_field(L_, index_, name, path_)) return true;
    lua_pop(L_, 1);
    return false;
  }
  bool has(const char* name) const {
    if (!push(name)) return false;
    lua_pop(L_, 1);
    return true;
  }
  std::string text(const char* name) const {
    if (!push(name)) return "";
    std::string value = lua_kit::check_utf8(L_, -1, where(name));
    lua_pop(L_, 1);
    return value;
  }
  void number(const char* name, double low, double high, double& value) const {
    if (!push(name)) return;
    value = lua_kit::check_number(L_, -1, where(name), low, high);
    lua_pop(L_, 1);
  }
  std::string where(const char* name) const { return path_ + "." + name; }

 private:
  lua_State* L_;
  int index_;
  std::string path_;
};

void check_keys(lua_State* L, int index, const std::string& path, bool is_sample) {
  static const std::vector<std::string> query_keys = known_keys(false);
  static const std::vector<std::string> sample_keys = known_keys(true);
  const std::vector<std::string>& known = is_sample ? sample_keys : query_keys;
  lua_kit::for_each_pair(L, index, path, [&] {
    if (lua_type(L, -2) != LUA_TSTRING) {
      refuse(path, lua_kit::describe_value(L, -2) + " is a key where field names belong");
    }
    const std::string key = lua_kit::check_text(L, -2, path);
    if (std::find(known.begin(), known.end(), key) != known.end()) return;
    refuse(path + "." + key, "unknown field" + did_you_mean(key, known));
  });
}

// By which fields are there, not by their values: m = 0 is a GEMM without rows, and refused as one.
Op read_op(const Fields& fields, std::optional<Op> wanted) {
  const std::string word = fields.text("op");
  if (word.empty()) {
    if (wanted) return *wanted;
    if (fields.has("m")) return Op::gemm;
    if (fields.has("num_experts")) return Op::experts;
    return fields.has("num_heads") ? Op::attention : Op::layer;
  }
  const auto op = named<Op>(word);
  if (!op) {
    const auto names = names_of<Op>();
    refuse(fields.where("op"),
           "unknown op " + quote(word) + did_you_mean(word, {names.begin(), names.end()}));
  }
  if (wanted && *op != *wanted) {
    refuse(fields.where("op"), "{} where {} belongs", quote(word), quote(name_of(*wanted)));
  }
  return *op;
}

// A field that the op does not have would be passed over, and the answer be of something else.
void read_sizes(const Fields& fields, OpQuery& query) {
  const std::vector<std::string>& known = cost::fields_of(query.op);
  for (const cost::SizeField& size : cost::size_fields()) {
    const bool aliased = std::string_view(size.column) != size.name && fields.has(size.column);
    if (aliased && fields.has(size.name.data())) {
      refuse(fields.where(size.column), "the same as {}; give one", size.name);
    }
    const char* name = aliased ? size.column : size.name.data();
    if (!fields.has(name)) continue;
    if (std::find(known.begin(), known.end(), size.name) == known.end()) {
      refuse(fields.where(name), "no field of op {}; it has {}", quote(name_of(query.op)),
             join(known, ", "));
    }
    fields.number(name, 0, kLargest, query.*size.member);
  }
}

void read_phase(const Fields& fields, OpQuery& query) {
  const std::string word = fields.text("phase");
  if (word.empty()) {
    if (query.op != Op::attention && query.op != Op::layer) return;
    refuse(fields.where("phase"), "missing; \"prefill\" or \"decode\" belongs here");
  }
  const auto phase = named<cost::Phase>(word);
  if (!phase) refuse(fields.where("phase"), quote(word) + " is neither \"prefill\" nor \"decode\"");
  query.phase = *phase;
}

// Layers of one model are asked for again and again: the shape is shared.
void read_layer(lua_State* L, const Fields& fields, OpQuery& query) {
  if (!fields.push("model")) {
    if (query.op != Op::layer) return;
    refuse(fields.where("model"), "missing; a layer needs the model it is of, as \"opt-30b\"");
  }
  const auto model = core_lua::model_argument(L, lua_gettop(L), fields.where("model"));
  lua_pop(L, 1);
  query.model = model->name;
  query.layer = {model, &model->layer_classes.front()};
}

void check_dtypes(const Fields& fields, const OpQuery& query) {
  if (!cost::has_dtype(query.op)) return;
  if (query.dtype.empty()) {
    refuse(fields.where("dtype"), "missing; one of " + join(cost::known_dtypes(), ", "));
  }
  if (fields.has("bitwidth")) {
    refuse(fields.where("bitwidth"),
           "of layers; the dtype says how wide the operands are, as int4_wo");
  }
  for (const auto& [name, dtype] :
       {std::pair{"dtype", &query.dtype}, std::pair{"kv_dtype", &query.kv_dtype}}) {
    if (dtype->empty()) continue;
    try {
      cost::dtype_traits(*dtype);
    } catch (const Error& error) {
      refuse(error.code(), fields.where(name), error.what());
    }
  }
}

}  // namespace

OpQuery query_argument(lua_State* L, int index, const std::string& path, bool is_sample,
                       std::optional<Op> wanted) {
  if (index < 0) index = lua_gettop(L) + 1 + index;
  if (!lua_istable(L, index)) {
    refuse(path, lua_kit::describe_value(L, index) + " where a table of fields belongs");
  }
  check_keys(L, index, path, is_sample);
  const Fields fields(L, index, path);
  OpQuery query;
  query.op = read_op(fields, wanted);
  read_sizes(fields, query);
  query.dtype = fields.text("dtype");
  query.kv_dtype = fields.text("kv_dtype");
  query.name = fields.text("name");
  double whole = query.bitwidth;
  fields.number("bitwidth", 1, 16, whole);
  query.bitwidth = static_cast<std::int32_t>(whole);
  whole = query.num_devices;
  fields.number("num_devices", 1, 65536, whole);
  query.num_devices = static_cast<std::int32_t>(whole);
  read_phase(fields, query);
  if (query.op == Op::layer) read_layer(L, fields, query);
  if (query.op == Op::attention && query.num_kv_heads == 0) query.num_kv_heads = query.num_heads;
  const bool one_token = query.op == Op::layer || query.op == Op::attention;
  if (one_token && query.phase == cost::Phase::decode && query.tokens == 0) query.tokens = 1;
  check_dtypes(fields, query);
  try {
    cost::check_query(query);
  } catch (const Error& error) {
    throw Error(error.code(), path + ": " + error.what(), path + "." + error.where());
  }
  return query;
}

namespace {

std::vector<cost::Sample> samples_of_table(lua_State* L, int index, const std::string& path) {
  std::vector<cost::Sample> samples;
  if (lua_kit::push_field(L, index, "latency_s", path)) {
    refuse(path,
           "the fields of one sample where a list of samples belongs: { { ..., latency_s = ... }, "
           "... }");
  }
  lua_pop(L, 1);
  lua_kit::for_each_item(L, index, path, [&](std::size_t, const std::string& where) {
    const int row = lua_gettop(L);
    cost::Sample sample;
    sample.query = query_argument(L, row, where, true);
    const Fields fields(L, row, where);
    fields.number("latency_s", 1e-12, kLongest_s, sample.latency_s);
    if (sample.latency_s == 0) refuse(where + ".latency_s", "missing; the measured seconds");
    sample.device = fields.text("device");
    sample.kernel_set = fields.text("kernel_set");
    sample.source = fields.text("source");
    samples.push_back(std::move(sample));
  });
  if (samples.empty()) refuse(path, "no samples; give at least one");
  cost::first_of_repeats(samples,
                         [&](std::size_t i) { return fmt::format("{}[{}]", path, i + 1); });
  return samples;
}

// Any table that ts.read_profile_data reads, as it reads it.
std::vector<cost::Sample> samples_of_file(lua_State* L, const std::string& file) {
  cost::ReadOptions options;
  options.driver_names = driver_names(core_lua::environment(L).folders);
  cost::SampleFile read = cost::read_samples(file, options);
  if (const std::string warning = read.warning(file); !warning.empty()) {
    write_text(stderr, fmt::format("warning: {}\n", warning));
  }
  std::map<std::string, std::shared_ptr<const LayerShape>> shapes;
  for (cost::Sample& sample : read.samples) {
    if (sample.query.op != Op::layer) continue;
    auto& shape = shapes[sample.query.model];
    if (shape == nullptr) {
      lua_kit::push_text(L, sample.query.model);
      const auto model = core_lua::model_argument(L, lua_gettop(L), file + ": model");
      lua_pop(L, 1);
      shape = {model, &model->layer_classes.front()};
    }
    sample.query.layer = shape;
  }
  return std::move(read.samples);
}

}  // namespace

std::vector<cost::Sample> samples_argument(lua_State* L, int index, const std::string& path) {
  if (lua_type(L, index) == LUA_TSTRING) {
    return samples_of_file(L, lua_kit::check_text(L, index, path));
  }
  if (lua_istable(L, index)) return samples_of_table(L, index, path);
  refuse(path, lua_kit::describe_value(L, index) + " where a list of samples or a file belongs");
}

void push_sample(lua_State* L, const cost::Sample& sample) {
  const OpQuery& query = sample.query;
  lua_createtable(L, 0, 16);
  const auto text = [&](const char* name, std::string_view value) {
    if (value.empty()) return;
    lua_kit::set_text(L, name, value);
  };
  text("op", name_of(query.op));
  text("dtype", query.dtype);
  text("kv_dtype", query.kv_dtype);
  text("name", query.name);
  const bool layer = query.op == Op::layer;
  if (layer || query.op == Op::attention) text("phase", name_of(query.phase));
  if (layer) {
    text("model", query.model);
    lua_kit::set_number(L, "bitwidth", query.bitwidth);
  }
  if (query.num_devices != 1) lua_kit::set_number(L, "num_devices", query.num_devices);
  for (const std::string& field : cost::fields_of(query.op)) {
    lua_kit::set_number(L, field.c_str(), cost::field_value(query, field));
  }
  lua_kit::set_number(L, "latency_s", sample.latency_s);
  text("device", sample.device);
  text("kernel_set", sample.kernel_set);
  text("source", sample.source);
}

void push_errors(lua_State* L, const cost::Errors& errors) {
  lua_kit::push_value(L, errors);
  if (errors.num_points > 0) return;
  for (const char* name : {"median", "p90", "worst", "mean"}) {  // an error of no point is not zero
    lua_pushnil(L);
    lua_setfield(L, -2, name);
  }
}

}  // namespace tessera::cost_lua
