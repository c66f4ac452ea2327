#include "tessera/indicator/indicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"

namespace tessera::indicator::indicator_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::int32_t> kBits = {3, 4, 8, 16};

std::string message_of(const std::function<void()>& action, ErrorCode code) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

class File : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = ::testing::TempDir() + "tessera_" + info->name() + "_" + name;
    write_file(path_, content);
    return path_;
  }
  Indicator csv(const std::string& content, const std::string& model = "") {
    return read_indicator(write("i.csv", content), model);
  }
  std::string refused(const std::string& content, const std::string& model = "",
                      ErrorCode code = ErrorCode::invalid_argument) {
    return message_of([&] { csv(content, model); }, code);
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_;
};

TEST(Constant, IsTheSquaredStep) {
  const Indicator indicator = make_constant(3, {16, 4, 8});
  EXPECT_THAT(indicator.bitwidths, ElementsAre(4, 8, 16));
  EXPECT_DOUBLE_EQ(indicator.at(2, 4), 1 / 49.0);
  EXPECT_DOUBLE_EQ(indicator.at(0, 8), 1 / (127.0 * 127));
  EXPECT_NEAR(indicator.at(1, 16), 9.3e-10, 1e-11);
  EXPECT_TRUE(indicator.has(8));
  EXPECT_FALSE(indicator.has(3));
}

TEST(Constant, RefusesNonsense) {
  EXPECT_THROW(make_constant(0, kBits), Error);
  EXPECT_THROW(make_constant(1, {}), Error);
  EXPECT_THROW(make_constant(1, {1}), Error);
  EXPECT_THROW(make_constant(1, {4, 4}), Error);
  const Indicator indicator = make_constant(2, {4, 8});
  EXPECT_THAT(message_of([&] { indicator.at(2, 4); }, ErrorCode::out_of_range),
              HasSubstr("2 layers"));
  EXPECT_THAT(message_of([&] { indicator.at(0, 3); }, ErrorCode::out_of_range),
              HasSubstr("it has 4, 8"));
}

TEST(Random, PaperVariantFallsWithBitwidth) {
  const Indicator indicator = make_random(40, kBits, "paper", 7);
  for (std::size_t layer = 0; layer < 40; ++layer) {
    for (std::size_t b = 0; b < kBits.size(); ++b) {
      const double value = indicator.at(layer, kBits[b]);
      EXPECT_GE(value, 0);
      EXPECT_LT(value, 1);
      if (b > 0) {
        EXPECT_LE(value, indicator.at(layer, kBits[b - 1]));
      }
    }
  }
}

TEST(Random, PublishedVariantsStayInTheirRanges) {
  const std::vector<double> base = {4.8, 1.6, 0.4, 0.1};
  const Indicator uniform = make_random(100, kBits, "llm-pq-uniform", 1);
  const Indicator constant = make_random(100, kBits, "llm-pq-constant", 1);
  bool rises = false;
  for (std::size_t layer = 0; layer < 100; ++layer) {
    for (std::size_t b = 0; b < kBits.size(); ++b) {
      EXPECT_GE(uniform.at(layer, kBits[b]), 2 * base[b]);
      EXPECT_LT(uniform.at(layer, kBits[b]), 2 * base[b] + 2);
      EXPECT_NEAR(constant.at(layer, kBits[b]) / constant.at(layer, 16), base[b] / 0.1, 1e-9);
    }
    rises = rises || uniform.at(layer, 16) > uniform.at(layer, 8);
  }
  EXPECT_TRUE(rises) << "the published code does not sort";
}

TEST(Random, DependsOnTheSeedAlone) {
  for (const char* variant : {"paper", "llm-pq-uniform", "llm-pq-constant"}) {
    EXPECT_EQ(make_random(5, kBits, variant, 3).omega, make_random(5, kBits, variant, 3).omega);
    EXPECT_NE(make_random(5, kBits, variant, 3).omega, make_random(5, kBits, variant, 4).omega);
  }
}

TEST(Random, RefusesWhatIsNotPublished) {
  EXPECT_THROW(make_random(5, {5}, "llm-pq-uniform", 1), Error);
  EXPECT_NO_THROW(make_random(5, {5}, "paper", 1));
  EXPECT_THAT(message_of([] { make_random(5, kBits, "llm-pq", 1); }, ErrorCode::invalid_argument),
              HasSubstr("did you mean"));
}

TEST_F(File, JsonRoundTripIsExact) {
  Indicator indicator = make_random(20, kBits, "paper", 11);
  indicator.overhead_s = 1.0 / 3;
  indicator.provenance = Provenance::measured;
  const std::string path = write("i.json", to_json(indicator).dump(1));
  const Indicator back = read_indicator(path, "");
  EXPECT_EQ(back.kind, indicator.kind);
  EXPECT_EQ(back.variant, indicator.variant);
  EXPECT_EQ(back.bitwidths, indicator.bitwidths);
  EXPECT_EQ(back.omega, indicator.omega);
  EXPECT_EQ(back.num_layers, indicator.num_layers);
  EXPECT_EQ(back.overhead_s, indicator.overhead_s);
  EXPECT_EQ(back.provenance, indicator.provenance);
  EXPECT_EQ(back.source, indicator.source);
}

TEST(JsonImport, ReadsAnArrayOfLayers) {
  const Json json = Json::parse(R"([{"8": 0.1, "4": 1}, {"4": 2, "8": 0.2}])");
  const Indicator indicator = indicator_from_json(json, "x.json");
  EXPECT_EQ(indicator.kind, "imported");
  EXPECT_THAT(indicator.bitwidths, ElementsAre(4, 8));
  EXPECT_THAT(indicator.omega, ElementsAre(1, 0.1, 2, 0.2));
}

TEST_F(File, KeepsTheStandardError) {
  const char* text =
      R"({"bitwidths": [4, 8], "omega": [[1, 0.5], [2, 0]], "standard_error": [[0.1, 0], [3, 4]]})";
  const Indicator indicator = indicator_from_json(parse_json(text, "test"), "test");
  EXPECT_EQ(indicator.standard_error_at(1, 4), 3);
  EXPECT_THROW(indicator.standard_error_at(2, 4), Error);
  EXPECT_EQ(indicator_from_json(to_json(indicator), "test").standard_error,
            indicator.standard_error);
  EXPECT_EQ(make_constant(1, {4}).standard_error_at(0, 4), std::nullopt);
}

TEST(JsonImport, RefusesWhatItDoesNotUnderstand) {
  const auto refused = [](const char* text, ErrorCode code = ErrorCode::invalid_argument) {
    return message_of([&] { indicator_from_json(Json::parse(text), "x.json"); }, code);
  };
  EXPECT_THAT(refused(R"([{"4": 1, "8": 1}, {"4": 1}])"), HasSubstr("layer 1 has no value for 8"));
  EXPECT_THAT(refused(R"([{"4": -1}])", ErrorCode::out_of_range), HasSubstr("layer 0: 4"));
  EXPECT_THAT(refused(R"([{"four": 1}])"), HasSubstr("'four' is no bitwidth"));
  EXPECT_THAT(refused(R"([{"4": 1, "04": 1}])"), HasSubstr("twice"));
  EXPECT_THAT(refused("[]"), HasSubstr("1 to"));
  EXPECT_THAT(refused("[[1]]"), HasSubstr("layer 0"));
  EXPECT_THAT(refused("3"), HasSubstr("object"));
  EXPECT_THAT(refused(R"({"bitwidths": [8, 4], "omega": [[1, 2]]})"), HasSubstr("ascend"));
  EXPECT_THAT(refused(R"({"bitwidths": [4.5], "omega": [[1]]})"), HasSubstr("integer"));
  EXPECT_THAT(refused(R"({"bitwidths": [4], "omega": [[1, 2]]})"), HasSubstr("2 values"));
  EXPECT_THAT(refused(R"({"bitwidths": [4], "omega": [["x"]]})"), HasSubstr("omega[0][0]"));
  EXPECT_THAT(refused(R"({"bitwidths": [4], "omega": [[1]], "standard_error": [[1], [1]]})"),
              HasSubstr("standard_error: an array of 1 layers"));
  EXPECT_THAT(refused(R"({"bitwidths": [4], "omega": [[1]], "standard_error": [["x"]]})"),
              HasSubstr("standard_error[0][0]"));
  EXPECT_THAT(refused(R"({"bitwidths": [4], "omega": [[1]], "kin": "x"})"), HasSubstr("'kin'"));
  EXPECT_THAT(refused(R"({"bitwidths": [4], "omega": [[1]], "provenance": "x"})"),
              HasSubstr("one of 'measured'"));
}

TEST_F(File, ReadsCsvAsPeopleWriteIt) {
  const Indicator indicator = csv(
      "\xEF\xBB\xBF# written by hand\r\n\r\n Layer , \"bitwidth\",omega,\"note, with comma\"\r\n"
      "0,4,1.5,\"a \"\"quoted\"\" word\"\r\n# in between\r\n1, 4 ,2e-3,\"two\r\nlines\"\r\n"
      "0,8,0,\r\n1,\"8\",0.25,x");
  EXPECT_THAT(indicator.bitwidths, ElementsAre(4, 8));
  EXPECT_THAT(indicator.omega, ElementsAre(1.5, 0, 2e-3, 0.25));
  EXPECT_EQ(indicator.num_layers, 2u);
  EXPECT_EQ(indicator.provenance, Provenance::modelled);
}

TEST_F(File, NamesTheLineOfABadValue) {
  for (const char* bad : {"nan", "inf", "-1", "1e400", "1.5x", "", "0x10", "1 2"}) {
    const std::string message = refused("layer,bit,omega\n0,4,1\n\n0,8," + std::string(bad) + "\n");
    EXPECT_THAT(message, HasSubstr("line 4: omega is")) << bad;
  }
  EXPECT_THAT(refused("layer,bit,omega\n0.5,4,1\n"), HasSubstr("line 2: layer is '0.5'"));
  EXPECT_THAT(refused("layer,bit,omega\n-1,4,1\n"), HasSubstr("line 2: layer"));
  EXPECT_THAT(refused("layer,bit,omega\n0,99,1\n"), HasSubstr("line 2: bit is '99'"));
  EXPECT_THAT(refused("layer,bit,omega\n0,4\n"), HasSubstr("line 2: 2 fields"));
  EXPECT_THAT(refused("layer,bit,omega\n0,4,\"1\n"), HasSubstr("line 2: a quoted field"));
  EXPECT_THAT(refused("layer,bit,omega\n0,4,\"1\"2\n"), HasSubstr("line 2: text after"));
}

TEST_F(File, NamesWhatIsTwiceOrMissing) {
  EXPECT_THAT(refused("layer,bit,omega\n0,4,1\n1,4,1\n0,4,2\n"),
              HasSubstr("line 4: layer 0, 4 bits was given before, on line 2"));
  EXPECT_THAT(refused("layer,bit,omega\n0,4,1\n1,4,1\n0,8,2\n"),
              HasSubstr("8 bits: 1 of 2 layers incomplete, layer 1 has no row"));
  EXPECT_THAT(refused("layer,bit,omega\n0,4,1\n2,4,1\n"), HasSubstr("layer 1 has no row"));
  EXPECT_THAT(refused("layer,bits,omega\n0,4,1\n"), HasSubstr("no column 'bit' or 'bitwidth'"));
  EXPECT_THAT(refused("layer,bit,bitwidth,omega\n0,4,4,1\n"), HasSubstr("keep one"));
  EXPECT_THAT(refused("layer,bit,layer,omega\n0,4,0,1\n"), HasSubstr("two columns 'layer'"));
  EXPECT_THAT(refused("layer,bit,omega\n"), HasSubstr("no rows"));
  EXPECT_THAT(refused("# nothing\n"), HasSubstr("empty"));
}

TEST_F(File, PicksTheModel) {
  const char* text = "model,layer,bit,omega\nopt-13b,0,4,1\nopt-30b,0,4,2\n";
  EXPECT_THAT(csv(text, "opt-30b").omega, ElementsAre(2));
  EXPECT_THAT(refused(text), HasSubstr("opt-13b, opt-30b"));
  EXPECT_THAT(refused(text, "opt-31b", ErrorCode::not_found), HasSubstr("did you mean"));
}

// Rows as in LLM-PQ's logs, where some layers never ran at 3 bits and an operator's line was lost.
constexpr const char* kLog =
    "model,layer,operator,bit,gptq_error_mean,n_logs\n"
    "m,0,fc1,4,1,5\nm,0,fc2,4,10,5\nm,1,fc1,4,2,5\nm,1,fc2,4,20,5\n"
    "m,0,fc1,3,100,2\nm,0,fc2,3,100,2\n"
    "m,0,fc1,8,0.5,1\nm,0,fc2,8,0.25,1\nm,1,fc1,8,0.125,1\nm,1,fc2,8,1,1\n"
    "m,0,fc1,16,0,1\nm,0,fc2,16,0,1\nm,1,fc2,16,0,1\n";

TEST_F(File, SumsOperatorsAndSaysWhatItLeftOut) {
  const Indicator indicator = csv(kLog, "m");
  EXPECT_THAT(indicator.bitwidths, ElementsAre(4, 8));
  EXPECT_THAT(indicator.omega, ElementsAre(11, 0.75, 22, 1.125));
  EXPECT_EQ(indicator.provenance, Provenance::published);
  EXPECT_THAT(indicator.source, HasSubstr("sum of gptq_error_mean over 2 operators"));
  EXPECT_THAT(indicator.source, HasSubstr("3 bits: 1 of 2 layers incomplete, layer 1 has no row"));
  EXPECT_THAT(indicator.source, HasSubstr("layer 1 lacks the operator 'fc1'"));
  EXPECT_THAT(message_of([&] { indicator.at(0, 16); }, ErrorCode::out_of_range),
              HasSubstr("left out: 3 bits"));
}

TEST_F(File, RefusesALogWithoutAnyCompleteBitwidth) {
  EXPECT_THAT(refused("layer,operator,bit,omega\n0,a,4,1\n0,b,4,1\n1,a,4,1\n"),
              HasSubstr("no bitwidth that every layer has: 4 bits: 1 of 2"));
}

}  // namespace
}  // namespace tessera::indicator::indicator_test
