#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/core/cluster.h"
#include "tessera/core/model_shape.h"
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

/// Seconds in which `degree` devices sum a buffer of `bytes`; 0 for one device. Within a node, over
/// NVLink or PCIe, the faster of one-shot and two-shot kernels, with the times and the shares of
/// the link's rate that vLLM's kernels have on A100, H200 and RTX PRO 6000
/// (experiments/fidelity/collectives.lua). On sizes that the fit has not seen it is off by 10 % in
/// the median and 27 % in the 90th percentile over NVSwitch, by 6 % and 17 % over PCIe, and by 16 %
/// and 36 % on a GPU that it has not seen. `latency_s` of such a link is of transfers between two,
/// and has no part in it. Between nodes a ring sends 2 (degree - 1) / degree of the buffer over
/// every link in 2 (degree - 1) steps (Patarasu and Yuan, 2009).
double all_reduce_s(double bytes, std::int64_t degree, const Link& link);

/// The same, said as what it is.
Prediction modelled_all_reduce(double bytes, std::int64_t degree, const Link& link);

/// The best link that devices of its kind have within a node, over which its sums are measured:
/// NVLink between any two, else PCIe. A bridge joins two cards at most, so it does not count.
Link node_link(const Device& device);

/// `degree` equal devices as one, `member` being the model of each. A decoder layer sums its hidden
/// states twice, after attention and after the FFN; the embedding sums them once; the LM head
/// compares one best token per sequence and device. `link` is the slowest within the group. Sums
/// are priced by the part of `profile` for them where it was measured over such a link, else by
/// all_reduce_s, as `modelled`.
std::unique_ptr<LatencyModel> make_tensor_parallel(std::unique_ptr<LatencyModel> member,
                                                   std::int64_t degree, const Link& link,
                                                   std::shared_ptr<const Profile> profile = {});

}  // namespace tessera::cost
