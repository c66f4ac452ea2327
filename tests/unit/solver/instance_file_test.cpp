#include "tessera/solver/instance/instance_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "case_name.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/rng.h"
#include "tessera/solver/ilp/ilp_planner.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver::instance_file_test {
namespace {

using ::testing::HasSubstr;

const char* const kText = R"({
  "name": "tiny", "model": "m", "L": 2, "bits": [4, 16], "B": 2, "s": 8, "n": 3, "theta": 0.5,
  "omega": [[0.5, 0], [0.25, 0]], "mem_layer_gb": [1, 4], "mem_emb_gb": 0.5,
  "types": [{"name": "A", "count": 1, "mem_gb": 3}, {"name": "B", "count": 2, "mem_gb": 6}],
  "lat_pre": {"A": [[1, 2], [2, 3]], "B": [[3, 4], [5, 6]]},
  "lat_dec": {"A": [[0.1, 0.2], [0.2, 0.3]], "B": [[0.3, 0.4], [0.5, 0.6]]},
  "mem_tmp_pre_gb": [0.1, 0.2], "mem_tmp_dec_gb": [0.01, 0.02],
  "link_gbs": [[null, 2], [4, 0]], "pay_pre_gb": 1, "pay_dec_gb": 0.5
})";

Json tiny() { return parse_json(kText, "tiny.json"); }

TEST(InstanceFile, ReadsEveryField) {
  const Instance in = instance_from_json(tiny(), "tiny.json");
  EXPECT_EQ(in.num_layers(), 2u);
  EXPECT_EQ(in.num_devices(), 3u);
  EXPECT_TRUE(in.allow_empty_stage);
  EXPECT_DOUBLE_EQ(in.output_tokens, 3);
  EXPECT_DOUBLE_EQ(in.theta, 0.5);
  EXPECT_DOUBLE_EQ(in.omega_at(1, 0), 0.25);
  EXPECT_DOUBLE_EQ(in.layer_bytes_at(0, 0, 1), 4e9);
  EXPECT_DOUBLE_EQ(in.groups[1].usable_bytes, 6e9);
  EXPECT_DOUBLE_EQ(in.layer_s(in.prefill(2), 1, 0, 0), 5);
  EXPECT_DOUBLE_EQ(in.layer_s(in.decode(1), 0, 0, 1), 0.2);
  EXPECT_DOUBLE_EQ(in.link_s(in.prefill(2), 0, 1), 1);
  EXPECT_DOUBLE_EQ(in.link_s(in.decode(1), 1, 0), 0.125);
  EXPECT_DOUBLE_EQ(in.link_s(in.prefill(2), 0, 0), 0);
  EXPECT_DOUBLE_EQ(in.link_s(in.prefill(2), 1, 1), 0);
  EXPECT_DOUBLE_EQ(in.fixed_bytes(0, StagePlace::first, in.prefill(2), in.decode(1)), 0.7e9);
  EXPECT_DOUBLE_EQ(in.fixed_bytes(0, StagePlace::last, in.prefill(2), in.decode(1)), 0.2e9);
  EXPECT_EQ(&in.prefill(2), &in.prefill(2));
  EXPECT_THROW(in.prefill(3), Error);
  EXPECT_EQ(make_ilp_planner()->plan(in, {}).status, SolveStatus::optimal);
}

struct BadField {
  const char* pointer;
  const char* value;
  const char* named;  ///< must appear in the message
};
void PrintTo(const BadField& field, std::ostream* stream) {
  *stream << field.pointer << " = " << field.value;
}

class InstanceFileBad : public ::testing::TestWithParam<BadField> {};

TEST_P(InstanceFileBad, IsRefusedByName) {
  Json json = tiny();
  json[Json::json_pointer(GetParam().pointer)] = Json::parse(GetParam().value);
  try {
    instance_from_json(json, "tiny.json");
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("tiny.json"));
    EXPECT_THAT(e.what(), HasSubstr(GetParam().named));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Fields, InstanceFileBad,
    ::testing::Values(
        BadField{"/L", "3", "omega"}, BadField{"/L", "0", "L"}, BadField{"/L", "2000000000", "L"},
        BadField{"/L", "2.5", "L"}, BadField{"/B", "100001", "B"}, BadField{"/B", "3", "lat_pre"},
        BadField{"/B", "-1", "B"}, BadField{"/bits", "[]", "bits"},
        BadField{"/bits", "[16, 4]", "bits"}, BadField{"/bits", "[4, 8, 16]", "omega"},
        BadField{"/bits", "[4.5, 16]", "bits"}, BadField{"/n", "0", "n"},
        BadField{"/n", "\"3\"", "n"}, BadField{"/theta", "-1", "theta"},
        BadField{"/omega/1", "[1]", "omega[1]"}, BadField{"/omega/0/0", "null", "omega[0][0]"},
        BadField{"/mem_layer_gb", "[1]", "mem_layer_gb"},
        BadField{"/mem_layer_gb", "[1, -4]", "mem_layer_gb[1]"},
        BadField{"/mem_emb_gb", "[]", "mem_emb_gb"}, BadField{"/types", "[]", "types"},
        BadField{"/types", R"({"A": 3})", "types"}, BadField{"/types/0", "3", "types[0]"},
        BadField{"/types/1/name", "\"A\"", "types[1]"},
        BadField{"/types/1/count", "4097", "types[1]: count"},
        BadField{"/types/1/count", "0", "types[1]: count"},
        BadField{"/types/1/colour", "1", "colour"}, BadField{"/lat_pre/A", "[[1, 2]]", "lat_pre"},
        BadField{"/lat_pre/A/1", "[1, 2, 3]", "lat_pre: A[1]"},
        BadField{"/lat_pre/A/1/0", "-1", "lat_pre: A[1][0]"},
        BadField{"/lat_pre/C", "[]", "lat_pre"}, BadField{"/lat_dec", "[]", "lat_dec"},
        BadField{"/mem_tmp_pre_gb", "[1]", "mem_tmp_pre_gb"},
        BadField{"/link_gbs", "[[1, 2]]", "link_gbs"},
        BadField{"/link_gbs/0", "[1]", "link_gbs[0]"},
        BadField{"/link_gbs/0/1", "0", "link_gbs[0][1]"},
        BadField{"/link_gbs/0/1", "null", "link_gbs[0][1]"},
        BadField{"/link_gbs/0", "7", "link_gbs[0]"}, BadField{"/pay_pre_gb", "-1", "pay_pre_gb"},
        BadField{"/surprise", "1", "surprise"}),
    test::case_name);

TEST(InstanceFile, EveryMissingFieldIsNamed) {
  const Json whole = tiny();
  for (const auto& [key, value] : whole.items()) {
    if (key == "name" || key == "model") continue;
    Json json = whole;
    json.erase(key);
    try {
      instance_from_json(json, "tiny.json");
      ADD_FAILURE() << key << " was not missed";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(key));
    }
  }
}

// Damaged files end as an Error or as an instance that every part can work with.
TEST(InstanceFile, SurvivesSeededMutations) {
  const std::string text = kText;
  const std::string alphabet = "0123456789.-+eE[]{},:\"nulltrue \n\x01\xff";
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    Rng rng(seed);
    std::string damaged = text;
    for (std::int64_t edits = rng.integer(1, 4); edits > 0; --edits) {
      const auto at =
          static_cast<std::size_t>(rng.integer(0, static_cast<std::int64_t>(damaged.size()) - 1));
      const auto c =
          static_cast<std::size_t>(rng.integer(0, static_cast<std::int64_t>(alphabet.size()) - 1));
      if (rng.integer(0, 2) == 0) {
        damaged.erase(at, 1);
      } else {
        damaged[at] = alphabet[c];
      }
    }
    SCOPED_TRACE("seed " + std::to_string(seed));
    try {
      const Instance in = instance_from_json(parse_json(damaged, "damaged.json"), "damaged.json");
      PlanRequest request;
      request.time_limit_s = 1;
      const PlanResult result = make_ilp_planner()->plan(in, request);
      if (result.candidate) {
        EXPECT_FALSE(find_violation(in, *result.candidate, result.objective));
      }
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace tessera::solver::instance_file_test
