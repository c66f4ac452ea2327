#pragma once

#include <memory>

#include "devices.h"
#include "shapes.h"
#include "tessera/cost/op.h"

namespace tessera::test {

/// One decoder layer of a shape written down by hand. Decode: one token after `context_tokens`.
inline cost::OpQuery layer_query(const ModelShape& model, cost::Phase phase, std::int32_t bitwidth,
                                 double batch_size, double tokens, double context_tokens = 0) {
  cost::OpQuery query;
  query.op = cost::Op::layer;
  query.phase = phase;
  query.bitwidth = bitwidth;
  query.batch_size = batch_size;
  query.tokens = tokens;
  query.context_tokens = context_tokens;
  query.model = model.name;
  query.layer = std::make_shared<LayerShape>(model.layer_classes.front());
  return query;
}

inline cost::OpQuery prefill_query(const ModelShape& model, double batch_size, double tokens,
                                   std::int32_t bitwidth = 16) {
  return layer_query(model, cost::Phase::prefill, bitwidth, batch_size, tokens);
}

inline cost::OpQuery decode_query(const ModelShape& model, double batch_size, double context_tokens,
                                  std::int32_t bitwidth = 16) {
  return layer_query(model, cost::Phase::decode, bitwidth, batch_size, 1, context_tokens);
}

}  // namespace tessera::test
