#include "layout.h"

#include <cstring>
#include <span>

#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/kernels/pack.h"
#include "tessera/kernels/types.h"

namespace tessera::quant {
namespace {

using weights::DType;

DType dtype_of(kernels::Real type) {
  if (type == kernels::Real::f16) return DType::f16;
  return type == kernels::Real::bf16 ? DType::bf16 : DType::f32;
}

template <typename T>
void append_values(weights::SafetensorsWriter& writer, const std::string& name,
                   const std::vector<T>& values) {
  writer.append(name, std::as_bytes(std::span(values)));
}

std::vector<std::uint8_t> packed(const std::vector<std::uint8_t>& codes, std::int64_t rows,
                                 std::int64_t columns, int bitwidth) {
  std::vector<std::uint8_t> out(
      static_cast<std::size_t>(rows * kernels::packed_row_bytes(columns, bitwidth)));
  if (kernels::pack(codes.data(), {0, rows}, columns, bitwidth, out.data()) !=
      kernels::Status::ok) {
    throw Error(ErrorCode::internal, "codes could not be packed");
  }
  return out;
}

// Zero points are packed along the rows: [ceil(rows * bitwidth / 32), groups].
std::vector<std::uint32_t> packed_zero_points(const Quantised& q) {
  const std::int64_t groups = q.groups();
  std::vector<std::uint8_t> turned(q.zero_points.size());
  for (std::int64_t r = 0; r < q.rows; ++r) {
    for (std::int64_t g = 0; g < groups; ++g)
      turned[static_cast<std::size_t>(g * q.rows + r)] =
          q.zero_points[static_cast<std::size_t>(r * groups + g)];
  }
  const std::vector<std::uint8_t> bytes = packed(turned, groups, q.rows, q.scheme.bitwidth);
  const std::int64_t words = static_cast<std::int64_t>(bytes.size()) / 4 / groups;
  std::vector<std::uint32_t> out(static_cast<std::size_t>(words * groups));
  for (std::int64_t w = 0; w < words; ++w) {
    for (std::int64_t g = 0; g < groups; ++g)
      std::memcpy(&out[static_cast<std::size_t>(w * groups + g)],
                  bytes.data() + 4 * (g * words + w), 4);
  }
  return out;
}

void append_scales(weights::SafetensorsWriter& writer, const std::string& name,
                   const Quantised& q) {
  if (q.scheme.scale_type == kernels::Real::f32) return append_values(writer, name, q.scales);
  std::vector<std::uint16_t> halves;
  for (const float scale : q.scales) {
    halves.push_back(q.scheme.scale_type == kernels::Real::f16 ? kernels::f32_to_f16(scale)
                                                               : kernels::f32_to_bf16(scale));
  }
  append_values(writer, name, halves);
}

}  // namespace

std::string module_of(const std::string& tensor) {
  constexpr std::string_view kSuffix = ".weight";
  if (!tensor.ends_with(kSuffix)) return tensor;
  return tensor.substr(0, tensor.size() - kSuffix.size());
}

std::vector<weights::TensorSpec> specs_of(const std::string& module, std::int64_t rows,
                                          std::int64_t columns, const Scheme& scheme,
                                          bool as_int8) {
  const bool one = scheme.granularity == Granularity::tensor;
  const std::int64_t groups = num_groups(scheme, columns);
  const std::vector<std::int64_t> scales =
      one ? std::vector<std::int64_t>{1} : std::vector<std::int64_t>{rows, groups};
  std::vector<weights::TensorSpec> specs{
      {module + ".weight_scale", dtype_of(scheme.scale_type), scales}};
  if (as_int8) {
    specs.push_back({module + ".weight", DType::i8, {rows, columns}});
    return specs;
  }
  const std::int64_t words = kernels::packed_row_bytes(columns, scheme.bitwidth) / 4;
  specs.push_back({module + ".weight_packed", DType::i32, {rows, words}});
  specs.push_back({module + ".weight_shape", DType::i64, {2}});
  if (!scheme.symmetric && one) specs.push_back({module + ".weight_zero_point", DType::i8, {1}});
  if (!scheme.symmetric && !one) {
    specs.push_back({module + ".weight_zero_point",
                     DType::i32,
                     {ceil_div(rows * scheme.bitwidth, 32), groups}});
  }
  return specs;
}

void append(weights::SafetensorsWriter& writer, const std::string& module,
            const Quantised& quantised, bool as_int8) {
  const Quantised& q = quantised;
  append_scales(writer, module + ".weight_scale", q);
  if (as_int8) {
    std::vector<std::int8_t> values;
    for (const std::uint8_t code : q.codes) values.push_back(static_cast<std::int8_t>(code - 128));
    return append_values(writer, module + ".weight", values);
  }
  append_values(writer, module + ".weight_packed",
                packed(q.codes, q.rows, q.columns, q.scheme.bitwidth));
  append_values(writer, module + ".weight_shape", std::vector<std::int64_t>{q.rows, q.columns});
  if (!q.scheme.symmetric && q.scheme.granularity == Granularity::tensor) {
    const int offset = 1 << (q.scheme.bitwidth - 1);
    const auto zero_point = static_cast<std::int8_t>(q.zero_points[0] - offset);
    append_values(writer, module + ".weight_zero_point", std::vector<std::int8_t>{zero_point});
  } else if (!q.scheme.symmetric) {
    append_values(writer, module + ".weight_zero_point", packed_zero_points(q));
  }
}

}  // namespace tessera::quant
