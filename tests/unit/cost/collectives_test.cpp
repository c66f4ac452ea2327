// Collectives by NCCL and transfers between two: the fit of two protocols, which kernel sums what,
// and that shipped profiles obey the links.
#include "tessera/cost/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "devices.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/cost/fit.h"
#include "tessera/cost/profile.h"

namespace tessera::cost::collectives_test {
namespace {

using ::testing::HasSubstr;

constexpr double kLink = 300e9;

Device on_nvlink(double bytes_per_s) {
  Device device = test::v100();
  device.name = "Fast";
  device.nvlink_bytes_per_s = bytes_per_s;
  return device;
}

OpQuery query_of(Op op, double bytes, std::int32_t num_devices, const char* name = "") {
  OpQuery query;
  query.op = op;
  query.name = name;
  if (op == Op::all_reduce) query.dtype = "bfloat16";
  query.bytes = bytes;
  query.num_devices = num_devices;
  return query;
}

double wire_bytes(const OpQuery& query) {
  if (query.op == Op::send_recv) return query.bytes;
  const double others = (query.num_devices - 1.0) / query.num_devices * query.bytes;
  return query.op == Op::all_reduce ? 2 * others : others;
}

/// `slower` times 9 us and 1 us per peer at a fifth of the link, or 40 us at two thirds of it.
double truth_s(const OpQuery& query, double slower = 1) {
  const double peers = query.op == Op::send_recv ? 0 : query.num_devices - 1;
  const double wire_s = wire_bytes(query) / kLink;
  return std::min(slower * (9e-6 + 1e-6 * peers) + 5 * wire_s, slower * 40e-6 + 1.5 * wire_s);
}

std::vector<Sample> samples_of(Op op, const char* name = "", double slower = 1) {
  std::vector<Sample> samples;
  for (const std::int32_t devices : {2, 4, 8}) {
    if (op == Op::send_recv && devices > 2) continue;
    for (double bytes = 512; bytes < 6e8; bytes *= 2) {
      const OpQuery query = query_of(op, bytes, devices, name);
      samples.push_back({query, truth_s(query, slower), "Fast", "modern", "test"});
    }
  }
  return samples;
}

Profile fitted(const std::vector<Sample>& samples) {
  FitOptions options;
  options.method = "nccl";
  options.hold_out = {"bytes"};
  return fit_profile(on_nvlink(kLink), "modern", samples, options);
}

constexpr Op kOps[] = {Op::all_reduce, Op::all_gather, Op::reduce_scatter, Op::all_to_all,
                       Op::send_recv};

TEST(NcclModel, FindsBothProtocols) {
  for (const Op op : kOps) {
    const Profile profile = fitted(samples_of(op));
    ASSERT_EQ(profile.parts.size(), 1u);
    for (const Sample& sample : samples_of(op)) {
      EXPECT_NEAR(profile.parts[0].model->seconds(sample.query) / sample.latency_s, 1, 1e-3)
          << describe(sample.query) << " on " << sample.query.num_devices;
    }
    EXPECT_LT(profile.parts[0].held_out->p90, 1e-2);
  }
}

TEST(NcclModel, ComesBackFromItsFile) {
  Profile profile = fitted(samples_of(Op::all_gather));
  profile.device_by_name = false;
  const Profile again = profile_from_json(to_json(profile), "file", DataFolders({}));
  EXPECT_EQ(to_json(again), to_json(profile));
  for (const char* way : {"low_latency", "simple"}) {
    Json broken = to_json(profile);
    broken["parts"][0]["coefficients"][way]["link_ratio"] = 2;
    try {
      profile_from_json(broken, "file", DataFolders({}));
      FAIL() << "a share beyond 1 was taken";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(way));
    }
  }
}

TEST(NcclModel, IsCarriedByTheLinkAndScaledToFewPoints) {
  const Profile donor = fitted(samples_of(Op::send_recv));
  const auto faster = carried_over(on_nvlink(2 * kLink), donor);
  ASSERT_NE(faster, nullptr);
  const OpQuery large = query_of(Op::send_recv, 1e8, 2);
  EXPECT_NEAR(faster->parts[0].model->seconds(large), 40e-6 + 1.5 * 1e8 / (2 * kLink), 1e-7);
  EXPECT_EQ(faster->parts[0].provenance, Provenance::modelled);
  Device pcie = test::t4();
  pcie.nvlink_bytes_per_s.reset();
  EXPECT_EQ(carried_over(pcie, donor), nullptr);
  // Starts that take twice as long, seen at four points.
  std::vector<Sample> few;
  for (const Sample& sample : samples_of(Op::send_recv, "", 2)) {
    if (few.size() < 4) few.push_back(sample);
  }
  const FitMethod& nccl = find_fit_method(Op::send_recv, "nccl");
  const auto scaled = nccl.fit(on_nvlink(kLink), few, donor.parts[0].model.get());
  const OpQuery small = query_of(Op::send_recv, 1024, 2);
  EXPECT_NEAR(scaled->seconds(small) / truth_s(small, 2), 1, 0.05);
  EXPECT_THROW(nccl.fit(on_nvlink(kLink), few, nullptr), Error);
}

/// Sums of up to 8 MB among up to 4 devices by a kernel, and NCCL's.
Profile with_both_kernels() {
  Profile profile = fitted(samples_of(Op::all_reduce, "nccl"));
  std::vector<Sample> own;
  for (const Sample& sample : samples_of(Op::all_reduce)) {
    if (sample.query.bytes > 8e6 || sample.query.num_devices > 4) continue;
    own.push_back(sample);
    own.back().latency_s /= 2;
  }
  profile.parts.push_back(fitted(own).parts[0]);
  return profile;
}

TEST(PredictSum, TakesNcclBeyondTheKernel) {
  const Profile profile = with_both_kernels();
  const Link link = node_link(profile.device);
  const auto ratio = [&](double bytes, std::int32_t devices) {
    const OpQuery query = query_of(Op::all_reduce, bytes, devices);
    return predict_sum(query, link, &profile).seconds.value / truth_s(query);
  };
  EXPECT_NEAR(ratio(1e6, 4), 0.5, 0.01);
  EXPECT_NEAR(ratio(1e8, 4), 1, 0.01);
  EXPECT_NEAR(ratio(1e6, 8), 1, 0.01);
  const OpQuery query = query_of(Op::all_reduce, 1e6, 4);
  const Link other{kLink / 2, 0, "nvlink"};
  EXPECT_EQ(predict_sum(query, other, &profile).seconds.value, all_reduce_s(1e6, 4, other));
  EXPECT_EQ(predict_sum(query, link, nullptr).seconds.value, all_reduce_s(1e6, 4, link));
}

TEST(PredictSum, NeverFallsWithBytesOrDevices) {
  const Profile profile = with_both_kernels();
  const Link link = node_link(profile.device);
  const auto seconds = [&](double bytes, std::int32_t devices) {
    return predict_sum(query_of(Op::all_reduce, bytes, devices), link, &profile).seconds.value;
  };
  for (std::int32_t devices = 2; devices < 10; ++devices) {
    double before = 0;
    for (double bytes = 100; bytes < 1e9; bytes *= 1.07) {
      EXPECT_GE(seconds(bytes, devices), before) << bytes << " among " << devices;
      EXPECT_GE(seconds(bytes, devices + 1), seconds(bytes, devices) * (1 - 1e-12));
      before = seconds(bytes, devices);
    }
  }
}

TEST(Transfer, IsPricedAsMeasuredOverSuchALink) {
  const Profile profile = fitted(samples_of(Op::send_recv));
  const Link nvlink{kLink, 10e-6, "nvlink"}, network{25e9, 30e-6, "network"};
  EXPECT_NEAR(transfer_s(1e8, nvlink, &profile), 40e-6 + 1.5 * 1e8 / kLink, 1e-7);
  EXPECT_DOUBLE_EQ(transfer_s(1e8, nvlink, nullptr), 10e-6 + 1e8 / kLink);
  EXPECT_DOUBLE_EQ(transfer_s(1e8, network, &profile), 30e-6 + 1e8 / 25e9);
}

// One kernel for two, NCCL for more.
TEST(AllReduce, OverPcieNeverFallsWithDevices) {
  const Link pcie{31.5e9, 10e-6, "pcie"};
  for (double bytes = 100; bytes < 1e9; bytes *= 1.3) {
    for (std::int64_t devices = 2; devices < 16; ++devices) {
      EXPECT_GE(all_reduce_s(bytes, devices + 1, pcie), all_reduce_s(bytes, devices, pcie));
    }
  }
}

// By way of the host's memory: always slower, by two to eight times for what decode steps sum.
TEST(AllReduce, WithoutPeerAccessTakesLonger) {
  const Link peers{31.5e9, 10e-6, "pcie"};
  Link host = peers;
  host.peer_access = false;
  for (std::int64_t devices = 2; devices <= 16; ++devices) {
    double before = 0;
    for (double bytes = 100; bytes < 1e9; bytes *= 1.3) {
      const double seconds = all_reduce_s(bytes, devices, host);
      EXPECT_GT(seconds, all_reduce_s(bytes, devices, peers)) << bytes << " among " << devices;
      EXPECT_GE(seconds, before);
      EXPECT_GE(all_reduce_s(bytes, devices + 1, host), seconds);
      before = seconds;
    }
  }
  // Two A100 (../measured/field): 717 kB in 0.2 ms, where 50 us are what peers take.
  EXPECT_NEAR(all_reduce_s(717e3, 2, host), 0.18e-3, 0.04e-3);
  EXPECT_NEAR(all_reduce_s(717e3, 2, peers), 0.06e-3, 0.02e-3);
  EXPECT_EQ(modelled_all_reduce(717e3, 2, host).method, "ring");
  // What was measured between peers says nothing of it.
  const Profile profile = with_both_kernels();
  Device card = profile.device;
  card.nvlink_bytes_per_s.reset();
  EXPECT_TRUE(node_link(card).peer_access);
  card.peer_access = false;
  EXPECT_FALSE(node_link(card).peer_access);
}

// Infinity Fabric: seven wires of 64 GB/s a device; through a switch as many devices have one.
TEST(AllReduce, RunsOverAllLinksOfAMeshAtOnce) {
  Link mesh{64e9, 10e-6, "nvlink"};
  const Link through_switch = mesh;
  mesh.mesh = true;
  const double bytes = 8192.0 * 8192 * 2;
  EXPECT_NEAR(all_reduce_s(bytes, 8, through_switch) / all_reduce_s(bytes, 8, mesh), 7, 0.2);
  EXPECT_EQ(all_reduce_s(bytes, 2, through_switch), all_reduce_s(bytes, 2, mesh));
  const double all_links = 2.0 * 7 / 8 * bytes / (7 * 64e9);
  EXPECT_GE(all_reduce_s(bytes, 8, mesh), all_links);
  EXPECT_LE(all_reduce_s(bytes, 8, mesh), 1.6 * all_links);
}

const DataFolders& folders() {
  static const DataFolders all({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  return all;
}

TEST(ShippedProfiles, MoveNoFasterThanTheirLinks) {
  int parts = 0;
  for (const std::string& device : folders().list("devices")) {
    for (const std::string& kernel_set : folders().list("kernel_sets")) {
      const auto profile = find_profile(device, kernel_set, folders());
      if (profile == nullptr) continue;
      const Link link = node_link(profile->device);
      for (const ProfilePart& part : profile->parts) {
        if (!is_collective(part.op) && part.op != Op::send_recv) continue;
        ++parts;
        double before = 0;
        for (double bytes = 256; bytes < 1e9; bytes *= 1.5) {
          const OpQuery query = query_of(part.op, bytes, 2, part.name.c_str());
          const double seconds = part.model->seconds(query);
          EXPECT_GE(seconds, wire_bytes(query) / link.bytes_per_s) << device << " " << kernel_set;
          EXPECT_GE(seconds, before);
          before = seconds;
        }
      }
      if (profile->find(query_of(Op::all_reduce, 1, 2)) == nullptr) continue;
      for (const std::int32_t devices : {2, 4, 8}) {
        double before = 0;
        for (double bytes = 256; bytes < 1e9; bytes *= 1.05) {
          const OpQuery query = query_of(Op::all_reduce, bytes, devices);
          const double seconds = predict_sum(query, link, profile.get()).seconds.value;
          EXPECT_GE(seconds, before) << device << " " << kernel_set << " " << bytes;
          before = seconds;
        }
      }
    }
  }
  EXPECT_GE(parts, 40);
}

}  // namespace
}  // namespace tessera::cost::collectives_test
