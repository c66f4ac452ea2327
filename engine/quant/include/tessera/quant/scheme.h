#pragma once

#include <cstdint>
#include <string_view>

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

std::string_view to_string(Granularity granularity);
std::string_view to_string(Method method);
std::string_view to_string(ActOrder order);

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
};

/// @throws Error{out_of_range, invalid_argument} naming the field, for what no matrix can have
void check(const Scheme& scheme);

/// Scales of a row; 1 for granularities channel and tensor.
std::int64_t num_groups(const Scheme& scheme, std::int64_t columns);

/// As the kernels say it; granularity tensor becomes rows that all have the same scale.
kernels::QuantFormat format_of(const Scheme& scheme);

}  // namespace tessera::quant
