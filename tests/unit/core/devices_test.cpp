#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "expect_error.h"
#include "mutate.h"
#include "tessera/core/cluster.h"
#include "tessera/core/device.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/units.h"
#include "tessera/core/workload.h"

namespace tessera {
namespace {

using test::expect_error;

const DataFolders& datasets() {
  static const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  return folders;
}

Json json_of(const std::string& text) { return parse_json(text, "test"); }

Json device_json() { return to_json(find_device("V100-32G", datasets())); }

Json cluster_json() {
  return json_of(R"({"name": "lab", "nodes": [
    {"name": "a", "devices": [["T4-16G", 2]], "host_memory_gib": 108},
    {"name": "b", "devices": ["V100-32G", ["V100-32G"]]}], "link_gbps": 800})");
}

Cluster read_cluster(const Json& json) { return cluster_from_json(json, "lab.json", datasets()); }

double usable_mib(const std::string& name) {
  return 0.95 * find_device(name, datasets()).memory_bytes / kMiB - 1930;
}

TEST(Devices, EveryShippedFileLoadsWithinSaneRanges) {
  const std::vector<std::string> names = datasets().list("devices");
  ASSERT_EQ(names.size(), 19u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const Device device = find_device(name, datasets());
    EXPECT_EQ(device.name, name);
    EXPECT_FALSE(device.full_name.empty());
    EXPECT_FALSE(device.source.empty());
    EXPECT_GT(device.memory_bytes, 7 * kGiB);
    EXPECT_LT(device.memory_bytes, 142 * kGiB);
    EXPECT_GE(device.memory_bytes_per_s, 300e9);
    EXPECT_LE(device.memory_bytes_per_s, 4.8e12);
    EXPECT_GE(device.compute_capability, 6.0);
    EXPECT_LE(device.compute_capability, 12.0);
    EXPECT_GT(device.flop_per_s.at("fp16"), device.flop_per_s.at("fp32"));
    EXPECT_LT(device.flop_per_s.at("fp16"), 1e15);
    EXPECT_EQ(device.flop_per_s.count("bf16"), device.compute_capability >= 8.0 ? 1u : 0u);
    EXPECT_EQ(device.flop_per_s.count("fp8"), device.compute_capability >= 8.9 ? 1u : 0u);
    EXPECT_GE(device.pcie_bytes_per_s, 15e9);
    EXPECT_GT(device.nvlink_bytes_per_s.value_or(1e12), 15.75e9);
    EXPECT_EQ(device.price_usd_per_h.has_value(), !device.price_source.empty());
  }
}

TEST(Devices, UsableMemoryIsWhatTheAuthorsLogged) {
  EXPECT_NEAR(usable_mib("T4-16G"), 12428.5, 0.06);
  EXPECT_NEAR(usable_mib("V100-32G"), 28946.7, 0.06);
  EXPECT_NEAR(usable_mib("A100-40G"), 36398.3, 0.06);
  EXPECT_NEAR(usable_mib("P100-12G"), 9656.0, 0.06);
  EXPECT_NEAR(usable_mib("A100-80G"), 74921.2, 0.06);
}

TEST(Devices, IntegerRatesFollowTheHardware) {
  EXPECT_EQ(find_device("P100-12G", datasets()).flop_per_s.count("int8"), 0u);
  EXPECT_EQ(find_device("V100-32G", datasets()).flop_per_s.at("int8"), 62.8e12);
  EXPECT_EQ(find_device("T4-16G", datasets()).flop_per_s.at("int8"), 130e12);
  for (const char* name : {"T4-16G", "P100-12G", "L4", "L40S", "A10", "RTX-4090"}) {
    EXPECT_FALSE(find_device(name, datasets()).nvlink_bytes_per_s) << name;
  }
}

TEST(Devices, RoundTripIsExact) {
  for (const std::string& name : datasets().list("devices")) {
    const Json json = to_json(find_device(name, datasets()));
    const Json again = json_of(json.dump());
    EXPECT_EQ(to_json(device_from_json(again, name)).dump(), json.dump());
    EXPECT_EQ(device_from_json(again, name).memory_bytes,
              find_device(name, datasets()).memory_bytes);
  }
}

TEST(Devices, NamesMatchWithoutCaseSpacesAndUnderscores) {
  EXPECT_EQ(find_device("t4-16g", datasets()).name, "T4-16G");
  EXPECT_EQ(find_device("RTX 3090", datasets()).name, "RTX-3090");
  EXPECT_EQ(find_device("rtx_2080 super", datasets()).name, "RTX-2080-SUPER");
}

TEST(Devices, UnknownNamesOfferTheNearest) {
  const auto offers = [](const std::string& name, const std::string& nearest) {
    expect_error(ErrorCode::not_found, {"unknown device '" + name + "'", "'" + nearest + "'"},
                 [&] { find_device(name, datasets()); });
  };
  offers("T4-16", "T4-16G");
  offers("T4", "T4-16G");
  offers("V100", "V100-32G");
  offers("A100-8OG", "A100-80G");
  EXPECT_EQ(find_device("3090", datasets()).name, "RTX-3090");
  for (const char* name : {"", "../devices/L4", "L4.json", "zzzzzzzzzzzz"}) {
    expect_error(ErrorCode::not_found, {"unknown device"}, [&] { find_device(name, datasets()); });
  }
}

TEST(Devices, MemoryComesInThreeUnits) {
  Json json = device_json();
  json.erase("memory_bytes");
  json["memory_mib"] = 1024;
  EXPECT_EQ(device_from_json(json, "d").memory_bytes, kGiB);
  json["memory_gib"] = 1;
  expect_error(ErrorCode::invalid_argument, {"d: memory_gib", "given twice"},
               [&] { device_from_json(json, "d"); });
  json.erase("memory_mib");
  EXPECT_EQ(device_from_json(json, "d").memory_bytes, kGiB);
  json.erase("memory_gib");
  expect_error(ErrorCode::invalid_argument, {"d", "memory_bytes", "missing"},
               [&] { device_from_json(json, "d"); });
}

TEST(Devices, FewFieldsAreEnough) {
  const Device device = device_from_json(
      json_of(
          R"({"name": "X", "memory_gib": 8, "memory_bytes_per_s": 1e11, "flop_per_s": {"fp16": 1e13}})"),
      "x.json");
  EXPECT_EQ(device.compute_capability, kDefaultComputeCapability);
  EXPECT_EQ(device.pcie_bytes_per_s, kDefaultPcieBytesPerS);
  EXPECT_FALSE(device.nvlink_bytes_per_s);
}

TEST(Devices, BadFieldsAreNamed) {
  struct Case {
    const char* field;
    const char* value;
    ErrorCode code;
    std::vector<std::string> parts;
  };
  const auto invalid = ErrorCode::invalid_argument;
  const auto range = ErrorCode::out_of_range;
  const std::vector<Case> cases = {
      {"name", "3", invalid, {"d.json: name", "string"}},
      {"name", R"("")", invalid, {"d.json: name", "1 to 128"}},
      {"name", R"("a/b")", invalid, {"d.json: name", "'a/b'"}},
      {"name", "null", invalid, {"'name' is missing"}},
      {"full_name", "[]", invalid, {"full_name", "string"}},
      {"memory_bytes", R"("16G")", invalid, {"memory_bytes", "number"}},
      {"memory_bytes", "-1", range, {"memory_bytes", "-1"}},
      {"memory_bytes", "0", range, {"memory_bytes", "outside"}},
      {"memory_bytes_per_s", "0", range, {"memory_bytes_per_s"}},
      {"memory_bytes_per_s", "1e300", range, {"memory_bytes_per_s", "1e+300"}},
      {"flop_per_s", "1e12", invalid, {"flop_per_s", "object"}},
      {"flop_per_s", "{}", invalid, {"flop_per_s", "'fp16' is missing"}},
      {"flop_per_s", R"({"fp16": -5})", range, {"flop_per_s: fp16", "-5"}},
      {"flop_per_s", R"({"fp16": 1e12, "int9": 1e12})", invalid, {"'int9'", "'int8'"}},
      {"compute_capability", "0.5", range, {"compute_capability", "[1, 100]"}},
      {"pcie_bytes_per_s", "true", invalid, {"pcie_bytes_per_s", "number"}},
      {"nvlink_bytes_per_s", "0", range, {"nvlink_bytes_per_s"}},
      {"price_usd_per_h", "-0.1", range, {"price_usd_per_h"}},
      {"price_source", "1", invalid, {"price_source"}},
      {"source", "{}", invalid, {"source"}},
      {"memory_byte", "1", invalid, {"unknown field 'memory_byte'", "'memory_bytes'"}},
  };
  for (const Case& bad : cases) {
    SCOPED_TRACE(std::string(bad.field) + " = " + bad.value);
    Json json = device_json();
    json[bad.field] = json_of(bad.value);
    expect_error(bad.code, bad.parts, [&] { device_from_json(json, "d.json"); });
  }
  expect_error(invalid, {"d.json", "object"}, [] { device_from_json(json_of("[1]"), "d.json"); });
}

TEST(Clusters, EveryShippedFileLoads) {
  const std::vector<std::string> names = datasets().list("clusters");
  ASSERT_EQ(names.size(), 21u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const Cluster cluster = find_cluster(name, datasets());
    EXPECT_EQ(cluster.name, name);
    EXPECT_FALSE(cluster.source.empty());
    EXPECT_LE(cluster.nodes.size(), 2u);
    EXPECT_LE(cluster.devices.size(), 8u);
    for (const Node& node : cluster.nodes) EXPECT_GE(node.host_memory_bytes.value_or(0), 64 * kGiB);
    for (const ClusterDevice& a : cluster.devices) {
      for (const ClusterDevice& b : cluster.devices) {
        EXPECT_TRUE(a.node_index != b.node_index || a.device.name == b.device.name);
      }
    }
  }
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
  bad(invalid, {"nodes[0]: nvlink", "true or false"}, [](Json& j) { j["nodes"][0]["nvlink"] = 1; });
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

TEST(ClusterText, Terms) {
  const Cluster cluster = cluster_from_text(" 3xT4-16G + 1xV100-32G @ 800 Gb/s ", datasets());
  EXPECT_EQ(cluster.name, "3xT4-16G + 1xV100-32G @ 800 Gb/s");
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
  bad(invalid, "T4-16G", {"term 1 is 'T4-16G'", "COUNTxDEVICE"});
  bad(invalid, "3xT4-16G+", {"term 2 is empty"});
  bad(invalid, "+3xT4-16G", {"term 1 is empty"});
  bad(invalid, "3xT4-16G++1xL4", {"term 2 is empty"});
  bad(invalid, "3x", {"term 1 is '3x'", "without a device"});
  bad(invalid, "xT4-16G", {"term 1"});
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
  bad(range, "1xL4@0Gbps", {"0 Gb/s", "above 0"});
  bad(range, "1xL4@-5Gbps", {"-5"});
  bad(range, "1xL4@nanGbps", {"nan"});
  bad(range, "1xL4@1e999Gbps", {"inf"});
  bad(range, std::string(70000, '+'), {"the limit is"});
}

TEST(Clusters, NamesAndTexts) {
  EXPECT_EQ(find_cluster("LLMPQ_3", datasets()).name, "llmpq-3");
  EXPECT_EQ(find_cluster("2xL4@50Gbps", datasets()).devices.size(), 2u);
  expect_error(ErrorCode::not_found, {"unknown cluster 'llmpq-33'", "'llmpq-3'", "3xT4-16G"},
               [] { find_cluster("llmpq-33", datasets()); });
}

TEST(Workloads, EveryShippedFileLoads) {
  for (const std::string& name : datasets().list("workloads")) {
    const std::string path = datasets().find("workloads", name);
    const Workload workload = workload_from_json(read_json_file(path), path);
    EXPECT_EQ(workload.name, name);
    EXPECT_FALSE(workload.source.empty());
  }
  const std::string path = datasets().find("workloads", "llmpq");
  const Workload llmpq = workload_from_json(read_json_file(path), path);
  EXPECT_EQ(llmpq.prompt_tokens, 512);
  EXPECT_EQ(llmpq.output_tokens, 100);
  EXPECT_EQ(llmpq.batch_size, 32);
}

// Whatever a damaged file holds, only Error comes out, and what is read can be written and read.
TEST(Datasets, DamagedFilesOnlyRaiseErrors) {
  const std::uint64_t seed = test::test_seed();
  SCOPED_TRACE("TESSERA_TEST_SEED=" + std::to_string(seed));
  Rng rng(seed);
  int accepted = 0;
  for (const char* kind : {"devices", "clusters", "workloads"}) {
    for (const std::string& name : datasets().list(kind)) {
      const std::string original = read_file(datasets().find(kind, name));
      for (int i = 0; i < 40; ++i) {
        const std::string text = test::mutate(original, rng);
        try {
          const Json json = parse_json(text, name);
          if (*kind == 'd') to_json(device_from_json(json, name));
          if (*kind == 'w') to_json(workload_from_json(json, name));
          if (*kind == 'c') {
            const Cluster cluster = cluster_from_json(json, name, datasets());
            cluster_from_json(to_json(cluster), name, datasets());
          }
          ++accepted;
        } catch (const Error&) {
        } catch (const std::exception& e) {
          FAIL() << kind << "/" << name << ": " << e.what() << "\n" << text;
        }
      }
    }
  }
  EXPECT_GT(accepted, 0) << "every edit was fatal: the mutations test nothing but the parser";
}

}  // namespace
}  // namespace tessera
