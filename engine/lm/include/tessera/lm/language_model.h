#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/model_shape.h"
#include "tessera/linear/linear.h"
#include "tessera/lm/heads_elsewhere.h"
#include "tessera/lm/reducer.h"

// Decoder models that run, behind an interface that knows no LibTorch: the program and its scripts
// see only this; what is behind it is loaded on first use (module.h).
namespace tessera::lm {

/// How the matrices of one decoder layer are kept and multiplied. The model's `dtype` counts.
using LayerForm = linear::LinearForm;

class LanguageModel;

struct LoadRequest {
  std::string path = {};                     ///< folder with config.json, or a GGUF file
  kernels::Real dtype = kernels::Real::f32;  ///< of what is kept in 16 "bits"; sums are f32
  std::vector<LayerForm> layers = {};        ///< [num_layers]; empty: GGUF blocks and checkpoints
                                             ///< as they are stored, else dtype
  std::int32_t kv_bitwidth = 16;             ///< of new caches; 16: dtype, 8: int8 per head
  // A part of the model, a stage of a pipeline: nothing else is read, kept or cached.
  std::int64_t first_layer = 0;
  std::int64_t last_layer = -1;  ///< the first one behind the part; -1: num_layers
  bool with_embedding = true;    ///< tokens to hidden states
  bool with_head = true;         ///< hidden states to logits
  // A part of every layer, a tensor-parallel rank: its share of the heads, KV heads and columns of
  // the networks, by rows of q, k, v, gate and up and columns of o and down, whose outputs
  // `reducer` adds up. All else is whole: every rank has all hidden states, and no vocabulary is
  // cut, so one rank that samples is enough to have the head. The cache has the rank's KV heads.
  // One thread steps, and all ranks run the same layers of the same batches in the same order.
  std::int32_t rank = 0;
  std::int32_t ranks = 1;                      ///< divide heads, KV heads and columns
  std::shared_ptr<Reducer> reducer = nullptr;  ///< of this rank; to load and measure none is needed
  // Attention to the last of every layer's KV heads, this ratio of them, and their cache are with
  // somebody else, `elsewhere`, as an AttentionHeads of the same request has them. One thread
  // steps; not beside several ranks.
  double attention_elsewhere = 0;  ///< [0, 1]; whole heads (kv_heads_elsewhere)
  std::shared_ptr<HeadsElsewhere> elsewhere = nullptr;  ///< to load and measure none is needed
  std::string statistics = {};  ///< calibration file for gptq and awq; "" for none
  /// A model of the same path, dtype, statistics, device and rank: layers that it has in the form
  /// asked for, its embedding and its head are shared with it, and not read again.
  std::shared_ptr<const LanguageModel> held = nullptr;
  /// "cpu": our kernels; "torch": LibTorch's operators on the CPU, slow and independent of them;
  /// "cuda", "cuda:1": LibTorch on a GPU, codes multiplied by our CUDA kernels where they take them
  /// (tessera/torch/torch_backend.h).
  std::string device = "cpu";
  int num_threads = 0;  ///< 0: all the machine has
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};  ///< layers read
};

inline constexpr std::int64_t kBlockTokens = 16;  ///< of a block of a cache, as a rule

/// Keys and values of all layers in blocks of `block_size` tokens. Which block holds what is the
/// caller's business: a sequence's block table names its blocks in the order of its tokens.
class KvCache {
 public:
  virtual ~KvCache() = default;
  virtual std::int64_t num_blocks() const = 0;
  virtual std::int64_t block_size() const = 0;
  virtual std::int64_t bytes() const = 0;

  /// Has the system hand out all of its memory, or what it can until it is told to stop, so that no
  /// step waits for that: blocks that nobody has touched cost the step that first does up to half
  /// of its time. What is in the blocks stays, and steps may run meanwhile.
  virtual void touch(const std::stop_token& /*stop*/ = {}) {}

  // Blocks as data, for swapping, copying on a write and handing a sequence to another process. In
  // memory of the program: layers [first, last), in each the blocks in the order of their names, of
  // each its keys, values and scales. Caches of the same model, kv_bitwidth and rank read each
  // other's, whichever layers they have beside these.
  /// Of one block. @throws Error{out_of_range} for layers that the cache does not have
  virtual std::int64_t block_bytes(std::int64_t first, std::int64_t last) const = 0;
  /// @throws Error{out_of_range} for blocks, layers or a size that do not fit; nothing is written
  virtual void read(std::span<const std::int32_t> blocks, std::int64_t first, std::int64_t last,
                    std::span<std::byte> out) const = 0;
  virtual void write(std::span<const std::int32_t> blocks, std::int64_t first, std::int64_t last,
                     std::span<const std::byte> in) = 0;
  /// All layers of a block. @throws as read
  virtual void copy(std::int32_t from, std::int32_t to) = 0;
};

/// One sequence's part of a step: some of its tokens, whose predecessors are in the cache already.
/// A prompt in one piece, a chunk of one, and a token of decoding are the same thing.
struct SequenceStep {
  std::span<const std::int32_t> tokens;       ///< >= 1
  std::int64_t context_tokens = 0;            ///< in the cache before them
  std::span<const std::int32_t> block_table;  ///< blocks for context_tokens + tokens.size()
  std::int64_t num_logits = 1;                ///< rows of logits wanted, of the last tokens
};

/// Text to tokens and back. May be used from several threads.
class Tokens {
 public:
  virtual ~Tokens() = default;
  /// `special`: with what the tokenizer puts around a text (a first token, ...)
  virtual std::vector<std::int32_t> encode(std::string_view text, bool special = true) const = 0;
  virtual std::string decode(std::span<const std::int32_t> ids,
                             bool skip_special = false) const = 0;
  virtual std::int64_t vocab_size() const = 0;
  virtual std::optional<std::int32_t> bos_token_id() const = 0;
  virtual std::vector<std::int32_t> stop_token_ids() const = 0;  ///< end a text
  virtual std::string token(std::int32_t id) const = 0;          ///< as its file spells it
};

/// Memory of a model's device beside its matrices: norms, biases, tables, caches, and what steps
/// need while they run.
struct MemoryUse {
  std::int64_t now_bytes = 0;
  std::int64_t peak_bytes = 0;  ///< since it was loaded
};

/// A model in memory. Its parts do not change; several threads may step it, each with its cache.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  virtual const ModelShape& shape() const = 0;
  virtual const LoadRequest& request() const = 0;
  /// Read at the first call. @throws Error{not_found, unsupported, invalid_argument}
  virtual const Tokens& tokens() const = 0;
  virtual std::int64_t weight_bytes() const = 0;  ///< of the part that was loaded
  /// Also of its copies with another layer, with which it shares the device.
  virtual MemoryUse memory_use() const = 0;
  /// Of a layer: "4-bit rtn, group 128".
  virtual std::string describe_layer(std::int64_t layer_index) const = 0;
  virtual int num_threads() const = 0;

  /// Of keys and values of a token, over all layers of the model, as its caches keep them.
  double kv_bytes_per_token() const {
    const double bits = request().kv_bitwidth == 8              ? 8
                        : request().dtype == kernels::Real::f32 ? 32
                                                                : 16;
    return shape().kv_bytes_per_token(bits);
  }
  /// Of a block of a cache: keys and values of its tokens, and what layers that keep a state have
  /// of after the last of them, in f32.
  double block_bytes(std::int64_t block_size) const {
    std::int64_t numbers = 0;
    for (std::int64_t i = 0; i < shape().num_layers; ++i) {
      const auto& state = shape().layer(i).state;
      if (state) numbers += state->recurrent_values + state->convolution_values;
    }
    return kv_bytes_per_token() * static_cast<double>(block_size) +
           4 * static_cast<double>(numbers);
  }

  virtual std::unique_ptr<KvCache> make_cache(std::int64_t num_blocks,
                                              std::int64_t block_size = kBlockTokens) const = 0;

  /// Runs the tokens of a ragged batch; `logits` gets [sum of num_logits][vocab_size] in the
  /// order of the batch, f32. What a sequence gets does not depend on the others or on how its
  /// prompt was cut (LayerForm::int8 aside).
  /// @throws Error{out_of_range} for a token, block or length beyond the model's or the cache's
  virtual void step(std::span<const SequenceStep> batch, KvCache& cache,
                    std::span<float> logits) const = 0;

  // The same in three parts, for pipelines and for replacing one layer: hidden states are
  // [tokens of the batch][hidden_size] f32, in the order of the batch. What is not in the part of
  // the model that was loaded is refused, Error{out_of_range}.
  virtual void embed(std::span<const SequenceStep> batch, std::span<float> hidden) const = 0;
  virtual void run_layers(std::int64_t first, std::int64_t last,
                          std::span<const SequenceStep> batch, KvCache& cache,
                          std::span<float> hidden) const = 0;
  /// `hidden` [rows][hidden_size] of any tokens, after the last layer.
  virtual void head(std::span<const float> hidden, std::span<float> logits) const = 0;

  /// The same model with one layer in another form; all else is shared with this one.
  virtual std::shared_ptr<const LanguageModel> with_layer(std::int64_t layer_index,
                                                          const LayerForm& form) const = 0;

  /// Calls `see(layer_index, linear, inputs, num_tokens)` with what each matrix multiplies while
  /// the text runs, `inputs` [num_tokens][in_features]: what calibration is made of. Matrices that
  /// share an input are named once, by the first ("q_proj", "gate_proj", "experts.gate_proj").
  /// @throws Error{unsupported} for a rank of several, which sees a share of them
  using Observer = std::function<void(std::int64_t layer_index, std::string_view linear,
                                      const float* inputs, std::int64_t num_tokens)>;
  virtual void observe(std::span<const SequenceStep> batch, KvCache& cache,
                       const Observer& see) const = 0;
};

}  // namespace tessera::lm
