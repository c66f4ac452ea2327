#pragma once

#include <vector>

#include "hats.h"
#include "tessera/cost/op.h"

namespace tessera::cost::models {

/// What the terms of attention leave over, as smooth shapes: the logarithm of a factor that is
/// linear in these. Hats of the logarithms of batch x heads, of the length, of the query heads that
/// share keys and values, of the batch alone, of their products, and of the window.
void attention_features(const OpQuery& query, std::vector<Feature>& out);
int num_attention_features(Phase phase);

/// Where a surface over batch size and length bends, ascending. Published tables have their points
/// at these.
const std::vector<double>& batch_knots();
const std::vector<double>& length_knots();

/// What the length of a query is: the tokens of a prompt, the context that a decode step reads.
double length_of(const OpQuery& query);
/// The query at another batch size and length, with no context before a prompt.
OpQuery at_length(OpQuery query, double batch_size, double length);

}  // namespace tessera::cost::models
