#include "tessera/solver/instance/instance_file.h"

#include <fmt/format.h>

#include <memory>
#include <set>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/solver/instance/numbers.h"

namespace tessera::solver {
namespace {

constexpr std::int64_t kMaxLayers = 10000, kMaxBatch = 100000, kMaxTypes = 256, kMaxCount = 4096;
constexpr std::int64_t kMaxBits = 16;
// Transfer times are held per pair of types and micro-batch size; 2^24 of them are 128 MiB.
constexpr std::int64_t kMaxLinkEntries = std::int64_t{1} << 24;
constexpr double kMaxSeconds = 1e9, kMaxGb = 1e9;

[[noreturn]] void fail(const std::string& path, const std::string& problem,
                       ErrorCode code = ErrorCode::invalid_argument) {
  throw Error(code, path + ": " + problem, path);
}

void require_size(const Json& value, const std::string& path, std::size_t size,
                  const char* meaning) {
  if (!value.is_array()) fail(path, "an array belongs here");
  if (value.size() != size) {
    fail(path, fmt::format("{} entries where {} belong ({})", value.size(), size, meaning));
  }
}

std::vector<double> numbers(const Json& value, const std::string& path, std::size_t size,
                            const char* meaning, double low, double high) {
  require_size(value, path, size, meaning);
  return json_numbers(value, path, low, high);
}

void read_bitwidths(JsonFields& fields, Instance& instance) {
  const std::string path = fields.path_of("bits");
  const Json& bits = fields.at("bits");
  if (!bits.is_array() || bits.empty() || bits.size() > kMaxBits) {
    fail(path, fmt::format("an array of 1 to {} bitwidths belongs here", kMaxBits));
  }
  for (const std::int32_t width : json_integers(bits, path, 1, 64)) {
    if (!instance.bitwidths.empty() && width <= instance.bitwidths.back()) {
      fail(path, "bitwidths must ascend");
    }
    instance.bitwidths.push_back(width);
  }
}

void read_omega(JsonFields& fields, Instance& instance) {
  const std::string path = fields.path_of("omega");
  const Json& omega = fields.at("omega");
  require_size(omega, path, instance.num_layers(), "one row per layer: L");
  for (std::size_t layer = 0; layer < omega.size(); ++layer) {
    const auto row = numbers(omega[layer], fmt::format("{}[{}]", path, layer), instance.num_bits(),
                             "one per bitwidth", -1e12, 1e12);
    instance.omega.insert(instance.omega.end(), row.begin(), row.end());
  }
}

void read_types(JsonFields& fields, Instance& instance) {
  const std::string path = fields.path_of("types");
  const Json& types = fields.at("types");
  if (!types.is_array() || types.empty() || types.size() > kMaxTypes) {
    fail(path, fmt::format("an array of 1 to {} device types belongs here", kMaxTypes));
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < types.size(); ++i) {
    JsonFields type(types[i], fmt::format("{}[{}]", path, i));
    DeviceGroup group;
    group.name = type.text("name");
    if (!names.insert(group.name).second) {
      fail(type.path_of("name"), quote(group.name) + " appears twice");
    }
    group.count = static_cast<std::int32_t>(type.integer("count", 1, kMaxCount));
    group.usable_bytes = type.number("mem_gb", 0, kMaxGb) * kGb;
    type.finish();
    instance.groups.push_back(group);
  }
}

// [type][type] seconds per GB, row by row. A type's link to itself may be left out (null, 0 or a
// missing entry) and then takes no time.
std::vector<double> read_links(JsonFields& fields, const Instance& instance) {
  const std::string path = fields.path_of("link_gbs");
  const std::size_t types = instance.groups.size();
  const Json& links = fields.at("link_gbs");
  std::vector<double> seconds_per_gb(types * types, 0);
  // One type with one device has no link at all.
  if (types == 1 && links.is_array() && links.empty()) return seconds_per_gb;
  require_size(links, path, types, "one row per type");
  for (std::size_t from = 0; from < types; ++from) {
    const std::string row_path = fmt::format("{}[{}]", path, from);
    const Json& row = links[from];
    const bool self_left_out = row.is_array() && from + 1 == types && row.size() + 1 == types;
    if (!self_left_out) require_size(row, row_path, types, "one entry per type");
    for (std::size_t to = 0; to < row.size(); ++to) {
      const std::string item = fmt::format("{}[{}]", row_path, to);
      if (from == to && row[to].is_null()) continue;
      if (!row[to].is_number()) fail(item, "a number of GB/s belongs here");
      const double speed = row[to].get<double>();
      if (from == to && speed == 0) continue;
      if (!(speed >= 1e-9 && speed <= 1e12)) {
        fail(item, fmt::format("{} GB/s is outside [1e-9, 1e12]", speed), ErrorCode::out_of_range);
      }
      seconds_per_gb[from * types + to] = 1 / speed;
    }
  }
  return seconds_per_gb;
}

using CostTable = std::vector<PhaseCosts>;

// Fills layer_s of every micro-batch size from lat_pre or lat_dec: {type: [size - 1][bit]}.
void read_latencies(JsonFields& fields, const char* key, const Instance& instance,
                    CostTable& table) {
  JsonFields by_type(fields.at(key), fields.path_of(key));
  for (const DeviceGroup& group : instance.groups) {
    const Json& rows = by_type.at(group.name.c_str());
    const std::string path = by_type.path_of(group.name.c_str());
    require_size(rows, path, static_cast<std::size_t>(instance.batch_size),
                 "one row per micro-batch size: B");
    table.resize(rows.size());
    for (std::size_t size = 0; size < rows.size(); ++size) {
      const auto row = numbers(rows[size], fmt::format("{}[{}]", path, size), instance.num_bits(),
                               "one per bitwidth", 0, kMaxSeconds);
      table[size].layer_s.insert(table[size].layer_s.end(), row.begin(), row.end());
    }
  }
  by_type.finish();
}

struct PhaseKeys {
  const char* latency;
  const char* activation;
  const char* payload;
};

CostTable read_phase(JsonFields& fields, const PhaseKeys& keys, const Instance& instance,
                     const std::vector<double>& seconds_per_gb) {
  CostTable table;
  read_latencies(fields, keys.latency, instance, table);
  const auto activation_gb = numbers(fields.at(keys.activation), fields.path_of(keys.activation),
                                     table.size(), "one per micro-batch size: B", 0, kMaxGb);
  const double payload_gb = fields.number(keys.payload, 0, kMaxGb);
  for (std::size_t i = 0; i < table.size(); ++i) {
    PhaseCosts& costs = table[i];
    costs.first_s.assign(instance.groups.size(), 0);
    costs.last_s.assign(instance.groups.size(), 0);
    for (const double inverse : seconds_per_gb) {
      costs.link_s.push_back(payload_gb * static_cast<double>(i + 1) * inverse);
    }
    for (double& bytes : costs.activation_bytes) bytes = activation_gb[i] * kGb;
  }
  return table;
}

std::function<const PhaseCosts&(std::int64_t)> lookup(CostTable table) {
  return [costs = std::make_shared<const CostTable>(std::move(table))](
             std::int64_t size) -> const PhaseCosts& {
    if (size < 1 || size > static_cast<std::int64_t>(costs->size())) {
      throw Error(ErrorCode::out_of_range,
                  fmt::format("micro-batch size {} is outside [1, {}]", size, costs->size()));
    }
    return (*costs)[static_cast<std::size_t>(size - 1)];
  };
}

void check_link_entries(const Instance& instance, const std::string& path) {
  const auto types = static_cast<std::int64_t>(instance.groups.size());
  if (types * types > kMaxLinkEntries / instance.batch_size) {
    fail(path,
         fmt::format("{} types squared times B = {} are more than {} transfer times; use fewer "
                     "types or a smaller batch",
                     types, instance.batch_size, kMaxLinkEntries),
         ErrorCode::out_of_range);
  }
}

}  // namespace

Instance instance_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  Instance instance;
  instance.name = fields.text("name", "instance");
  for (const char* about : {"model", "omega_kind", "seed"}) fields.ignore(about);
  const auto layers = static_cast<std::size_t>(fields.integer("L", 1, kMaxLayers));
  instance.layer_class.assign(layers, 0);
  instance.batch_size = fields.integer("B", 1, kMaxBatch);
  fields.integer("s", 0, std::int64_t{1} << 40);  // part of the format; the latencies contain it
  instance.output_tokens = fields.number("n", 1, 1e9);
  instance.theta = fields.number("theta", 0, kMaxTheta);
  read_bitwidths(fields, instance);
  read_omega(fields, instance);
  for (const double gb : numbers(fields.at("mem_layer_gb"), fields.path_of("mem_layer_gb"),
                                 instance.num_bits(), "one per bitwidth", 0, kMaxGb)) {
    instance.layer_bytes.push_back(gb * kGb);
  }
  const double embedding_bytes = fields.number("mem_emb_gb", 0, kMaxGb) * kGb;
  for (const StagePlace place : {StagePlace::first, StagePlace::only}) {
    instance.embedding_bytes[index_of(place)] = embedding_bytes;
  }
  read_types(fields, instance);
  check_link_entries(instance, path);
  instance.allowed.assign(instance.groups.size() * instance.num_bits(), 1);
  instance.allow_empty_stage = true;
  const auto links = read_links(fields, instance);
  instance.prefill =
      lookup(read_phase(fields, {"lat_pre", "mem_tmp_pre_gb", "pay_pre_gb"}, instance, links));
  instance.decode =
      lookup(read_phase(fields, {"lat_dec", "mem_tmp_dec_gb", "pay_dec_gb"}, instance, links));
  fields.finish();
  return instance;
}

}  // namespace tessera::solver
