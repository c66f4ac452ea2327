#pragma once

#include <cstdint>

#include "tessera/core/enum_names.h"
#include "tessera/core/record.h"
#include "tessera/core/units.h"
#include "tessera/kernels/quantise.h"
#include "tessera/kernels/types.h"

namespace tessera::quant {

/// Which weights share a scale: all, those of an output channel (a row), or `group_size` input
/// channels of a row.
enum class Granularity { tensor, channel, group };

enum class Method {
  rtn,         ///< each weight to the nearest code, or stochastically
  gptq,        ///< Frantar et al., ICLR 2023: later columns make up for the error of earlier ones
  awq,         ///< Lin et al., MLSys 2024: input channels scaled before rounding
  smoothquant  ///< Xiao et al., ICML 2023: for int8 weights and activations
};

/// In which order GPTQ takes the columns; named as compressed-tensors does.
enum class ActOrder {
  none,    ///< as they are
  weight,  ///< those with the largest inputs first, groups as they are: any program reads it
  group    ///< the same, and columns grouped in that order: a better fit, but no checkpoint holds
           ///< it, as compressed-tensors took out its weight_g_idx in 0.20 (pull request 840)
};

/// How a weight matrix becomes codes.
struct Scheme {
  int bitwidth = 4;  ///< 3, 4 or 8
  bool symmetric = true;
  Granularity granularity = Granularity::group;
  std::int64_t group_size = 128;  ///< of granularity group; the last group of a row may be shorter
  kernels::Rounding rounding = kernels::Rounding::nearest;
  std::uint64_t seed = 0;                         ///< of stochastic rounding
  ActOrder act_order = ActOrder::none;            ///< of GPTQ
  kernels::Real scale_type = kernels::Real::f32;  ///< what scales are rounded to, upwards

  friend bool operator==(const Scheme&, const Scheme&) = default;
};

}  // namespace tessera::quant

namespace tessera {

template <>
inline constexpr auto kEnumNames<quant::Granularity> =
    enum_names<quant::Granularity>({{quant::Granularity::tensor, "tensor"},
                                    {quant::Granularity::channel, "channel"},
                                    {quant::Granularity::group, "group"}});

template <>
inline constexpr auto kEnumNames<quant::Method> =
    enum_names<quant::Method>({{quant::Method::rtn, "rtn"},
                               {quant::Method::gptq, "gptq"},
                               {quant::Method::awq, "awq"},
                               {quant::Method::smoothquant, "smoothquant"}});

template <>
inline constexpr auto kEnumNames<quant::ActOrder> =
    enum_names<quant::ActOrder>({{quant::ActOrder::none, "none"},
                                 {quant::ActOrder::weight, "weight"},
                                 {quant::ActOrder::group, "group"}});

template <>
inline constexpr auto kEnumNames<kernels::Rounding> = enum_names<kernels::Rounding>(
    {{kernels::Rounding::nearest, "deterministic"}, {kernels::Rounding::stochastic, "stochastic"}});

template <>
inline constexpr auto kEnumNames<kernels::Real> = enum_names<kernels::Real>(
    {{kernels::Real::f32, "f32"}, {kernels::Real::f16, "f16"}, {kernels::Real::bf16, "bf16"}});

template <>
struct Fields<quant::Scheme> {
  using Scheme = quant::Scheme;
  // Bitwidth and scale_type follow from what is quantised, or have options where it is a matrix.
  static constexpr auto list = std::tuple{
      field<&Scheme::symmetric>({.name = "symmetric",
                                 .doc = "Whether 0 lies in the middle of the codes",
                                 .as_option = AsOption::defaulted}),
      field<&Scheme::granularity>(
          {.name = "granularity",
           .doc = "Which weights share a scale: all, an output channel's, or a group of these",
           .as_option = AsOption::defaulted}),
      field<&Scheme::group_size>(
          {.name = "group_size",
           .doc = "Input channels that share a scale, with granularity group",
           .min = 1,
           .max = 1048576,
           .as_option = AsOption::defaulted}),
      field<&Scheme::rounding>(
          {.name = "rounding",
           .doc = "To the nearest code, or up with the probability of the fraction",
           .as_option = AsOption::defaulted}),
      field<&Scheme::seed>({.name = "seed",
                            .doc = "Seed of stochastic rounding",
                            .min = 0,
                            .max = kMaxExactInteger,
                            .as_option = AsOption::defaulted}),
      field<&Scheme::act_order>(
          {.name = "act_order",
           .doc = "Of gptq: columns as they are, those with the largest inputs first, or grouped "
                  "in that order too, which no checkpoint can hold",
           .as_option = AsOption::defaulted})};
};

}  // namespace tessera

namespace tessera::quant {

/// @throws Error{out_of_range, invalid_argument} naming the field, for what no matrix can have
void check(const Scheme& scheme);

/// Scales of a row; 1 for granularities channel and tensor.
std::int64_t num_groups(const Scheme& scheme, std::int64_t columns);

/// As the kernels say it; granularity tensor becomes rows that all have the same scale.
kernels::QuantFormat format_of(const Scheme& scheme);

}  // namespace tessera::quant
