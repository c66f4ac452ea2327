#include <fmt/format.h>

#include <algorithm>

#include "rows.h"
#include "tessera/core/text.h"

namespace tessera::cost::readers {
namespace {

constexpr double kMillisecond = 1e-3;
constexpr const char* kKernelSet = "modern";
constexpr std::size_t kNone = CsvReader::none;

/// Where the columns are that every table has. Some tables leave out columns with one value only.
struct Common {
  std::size_t framework, version, device, op_name, kernel, latency;

  explicit Common(const Rows& rows)
      : framework(rows.csv.column("framework")),
        version(rows.csv.column("version")),
        device(rows.csv.column("device")),
        op_name(rows.csv.column("op_name")),
        kernel(rows.csv.column("kernel_source")),
        latency(rows.csv.require_column("latency")) {
    if (device == kNone && rows.options.device.empty()) rows.csv.require_column("device");
  }

  std::string source(const CsvReader& csv) const {
    if (framework != kNone && version != kNone) {
      return fmt::format("aiconfigurator, {} {}", csv.field(framework), csv.field(version));
    }
    // Kernels side by side in one table are not repeats of one measurement.
    if (kernel != kNone) return fmt::format("aiconfigurator, {}", csv.field(kernel));
    return "aiconfigurator";
  }

  void add(Rows& rows, const OpQuery& query) const {
    const CsvReader& csv = rows.csv;
    const std::string_view name = device == kNone ? std::string_view() : csv.field(device);
    rows.add(query, rows.latency_s(latency, kMillisecond), rows.device(name),
             rows.kernel_set(kKernelSet), source(csv));
  }
};

std::string_view text_or(const CsvReader& csv, std::size_t column, std::string_view otherwise) {
  return column == kNone ? otherwise : csv.field(column);
}

double size_or(Rows& rows, std::size_t column, double otherwise) {
  return column == kNone ? otherwise : rows.size(column);
}

void read_gemms(Rows& rows) {
  const CsvReader& csv = rows.csv;
  const Common common(rows);
  const std::size_t dtype = csv.column("gemm_dtype"), m = csv.require_column("m"),
                    n = csv.require_column("n"), k = csv.require_column("k");
  while (rows.next()) {
    OpQuery query;
    query.dtype = text_or(csv, dtype, "bfloat16");
    query.m = rows.size(m);
    query.n = rows.size(n);
    query.k = rows.size(k);
    common.add(rows, query);
  }
}

/// Where the columns of attention are, and which phase a table without names is of.
struct AttentionColumns {
  std::size_t batch, tokens, step, heads, kv_heads, head_dim, window, dtype, kv_dtype;

  explicit AttentionColumns(const CsvReader& csv)
      : batch(csv.require_column("batch_size")),
        tokens(csv.column("isl")),
        step(csv.column("step")),
        heads(csv.require_column("num_heads")),
        kv_heads(csv.require_column("num_key_value_heads")),
        head_dim(csv.column("head_dim")),
        window(csv.column("window_size")),
        dtype(csv.column("attn_dtype")),
        kv_dtype(csv.column("kv_cache_dtype")) {}

  // A step alone is of decoding, where `isl` is always 1; `isl` of prompts, with a step or none.
  std::string_view unnamed(const CsvReader& csv) const {
    if (tokens == kNone && step == kNone) csv.require_column("op_name");
    return tokens == kNone ? "generation_attention" : "context_attention";
  }
};

// Prefill: `isl` new tokens after `step`, which is 0 in all tables so far. Decode: `isl` is 1, and
// the token sees `step` others that are in the cache and itself.
void read_attention(Rows& rows) {
  const CsvReader& csv = rows.csv;
  const Common common(rows);
  const AttentionColumns at(csv);
  const std::string_view unnamed = common.op_name == kNone ? at.unnamed(csv) : std::string_view();
  while (rows.next()) {
    OpQuery query;
    query.op = Op::attention;
    const std::string_view name = text_or(csv, common.op_name, unnamed);
    if (name == "generation_attention") {
      query.phase = Phase::decode;
    } else if (name != "context_attention") {
      rows.skip(fmt::format("op_name {}, for which there is no model", quote(name)));
      continue;
    }
    query.dtype = text_or(csv, at.dtype, "bfloat16");
    const std::string_view kv_dtype = text_or(csv, at.kv_dtype, query.dtype);
    query.kv_dtype = kv_dtype == query.dtype ? "" : kv_dtype;
    query.batch_size = rows.size(at.batch);
    query.tokens = size_or(rows, at.tokens, 1);
    query.context_tokens = at.step == kNone ? 0 : csv.number(at.step, 0, 1e9);
    query.num_heads = rows.size(at.heads);
    query.num_kv_heads = rows.size(at.kv_heads);
    query.head_dim = size_or(rows, at.head_dim, 128);
    // -1 is none, as 0 is.
    if (at.window != kNone) query.window = std::max(0.0, csv.number(at.window, -1, 1e9));
    common.add(rows, query);
  }
}

double bytes_per_element(const CsvReader& csv, std::size_t column) {
  const std::string_view dtype = csv.field(column);
  if (dtype == "half" || dtype == "bfloat16" || dtype == "float16") return 2;
  if (dtype == "int8" || dtype == "fp8") return 1;
  if (dtype == "float" || dtype == "float32") return 4;
  csv.refuse(fmt::format("{} is {}; known: half, bfloat16, float16, int8, fp8, float, float32",
                         csv.name_of(column), quote(dtype)));
}

/// Its own words for collectives; other names are ours.
std::optional<Op> collective_named(std::string_view name) {
  if (name == "alltoall") return Op::all_to_all;
  const auto op = named<Op>(name);
  return op && is_collective(*op) ? op : std::nullopt;
}

// Sizes are numbers of elements: as bytes, eight A100s would reduce at half of what NVLink does. Of
// gathers and scatters they are of the whole buffer: of shares, eight A100s would gather 1.6 TB/s
// over links of 300 GB/s.
// Of vLLM's rows those inside CUDA graphs count, as it serves: outside, launches from the CPU do.
void read_collectives(Rows& rows, std::size_t dtype) {
  const CsvReader& csv = rows.csv;
  const Common common(rows);
  const std::size_t size = csv.require_column("message_size"),
                    num_gpus = csv.require_column("num_gpus"), backend = csv.column("backend");
  while (rows.next()) {
    const std::string_view name = text_or(csv, common.op_name, "all_reduce");
    const std::optional<Op> op = collective_named(name);
    if (!op) {
      rows.skip(fmt::format("op_name {}, for which there is no model", quote(name)));
      continue;
    }
    if (const std::string_view by = text_or(csv, backend, ""); by == "vllm_eager") {
      rows.skip(fmt::format("backend {}, outside CUDA graphs", quote(by)));
      continue;
    }
    OpQuery query;
    query.op = *op;
    if (csv.column("nccl_dtype") != kNone && query.op == Op::all_reduce) query.name = "nccl";
    if (!moves_only(query.op)) query.dtype = text_or(csv, dtype, "bfloat16");
    query.bytes = rows.size(size) * (dtype == kNone ? 2 : bytes_per_element(csv, dtype));
    query.num_devices = static_cast<std::int32_t>(csv.integer(num_gpus, 1, 1024));
    common.add(rows, query);
  }
}

/// "balanced" or "power_law_1.2": the exponent.
double routing_of(const CsvReader& csv, std::size_t column) {
  constexpr std::string_view kPowerLaw = "power_law_";
  const std::string_view word = csv.field(column);
  if (word == "balanced") return 0;
  if (word.substr(0, kPowerLaw.size()) == kPowerLaw) {
    const std::optional<double> exponent = to_number(word.substr(kPowerLaw.size()));
    if (exponent && *exponent > 0 && *exponent <= kSteepestRouting) return *exponent;
  }
  csv.refuse(fmt::format("{} is {}; known: balanced, and power_law_ with an exponent up to {}",
                         csv.name_of(column), quote(word), kSteepestRouting));
}

// `inter_size` is of a whole expert, of which tensor parallelism cuts a part: its weights are read
// at the memory's rate only so. With experts on several devices the time is of one of them.
void read_experts(Rows& rows) {
  const CsvReader& csv = rows.csv;
  const Common common(rows);
  const std::size_t dtype = csv.column("moe_dtype"), tokens = csv.require_column("num_tokens"),
                    hidden = csv.require_column("hidden_size"),
                    inner = csv.require_column("inter_size"), top_k = csv.require_column("topk"),
                    experts = csv.require_column("num_experts"), cut = csv.column("moe_tp_size"),
                    spread = csv.column("moe_ep_size"),
                    routing = csv.require_column("distribution");
  const std::vector<std::string> known = known_dtypes();
  while (rows.next()) {
    OpQuery query;
    query.op = Op::experts;
    query.dtype = text_or(csv, dtype, "bfloat16");
    if (std::find(known.begin(), known.end(), query.dtype) == known.end()) {
      rows.skip(fmt::format("moe_dtype {}, for which there is no model", quote(query.dtype)));
      continue;
    }
    query.tokens = rows.size(tokens);
    query.hidden_size = rows.size(hidden);
    query.inner_size =
        rows.size(inner) / (cut == kNone ? 1 : static_cast<double>(csv.integer(cut, 1, 65536)));
    query.num_experts = rows.size(experts);
    query.top_k = rows.size(top_k);
    query.routing = routing_of(csv, routing);
    query.num_devices =
        spread == kNone ? 1 : static_cast<std::int32_t>(csv.integer(spread, 1, 65536));
    common.add(rows, query);
  }
}

}  // namespace

bool is_aiconfigurator(const CsvReader& csv) {
  if (csv.column("latency") == kNone) return false;
  if (csv.column("framework") != kNone && csv.column("op_name") != kNone) return true;
  const auto has = [&](std::initializer_list<std::string_view> names) {
    return std::all_of(names.begin(), names.end(),
                       [&](std::string_view name) { return csv.column(name) != kNone; });
  };
  return has({"m", "n", "k"}) || has({"num_heads", "num_key_value_heads"}) ||
         has({"message_size", "num_gpus"}) || has({"topk", "num_experts", "distribution"});
}

void read_aiconfigurator(Rows& rows) {
  const CsvReader& csv = rows.csv;
  if (csv.column("message_size") != kNone) {
    const std::size_t nccl = csv.column("nccl_dtype");
    return read_collectives(rows, nccl != kNone ? nccl : csv.column("allreduce_dtype"));
  }
  if (csv.column("num_experts") != kNone) return read_experts(rows);
  if (csv.column("num_heads") != kNone) return read_attention(rows);
  read_gemms(rows);
}

}  // namespace tessera::cost::readers
