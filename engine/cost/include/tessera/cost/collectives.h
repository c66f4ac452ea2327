#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/core/cluster.h"
#include "tessera/cost/latency.h"
#include "tessera/cost/profile.h"

namespace tessera::cost {

/// Seconds in which `degree` devices sum a buffer of `bytes`; 0 for one device. Within a node, over
/// NVLink, or PCIe between two, the faster of one-shot and two-shot kernels, with the times and the
/// shares of the link's rate that vLLM's kernels have on A100, H200 and RTX PRO 6000
/// (experiments/fidelity/collectives.lua). On sizes that the fit has not seen it is off by 10 % in
/// the median and 27 % in the 90th percentile over NVSwitch, by 6 % and 17 % over PCIe, and by 16 %
/// and 36 % on a GPU that it has not seen. `latency_s` of such a link is of transfers between two,
/// and has no part in it. More than two devices on PCIe alone sum by NCCL's ring, and such as do
/// not reach each other's memory by a ring through the host's. Between nodes a ring sends 2 (degree
/// - 1) / degree of the buffer over every link in 2 (degree - 1) steps (Patarasu and Yuan, 2009).
double all_reduce_s(double bytes, std::int64_t degree, const Link& link);

/// A collective of `query.num_devices` over `link` without a measurement, said as what it is:
/// gathers, scatters and exchanges by NCCL, as on A100 and H200 over NVLink.
Prediction modelled_collective(const OpQuery& query, const Link& link);

/// The same for sums.
Prediction modelled_all_reduce(double bytes, std::int64_t degree, const Link& link);

/// A sum over `link`: by the part of `profile` for the runtime's own kernel as far as that one is
/// used, by its part for NCCL beyond, for larger messages or more devices; else modelled. `profile`
/// may be null. More bytes or devices never cost less.
Prediction predict_sum(const OpQuery& query, const Link& link, const Profile* profile);

/// A gather, scatter or exchange over `link`: by the part of `profile` for it where it was measured
/// over such a link, else modelled. `profile` may be null.
Prediction predict_collective(const OpQuery& query, const Link& link, const Profile* profile);

/// Seconds of a transfer from one device to another over `link`: by the part of the sender's
/// `profile` for them, where it was measured over such a link, else the link's latency and rate.
/// `profile` may be null.
double transfer_s(double bytes, const Link& link, const Profile* profile);

/// The slowest link between two sets of devices of a cluster, or within one.
Link slowest_link(const Cluster& cluster, const std::vector<std::size_t>& from,
                  const std::vector<std::size_t>& to);

/// The best link that devices of its kind have within a node, over which its sums are measured:
/// NVLink between any two, else PCIe. A bridge joins two cards at most, so it does not count.
Link node_link(const Device& device);

}  // namespace tessera::cost
