#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "devices.h"
#include "shapes.h"
#include "tessera/core/json.h"
#include "tessera/cost/op.h"

namespace tessera::test {

inline Device a100() { return device("A100-80G", 79, 2039, 312, 8.0); }
inline Device h200() { return device("H200-141G", 140, 4800, 989, 9.0); }

/// A model made of its coefficients.
inline std::unique_ptr<cost::OpModel> operator_model(cost::Op op, const Device& device,
                                                     const std::string& coefficients) {
  return cost::find_fit_method(op, "operator")
      .read(device, parse_json(coefficients, "test"), "test");
}

inline const char* const kDecodeAttention = R"({
  "dtype": "bfloat16", "phase": "decode",
  "variants": [{ "head_dim": 128, "windowed": false, "tile_tokens": 128, "occupancy": 1,
    "min_blocks": 0.25,
    "per_head": { "launch": 10, "first_tokens": 3, "splitting": 5, "blocks": 0.7,
                  "stream_above_128": 0.6, "kv_above_256": 0.35 },
    "grouped": { "launch": 3, "waves": 4.5, "waves_x_tiles": 1, "read_in_waves": 0.45 } }] })";
inline const char* const kPrefillAttention = R"({
  "dtype": "bfloat16", "phase": "prefill",
  "variants": [{ "head_dim": 128, "windowed": false, "tile_tokens": 128,
    "prefill": { "launch": 12, "waves": 1, "longest_block": 1, "pairs": 1.5, "diagonal": 2,
                 "rotation": 0.9 } }] })";
inline const char* const kDecodeLayer = R"({
  "phase": "decode", "attention": 2,
  "terms": { "weights": 1.25, "weights_above_64_rows": 0.5, "kv": 1.2 } })";

inline cost::OpQuery attention_query(cost::Phase phase, double batch_size, double tokens,
                                     double context_tokens, double num_heads, double num_kv_heads) {
  cost::OpQuery query;
  query.op = cost::Op::attention;
  query.phase = phase;
  query.dtype = "bfloat16";
  query.batch_size = batch_size;
  query.tokens = tokens;
  query.context_tokens = context_tokens;
  query.num_heads = num_heads;
  query.num_kv_heads = num_kv_heads;
  query.head_dim = 128;
  return query;
}

/// A grid of shapes as the published tables have it, priced by `model`.
inline std::vector<cost::Sample> attention_samples(const cost::OpModel& model, cost::Phase phase) {
  std::vector<cost::Sample> samples;
  const bool decode = phase == cost::Phase::decode;
  for (const double batch_size : {1, 4, 16, 64, 256}) {
    for (const double tokens : {16, 128, 512, 2048, 8192}) {
      for (const double num_heads : {8, 32}) {
        for (const double num_kv_heads : {1, 8, 32}) {
          if (num_kv_heads > num_heads) continue;
          cost::Sample sample;
          sample.query = attention_query(phase, batch_size, decode ? 1 : tokens,
                                         decode ? tokens : 0, num_heads, num_kv_heads);
          sample.latency_s = model.seconds(sample.query);
          samples.push_back(sample);
        }
      }
    }
  }
  return samples;
}

inline cost::OpQuery layer_query(cost::Phase phase, const ModelShape& model, double batch_size,
                                 double tokens, double context_tokens) {
  cost::OpQuery query;
  query.op = cost::Op::layer;
  query.phase = phase;
  query.model = model.name;
  query.layer = std::make_shared<LayerShape>(model.layer_classes.front());
  query.batch_size = batch_size;
  query.tokens = tokens;
  query.context_tokens = context_tokens;
  return query;
}

}  // namespace tessera::test
