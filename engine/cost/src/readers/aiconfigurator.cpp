#include <fmt/format.h>

#include "rows.h"
#include "tessera/core/text.h"

namespace tessera::cost::readers {
namespace {

constexpr double kMillisecond = 1e-3;
constexpr const char* kKernelSet = "modern";

/// Where the columns are that every table has.
struct Common {
  std::size_t framework, version, device, op_name, latency;

  explicit Common(const CsvReader& csv)
      : framework(csv.require_column("framework")),
        version(csv.require_column("version")),
        device(csv.require_column("device")),
        op_name(csv.require_column("op_name")),
        latency(csv.require_column("latency")) {}

  void add(Rows& rows, const OpQuery& query) const {
    const CsvReader& csv = rows.csv;
    rows.add(query, rows.latency_s(latency, kMillisecond), rows.device(csv.field(device)),
             rows.kernel_set(kKernelSet),
             fmt::format("aiconfigurator, {} {}", csv.field(framework), csv.field(version)));
  }
};

void read_gemms(Rows& rows) {
  const CsvReader& csv = rows.csv;
  const Common common(csv);
  const std::size_t dtype = csv.require_column("gemm_dtype"), m = csv.require_column("m"),
                    n = csv.require_column("n"), k = csv.require_column("k");
  while (rows.next()) {
    OpQuery query;
    query.dtype = csv.field(dtype);
    query.m = rows.size(m);
    query.n = rows.size(n);
    query.k = rows.size(k);
    common.add(rows, query);
  }
}

// Prefill: `isl` new tokens after `step`, which is 0 in all tables so far. Decode: `isl` is 1, and
// the token sees `step` others that are in the cache and itself.
void read_attention(Rows& rows) {
  const CsvReader& csv = rows.csv;
  const Common common(csv);
  const std::size_t batch = csv.require_column("batch_size"), tokens = csv.require_column("isl"),
                    step = csv.require_column("step"), heads = csv.require_column("num_heads"),
                    kv_heads = csv.require_column("num_key_value_heads"),
                    head_dim = csv.require_column("head_dim"), window = csv.column("window_size"),
                    dtype = csv.require_column("attn_dtype"),
                    kv_dtype = csv.require_column("kv_cache_dtype");
  while (rows.next()) {
    OpQuery query;
    query.op = Op::attention;
    const std::string_view name = csv.field(common.op_name);
    if (name == "generation_attention") {
      query.phase = Phase::decode;
    } else if (name != "context_attention") {
      rows.skip(fmt::format("op_name {}, for which there is no model", quote(name)));
      continue;
    }
    query.dtype = csv.field(dtype);
    query.kv_dtype = csv.field(kv_dtype) == query.dtype ? "" : csv.field(kv_dtype);
    query.batch_size = rows.size(batch);
    query.tokens = rows.size(tokens);
    query.context_tokens = csv.number(step, 0, 1e9);
    query.num_heads = rows.size(heads);
    query.num_kv_heads = rows.size(kv_heads);
    query.head_dim = rows.size(head_dim);
    if (window != CsvReader::none) query.window = csv.number(window, 0, 1e9);
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

// Sizes are numbers of elements: as bytes, eight A100s would reduce at half of what NVLink does.
void read_collectives(Rows& rows, std::size_t dtype) {
  const CsvReader& csv = rows.csv;
  const Common common(csv);
  const std::size_t size = csv.require_column("message_size"),
                    num_gpus = csv.require_column("num_gpus");
  while (rows.next()) {
    const std::string_view name = csv.field(common.op_name);
    if (name != "all_reduce") {
      rows.skip(fmt::format("op_name {}, for which there is no model", quote(name)));
      continue;
    }
    OpQuery query;
    query.op = Op::all_reduce;
    query.dtype = csv.field(dtype);
    query.bytes = rows.size(size) * bytes_per_element(csv, dtype);
    query.num_devices = static_cast<std::int32_t>(csv.integer(num_gpus, 1, 1024));
    common.add(rows, query);
  }
}

}  // namespace

void read_aiconfigurator(Rows& rows) {
  for (const char* dtype : {"nccl_dtype", "allreduce_dtype"}) {
    const std::size_t column = rows.csv.column(dtype);
    if (column != CsvReader::none) return read_collectives(rows, column);
  }
  if (rows.csv.column("attn_dtype") != CsvReader::none) return read_attention(rows);
  read_gemms(rows);
}

}  // namespace tessera::cost::readers
