#include <fmt/format.h>

#include "rows.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

// Vidur profiles single operators with Sarathi-Serve's kernels, in FP16, and writes statistics of
// each in its own columns, in milliseconds. Their shapes follow from the model's.
namespace tessera::cost::readers {
namespace {

constexpr double kMillisecond = 1e-3;
constexpr double kFp16Bytes = 2;

/// The model of a row, as one tensor-parallel worker sees it.
struct Shape {
  double hidden = 0, heads = 0, kv_heads = 0, ffn = 0;  ///< heads and ffn of one worker
  bool gated = false;
  double head_dim = 0;
  double query_width() const { return heads * head_dim; }
  double kv_width() const { return kv_heads * head_dim; }
};

class ShapeColumns {
 public:
  explicit ShapeColumns(const CsvReader& csv)
      : hidden_(csv.require_column("n_embd")),
        heads_(csv.column("n_q_head") != CsvReader::none ? csv.column("n_q_head")
                                                         : csv.require_column("n_head")),
        kv_heads_(csv.require_column("n_kv_head")),
        workers_(csv.require_column("num_tensor_parallel_workers")),
        ffn_(csv.column("n_expanded_embd")),
        gated_(csv.column("use_gated_mlp")) {}

  Shape read(Rows& rows) const {
    const CsvReader& csv = rows.csv;
    const auto workers = static_cast<double>(csv.integer(workers_, 1, 1024));
    Shape shape;
    shape.hidden = rows.size(hidden_);
    const double all_heads = rows.size(heads_);
    if (rows.empty_row()) return shape;
    shape.head_dim = shape.hidden / all_heads;
    shape.heads = all_heads / workers;
    shape.kv_heads = rows.size(kv_heads_) / workers;
    if (ffn_ != CsvReader::none) shape.ffn = rows.size(ffn_) / workers;
    if (gated_ != CsvReader::none) shape.gated = flag(csv, gated_);
    return shape;
  }

  static bool flag(const CsvReader& csv, std::size_t column) {
    const std::string text = lower(csv.field(column));
    if (text == "true" || text == "false") return text == "true";
    csv.refuse(fmt::format("{} is {}, True or False is needed", csv.name_of(column),
                           quote(csv.field(column))));
  }

 private:
  std::size_t hidden_, heads_, kv_heads_, workers_, ffn_, gated_;
};

std::string device_of(const Rows& rows) {
  if (!rows.options.device.empty()) return rows.options.device;
  static const std::vector<ShortName> machines = {
      {"a100", "A100-80G"}, {"a40", "A40"}, {"h100", "H100-80G"}};
  if (const auto found = device_in_path(rows.csv.path(), machines)) return found->device;
  refuse(rows.csv.path(),
         "Vidur's tables do not say their device, and no part of the path "
         "is one (a100, a40, h100); give device = \"A100-80G\"");
}

/// Adds the medians of a row, one sample for each operator.
class Medians {
 public:
  Medians(Rows& rows, std::vector<std::string> names)
      : rows_(rows), names_(std::move(names)), device_(device_of(rows)) {
    for (const std::string& name : names_) {
      columns_.push_back(rows.csv.column("time_stats." + name + ".median"));
    }
  }

  /// An operator without a column, or with an empty cell, was not run.
  void add(OpQuery query, const std::string& name) {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const std::size_t column = columns_[i];
      if (names_[i] != name || column == CsvReader::none || rows_.csv.field(column).empty()) {
        continue;
      }
      if (!moves_only(query.op)) query.dtype = "float16";
      if (query.op != Op::all_reduce && query.op != Op::send_recv) query.name = name;
      rows_.add(query, rows_.latency_s(column, kMillisecond), device_, rows_.kernel_set("vllm"),
                "Vidur");
    }
  }

  void add_gemm(const std::string& name, double m, double n, double k) {
    OpQuery query;
    query.op = Op::gemm;
    query.m = m, query.n = n, query.k = k;
    add(query, name);
  }

  /// `width`: FP16 numbers read and written for each of `rows` tokens.
  void add_elementwise(const std::string& name, double rows, double width) {
    OpQuery query;
    query.op = Op::elementwise;
    query.m = rows, query.n = width;  // as many bytes in another shape take another time
    query.bytes = rows * width * kFp16Bytes;
    add(query, name);
  }

 private:
  Rows& rows_;
  std::vector<std::string> names_;
  std::vector<std::size_t> columns_;
  std::string device_;
};

void read_mlp(Rows& rows) {
  for (const char* name : {"n_expanded_embd", "use_gated_mlp"}) rows.csv.require_column(name);
  const ShapeColumns shapes(rows.csv);
  const std::size_t num_tokens = rows.csv.require_column("num_tokens");
  Medians medians(rows,
                  {"emb", "input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj",
                   "post_attention_layernorm", "mlp_up_proj", "mlp_act", "mlp_down_proj", "add"});
  while (rows.next()) {
    const double tokens = rows.size(num_tokens);
    const Shape s = shapes.read(rows);
    if (rows.empty_row()) continue;
    const double up = s.gated ? 2 * s.ffn : s.ffn;
    medians.add_gemm("attn_pre_proj", tokens, s.query_width() + 2 * s.kv_width(), s.hidden);
    medians.add_gemm("attn_post_proj", tokens, s.hidden, s.query_width());
    medians.add_gemm("mlp_up_proj", tokens, up, s.hidden);
    medians.add_gemm("mlp_down_proj", tokens, s.hidden, s.ffn);
    for (const char* copy : {"emb", "input_layernorm", "post_attention_layernorm"}) {
      medians.add_elementwise(copy, tokens, 2 * s.hidden);
    }
    medians.add_elementwise("add", tokens, 3 * s.hidden);
    medians.add_elementwise("attn_rope", tokens, 2 * (s.query_width() + s.kv_width()));
    medians.add_elementwise("mlp_act", tokens, (up + s.ffn));
  }
}

void read_attention(Rows& rows) {
  const CsvReader& csv = rows.csv;
  const ShapeColumns shapes(csv);
  const std::size_t batch = csv.require_column("batch_size"),
                    chunk = csv.require_column("prefill_chunk_size"),
                    cached = csv.require_column("kv_cache_size"),
                    is_prefill = csv.require_column("is_prefill");
  Medians medians(rows, {"attn_input_reshape", "attn_kv_cache_save", "attn_prefill", "attn_decode",
                         "attn_output_reshape"});
  while (rows.next()) {
    const Shape s = shapes.read(rows);
    OpQuery query;
    query.op = Op::attention;
    query.phase = ShapeColumns::flag(csv, is_prefill) ? Phase::prefill : Phase::decode;
    query.batch_size = rows.size(batch);
    query.tokens = query.phase == Phase::prefill ? rows.size(chunk) : 1;
    query.context_tokens = csv.number(cached, 0, 1e9);
    query.num_heads = s.heads, query.num_kv_heads = s.kv_heads, query.head_dim = s.head_dim;
    if (rows.empty_row()) continue;
    medians.add(query, query.phase == Phase::prefill ? "attn_prefill" : "attn_decode");
    const double tokens = query.batch_size * query.tokens;
    medians.add_elementwise("attn_input_reshape", tokens, 2 * s.query_width());
    medians.add_elementwise("attn_output_reshape", tokens, 2 * s.query_width());
    medians.add_elementwise("attn_kv_cache_save", tokens, 4 * s.kv_width());
  }
}

void read_collectives(Rows& rows) {
  const CsvReader& csv = rows.csv;
  const std::size_t size = csv.require_column("size"), workers = csv.require_column("num_workers"),
                    collective = csv.require_column("collective");
  const std::size_t per_node = csv.column("devices_per_node");
  Medians medians(rows, {"all_reduce", "send_recv"});
  while (rows.next()) {
    OpQuery query;
    const std::string name(csv.field(collective));
    const auto op = named<Op>(name);
    if (!op || (*op != Op::all_reduce && *op != Op::send_recv)) {
      rows.skip(fmt::format("collective {}, for which there is no model", quote(name)));
      continue;
    }
    query.op = *op;
    query.bytes = rows.size(size);
    query.num_devices = static_cast<std::int32_t>(csv.integer(workers, 1, 1024));
    // Fewer devices on a node than take part: the transfer leaves the node.
    if (per_node != CsvReader::none && csv.integer(per_node, 1, 1024) < query.num_devices) {
      rows.skip("a transfer between nodes");
      continue;
    }
    medians.add(query, name);
  }
}

}  // namespace

void read_vidur(Rows& rows) {
  if (rows.csv.column("collective") != CsvReader::none) return read_collectives(rows);
  if (rows.csv.column("kv_cache_size") != CsvReader::none) return read_attention(rows);
  read_mlp(rows);
}

}  // namespace tessera::cost::readers
