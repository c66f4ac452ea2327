// The effect of one layer's quantisation against direct sums; what is kept when it is stopped.

#include "tessera/lm/layer_loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "expect_error.h"
#include "fake_language_model.h"
#include "folder.h"
#include "tessera/core/json.h"

namespace tessera::lm::layer_loss_test {
namespace {

using fakes::FakeModel;
using tessera::test::expect_error;

class LayerLoss : public tessera::test::FolderTest {
 protected:
  LayerLoss() {
    request_.input.token_ids = fakes::random_tokens(200, 1);
    request_.input.name = "random";
    request_.num_pieces = 5;
    request_.piece_tokens = 30;
  }

  struct Expected {
    double mean = 0, standard_error = 0;
  };
  /// Over the pieces, by the definition.
  Expected expected(std::int64_t layer, std::int32_t bitwidth) const {
    LayerForm form;
    form.bitwidth = bitwidth;
    const auto shared = model_.with_layer(layer, form);
    const auto& changed = dynamic_cast<const FakeModel&>(*shared);
    std::vector<double> pieces;
    for (std::size_t piece = 0; piece < 5; ++piece) {
      const auto tokens = std::span(request_.input.token_ids).subspan(30 * piece, 30);
      double sum = 0;
      for (std::size_t t = 1; t < 30; ++t) {
        const auto history = tokens.first(t);
        const auto p = model_.log_probabilities(history), q = changed.log_probabilities(history);
        const auto token = static_cast<std::size_t>(tokens[t]);
        if (request_.effect == LayerEffect::loss) {
          sum += p[token] - q[token];
        } else {
          for (std::size_t v = 0; v < p.size(); ++v) sum += std::exp(p[v]) * (p[v] - q[v]);
        }
      }
      pieces.push_back(sum / 29);
    }
    Expected result;
    for (const double piece : pieces) result.mean += piece / 5;
    for (const double piece : pieces)
      result.standard_error += (piece - result.mean) * (piece - result.mean);
    result.standard_error = std::sqrt(result.standard_error / 4 / 5);
    return result;
  }

  std::size_t check_cells(const Indicator& found) const {
    std::size_t num_negative = 0;
    EXPECT_EQ(found.num_layers, 3u);
    EXPECT_EQ(found.bitwidths, (std::vector<std::int32_t>{3, 4, 8, 16}));
    for (std::size_t layer = 0; layer < 3; ++layer) {
      for (const std::int32_t bitwidth : {3, 4, 8}) {
        const Expected cell = expected(static_cast<std::int64_t>(layer), bitwidth);
        EXPECT_NEAR(found.at(layer, bitwidth), std::max(cell.mean, 0.0), 1e-6) << layer << bitwidth;
        EXPECT_NEAR(found.standard_error_at(layer, bitwidth).value(), cell.standard_error, 1e-6);
        num_negative += cell.mean < 0 ? 1 : 0;
      }
      EXPECT_EQ(found.at(layer, 16), 0);
      EXPECT_EQ(found.standard_error_at(layer, 16).value(), 0);
    }
    return num_negative;
  }

  FakeModel model_;
  LayerLossRequest request_;
};

TEST_F(LayerLoss, IsTheRiseOfTheLoss) {
  request_.bitwidths = {8, 16, 3, 4};
  const Indicator found = measure_layer_loss(model_, request_);
  const std::size_t num_negative = check_cells(found);
  EXPECT_EQ(found.kind, "loss");
  EXPECT_EQ(found.variant, "rtn");
  EXPECT_EQ(found.provenance, Provenance::measured);
  EXPECT_GT(num_negative, 0u);
  EXPECT_NE(found.source.find(fmt::format("of 9 effects {} were below 0", num_negative)),
            std::string::npos)
      << found.source;
  EXPECT_NE(found.source.find("5 pieces of 30 tokens of random"), std::string::npos);
}

TEST_F(LayerLoss, OrTheDivergenceFromTheModelAsItIs) {
  request_.effect = LayerEffect::divergence;
  const Indicator found = measure_layer_loss(model_, request_);
  EXPECT_EQ(check_cells(found), 0u);
  EXPECT_EQ(found.kind, "divergence");
  EXPECT_GT(found.at(0, 3), found.at(0, 8));
  EXPECT_GT(found.at(2, 8), 0);
}

TEST_F(LayerLoss, RunsNoLayerBelowTheChangedOne) {
  model_.forget_counts();
  measure_layer_loss(model_, request_);
  // The model as it is: 3 layers. Then for 3 bitwidths 3, 2 and 1 layers, and 2 steps upwards.
  EXPECT_EQ(model_.counts().layer_runs, 150 * (3 + 3 * (3 + 2 + 1) + 2));
  EXPECT_EQ(model_.counts().head_rows, 5 * 29 * (1 + 9));
  EXPECT_EQ(model_.counts().changed, 9);
  model_.forget_counts();
  request_.effect = LayerEffect::divergence;
  measure_layer_loss(model_, request_);
  EXPECT_EQ(model_.counts().head_rows, 5 * 29 * (1 + 9 + 3));
  EXPECT_LE(model_.counts().most_rows, 256);
}

TEST_F(LayerLoss, TakesLongPiecesAPartAtATime) {
  FakeModel model({.max_context_tokens = 400});
  request_.input.token_ids = fakes::random_tokens(800, 2);
  request_.num_pieces = 2;
  request_.piece_tokens = 400;
  const Indicator whole = measure_layer_loss(model, request_);
  EXPECT_EQ(model.counts().most_rows, 256);
  // A cache that holds one piece only: the same.
  model.shape().layer_classes[0].num_kv_heads = 1 << 16;
  model.shape().layer_classes[0].head_dim = 1 << 10;
  EXPECT_EQ(measure_layer_loss(model, request_).omega, whole.omega);
}

TEST_F(LayerLoss, GoesOnWhereItWasStopped) {
  const Indicator whole = measure_layer_loss(model_, request_);
  request_.out = path("loss.json");
  std::atomic<bool> stop = false;
  request_.stop = &stop;
  std::vector<std::int64_t> done;
  request_.progress = [&](const LayerLossProgress& now) {
    EXPECT_EQ(now.num_layers, 3);
    EXPECT_EQ(now.cells.size(), 3u);
    EXPECT_GE(now.cells[0].standard_error, 0);
    done.push_back(now.num_done);
    stop = now.num_done == 2;
  };
  expect_error(ErrorCode::interrupted, {"2 of 3 layers", "loss.json.part"},
               [&] { measure_layer_loss(model_, request_); });
  EXPECT_EQ(num_files(), 1u);
  stop = false;
  model_.forget_counts();
  const Indicator found = measure_layer_loss(model_, request_);
  EXPECT_EQ(done, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(model_.counts().changed, 3);
  EXPECT_EQ(model_.counts().layer_runs, 150 * (3 + 2 + 3 * 1));
  EXPECT_EQ(found.omega, whole.omega);
  EXPECT_EQ(found.standard_error, whole.standard_error);
  EXPECT_EQ(found.source, whole.source);
  EXPECT_EQ(num_files(), 1u);
  const Indicator read = indicator_from_json(read_json_file(request_.out), request_.out);
  EXPECT_EQ(read.omega, found.omega);
  EXPECT_EQ(read.kind, "loss");
}

TEST_F(LayerLoss, StoppedBeforeAnyLayerLeavesNothing) {
  request_.out = path("loss.json");
  const std::atomic<bool> stop = true;
  request_.stop = &stop;
  expect_error(ErrorCode::interrupted, {"0 of 3 layers"},
               [&] { measure_layer_loss(model_, request_); });
  EXPECT_EQ(num_files(), 0u);
}

TEST_F(LayerLoss, RefusesToGoOnWithOtherWeights) {
  file("model/model.safetensors", "old");
  const FakeModel model({.text_path = path("model")});
  request_.out = path("loss.json");
  std::atomic<bool> stop = false;
  request_.stop = &stop;
  request_.progress = [&](const LayerLossProgress&) { stop = true; };
  expect_error(ErrorCode::interrupted, {"1 of 3"}, [&] { measure_layer_loss(model, request_); });
  stop = false;
  file("model/model.safetensors", "other");
  expect_error(ErrorCode::invalid_argument, {"other settings", "files of the model"},
               [&] { measure_layer_loss(model, request_); });
}

TEST_F(LayerLoss, RefusesToGoOnWithOtherSettings) {
  request_.out = path("loss.json");
  std::atomic<bool> stop = false;
  request_.stop = &stop;
  request_.progress = [&](const LayerLossProgress&) { stop = true; };
  expect_error(ErrorCode::interrupted, {"1 of 3"}, [&] { measure_layer_loss(model_, request_); });
  const std::string part = read(path("loss.json.part"));
  stop = false;
  const auto refused = [&](const std::vector<std::string>& parts, auto change) {
    LayerLossRequest request = request_;
    change(request);
    expect_error(ErrorCode::invalid_argument, parts, [&] { measure_layer_loss(model_, request); });
    EXPECT_EQ(read(path("loss.json.part")), part);
  };
  refused({"loss.json.part", "other settings", "bitwidths", "[3,4]"}, [](auto& r) {
    r.bitwidths = {4, 3};
  });
  refused({"text"}, [](auto& r) { r.input.token_ids[7] ^= 1; });
  refused({"effect", "divergence"}, [](auto& r) { r.effect = LayerEffect::divergence; });
  refused({"scheme", "\"group_size\":64"}, [](auto& r) { r.form.scheme.group_size = 64; });
  refused({"method", "gptq"}, [](auto& r) { r.form.method = quant::Method::gptq; });
  const FakeModel other({.text_path = "another"});
  expect_error(ErrorCode::invalid_argument, {"model", "another"},
               [&] { measure_layer_loss(other, request_); });
  const auto broken = [&](const std::string& content, const std::vector<std::string>& parts) {
    file("loss.json.part", content);
    expect_error(ErrorCode::invalid_argument, parts, [&] { measure_layer_loss(model_, request_); });
  };
  broken("{", {"loss.json.part"});
  broken("{}", {"format"});
  std::string shorter = part;
  const std::size_t at = shorter.find("[[[") + 3;
  shorter.erase(at, shorter.find(',', at) + 1 - at);
  broken(shorter, {"effects[0]", "4 pieces"});
}

TEST_F(LayerLoss, RefusesWhatCannotBeMeasured) {
  const auto refused = [&](ErrorCode code, const std::vector<std::string>& parts, auto change) {
    LayerLossRequest request = request_;
    change(request);
    expect_error(code, parts, [&] { measure_layer_loss(model_, request); });
  };
  const auto range = ErrorCode::out_of_range, invalid = ErrorCode::invalid_argument;
  refused(range, {"num_pieces", "1"}, [](auto& r) { r.num_pieces = 1; });
  refused(range, {"piece_tokens", "1"}, [](auto& r) { r.piece_tokens = 1; });
  refused(range, {"513", "512"}, [](auto& r) { r.piece_tokens = 513; });
  refused(invalid, {"random", "200 tokens", "7 pieces of 30 take 210"},
          [](auto& r) { r.num_pieces = 7; });
  refused(invalid, {"bitwidths", "empty"}, [](auto& r) { r.bitwidths = {16}; });
  refused(range, {"bitwidths", "5"}, [](auto& r) { r.bitwidths = {5}; });
  refused(invalid, {"bitwidths", "4 twice"}, [](auto& r) { r.bitwidths = {4, 4}; });
  refused(invalid, {"empty"}, [](auto& r) { r.input.token_ids.clear(); });
  const FakeModel broken({.broken_token = request_.input.token_ids[3]});
  expect_error(invalid, {"not finite"}, [&] { measure_layer_loss(broken, request_); });
}

}  // namespace
}  // namespace tessera::lm::layer_loss_test
