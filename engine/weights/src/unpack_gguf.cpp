// A GGUF file as a folder of config.json and safetensors.

#include "tessera/weights/unpack_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numbers>
#include <span>
#include <string_view>
#include <vector>

#include "gguf_config.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/kernels/types.h"
#include "tessera/weights/writer.h"

namespace tessera::weights {
namespace {

constexpr std::int64_t kPieceElements = std::int64_t{1} << 20;

// Source: gguf-py/gguf/tensor_mapping.py of llama.cpp.
const std::map<std::string, std::string>& names_of_model() {
  static const std::map<std::string, std::string> all = {
      {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
  return all;
}
const std::map<std::string, std::string>& names_of_layer() {
  static const std::map<std::string, std::string> all = {
      {"attn_norm", "input_layernorm"},    {"ffn_norm", "post_attention_layernorm"},
      {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
      {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"},
      {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
      {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"}};
  return all;
}

[[noreturn]] void fail(const Weights& weights, const std::string& what) {
  throw Error(ErrorCode::unsupported,
              fmt::format("{}: {}; name the model's folder with safetensors instead, or make one "
                          "by scripts/convert_gguf.py",
                          quote(weights.path(), 300), what),
              "model");
}

struct Entry {
  const TensorInfo* tensor;
  std::string name;
  std::int64_t permuted_heads = 0;  ///< whose rows are put back; 0: as they are
};

class Unpacking {
 public:
  explicit Unpacking(const Weights& weights) : weights_(weights) {
    if (!weights.is_gguf()) refuse("model", "{} is no GGUF file", quote(weights.path(), 300));
    shape_ = model_of(weights);  // which checks what follows
    config_ = config_of_gguf(weights);
    static const std::map<std::string, const char*> classes = {{"llama", "LlamaForCausalLM"},
                                                               {"qwen2", "Qwen2ForCausalLM"},
                                                               {"qwen3", "Qwen3ForCausalLM"}};
    const std::string type = config_["model_type"];
    const auto own = classes.find(type);
    if (own == classes.end())
      fail(weights, fmt::format("GGUF files of {} are not unpacked here", quote(type)));
    config_["architectures"] = Json::array({own->second});
    config_.erase("rotary_dim");  // the whole head, as these have it
    for (const char* token : {"bos_token_id", "eos_token_id"}) {
      const auto found = weights.config().find(std::string("tokenizer.ggml.") + token);
      if (found != weights.config().end()) config_[token] = *found;
    }
    is_permuted_ = type == "llama";
    for (const TensorInfo& tensor : weights.tensors()) {
      if (tensor.name == "rope_freqs.weight") {
        add_llama3_scaling(tensor);
      } else {
        entries_.push_back(entry_of(tensor));
      }
    }
  }

  Unpacked write(const std::string& folder) {
    std::vector<TensorSpec> specs;
    for (const Entry& entry : entries_)
      specs.push_back({entry.name, DType::f16, entry.tensor->shape});
    SafetensorsWriter writer(folder + "/model.safetensors", specs,
                             {.metadata = {{"format", "pt"}}});
    Unpacked unpacked;
    for (const Entry& entry : entries_) {
      unpacked.size_bytes += 2 * static_cast<std::uint64_t>(entry.tensor->num_elements());
      copy(entry, writer);
      weights_.release(*entry.tensor);
    }
    writer.finish();
    unpacked.num_tensors = std::ssize(entries_);
    config_["torch_dtype"] = "float16";
    write_file(folder + "/config.json", json_text(config_, 2) + "\n");
    return unpacked;
  }

 private:
  Entry entry_of(const TensorInfo& tensor) const {
    const std::size_t dot = tensor.name.rfind('.');
    const std::string kind = dot == std::string::npos ? "" : tensor.name.substr(dot);
    const std::string stem = tensor.name.substr(0, dot);
    if (kind == ".weight" || kind == ".bias") {
      if (const auto found = names_of_model().find(stem); found != names_of_model().end())
        return {&tensor, found->second + kind};
      if (stem.starts_with("blk.")) {
        std::int64_t layer = -1;
        const auto [end, why] = std::from_chars(stem.data() + 4, stem.data() + stem.size(), layer);
        const std::string rest(end, static_cast<const char*>(stem.data() + stem.size()));
        const auto found = names_of_layer().find(rest.empty() ? rest : rest.substr(1));
        if (why == std::errc() && layer >= 0 && found != names_of_layer().end()) {
          const bool is_query = found->first == "attn_q", is_key = found->first == "attn_k";
          Entry entry{&tensor, fmt::format("model.layers.{}.{}{}", layer, found->second, kind)};
          if (is_permuted_ && (is_query || is_key)) {
            entry.permuted_heads = is_key ? shape_.num_kv_heads : shape_.num_heads;
          }
          return entry;
        }
      }
    }
    fail(weights_, fmt::format("the tensor {} has no place in such a folder", quote(tensor.name)));
  }

  // llama.cpp writes Llama 3's scaling as what frequencies are divided by. Its parameters are those
  // of transformers' modeling_rope_utils.py, _compute_llama3_parameters: the factor is the largest
  // divisor, the context that it was trained for follows from one between that and 1.
  void add_llama3_scaling(const TensorInfo& tensor) {
    constexpr double kLow = 1, kHigh = 4;
    std::vector<float> divisors(static_cast<std::size_t>(tensor.num_elements()));
    read_f32(weights_, tensor, 0, divisors);
    const double factor = divisors.empty() ? 1 : *std::ranges::max_element(divisors);
    const double theta = config_.value("rope_theta", 10000.0);
    const auto wave = [&](std::size_t i) {
      const auto share = static_cast<double>(i) / static_cast<double>(divisors.size());
      return 2 * std::numbers::pi * std::pow(theta, share);
    };
    double original = 8192;
    for (std::size_t i = 0; i < divisors.size(); ++i) {
      if (divisors[i] < 1.001 || divisors[i] > 0.999 * factor) continue;
      const double smooth = (1 / double{divisors[i]} - 1 / factor) / (1 - 1 / factor);
      original = std::round(wave(i) * (kLow + smooth * (kHigh - kLow)));
      break;
    }
    for (std::size_t i = 0; i < divisors.size(); ++i) {
      const double smooth = std::clamp((original / wave(i) - kLow) / (kHigh - kLow), 0.0, 1.0);
      const double expected = 1 / ((1 - smooth) / factor + smooth);
      if (!(std::abs(divisors[i] / expected - 1) < 1e-3))
        fail(weights_, "the scaling of its rotary embedding (rope_freqs) is not Llama 3's");
    }
    config_["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", factor},
        {"low_freq_factor", kLow},
        {"high_freq_factor", kHigh},
        {"original_max_position_embeddings", static_cast<std::int64_t>(original)}};
  }

  // Rows of a head stand as 0, d/2, 1, d/2 + 1, ... there, and in order here.
  std::int64_t stored_row(const Entry& entry, std::int64_t row, std::int64_t rows) const {
    if (entry.permuted_heads == 0) return row;
    const std::int64_t width = rows / entry.permuted_heads, in_head = row % width;
    const std::int64_t half = width / 2;
    return row - in_head + (in_head < half ? 2 * in_head : 2 * (in_head - half) + 1);
  }

  void copy(const Entry& entry, SafetensorsWriter& writer) const {
    const std::int64_t rows = entry.tensor->shape.empty() ? 1 : entry.tensor->shape.front();
    const std::int64_t columns = rows > 0 ? entry.tensor->num_elements() / rows : 0;
    if (entry.permuted_heads > 0 && rows % (2 * entry.permuted_heads) != 0)
      fail(weights_, fmt::format("{} has {} rows, {} heads", quote(entry.tensor->name), rows,
                                 entry.permuted_heads));
    std::vector<float> values(static_cast<std::size_t>(std::min(columns, kPieceElements)));
    std::vector<std::uint16_t> halves(values.size());
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t first = stored_row(entry, row, rows) * columns;
      for (std::int64_t at = 0; at < columns; at += kPieceElements) {
        const auto count = static_cast<std::size_t>(std::min(columns - at, kPieceElements));
        read_f32(weights_, *entry.tensor, first + at, std::span(values).first(count));
        for (std::size_t i = 0; i < count; ++i) halves[i] = kernels::f32_to_f16(values[i]);
        check_range(entry, std::span(values).first(count));
        writer.append(entry.name, std::as_bytes(std::span(halves).first(count)));
      }
    }
  }

  static void check_range(const Entry& entry, std::span<const float> values) {
    constexpr float kMost = 65504;
    const auto beyond =
        std::ranges::find_if(values, [](float x) { return !(std::abs(x) <= kMost); });
    if (beyond == values.end()) return;
    refuse(ErrorCode::out_of_range, "model", "{} holds {:g}, which f16 does not",
           quote(entry.tensor->name), *beyond);
  }

  const Weights& weights_;
  ModelShape shape_;
  Json config_;
  bool is_permuted_ = false;
  std::vector<Entry> entries_;
};

}  // namespace

Unpacked unpack_gguf(const Weights& weights, const std::string& folder) {
  return Unpacking(weights).write(folder);
}

}  // namespace tessera::weights
