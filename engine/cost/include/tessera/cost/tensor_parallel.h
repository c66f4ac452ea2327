#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/core/cluster.h"
#include "tessera/core/model_shape.h"
#include "tessera/cost/collectives.h"
#include "tessera/cost/group_split.h"
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
///
/// A GroupSplit says otherwise of experts and attention. With expert parallelism (GShard, Lepikhin
/// et al., 2020) a device holds some experts whole, or cut over fewer devices; which of them a
/// token visits is a matter of its text, so that the busiest device sets the pace (ExpertLoads).
/// Where every device has all tokens (attention_data_parallel 1) outputs are summed as before. With
/// data-parallel attention hidden states of all parts are gathered before the experts and their
/// outputs summed and scattered behind them, as vLLM (allgather_reducescatter, its default) and
/// TensorRT-LLM without MNNVL do; kernels that send a token only where it is wanted (DeepEP) are
/// not priced.

/// Why a model cannot be cut over `degree` devices ("40 heads do not divide by 3; degrees that do:
/// 1, 2, 4"); absent where it can. The vocabulary is padded, so it always can.
std::optional<std::string> why_not_sharded(const ModelShape& model, std::int64_t degree);
/// The same of a split, which may also be of no group of this size, or of a model without experts.
std::optional<std::string> why_not_sharded(const ModelShape& model, std::int64_t degree,
                                           const GroupSplit& split);
/// Why a cut breaks groups of `group_size` weights that share a scale, which lie along the inputs
/// of a matrix ("groups of 128 weights do not divide the 14784 inputs of down_proj at TP 2");
/// absent where it breaks none, and where there are none (0).
std::optional<std::string> why_groups_break(const ModelShape& model, double group_size,
                                            std::int64_t degree, const GroupSplit& split = {});
/// Whether a model has experts that may be spread.
bool has_experts(const ModelShape& model);

/// What one of `degree` devices holds of a layer: q, k, v, gate and up projections by columns,
/// output and down projections by rows, everything else whole. `degree` must divide it.
LayerShape shard(const LayerShape& layer, std::int64_t degree, const GroupSplit& split = {});

/// What one of `degree` devices holds of the model; the hidden size stays whole.
ModelShape shard(const ModelShape& model, std::int64_t degree, const GroupSplit& split = {});

/// How a runtime sums over the devices of a group.
struct SumKernels {
  bool by_nccl = false;    ///< whatever the size
  double rank_skew_s = 0;  ///< see KernelSet
};

/// `degree` equal devices as one, `member` being the model of each. A decoder layer sums its hidden
/// states twice, after attention and after the FFN; the embedding sums them once; the LM head
/// compares one best token per sequence and device. `link` is the slowest within the group. Sums
/// are priced by predict_sum. Of data-parallel attention work is of all parts together: the busiest
/// has its share of the sequences, rounded up, and one prompt whole.
std::unique_ptr<LatencyModel> make_tensor_parallel(std::unique_ptr<LatencyModel> member,
                                                   std::int64_t degree, const Link& link,
                                                   std::shared_ptr<const Profile> profile = {},
                                                   const SumKernels& sums = {},
                                                   const GroupSplit& split = {});

}  // namespace tessera::cost
