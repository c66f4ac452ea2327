#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "layer_samples.h"
#include "models/layer_regression.h"
#include "tessera/core/json.h"

namespace tessera::cost::layer_regression_property_test {
namespace {

using test::layer_query;

double real(double low, double high) {
  return low + (high - low) * *rc::gen::inRange(0, 1'000'001) / 1e6;
}

// Of ten powers, so that fast and slow kernels are as likely.
double any_seconds() { return std::pow(10, real(-4.5, 1)); }

OpQuery any_query(Phase phase, std::int32_t bitwidth) {
  const ModelShape model = *rc::gen::elementOf(test::all_shapes());
  return layer_query(model, phase, bitwidth, real(1, 64),
                     phase == Phase::prefill ? real(1, 2048) : 1, real(0, 4096));
}

std::vector<Sample> any_samples(Phase phase, std::int32_t bitwidth) {
  std::vector<Sample> samples(*rc::gen::inRange<std::size_t>(1, 8));
  for (Sample& sample : samples) {
    sample.query = any_query(phase, bitwidth);
    if (*rc::gen::inRange(0, 4) == 0) sample.query.name = "self_attn";
    sample.latency_s = any_seconds();
  }
  return samples;
}

struct Fitted {
  Phase phase;
  std::int32_t bitwidth;
  std::unique_ptr<OpModel> model;
};

// From points without rhyme or reason, with and without a donor.
Fitted any_model() {
  Fitted fitted;
  fitted.phase = *rc::gen::element(Phase::prefill, Phase::decode);
  fitted.bitwidth = *rc::gen::element(3, 4, 8, 16);
  const FitMethod& method = models::layer_regression();
  const auto points = any_samples(fitted.phase, fitted.bitwidth);
  fitted.model = method.fit(test::t4(), points, nullptr);
  if (*rc::gen::arbitrary<bool>()) {
    const auto few = any_samples(fitted.phase, fitted.bitwidth);
    fitted.model = method.fit(test::v100(), few, fitted.model.get());
  }
  return fitted;
}

RC_GTEST_PROP(LayerRegressionProperty, PositiveAndMonotoneWhateverTheData, ()) {
  const Fitted fitted = any_model();
  const OpQuery query = any_query(fitted.phase, fitted.bitwidth);
  const double before = fitted.model->seconds(query);
  RC_ASSERT(std::isfinite(before));
  RC_ASSERT(before > 0);
  for (double OpQuery::*field :
       {&OpQuery::batch_size, &OpQuery::tokens, &OpQuery::context_tokens}) {
    OpQuery more = query;
    more.*field += real(0, *rc::gen::element(0.5, 10.0, 100'000.0));
    RC_ASSERT(fitted.model->seconds(more) >= before * (1 - 1e-12));
  }
}

RC_GTEST_PROP(LayerRegressionProperty, CoefficientsReadBackToTheSameModel, ()) {
  const Fitted fitted = any_model();
  const Json written = parse_json(fitted.model->coefficients().dump(), "here");
  const Device device = *rc::gen::element(test::t4(), test::v100());
  const auto one = models::layer_regression().read(device, fitted.model->coefficients(), "here");
  const auto two = models::layer_regression().read(device, written, "here");
  const OpQuery query = any_query(fitted.phase, fitted.bitwidth);
  RC_ASSERT(one->seconds(query) == two->seconds(query));
  RC_ASSERT(one->coefficients() == fitted.model->coefficients());
}

// Nor does rounding decide between exponents, short of a tie.
RC_GTEST_PROP(LayerRegressionProperty, TheOrderOfThePointsDoesNotMatter, ()) {
  const auto points = any_samples(Phase::decode, 4);
  const std::vector<Sample> reversed(points.rbegin(), points.rend());
  const OpQuery query = any_query(Phase::decode, 4);
  const auto model = models::layer_regression().fit(test::t4(), points, nullptr);
  const auto other = models::layer_regression().fit(test::t4(), reversed, nullptr);
  RC_ASSERT(std::abs(model->seconds(query) / other->seconds(query) - 1) < 1e-6);
}

}  // namespace
}  // namespace tessera::cost::layer_regression_property_test
