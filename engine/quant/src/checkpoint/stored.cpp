#include "tessera/quant/stored.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "layout.h"
#include "other_codes.h"
#include "stored_config.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/kernels/pack.h"
#include "tessera/kernels/parallel.h"
#include "tessera/weights/tensor.h"

namespace tessera::quant {
namespace {

using weights::DType;
using weights::TensorInfo;

std::string module_of_codes(const std::string& tensor) {
  constexpr std::string_view kPacked = ".weight_packed";
  if (tensor.ends_with(kPacked)) return tensor.substr(0, tensor.size() - kPacked.size());
  return module_of(tensor);
}

/// The tensors of one module, and its codes from them.
class CodesReader {
 public:
  CodesReader(const weights::Weights& weights, const weights::LinearWeight& linear, int num_threads)
      : weights_(weights),
        linear_(linear),
        module_(module_of_codes(linear.tensor->name)),
        config_(stored_config(weights)),
        num_threads_(num_threads > 0 ? num_threads : kernels::hardware_threads()) {
    for (const char* part :
         {".weight_g_idx", ".input_scale", ".input_zero_point", ".weight_global_scale"}) {
      if (weights.find(module_ + part) == nullptr) continue;
      refuse(ErrorCode::unsupported, quote(module_ + part, 100),
             "what it holds is not multiplied; weights in order with one set of scales are");
    }
    const bool packed = linear.tensor->dtype == DType::i32;
    if (packed == config_.int8) {
      refuse(quote(linear.tensor->name, 100), "it is {}, and config.json says {}",
             weights::to_string(linear.tensor->dtype),
             config_.int8 ? "int-quantized" : "pack-quantized");
    }
  }

  StoredCodes read() {
    out_.int8_activations = config_.int8;
    Quantised& q = out_.codes;
    q.rows = linear_.num_rows;
    q.columns = linear_.in_features;
    choose_scheme();
    q.codes.resize(static_cast<std::size_t>(q.rows * q.columns));
    const auto* data =
        reinterpret_cast<const std::uint8_t*>(weights_.bytes(*linear_.tensor).data());
    constexpr std::int64_t kRows = 64;
    kernels::for_slices(num_threads_, q.rows, kRows, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) read_row(data, row);
    });
    read_scales();
    read_zero_points();
    weights_.release(*linear_.tensor);
    return std::move(out_);
  }

 private:
  const TensorInfo& require(const char* part) const {
    if (const TensorInfo* found = weights_.find(module_ + part)) return *found;
    throw Error(ErrorCode::not_found,
                fmt::format("{}: {} has no {}", quote(weights_.path(), 300),
                            quote(linear_.tensor->name, 100), quote(module_ + part, 100)),
                module_ + part);
  }

  [[noreturn]] void contradicts(const TensorInfo& tensor, const std::string& needed) const {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: tensor {} is {} {}; {} needs {}", quote(tensor.file, 300),
                    quote(tensor.name, 100), weights::to_string(tensor.dtype),
                    weights::describe_shape(tensor.shape), weights::describe(linear_), needed),
        tensor.name);
  }

  // The one scheme of the configuration that fits the sizes of the tensors.
  void choose_scheme() {
    const TensorInfo& scale = require(".weight_scale");
    const auto type = weights::real_of(scale.dtype);
    if (!type) contradicts(scale, "scales of F32, F16 or BF16");
    if (!config_.int8) check_weight_shape();
    const bool symmetric = weights_.find(module_ + ".weight_zero_point") == nullptr;
    std::vector<Scheme> fitting;
    for (Scheme scheme : config_.schemes) {
      scheme.scale_type = *type;
      if (scheme.symmetric == symmetric && fits(scheme, scale) &&
          std::none_of(fitting.begin(), fitting.end(),
                       [&](const Scheme& other) { return other.bitwidth == scheme.bitwidth; })) {
        fitting.push_back(scheme);
      }
    }
    if (fitting.size() == 1) {
      out_.codes.scheme = fitting.front();
      return;
    }
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: {} has {} words and scales {}{}, which {} of config.json: {}",
                    quote(linear_.tensor->file, 300), quote(linear_.tensor->name, 100),
                    weights::describe_shape(linear_.tensor->shape),
                    weights::describe_shape(scale.shape), symmetric ? "" : " with zero points",
                    fitting.empty() ? "is none of the schemes" : "may be several schemes",
                    describe(config_.schemes)),
        linear_.tensor->name);
  }

  bool fits(const Scheme& scheme, const TensorInfo& scale) const {
    const std::int64_t columns = linear_.in_features;
    if (!config_.int8 &&
        linear_.tensor->shape[1] * 4 != kernels::packed_row_bytes(columns, scheme.bitwidth)) {
      return false;
    }
    if (scheme.granularity == Granularity::tensor)
      return scale.shape == std::vector<std::int64_t>{1};
    const std::vector<std::int64_t> expected{linear_.stored_rows, num_groups(scheme, columns)};
    return scale.shape == expected;
  }

  void check_weight_shape() const {
    const TensorInfo& shape = require(".weight_shape");
    if (shape.dtype != DType::i64 || shape.shape != std::vector<std::int64_t>{2})
      contradicts(shape, "I64 [2]");
    std::int64_t sizes[2];
    std::memcpy(sizes, weights_.bytes(shape).data(), sizeof sizes);
    if (sizes[0] == linear_.stored_rows && sizes[1] == linear_.in_features) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} says [{}, {}], and {} is [{}, {}]", quote(shape.file, 300),
                            quote(shape.name, 100), sizes[0], sizes[1], weights::describe(linear_),
                            linear_.stored_rows, linear_.in_features),
                shape.name);
  }

  void read_row(const std::uint8_t* data, std::int64_t row) {
    Quantised& q = out_.codes;
    const std::int64_t stored = linear_.stored_row(row);
    std::uint8_t* to = q.codes.data() + row * q.columns;
    if (config_.int8) {  // two's complement: from -128 .. 127 to 0 .. 255
      for (std::int64_t c = 0; c < q.columns; ++c)
        to[c] = static_cast<std::uint8_t>(data[stored * q.columns + c] ^ 0x80u);
      return;
    }
    const int bits = q.scheme.bitwidth;
    kernels::unpack(data + stored * kernels::packed_row_bytes(q.columns, bits), {0, 1}, q.columns,
                    bits, to);
  }

  void read_scales() {
    Quantised& q = out_.codes;
    const TensorInfo& scale = require(".weight_scale");
    std::vector<float> all(static_cast<std::size_t>(scale.num_elements()));
    weights::read_f32(weights_, scale, 0, all);
    const float codes = std::ldexp(1.0F, q.scheme.bitwidth);
    for (const float value : all) {
      if (std::isfinite(value * codes)) continue;
      refuse(quote(scale.name, 100), "a scale is {}; the weights are not finite with it", value);
    }
    q.scales = rows_of(all);
  }

  // Those of the linear's rows, of values [stored_rows, groups] or of one for all.
  template <class T>
  std::vector<T> rows_of(const std::vector<T>& all) const {
    const Quantised& q = out_.codes;
    if (q.scheme.granularity == Granularity::tensor) return all;
    std::vector<T> own;
    for (std::int64_t row = 0; row < q.rows; ++row) {
      const auto from = all.begin() + linear_.stored_row(row) * q.groups();
      own.insert(own.end(), from, from + q.groups());
    }
    return own;
  }

  void read_zero_points() {
    Quantised& q = out_.codes;
    const int bits = q.scheme.bitwidth;
    if (q.scheme.symmetric) {
      q.zero_points.assign(q.scales.size(),
                           static_cast<std::uint8_t>(kernels::symmetric_zero_point(bits)));
      return;
    }
    const TensorInfo& tensor = require(".weight_zero_point");
    const auto* data = reinterpret_cast<const std::uint8_t*>(weights_.bytes(tensor).data());
    if (q.scheme.granularity == Granularity::tensor) {
      if (tensor.dtype != DType::i8 || tensor.num_elements() != 1) contradicts(tensor, "I8 [1]");
      const int zero = static_cast<std::int8_t>(data[0]) + kernels::symmetric_zero_point(bits);
      if (zero < 0 || zero >= 1 << bits) {
        refuse(quote(tensor.name, 100), "{} is no {}-bit zero point",
               zero - kernels::symmetric_zero_point(bits), bits);
      }
      q.zero_points = {static_cast<std::uint8_t>(zero)};
      return;
    }
    q.zero_points = rows_of(unpacked_zero_points(tensor, data));
  }

  // Packed along the rows: words [ceil(stored_rows * bitwidth / 32), groups].
  std::vector<std::uint8_t> unpacked_zero_points(const TensorInfo& tensor,
                                                 const std::uint8_t* data) const {
    const int bits = out_.codes.scheme.bitwidth;
    const std::int64_t rows = linear_.stored_rows, groups = out_.codes.groups();
    const std::int64_t words = ceil_div(rows * bits, 32);
    const std::vector<std::int64_t> expected{words, groups};
    if (tensor.dtype != DType::i32 || tensor.shape != expected)
      contradicts(tensor, "I32 " + weights::describe_shape(expected));
    std::vector<std::uint8_t> all(static_cast<std::size_t>(rows * groups));
    std::vector<std::uint8_t> packed(static_cast<std::size_t>(words * 4)),
        column(static_cast<std::size_t>(rows));
    for (std::int64_t g = 0; g < groups; ++g) {
      for (std::int64_t w = 0; w < words; ++w)
        std::memcpy(packed.data() + 4 * w, data + 4 * (w * groups + g), 4);
      kernels::unpack(packed.data(), {0, 1}, rows, bits, column.data());
      for (std::int64_t r = 0; r < rows; ++r)
        all[static_cast<std::size_t>(r * groups + g)] = column[static_cast<std::size_t>(r)];
    }
    return all;
  }

  const weights::Weights& weights_;
  const weights::LinearWeight& linear_;
  std::string module_;
  StoredConfig config_;
  int num_threads_;
  StoredCodes out_;
};

}  // namespace

StoredCodes read_codes(const weights::Weights& weights, const weights::LinearWeight& linear,
                       int num_threads) {
  if (!linear.codes) {
    refuse(quote(linear.tensor->name, 100), "{} is stored as numbers, not as codes",
           weights::describe(linear));
  }
  const std::string& name = linear.tensor->name;
  if (name.ends_with(".qweight")) return read_word_codes(weights, linear, num_threads);
  if (weights.find(module_of(name) + ".SCB") != nullptr) return read_row_codes(weights, linear);
  return CodesReader(weights, linear, num_threads).read();
}

}  // namespace tessera::quant
