#pragma once

#include <Eigen/Core>
#include <vector>

#include "additive.h"
#include "tessera/core/device.h"
#include "tessera/cost/op.h"

/// What the three kinds of attention kernels spend their time on, as terms in seconds.
namespace tessera::cost::models {

/// A device as attention kernels see it.
struct AttentionDevice {
  double multiprocessors = 1;
  double bytes_per_s = 1;
  double flop_per_s = 1;  ///< of the products: FP16, or FP8 where queries are
  double compute_capability = 0;
};
AttentionDevice attention_device(const Device& device, const std::string& dtype);

/// Bytes of a number in the KV cache.
double kv_bytes(const OpQuery& query);

/// Decode, one thread block per sequence and query head (TensorRT-LLM's masked multi-head
/// attention): every head reads its keys and values on its own, over the caches where heads share
/// them. Long contexts are split over blocks while multiprocessors are idle.
const std::vector<Term>& per_head_terms();
Eigen::VectorXd per_head_terms(const AttentionDevice& device, const OpQuery& query);

/// Whose grouped decode kernel it is: what a thread block serves, and how contexts are split.
/// - xqa (TensorRT-LLM): a block per KV head of 2 to 32 query heads, in matrix tiles of 16; splits
///   fill every multiprocessor 8 times.
/// - flash (FlashAttention 2, as vLLM calls it): a block per KV head of any group, in tiles of 64;
///   splits fill every multiprocessor twice; the context of heads that share no keys stays whole.
/// - per_query (kernels that know neither): a block per query head, which reads its whole context.
enum class GroupedKernel { xqa, flash, per_query };

/// How a grouped decode kernel cuts its work.
struct GroupedShape {
  double tile_tokens = 128;  ///< a block reads at least so many, whole contexts in multiples of it
  double occupancy = 1;      ///< blocks that run on one multiprocessor at a time
  /// Blocks per multiprocessor from which on the runtime chooses this kernel.
  double min_blocks = 0.25;
  GroupedKernel kernel = GroupedKernel::xqa;
};

/// Decode, one thread block per sequence, head and split: the query heads of a group share what is
/// read, in matrix tiles. A context of L tokens is split into min(L / 128, what fills every
/// multiprocessor as often as the kernel wants), as the published runtimes do; rounding is left out
/// so that the time never falls.
const std::vector<Term>& grouped_terms();
Eigen::VectorXd grouped_terms(const AttentionDevice& device, const GroupedShape& shape,
                              const OpQuery& query);
/// The group sizes that the kernel is built for.
bool grouped_fits(const GroupedShape& shape, const OpQuery& query);
/// Whether the runtime chooses it.
bool grouped_chosen(const AttentionDevice& device, const GroupedShape& shape, const OpQuery& query);

/// Prefill, one thread block per sequence, head and `tile_tokens` queries (FlashAttention), after
/// kernels that rotate queries and keys and write the KV cache.
const std::vector<Term>& prefill_terms();
Eigen::VectorXd prefill_terms(const AttentionDevice& device, double tile_tokens,
                              const OpQuery& query);

/// What the tokens before a prompt add to these, never less for more work: where rounding to waves
/// would let that fall, without rounding.
Eigen::VectorXd prefill_context_terms(const AttentionDevice& device, double tile_tokens,
                                      const OpQuery& query);

}  // namespace tessera::cost::models

namespace tessera {
template <>
inline constexpr auto kEnumNames<cost::models::GroupedKernel> =
    enum_names<cost::models::GroupedKernel>({{cost::models::GroupedKernel::xqa, "xqa"},
                                             {cost::models::GroupedKernel::flash, "flash"},
                                             {cost::models::GroupedKernel::per_query,
                                              "per_query"}});
}  // namespace tessera
