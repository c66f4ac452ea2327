#include "attention_terms.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "../counts.h"
#include "../work.h"

namespace tessera::cost::models {
namespace {

using Eigen::VectorXd;

constexpr double kMicrosecond = 1e-6;
constexpr double kMinGroup = 2, kMaxGroup = 32;  // that XQA is built for
constexpr double kMinSplitTokens = 128;          // that a split has at least
// Rounding to waves must not see what floating point adds to a whole number.
constexpr double kWhole = 1e-9;

double above(double value, double limit) { return std::max(value - limit, 0.0); }

double waves(double blocks) { return std::max(1.0, std::ceil(blocks - kWhole)); }

double whole_tiles(double tokens, double tile) { return waves(tokens / tile) * tile; }

// 0 up to half of `tokens`, 1 from there on, straight in the logarithm.
double turned_on(double value, double tokens) {
  return std::clamp(std::log2(std::max(value, 1.0) / tokens) + 1, 0.0, 1.0);
}

double seen(const OpQuery& q, double tokens) {
  return q.window > 0 ? std::min(q.window, tokens) : tokens;
}

VectorXd vector_of(std::initializer_list<double> values) {
  VectorXd result(static_cast<Eigen::Index>(values.size()));
  std::copy(values.begin(), values.end(), result.begin());
  return result;
}

// Seconds in which all multiprocessors, each streaming as much, read one token of one head each.
double token_s(const AttentionDevice& device, const OpQuery& q, double bytes) {
  return 2 * q.head_dim * bytes / device.bytes_per_s * device.multiprocessors;
}

double group_of(const OpQuery& q) { return q.num_heads / q.num_kv_heads; }

// What a kernel makes of a query's heads.
struct Cut {
  double heads;           // with blocks of their own, of one sequence
  double group;           // query heads that one of these serves
  double heads_per_tile;  // of the group
  double split_blocks;    // per multiprocessor, that splitting aims at; 0: contexts stay whole
};

Cut cut_of(const GroupedShape& shape, const OpQuery& q) {
  switch (shape.kernel) {
    case GroupedKernel::xqa:
      return {q.num_kv_heads, group_of(q), 16, 8};
    case GroupedKernel::flash:
      return {q.num_kv_heads, group_of(q), 64, group_of(q) > 1 ? 2.0 : 0.0};
    case GroupedKernel::per_query:
      break;
  }
  return {q.num_heads, 1, 1, 0};
}

// How a context is split over blocks, all per multiprocessor.
struct Split {
  double blocks = 1;       // of all splits
  double waves = 1;        // times that every multiprocessor runs as many as it holds
  double tokens = 1;       // that one block reads
  double read = 1;         // tokens x heads, rounded up to waves
  double smooth_read = 1;  // not rounded
};

Split split_of(const AttentionDevice& device, const GroupedShape& shape, const OpQuery& q,
               double context) {
  const Cut cut = cut_of(shape, q);
  const double heads = q.batch_size * cut.heads / device.multiprocessors;
  const double splits =
      std::max(1.0, std::min(context / kMinSplitTokens, cut.split_blocks / heads));
  Split split;
  split.tokens = cut.split_blocks > 0 ? std::max(context / splits, shape.tile_tokens)
                                      : whole_tiles(context, shape.tile_tokens);
  split.blocks = std::max(heads * splits, 1.0);
  split.waves = shape.occupancy * waves(heads * splits / shape.occupancy);
  split.read = split.waves * split.tokens;
  split.smooth_read = split.blocks * split.tokens;
  if (q.window > 0) {  // blocks before the window start and find nothing to do
    const double visible = seen(q, context);
    split.tokens = std::min(split.tokens, std::max(visible, shape.tile_tokens));
    split.read = split.smooth_read = std::max(heads * visible, split.tokens);
  }
  return split;
}

}  // namespace

AttentionDevice attention_device(const Device& device, const std::string& dtype) {
  const auto rate = device.flop_per_s.find(dtype_traits(dtype).compute_dtype);
  return {multiprocessors_of(device), device.memory_bytes_per_s,
          rate != device.flop_per_s.end() ? rate->second : device.flop_per_s.at("fp16"),
          device.compute_capability};
}

double kv_bytes(const OpQuery& q) {
  return dtype_traits(q.kv_dtype.empty() ? q.dtype : q.kv_dtype).activation_bits / 8;
}

const std::vector<Term>& per_head_terms() {
  static const std::vector<Term> terms = {{"launch", 10},
                                          {"first_tokens", 3},
                                          {"splitting", 5},
                                          {"blocks", 0.7},
                                          {"blocks_above_1", 0},
                                          {"blocks_above_4", 0.9},
                                          {"tokens_to_16", 0.6},
                                          {"tokens_to_128", 0},
                                          {"stream_above_128", 0.3},
                                          {"stream_above_256", 0.3},
                                          {"read_above_256", 0},
                                          {"read_above_1024", 0},
                                          {"kv", 0},
                                          {"kv_above_256", 0.35},
                                          {"kv_above_1024", 0.2}};
  return terms;
}

VectorXd per_head_terms(const AttentionDevice& device, const OpQuery& q) {
  const double context = q.context_tokens + q.tokens;
  const double visible = seen(q, context);
  const double blocks = q.batch_size * q.num_heads / device.multiprocessors;
  const double read = blocks * visible;
  const double kv = q.batch_size * q.num_kv_heads * visible / device.multiprocessors;
  const double us = kMicrosecond;
  const double head_s = token_s(device, q, kFp16Bytes), kv_s = token_s(device, q, kv_bytes(q));
  return vector_of(
      {us, us * std::min(visible, 64.0) / 64, us * turned_on(visible, 512), us * blocks,
       us * above(blocks, 1), us * above(blocks, 4), us * blocks * std::min(visible, 16.0) / 16,
       us * blocks * std::min(visible, 128.0) / 128, head_s * blocks * above(visible, 128),
       head_s * blocks * above(visible, 256), head_s * above(read, 256), head_s * above(read, 1024),
       kv_s * kv, kv_s * above(kv, 256), kv_s * above(kv, 1024)});
}

const std::vector<Term>& grouped_terms() {
  static const std::vector<Term> terms = {{"launch", 3},
                                          {"block_tokens", 1},
                                          {"splitting", 3},
                                          {"log_tokens", 0.2},
                                          {"waves", 4},
                                          {"waves_x_tiles", 1},
                                          {"blocks", 0.5},
                                          {"blocks_above_8", 0},
                                          {"blocks_x_group", 0.05},
                                          {"read_in_waves", 0.3},
                                          {"read", 0.15},
                                          {"read_x_tiles", 0.15},
                                          {"read_x_group", 0},
                                          {"kv", 0},
                                          {"reordering", 0}};
  return terms;
}

VectorXd grouped_terms(const AttentionDevice& device, const GroupedShape& shape, const OpQuery& q) {
  const double context = q.context_tokens + q.tokens;
  const Split split = split_of(device, shape, q, context);
  const Cut cut = cut_of(shape, q);
  const double more_tiles = std::ceil(cut.group / cut.heads_per_tile - kWhole) - 1;
  const double us = kMicrosecond;
  const double split_us = cut.split_blocks > 0 ? us : 0;
  const double head_s = token_s(device, q, kFp16Bytes), kv_s = token_s(device, q, kv_bytes(q));
  const double kv = q.batch_size * q.num_kv_heads * seen(q, context) / device.multiprocessors;
  // Queries of a group become rows of one head: copied there and back, but for a single sequence.
  const bool reorders = shape.kernel == GroupedKernel::flash && cut.group > 1 && q.batch_size > 1 &&
                        q.num_kv_heads > 1;
  return vector_of({us, head_s * split.tokens, split_us * turned_on(context, 256),
                    split_us * std::log2(std::max(context / kMinSplitTokens, 1.0)),
                    us * split.waves, us * split.waves * more_tiles, us * split.blocks,
                    us * above(split.blocks, 8), us * split.blocks * cut.group, kv_s * split.read,
                    kv_s * split.smooth_read, head_s * split.read * more_tiles,
                    head_s * split.smooth_read * cut.group, kv_s * kv, reorders ? us : 0});
}

bool grouped_fits(const GroupedShape& shape, const OpQuery& q) {
  if (shape.kernel != GroupedKernel::xqa) return true;
  return group_of(q) >= kMinGroup && group_of(q) <= kMaxGroup;
}

bool grouped_chosen(const AttentionDevice& device, const GroupedShape& shape, const OpQuery& q) {
  if (!grouped_fits(shape, q)) return false;
  const double splits =
      std::max(1.0, std::floor((q.context_tokens + q.tokens) / kMinSplitTokens + kWhole));
  return q.batch_size * q.num_kv_heads * splits >= shape.min_blocks * device.multiprocessors;
}

const std::vector<Term>& prefill_terms() {
  static const std::vector<Term> terms = {
      {"launch", 12.4},     {"tokens_to_64", 1},     {"tokens_to_256", 1},  {"waves", 1},
      {"heads", 0.5},       {"blocks_above_1", 0.4}, {"longest_block", 1},  {"row_tiles", 0},
      {"pairs", 0.1},       {"diagonal", 2.6},       {"pairs_in_waves", 0}, {"pairs_above_1", 1.9},
      {"pairs_above_4", 0}, {"pairs_above_16", 0},   {"queries", 0},        {"keys", 0},
      {"rotation", 0.85},   {"queries_above", 0}};
  return terms;
}

VectorXd prefill_terms(const AttentionDevice& device, double tile, const OpQuery& q) {
  const double us = kMicrosecond, tokens = q.tokens;
  const double context = q.context_tokens + tokens;
  const double heads = q.batch_size * q.num_heads / device.multiprocessors;
  const double row_blocks = std::ceil(tokens / tile - kWhole);
  const double blocks = heads * row_blocks;
  const double window = q.window > 0 ? q.window : context;
  const double pairs = causal_pairs(tokens, q.context_tokens, window);
  const double chain = std::min(context, window + tile);  // keys that the last row of tiles meets
  // One multiprocessor's share of the device's rate, for one pair of query and key.
  const double pair_s = 4 * q.head_dim / device.flop_per_s * device.multiprocessors;
  const double work_s = heads * pairs * pair_s;
  const double token_bytes = 2 * q.head_dim * kFp16Bytes * q.batch_size * tokens;
  const double queries_s = token_bytes * q.num_heads / device.bytes_per_s;
  const double keys_s = token_bytes * q.num_kv_heads / device.bytes_per_s;
  return vector_of({us, us * std::min(tokens, 64.0) / 64, us * std::min(tokens, 256.0) / 256,
                    us * (waves(blocks) - 1), us * heads, us * above(blocks, 1),
                    chain * tile * pair_s, us * chain / tile, work_s,
                    heads * tokens * tile * pair_s,
                    waves(blocks) * pairs / std::max(1.0, tokens / tile) * pair_s,
                    above(work_s, 1 * us), above(work_s, 4 * us), above(work_s, 16 * us), queries_s,
                    keys_s, above(queries_s + 2 * keys_s, 2 * us), above(queries_s, 2 * us)});
}

VectorXd prefill_context_terms(const AttentionDevice& device, double tile, const OpQuery& q) {
  const double us = kMicrosecond;
  const double heads = q.batch_size * q.num_heads / device.multiprocessors;
  const double pair_s = 4 * q.head_dim / device.flop_per_s * device.multiprocessors;
  const auto work_s = [&](double before) {
    const double window = q.window > 0 ? q.window : q.tokens + before;
    return heads * causal_pairs(q.tokens, before, window) * pair_s;
  };
  const double whole_s = work_s(q.context_tokens), prompt_s = work_s(0);
  const double chain =
      q.window > 0 ? std::min(q.context_tokens, q.window + tile) : q.context_tokens;
  const auto more_above = [&](double limit_s) {
    return above(whole_s, limit_s) - above(prompt_s, limit_s);
  };
  const double more_s = whole_s - prompt_s;
  return vector_of({0, 0, 0, 0, 0, 0, chain * tile * pair_s, us * chain / tile, more_s, 0, more_s,
                    more_above(1 * us), more_above(4 * us), more_above(16 * us), 0, 0, 0, 0});
}

}  // namespace tessera::cost::models
