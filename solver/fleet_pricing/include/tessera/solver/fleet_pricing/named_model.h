#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/solver/deploy/serving_request.h"

namespace tessera::solver {

/// Requests of one size to a model: each class may go to the replicas that suit it.
struct RequestsOfModel {
  std::string name;
  TrafficSource traffic;  ///< its rate is the demand
  std::vector<serving::Slo> slos;
};

/// A model of a fleet: what asks for it, within which limits, and what may serve it.
struct NamedModel {
  std::string name;
  /// Of its engines, but for the cluster, which is a node at a time, and for what asks for it.
  ServingRequest serving;
  std::vector<RequestsOfModel> classes;  ///< of requests, one at least
  double weight = 1;
  std::int64_t min_replicas = 0;
  std::optional<std::int64_t> max_gpus, min_nodes;
  std::vector<std::string> devices;  ///< that may hold it; empty: any
  bool pools = false;                ///< pairs of prefill and decode pools are looked at too
};

}  // namespace tessera::solver

template <>
struct tessera::Fields<tessera::solver::NamedModel> {
  using M = tessera::solver::NamedModel;
  static constexpr auto list = std::tuple{
      field<&M::name>(
          {.name = "name", .doc = "That requests name", .as_option = AsOption::required}),
      field<&M::weight>({.name = "weight",
                         .doc = "Times which its demand counts, of whatever is asked",
                         .min = 1e-6,
                         .max = 1e6,
                         .as_option = AsOption::defaulted}),
      field<&M::min_replicas>({.name = "min_replicas",
                               .doc = "Replicas that it has at least",
                               .min = 0,
                               .max = 1e6,
                               .as_option = AsOption::defaulted}),
      field<&M::max_gpus>(
          {.name = "max_gpus", .doc = "Devices that it may take", .min = 0, .max = 1e9}),
      field<&M::min_nodes>({.name = "min_nodes",
                            .doc = "Nodes that its replicas are spread over at least",
                            .min = 1,
                            .max = 1e6}),
      field<&M::devices>({.name = "devices",
                          .doc = "Types of devices that may hold it; left out: any",
                          .as_option = AsOption::plain}),
      field<&M::pools>({.name = "pools",
                        .doc = "Look at replicas whose prompts are computed on some devices of a "
                               "node and whose tokens on others, too",
                        .as_option = AsOption::defaulted})};
};
