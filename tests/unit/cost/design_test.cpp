// Which points to measure: their order, what they leave unknown, and what is refused.

#include "tessera/cost/design.h"

#include <gtest/gtest.h>

#include <set>

#include "tessera/core/error.h"

namespace tessera::cost::design_test {
namespace {

Device a_gpu() {
  Device device;
  device.name = "gpu";
  device.memory_bytes = 24e9;
  device.memory_bytes_per_s = 936e9;
  device.flop_per_s = {{"fp16", 71e12}};
  device.compute_capability = 8.6;
  device.num_multiprocessors = 82;
  return device;
}

std::vector<OpQuery> products(const char* dtype) {
  std::vector<OpQuery> result;
  for (const double m : {1.0, 16.0, 128.0, 1024.0, 8192.0}) {
    for (const double n : {512.0, 4096.0, 32768.0}) {
      for (const double k : {512.0, 4096.0, 32768.0}) {
        OpQuery query;
        query.dtype = dtype;
        query.m = m;
        query.n = n;
        query.k = k;
        result.push_back(query);
      }
    }
  }
  return result;
}

TEST(Design, BeginsALongerListWithAShorterAndTakesNoPointTwice) {
  for (const Design design : {Design::least_variance, Design::d_optimal}) {
    const auto few = design_points(a_gpu(), products("bfloat16"), 5, design);
    const auto all = design_points(a_gpu(), products("bfloat16"), 45, design);
    EXPECT_EQ(few, std::vector<std::size_t>(all.begin(), all.begin() + 5));
    EXPECT_EQ(std::set<std::size_t>(all.begin(), all.end()).size(), 45u);
  }
}

TEST(Design, MeasuresRowsOfBothEndsBeforeItMeasuresNeighbours) {
  const auto queries = products("bfloat16");
  const auto points = design_points(a_gpu(), queries, 6, Design::least_variance);
  bool few_rows = false, many_rows = false;
  for (const std::size_t i : points) {
    few_rows |= queries[i].m <= 16;
    many_rows |= queries[i].m >= 1024;
  }
  EXPECT_TRUE(few_rows && many_rows);
}

TEST(Design, LearnsOfEachDtypeByItself) {
  std::vector<OpQuery> queries = products("bfloat16");
  const std::size_t first = queries.size();
  for (const OpQuery& query : products("int8_wo")) queries.push_back(query);
  std::size_t others = 0;
  for (const std::size_t i : design_points(a_gpu(), queries, 10, Design::least_variance)) {
    others += i >= first ? 1 : 0;
  }
  EXPECT_GE(others, 3u);
  EXPECT_LE(others, 7u);
}

TEST(Design, RefusesMorePointsThanThereAreAndWhatItDoesNotKnow) {
  std::vector<OpQuery> queries = products("bfloat16");
  EXPECT_THROW(design_points(a_gpu(), queries, 46, Design::d_optimal), Error);
  queries[3].op = Op::elementwise;
  queries[3].bytes = 1024;
  EXPECT_THROW(design_points(a_gpu(), queries, 5, Design::d_optimal), Error);
}

}  // namespace
}  // namespace tessera::cost::design_test
