#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/core/units.h"

namespace tessera::lm {

/// What training knows after some steps.
struct TrainProgress {
  std::int64_t step = 0;     ///< done, of num_steps
  double loss_nats = 0;      ///< per token, mean of the steps since the last report
  double learning_rate = 0;  ///< of the step just done
  double gradient_norm = 0;  ///< of the step just done, before clipping
  double elapsed_s = 0;      ///< since training began
  double tok_s = 0;          ///< since the last report
};

/// A decoder-only language model of OPT's architecture (Zhang et al. 2022; pre-LayerNorm, ReLU,
/// learned positions, tied embeddings) to be trained.
///
/// Outliers make some channels of what every LayerNorm gives far larger than the rest, as they are
/// in OPT of 6.7 billion parameters and more (Dettmers et al. 2022, LLM.int8(), Sec. 4). They
/// change the parameters after training, and not the function: gain and bias of a channel grow by
/// outlier_scale and the columns of the matrices that read it shrink by it; then the channel's bias
/// grows by a shift, and the biases of those matrices give it back.
struct TrainRequest {
  std::string out;  ///< folder to write, which is not there yet

  /// Folder of a model of the same shape, to go on from; "": from nothing.
  std::string initial;

  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_heads = 0;
  std::int64_t ffn_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_context_tokens = 0;
  std::int32_t bos_token = 2, eos_token = 2, pad_token = 1;  ///< for config.json only

  std::vector<std::int32_t> tokens;           ///< the text, each in [0, vocab_size)
  std::vector<std::int32_t> held_out_tokens;  ///< for the loss after training; may be empty

  std::int64_t seed = 0;
  std::int64_t num_steps = 0;
  std::int64_t batch_size = 0;  ///< windows of max_context_tokens per step
  double peak_learning_rate = 2e-3;
  std::int64_t warmup_steps = 100;
  std::optional<std::int64_t> decay_steps;  ///< absent: all after warm-up
  double final_learning_rate_ratio = 0;
  double weight_decay = 0.05;
  double max_gradient_norm = 1;
  std::int32_t num_threads = 1;
  bool bf16_products = false;

  std::int64_t outlier_channels = 0;
  double outlier_scale = 1;
  double outlier_shift = 0;

  std::int64_t report_every = 50;  ///< steps
  // Both are called from the thread of the caller, and may end training: Error{interrupted}.
  std::function<bool(const TrainProgress&)> progress;  ///< false ends it
  std::function<bool()> interrupted;                   ///< after every step; true ends it
};

struct TrainSummary {
  std::int64_t num_parameters = 0;  ///< tied embeddings counted once
  std::int64_t num_tokens = 0;      ///< trained on, repetitions counted
  double loss_nats = 0;             ///< per token, mean of the last report_every steps
  /// Per token of held_out_tokens, of the weights as written (f16, computed in f32), in windows of
  /// max_context_tokens that share nothing; the first token of a window is not predicted.
  std::optional<double> held_out_loss_nats;
  double elapsed_s = 0;
};

/// Trains by AdamW (Loshchilov and Hutter, 2019) on windows of the text in random order, each once
/// before any comes twice, and writes a folder as Hugging Face's OPTForCausalLM reads it:
/// config.json and model.safetensors in f16. The tokenizer is the caller's to add.
///
/// The same request gives the same bytes on the same processor and libraries; another num_threads
/// sums in another order.
/// @throws Error{invalid_argument, out_of_range} for requests that make no sense, before anything
/// is computed; Error{interrupted}; Error{io}
TrainSummary train_decoder(const TrainRequest& request);

/// The same by the module that has LibTorch, which is loaded at the first call (module.h).
/// @throws also Error{unsupported} where this build has none
TrainSummary train_by_module(const TrainRequest& request);

/// What that module exports.
using TrainEntry = TrainSummary(const TrainRequest&);
inline constexpr const char* kTrainEntry = "tessera_train_decoder";

}  // namespace tessera::lm

namespace tessera {

template <>
struct Fields<lm::TrainRequest> {
  using R = lm::TrainRequest;
  static constexpr double kMany = 1 << 30;
  static constexpr auto list = std::tuple{
      field<&R::out, NotInFiles>({.name = "out",
                                  .doc = "Folder to write, which is not there yet",
                                  .as_option = AsOption::required}),
      field<&R::initial, NotInFiles>(
          {.name = "initial",
           .doc = "Folder of a model of the same shape to go on from. Default: from nothing"}),
      field<&R::num_layers, NotInFiles>({.name = "num_layers",
                                         .doc = "Decoder layers",
                                         .min = 1,
                                         .max = 1000,
                                         .as_option = AsOption::required}),
      field<&R::hidden_size, NotInFiles>({.name = "hidden_size",
                                          .doc = "Width, a multiple of num_heads",
                                          .min = 1,
                                          .max = 1 << 14,
                                          .as_option = AsOption::required}),
      field<&R::num_heads, NotInFiles>({.name = "num_heads",
                                        .doc = "Attention heads",
                                        .min = 1,
                                        .max = 1 << 14,
                                        .as_option = AsOption::required}),
      field<&R::ffn_size, NotInFiles>({.name = "ffn_size",
                                       .doc = "Width of the feed-forward part",
                                       .min = 1,
                                       .max = 1 << 16,
                                       .as_option = AsOption::required}),
      field<&R::vocab_size, NotInFiles>({.name = "vocab_size",
                                         .doc = "Tokens of the tokenizer",
                                         .min = 2,
                                         .max = 1 << 20,
                                         .as_option = AsOption::required}),
      field<&R::max_context_tokens, NotInFiles>(
          {.name = "max_context_tokens",
           .doc = "Context, and length of the windows that it is trained on",
           .unit = "tokens",
           .min = 2,
           .max = 1 << 14,
           .as_option = AsOption::required}),
      field<&R::seed, NotInFiles>({.name = "seed",
                                   .doc = "Of the initial weights, the order and the outliers",
                                   .min = 0,
                                   .max = kMaxExactInteger,
                                   .as_option = AsOption::defaulted}),
      field<&R::num_steps, NotInFiles>({.name = "num_steps",
                                        .doc = "Steps of the optimiser",
                                        .min = 1,
                                        .max = kMany,
                                        .as_option = AsOption::required}),
      field<&R::batch_size, NotInFiles>({.name = "batch_size",
                                         .doc = "Windows per step, a multiple of threads",
                                         .min = 1,
                                         .max = 1 << 16,
                                         .as_option = AsOption::required}),
      field<&R::peak_learning_rate, NotInFiles>({.name = "peak_learning_rate",
                                                 .doc = "Between warm-up and decay",
                                                 .min = 0,
                                                 .max = 10,
                                                 .as_option = AsOption::defaulted}),
      field<&R::warmup_steps, NotInFiles>({.name = "warmup_steps",
                                           .doc = "The first ones: the rate grows linearly",
                                           .min = 0,
                                           .max = kMany,
                                           .as_option = AsOption::defaulted}),
      field<&R::decay_steps, NotInFiles>(
          {.name = "decay_steps",
           .doc = "The last ones: the rate falls by half a cosine. Default: all after warm-up",
           .min = 0,
           .max = kMany}),
      field<&R::final_learning_rate_ratio, NotInFiles>({.name = "final_learning_rate_ratio",
                                                        .doc = "Of the peak, at the end",
                                                        .min = 0,
                                                        .max = 1,
                                                        .as_option = AsOption::defaulted}),
      field<&R::weight_decay, NotInFiles>(
          {.name = "weight_decay",
           .doc = "Of matrices; not of embeddings, biases and LayerNorm",
           .min = 0,
           .max = 10,
           .as_option = AsOption::defaulted}),
      field<&R::max_gradient_norm, NotInFiles>({.name = "max_gradient_norm",
                                                .doc = "What is longer is scaled to it",
                                                .min = 1e-9,
                                                .max = 1e9,
                                                .as_option = AsOption::defaulted}),
      field<&R::num_threads, NotInFiles>(
          {.name = "threads",
           .doc = "Each computes the gradient of its share of the batch",
           .min = 1,
           .max = 1024,
           .as_option = AsOption::defaulted}),
      field<&R::bf16_products, NotInFiles>(
          {.name = "bf16_products",
           .doc = "Whether to multiply in bf16: a third less time on processors with AVX512_BF16 "
                  "or AMX, far more on others",
           .as_option = AsOption::defaulted}),
      field<&R::outlier_channels, NotInFiles>(
          {.name = "outlier_channels",
           .doc = "Outliers behind every LayerNorm, the same channels in all layers",
           .min = 0,
           .max = 1 << 14,
           .as_option = AsOption::defaulted}),
      field<&R::outlier_scale, NotInFiles>(
          {.name = "outlier_scale",
           .doc = "What their gain grows by; a power of two loses no bit",
           .min = 1,
           .max = 1024,
           .as_option = AsOption::defaulted}),
      field<&R::outlier_shift, NotInFiles>(
          {.name = "outlier_shift",
           .doc = "What is added to them in the last layer, with either sign in turn; of L layers "
                  "layer l (from 0) gets (l + 1) / L of it",
           .min = 0,
           .max = 1024,
           .as_option = AsOption::defaulted}),
      field<&R::report_every, NotInFiles>({.name = "report_every",
                                           .doc = "Steps between two calls of progress",
                                           .min = 1,
                                           .max = kMany,
                                           .as_option = AsOption::defaulted})};
};

template <>
struct Fields<lm::TrainProgress> {
  using P = lm::TrainProgress;
  static constexpr auto list = std::tuple{
      field<&P::step, NotInFiles>({.name = "step", .doc = "Done"}),
      field<&P::loss_nats, NotInFiles>(
          {.name = "loss_nats", .doc = "Per token, mean since the last report", .unit = "nats"}),
      field<&P::learning_rate, NotInFiles>({.name = "learning_rate", .doc = "Of this step"}),
      field<&P::gradient_norm, NotInFiles>(
          {.name = "gradient_norm", .doc = "Of this step, before clipping"}),
      field<&P::elapsed_s, NotInFiles>(
          {.name = "elapsed_s", .doc = "Since training began", .unit = "s"}),
      field<&P::tok_s, NotInFiles>(
          {.name = "tok_s", .doc = "Since the last report", .unit = "tok/s"})};
};

template <>
struct Fields<lm::TrainSummary> {
  using S = lm::TrainSummary;
  static constexpr auto list = std::tuple{
      field<&S::num_parameters, NotInFiles>(
          {.name = "num_parameters", .doc = "Tied embeddings counted once"}),
      field<&S::num_tokens, NotInFiles>(
          {.name = "num_tokens", .doc = "Trained on, repetitions counted"}),
      field<&S::loss_nats, NotInFiles>({.name = "loss_nats",
                                        .doc = "Per token, mean of the steps of the last report",
                                        .unit = "nats"}),
      field<&S::held_out_loss_nats, NotInFiles>(
          {.name = "held_out_loss_nats",
           .doc = "Per token of held_out_tokens, of the weights as written; absent without any",
           .unit = "nats"}),
      field<&S::elapsed_s, NotInFiles>({.name = "elapsed_s", .doc = "Time it took", .unit = "s"})};
};

}  // namespace tessera
