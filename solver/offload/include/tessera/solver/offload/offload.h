#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/solver/offload/offload_shares.h"
#include "tessera/solver/problem/problem.h"

/// Plans that keep part of the weights, the KV cache and the activations in host memory or on disk,
/// priced by FlexGen's cost model (Sheng et al., ICML 2023, arXiv 2303.06865): sections 4.2 and 4.3
/// and appendix A.3, for a pipeline of even stages as in its section 4.4.
///
/// Of a stage with l layers, per block of `micro-batch` requests computed in GPU batches,
///   P = max(ctog, gtoc, dtoc, ctod, comp) in prefill, D the same in one decode step,
/// where all five run at the same time: host to device, device to host, disk to host, host to disk,
/// and computing. With shares w, c, h of weights, KV cache and activations on g(pu), c(pu), d(isk),
/// weights W, activations H between two layers, cache K:
///   prefill  ctog = (W (wc+wd) + l H (hc+hd)) / pcie     gtoc = (K (cc+cd) + l H (hc+hd)) / pcie
///            dtoc = (W wd + l H hd) / disk               ctod = (K cd + l H hd) / disk
///            comp = time of the layers on the device, at 16 bits
///   decode   ctog = (W (wc+wd) + l H (hc+hd)) / pcie     gtoc = l H (hc+hd) / pcie
///            dtoc = (K cd + W wd + l H hd) / disk        ctod = (K' cd + l H hd) / disk
///            comp = layers without attention + cg * attention + K (cc+cd) / host attention rate
/// K is the prompt's cache in prefill, the mean one while decoding, K' one token's. Attention over
/// what is not on the device runs on the host (section 4.2, "computation delegation"). Blocks pass
/// the pipeline as micro-batches do, so the latency is the `steady` formula (solver/README.md,
/// Objective) with these P and D; with one stage and one block it is FlexGen's T = l T_pre + (n-1)
/// l T_gen.
///
/// Ours instead of the paper's: times of layers come from the kernel set, not from two FLOP rates;
/// the cache is reserved in full from the start, as FlexGen's runtime does; stages on one node
/// share its disk, its processors and its memory.
namespace tessera::solver {

/// Columns of the linear programme and of every term, per stage.
enum OffloadShare : std::size_t { wg, wc, wd, cg, cc, cd, hg, hc, hd, kOffloadShares };

/// A cost that is linear in the nine shares.
struct OffloadTerm {
  double constant = 0;
  std::array<double, kOffloadShares> slope{};

  double at(const StageOffload& shares) const;
};

inline constexpr std::size_t kOffloadOverlaps = 5;
/// What overlaps, in the order of the terms: "host to device", ...
extern const std::array<const char*, kOffloadOverlaps> kOffloadOverlapNames;

struct OffloadStage {
  std::array<OffloadTerm, kOffloadOverlaps> prefill, decode;  ///< seconds of one block
  double prefill_end_s = 0, decode_end_s = 0;                 ///< embedding and LM head, after them
  OffloadTerm weights, kv_cache;                ///< bytes on the device, staging buffers included
  OffloadTerm device_prefill, device_decode;    ///< all bytes on the device but the reserve
  OffloadTerm host_prefill, host_decode, disk;  ///< bytes
  double embedding_bytes = 0, usable_bytes = 0;
  std::size_t node_index = 0;
  bool has_disk = false;
};

/// One plan's shape with all costs worked out; only the shares are open.
struct OffloadModel {
  std::vector<OffloadStage> stages;
  std::vector<double> prefill_link_s, decode_link_s;  ///< [stages - 1]
  std::vector<double> host_bytes;                     ///< [nodes of the cluster] usable
  std::vector<std::string> node_names;
  double num_blocks = 1;
  double decode_steps = 0;  ///< n - 1
};

struct OffloadEvaluation {
  std::vector<double> prefill_s, decode_s;  ///< [stages] one block
  double latency_s = 0;
};

/// What stands in the way of offloading at all: an instance, layers left over, an empty stage, a
/// node whose memory is unknown, a device without FP16 kernels, two micro-batch sizes, a GPU batch
/// larger than a micro-batch.
std::optional<Violation> find_offload_obstacle(const Problem& problem, const Instance& instance,
                                               const Candidate& candidate,
                                               const PlanOffload& settings);

/// Requires that there is no obstacle.
OffloadModel offload_model(const Problem& problem, const Instance& instance,
                           const Candidate& candidate, const PlanOffload& settings);

OffloadEvaluation evaluate_offload(const OffloadModel& model,
                                   const std::vector<StageOffload>& shares);

/// Why the linear programme (ilp/offload_lp.h) found nothing: the stage or the node that lacks
/// memory.
Violation explain_no_offload(const OffloadModel& model, const PlanOffload& settings);

}  // namespace tessera::solver
