#include "tessera/cost/collectives.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "counts.h"
#include "models/all_reduce.h"
#include "models/nccl.h"

namespace tessera::cost {
namespace {

// Fitted by experiments/fidelity/collectives.lua, which says how well, to vLLM's kernels inside
// CUDA graphs: A100 and H200 together, and RTX PRO 6000.
constexpr models::AllReduceWays kNvlinkWays{{4.55e-6, 4.6e-8, 0.597}, {1.015e-5, 0, 0.707}};
constexpr models::AllReduceWays kPcieWays{{0.91e-6, 3.47e-6, 0.595}, {0, 1.224e-5, 0.455}};

// vLLM's kernel needs NVLink beyond two devices: NCCL's ring instead, as RTX PRO 6000 has it (the
// same script). Servers of A6000, RTX 4090 and RTX 3090 (AccelMark, TP 4 and 8) say the same within
// a factor of two to both sides, and not that cards without direct access always take longer; nor
// does nccl-tests: 4 RTX 5090 35 GB/s (NVIDIA/nccl#1639; 30 here), 4 RTX 4090 12.7 GB/s
// (tinygrad/open-gpu-kernel-modules#22; 15 here, and 147 us for 1 MiB where 153 were printed).
constexpr models::NcclWays kPcieRing{{3.21e-6, 3.09e-6, 0.16}, {0, 1.41e-5, 0.478}};

// Without access to each other's memory NCCL's ring passes the host's, of which each step writes
// and reads a part. Chosen on what two A100 PCIe take a token over one (../measured/field) and
// eight RTX 4090 for one request (AccelMark); experiments/fidelity/field/pcie.lua says what comes
// of it.
constexpr models::NcclWays kHostRing{{2.1e-5, 3.09e-6, 0.06}, {3.1e-5, 1.41e-5, 0.18}};

// NCCL's gathers, scatters and exchanges over NVSwitch: between its A100's and its H200's fits.
constexpr models::NcclWays kNvlinkRing{{6.5e-6, 8e-7, 0.26}, {2.5e-5, 1e-7, 0.67}};

constexpr const char* kNccl = "nccl";  // the name of its sums in profiles

OpQuery sum_query(double bytes, std::int64_t degree) {
  OpQuery query;
  query.op = Op::all_reduce;
  query.dtype = "bfloat16";
  query.bytes = bytes;
  query.num_devices = static_cast<std::int32_t>(degree);
  return query;
}

bool is_within_node(const Link& link) { return link.kind == "nvlink" || link.kind == "pcie"; }

// What a device sends at once to all others of a group.
double group_rate(const Link& link, double degree) {
  return link.mesh ? link.bytes_per_s * (degree - 1) : link.bytes_per_s;
}

const models::NcclWays& ring_over(const Link& link) {
  if (link.kind == "nvlink") return kNvlinkRing;
  return link.peer_access ? kPcieRing : kHostRing;
}

/// Without a sum. A ring's sum scatters and then gathers, so half of it between nodes.
double moved_s(const OpQuery& query, const Link& link) {
  if (query.num_devices == 1) return 0;
  if (is_within_node(link)) {
    return ring_over(link).seconds(query, group_rate(link, query.num_devices));
  }
  return all_reduce_s(query.bytes, query.num_devices, link) / 2;
}

bool is_by_kernel(std::int64_t degree, const Link& link) {
  return link.kind == "nvlink" || (link.kind == "pcie" && link.peer_access && degree <= 2);
}

bool was_measured_over(const Profile& profile, const Link& link) {
  const Link measured = node_link(profile.device);
  return link.kind == measured.kind && link.peer_access == measured.peer_access &&
         std::fabs(link.bytes_per_s / measured.bytes_per_s - 1) < 1e-9;
}

/// The query within what the part was fitted to.
OpQuery clamped(OpQuery query, const ProfilePart& part) {
  const auto bytes = part.range.find("bytes"), devices = part.range.find("num_devices");
  if (bytes != part.range.end()) query.bytes = std::min(query.bytes, bytes->second.second);
  if (devices != part.range.end()) {
    query.num_devices =
        std::min(query.num_devices, static_cast<std::int32_t>(devices->second.second));
  }
  return query;
}

}  // namespace

double all_reduce_s(double bytes, std::int64_t degree, const Link& link) {
  if (degree == 1) return 0;
  if (is_by_kernel(degree, link)) {
    const models::AllReduceWays& ways = link.kind == "nvlink" ? kNvlinkWays : kPcieWays;
    return ways.seconds(bytes, count(degree), group_rate(link, count(degree)));
  }
  if (is_within_node(link)) {
    return ring_over(link).seconds(sum_query(bytes, degree), link.bytes_per_s);
  }
  const double steps = 2 * count(degree - 1);
  return steps * link.latency_s + steps / count(degree) * bytes / link.bytes_per_s;
}

Prediction modelled_collective(const OpQuery& query, const Link& link) {
  if (query.op == Op::all_reduce && query.name != kNccl) {
    const bool by_kernel = is_by_kernel(query.num_devices, link);
    return {{all_reduce_s(query.bytes, query.num_devices, link), Provenance::modelled, {}},
            by_kernel ? "one-shot or two-shot" : "ring",
            {}};
  }
  return {{moved_s(query, link), Provenance::modelled, {}}, "ring", {}};
}

Prediction modelled_all_reduce(double bytes, std::int64_t degree, const Link& link) {
  return modelled_collective(sum_query(bytes, degree), link);
}

Prediction predict_sum(const OpQuery& query, const Link& link, const Profile* profile) {
  if (profile == nullptr || !was_measured_over(*profile, link)) {
    return modelled_collective(query, link);
  }
  OpQuery other = query;
  other.name = kNccl;
  const ProfilePart* own = query.name == kNccl ? nullptr : profile->find(query);
  const ProfilePart* nccl = profile->find(other);
  if (own == nullptr && nccl == nullptr) return modelled_collective(query, link);
  if (own == nullptr) return predict(*nccl, other);
  const OpQuery most = clamped(query, *own);
  const bool beyond = most.bytes < query.bytes || most.num_devices < query.num_devices;
  if (nccl == nullptr || !beyond) return predict(*own, query);
  Prediction price = predict(*nccl, other);
  price.seconds.value = std::max(price.seconds.value, own->model->seconds(most));
  return price;
}

Prediction predict_collective(const OpQuery& query, const Link& link, const Profile* profile) {
  const bool measured = profile != nullptr && was_measured_over(*profile, link);
  const ProfilePart* part = measured ? profile->find(query) : nullptr;
  return part != nullptr ? predict(*part, query) : modelled_collective(query, link);
}

double transfer_s(double bytes, const Link& link, const Profile* profile) {
  OpQuery query;
  query.op = Op::send_recv;
  query.bytes = bytes;
  query.num_devices = 2;
  const bool measured = profile != nullptr && was_measured_over(*profile, link);
  const ProfilePart* part = measured ? profile->find(query) : nullptr;
  return part != nullptr ? part->model->seconds(query) : link.latency_s + bytes / link.bytes_per_s;
}

Link slowest_link(const Cluster& cluster, const std::vector<std::size_t>& from,
                  const std::vector<std::size_t>& to) {
  std::optional<Link> slowest;
  for (const std::size_t a : from) {
    for (const std::size_t b : to) {
      if (a == b) continue;
      const Link link = cluster.link(a, b);
      if (!slowest) slowest = link;
      if (link.bytes_per_s < slowest->bytes_per_s) {
        slowest->bytes_per_s = link.bytes_per_s;
        slowest->kind = link.kind;
        slowest->mesh = link.mesh;
      }
      if (link.kind == "pcie" && slowest->kind == "pcie") slowest->peer_access &= link.peer_access;
      slowest->latency_s = std::max(slowest->latency_s, link.latency_s);
    }
  }
  return slowest ? *slowest : cluster.link(from.front(), to.front());
}

Link node_link(const Device& device) {
  if (device.nvlink_bytes_per_s) {
    return {*device.nvlink_bytes_per_s, 0, "nvlink", joins_by_mesh(device)};
  }
  Link pcie{device.pcie_bytes_per_s, 0, "pcie"};
  pcie.peer_access = device.peer_access;
  return pcie;
}

}  // namespace tessera::cost
