#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "models/attention_correction.h"
#include "operator_models.h"

namespace tessera::cost::operator_models_property_test {
namespace {

using namespace test;  // NOLINT: the makers of this test

double real(double low, double high) {
  return low + (high - low) * *rc::gen::inRange(0, 1'000'001) / 1e6;
}

// Every term with a coefficient that some fit might give it.
Json any_terms(std::initializer_list<const char*> names) {
  Json terms = Json::object();
  for (const char* name : names) {
    if (*rc::gen::arbitrary<bool>()) terms[name] = real(0, 20);
  }
  terms["launch"] = real(0.1, 20);
  return terms;
}

Json any_variant(Phase phase) {
  Json variant = {{"head_dim", 128},
                  {"windowed", *rc::gen::arbitrary<bool>()},
                  {"tile_tokens", *rc::gen::element(64, 128)}};
  if (phase == Phase::prefill) {
    variant["prefill"] = any_terms(
        {"tokens_to_64", "tokens_to_256", "waves", "heads", "blocks_above_1", "longest_block",
         "row_tiles", "pairs", "diagonal", "pairs_in_waves", "pairs_above_1", "pairs_above_4",
         "pairs_above_16", "queries", "keys", "rotation", "queries_above"});
    return variant;
  }
  variant["kernel"] = *rc::gen::element("xqa", "flash", "per_query");
  variant["occupancy"] = *rc::gen::element(1, 2, 3);
  variant["min_blocks"] = *rc::gen::element(0.0, 0.25, 1.0);
  variant["per_head"] =
      any_terms({"first_tokens", "splitting", "blocks", "blocks_above_1", "blocks_above_4",
                 "tokens_to_16", "tokens_to_128", "stream_above_128", "stream_above_256",
                 "read_above_256", "read_above_1024", "kv", "kv_above_256", "kv_above_1024"});
  variant["grouped"] =
      any_terms({"block_tokens", "splitting", "log_tokens", "waves", "waves_x_tiles", "blocks",
                 "blocks_above_8", "blocks_x_group", "read_in_waves", "read", "read_x_tiles",
                 "read_x_group", "kv", "reordering"});
  return variant;
}

// Steeper and rougher than any fit leaves it.
std::string any_correction(Phase phase) {
  std::string text;
  for (int i = models::num_attention_features(phase); i > 0; --i) {
    text += std::to_string(*rc::gen::inRange(-300, 301)) + " ";
  }
  return text;
}

std::unique_ptr<OpModel> any_attention(Phase phase) {
  Json variant = any_variant(phase);
  if (*rc::gen::arbitrary<bool>()) variant["correction_permille"] = any_correction(phase);
  const Json coefficients = {{"dtype", *rc::gen::element<std::string>("bfloat16", "fp8")},
                             {"phase", name_of(phase)},
                             {"variants", Json::array({variant})}};
  const Device device = *rc::gen::element(t4(), v100(), a100(), h200());
  return find_fit_method(Op::attention, "operator").read(device, coefficients, "any");
}

OpQuery any_attention_query(Phase phase) {
  const double kv_heads = *rc::gen::element(1, 2, 4, 8, 12, 32);
  const double group = *rc::gen::element(1, 2, 4, 5, 8, 24, 32, 48);
  OpQuery query = attention_query(phase, real(0.5, 300), phase == Phase::decode ? 1 : real(1, 9000),
                                  real(0, 40000), kv_heads * group, kv_heads);
  query.head_dim = *rc::gen::element(64, 80, 128, 256);
  if (*rc::gen::arbitrary<bool>()) query.kv_dtype = "fp8";
  if (*rc::gen::arbitrary<bool>()) query.window = real(1, 5000);
  return query;
}

// The next wave, tile or split is near for whole numbers, the next region for factors.
double grown(double value) {
  return *rc::gen::arbitrary<bool>() ? value * real(1, 3) : std::floor(value) + 1;
}

void check_growth(const OpModel& model, OpQuery query, double OpQuery::*field) {
  const double before = model.seconds(query);
  RC_ASSERT(std::isfinite(before));
  RC_ASSERT(before > 0);
  query.*field = grown(query.*field);
  RC_ASSERT(model.seconds(query) >= before * (1 - 1e-9));
}

RC_GTEST_PROP(AttentionOperatorProperty, NeverFallsWithWork, ()) {
  const Phase phase = *rc::gen::element(Phase::prefill, Phase::decode);
  const auto model = any_attention(phase);
  const OpQuery query = any_attention_query(phase);
  check_growth(*model, query, &OpQuery::batch_size);
  check_growth(*model, query, &OpQuery::tokens);
  check_growth(*model, query, &OpQuery::context_tokens);
}

RC_GTEST_PROP(LayerOperatorProperty, NeverFallsWithWork, ()) {
  const Phase phase = *rc::gen::element(Phase::prefill, Phase::decode);
  Json terms = Json::object();
  for (const char* name :
       {"weights", "weights_above_16_rows", "weights_above_32_rows", "weights_above_64_rows",
        "weights_above_128_rows", "products", "products_to_1024_rows", "products_above_128_rows",
        "products_above_1024_rows", "products_above_2048_rows", "products_above_4096_rows",
        "products_above_8192_rows", "kv", "kv_above_128_sequences"}) {
    terms[name] = real(0.01, 5);
  }
  const Json coefficients = {
      {"phase", name_of(phase)}, {"attention", real(0, 4)}, {"terms", terms}};
  const Device device = *rc::gen::element(t4(), v100(), a100(), h200());
  const auto model = find_fit_method(Op::layer, "operator").read(device, coefficients, "any");
  const ModelShape shape = *rc::gen::elementOf(all_shapes());
  const OpQuery query = layer_query(phase, shape, real(0.5, 300),
                                    phase == Phase::decode ? 1 : real(1, 9000), real(0, 40000));
  check_growth(*model, query, &OpQuery::batch_size);
  check_growth(*model, query, &OpQuery::tokens);
  check_growth(*model, query, &OpQuery::context_tokens);
}

}  // namespace
}  // namespace tessera::cost::operator_models_property_test
