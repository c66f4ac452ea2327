// Indicators made from weights, against what tests/reference/indicator_fixture.py computed with
// numpy.
#include "tessera/indicator/from_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "expect_error.h"
#include "folder.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/weights/writer.h"

namespace tessera::indicator::from_weights_test {
namespace {

const std::string kData = std::string(TESSERA_SOURCE_DIR) + "/experiments/indicator/data/";

std::shared_ptr<const weights::Weights> tiny() {
  return weights::Weights::open(kData + "tiny_llama");
}
quant::Statistics statistics() {
  return quant::Statistics::open(kData + "tiny_llama.statistics.safetensors");
}

WeightsRequest request_of(const std::string& kind) {
  WeightsRequest request;
  request.kind = kind;
  request.bitwidths = {3, 4, 8, 16};
  request.scheme.granularity =
      kind == "variance" ? quant::Granularity::tensor : quant::Granularity::channel;
  return request;
}

WeightsRequest request_of(const Json& options, std::int64_t group_size) {
  WeightsRequest request = request_of(options.at("kind").get<std::string>());
  request.variant = options.value("variant", "paper");
  request.scheme.symmetric = options.value("symmetric", true);
  request.scheme.group_size = group_size;
  if (options.value("rounding", "deterministic") == "stochastic")
    request.scheme.rounding = kernels::Rounding::stochastic;
  const std::string granularity = options.value("granularity", "");
  if (granularity == "channel") request.scheme.granularity = quant::Granularity::channel;
  if (granularity == "group") request.scheme.granularity = quant::Granularity::group;
  return request;
}

TEST(FromWeights, AgreesWithNumpy) {
  const Json expected = read_json_file(kData + "tiny_llama.expected.json");
  const auto weights = tiny();
  const quant::Statistics inputs = statistics();
  ASSERT_GE(expected.at("cases").size(), 17u);
  for (const Json& one : expected.at("cases")) {
    const WeightsRequest request = request_of(one, expected.at("group_size").get<std::int64_t>());
    const Indicator found =
        make_from_weights(*weights, one.value("weights_only", false) ? nullptr : &inputs, request);
    ASSERT_EQ(found.num_layers, one.at("omega").size());
    for (std::size_t layer = 0; layer < found.num_layers; ++layer) {
      for (std::size_t b = 0; b < found.bitwidths.size(); ++b) {
        const double value = one.at("omega")[layer][b].get<double>();
        EXPECT_NEAR(found.at(layer, found.bitwidths[b]), value, 1e-4 * value)
            << found.source << ", layer " << layer << ", " << found.bitwidths[b] << " bits";
      }
    }
  }
}

TEST(FromWeights, SaysWhatItWasMadeFrom) {
  const quant::Statistics inputs = statistics();
  std::vector<std::size_t> done;
  WeightsRequest request = request_of("variance");
  request.progress = [&](std::size_t num_done, std::size_t num_layers) {
    EXPECT_EQ(num_layers, 6u);
    done.push_back(num_done);
  };
  const Indicator known = make_from_weights(*tiny(), &inputs, request);
  EXPECT_EQ(done, (std::vector<std::size_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(known.kind, "variance");
  EXPECT_EQ(known.provenance, Provenance::modelled);
  EXPECT_THAT(known.source, testing::AllOf(testing::HasSubstr("tiny_llama;"),
                                           testing::HasSubstr("symmetric, deterministic rounding"),
                                           testing::HasSubstr("scale per tensor"),
                                           testing::HasSubstr("96 tokens of random inputs")));
  EXPECT_GT(known.weights_s, 0);
  EXPECT_GT(known.statistics_s, 0);
  EXPECT_GE(known.overhead_s, known.weights_s + known.statistics_s);

  const Indicator unknown = make_from_weights(*tiny(), nullptr, request);
  EXPECT_THAT(unknown.source, testing::HasSubstr("no statistics: inputs taken to have zero mean"));
  EXPECT_EQ(make_from_weights(*tiny(), &inputs, request_of("measured")).provenance,
            Provenance::measured);
}

TEST(FromWeights, DoesNotDependOnTheNumberOfThreads) {
  const quant::Statistics inputs = statistics();
  for (const char* kind : {"variance", "hessian", "gptq_error", "measured"}) {
    WeightsRequest request = request_of(kind);
    if (request.kind == "measured") request.scheme.rounding = kernels::Rounding::stochastic;
    request.num_threads = 1;
    const std::vector<double> alone = make_from_weights(*tiny(), &inputs, request).omega;
    request.num_threads = 3;
    EXPECT_EQ(make_from_weights(*tiny(), &inputs, request).omega, alone) << kind;
  }
}

TEST(FromWeights, GptqLosesNoMoreThanRounding) {
  const quant::Statistics inputs = statistics();
  const Indicator gptq = make_from_weights(*tiny(), &inputs, request_of("gptq_error"));
  const Indicator rounded = make_from_weights(*tiny(), &inputs, request_of("measured"));
  for (std::size_t layer = 0; layer < gptq.num_layers; ++layer) {
    for (const std::int32_t bitwidth : {3, 4, 8}) {
      EXPECT_LE(gptq.at(layer, bitwidth), rounded.at(layer, bitwidth));
      EXPECT_GT(gptq.at(layer, bitwidth), 0);
    }
    EXPECT_EQ(gptq.at(layer, 16), 0);  // the weights stay as they are
  }
}

TEST(FromWeights, TakesThePublishedHessian) {
  const quant::Statistics inputs = statistics();
  WeightsRequest request = request_of("hessian");
  request.variant = "llm-pq-code";
  const Indicator found = make_from_weights(*tiny(), &inputs, request);
  EXPECT_GT(found.at(0, 3), found.at(0, 8));
  EXPECT_EQ(found.at(0, 16), 0);
}

TEST(FromWeights, ComesBackFromItsFile) {
  const quant::Statistics inputs = statistics();
  const Indicator made = make_from_weights(*tiny(), &inputs, request_of("hessian"));
  const Indicator read = indicator_from_json(to_json(made), "i.json");
  EXPECT_EQ(read.omega, made.omega);
  EXPECT_EQ(read.kind, "hessian");
  EXPECT_EQ(read.source, made.source);
  EXPECT_EQ(read.provenance, made.provenance);
  EXPECT_EQ(read.weights_s, made.weights_s);
  EXPECT_EQ(read.statistics_s, made.statistics_s);
}

TEST(FromWeights, RefusesWhatItCannotDo) {
  const auto refused = [](const std::string& part, const WeightsRequest& request,
                          const quant::Statistics* inputs = nullptr) {
    test::expect_error(ErrorCode::invalid_argument, {part},
                       [&] { make_from_weights(*tiny(), inputs, request); });
  };
  const quant::Statistics inputs = statistics();
  refused("'magic' is no indicator", request_of("magic"));
  for (const char* kind : {"hessian", "gptq_error", "measured"}) {
    refused("Hessians among them", request_of(kind));
  }
  WeightsRequest request = request_of("variance");
  request.variant = "llm-pq-code";
  refused("as the published code has it needs statistics", request);
  request.variant = "llm-pq-uniform";
  refused("has no variant 'llm-pq-uniform'; it has 'paper', 'llm-pq', 'llm-pq-code'", request);
  request = request_of("measured");
  request.bitwidths = {4, 5};
  refused("3, 4 or 8 bits (16: not at all), not to 5", request, &inputs);
  request.bitwidths = {};
  refused("bitwidths is empty", request, &inputs);
}

class ChangedWeights : public test::FolderTest {
 protected:
  // The tiny model with one weight replaced.
  std::string with_weight(const std::string& tensor, float value) {
    const auto weights = tiny();
    std::vector<weights::TensorSpec> specs;
    for (const weights::TensorInfo& info : weights->tensors())
      specs.push_back({info.name, info.dtype, info.shape});
    file("config.json", read(kData + "tiny_llama/config.json"));
    weights::SafetensorsWriter writer(path("model.safetensors"), specs);
    for (const weights::TensorInfo& info : weights->tensors()) {
      const auto all = weights->bytes(info);
      std::vector<std::byte> bytes(all.begin(), all.end());
      if (info.name == tensor) std::memcpy(bytes.data() + 20, &value, sizeof value);
      writer.append(info.name, bytes);
    }
    writer.finish();
    return folder_.string();
  }
};

TEST_F(ChangedWeights, NotFiniteAreNamed) {
  const std::string folder = with_weight("model.layers.0.mlp.up_proj.weight", NAN);
  test::expect_error(
      ErrorCode::invalid_argument,
      {"model.safetensors: 1 of 384 weights of layer 0 up_proj are NaN"},
      [&] { make_from_weights(*weights::Weights::open(folder), nullptr, request_of("variance")); });
}

TEST_F(ChangedWeights, AnOutlierCostsTheWholeTensorButOneChannelOnly) {
  const quant::Statistics inputs = statistics();
  const auto changed = weights::Weights::open(with_weight("model.layers.0.mlp.up_proj.weight", 50));
  const auto added = [&](quant::Granularity granularity) {
    WeightsRequest request = request_of("variance");
    request.scheme.granularity = granularity;
    const Indicator before = make_from_weights(*tiny(), &inputs, request);
    const Indicator after = make_from_weights(*changed, &inputs, request);
    EXPECT_EQ(after.at(1, 4), before.at(1, 4));
    return after.at(0, 4) - before.at(0, 4);
  };
  const double of_tensor = added(quant::Granularity::tensor);
  const double of_channel = added(quant::Granularity::channel);
  EXPECT_GT(of_channel, 0);
  EXPECT_NEAR(of_tensor / of_channel, 24, 0.5);  // its 24 output channels
}

}  // namespace
}  // namespace tessera::indicator::from_weights_test
