#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/solver/problem/lowered_problem.h"

/// Questions of the kind "what if the hardware were another". The answers are problems in their own
/// right, so the plans made for them can be checked, saved and simulated like any other.
namespace tessera::solver {

/// A little more hardware.
struct Upgrade {
  std::map<std::string, double> memory_bytes;      ///< by device type, on each device of it
  std::map<std::string, double> link_bytes_per_s;  ///< by name of link_names, both directions
};

/// Links that can be made faster one by one. Of a cluster: "network" where it has several nodes,
/// and "inside NODE" where a node has several devices. Of an instance file: "A - B" for each pair
/// of types whose transfers take time.
std::vector<std::string> link_names(const Problem& problem);

/// The problem with the hardware really changed: memory as the driver reports it, of which the
/// memory preset may reserve a share; the rate of a link, latency unchanged.
/// @throws Error{not_found} for a device type or link that the problem does not have.
Problem upgraded(const LoweredProblem& problem, const Upgrade& upgrade);

/// The problem on the first `counts[g]` devices of each group of its instance.
/// @throws Error{out_of_range} when a count is negative or more than there are, or all are 0.
Problem with_devices(const LoweredProblem& problem, const std::vector<std::int64_t>& counts);

/// Factors on the seconds of a layer. Devices of a type share theirs, on whatever node they are.
struct LatencyFactors {
  std::vector<double> prefill, decode;  ///< [group][bit]
};

/// Independent log-normal factors, exp(error z) with z standard normal, per device type, phase and
/// bitwidth. The same seed draws the same factors.
LatencyFactors draw_latency_factors(const Instance& instance, double error, std::uint64_t seed);

/// The instance with every layer's latency multiplied; everything else is shared with `instance`.
Instance with_latency_factors(const Instance& instance, LatencyFactors factors);

}  // namespace tessera::solver
