// Losses in nats to perplexity, accuracy and divergence, and bounds back to nats.
#include "tessera/core/quality.h"

#include <gtest/gtest.h>

#include <cmath>

#include "expect_error.h"
#include "tessera/core/record_json.h"
#include "tessera/core/rng.h"

namespace tessera::quality_test {
namespace {

using test::expect_error;

QualityLevels levels() {
  QualityLevels l;
  l.grade = QualityGrade::family;
  l.bitwidths = {3, 4, 8, 16};
  l.nats = {0.2, 0.04, 0.001, 0};
  l.spread = 3;
  l.kv_nats.assign(15, 0.002);
  l.kv_nats.back() = 0;
  l.kv_spread = 6;
  l.rise_per_kl = 0.8;
  l.rise_per_kl_spread = 1.5;
  l.recovery_per_rise = 0.3;
  l.recovery_per_rise_spread = 4;
  l.last_layer = 2;
  return l;
}

Indicator constant(std::size_t layers) {
  Indicator given;
  given.kind = "constant";
  given.bitwidths = {4};
  given.num_layers = layers;
  given.omega.assign(layers, 1);
  return given;
}

TEST(Quality, SharesALossOverLayers) {
  const Indicator losses = losses_by_layer(levels(), constant(4));
  EXPECT_EQ(losses.kind, kQualityIndicator);
  EXPECT_EQ(losses.variant, "");
  EXPECT_NEAR(losses.at(0, 4), 0.04 / 5, 1e-15);
  EXPECT_NEAR(losses.at(3, 4), 2 * 0.04 / 5, 1e-15);
  EXPECT_EQ(losses.at(3, 16), 0);
  double total = 0;
  for (std::size_t layer = 0; layer < 4; ++layer) total += losses.at(layer, 3);
  EXPECT_NEAR(total, 0.2, 1e-15);
}

TEST(Quality, TakesSharesFromAnIndicatorAndNatsFromALossThatWasMeasured) {
  Indicator given = constant(2);
  given.kind = "variance";
  given.omega = {1, 3};
  EXPECT_NEAR(losses_by_layer(levels(), given).at(1, 8), 0.00075, 1e-15);
  given.kind = "divergence";
  given.bitwidths = {4, 8};
  given.omega = {0.1, 0.2, 0.3, -0.1};  // falls with fewer bits, and below 0: chance
  const QualityLevels own = measured_levels(levels(), given, 1.8);
  EXPECT_EQ(own.grade, QualityGrade::measured);
  EXPECT_EQ(own.spread, 1.8);
  EXPECT_NEAR(own.at(8), 0.8 * 0.2, 1e-15);
  EXPECT_NEAR(own.at(4), 0.8 * 0.4, 1e-15);
  const Indicator losses = losses_by_layer(own, given);
  EXPECT_NEAR(losses.at(0, 4), 0.8 * 0.2, 1e-15) << "never less than at 8 bits";
  EXPECT_EQ(losses.at(1, 8), 0);
}

TEST(Quality, SaysNothingIsLostWhereNothingIs) {
  const Quality none = quality_of(levels(), 0, 0);
  EXPECT_EQ(none.perplexity_increase, (Band{0, 0, 0}));
  EXPECT_EQ(none.accuracy_recovery, (Band{1, 1, 1}));
  EXPECT_EQ(in_words(none), "as at 16 bits");
}

TEST(Quality, BandsAreInOrderAndRiseWithTheLoss) {
  Rng rng(7);
  for (int i = 0; i < 2000; ++i) {
    QualityLevels l = levels();
    l.spread = 1 + 9 * rng.uniform();
    l.kv_spread = 1 + 9 * rng.uniform();
    const double weights = std::exp(-12 + 15 * rng.uniform()), kv = rng.uniform() * 0.01;
    const Quality a = quality_of(l, weights, kv), b = quality_of(l, 1.1 * weights, kv);
    for (const Band& band : {a.perplexity_increase, a.accuracy_recovery, a.kl_nats}) {
      EXPECT_LE(band.low, band.mid) << "seed 7, draw " << i;
      EXPECT_LE(band.mid, band.high) << "seed 7, draw " << i;
      EXPECT_TRUE(std::isfinite(band.high));
    }
    EXPECT_LE(a.perplexity_increase.high, b.perplexity_increase.high);
    EXPECT_GE(a.accuracy_recovery.low, b.accuracy_recovery.low);
    EXPECT_EQ(from_json<Quality>(json_of(a), "quality"), a);
  }
}

TEST(Quality, ABoundInNatsIsTheBoundInWords) {
  Rng rng(11);
  for (int i = 0; i < 500; ++i) {
    QualityBound bound;
    bound.at = i % 2 == 0 ? BoundAt::high : BoundAt::mid;
    if (i % 3 != 0) bound.max_perplexity_increase = 0.01 + 0.5 * rng.uniform();
    if (i % 3 != 1) bound.min_accuracy_recovery = 0.6 + 0.39 * rng.uniform();
    QualityLevels l = levels();
    const double most = most_nats(l, bound);
    const double kv = std::min(0.002, most / l.kv_weight) * rng.uniform();
    const Quality kept = quality_of(l, most - l.kv_weight * kv, kv);
    const bool high = bound.at == BoundAt::high;
    if (bound.max_perplexity_increase) {
      const Band& band = kept.perplexity_increase;
      EXPECT_LE(high ? band.high : band.mid, *bound.max_perplexity_increase * (1 + 1e-9)) << i;
    }
    if (bound.min_accuracy_recovery) {
      const Band& band = kept.accuracy_recovery;
      EXPECT_GE(high ? band.low : band.mid, *bound.min_accuracy_recovery * (1 - 1e-9)) << i;
    }
  }
}

TEST(Quality, PromisesNothingFinerThanOnePercent) {
  const auto most = [](auto member, double value) {
    QualityLevels l = levels();
    QualityBound bound;
    bound.*member = value;
    return most_nats(l, bound);
  };
  EXPECT_EQ(most(&QualityBound::max_perplexity_increase, 0.0099), 0);
  EXPECT_EQ(most(&QualityBound::min_accuracy_recovery, 0.995), 0);
  EXPECT_GT(most(&QualityBound::max_perplexity_increase, 0.01), 0);
  EXPECT_GT(most(&QualityBound::min_accuracy_recovery, 0.99), 0);
}

TEST(Quality, RefusesWhatDoesNotAgree) {
  expect_error(ErrorCode::out_of_range, {"5 bits"}, [] { levels().at(5); });
  QualityLevels l = levels();
  l.nats.pop_back();
  expect_error(ErrorCode::invalid_argument, {"3 losses of 4 bitwidths"},
               [&] { from_json<QualityLevels>(json_of(l), "levels"); });
  l = levels();
  l.kv_nats.pop_back();
  expect_error(ErrorCode::invalid_argument, {"14 losses; 15"},
               [&] { from_json<QualityLevels>(json_of(l), "levels"); });
  EXPECT_EQ(from_json<QualityLevels>(json_of(levels()), "levels"), levels());
  expect_error(ErrorCode::invalid_argument, {"is not between"}, [] {
    check_record(Band{2, 1, 3}, FieldPath{"band"});
  });
}

}  // namespace
}  // namespace tessera::quality_test
