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

/// Columns of the schema; the numeric ones with the member that they set.
struct Numeric {
  const char* column;
  double OpQuery::*member;
  bool may_be_zero = false;
};
constexpr Numeric kNumeric[] = {{"m", &OpQuery::m},
                                {"n", &OpQuery::n},
                                {"k", &OpQuery::k},
                                {"batch", &OpQuery::batch_size},
                                {"tokens", &OpQuery::tokens},
                                {"num_heads", &OpQuery::num_heads},
                                {"num_kv_heads", &OpQuery::num_kv_heads},
                                {"head_dim", &OpQuery::head_dim},
                                {"bytes", &OpQuery::bytes},
                                {"context", &OpQuery::context_tokens, true},
                                {"window", &OpQuery::window, true}};
constexpr const char* kText[] = {"device",    "kernel_set",  "dtype",    "op",    "phase",
                                 "latency_s", "source",      "kv_dtype", "model", "bitwidth",
                                 "name",      "num_devices", "note"};

class Reader {
 public:
  explicit Reader(Rows& rows) : rows_(rows), csv_(rows.csv) {
    check_columns();
    for (const Numeric& numeric : kNumeric) {
      if (csv_.column(numeric.column) == kNone) continue;
      numbers_.emplace_back(csv_.column(numeric.column), numeric);
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
    for (const Numeric& numeric : kNumeric) known.emplace_back(numeric.column);
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
      return query.num_heads > 0 ? Op::attention : Op::layer;
    }
    if (const auto op = op_from_string(word)) return *op;
    csv_.refuse("unknown op " + quote(word) +
                did_you_mean(word, {"gemm", "attention", "layer", "elementwise", "all_reduce",
                                    "send_recv"}));
  }

  void set_phase(OpQuery& query) const {
    if (query.op != Op::attention && query.op != Op::layer) return;
    const auto phase = phase_from_string(text(phase_));
    if (!phase) {
      csv_.refuse(fmt::format("phase is {}, prefill or decode is needed", quote(text(phase_))));
    }
    query.phase = *phase;
  }

  OpQuery read_query() {
    OpQuery query;
    for (const auto& [column, numeric] : numbers_) {
      if (csv_.field(column).empty()) continue;  // a field that the op does not have
      query.*numeric.member =
          numeric.may_be_zero ? csv_.number(column, 0, 1e15) : rows_.size(column);
    }
    query.op = op_of(query);
    set_phase(query);
    query.dtype = text(dtype_);
    query.kv_dtype = text(kv_dtype_);
    query.name = text(name_);
    if (query.op == Op::gemm && query.m == 0) std::swap(query.m, query.tokens);
    if (query.op == Op::attention && query.num_kv_heads == 0) query.num_kv_heads = query.num_heads;
    if (query.op == Op::layer) {
      query.model = rows_.options.model.empty() ? std::string(text(model_)) : rows_.options.model;
      if (query.model.empty()) csv_.refuse("a layer without a model");
      query.bitwidth = static_cast<std::int32_t>(whole(bitwidth_, query.bitwidth, 32));
    }
    query.num_devices = static_cast<std::int32_t>(whole(num_devices_, 1, 65536));
    check(query);
    return query;
  }

  std::int64_t whole(std::size_t column, std::int64_t otherwise, std::int64_t largest) const {
    return text(column).empty() ? otherwise : csv_.integer(column, 1, largest);
  }

  void check(const OpQuery& query) const {
    if (rows_.empty_row()) return;
    for (const std::string& field : fields_of(query.op)) {
      const bool may_be_zero = field == "context_tokens" || field == "window";
      if (may_be_zero || field_value(query, field) > 0) continue;
      csv_.refuse(fmt::format("no {}, which a sample of {} needs",
                              field == "batch_size" ? "batch" : field, to_string(query.op)));
    }
    const bool has_dtype = query.op == Op::gemm || query.op == Op::attention;
    if (has_dtype && query.dtype.empty()) {
      csv_.refuse(fmt::format("no dtype, which a sample of {} needs", to_string(query.op)));
    }
  }

  Rows& rows_;
  CsvReader& csv_;
  std::vector<std::pair<std::size_t, Numeric>> numbers_;  ///< of the columns that are there
  const std::size_t device_ = csv_.column("device"), kernel_set_ = csv_.column("kernel_set"),
                    dtype_ = csv_.column("dtype"), op_ = csv_.column("op"),
                    phase_ = csv_.column("phase"), source_ = csv_.column("source"),
                    kv_dtype_ = csv_.column("kv_dtype"), model_ = csv_.column("model"),
                    bitwidth_ = csv_.column("bitwidth"), name_ = csv_.column("name"),
                    num_devices_ = csv_.column("num_devices");
  std::size_t latency_ = kNone;
  std::string default_source_;
};

}  // namespace

void read_tessera(Rows& rows) { Reader(rows).read(); }

}  // namespace tessera::cost::readers
