#include "tessera/quant/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::quant {
namespace {

constexpr const char* kFormat = "tessera.activation_statistics/1";
constexpr std::int64_t kMaxLayers = 100'000;
const std::vector<std::string> kQuantities = {
    "abs_max", "abs_mean", "hessian", "mean", "token_mean_square", "token_variance", "variance"};

[[noreturn]] void refuse_file(const std::string& path, const std::string& message,
                              ErrorCode code = ErrorCode::invalid_argument) {
  throw Error(code, fmt::format("{}: {}", quote(path, 300), message), path);
}

std::string text_of(const weights::Weights& file, const char* key) {
  const auto it = file.metadata().find(key);
  return it != file.metadata().end() && it->is_string() ? it->get<std::string>() : "";
}

std::int64_t count_of(const weights::Weights& file, const char* key) {
  const std::string text = text_of(file, key);
  const bool digits =
      !text.empty() && text.size() <= 15 &&
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || std::stoll(text) < 1) {
    refuse_file(file.path(),
                fmt::format("the metadata '{}' is {}; a count of at least 1 belongs there", key,
                            text.empty() ? "absent" : quote(text)));
  }
  return std::stoll(text);
}

struct Key {
  std::int64_t layer_index = 0;
  std::string linear;  ///< with or without ".quantity" behind it
};

// "layers.12.q_proj.mean"
std::optional<Key> parse_key(std::string_view name) {
  constexpr std::string_view kPrefix = "layers.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  Key key;
  std::size_t digits = 0;
  while (digits < name.size() && digits < 7 && name[digits] >= '0' && name[digits] <= '9')
    key.layer_index = 10 * key.layer_index + (name[digits++] - '0');
  if (digits == 0 || digits + 1 >= name.size() || name[digits] != '.') return std::nullopt;
  if ((digits > 1 && name[0] == '0') || key.layer_index >= kMaxLayers) return std::nullopt;
  key.linear = name.substr(digits + 1);
  return key;
}

std::string stored_name(std::int64_t layer_index, std::string_view linear) {
  return fmt::format("layers.{}.{}", layer_index, linear);
}

// The prefix of a tensor "layers.3.q_proj.mean", or an error.
std::pair<Key, std::string> split_tensor_name(const std::string& path, const std::string& name) {
  std::optional<Key> key = parse_key(name);
  const std::size_t dot = key ? key->linear.rfind('.') : std::string::npos;
  if (dot == std::string::npos || dot == 0) {
    refuse_file(path,
                fmt::format("tensor {} is not named as 'layers.3.q_proj.mean' is", quote(name)));
  }
  const std::string quantity = key->linear.substr(dot + 1);
  if (std::find(kQuantities.begin(), kQuantities.end(), quantity) == kQuantities.end()) {
    refuse_file(path, fmt::format("tensor {}: unknown statistic {}{}", quote(name), quote(quantity),
                                  did_you_mean(quantity, kQuantities)));
  }
  key->linear.resize(dot);
  return {*key, quantity};
}

class Reader {
 public:
  Reader(const weights::Weights& file, std::string prefix)
      : file_(file), prefix_(std::move(prefix)) {}

  const weights::TensorInfo* find(const char* quantity) const {
    return file_.find(prefix_ + "." + quantity);
  }

  std::int64_t in_features() const { return shape_of("mean", 1)[0]; }

  Eigen::VectorXf vector(const char* quantity, std::int64_t size, float low) const {
    if (const std::int64_t found = shape_of(quantity, 1)[0]; found != size) {
      refuse_file(file_.path(), fmt::format("{}.{} has {} numbers, {} belong there", prefix_,
                                            quantity, found, size));
    }
    Eigen::VectorXf values(size);
    read(quantity, values.data(), size);
    for (std::int64_t i = 0; i < size; ++i) check(quantity, i, values[i], low);
    return values;
  }

  Eigen::MatrixXf hessian(std::int64_t k) const {
    const auto& shape = shape_of("hessian", 2);
    if (shape[0] != k || shape[1] != k) {
      refuse_file(file_.path(), fmt::format("{}.hessian is {}; [{}, {}] belongs there", prefix_,
                                            weights::describe_shape(shape), k, k));
    }
    Eigen::MatrixXf h(k, k);
    read("hessian", h.data(), k * k);
    const float size = h.cwiseAbs().maxCoeff();
    for (std::int64_t j = 0; j < k; ++j) {
      check("hessian", j * k + j, h(j, j), 0);
      for (std::int64_t i = 0; i < j; ++i) {
        check("hessian", j * k + i, h(i, j), -kAny);
        if (std::abs(h(i, j) - h(j, i)) <= 1e-4f * size) continue;
        refuse_file(file_.path(),
                    fmt::format("{}.hessian is not symmetric: [{}, {}] is {}, [{}, {}] is "
                                "{}",
                                prefix_, i, j, h(j, i), j, i, h(i, j)));
      }
    }
    return h;
  }

  static constexpr float kAny = 3.402823466e38f;

 private:
  const std::vector<std::int64_t>& shape_of(const char* quantity, std::size_t dimensions) const {
    const weights::TensorInfo* tensor = find(quantity);
    if (tensor == nullptr) {
      refuse_file(file_.path(), fmt::format("tensor '{}.{}' is missing", prefix_, quantity));
    }
    if (tensor->dtype != weights::DType::f32 || tensor->shape.size() != dimensions ||
        tensor->size_bytes == 0) {
      refuse_file(file_.path(), fmt::format("tensor '{}' is {} {}; F32 with {} {} belongs there",
                                            tensor->name, weights::to_string(tensor->dtype),
                                            weights::describe_shape(tensor->shape), dimensions,
                                            dimensions == 1 ? "dimension" : "dimensions"));
    }
    return tensor->shape;
  }

  void read(const char* quantity, float* out, std::int64_t count) const {
    const weights::TensorInfo* tensor = find(quantity);
    weights::read_f32(file_, *tensor, 0, {out, static_cast<std::size_t>(count)});
    file_.release(*tensor);
  }

  void check(const char* quantity, std::int64_t index, float value, float low) const {
    if (std::isfinite(value) && value >= low) return;
    refuse_file(file_.path(),
                fmt::format("{}.{}[{}] is {}; a finite number{} belongs there", prefix_, quantity,
                            index, value, low == 0 ? " not below 0" : ""));
  }

  const weights::Weights& file_;
  std::string prefix_;
};

}  // namespace

Statistics Statistics::open(const std::string& path) {
  Statistics out;
  out.path_ = path;
  out.file_ = weights::Weights::open(path);
  const weights::Weights& file = *out.file_;
  if (const std::string format = text_of(file, "format"); format != kFormat) {
    refuse_file(path,
                fmt::format("these are no activation statistics: the metadata 'format' is {}, '{}' "
                            "belongs there (tessera man statistics)",
                            format.empty() ? "absent" : quote(format), kFormat),
                format.empty() ? ErrorCode::invalid_argument : ErrorCode::unsupported);
  }
  out.model_ = text_of(file, "model");
  out.source_ = text_of(file, "source");
  out.num_tokens_ = count_of(file, "num_tokens");
  out.num_samples_ = count_of(file, "num_samples");
  for (const weights::TensorInfo& tensor : file.tensors()) {
    const Key key = split_tensor_name(path, tensor.name).first;
    const std::string prefix = stored_name(key.layer_index, key.linear);
    out.stored_as_[prefix] = prefix;
    out.num_layers_ = std::max(out.num_layers_, key.layer_index + 1);
  }
  constexpr std::string_view kAlias = "alias:";
  for (const auto& [name, target] : file.metadata().items()) {
    if (!name.starts_with(kAlias)) continue;
    const std::string alias = name.substr(kAlias.size());
    const std::string stored = target.is_string() ? target.get<std::string>() : "";
    if (!parse_key(alias) || !file.find(stored + ".mean")) {
      refuse_file(path, fmt::format("the metadata {} names {}, which the file does not hold",
                                    quote(name), quote(stored)));
    }
    if (!out.stored_as_.emplace(alias, stored).second) {
      refuse_file(path, fmt::format("{} is stored and an alias as well", quote(alias)));
    }
  }
  return out;
}

std::optional<LinearStatistics> Statistics::find(std::int64_t layer_index, std::string_view linear,
                                                 bool with_hessian) const {
  const auto it = stored_as_.find(stored_name(layer_index, linear));
  if (it == stored_as_.end()) return std::nullopt;
  const Reader reader(*file_, it->second);
  LinearStatistics out;
  out.num_tokens = num_tokens_;
  const std::int64_t k = reader.in_features();
  out.mean = reader.vector("mean", k, -Reader::kAny);
  out.variance = reader.vector("variance", k, 0);
  out.abs_mean = reader.vector("abs_mean", k, 0);
  out.abs_max = reader.vector("abs_max", k, 0);
  out.token_variance = reader.vector("token_variance", 1, 0)[0];
  out.token_mean_square = reader.vector("token_mean_square", 1, 0)[0];
  if (with_hessian && reader.find("hessian") != nullptr) out.hessian = reader.hessian(k);
  return out;
}

}  // namespace tessera::quant
