#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/core/cluster.h"
#include "tessera/core/model_shape.h"
#include "tessera/cost/collectives.h"
#include "tessera/cost/latency.h"
#include "tessera/cost/profile.h"

namespace tessera::cost {

/// Tensor parallelism after Megatron-LM (Shoeybi et al., 2019, section 3): each of `degree` equal
/// devices holds 1 / degree of the heads, the KV heads and the FFN's columns, and of the rows of
/// token embedding and LM head. Norms, biases, routers and position embeddings are on every one.
/// Where the degree is a multiple of the KV heads every device holds one of them, and
/// degree / num_kv_heads devices the same one, with its cache and its columns of k and v, as vLLM
/// and TensorRT-LLM do. Latents of latent attention, and the matrices that
/// make them, are on every one.

/// Why a model cannot be cut over `degree` devices ("40 heads do not divide by 3; degrees that do:
/// 1, 2, 4"); absent where it can. The vocabulary is padded, so it always can.
std::optional<std::string> why_not_sharded(const ModelShape& model, std::int64_t degree);

/// What one of `degree` devices holds of a layer: q, k, v, gate and up projections by columns,
/// output and down projections by rows, everything else whole. `degree` must divide it.
LayerShape shard(const LayerShape& layer, std::int64_t degree);

/// What one of `degree` devices holds of the model; the hidden size stays whole.
ModelShape shard(const ModelShape& model, std::int64_t degree);

/// How a runtime sums over the devices of a group.
struct SumKernels {
  bool by_nccl = false;    ///< whatever the size
  double rank_skew_s = 0;  ///< see KernelSet
};

/// `degree` equal devices as one, `member` being the model of each. A decoder layer sums its hidden
/// states twice, after attention and after the FFN; the embedding sums them once; the LM head
/// compares one best token per sequence and device. `link` is the slowest within the group. Sums
/// are priced by predict_sum.
std::unique_ptr<LatencyModel> make_tensor_parallel(std::unique_ptr<LatencyModel> member,
                                                   std::int64_t degree, const Link& link,
                                                   std::shared_ptr<const Profile> profile = {},
                                                   const SumKernels& sums = {});

}  // namespace tessera::cost
