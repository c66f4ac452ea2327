// Sources of the layouts: AutoGPTQ's and GPTQModel's TorchQuantLinear.pack, AutoAWQ's
// WQLinear_GEMM, and Linear8bitLt of bitsandbytes.
#include "other_codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/kernels/pack.h"
#include "tessera/kernels/parallel.h"
#include "tessera/weights/tensor.h"

namespace tessera::quant {
namespace {

using weights::DType;
using weights::TensorInfo;

/// The tensors of one module.
class Module {
 public:
  Module(const weights::Weights& weights, const weights::LinearWeight& linear,
         std::string_view ending)
      : weights_(weights),
        linear_(linear),
        name_(linear.tensor->name.substr(0, linear.tensor->name.size() - ending.size())) {}

  const TensorInfo* find(const char* part) const { return weights_.find(name_ + part); }
  const TensorInfo& require(const char* part) const {
    if (const TensorInfo* found = find(part)) return *found;
    refuse(ErrorCode::not_found, quote(weights_.path(), 300), "{} has no {}",
           quote(linear_.tensor->name, 100), quote(name_ + part, 100));
  }
  /// @throws Error{invalid_argument} unless it has the shape and a type of `types`
  void check(const TensorInfo& tensor, std::initializer_list<DType> types,
             const std::vector<std::int64_t>& shape) const {
    if (std::ranges::find(types, tensor.dtype) != types.end() && tensor.shape == shape) return;
    refuse(quote(tensor.file, 300), "tensor {} is {} {}; {} needs {} {}", quote(tensor.name, 100),
           weights::to_string(tensor.dtype), weights::describe_shape(tensor.shape),
           weights::describe(linear_), weights::to_string(*types.begin()),
           weights::describe_shape(shape));
  }
  std::vector<float> numbers(const TensorInfo& tensor) const {
    std::vector<float> all(static_cast<std::size_t>(tensor.num_elements()));
    weights::read_f32(weights_, tensor, 0, all);
    const auto bad = std::ranges::find_if(all, [](float value) { return !std::isfinite(value); });
    if (bad == all.end()) return all;
    refuse(quote(tensor.name, 100), "a scale is {}; the weights are not finite with it", *bad);
  }

 private:
  const weights::Weights& weights_;
  const weights::LinearWeight& linear_;
  std::string name_;
};

const Json& settings_of(const weights::Weights& weights) {
  const Json& config = weights.config();
  const auto found = config.is_object() ? config.find("quantization_config") : config.end();
  if (config.is_object() && found != config.end() && found->is_object()) return *found;
  refuse(ErrorCode::unsupported, quote(weights.config_path(), 300) + ": quantization_config",
         "it is missing, and says how quantised weights are to be read");
}

std::string setting(const Json& settings, const char* key, const std::string& otherwise) {
  const auto found = settings.find(key);
  return found != settings.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

// The words of a tensor, which need not be aligned.
class PackedWords {
 public:
  PackedWords(const weights::Weights& weights, const TensorInfo& tensor)
      : data_(weights.bytes(tensor).data()) {}

  std::uint32_t operator[](std::int64_t index) const {
    std::uint32_t word = 0;
    std::memcpy(&word, data_ + 4 * index, 4);
    return word;
  }

 private:
  const std::byte* data_;
};

/// Code `index` of so many bits, one after the other in words of which `word(i)` is the i-th.
template <class Word>
std::uint8_t code_at(std::int64_t index, int bits, const Word& word) {
  const std::int64_t bit = index * bits;
  const int shift = static_cast<int>(bit % 32);
  std::uint64_t pair = word(bit / 32);
  if (shift + bits > 32) pair |= static_cast<std::uint64_t>(word(bit / 32 + 1)) << 32;
  return static_cast<std::uint8_t>((pair >> shift) & ((1U << bits) - 1));
}

// Where AutoAWQ puts each of eight outputs in a word: 0, 2, 4, 6, 1, 3, 5, 7 in the order of
// places.
constexpr std::int64_t kAwqPlaces[8] = {0, 4, 1, 5, 2, 6, 3, 7};

/// qweight, qzeros, scales and g_idx of a module.
class WordReader {
 public:
  WordReader(const weights::Weights& weights, const weights::LinearWeight& linear, int num_threads)
      : weights_(weights),
        linear_(linear),
        num_threads_(num_threads > 0 ? num_threads : kernels::hardware_threads()),
        module_(weights, linear, ".qweight"),
        settings_(settings_of(weights)),
        awq_(setting(settings_, "quant_method", "gptq") == "awq") {
    const std::string layout = awq_ ? setting(settings_, "version", "gemm")
                                    : setting(settings_, "checkpoint_format", "gptq");
    const bool known = awq_ ? lower(layout) == "gemm" : layout == "gptq" || layout == "gptq_v2";
    if (!known) {
      refuse(ErrorCode::unsupported,
             quote(weights.config_path(), 300) + ": quantization_config." +
                 (awq_ ? "version" : "checkpoint_format"),
             "{} is not read, only {}", quote(layout), awq_ ? "gemm" : "gptq and gptq_v2");
    }
    zero_offset_ = !awq_ && layout == "gptq" ? 1 : 0;
  }

  StoredCodes read() {
    Quantised& q = out_.codes;
    q.rows = linear_.num_rows;
    q.columns = linear_.in_features;
    choose_scheme();
    read_codes();
    read_scales();
    read_zero_points();
    if (const TensorInfo* order = module_.find(".g_idx")) read_groups(*order);
    weights_.release(*linear_.tensor);
    return std::move(out_);
  }

 private:
  // Bits by the words that a row needs, groups by the scales that it has.
  void choose_scheme() {
    const std::int64_t rows = linear_.stored_rows, columns = linear_.in_features;
    const TensorInfo& words = *linear_.tensor;
    Scheme& scheme = out_.codes.scheme;
    scheme.bitwidth = 0;
    for (const int bits : {3, 4, 8}) {
      if (awq_ && bits != 4) continue;
      const auto shape = awq_ ? std::vector{columns, ceil_div(rows * bits, 32)}
                              : std::vector{ceil_div(columns * bits, 32), rows};
      if (words.shape == shape) scheme.bitwidth = bits;
    }
    if (scheme.bitwidth == 0) {
      refuse(ErrorCode::unsupported, quote(words.file, 300),
             "tensor {} has the shape {}, and {} [{}, {}] needs words of {} bits a weight",
             quote(words.name, 100), weights::describe_shape(words.shape),
             weights::describe(linear_), rows, columns, awq_ ? "4" : "3, 4 or 8");
    }
    const TensorInfo& scales = module_.require(".scales");
    groups_ = scales.shape.size() == 2 ? scales.shape.front() : 0;
    module_.check(scales, {DType::f16, DType::bf16, DType::f32}, {groups_, rows});
    scheme.scale_type = *weights::real_of(scales.dtype);
    scheme.granularity = groups_ == 1 ? Granularity::channel : Granularity::group;
    if (groups_ <= 1) return;
    scheme.group_size = group_size();
    if (ceil_div(columns, scheme.group_size) == groups_) return;
    refuse(quote(scales.file, 300), "tensor {} has {} groups, and {} inputs in groups of {} are {}",
           quote(scales.name, 100), groups_, columns, scheme.group_size,
           ceil_div(columns, scheme.group_size));
  }

  std::int64_t group_size() const {
    for (const char* key : {"group_size", "q_group_size"}) {
      const auto found = settings_.find(key);
      constexpr std::int64_t kLargestGroup = 1 << 20;
      if (found == settings_.end() || !found->is_number_integer()) continue;
      if (const auto size = found->get<std::int64_t>(); size >= 1 && size <= kLargestGroup)
        return size;
    }
    refuse(quote(weights_.config_path(), 300) + ": quantization_config.group_size",
           "it is missing or no size, and {} has several groups", quote(linear_.tensor->name, 100));
  }

  // Of codes of all outputs side by side, that of one: of zero points, and of AWQ of weights.
  std::uint8_t across(const PackedWords& words, std::int64_t line, std::int64_t output) const {
    const int bits = out_.codes.scheme.bitwidth;
    const std::int64_t first = line * ceil_div(linear_.stored_rows * bits, 32);
    const std::int64_t place = awq_ ? output / 8 * 8 + kAwqPlaces[output % 8] : output;
    return code_at(place, bits, [&](std::int64_t i) { return words[first + i]; });
  }

  // Some rows at a time: neighbours lie side by side in the file.
  void read_codes() {
    Quantised& q = out_.codes;
    q.codes.resize(static_cast<std::size_t>(q.rows * q.columns));
    const PackedWords words(weights_, *linear_.tensor);
    const int bits = q.scheme.bitwidth;
    constexpr std::int64_t kRows = 64;
    kernels::for_slices(num_threads_, q.rows, kRows, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t c = 0; c < q.columns; ++c) {
        for (std::int64_t row = first; row < last; ++row) {
          const std::int64_t stored = linear_.stored_row(row);
          q.codes[static_cast<std::size_t>(row * q.columns + c)] =
              awq_ ? across(words, c, stored) : code_at(c, bits, [&](std::int64_t i) {
                return words[i * linear_.stored_rows + stored];
              });
        }
      }
    });
  }

  void read_scales() {
    Quantised& q = out_.codes;
    const std::vector<float> all = module_.numbers(module_.require(".scales"));
    for (std::int64_t row = 0; row < q.rows; ++row) {
      for (std::int64_t g = 0; g < groups_; ++g)
        q.scales.push_back(
            all[static_cast<std::size_t>(g * linear_.stored_rows + linear_.stored_row(row))]);
    }
  }

  void read_zero_points() {
    Quantised& q = out_.codes;
    const int bits = q.scheme.bitwidth, most = (1 << bits) - 1;
    const TensorInfo& zeros = module_.require(".qzeros");
    module_.check(zeros, {DType::i32}, {groups_, ceil_div(linear_.stored_rows * bits, 32)});
    const PackedWords words(weights_, zeros);
    for (std::int64_t row = 0; row < q.rows; ++row) {
      for (std::int64_t g = 0; g < groups_; ++g) {
        const int zero = across(words, g, linear_.stored_row(row)) + zero_offset_;
        // What stands for 0 there its writers spell in several ways, which spoil the neighbours.
        if (zero > most) {
          refuse(ErrorCode::unsupported, quote(zeros.name, 100),
                 "the zero point of output {}, group {}, is {}, one more than {} bits hold; take a "
                 "checkpoint of checkpoint_format gptq_v2",
                 linear_.stored_row(row), g, zero, bits);
        }
        q.zero_points.push_back(static_cast<std::uint8_t>(zero));
      }
    }
    const int middle = kernels::symmetric_zero_point(bits);
    q.scheme.symmetric =
        std::ranges::all_of(q.zero_points, [&](int zero) { return zero == middle; });
  }

  void read_groups(const TensorInfo& order) {
    Quantised& q = out_.codes;
    module_.check(order, {DType::i32}, {q.columns});
    const std::int64_t size = groups_ == 1 ? q.columns : q.scheme.group_size;
    const PackedWords words(weights_, order);
    std::vector<std::int32_t> groups;
    bool in_order = true;
    for (std::int64_t c = 0; c < q.columns; ++c) {
      const auto group = static_cast<std::int32_t>(words[c]);
      if (group < 0 || group >= groups_) {
        refuse(quote(order.name, 100), "input {} is of group {}, and there are {}", c, group,
               groups_);
      }
      in_order = in_order && group == c / size;
      groups.push_back(group);
    }
    if (!in_order) q.group_index = std::move(groups);
  }

  const weights::Weights& weights_;
  const weights::LinearWeight& linear_;
  int num_threads_;
  Module module_;
  const Json& settings_;
  bool awq_;
  int zero_offset_ = 0;  ///< GPTQ's first format stores one less
  std::int64_t groups_ = 1;
  StoredCodes out_;
};

}  // namespace

StoredCodes read_word_codes(const weights::Weights& weights, const weights::LinearWeight& linear,
                            int num_threads) {
  return WordReader(weights, linear, num_threads).read();
}

StoredCodes read_row_codes(const weights::Weights& weights, const weights::LinearWeight& linear) {
  const Module module(weights, linear, ".weight");
  const TensorInfo& largest = module.require(".SCB");
  module.check(largest, {DType::f32}, {linear.stored_rows});
  const std::vector<float> all = module.numbers(largest);
  StoredCodes out;
  out.int8_activations = true;
  Quantised& q = out.codes;
  q.rows = linear.num_rows;
  q.columns = linear.in_features;
  q.scheme = {.bitwidth = 8, .granularity = Granularity::channel};
  const auto* data = reinterpret_cast<const std::uint8_t*>(weights.bytes(*linear.tensor).data());
  for (std::int64_t row = 0; row < q.rows; ++row) {
    const std::int64_t stored = linear.stored_row(row);
    for (std::int64_t c = 0; c < q.columns; ++c)
      q.codes.push_back(static_cast<std::uint8_t>(data[stored * q.columns + c] ^ 0x80U));
    q.scales.push_back(all[static_cast<std::size_t>(stored)] / 127);
  }
  q.zero_points.assign(q.scales.size(), 128);
  weights.release(*linear.tensor);
  return out;
}

}  // namespace tessera::quant
