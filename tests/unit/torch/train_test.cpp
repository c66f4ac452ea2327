// Training small decoders: they learn, what they leave reads back, and seeds repeat.
#include "tessera/lm/train.h"

#include <algorithm>
#include <cmath>

#include "expect_error.h"
#include "folder.h"
#include "tessera/weights/weights.h"

namespace tessera::lm::train_test {
namespace {

using test::expect_error;

/// Two layers, and a text that goes round: after a few tokens everything is known.
TrainRequest small_request(const std::string& path) {
  TrainRequest request;
  request.out = path;
  request.num_layers = 2;
  request.hidden_size = 24;
  request.num_heads = 3;
  request.ffn_size = 40;
  request.vocab_size = 11;
  request.max_context_tokens = 16;
  for (int i = 0; i < 700; ++i) request.tokens.push_back(i % 7 + 4);
  request.held_out_tokens.assign(request.tokens.begin() + 3, request.tokens.begin() + 103);
  request.seed = 5;
  request.num_steps = 40;
  request.batch_size = 4;
  request.warmup_steps = 5;
  request.peak_learning_rate = 1e-2;
  request.report_every = 10;
  return request;
}

class Train : public test::FolderTest {
 protected:
  TrainRequest request(const std::string& name = "model") const {
    return small_request(path(name));
  }
  std::string bytes(const std::string& name) const {
    return read(path(name + "/model.safetensors"));
  }
};

TEST_F(Train, LearnsWhatRepeats) {
  TrainRequest wanted = request();
  std::vector<TrainProgress> reports;
  wanted.progress = [&](const TrainProgress& progress) {
    reports.push_back(progress);
    return true;
  };
  const TrainSummary summary = train_decoder(wanted);
  EXPECT_EQ(summary.num_tokens, 40 * 4 * 16);
  ASSERT_EQ(reports.size(), 4U);
  EXPECT_EQ(reports.back().step, 40);
  EXPECT_EQ(reports.back().loss_nats, summary.loss_nats);
  EXPECT_LT(reports.front().loss_nats, std::log(11.0) + 0.5);
  EXPECT_LT(summary.loss_nats, 0.3);            // log(7) without knowing the token before
  EXPECT_LT(*summary.held_out_loss_nats, 0.1);  // of the last weights, rounded to f16
  EXPECT_GT(*summary.held_out_loss_nats, 0);
}

TEST_F(Train, WritesWhatReadsBackAsOpt) {
  const TrainSummary summary = train_decoder(request());
  const auto weights = weights::Weights::open(path("model"));
  const ModelShape shape = weights::model_of(*weights);
  EXPECT_EQ(shape.family, "opt");
  EXPECT_EQ(shape.num_layers, 2);
  EXPECT_EQ(shape.hidden_size, 24);
  EXPECT_EQ(shape.num_heads, 3);
  EXPECT_EQ(shape.ffn_size, 40);
  EXPECT_EQ(shape.max_context_tokens, 16);
  // The file has two rows of positions that the architecture counts as well.
  EXPECT_EQ(weights->size_bytes(), 2 * static_cast<std::uint64_t>(summary.num_parameters + 2 * 24));
  EXPECT_EQ(weights->require("model.decoder.embed_positions.weight").shape,
            (std::vector<std::int64_t>{18, 24}));
  const auto& key = weights->require("model.decoder.layers.1.self_attn.k_proj.weight");
  EXPECT_EQ(key.dtype, weights::DType::f16);
  EXPECT_EQ(key.shape, (std::vector<std::int64_t>{24, 24}));
  EXPECT_EQ(weights->find("lm_head.weight"), nullptr);
}

TEST_F(Train, RepeatsForASeed) {
  train_decoder(request("a"));
  TrainRequest other = request("b");
  other.seed = 6;
  train_decoder(other);
  EXPECT_NE(bytes("a"), bytes("b"));
  train_decoder(request("c"));
  EXPECT_EQ(bytes("a"), bytes("c"));
}

TEST_F(Train, ThreadsShareTheBatch) {
  TrainRequest wanted = request("two");
  wanted.num_threads = 2;
  const double two = train_decoder(wanted).held_out_loss_nats.value();
  const std::string first = bytes("two");
  wanted.out = path("again");
  train_decoder(wanted);
  EXPECT_EQ(first, bytes("again"));
  EXPECT_NEAR(two, train_decoder(request("one")).held_out_loss_nats.value(), 0.02);
}

TEST_F(Train, OutliersLeaveTheFunctionAlone) {
  const double plain = train_decoder(request("plain")).held_out_loss_nats.value();
  TrainRequest wanted = request("outliers");
  wanted.outlier_channels = 3;
  wanted.outlier_scale = 8;
  wanted.outlier_shift = 20;
  EXPECT_NEAR(train_decoder(wanted).held_out_loss_nats.value(), plain, 0.005);
  const auto weights = weights::Weights::open(path("outliers"));
  const auto& bias = weights->require("model.decoder.layers.1.final_layer_norm.bias");
  std::vector<float> values(24);
  weights::read_f32(*weights, bias, 0, values);
  EXPECT_EQ(std::count_if(values.begin(), values.end(), [](float v) { return std::abs(v) > 10; }),
            3);
}

TEST_F(Train, GoesOnFromWhatItWrote) {
  const double first = train_decoder(request("first")).held_out_loss_nats.value();
  TrainRequest wanted = request("second");
  wanted.initial = path("first");
  wanted.num_steps = 1;
  wanted.warmup_steps = 0;
  wanted.peak_learning_rate = 0;
  EXPECT_EQ(train_decoder(wanted).held_out_loss_nats.value(), first);
  EXPECT_EQ(bytes("first"), bytes("second"));
  wanted.out = path("third");
  wanted.num_layers = 3;
  expect_error(ErrorCode::not_found, {"layers.2"}, [&] { train_decoder(wanted); });
  wanted.num_layers = 2;
  wanted.ffn_size = 41;
  expect_error(ErrorCode::invalid_argument, {"initial", "[40, 24]", "[41, 24]"},
               [&] { train_decoder(wanted); });
}

TEST_F(Train, StopsWhenToldAndLeavesNothing) {
  TrainRequest wanted = request();
  wanted.progress = [](const TrainProgress& progress) { return progress.step < 20; };
  expect_error(ErrorCode::interrupted, {"20 of 40 steps"}, [&] { train_decoder(wanted); });
  EXPECT_EQ(num_files(), 0U);
}

TEST_F(Train, RefusesWhatMakesNoSense) {
  const auto refused = [&](ErrorCode code, const std::string& field, auto change) {
    TrainRequest wanted = request();
    change(wanted);
    expect_error(code, {field}, [&] { train_decoder(wanted); });
  };
  const auto range = ErrorCode::out_of_range, argument = ErrorCode::invalid_argument;
  refused(range, "num_layers", [](TrainRequest& r) { r.num_layers = 0; });
  refused(argument, "hidden_size: 24 is no multiple", [](TrainRequest& r) { r.num_heads = 5; });
  refused(argument, "token 10 at 6", [](TrainRequest& r) { r.vocab_size = 10; });
  refused(argument, "tokens", [](TrainRequest& r) { r.tokens.resize(16); });
  refused(argument, "batch_size", [](TrainRequest& r) { r.num_threads = 3; });
  refused(range, "peak_learning_rate",
          [](TrainRequest& r) { r.peak_learning_rate = std::nan(""); });
  refused(range, "outlier_scale", [](TrainRequest& r) { r.outlier_scale = 0.5; });
  refused(argument, "out", [](TrainRequest& r) { r.out.clear(); });
  refused(argument, "there already", [&](TrainRequest& r) { r.out = path("."); });
  EXPECT_EQ(num_files(), 0U);
}

}  // namespace
}  // namespace tessera::lm::train_test
