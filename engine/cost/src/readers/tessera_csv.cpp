#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "rows.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::cost::readers {
namespace {

constexpr std::size_t kNone = CsvReader::none;

/// Columns of the schema beside those of sizes.
constexpr const char* kText[] = {"device",    "kernel_set",  "dtype",    "op",    "phase",
                                 "latency_s", "source",      "kv_dtype", "model", "bitwidth",
                                 "name",      "num_devices", "note"};

class Reader {
 public:
  explicit Reader(Rows& rows) : rows_(rows), csv_(rows.csv) {
    check_columns();
    for (const SizeField& size : size_fields()) {
      if (csv_.column(size.column) == kNone) continue;
      sizes_.emplace_back(csv_.column(size.column), size);
    }
    latency_ = csv_.require_column("latency_s");
    if (rows.options.device.empty()) csv_.require_column("device");
    if (rows.options.kernel_set.empty()) csv_.require_column("kernel_set");
    default_source_ = csv_.path().substr(csv_.path().rfind('/') + 1);
  }

  void read() {
    while (rows_.next()) {
      const OpQuery query = read_query();
      const std::string_view source = text(source_);
      rows_.add(query, rows_.latency_s(latency_, 1), required(device_, rows_.options.device),
                required(kernel_set_, rows_.options.kernel_set),
                source.empty() ? default_source_ : std::string(source));
    }
  }

 private:
  void check_columns() const {
    std::vector<std::string> known(std::begin(kText), std::end(kText));
    for (const SizeField& size : size_fields()) known.emplace_back(size.column);
    for (const std::string& name : csv_.header()) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      csv_.refuse(fmt::format("unknown column {}{}", quote(name), did_you_mean(name, known)));
    }
  }

  std::string_view text(std::size_t column) const {
    return column == kNone ? std::string_view() : csv_.field(column);
  }

  std::string required(std::size_t column, const std::string& option) const {
    if (!option.empty()) return option;
    if (text(column).empty()) csv_.refuse(csv_.name_of(column) + " is empty");
    return std::string(text(column));
  }

  Op op_of(const OpQuery& query) const {
    const std::string_view word = text(op_);
    if (word.empty()) {
      if (query.n > 0 && query.k > 0) return Op::gemm;
      if (query.num_experts > 0) return Op::experts;
      return query.num_heads > 0 ? Op::attention : Op::layer;
    }
    if (const auto op = named<Op>(word)) return *op;
    const auto known = names_of<Op>();
    csv_.refuse("unknown op " + quote(word) + did_you_mean(word, {known.begin(), known.end()}));
  }

  void set_phase(OpQuery& query) const {
    if (query.op != Op::attention && query.op != Op::layer) return;
    const auto phase = named<Phase>(text(phase_));
    if (!phase) {
      csv_.refuse(fmt::format("phase is {}, prefill or decode is needed", quote(text(phase_))));
    }
    query.phase = *phase;
  }

  OpQuery read_query() {
    OpQuery query;
    for (const auto& [column, size] : sizes_) {
      if (csv_.field(column).empty()) continue;  // a field that the op does not have
      query.*size.member = size.may_be_zero ? csv_.number(column, 0, 1e15) : rows_.size(column);
    }
    query.op = op_of(query);
    set_phase(query);
    query.dtype = text(dtype_);
    query.kv_dtype = text(kv_dtype_);
    query.name = text(name_);
    if (query.op == Op::gemm) set_rows(query);
    const bool phased = query.op == Op::attention || query.op == Op::layer;
    if (phased && query.phase == Phase::decode && text(tokens_).empty()) query.tokens = 1;
    if (query.op == Op::attention && query.num_kv_heads == 0) query.num_kv_heads = query.num_heads;
    if (query.op == Op::layer) {
      query.model = rows_.options.model.empty() ? std::string(text(model_)) : rows_.options.model;
      if (query.model.empty()) {
        csv_.refuse(
            "a layer without a model; add a column model (opt-30b), or read the file with "
            "model = \"opt-30b\"");
      }
      query.bitwidth = text(bitwidth_).empty()
                           ? bitwidth_of_dtype(query.dtype)
                           : static_cast<std::int32_t>(csv_.integer(bitwidth_, 1, 32));
    }
    query.num_devices = static_cast<std::int32_t>(whole(num_devices_, 1, 65536));
    check(query);
    return query;
  }

  // Of a prompt pass every token of every sequence is a row, of a decode pass every sequence.
  static void set_rows(OpQuery& query) {
    if (query.m == 0) query.m = std::max(query.batch_size, 1.0) * query.tokens;
    query.batch_size = query.tokens = query.context_tokens = 0;
  }

  // A table without the column bitwidth says it here alone: 16 would make 4-bit layers FP16 ones.
  std::int32_t bitwidth_of_dtype(const std::string& dtype) const {
    if (dtype.empty()) return 16;
    for (const auto& [word, bits] : {std::pair{"int8", 8}, {"int4", 4}, {"int3", 3}}) {
      if (dtype == word) return bits;
    }
    const std::vector<std::string> known = known_dtypes();
    if (std::find(known.begin(), known.end(), dtype) == known.end()) {
      csv_.refuse(
          fmt::format("no bitwidth is known of dtype {}; add a column bitwidth, or write "
                      "one of int8, int4, int3, {}",
                      quote(dtype), join(known, ", ")));
    }
    return static_cast<std::int32_t>(dtype_traits(dtype).weight_bits);
  }

  std::int64_t whole(std::size_t column, std::int64_t otherwise, std::int64_t largest) const {
    return text(column).empty() ? otherwise : csv_.integer(column, 1, largest);
  }

  void check(const OpQuery& query) const {
    if (rows_.empty_row()) return;
    for (const std::string& field : fields_of(query.op)) {
      const SizeField& size = *find_size(field);
      if (size.may_be_zero || query.*size.member > 0) continue;
      csv_.refuse(fmt::format("no {}, which a sample of {} needs; {}", size.column,
                              name_of(query.op), columns_of(query.op)));
    }
    if (has_dtype(query.op)) check_dtype(query);
  }

  static const char* columns_of(Op op) {
    switch (op) {
      case Op::gemm:
        return "its columns are n and k, and m, or batch and tokens whose product is m";
      case Op::attention:
        return "its columns are batch, tokens, context, num_heads, num_kv_heads and head_dim";
      case Op::experts:
        return "its columns are tokens, hidden_size, inner_size, num_experts and top_k";
      case Op::layer:
        return "its columns are batch, tokens, context and model";
      default:
        return "its column is bytes";
    }
  }

  void check_dtype(const OpQuery& query) const {
    if (query.dtype.empty()) {
      csv_.refuse(fmt::format("no dtype, which a sample of {} needs", name_of(query.op)));
    }
    const std::vector<std::string> known = known_dtypes();
    for (const std::string* dtype : {&query.dtype, &query.kv_dtype}) {
      if (dtype->empty() || std::find(known.begin(), known.end(), *dtype) != known.end()) continue;
      csv_.refuse(fmt::format("unknown dtype {}{}", quote(*dtype), did_you_mean(*dtype, known)));
    }
  }

  Rows& rows_;
  CsvReader& csv_;
  std::vector<std::pair<std::size_t, SizeField>> sizes_;  ///< of the columns that are there
  const std::size_t device_ = csv_.column("device"), kernel_set_ = csv_.column("kernel_set"),
                    dtype_ = csv_.column("dtype"), op_ = csv_.column("op"),
                    phase_ = csv_.column("phase"), tokens_ = csv_.column("tokens"),
                    source_ = csv_.column("source"), kv_dtype_ = csv_.column("kv_dtype"),
                    model_ = csv_.column("model"), bitwidth_ = csv_.column("bitwidth"),
                    name_ = csv_.column("name"), num_devices_ = csv_.column("num_devices");
  std::size_t latency_ = kNone;
  std::string default_source_;
};

}  // namespace

void read_tessera(Rows& rows) { Reader(rows).read(); }

}  // namespace tessera::cost::readers
