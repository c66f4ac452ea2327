// Cluster files and texts: what they say, what they refuse, and the links between devices.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "expect_error.h"
#include "tessera/core/cluster.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/units.h"

namespace tessera::clusters_test {
namespace {

using test::expect_error;

const DataFolders& datasets() {
  static const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  return folders;
}

Json json_of(const std::string& text) { return parse_json(text, "test"); }

Json cluster_json() {
  return json_of(R"({"name": "lab", "nodes": [
    {"name": "a", "devices": [["T4-16G", 2]], "host_memory_gib": 108},
    {"name": "b", "devices": ["V100-32G", ["V100-32G"]]}], "link_gbps": 800})");
}

Cluster read_cluster(const Json& json) { return cluster_from_json(json, "lab.json", datasets()); }

TEST(Clusters, EveryShippedFileLoads) {
  const std::vector<std::string> names = datasets().list("clusters");
  ASSERT_EQ(names.size(), 43u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const Cluster cluster = find_cluster(name, datasets());
    EXPECT_EQ(cluster.name, name);
    EXPECT_FALSE(cluster.source.empty());
    EXPECT_LE(cluster.nodes.size(), 2u);
    EXPECT_LE(cluster.devices.size(), 8 * cluster.nodes.size());
    for (const Node& node : cluster.nodes) EXPECT_GE(node.host_memory_bytes.value_or(0), 64 * kGiB);
    for (const ClusterDevice& a : cluster.devices) {
      for (const ClusterDevice& b : cluster.devices) {
        EXPECT_TRUE(a.node_index != b.node_index || a.device.name == b.device.name);
      }
    }
  }
}

TEST(Clusters, BoxesHaveTheLinksOfTheirDataSheets) {
  struct Box {
    const char* name;
    std::size_t num_devices;
    const char* kind;  ///< between the second and the third device
    double bytes_per_s;
    double network_gbps;
  };
  const std::vector<Box> boxes = {{"dgx-a100-40g", 8, "nvlink", 300e9, 200},
                                  {"dgx-a100-80g", 8, "nvlink", 300e9, 200},
                                  {"dgx-a100-80g-x2", 16, "nvlink", 300e9, 200},
                                  {"dgx-h100", 8, "nvlink", 450e9, 400},
                                  {"dgx-h100-x2", 16, "nvlink", 450e9, 400},
                                  {"dgx-h200", 8, "nvlink", 450e9, 400},
                                  {"dgx-h200-x2", 16, "nvlink", 450e9, 400},
                                  {"aws-p4d.24xlarge", 8, "nvlink", 300e9, 100},
                                  {"aws-p4de.24xlarge", 8, "nvlink", 300e9, 100},
                                  {"aws-p5.48xlarge", 8, "nvlink", 450e9, 400},
                                  {"aws-p5en.48xlarge", 8, "nvlink", 450e9, 400},
                                  {"aws-g5.48xlarge", 8, "pcie", 31.5e9, 100},
                                  {"aws-g6.48xlarge", 8, "pcie", 31.5e9, 100},
                                  {"aws-g6e.48xlarge", 8, "pcie", 31.5e9, 400},
                                  {"azure-nd96asr-v4", 8, "nvlink", 300e9, 200},
                                  {"server-8xl40s", 8, "pcie", 31.5e9, 100},
                                  {"server-8xa6000", 8, "pcie", 31.5e9, 100},
                                  {"server-8xa6000-bridges", 8, "pcie", 31.5e9, 100},
                                  {"workstation-4xrtx-3090", 4, "pcie", 31.5e9, 100}};
  for (const Box& box : boxes) {
    SCOPED_TRACE(box.name);
    const Cluster cluster = find_cluster(box.name, datasets());
    ASSERT_EQ(cluster.devices.size(), box.num_devices);
    EXPECT_EQ(cluster.link(1, 2).kind, box.kind);
    EXPECT_EQ(cluster.link(1, 2).bytes_per_s, box.bytes_per_s);
    EXPECT_EQ(cluster.network_bytes_per_s, box.network_gbps / 8 * 1e9);
  }
  EXPECT_EQ(find_cluster("dgx-h100-x2", datasets()).link(7, 8).kind, "network");
  EXPECT_EQ(find_cluster("server-8xa6000-bridges", datasets()).link(6, 7).kind, "nvlink");
  EXPECT_EQ(find_cluster("workstation-2xrtx-4090", datasets()).link(0, 1).kind, "pcie");
}

TEST(Clusters, PaperClustersHaveTheirDevicesInOrder) {
  const auto spelled = [](const std::string& name) {
    std::string text;
    for (const ClusterDevice& slot : find_cluster(name, datasets()).devices) {
      text += slot.device.name + " ";
    }
    return text;
  };
  EXPECT_EQ(spelled("llmpq-3"), "T4-16G T4-16G T4-16G V100-32G ");
  EXPECT_EQ(spelled("llmpq-4"), "P100-12G P100-12G P100-12G V100-32G ");
  EXPECT_EQ(spelled("llmpq-8"), "V100-32G V100-32G V100-32G V100-32G A100-80G A100-80G ");
  EXPECT_EQ(spelled("splitquant-2"), "V100-32G V100-32G A100-40G ");
  EXPECT_EQ(spelled("splitquant-10"), "A100-40G A100-40G A100-40G A100-40G ");
  for (const char* name : {"llmpq-4", "llmpq-6", "llmpq-7", "splitquant-6"}) {
    EXPECT_EQ(find_cluster(name, datasets()).network_bytes_per_s, 12.5e9) << name;
  }
  for (const char* name : {"llmpq-3", "llmpq-5", "llmpq-8", "splitquant-7"}) {
    EXPECT_EQ(find_cluster(name, datasets()).network_bytes_per_s, 100e9) << name;
  }
}

TEST(Clusters, LinksOfEveryKind) {
  Cluster cluster = read_cluster(cluster_json());
  ASSERT_EQ(cluster.devices.size(), 4u);
  const auto expect_link = [&](std::size_t i, std::size_t k, const char* kind, double rate,
                               double latency) {
    for (const Link& link : {cluster.link(i, k), cluster.link(k, i)}) {
      EXPECT_EQ(link.kind, kind);
      EXPECT_EQ(link.bytes_per_s, rate);
      EXPECT_EQ(link.latency_s, latency);
    }
  };
  expect_link(0, 0, "self", 320e9, 0);
  expect_link(0, 1, "pcie", 15.75e9, 10e-6);
  expect_link(1, 2, "network", 100e9, 30e-6);
  expect_link(2, 3, "nvlink", 50e9, 10e-6);
  cluster.nodes[1].nvlink_bytes_per_s = 75e9;
  expect_link(2, 3, "nvlink", 75e9, 10e-6);
  cluster.nodes[1].nvlink = false;
  expect_link(2, 3, "pcie", 15.75e9, 10e-6);
  expect_error(ErrorCode::out_of_range, {"link(0, 4)", "4 devices"}, [&] { cluster.link(0, 4); });
}

TEST(Clusters, MixedNodesUseTheSlowerEnd) {
  const Cluster cluster = read_cluster(
      json_of(R"({"nodes": [{"name": "a", "devices": ["V100-32G", "A100-40G", "T4-16G"]}]})"));
  EXPECT_EQ(cluster.link(0, 1).kind, "nvlink");
  EXPECT_EQ(cluster.link(0, 1).bytes_per_s, 50e9);
  EXPECT_EQ(cluster.link(1, 2).kind, "pcie");
  EXPECT_EQ(cluster.link(1, 2).bytes_per_s, 15.75e9);
}

TEST(Clusters, BridgesJoinAlikeCardsInPairs) {
  const Cluster cluster = read_cluster(json_of(
      R"({"nodes": [{"name": "a", "devices": [["A6000", 3], "L4", ["A6000", 2], ["A40", 2]],
                     "nvlink_bridges": true}, {"name": "b", "devices": [["A6000", 2]]}]})"));
  const auto kind = [&](std::size_t i, std::size_t k) {
    EXPECT_EQ(cluster.link(i, k).kind, cluster.link(k, i).kind);
    EXPECT_EQ(cluster.bridged(i, k), cluster.link(i, k).kind == "nvlink");
    return cluster.link(i, k).kind;
  };
  EXPECT_EQ(kind(0, 1), "nvlink");
  EXPECT_EQ(cluster.link(0, 1).bytes_per_s, 56.25e9);
  EXPECT_EQ(kind(1, 2), "pcie");
  EXPECT_EQ(kind(0, 2), "pcie");
  EXPECT_EQ(kind(2, 4), "nvlink");  // the third and fourth of the type, with another between
  EXPECT_EQ(kind(4, 5), "pcie");    // the fifth is left over
  EXPECT_EQ(kind(6, 7), "nvlink");
  EXPECT_EQ(kind(5, 6), "pcie");
  EXPECT_EQ(kind(2, 3), "pcie");
  EXPECT_EQ(kind(8, 9), "pcie");  // no bridges on this node
}

TEST(Clusters, PairsThatBridgesJoinAreTheOnesNamed) {
  const Cluster cluster = read_cluster(json_of(R"({"nodes": [
      {"name": "a", "devices": [["A6000", 4]], "nvlink_pairs": [[1, 2]]},
      {"name": "b", "devices": [["A100-80G", 2]], "nvlink": false, "nvlink_pairs": [[1, 0]]}]})"));
  EXPECT_EQ(cluster.link(1, 2).kind, "nvlink");
  EXPECT_EQ(cluster.link(1, 2).bytes_per_s, 56.25e9);
  using Pair = std::pair<std::size_t, std::size_t>;
  for (const auto& [from, to] : {Pair{0, 1}, Pair{0, 3}, Pair{2, 3}, Pair{1, 3}}) {
    EXPECT_EQ(cluster.link(from, to).kind, "pcie") << from << " " << to;
  }
  EXPECT_EQ(cluster.link(4, 5).bytes_per_s, 300e9);
  EXPECT_EQ(cluster.link(2, 4).kind, "network");
  const Cluster again = read_cluster(to_json(cluster));
  EXPECT_EQ(to_json(again), to_json(cluster));
  EXPECT_TRUE(again.bridged(1, 2));
  EXPECT_FALSE(again.bridged(0, 1));
}

TEST(Clusters, RateForAllNodesGivesNoNvlinkToDevicesWithout) {
  Json json = cluster_json();
  json["nvlink_gbps"] = 1200;
  const Cluster cluster = read_cluster(json);
  EXPECT_EQ(cluster.link(0, 1).kind, "pcie");
  EXPECT_EQ(cluster.link(2, 3).bytes_per_s, 150e9);
}

TEST(Clusters, SelfContainedFormRoundTripsExactlyWithoutFolders) {
  const DataFolders nothing({});
  std::vector<Cluster> clusters;
  for (const std::string& name : datasets().list("clusters")) {
    clusters.push_back(find_cluster(name, datasets()));
  }
  clusters.push_back(cluster_from_text("2x(3xA40+1xL4)@bridges", datasets()));
  clusters.push_back(cluster_from_text("2xL4+1xT4-16G+1xL4@33.3Gbps", datasets()));
  // Devices of two nodes in turns, which the nested form cannot say.
  std::swap(clusters.back().devices[0], clusters.back().devices[2]);
  for (const Cluster& cluster : clusters) {
    const std::string text = to_json(cluster).dump();
    const Cluster again = cluster_from_json(json_of(text), "plan.json", nothing);
    EXPECT_EQ(to_json(again).dump(), text);
    ASSERT_EQ(again.devices.size(), cluster.devices.size());
    for (std::size_t i = 0; i < again.devices.size(); ++i) {
      EXPECT_EQ(again.devices[i].node_index, cluster.devices[i].node_index);
      EXPECT_EQ(again.link(0, i).bytes_per_s, cluster.link(0, i).bytes_per_s);
    }
  }
}

TEST(Clusters, BadFieldsAreNamed) {
  const auto bad = [](ErrorCode code, const std::vector<std::string>& parts,
                      const std::function<void(Json&)>& change) {
    Json json = cluster_json();
    change(json);
    expect_error(code, parts, [&] { read_cluster(json); });
  };
  const auto invalid = ErrorCode::invalid_argument;
  const auto range = ErrorCode::out_of_range;
  bad(invalid, {"lab.json", "'nodes' is missing"}, [](Json& j) { j.erase("nodes"); });
  bad(invalid, {"nodes", "list"}, [](Json& j) { j["nodes"] = Json::array(); });
  bad(invalid, {"nodes", "list"}, [](Json& j) { j["nodes"] = 3; });
  bad(invalid, {"nodes[1]", "object"}, [](Json& j) { j["nodes"][1] = 3; });
  bad(invalid, {"nodes[0]", "'name' is missing"}, [](Json& j) { j["nodes"][0].erase("name"); });
  bad(invalid, {"nodes[1]", "two nodes", "'a'"}, [](Json& j) { j["nodes"][1]["name"] = "a"; });
  bad(invalid, {"nodes[1]", "'' is no node name"}, [](Json& j) { j["nodes"][1]["name"] = ""; });
  bad(invalid, {"nodes[0]", "devices", "list"},
      [](Json& j) { j["nodes"][0]["devices"] = Json::array(); });
  bad(ErrorCode::not_found, {"nodes[0]: devices[0]", "'T5-16G'", "'T4-16G'"},
      [](Json& j) { j["nodes"][0]["devices"][0][0] = "T5-16G"; });
  bad(invalid, {"devices[0]", "device name"}, [](Json& j) { j["nodes"][0]["devices"][0] = 7; });
  bad(invalid, {"devices[0]", "[\"T4-16G\", 3]"},
      [](Json& j) { j["nodes"][0]["devices"][0].push_back(1); });
  bad(range, {"devices[0]: count", "0"}, [](Json& j) { j["nodes"][0]["devices"][0][1] = 0; });
  bad(range, {"count", "[1, 4096]"}, [](Json& j) { j["nodes"][0]["devices"][0][1] = 4097; });
  bad(invalid, {"count", "1.5"}, [](Json& j) { j["nodes"][0]["devices"][0][1] = 1.5; });
  bad(range, {"4098 devices", "4096"},
      [](Json& j) { j["nodes"][0]["devices"] = json_of(R"([["T4-16G", 4096], ["T4-16G", 2]])"); });
  bad(range, {"nodes[0]: host_memory_gib", "-1"},
      [](Json& j) { j["nodes"][0]["host_memory_gib"] = -1; });
  bad(invalid, {"host_memory_bytes and host_memory_gib"},
      [](Json& j) { j["nodes"][0]["host_memory_bytes"] = 1e9; });
  bad(invalid, {"nvlink_pairs[0]", "device 0, T4-16G, has no NVLink"},
      [](Json& j) { j["nodes"][0]["nvlink_pairs"] = json_of("[[0, 1]]"); });
  bad(range, {"nvlink_pairs[0]", "[0, 1]"},
      [](Json& j) { j["nodes"][0]["nvlink_pairs"] = json_of("[[2, 1]]"); });
  bad(invalid, {"nvlink_pairs[0]", "two devices"},
      [](Json& j) { j["nodes"][0]["nvlink_pairs"] = json_of("[[0]]"); });
  bad(invalid, {"nodes[0]: nvlink", "true or false"}, [](Json& j) { j["nodes"][0]["nvlink"] = 1; });
  bad(invalid, {"nodes[0]: nvlink_bridges", "lacks two cards"},
      [](Json& j) { j["nodes"][0]["nvlink_bridges"] = true; });
  bad(invalid, {"nodes[1]", "nvlink_bridges", "nvlink = false"}, [](Json& j) {
    j["nodes"][1]["nvlink_bridges"] = true;
    j["nodes"][1]["nvlink"] = false;
  });
  bad(invalid, {"nodes[1]", "nvlink_bridges", "nvlink_bytes_per_s"}, [](Json& j) {
    j["nodes"][1]["nvlink_bridges"] = true;
    j["nodes"][1]["nvlink_gbps"] = 400;
  });
  bad(invalid, {"nodes[0]", "'host_memory_gb'", "'host_memory_gib'"},
      [](Json& j) { j["nodes"][0]["host_memory_gb"] = 1; });
  bad(range, {"link_gbps", "0"}, [](Json& j) { j["link_gbps"] = 0; });
  bad(invalid, {"link_gbps", "network_bytes_per_s"},
      [](Json& j) { j["network_bytes_per_s"] = 1e9; });
  bad(range, {"network_latency_s"}, [](Json& j) { j["network_latency_s"] = -1; });
  bad(range, {"intra_node_latency_s"}, [](Json& j) { j["intra_node_latency_s"] = 11; });
  bad(invalid, {"'link_gps'", "'link_gbps'"}, [](Json& j) { j["link_gps"] = 100; });
}

TEST(Clusters, BadSelfContainedFieldsAreNamed) {
  const auto bad = [](ErrorCode code, const std::vector<std::string>& parts,
                      const std::function<void(Json&)>& change) {
    Json json = to_json(read_cluster(cluster_json()));
    change(json);
    expect_error(code, parts, [&] { read_cluster(json); });
  };
  const auto invalid = ErrorCode::invalid_argument;
  bad(invalid, {"devices[3]", "'node' is missing"}, [](Json& j) { j["devices"][3].erase("node"); });
  bad(invalid, {"devices[0]", "unknown node 'c'"}, [](Json& j) { j["devices"][0]["node"] = "c"; });
  bad(invalid, {"nodes[0]", "listed at the top"},
      [](Json& j) { j["nodes"][0]["devices"] = {"T4-16G"}; });
  bad(invalid, {"devices", "list"}, [](Json& j) { j["devices"] = 1; });
  bad(ErrorCode::out_of_range, {"devices[1]: memory_bytes"},
      [](Json& j) { j["devices"][1]["memory_bytes"] = -1; });
  bad(invalid, {"'nvlink_gbps'"}, [](Json& j) { j["nvlink_gbps"] = 100; });
}

TEST(Clusters, DevicesShareThePriceOfTheirNode) {
  const Cluster machine = find_cluster("g5.12xlarge", datasets());
  ASSERT_EQ(machine.devices.size(), 4u);
  for (const ClusterDevice& slot : machine.devices) {
    EXPECT_DOUBLE_EQ(slot.device.price_usd_per_h.value(), 5.672 / 4);
    EXPECT_THAT(slot.device.price_source, testing::HasSubstr("us-east-1"));
  }
  EXPECT_DOUBLE_EQ(
      find_cluster("aws-p5.48xlarge", datasets()).devices[7].device.price_usd_per_h.value(),
      55.04 / 8);
  const Cluster two = find_cluster("g5.xlarge+g5.12xlarge", datasets());
  EXPECT_DOUBLE_EQ(two.devices.front().device.price_usd_per_h.value(), 1.006);
  EXPECT_DOUBLE_EQ(two.devices.back().device.price_usd_per_h.value(), 5.672 / 4);
  Json own =
      Json::parse(R"({"name": "own", "nodes": [{"name": "a", "devices": [["L4", 2], "T4-16G"],
      "usd_per_h": 3, "price_source": "our lab"}]})");
  const Cluster lab = cluster_from_json(own, "own", datasets());
  EXPECT_DOUBLE_EQ(lab.devices[2].device.price_usd_per_h.value(), 1);
  EXPECT_EQ(lab.devices[2].device.price_source, "our lab");
  // A part that is written and read again keeps what its devices cost.
  EXPECT_EQ(to_json(cluster_from_json(to_json(lab), "own", datasets())), to_json(lab));
  own["nodes"][0].erase("usd_per_h");
  expect_error(ErrorCode::invalid_argument, {"price_source", "usd_per_h", "missing"},
               [&] { cluster_from_json(own, "own", datasets()); });
}

TEST(ClusterText, Terms) {
  const Cluster cluster = cluster_from_text(" 3xT4-16G + 1xV100-32G @ 800 Gb/s ", datasets());
  EXPECT_EQ(cluster.name, "3xT4-16G+1xV100-32G@800Gb/s");
  for (const char* bytes : {"1xL4+1xT4@100GB/s", "1xL4+1xT4 @ 100 GBps"}) {
    EXPECT_EQ(cluster_from_text(bytes, datasets()).network_bytes_per_s, 1e11) << bytes;
  }
  ASSERT_EQ(cluster.devices.size(), 4u);
  ASSERT_EQ(cluster.nodes.size(), 2u);
  EXPECT_EQ(cluster.nodes[0].name, "t4-16g");
  EXPECT_EQ(cluster.devices[2].node_index, 0u);
  EXPECT_EQ(cluster.devices[3].device.name, "V100-32G");
  EXPECT_EQ(cluster.network_bytes_per_s, 100e9);
  EXPECT_EQ(cluster_from_text("1xL4", datasets()).network_bytes_per_s, 12.5e9);
  EXPECT_EQ(cluster_from_text("4096Xl4@0.5gbps", datasets()).devices.size(), 4096u);
}

TEST(ClusterText, EqualTermsAreNodesOfTheirOwn) {
  const Cluster cluster = cluster_from_text("1xL4+1xL4", datasets());
  EXPECT_EQ(cluster.nodes[0].name, "l4");
  EXPECT_EQ(cluster.nodes[1].name, "l4-2");
  EXPECT_EQ(cluster.link(0, 1).kind, "network");
}

TEST(ClusterText, ParenthesesMakeOneNode) {
  const Cluster desk = cluster_from_text("(2xRTX-3090 + 1xRTX-4090)", datasets());
  ASSERT_EQ(desk.nodes.size(), 1u);
  ASSERT_EQ(desk.devices.size(), 3u);
  EXPECT_EQ(desk.nodes[0].name, "node");
  EXPECT_EQ(desk.link(0, 2).kind, "pcie");
  EXPECT_EQ(find_cluster("(1xL4)", datasets()).nodes[0].name, "l4");

  const Cluster two = cluster_from_text("2x(4xA100-40G)+1xL4+1X(1xL4+2xT4-16G)@10Gbps", datasets());
  ASSERT_EQ(two.nodes.size(), 4u);
  ASSERT_EQ(two.devices.size(), 12u);
  EXPECT_EQ(two.nodes[1].name, "a100-40g-2");
  EXPECT_EQ(two.link(0, 3).kind, "nvlink");
  EXPECT_EQ(two.link(3, 4).kind, "network");
  EXPECT_EQ(two.link(9, 11).kind, "pcie");
}

TEST(ClusterText, BridgesAreAskedFor) {
  EXPECT_EQ(cluster_from_text("2xA6000", datasets()).link(0, 1).kind, "pcie");
  const Cluster four = cluster_from_text("4xA6000 @ Bridges @ 10Gbps", datasets());
  EXPECT_EQ(four.network_bytes_per_s, 1.25e9);
  EXPECT_EQ(four.link(0, 1).kind, "nvlink");
  EXPECT_EQ(four.link(1, 2).kind, "pcie");
  EXPECT_EQ(four.link(2, 3).kind, "nvlink");
  // Nodes whose cards take none stay as they are.
  const Cluster mixed = cluster_from_text("2xL4+2xA40+1xA40@bridges", datasets());
  EXPECT_FALSE(mixed.nodes[0].nvlink_bridges);
  EXPECT_TRUE(mixed.nodes[1].nvlink_bridges);
  EXPECT_FALSE(mixed.nodes[2].nvlink_bridges);
}

TEST(ClusterText, SaysWhetherCardsReachEachOthersMemory) {
  const auto reaches = [](const Cluster& cluster) { return cluster.link(0, 1).peer_access; };
  EXPECT_TRUE(reaches(cluster_from_text("2xL4", datasets())));
  EXPECT_FALSE(reaches(cluster_from_text("2xL4@no-peer", datasets())));
  EXPECT_FALSE(reaches(cluster_from_text("2xL4@100Gbps@no-peer", datasets())));
  EXPECT_FALSE(reaches(cluster_from_text("2xRTX-4090", datasets())));
  EXPECT_FALSE(reaches(cluster_from_text("(1xL4+1xRTX-4090)", datasets())));
  EXPECT_TRUE(reaches(cluster_from_text("8xH100-80G@no-peer", datasets())));  // over NVLink
  // A node goes before the sheets, and is kept in its file.
  const Json box = json_of(R"({"nodes": [{"name": "a", "devices": [["RTX-4090", 2]],
                               "peer_access": true}]})");
  const Cluster patched = cluster_from_json(box, "box.json", datasets());
  EXPECT_TRUE(reaches(patched));
  EXPECT_TRUE(reaches(cluster_from_json(to_json(patched), "again.json", datasets())));
  const Cluster apart = cluster_from_text("2xL4@no-peer", datasets());
  EXPECT_FALSE(reaches(cluster_from_json(to_json(apart), "again.json", datasets())));
  expect_error(ErrorCode::invalid_argument, {"'@no-peer' says what another"},
               [] { cluster_from_text("2xL4@no-peer@no-peer", datasets()); });
}

TEST(ClusterText, MalformedTextsSayWhatIsWrong) {
  const auto bad = [](ErrorCode code, const std::string& text,
                      const std::vector<std::string>& parts) {
    SCOPED_TRACE(text.substr(0, 60));
    expect_error(code, parts, [&] { cluster_from_text(text, datasets()); });
  };
  const auto invalid = ErrorCode::invalid_argument;
  const auto range = ErrorCode::out_of_range;
  bad(invalid, "", {"empty"});
  bad(invalid, "  ", {"empty"});
  bad(invalid, "3 T5-16G", {"term 1 is '3 T5-16G'", "COUNTxDEVICE"});
  bad(ErrorCode::not_found, "T5-16G", {"term 1: unknown device 'T5-16G'"});
  bad(invalid, "1xL4,,1xL4", {"term 2 is empty"});
  bad(invalid, "3 x ", {"term 1 is '3 x'", "without a device"});
  bad(invalid, "3xT4-16G+", {"term 2 is empty"});
  bad(invalid, "+3xT4-16G", {"term 1 is empty"});
  bad(invalid, "3xT4-16G++1xL4", {"term 2 is empty"});
  bad(invalid, "3x", {"term 1 is '3x'", "without a device"});
  bad(ErrorCode::not_found, "xT4-16G", {"term 1", "'T4-16G'"});
  bad(invalid, "-3xT4-16G", {"term 1 is '-3xT4-16G'"});
  bad(invalid, "3.5xT4-16G", {"term 1"});
  bad(range, "0xT4-16G", {"'0' devices", "1 to 4096"});
  bad(range, "4097xL4", {"'4097'"});
  bad(range, "99999999999999999999999xL4", {"'99999"});
  bad(range, "4096xL4+1xL4", {"more than 4096"});
  bad(ErrorCode::not_found, "3xT5-16G", {"unknown device 'T5-16G'", "'T4-16G'"});
  bad(invalid, "1xL4@", {"network after '@'"});
  bad(invalid, "1xL4@fast", {"'fast'", "Gbps"});
  bad(invalid, "1xL4@100", {"'100'", "Gbps"});
  bad(invalid, "1xL4@100GB/s@3", {"Gbps"});
  bad(invalid, "1xL4@5Gbps@7Gbps", {"'@7Gbps' says what another '@' says"});
  bad(invalid, "2xA40@bridges@bridges", {"'@bridges' says what another"});
  bad(invalid, "2xL4@bridges", {"no node has two cards", "NVLink bridge"});
  bad(invalid, "1xA40+1xA40@bridges", {"no node has two cards"});
  bad(invalid, "(2xL4", {"'(' without ')'"});
  bad(invalid, "2xL4)", {"')' without '('"});
  bad(invalid, "2x((2xL4))", {"parentheses within parentheses"});
  bad(invalid, "()", {"term 1 of '()' is empty"});
  bad(invalid, "2x(1xL4+)", {"term 2 of '(1xL4+)' is empty"});
  bad(invalid, "(2xL4)x2", {"term 1 is '(2xL4)x2'"});
  bad(invalid, "2xL(4)", {"term 1 is '2xL(4)'", "for one node"});
  bad(invalid, "1xL4+(2xL4)(2xL4)", {"term 2"});
  bad(range, "4096x(2xL4)", {"more than 4096"});
  bad(ErrorCode::not_found, "(1xL4+1xT5)", {"term 2 of '(1xL4+1xT5)': unknown device 'T5'"});
  bad(range, "1xL4@0Gbps", {"0 Gb/s", "above 0"});
  bad(range, "1xL4@-5Gbps", {"-5"});
  bad(range, "1xL4@nanGbps", {"nan"});
  bad(range, "1xL4@1e999Gbps", {"inf"});
  bad(range, std::string(70000, '+'), {"the limit is"});
}

TEST(ClusterText, IsReadAsPeopleWriteIt) {
  const Cluster tidy = cluster_from_text("2xA100-80G+4xL4", datasets());
  for (const char* text : {"2 x A100-80G + 4 x L4", "2xA100-80G,4xL4", "2 X a100-80g , 4xL4"}) {
    SCOPED_TRACE(text);
    const Cluster same = find_cluster(text, datasets());
    ASSERT_EQ(same.nodes.size(), 2u);
    ASSERT_EQ(same.devices.size(), 6u);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(same.devices[i].device.name, tidy.devices[i].device.name);
      EXPECT_EQ(same.devices[i].node_index, tidy.devices[i].node_index);
    }
  }
  EXPECT_EQ(find_cluster("2 x A100-80G, 4 x L4 @ 10 Gbps", datasets()).name,
            "2xA100-80G+4xL4@10Gbps");
  EXPECT_EQ(find_cluster("A100-80G", datasets()).devices.size(), 1u);
  EXPECT_EQ(find_cluster("A100-80G + L4", datasets()).nodes.size(), 2u);
  EXPECT_EQ(find_cluster("(2 x RTX-3090, RTX-4090)", datasets()).nodes.size(), 1u);
}

TEST(Clusters, NamesAndTexts) {
  expect_error(ErrorCode::not_found, {"unknown cluster 'A100-88G'", "'A100-80G'"},
               [] { find_cluster("A100-88G", datasets()); });
  EXPECT_EQ(find_cluster("LLMPQ_3", datasets()).name, "llmpq-3");
  EXPECT_EQ(find_cluster("2xL4@50Gbps", datasets()).devices.size(), 2u);
  expect_error(ErrorCode::not_found, {"unknown cluster 'llmpq-33'", "'llmpq-3'", "3xT4-16G"},
               [] { find_cluster("llmpq-33", datasets()); });
}

}  // namespace
}  // namespace tessera::clusters_test
