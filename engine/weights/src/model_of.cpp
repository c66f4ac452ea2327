#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <regex>

#include "gguf_config.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/weights/parts.h"
#include "tessera/weights/weights.h"

namespace tessera::weights {
namespace fs = std::filesystem;
namespace {

// "models/opt-125m/" and "." have names too.
std::string folder_name(const std::string& config_path) {
  std::error_code ignored;
  const fs::path folder = fs::absolute(config_path, ignored).lexically_normal().parent_path();
  return folder.filename().empty() ? fs::path(config_path).stem().string()
                                   : folder.filename().string();
}

// Without what tells parts of a model from each other.
std::string gguf_name(const std::string& path) {
  static const std::regex kPart(R"(-\d{5}-of-\d{5}$)");
  return std::regex_replace(fs::path(path).stem().string(), kPart, "");
}

// A head in the file with other numbers than the embedding's is a head, whatever the configuration
// says of ties: transformers 5 takes it so (pull request 42612).
bool has_other_head(const Weights& weights, const ModelShape& model) {
  const auto head = find_part(weights, model, Part::lm_head);
  const auto embedding = find_part(weights, model, Part::token_embedding);
  if (!head || !embedding) return false;
  const TensorInfo &a = *head->weight, &b = *embedding->weight;
  if (a.dtype != b.dtype || a.shape != b.shape) return true;
  const auto one = weights.bytes(a), other = weights.bytes(b);
  return std::memcmp(one.data(), other.data(), one.size()) != 0;
}

ModelShape described(const Weights& weights) {
  const std::string& path = weights.config_path();
  if (weights.is_gguf()) {
    return model_from_hf_config(config_of_gguf(weights), gguf_name(path), path);
  }
  if (weights.config().is_null()) {
    throw Error(ErrorCode::not_found,
                fmt::format("{}: no config.json beside the weights says what model they are; copy "
                            "it from where they came from",
                            quote(weights.path(), 300)),
                weights.path());
  }
  return model_from_hf_config(weights.config(), folder_name(path), path);
}

}  // namespace

ModelShape model_of(const Weights& weights) {
  ModelShape model = described(weights);
  model.tied_embeddings = model.tied_embeddings && !has_other_head(weights, model);
  return model;
}

ModelShape checkpoint_at(const std::string& path) {
  const auto weights = Weights::open(path);
  ModelShape model = model_of(*weights);
  if (!weights->is_gguf()) return model;
  std::map<DType, double> bytes;
  double all = 0, elements = 0;
  for (const TensorInfo& tensor : weights->tensors()) {
    const bool is_matrix = tensor.name.starts_with("blk.") && tensor.shape.size() > 1;
    if (!is_matrix) continue;
    const auto size = static_cast<double>(tensor.size_bytes);
    bytes[tensor.dtype] += size;
    all += size;
    elements += static_cast<double>(tensor.num_elements());
  }
  if (elements <= 0) return model;
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  model.checkpoint = fs::absolute(weights->config_path()).lexically_normal().string();
  model.checkpoint_format = "gguf " + lower(to_string(most->first));
  model.checkpoint_bits = std::min(16.0, 8 * all / elements);
  return model;
}

}  // namespace tessera::weights
