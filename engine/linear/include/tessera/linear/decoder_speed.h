#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/record.h"

// How fast the kernels of a decoder are, beside its products with weight matrices, on this machine.
namespace tessera::linear {

/// As kernels::cpu_kernels() calls them.
enum class DecoderKernel { rms_norm, layer_norm, activate, rotate, log_sum_exp, attention };

struct DecoderKernelRequest {
  DecoderKernel kernel = DecoderKernel::rms_norm;
  std::int64_t tokens = 1;      ///< rows; of attention the last ones of each sequence, which attend
  std::int64_t columns = 4096;  ///< of rms_norm, layer_norm, activate, log_sum_exp
  std::int64_t heads = 32, kv_heads = 8, head_dim = 128;  ///< of attention and rotate
  std::int64_t sequences = 1, context_tokens = 4096;      ///< of attention
  std::int32_t kv_bitwidth = 16;                          ///< of attention: 8 or 16
  std::string isa = {};                                   ///< as ProductRequest::isa
  std::int64_t threads = 0;                               ///< 0: all there are
  std::int64_t repeats = 5;
  const std::atomic<bool>* stop = nullptr;  ///< set by Ctrl-C: what is measured by then is returned
};

struct DecoderKernelSpeed {
  std::string isa = {};        ///< of the version that ran
  std::vector<double> call_s;  ///< of each repeat, one call
  std::int64_t bytes = 0;      ///< that a call reads and writes
  double flop = 0;             ///< of attention's products; of what only passes over numbers none
  double nmse = 0;             ///< against the same in double, as ProductSpeed::nmse
};

/// Random numbers, after one time that does not count, whose result is checked; what a call reads
/// lies in many copies that take turns, so that it comes from memory.
/// @throws Error{out_of_range} for a shape of more than kMostWeights numbers,
/// Error{invalid_argument} for heads that do not fit each other, Error{internal} where a result is
/// wrong
DecoderKernelSpeed measure_decoder_kernel(const DecoderKernelRequest& request);

}  // namespace tessera::linear

template <>
inline constexpr auto tessera::kEnumNames<tessera::linear::DecoderKernel> =
    tessera::enum_names<tessera::linear::DecoderKernel>(
        {{tessera::linear::DecoderKernel::rms_norm, "rms_norm"},
         {tessera::linear::DecoderKernel::layer_norm, "layer_norm"},
         {tessera::linear::DecoderKernel::activate, "activate"},
         {tessera::linear::DecoderKernel::rotate, "rotate"},
         {tessera::linear::DecoderKernel::log_sum_exp, "log_sum_exp"},
         {tessera::linear::DecoderKernel::attention, "attention"}});

template <>
struct tessera::Fields<tessera::linear::DecoderKernelRequest> {
  using R = tessera::linear::DecoderKernelRequest;
  static constexpr double kMost = 1 << 24;
  static constexpr auto list = std::tuple{
      field<&R::kernel, NotInFiles>(
          {.name = "kernel",
           .doc = "rms_norm, layer_norm; activate: SiLU times another; rotate: rotary embedding; "
                  "log_sum_exp: of logits; attention: paged",
           .as_option = AsOption::required}),
      field<&R::tokens, NotInFiles>({.name = "tokens",
                                     .doc = "Rows; of attention: of each sequence, that attend",
                                     .min = 1,
                                     .max = 1 << 16,
                                     .as_option = AsOption::defaulted}),
      field<&R::columns, NotInFiles>({.name = "columns",
                                      .doc = "Numbers of a row",
                                      .min = 1,
                                      .max = kMost,
                                      .as_option = AsOption::defaulted}),
      field<&R::heads, NotInFiles>({.name = "heads",
                                    .doc = "Of queries",
                                    .min = 1,
                                    .max = 1024,
                                    .as_option = AsOption::defaulted}),
      field<&R::kv_heads, NotInFiles>({.name = "kv_heads",
                                       .doc = "Of keys and values",
                                       .min = 1,
                                       .max = 1024,
                                       .as_option = AsOption::defaulted}),
      field<&R::head_dim, NotInFiles>({.name = "head_dim",
                                       .doc = "Numbers of a head",
                                       .min = 2,
                                       .max = 576,
                                       .as_option = AsOption::defaulted}),
      field<&R::sequences, NotInFiles>({.name = "sequences",
                                        .doc = "Side by side",
                                        .min = 1,
                                        .max = 1 << 16,
                                        .as_option = AsOption::defaulted}),
      field<&R::context_tokens, NotInFiles>({.name = "context_tokens",
                                             .doc = "Tokens of a sequence in the KV cache",
                                             .min = 1,
                                             .max = kMost,
                                             .as_option = AsOption::defaulted}),
      field<&R::kv_bitwidth, NotInFiles>({.name = "kv_bitwidth",
                                          .doc = "Of the KV cache: 8 or 16",
                                          .unit = "bits",
                                          .min = 8,
                                          .max = 16,
                                          .as_option = AsOption::defaulted}),
      field<&R::isa, NotInFiles>(
          {.name = "isa",
           .doc = "Version, as tessera version --kernels names it; default: the fastest"}),
      field<&R::threads, NotInFiles>({.name = "threads",
                                      .doc = "0: all there are",
                                      .min = 0,
                                      .max = 1024,
                                      .as_option = AsOption::defaulted}),
      field<&R::repeats, NotInFiles>({.name = "repeats",
                                      .doc = "Times that count",
                                      .min = 1,
                                      .max = 1000,
                                      .as_option = AsOption::defaulted})};
};
