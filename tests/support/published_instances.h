#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>

#include "tessera/core/json.h"
#include "tessera/solver/instance/instance_file.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver::instances {

/// Proven optima that come with the planning instances, where they are at hand.
class PublishedInstances : public ::testing::Test {
 protected:
  static std::string folder() { return TESSERA_SOURCE_DIR "/../shared/instances/"; }

  void SetUp() override {
    if (!std::filesystem::exists(folder() + "expected.json")) {
      GTEST_SKIP() << "the planning instances are not beside the source tree";
    }
    expected_ = read_json_file(folder() + "expected.json");
  }

  static Instance load(const std::string& name) {
    const std::string path = folder() + name + ".json";
    return instance_from_json(read_json_file(path), path);
  }

  /// The order and the sizes of `single`.
  PlanRequest listed_request(const std::string& name, const Instance& in) const {
    const Json& entry = expected_[name];
    PlanRequest request;
    request.order.emplace();
    for (const Json& type : entry["order"]) {
      for (std::size_t g = 0; g < in.groups.size(); ++g) {
        if (in.groups[g].name == type) request.order->push_back(g);
      }
    }
    request.prefill_micro_batch_size = entry["eta"].get<std::int64_t>();
    request.decode_micro_batch_size = entry["xi"].get<std::int64_t>();
    return request;
  }

  using Check = std::function<void(const Instance&, const PlanRequest&, double optimum)>;
  /// Every `single` optimum of an instance.
  void for_each_single(const std::string& name, const Check& check) const {
    for (const char* key : {"literal", "steady", "quality_theta0_omega_le_1.000001_literal"}) {
      if (!expected_[name]["single"].contains(key)) continue;
      SCOPED_TRACE(name + " " + key);
      Instance in = load(name);
      in.objective = std::string(key) == "steady" ? Objective::steady : Objective::paper;
      if (key[0] == 'q') {
        in.theta = 0;
        in.max_omega = 1;
      }
      check(in, listed_request(name, in), expected_[name]["single"][key].get<double>());
    }
  }

  Json expected_;
};

}  // namespace tessera::solver::instances
