// Sources of the layouts: transformers' integrations of FP8, FBGEMM, MXFP4 and bitsandbytes, the
// compressors of compressed-tensors, and ModelOpt's export to Hugging Face.
#include "scaled.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "quantised.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera::weights {
namespace {

// The numbers of E2M1: a sign, two bits of exponent, one of mantissa.
constexpr std::array<float, 16> kE2m1 = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                         -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
constexpr std::string_view kBlocks = "_blocks", kPacked = ".weight_packed", kWeight = ".weight";

std::string module_of(const std::string& name) {
  for (const std::string_view ending : {kPacked, kWeight, kBlocks})
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  return name;
}

const TensorInfo& require_beside(const Weights& weights, const TensorInfo& tensor,
                                 const std::string& name) {
  if (const TensorInfo* found = weights.find(name)) return *found;
  refuse(ErrorCode::not_found, quote(weights.path(), 300), "{} has no {}, which its numbers need",
         quote(tensor.name, 100), quote(name, 100));
}

[[noreturn]] void misshapen(const TensorInfo& scale, const LinearWeight& linear,
                            const std::string& needed) {
  refuse(quote(scale.file, 300), "tensor {} is {} {}; {} needs {}", quote(scale.name, 100),
         to_string(scale.dtype), describe_shape(scale.shape), describe(linear), needed);
}

// [rows, columns] of an FP8 block, by the configuration.
std::array<std::int64_t, 2> block_of(const Weights& weights, const TensorInfo& scale) {
  const Json& config = weights.config();
  const Json quantised = config.is_object() ? config.value("quantization_config", Json()) : Json();
  const auto sizes_in = [&](const Json& object,
                            const char* key) -> std::optional<std::array<std::int64_t, 2>> {
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (!object.is_object() || found == object.end() || found->is_null()) return std::nullopt;
    const auto is_size = [](const Json& size) {
      constexpr std::int64_t kMostInBlock = 1 << 24;
      return size.is_number_integer() && size.get<std::int64_t>() >= 1 &&
             size.get<std::int64_t>() <= kMostInBlock;
    };
    if (!found->is_array() || found->size() != 2 || !std::ranges::all_of(*found, is_size)) {
      refuse(quote(weights.config_path(), 300), "quantization_config: {} is no pair of sizes", key);
    }
    return std::array{(*found)[0].get<std::int64_t>(), (*found)[1].get<std::int64_t>()};
  };
  if (const auto sizes = sizes_in(quantised, "weight_block_size")) return *sizes;
  if (quantised.is_object() && quantised.contains("config_groups")) {
    for (const Json& group : quantised["config_groups"]) {
      if (!group.is_object() || !group.contains("weights")) continue;
      if (const auto sizes = sizes_in(group["weights"], "block_structure")) return *sizes;
    }
  }
  refuse(ErrorCode::not_found, quote(weights.config_path(), 300),
         "{} holds scales of blocks, and quantization_config says no weight_block_size",
         quote(scale.name, 100));
}

/// Values of a matrix and where their scales are: one for `block_rows` x `block_columns` of them.
struct Scales {
  const TensorInfo* tensor;
  std::int64_t block_rows, block_columns;
  double factor = 1;       ///< of all
  bool exponents = false;  ///< stored as powers of two, 127 more than they are
};

float global_scale(const Weights& weights, const TensorInfo& tensor, const LinearWeight& linear) {
  if (tensor.num_elements() != 1) misshapen(tensor, linear, "one number");
  float value = 0;
  read_f32(weights, tensor, 0, {&value, 1});
  if (std::isfinite(value) && value > 0) return value;
  refuse(quote(tensor.file, 300), "tensor {} holds {}, where a scale belongs",
         quote(tensor.name, 100), value);
}

Scales scales_of(const Weights& weights, const LinearWeight& linear) {
  const TensorInfo& tensor = *linear.tensor;
  const std::string module = module_of(tensor.name);
  const std::int64_t rows = linear.stored_rows, columns = linear.in_features;
  if (linear.scaled == Scaled::mxfp4) {
    const bool stacked = tensor.name.ends_with(kBlocks);
    return {&require_beside(weights, tensor, module + (stacked ? "_scales" : ".weight_scale")), 1,
            32, 1, true};
  }
  if (linear.scaled == Scaled::nvfp4) {
    Scales scales{&require_beside(weights, tensor, module + ".weight_scale"), 1, 16};
    if (const TensorInfo* divisor = weights.find(module + ".weight_global_scale"))
      scales.factor = 1 / static_cast<double>(global_scale(weights, *divisor, linear));
    else
      scales.factor = global_scale(
          weights, require_beside(weights, tensor, module + ".weight_scale_2"), linear);
    return scales;
  }
  const TensorInfo* inverse = weights.find(module + ".weight_scale_inv");
  const TensorInfo& scale =
      inverse != nullptr ? *inverse : require_beside(weights, tensor, module + ".weight_scale");
  if (scale.num_elements() == 1) return {&scale, rows, columns};
  const auto is = [&](const std::vector<std::int64_t>& shape) { return scale.shape == shape; };
  if (linear.num_stacked == 1 && (is({rows}) || is({rows, 1}))) return {&scale, 1, columns};
  const auto [block_rows, block_columns] = block_of(weights, scale);
  return {&scale, block_rows, block_columns};
}

// Times the scale of each; a scale is read once for the values of a row that share it.
void multiply(const Weights& weights, const LinearWeight& linear, const Scales& scales,
              std::int64_t first, std::int64_t num_rows, std::span<float> values) {
  const std::int64_t columns = linear.in_features;
  const std::int64_t across = ceil_div(columns, scales.block_columns);
  const std::int64_t down = ceil_div(linear.stored_rows, scales.block_rows);
  const std::int64_t copies = linear.num_stacked;
  const std::int64_t found = scales.tensor->num_elements();
  const bool is_one = found == 1;
  if (!is_one && found != copies * down * across)
    misshapen(*scales.tensor, linear,
              describe_shape(copies == 1 ? std::vector{down, across}
                                         : std::vector{copies, down, across}));
  const std::int64_t copy = linear.offset / (linear.stored_rows * columns);
  std::vector<float> row(static_cast<std::size_t>(is_one ? 1 : across));
  std::int64_t held = -1;
  for (std::int64_t r = 0; r < num_rows; ++r) {
    const std::int64_t block = is_one ? 0 : copy * down + (first + r) / scales.block_rows;
    if (block != held) {
      read_f32(weights, *scales.tensor, block * static_cast<std::int64_t>(row.size()), row);
      for (float& scale : row) {
        if (scales.exponents) scale = std::ldexp(1.0F, static_cast<int>(scale) - 127);
        scale = static_cast<float>(scale * scales.factor);
      }
      held = block;
    }
    float* value = values.data() + r * columns;
    for (std::int64_t c = 0; c < columns; ++c)
      value[c] *= row[is_one ? 0 : static_cast<std::size_t>(c / scales.block_columns)];
  }
}

// Four bits each, the first in the low half of a byte.
void read_e2m1(const Weights& weights, const LinearWeight& linear, const Scales& scales,
               std::int64_t first, std::span<float> values) {
  if (linear.in_features % scales.block_columns != 0) {
    refuse(ErrorCode::unsupported, quote(linear.tensor->name, 100),
           "its {} inputs are no whole blocks of {}", linear.in_features, scales.block_columns);
  }
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(weights.bytes(*linear.tensor).data());
  const std::int64_t from = linear.offset + first * linear.in_features;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const unsigned byte = bytes[(from + static_cast<std::int64_t>(i)) / 2];
    values[i] = kE2m1[i % 2 == 0 ? byte & 15U : byte >> 4U];
  }
}

/// What bitsandbytes writes beside 4 bits (functional.py, QuantState): values by a table, the
/// largest of each block, and where that is in 8 bits, its table, its largest and its mean.
class FourBits {
 public:
  FourBits(const Weights& weights, const LinearWeight& linear)
      : weights_(weights), linear_(linear), tensor_(*linear.tensor) {
    const Json state = state_of();
    block_ = size(state, "blocksize");
    values_ = numbers(beside(".quant_map"), 16);
    largest_ = &beside(".absmax");
    const std::int64_t blocks = ceil_div(linear.stored_rows * linear.in_features, block_);
    if (largest_->num_elements() != blocks)
      misshapen(*largest_, linear, fmt::format("{} numbers, one for {} weights", blocks, block_));
    if (largest_->dtype != DType::u8) return;
    nested_block_ = size(state, "nested_blocksize");
    nested_values_ = numbers(beside(".nested_quant_map"), 256);
    nested_largest_ = &beside(".nested_absmax");
    if (nested_largest_->num_elements() != ceil_div(blocks, nested_block_))
      misshapen(*nested_largest_, linear, "one number for a block of blocks");
    const auto offset = state.find("nested_offset");
    if (offset == state.end() || !offset->is_number()) refuse_state("nested_offset");
    offset_ = offset->get<float>();
  }

  /// Weights [from, from + out.size()) of the matrix.
  void read(std::int64_t from, std::span<float> out) const {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(weights_.bytes(tensor_).data());
    std::int64_t held = -1;
    float scale = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t at = from + static_cast<std::int64_t>(i);
      if (at / block_ != held) scale = scale_of(held = at / block_);
      const unsigned byte = bytes[at / 2];
      out[i] = values_[at % 2 == 0 ? byte >> 4U : byte & 15U] * scale;
    }
  }

 private:
  const TensorInfo& beside(const char* ending) const {
    return require_beside(weights_, tensor_, tensor_.name + ending);
  }

  [[noreturn]] void refuse_state(const std::string& key) const {
    refuse(quote(tensor_.file, 300), "the quant_state of {} says no {}", quote(tensor_.name, 100),
           key);
  }

  std::int64_t size(const Json& state, const char* key) const {
    constexpr std::int64_t kMostInBlock = 1 << 20;
    const auto found = state.find(key);
    if (found != state.end() && found->is_number_integer()) {
      const auto value = found->get<std::int64_t>();
      if (value >= 1 && value <= kMostInBlock) return value;
    }
    refuse_state(fmt::format("{} in [1, {}]", key, kMostInBlock));
  }

  Json state_of() const {
    for (const char* kind : {"nf4", "fp4"}) {
      const TensorInfo* found = weights_.find(tensor_.name + ".quant_state.bitsandbytes__" + kind);
      if (found == nullptr) continue;
      const auto bytes = weights_.bytes(*found);
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      Json state = parse_json(text, quote(found->name, 100));
      if (state.is_object()) return state;
      refuse(quote(found->file, 300), "tensor {} is no object of JSON", quote(found->name, 100));
    }
    require_beside(weights_, tensor_, tensor_.name + ".quant_state.bitsandbytes__nf4");
    return {};
  }

  std::vector<float> numbers(const TensorInfo& tensor, std::int64_t count) const {
    if (tensor.num_elements() != count)
      misshapen(tensor, linear_, fmt::format("{} numbers", count));
    std::vector<float> values(static_cast<std::size_t>(count));
    read_f32(weights_, tensor, 0, values);
    return values;
  }

  float scale_of(std::int64_t block) const {
    float largest = 0;
    read_f32(weights_, *largest_, block, {&largest, 1});
    if (nested_largest_ == nullptr) return largest;
    float nested = 0;
    read_f32(weights_, *nested_largest_, block / nested_block_, {&nested, 1});
    return nested_values_[static_cast<std::size_t>(largest)] * nested + offset_;
  }

  const Weights& weights_;
  const LinearWeight& linear_;
  const TensorInfo& tensor_;
  std::int64_t block_ = 1, nested_block_ = 1;
  std::vector<float> values_, nested_values_;
  const TensorInfo *largest_ = nullptr, *nested_largest_ = nullptr;
  float offset_ = 0;
};

}  // namespace

Scaled scaled_kind(const Weights& weights, const TensorInfo& tensor) {
  const std::string module = module_of(tensor.name);
  const auto has = [&](const char* ending) { return weights.find(module + ending) != nullptr; };
  if (tensor.dtype == DType::f8_e4m3 && (has(".weight_scale") || has(".weight_scale_inv")))
    return Scaled::fp8;
  if (tensor.dtype != DType::u8) return Scaled::no;
  if (tensor.name.ends_with(kBlocks) && has("_scales")) return Scaled::mxfp4;
  if (weights.find(tensor.name + ".absmax") != nullptr) return Scaled::bitsandbytes;
  if (!has(".weight_scale")) return Scaled::no;
  return has(".weight_global_scale") || has(".weight_scale_2") ? Scaled::nvfp4 : Scaled::mxfp4;
}

std::vector<std::int64_t> scaled_shape(const TensorInfo& tensor, Scaled kind, std::int64_t rows,
                                       std::int64_t columns, std::int64_t copies) {
  if (kind == Scaled::bitsandbytes) {
    const bool lies = tensor.shape.size() == 2 && tensor.shape.front() == 1;
    const std::int64_t bytes = ceil_div(rows * columns, 2);
    return lies ? std::vector<std::int64_t>{1, bytes} : std::vector<std::int64_t>{bytes, 1};
  }
  if (tensor.name.ends_with(kBlocks)) return {copies, rows, ceil_div(columns, 32), 16};
  std::vector<std::int64_t> shape = {rows, kind == Scaled::fp8 ? columns : ceil_div(columns, 2)};
  if (copies > 1) shape.insert(shape.begin(), copies);
  return shape;
}

void read_scaled_rows(const Weights& weights, const LinearWeight& linear, std::int64_t first,
                      std::int64_t num_rows, std::span<float> out) {
  if (linear.scaled == Scaled::bitsandbytes)
    return FourBits(weights, linear).read(first * linear.in_features, out);
  const Scales scales = scales_of(weights, linear);
  if (linear.scaled == Scaled::fp8)
    read_f32(weights, *linear.tensor, linear.offset + first * linear.in_features, out);
  else
    read_e2m1(weights, linear, scales, first, out);
  multiply(weights, linear, scales, first, num_rows, out);
}

}  // namespace tessera::weights
