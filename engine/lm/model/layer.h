#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "description.h"
#include "latent_attention.h"
#include "share.h"
#include "state_mixer.h"
#include "streams.h"
#include "tessera/linear/linear.h"
#include "tessera/lm/backend.h"
#include "tessera/quant/statistics.h"
#include "tessera/weights/parts.h"
#include "tessera/weights/weights.h"

namespace tessera::lm {

/// A feed-forward network, or an expert.
struct Network {
  std::shared_ptr<const Linear> in;  ///< gate and up as one product, or up
  std::shared_ptr<const Linear> down;
};

/// The matrices of a layer that have a form.
struct Matrices {
  /// Of attention. Of latent attention: queries, or their latent, beside the latent of all heads.
  std::shared_ptr<const Linear> qkv, output;
  std::shared_ptr<const Linear> query;              ///< of a latent; or null
  std::shared_ptr<const LatentHeads> latent_heads;  ///< or null
  StateMatrices state;
  std::vector<Network> networks;  ///< one, the experts, or none
  std::vector<Network> shared;    ///< none, or the expert that every token visits
  Network layer_input;  ///< into the width of what the layer gets by token, and back; or null
  Network bypass;       ///< of low rank, beside the mixer; or null
  /// Where experts lie in a space of their own; or null.
  std::shared_ptr<const Linear> into_experts, from_experts;

  std::int64_t bytes() const;
  std::string describe() const;  ///< of the first one
};

struct NetworkBias {
  Memory in, down;
};

/// All else.
struct LayerParts {
  NormWeights attention_norm, ffn_norm, attention_post_norm, ffn_post_norm, q_norm, k_norm, v_norm;
  NormWeights query_latent_norm, latent_norm, layer_input_norm, bypass_norm;
  std::optional<StreamWeights> streams;
  /// Of experts beside a network: what it gives, what they read and give, what their router reads.
  NormWeights network_post_norm, experts_norm, experts_post_norm, router_norm;
  std::vector<float> expert_scale;  ///< [experts] that their shares are multiplied by; or empty
  float layer_scale = 1;
  Memory qkv_bias, output_bias, state_in_bias, state_out_bias, sinks;
  Memory into_experts_bias, from_experts_bias;
  std::vector<NetworkBias> biases;  ///< of each of Matrices::networks
  NetworkBias shared_bias;
  std::shared_ptr<const Linear> router, shared_gate;
  std::shared_ptr<const StateMixer> mixer;  ///< in place of attention, or beside it; or null
  Memory router_bias;
  std::vector<float> correction;  ///< [experts] added to their scores for the choice; or empty
  std::int64_t num_parameters = 0;
};

struct Layer {
  std::shared_ptr<const LayerParts> parts;
  std::shared_ptr<const Matrices> matrices;
};

/// Reads a decoder's tensors once each, keeps a rank's share of them, and remembers which.
class TensorReader {
 public:
  TensorReader(std::shared_ptr<const weights::Weights> weights, const Description& description,
               Share share, std::shared_ptr<const Backend> backend);
  ~TensorReader();
  TensorReader(const TensorReader&) = delete;
  TensorReader& operator=(const TensorReader&) = delete;

  /// @throws Error{invalid_argument, not_found, unsupported} naming the tensor
  std::shared_ptr<const Matrices> matrices(std::int64_t layer_index, const LinearForm& form,
                                           const quant::Statistics* statistics) const;
  std::shared_ptr<const LayerParts> parts(std::int64_t layer_index) const;

  /// Says that the layer will be read next.
  void expect_layer(std::int64_t layer_index) const;

  /// A norm, which is there unless the family's have no weights.
  NormWeights norm(weights::Part part, std::int64_t layer_index, std::int64_t width) const;
  /// A matrix beside the layers: LM head, projections, tables.
  std::shared_ptr<const Linear> matrix(weights::Part part, std::int64_t layer_index,
                                       std::int64_t rows, std::int64_t columns,
                                       const LinearForm& form) const;
  std::vector<float> values(const weights::TensorInfo& tensor, std::int64_t count) const;
  /// Numbers [first, first + count) of a tensor that holds `total`.
  std::vector<float> values(const weights::TensorInfo& tensor, std::int64_t first,
                            std::int64_t count, std::int64_t total) const;
  Memory bias(const weights::TensorInfo* tensor, std::int64_t count) const;
  const weights::TensorInfo& table(weights::Part part, std::int64_t rows,
                                   std::int64_t columns) const;

  /// Tensors that another part of the model reads; those that the file has not are no matter.
  void leave(std::initializer_list<weights::Part> parts, std::int64_t layer_index = 0) const;
  void leave_layer(std::int64_t layer_index) const;

  /// Every tensor of the file has been read, is left to another part, or is known to mean nothing.
  /// @throws Error{invalid_argument} naming those that are not
  void refuse_others() const;

 private:
  struct Used;
  /// Where ranks share a matrix: outputs or inputs.
  enum class Cut { rows, columns };
  NormWeights norm_of_ones(std::int64_t width) const;
  NormWeights head_norm(weights::Part part, std::int64_t layer_index, std::int64_t num_heads,
                        std::int64_t head_dim) const;
  std::shared_ptr<const StateMixer> mixer(std::int64_t layer_index) const;
  NormWeights latent_norm(weights::Part part, std::int64_t layer_index, std::int64_t width) const;
  void read_attention(std::int64_t layer_index, LayerParts& parts) const;
  void read_router_of_its_own(std::int64_t layer_index, std::int64_t num_experts,
                              LayerParts& parts) const;
  StreamWeights streams(std::int64_t layer_index) const;
  void leave_unused_keys(std::int64_t layer_index) const;
  void read_state(std::int64_t layer_index, LayerParts& parts) const;
  void read_routing(std::int64_t layer_index, std::int64_t num_experts, LayerParts& parts) const;
  Memory stacked_bias(const std::vector<weights::LinearWeight>& parts, Cut cut) const;
  std::vector<std::int64_t> rows_of_share(const std::vector<weights::LinearWeight>& parts) const;
  std::span<const weights::LinearWeight> linears_of_layer(std::int64_t layer_index) const;
  std::vector<weights::LinearWeight> find(std::int64_t layer_index,
                                          std::span<const std::string> names,
                                          std::int64_t copy = 0) const;
  void use(const weights::TensorInfo& tensor) const;

  std::shared_ptr<const weights::Weights> weights_;
  const Description& description_;
  Share share_;
  std::shared_ptr<const Backend> backend_;
  std::vector<weights::LinearWeight> linears_;
  std::unique_ptr<Used> used_;
};

}  // namespace tessera::lm
