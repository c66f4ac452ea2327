#include "tessera/solver/problem/serving_latency.h"

#include "tessera/cost/collectives.h"
#include "tessera/cost/tensor_parallel.h"
#include "tessera/solver/problem/mesh.h"

namespace tessera::solver {

namespace {

std::shared_ptr<const cost::Profile> profile_of(const ServingProblem& serving,
                                                const Device& device) {
  for (const auto& profile : serving.profiles) {
    if (profile->device.name == device.name) return profile;
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<cost::LatencyModel> device_model_of(const ServingProblem& serving,
                                                    const Device& device) {
  if (auto profile = profile_of(serving, device)) {
    return cost::make_profiled(std::move(profile), serving.kernel_set);
  }
  return cost::make_roofline(device, serving.kernel_set);
}

std::unique_ptr<cost::LatencyModel> latency_model_of(const ServingProblem& serving,
                                                     const std::vector<std::size_t>& members) {
  const Cluster& cluster = serving.cluster;
  const Device& device = cluster.devices[members.front()].device;
  return cost::make_tensor_parallel(
      device_model_of(serving, device), static_cast<std::int64_t>(members.size()),
      slowest_link(cluster, members, members), profile_of(serving, device));
}

double hop_s(const ServingProblem& serving, std::size_t from, const Link& link, double bytes) {
  const auto profile = profile_of(serving, serving.cluster.devices[from].device);
  return cost::transfer_s(bytes, link, profile.get());
}

std::vector<cost::LayerWork> units_of(const Workload& workload, double size, cost::Phase phase) {
  if (phase == cost::Phase::decode) {
    return {{phase, size, 1, workload.mean_context_tokens()}};
  }
  std::vector<cost::LayerWork> work;
  double before = 0;
  for (std::int64_t chunk = 0; chunk < workload.num_chunks(); ++chunk) {
    const auto tokens = static_cast<double>(workload.tokens_in_chunk(chunk));
    work.push_back({phase, size, tokens, before});
    before += tokens;
  }
  return work;
}

}  // namespace tessera::solver
