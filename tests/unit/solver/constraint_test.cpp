// Side constraints as files write them, and what the checker says of them.

#include "tessera/solver/problem/constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "small_instance.h"
#include "tessera/core/record_json.h"

namespace tessera::solver::constraint_test {
namespace {

using instances::small_candidate;
using instances::small_instance;
using test::expect_error;
using ::testing::HasSubstr;

Row row(const std::string& term, const std::string& sense, double rhs) {
  const Json json = parse_json(R"({"name": "mine", "terms": [)" + term + R"(], "sense": ")" +
                                   sense + R"(", "rhs": )" + std::to_string(rhs) + "}",
                               "test");
  return resolve(from_json<Constraint>(json, "c"), small_instance(), "c");
}

// small_candidate: A layers 0-2 (16, 8, 8 bits), A layers 3-5 (8 bits), B layers 6-7 (4 bits).
TEST(Constraint, CountsTheLayersThatMatch) {
  const struct {
    const char* term;
    double count;
  } cases[] = {{R"({"stage": 1})", 3},
               {R"({"boundary": 2})", 6},
               {R"({"boundary": 3})", 8},
               {R"({"device": "A"})", 6},
               {R"({"device": "B@n1"})", 2},
               {R"({"bitwidth": 8})", 5},
               {R"({"stage": 1, "bitwidth": 8})", 2},
               {R"({"boundary": 2, "bitwidth": 8, "coefficient": -2})", -10},
               {R"({"layer": 0, "bitwidth": 16})", 1},
               {R"({"layer": 0, "bitwidth": 8})", 0},
               {R"({"layer": 5, "stage": 2})", 1},
               {R"({"layer": 6, "device": "A"})", 0},
               {R"({"stage": 1}, {"stage": 2, "coefficient": -1})", 0}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.term);
    EXPECT_EQ(left_side(row(c.term, "==", 0), small_candidate()), c.count);
    Instance in = small_instance();
    in.rows = {row(c.term, "==", c.count)};
    EXPECT_FALSE(find_violation(in, small_candidate()));
    EXPECT_EQ(excess(in.rows[0], small_candidate()), 0);
    for (const auto& [sense, rhs] : {std::pair{"<=", c.count - 1}, std::pair{">=", c.count + 1},
                                     std::pair{"==", c.count + 1}}) {
      in.rows = {row(c.term, sense, rhs)};
      const auto violation = find_violation(in, small_candidate());
      ASSERT_TRUE(violation);
      EXPECT_EQ(violation->constraint, "row");
      EXPECT_THAT(violation->message, HasSubstr("'mine'"));
      EXPECT_THAT(violation->message, HasSubstr(sense));
      EXPECT_GT(excess(in.rows[0], small_candidate()), 0);
    }
  }
}

TEST(Constraint, ComparesInUnitsOfItsNumbers) {
  Instance in = small_instance();
  in.rows = {row(R"({"stage": 1, "coefficient": 0.1})", "==", 0.3)};
  EXPECT_FALSE(find_violation(in, small_candidate())) << "three times 0.1 is 0.3 but for rounding";
  in.rows[0].rhs = 0.3 + 1e-6;
  EXPECT_TRUE(find_violation(in, small_candidate()));
}

TEST(Constraint, RoundTripsThroughJson) {
  const Json json = parse_json(R"({"name": "all", "terms": [
      {"stage": 2, "device": "A", "bitwidth": 8, "coefficient": 2.5},
      {"boundary": 1, "coefficient": 1}, {"layer": 7, "coefficient": -1}],
      "sense": ">=", "rhs": -3.5})",
                               "test");
  EXPECT_EQ(json_of(from_json<Constraint>(json, "c")), json);
}

TEST(Constraint, RefusesWhatItCannotMean) {
  const auto refuses = [](const char* text, ErrorCode code, const char* part) {
    SCOPED_TRACE(text);
    expect_error(code, {part}, [&] {
      resolve(from_json<Constraint>(parse_json(text, "test"), "c"), small_instance(), "c");
    });
  };
  const auto bad = ErrorCode::invalid_argument;
  const auto far = ErrorCode::out_of_range;
  refuses(R"([])", bad, "an object belongs");
  refuses(R"({"terms": [{"stage": 1}], "sense": "<=", "rhs": 1})", bad, "'name' is missing");
  refuses(R"({"name": "", "terms": [{"stage": 1}], "sense": "<=", "rhs": 1})", bad, "empty");
  refuses(R"({"name": "x", "terms": [], "sense": "<=", "rhs": 1})", bad, "list of 1 to");
  refuses(R"({"name": "x", "terms": {}, "sense": "<=", "rhs": 1})", bad, "an array");
  refuses(R"({"name": "x", "terms": [{"stage": 1}], "sense": "<", "rhs": 1})", bad,
          "'<' is not known; did you mean '<='?");
  refuses(R"({"name": "x", "terms": [{"stage": 1}], "sense": "<=", "rhs": 1, "rsh": 2})", bad,
          "did you mean 'rhs'");
  const auto term = [&](const std::string& t, ErrorCode code, const char* part) {
    refuses((R"({"name": "x", "terms": [)" + t + R"(], "sense": "<=", "rhs": 1})").c_str(), code,
            part);
  };
  term("{}", bad, "says nothing about which layers");
  term(R"({"coefficient": 2})", bad, "says nothing about which layers");
  term(R"({"stage": 1, "boundary": 1})", bad, "not both");
  term(R"({"stage": 0})", far, "outside [1");
  term(R"({"stage": 4})", far, "c.terms[1].stage: stage 4, but 3 devices");
  term(R"({"boundary": 4})", far, "c.terms[1].boundary");
  term(R"({"layer": 8})", far, "the last one is 7");
  term(R"({"layer": -1})", far, "outside [0");
  term(R"({"bitwidth": 3})", bad, "(4, 8, 16)");
  term(R"({"device": "C"})", ErrorCode::not_found, "no 'C'");
  term(R"({"device": "A@n1"})", ErrorCode::not_found, "no 'A@n1'");
  term(R"({"stage": 1, "bitwidht": 8})", bad, "did you mean 'bitwidth'");
  expect_error(bad, {"[2].name", "'x' is the name of another"}, [] {
    const std::string field = R"({"name": "x", "terms": [{"stage": 1}], "sense": "<=", "rhs": 1})";
    const Constraint constraint = from_json<Constraint>(parse_json(field, "test"), "c");
    check_names_differ({constraint, constraint}, "c");
  });
}

}  // namespace
}  // namespace tessera::solver::constraint_test
