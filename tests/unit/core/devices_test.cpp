#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "expect_error.h"
#include "mutate.h"
#include "tessera/core/cluster.h"
#include "tessera/core/device.h"
#include "tessera/core/device_sheet.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/units.h"
#include "tessera/core/workload.h"

namespace tessera::devices_test {
namespace {

using test::expect_error;

const DataFolders& datasets() {
  static const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  return folders;
}

Json json_of(const std::string& text) { return parse_json(text, "test"); }

Json device_json() { return to_json(find_device("V100-32G", datasets())); }

double usable_mib(const std::string& name) {
  return 0.95 * find_device(name, datasets()).memory_bytes / kMiB - 1930;
}

// Pascal boards without FP16 units, and chips whose GPU has no matrix units.
bool has_fast_fp16(const Device& device) {
  return device.compute_capability != 6.1 && device.backend != "metal";
}

TEST(Devices, EveryShippedFileLoadsWithinSaneRanges) {
  for (const std::string& name : datasets().list("devices")) {
    SCOPED_TRACE(name);
    const Device device = find_device(name, datasets());
    EXPECT_EQ(device.name, name);
    EXPECT_FALSE(device.full_name.empty());
    EXPECT_FALSE(device.source.empty());
    EXPECT_GT(device.memory_bytes, 7 * kGiB);
    EXPECT_LT(device.memory_bytes, 400 * kGiB);
    EXPECT_GE(device.memory_bytes_per_s, 200e9);
    EXPECT_LE(device.memory_bytes_per_s, 8e12);
    const bool is_nvidia = !device.backend.has_value();
    EXPECT_EQ(device.compute_capability >= 6.0, is_nvidia);
    EXPECT_LE(device.compute_capability, 12.1);
    EXPECT_GE(device.pcie_bytes_per_s, 15e9);
    EXPECT_GT(device.nvlink_bytes_per_s.value_or(1e12), 15.75e9);
    EXPECT_GT(device.nvlink_bridge_bytes_per_s.value_or(1e12), 15.75e9);
    EXPECT_FALSE(device.nvlink_bytes_per_s && device.nvlink_bridge_bytes_per_s);
    EXPECT_EQ(device.price_usd_per_h.has_value(), !device.price_source.empty());
    ASSERT_TRUE(device.num_multiprocessors);
    EXPECT_EQ(*device.num_multiprocessors, std::floor(*device.num_multiprocessors));
  }
}

TEST(Devices, RatesOfEverySheetGoTogether) {
  for (const std::string& name : datasets().list("devices")) {
    SCOPED_TRACE(name);
    const Device device = find_device(name, datasets());
    const auto& rates = device.flop_per_s;
    const double fp16 = rates.at("fp16"), fp32 = rates.at("fp32");
    EXPECT_LT(fp16, 2.6e15);
    if (has_fast_fp16(device)) {
      EXPECT_GT(fp16, fp32);
    } else {
      EXPECT_LE(fp16, fp32);
    }
    const auto in_fp16 = [&](const char* dtype, double low, double high) {
      if (rates.count(dtype) == 0) return;
      EXPECT_GE(rates.at(dtype) / fp16, low) << dtype;
      EXPECT_LE(rates.at(dtype) / fp16, high) << dtype;
    };
    in_fp16("bf16", 0.5, 1.0001);  // MI100 halves it
    in_fp16("fp8", 1.9, 2.1);
    if (!device.backend && has_fast_fp16(device)) {
      in_fp16("int8", 0.5, 4.1);
      EXPECT_EQ(rates.count("bf16"), device.compute_capability >= 8.0 ? 1u : 0u);
      EXPECT_EQ(rates.count("fp8"), device.compute_capability >= 8.9 ? 1u : 0u);
    }
  }
}

// A sheet that does not count its multiprocessors has them from its FP32 rate, near enough.
TEST(Devices, MultiprocessorsFollowFromTheRateWithinAFifth) {
  for (const std::string& name : datasets().list("devices")) {
    SCOPED_TRACE(name);
    Device device = find_device(name, datasets());
    const double counted = multiprocessors_of(device);
    EXPECT_EQ(counted, *device.num_multiprocessors);
    if (device.backend && !name.starts_with("MI3")) continue;  // one architecture stands for all
    const std::set<std::string> slow = {"A2000", "RTX-4000-SFF-Ada", "Jetson-AGX-Orin-64G"};
    if (slow.contains(name)) continue;  // boards of few watts, clocked far below others
    device.num_multiprocessors.reset();
    EXPECT_NEAR(multiprocessors_of(device) / counted, 1, 0.2);
  }
  Device device = find_device("V100-32G", datasets());
  device.num_multiprocessors.reset();
  device.flop_per_s.erase("fp32");
  EXPECT_EQ(multiprocessors_of(device), 80);
  device.flop_per_s["fp16"] = 1e6;
  EXPECT_EQ(multiprocessors_of(device), 1);
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
    EXPECT_FALSE(find_device(name, datasets()).nvlink_bridge_bytes_per_s) << name;
  }
}

TEST(Devices, CardsWhoseNvlinkIsABridgeHaveNoneWithoutIt) {
  for (const char* name :
       {"A40", "A5000", "A6000", "H100-NVL", "H100-PCIe", "RTX-2080-SUPER", "RTX-3090"}) {
    EXPECT_FALSE(find_device(name, datasets()).nvlink_bytes_per_s) << name;
    EXPECT_TRUE(find_device(name, datasets()).nvlink_bridge_bytes_per_s) << name;
  }
}

// Prices can be compared: one list, one day. What nobody rents out there has another's, and
// whatever prints it says whose.
TEST(Devices, PricesAreOfOneOriginWhereItHasTheDevice) {
  const std::set<std::string> elsewhere{
      "A40", "A4000",    "A4500",        "A5000",        "A6000",    "H100-NVL", "H100-PCIe",
      "L40", "RTX-3090", "RTX-2000-Ada", "RTX-4000-Ada", "RTX-4090", "RTX-5090", "RTX-6000-Ada"};
  for (const std::string& name : datasets().list("devices")) {
    const std::string source = find_device(name, datasets()).price_source;
    EXPECT_TRUE(!source.empty() || elsewhere.count(name) == 0) << name;
    if (source.empty()) continue;
    EXPECT_EQ(source.substr(0, source.find(':')), elsewhere.count(name) > 0
                                                      ? "RunPod secure cloud, 2025"
                                                      : "AWS on demand, us-east-1, 2025-11-30")
        << name;
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
  offers("A100-60G", "A100-80G");
  offers("A100-8OG", "A100-80G");
  EXPECT_EQ(find_device("3090", datasets()).name, "RTX-3090");
  for (const char* name : {"", "../devices/L4", "L4.json", "zzzzzzzzzzzz"}) {
    expect_error(ErrorCode::not_found, {"unknown device"}, [&] { find_device(name, datasets()); });
  }
}

// What was known by lists in a reader and in tessera detect, before the sheets said it.
TEST(Devices, DriversNameThem) {
  const std::vector<DriverName> names = driver_names(datasets());
  const auto device_of = [&](const char* name) {
    const std::vector<DriverName> found = called(names, name);
    return found.size() == 1 ? found[0].device + (found[0].without_nvlink ? " PCIe" : "") : "";
  };
  EXPECT_EQ(device_of("NVIDIA A100-SXM4-80GB"), "A100-80G");
  EXPECT_EQ(device_of("A100-SXM-80GB"), "A100-80G");
  EXPECT_EQ(device_of("NVIDIA A100 80GB PCIe"), "A100-80G PCIe");
  EXPECT_EQ(device_of("A100-PCIE-40GB"), "A100-40G PCIe");
  EXPECT_EQ(device_of("NVIDIA H100 80GB HBM3"), "H100-80G");
  EXPECT_EQ(device_of("NVIDIA H100 PCIe"), "H100-PCIe");
  EXPECT_EQ(device_of("NVIDIA H200"), "H200-141G");
  EXPECT_EQ(device_of("Tesla T4"), "T4-16G");
  EXPECT_EQ(device_of("NVIDIA Tesla V100-SXM3-32GB"), "V100-32G");
  EXPECT_EQ(device_of("Tesla V100S-PCIE-32GB"), "V100S-32G");
  EXPECT_EQ(device_of("NVIDIA GeForce RTX 3090"), "RTX-3090");
  EXPECT_EQ(device_of("NVIDIA RTX PRO 6000 Blackwell Workstation Edition"), "RTX-PRO-6000");
  EXPECT_EQ(device_of("NVIDIA A100"), "");
  for (const DriverName& name : names) {  // no two sheets have one name
    EXPECT_EQ(called(names, name.name).size(), 1u) << name.name;
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
}  // namespace tessera::devices_test
