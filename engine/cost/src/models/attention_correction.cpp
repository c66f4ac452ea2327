#include "attention_correction.h"

#include <cmath>

namespace tessera::cost::models {
namespace {

// Knots in log2.
Knots every(double first, double last, double step) {
  Knots knots;
  for (double knot = first; knot <= last; knot += step) knots.push_back(knot);
  return knots;
}
const Knots kHeads = every(0, 16, 1), kCoarseHeads = every(0, 16, 2);  // batch x heads
const Knots kContext = {1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
const Knots kCoarseContext = {1, 4, 6, 8, 10, 12, 14, 16};
const Knots kTokens = {0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
const Knots kCoarseTokens = {0, 4, 6, 8, 10, 12, 14, 16};
const Knots kGroup = {0, 1, 2, 3, 4, 6};  // query heads of one key and value head
const Knots kDecodeBatch = {0, 2, 4, 6, 8, 11};
const Knots kPrefillBatch = {0, 1, 2, 3, 4, 5, 6, 8};
const Knots kRows = every(0, 18, 1);  // batch x tokens
const Knots kQueryHeads = every(0, 7, 1);
const Knots kBlocks = every(0, 17, 1);  // batch x query heads
const Knots kRead = every(0, 27, 1);    // batch x heads x context
const Knots kPairs = every(0, 43, 1);   // batch x heads x tokens^2
const Knots kWindow = every(6, 14, 1);

struct Position {
  double heads, length, group, batch, query_heads;
};

int write_decode(const Position& at, double window, std::vector<Feature>& out) {
  HatRow row(out);
  const Hats heads = hats(at.heads, kHeads), context = hats(at.length, kContext);
  const Hats group = hats(at.group, kGroup), coarse = hats(at.length, kCoarseContext);
  row.add(heads, kHeads, context, kContext);
  row.add(group, kGroup, context, kContext);
  row.add(heads, kHeads, group, kGroup);
  row.add(hats(at.heads, kCoarseHeads), kCoarseHeads, coarse, kCoarseContext, group, kGroup);
  row.add(hats(at.batch, kDecodeBatch), kDecodeBatch, coarse, kCoarseContext);
  row.add(hats(at.batch + at.query_heads, kBlocks), kBlocks);
  row.add(hats(at.heads + at.length, kRead), kRead);
  row.add(hats(window, kWindow), kWindow, context, kContext);
  return row.size_so_far();
}

int write_prefill(const Position& at, double window, std::vector<Feature>& out) {
  HatRow row(out);
  const double blocks = at.batch + at.query_heads;
  const Hats heads = hats(blocks, kHeads), tokens = hats(at.length, kTokens);
  const Hats group = hats(at.group, kGroup);
  row.add(heads, kHeads, tokens, kTokens);
  row.add(group, kGroup, tokens, kTokens);
  row.add(heads, kHeads, group, kGroup);
  row.add(hats(blocks, kCoarseHeads), kCoarseHeads, hats(at.length, kCoarseTokens), kCoarseTokens,
          group, kGroup);
  row.add(hats(at.batch, kPrefillBatch), kPrefillBatch, tokens, kTokens);
  row.add(hats(at.batch + at.length, kRows), kRows, hats(at.query_heads, kQueryHeads), kQueryHeads);
  row.add(hats(blocks + 2 * at.length, kPairs), kPairs);
  row.add(hats(window, kWindow), kWindow, tokens, kTokens);
  return row.size_so_far();
}

int write_row(const OpQuery& q, std::vector<Feature>& out) {
  const Position at{std::log2(q.batch_size * q.num_kv_heads), std::log2(length_of(q)),
                    std::log2(q.num_heads / q.num_kv_heads), std::log2(q.batch_size),
                    std::log2(q.num_heads)};
  const double window = q.window > 0 ? std::log2(q.window) : kWindow.back();
  return q.phase == Phase::decode ? write_decode(at, window, out) : write_prefill(at, window, out);
}

}  // namespace

void attention_features(const OpQuery& query, std::vector<Feature>& out) { write_row(query, out); }

int num_attention_features(Phase phase) {
  const auto count = [](Phase of) {
    OpQuery any;
    any.phase = of;
    any.batch_size = any.tokens = any.num_heads = any.num_kv_heads = 1;
    std::vector<Feature> unused;
    return write_row(any, unused);
  };
  static const int prefill = count(Phase::prefill), decode = count(Phase::decode);
  return phase == Phase::decode ? decode : prefill;
}

const std::vector<double>& batch_knots() {
  static const std::vector<double> knots = [] {
    std::vector<double> result;
    for (double knot = 1; knot <= 4096; knot *= 2) result.push_back(knot);
    return result;
  }();
  return knots;
}

const std::vector<double>& length_knots() {
  static const std::vector<double> knots = {
      1,    2,    4,    8,    16,   32,    64,    128,   256,   512,   1024,   1536,
      2048, 3072, 4096, 6144, 8192, 10240, 12288, 16384, 32768, 65536, 131072, 262144};
  return knots;
}

double length_of(const OpQuery& query) {
  return query.phase == Phase::decode ? query.context_tokens + query.tokens : query.tokens;
}

OpQuery at_length(OpQuery query, double batch_size, double length) {
  query.batch_size = batch_size;
  if (query.phase == Phase::decode) {
    query.context_tokens = std::max(0.0, length - query.tokens);
  } else {
    query.tokens = length;
    query.context_tokens = 0;
  }
  return query;
}

}  // namespace tessera::cost::models
