// Attention and layers as sums of terms: fitted to tables that such a model made, carried to
// another GPU, written and read.
#include "operator_models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "expect_error.h"
#include "tessera/cost/held_out.h"

namespace tessera::cost::operator_models_test {
namespace {

using test::expect_error;
using namespace test;  // NOLINT: the makers of this test

const FitMethod& attention() { return find_fit_method(Op::attention, "operator"); }
const FitMethod& layer() { return find_fit_method(Op::layer, "operator"); }

double worst_error(const OpModel& model, const std::vector<Sample>& samples) {
  double worst = 0;
  for (const Sample& sample : samples) {
    worst = std::max(worst, std::abs(model.seconds(sample.query) / sample.latency_s - 1));
  }
  return worst;
}

double mean_error(const OpModel& model, const std::vector<Sample>& samples) {
  double sum = 0;
  for (const Sample& sample : samples) {
    sum += std::abs(model.seconds(sample.query) / sample.latency_s - 1);
  }
  return sum / static_cast<double>(samples.size());
}

std::vector<Sample> every(const std::vector<Sample>& samples, std::size_t step) {
  std::vector<Sample> result;
  for (std::size_t i = 0; i < samples.size(); i += step) result.push_back(samples[i]);
  return result;
}

TEST(AttentionOperator, FitsATableThatSuchAModelMade) {
  for (const auto& [phase, text] :
       {std::pair{Phase::decode, kDecodeAttention}, std::pair{Phase::prefill, kPrefillAttention}}) {
    const auto truth = operator_model(Op::attention, a100(), text);
    const auto samples = attention_samples(*truth, phase);
    const auto fitted = attention().fit(a100(), samples, nullptr);
    EXPECT_LT(worst_error(*fitted, samples), 0.02) << name_of(phase);
  }
}

TEST(AttentionOperator, ReadsBackWhatItWrites) {
  for (const auto& [phase, text] :
       {std::pair{Phase::decode, kDecodeAttention}, std::pair{Phase::prefill, kPrefillAttention}}) {
    const auto truth = operator_model(Op::attention, a100(), text);
    const auto fitted = attention().fit(a100(), attention_samples(*truth, phase), nullptr);
    const auto again = attention().read(a100(), fitted->coefficients(), "again");
    EXPECT_EQ(again->coefficients(), fitted->coefficients());
    const OpQuery query = attention_query(phase, 3, 700, 99, 32, 8);
    EXPECT_EQ(again->seconds(query), fitted->seconds(query));
  }
}

// Of every geometry of heads a quarter more batch sizes and lengths than the terms need.
std::vector<Sample> many_prompts(const OpModel& model) {
  std::vector<Sample> samples;
  for (const double batch_size : {1, 2, 4, 8, 16}) {
    for (const double tokens : {32, 128, 512, 1024, 2048, 8192}) {
      for (const double num_kv_heads : {1, 2, 4, 8}) {
        for (const double num_heads : {8, 16, 32}) {
          Sample sample;
          sample.query =
              attention_query(Phase::prefill, batch_size, tokens, 0, num_heads, num_kv_heads);
          sample.latency_s = model.seconds(sample.query);
          samples.push_back(sample);
        }
      }
    }
  }
  return samples;
}

TEST(AttentionOperator, CorrectsWhatTheTermsLeaveOver) {
  const auto truth = operator_model(Op::attention, a100(), kPrefillAttention);
  auto samples = many_prompts(*truth);
  for (Sample& sample : samples) {
    const double group = sample.query.num_heads / sample.query.num_kv_heads;
    if (group > 2) sample.latency_s *= 1.5;  // which no term says
  }
  const auto fitted = attention().fit(a100(), samples, nullptr);
  EXPECT_LT(mean_error(*fitted, samples), 0.03);

  Json json = fitted->coefficients();
  const auto whole = attention().read(h200(), json, "whole");
  json["variants"][0].erase("correction_permille");
  const auto terms = attention().read(h200(), json, "terms");
  EXPECT_GT(mean_error(*attention().read(a100(), json, "terms"), samples), 0.05);
  const auto donated = attention().fit(h200(), {}, fitted.get());
  const OpQuery query = attention_query(Phase::prefill, 4, 2048, 0, 32, 8);
  const double full = std::log(whole->seconds(query) / terms->seconds(query));
  EXPECT_NEAR(std::log(donated->seconds(query) / terms->seconds(query)), full / 4, 0.01);

  // Beyond the knots the terms say how time grows; a chunk is between its prompt and the whole.
  const OpQuery longest = attention_query(Phase::prefill, 1, 262144, 0, 32, 8);
  OpQuery longer = longest;
  longer.tokens *= 4;
  EXPECT_NEAR(fitted->seconds(longer) / fitted->seconds(longest), 16, 1);
  const OpQuery later = attention_query(Phase::prefill, 4, 2048, 4096, 32, 8);
  const OpQuery all = attention_query(Phase::prefill, 4, 6144, 0, 32, 8);
  EXPECT_GT(fitted->seconds(later), 3 * fitted->seconds(query));  // five times the pairs
  EXPECT_LT(fitted->seconds(later), fitted->seconds(all));
}

// Where multiprocessors suffice for one wave more blocks are free; the next one starts another.
TEST(AttentionOperator, GroupedDecodeRunsInWaves) {
  const auto model = operator_model(Op::attention, a100(), kDecodeAttention);
  const auto at = [&](double batch_size) {
    return model->seconds(attention_query(Phase::decode, batch_size, 1, 63, 32, 8));
  };
  EXPECT_DOUBLE_EQ(at(8), at(13));  // 104 blocks on 108 multiprocessors
  EXPECT_GT(at(14), 1.3 * at(13));
  EXPECT_DOUBLE_EQ(at(14), at(27));
}

// Published runtimes give queries that share keys to the grouped kernel: 8 times fewer bytes.
TEST(AttentionOperator, SharedKeysAreReadOnce) {
  const auto model = operator_model(Op::attention, a100(), kDecodeAttention);
  const double own = model->seconds(attention_query(Phase::decode, 64, 1, 8191, 32, 32));
  const double shared = model->seconds(attention_query(Phase::decode, 64, 1, 8191, 32, 4));
  EXPECT_LT(shared, own / 4);
}

Json decode_kernel(const char* name, double tile_tokens) {
  return {{"dtype", "bfloat16"},
          {"phase", "decode"},
          {"variants",
           Json::array({{{"head_dim", 128},
                         {"tile_tokens", tile_tokens},
                         {"occupancy", 2},
                         {"min_blocks", 0},
                         {"kernel", name},
                         {"per_head", {{"launch", 10}}},
                         {"grouped",
                          {{"launch", 6}, {"splitting", 2}, {"read", 0.9}, {"reordering", 6}}}}})}};
}

// FlashAttention 2 splits the context of heads that share keys, over whatever runs at a time, and
// copies the queries of several sequences; heads that share none read theirs in one block each.
TEST(AttentionOperator, FlashDecodeSplitsContextsOfSharedKeys) {
  const auto model = attention().read(a100(), decode_kernel("flash", 128), "test");
  const auto at = [&](double batch_size, double context, double num_heads, double num_kv_heads) {
    return model->seconds(
        attention_query(Phase::decode, batch_size, 1, context - 1, num_heads, num_kv_heads));
  };
  // One block on one of 108 multiprocessors against 16 of them, 2 x 108 in all.
  EXPECT_GT(at(1, 65536, 8, 8), 8 * at(1, 65536, 8, 4));
  EXPECT_NEAR(at(1, 65536, 8, 8) / at(1, 32768, 8, 8), 2, 0.02);
  EXPECT_DOUBLE_EQ(at(1, 65536, 8, 8), at(4, 65536, 8, 8));  // 32 blocks run at a time
  EXPECT_NEAR(at(2, 64, 8, 4) - at(1, 64, 8, 4), 6e-6, 1e-12);
  EXPECT_DOUBLE_EQ(at(2, 64, 8, 1), at(1, 64, 8, 1));  // one KV head: nothing to reorder
  EXPECT_DOUBLE_EQ(at(2, 64, 8, 8), at(1, 64, 8, 8));
}

// A kernel that knows neither groups nor splits reads whole tiles, once for every query head.
TEST(AttentionOperator, KernelsPerQueryReadEveryContextWhole) {
  const auto model = attention().read(a100(), decode_kernel("per_query", 32), "test");
  const auto at = [&](double batch_size, double context, double num_kv_heads) {
    return model->seconds(
        attention_query(Phase::decode, batch_size, 1, context - 1, 32, num_kv_heads));
  };
  EXPECT_DOUBLE_EQ(at(8, 2048, 4), at(8, 2048, 32));
  EXPECT_DOUBLE_EQ(at(1, 65, 8), at(1, 96, 8));
  EXPECT_GT(at(1, 97, 8), at(1, 96, 8));
  EXPECT_DOUBLE_EQ(at(1, 65536, 8), at(3, 65536, 8));  // 96 of 108
  EXPECT_GT(at(8, 65536, 8), 2 * at(1, 65536, 8));
}

// The kernel that made a table is found by its errors, written, and read back.
TEST(AttentionOperator, FindsTheDecodeKernelOfATable) {
  for (const char* name : {"flash", "per_query"}) {
    const auto truth =
        attention().read(a100(), decode_kernel(name, name[0] == 'f' ? 128 : 32), "t");
    const auto samples = attention_samples(*truth, Phase::decode);
    const auto fitted = attention().fit(a100(), samples, nullptr);
    EXPECT_LT(worst_error(*fitted, samples), 0.02) << name;
    const Json json = fitted->coefficients();
    EXPECT_EQ(json["variants"][0].value("kernel", "xqa"), name);
    EXPECT_EQ(attention().read(a100(), json, "again")->coefficients(), json);
  }
}

TEST(AttentionOperator, TwentyPointsCarryItToAnotherGpu) {
  for (const auto& [phase, text] :
       {std::pair{Phase::decode, kDecodeAttention}, std::pair{Phase::prefill, kPrefillAttention}}) {
    const auto donor = operator_model(Op::attention, a100(), text);
    const auto truth = operator_model(Op::attention, h200(), text);
    auto all = attention_samples(*truth, phase);
    for (Sample& sample : all) sample.latency_s *= 1.4;  // the GPU reaches less of its data sheet
    const auto few = every(all, all.size() / 20);
    EXPECT_NEAR(mean_error(*attention().fit(h200(), {}, donor.get()), all), 1 - 1 / 1.4, 1e-6);
    EXPECT_LT(mean_error(*attention().fit(h200(), few, donor.get()), all), 0.05);
    const auto one = attention().fit(h200(), {all[7]}, donor.get());
    EXPECT_LT(worst_error(*one, {all[7]}), 0.02);
  }
}

// Otherwise a GPU that was left out would be told by the typical one, which was measured.
TEST(AttentionOperator, FewPointsNeedADonor) {
  const auto truth = operator_model(Op::attention, a100(), kPrefillAttention);
  const auto few = every(attention_samples(*truth, Phase::prefill), 20);
  expect_error(ErrorCode::invalid_argument, {"terms", "donor"},
               [&] { attention().fit(a100(), few, nullptr); });
  EXPECT_LT(worst_error(*attention().fit(a100(), few, truth.get()), few), 0.02);
}

TEST(AttentionOperator, NamesWhatDoesNotDo) {
  const auto decode = operator_model(Op::attention, a100(), kDecodeAttention);
  const auto prefill = operator_model(Op::attention, a100(), kPrefillAttention);
  auto samples = attention_samples(*decode, Phase::decode);
  const auto invalid = ErrorCode::invalid_argument;
  expect_error(invalid, {"no samples"}, [&] { attention().fit(a100(), {}, nullptr); });
  expect_error(invalid, {"donor"}, [&] { attention().fit(a100(), samples, prefill.get()); });
  const auto other = operator_model(Op::layer, a100(), kDecodeLayer);
  expect_error(invalid, {"donor"}, [&] { attention().fit(a100(), samples, other.get()); });
  samples.push_back(attention_samples(*prefill, Phase::prefill).front());
  expect_error(invalid, {"in one fit"}, [&] { attention().fit(a100(), samples, nullptr); });
  const auto read = [&](const char* text) {
    return [text] { operator_model(Op::attention, a100(), text); };
  };
  expect_error(invalid, {"test: phase", "both", "one of 'prefill', 'decode'"},
               read(R"({"dtype": "fp8", "phase": "both", "variants": []})"));
  expect_error(invalid, {"variants", "at least one"},
               read(R"({"dtype": "fp8", "phase": "decode", "variants": []})"));
  expect_error(invalid, {"unknown dtype", "bfloat17"},
               read(R"({"dtype": "bfloat17", "phase": "decode", "variants": []})"));
  expect_error(invalid, {"variants[0]: prefill", "lanch"},
               read(R"({"dtype": "fp8", "phase": "prefill", "variants": [
                     {"head_dim": 128, "tile_tokens": 64, "prefill": {"lanch": 3}}]})"));
  expect_error(invalid, {"variants[0]: kernel", "flush", "'xqa', 'flash', 'per_query'"}, [] {
    Json json = decode_kernel("flash", 128);
    json["variants"][0]["kernel"] = "flush";
    attention().read(a100(), json, "test");
  });
  expect_error(invalid, {"no coefficient is positive"},
               read(R"({"dtype": "fp8", "phase": "prefill", "variants": [
                     {"head_dim": 128, "tile_tokens": 64, "prefill": {}}]})"));
}

std::vector<Sample> decode_table(const OpModel& model, const ModelShape& shape) {
  std::vector<Sample> samples;
  for (double requests = 2; requests <= 400; requests += requests < 20 ? 2 : 20) {
    Sample sample;
    sample.query = layer_query(Phase::decode, shape, requests, 1, 880);
    sample.latency_s = model.seconds(sample.query);
    samples.push_back(sample);
  }
  return samples;
}

// What is fitted are shares of the data sheet, so a layer of twice the weights takes about twice.
TEST(LayerOperator, HoldsForLayersOfOtherShapes) {
  const auto truth = operator_model(Op::layer, t4(), kDecodeLayer);
  const auto fitted = layer().fit(t4(), decode_table(*truth, opt_13b()), nullptr);
  EXPECT_LT(worst_error(*fitted, decode_table(*truth, opt_13b())), 0.02);
  EXPECT_LT(worst_error(*fitted, decode_table(*truth, opt_66b())), 0.05);
}

TEST(LayerOperator, TwentyPointsCarryItToAnotherGpu) {
  const auto donor = operator_model(Op::layer, a100(), kDecodeLayer);
  const auto truth = operator_model(Op::layer, t4(), kDecodeLayer);
  auto table = decode_table(*truth, opt_30b());
  for (Sample& sample : table) sample.latency_s *= 1.3;
  EXPECT_GT(worst_error(*layer().fit(t4(), {}, donor.get()), table), 0.2);
  EXPECT_LT(worst_error(*layer().fit(t4(), every(table, 2), donor.get()), table), 0.02);
}

// A batch of many short prompts, told as one of so many tokens, costs in proportion to them.
TEST(LayerOperator, LearnsThatATableHasNoLongPrompts) {
  std::vector<Sample> table;
  for (double tokens = 250; tokens <= 15000; tokens += 250) {
    Sample sample;
    sample.query = layer_query(Phase::prefill, opt_30b(), 1, tokens, 0);
    sample.latency_s = 5e-6 * tokens;
    table.push_back(sample);
  }
  EXPECT_LT(worst_error(*layer().fit(a100(), table, nullptr), table), 0.05);
}

TEST(LayerOperator, ReadsBackWhatItWritesAndNamesWhatDoesNotDo) {
  const auto model = operator_model(Op::layer, t4(), kDecodeLayer);
  EXPECT_EQ(layer().read(t4(), model->coefficients(), "again")->coefficients(),
            model->coefficients());
  const auto invalid = ErrorCode::invalid_argument;
  expect_error(invalid, {"no samples"}, [&] { layer().fit(t4(), {}, nullptr); });
  auto samples = decode_table(*model, opt_13b());
  const auto other = operator_model(Op::attention, a100(), kDecodeAttention);
  expect_error(invalid, {"donor"}, [&] { layer().fit(t4(), samples, other.get()); });
  samples.back().query.bitwidth = 8;
  expect_error(invalid, {"in one fit"}, [&] { layer().fit(t4(), samples, nullptr); });
  expect_error(invalid, {"phase", "prefil"}, [] {
    operator_model(Op::layer, t4(), R"({"phase": "prefil", "attention": 0, "terms": {}})");
  });
  expect_error(invalid, {"terms", "weight"}, [] {
    operator_model(Op::layer, t4(),
                   R"({"phase": "decode", "attention": 0, "terms": {"weight": 1}})");
  });
}

}  // namespace
}  // namespace tessera::cost::operator_models_test
