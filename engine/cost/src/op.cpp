#include "tessera/cost/op.h"

#include <fmt/format.h>

#include <cmath>

#include "models/models.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::cost {
namespace {

[[noreturn]] void out_of_range(const OpQuery& query, const std::string& field,
                               const std::string& problem) {
  throw Error(ErrorCode::out_of_range, fmt::format("{}: {}", name_of(query.op), problem), field);
}

void check_experts(const OpQuery& query) {
  dtype_traits(query.dtype);
  if (query.routing > kSteepestRouting) {
    out_of_range(query, "routing",
                 fmt::format("routing is {}, an exponent of 0 to {} is needed", query.routing,
                             kSteepestRouting));
  }
  if (query.top_k > query.num_experts) {
    out_of_range(
        query, "top_k",
        fmt::format("top_k {} is more than num_experts {}", query.top_k, query.num_experts));
  }
  if (query.num_devices > query.num_experts) {
    out_of_range(query, "num_devices",
                 fmt::format("num_devices {} is more than num_experts {}: a device would hold none",
                             query.num_devices, query.num_experts));
  }
}

}  // namespace

const std::vector<SizeField>& size_fields() {
  static const std::vector<SizeField> fields = {
      {"m", &OpQuery::m, "m"},
      {"n", &OpQuery::n, "n"},
      {"k", &OpQuery::k, "k"},
      {"batch_size", &OpQuery::batch_size, "batch"},
      {"tokens", &OpQuery::tokens, "tokens"},
      {"context_tokens", &OpQuery::context_tokens, "context", true},
      {"num_heads", &OpQuery::num_heads, "num_heads"},
      {"num_kv_heads", &OpQuery::num_kv_heads, "num_kv_heads"},
      {"head_dim", &OpQuery::head_dim, "head_dim"},
      {"window", &OpQuery::window, "window", true},
      {"hidden_size", &OpQuery::hidden_size, "hidden_size"},
      {"inner_size", &OpQuery::inner_size, "inner_size"},
      {"num_experts", &OpQuery::num_experts, "num_experts"},
      {"top_k", &OpQuery::top_k, "top_k"},
      {"routing", &OpQuery::routing, "routing", true},
      {"bytes", &OpQuery::bytes, "bytes"}};
  return fields;
}

const SizeField* find_size(std::string_view name) {
  for (const SizeField& field : size_fields()) {
    if (name == field.name) return &field;
  }
  return nullptr;
}

const std::vector<std::string>& fields_of(Op op) {
  static const std::vector<std::string> gemm = {"m", "n", "k"};
  static const std::vector<std::string> attention = {
      "batch_size", "tokens", "context_tokens", "num_heads", "num_kv_heads", "head_dim", "window"};
  static const std::vector<std::string> experts = {"tokens",      "hidden_size", "inner_size",
                                                   "num_experts", "top_k",       "routing"};
  static const std::vector<std::string> layer = {"batch_size", "tokens", "context_tokens"};
  static const std::vector<std::string> bytes = {"bytes"};
  if (op == Op::gemm) return gemm;
  if (op == Op::attention) return attention;
  if (op == Op::experts) return experts;
  return op == Op::layer ? layer : bytes;
}

double field_value(const OpQuery& query, std::string_view name) {
  if (name == "bitwidth") return query.bitwidth;
  if (name == "layer_parameters") {
    return query.layer == nullptr ? 0 : static_cast<double>(query.layer->linear_parameters());
  }
  if (name == "num_devices") return query.num_devices;
  if (const SizeField* field = find_size(name)) return query.*field->member;
  std::vector<std::string> known = fields_of(query.op);
  known.emplace_back("bitwidth");
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} is not a numeric field of a {} sample{}", quote(name),
                          name_of(query.op), did_you_mean(name, known)),
              std::string(name));
}

bool is_collective(Op op) {
  return op == Op::all_reduce || op == Op::all_gather || op == Op::reduce_scatter ||
         op == Op::all_to_all;
}

bool moves_only(Op op) {
  return op == Op::all_gather || op == Op::all_to_all || op == Op::reduce_scatter ||
         op == Op::send_recv;
}

bool has_dtype(Op op) { return op == Op::gemm || op == Op::attention || op == Op::experts; }

std::string describe(const OpQuery& query) {
  std::string text(name_of(query.op));
  if (!query.name.empty()) text += " " + query.name;
  if (!query.dtype.empty()) text += " " + query.dtype;
  if (query.op == Op::layer) text += fmt::format(" {} {} bit", query.model, query.bitwidth);
  if (query.op == Op::attention || query.op == Op::layer) {
    text += fmt::format(" {}", name_of(query.phase));
  }
  for (const std::string& field : fields_of(query.op)) {
    text += fmt::format("{}{} {}", field == fields_of(query.op).front() ? " " : ", ", field,
                        field_value(query, field));
  }
  return text;
}

void check_query(const OpQuery& query) {
  for (const std::string& name : fields_of(query.op)) {
    const double value = field_value(query, name);
    const bool zero_fits = find_size(name)->may_be_zero;
    if (std::isfinite(value) && (value > 0 || (zero_fits && value == 0))) continue;
    out_of_range(query, name,
                 fmt::format("{} is {}, {} is needed", name, value,
                             zero_fits ? "at least 0" : "a positive number"));
  }
  if (query.op == Op::layer && query.layer == nullptr) {
    out_of_range(query, "model", "no model, so the layer has no shape; give model = \"opt-30b\"");
  }
  if (query.op == Op::attention && query.num_kv_heads > query.num_heads) {
    out_of_range(query, "num_kv_heads",
                 fmt::format("num_kv_heads {} is more than num_heads {}", query.num_kv_heads,
                             query.num_heads));
  }
  if (query.op == Op::experts) check_experts(query);
}

const std::vector<const FitMethod*>& fit_methods(Op op) {
  static const std::vector<const FitMethod*> gemm = models::gemm_methods();
  static const std::vector<const FitMethod*> attention = models::attention_methods();
  static const std::vector<const FitMethod*> experts = models::expert_methods();
  static const std::vector<const FitMethod*> layer = models::layer_methods();
  static const std::vector<const FitMethod*> sums = models::all_reduce_methods();
  static const std::vector<const FitMethod*> transfers = models::transfer_methods();
  static const std::vector<const FitMethod*> bytes = models::byte_methods();
  if (op == Op::gemm) return gemm;
  if (op == Op::attention) return attention;
  if (op == Op::experts) return experts;
  if (op == Op::layer) return layer;
  if (op == Op::all_reduce) return sums;
  return moves_only(op) ? transfers : bytes;
}

const FitMethod& find_fit_method(Op op, std::string_view name) {
  std::vector<std::string> known;
  for (const FitMethod* method : fit_methods(op)) {
    if (method->name == name) return *method;
    known.push_back(method->name);
  }
  throw Error(
      ErrorCode::not_found,
      fmt::format("no method {} for {}{}", quote(name), name_of(op), did_you_mean(name, known)),
      "method");
}

}  // namespace tessera::cost
