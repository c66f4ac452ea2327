#include "tessera/cost/kernel_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "expect_error.h"
#include "mutate.h"
#include "tessera/core/cluster.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/cost/auto_kernel_set.h"
#include "tessera/cost/profile.h"

namespace tessera::cost::kernel_set_test {
namespace {

using test::expect_error;
using Bits = std::vector<std::int32_t>;

const DataFolders& datasets() {
  static const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  return folders;
}

Json json_of(const std::string& text) { return parse_json(text, "test"); }

Bits bits(const char* set, const char* device) {
  return find_kernel_set(set, datasets()).bitwidths_on(find_device(device, datasets()));
}

Json set_json() {
  return json_of(R"({"name": "s", "rules": [
    {"bitwidth": 16, "method": "a", "min_compute_capability": 6, "flop_ratio": 0.5,
     "memory_ratio": 0.5},
    {"bitwidth": 16, "method": "b", "min_compute_capability": 8, "flop_ratio": 0.6,
     "memory_ratio": 0.5},
    {"bitwidth": 16, "method": "c", "devices": ["L4", "A10"], "flop_ratio": 0.7,
     "memory_ratio": 0.5, "compute_dtype": "bf16", "group_size": 128}]})");
}

TEST(KernelSets, EveryShippedFileLoadsAndRoundTripsExactly) {
  const std::vector<std::string> names = datasets().list("kernel_sets");
  ASSERT_EQ(names, (std::vector<std::string>{
                       "llama_cpp", "llmpq_2023", "llmpq_2023_08", "modern", "modern_2024",
                       "modern_fp4", "modern_fp8", "modern_fp8_block", "modern_fp8_static",
                       "modern_w8a8", "tessera", "transformers_2023", "vllm", "vllm_2024",
                       "vllm_fp4", "vllm_fp8", "vllm_fp8_block", "vllm_rocm", "vllm_v0"}));
  const std::vector<std::string> devices = datasets().list("devices");
  for (const std::string& name : names) {
    const KernelSet set = find_kernel_set(name, datasets());
    EXPECT_EQ(set.name, name);
    EXPECT_FALSE(set.doc.empty());
    EXPECT_FALSE(set.source.empty());
    const std::string text = to_json(set).dump();
    EXPECT_EQ(to_json(kernel_set_from_json(json_of(text), name)).dump(), text);
    for (const KernelRule& rule : set.rules) {
      EXPECT_FALSE(rule.source.empty()) << name << ": " << rule.method;
      for (const std::string& device : rule.devices) {
        EXPECT_TRUE(std::count(devices.begin(), devices.end(), device)) << device;
      }
    }
  }
}

TEST(KernelSets, Availability) {
  for (const std::string& name : datasets().list("devices")) {
    const char* device = name.c_str();
    const Device sheet = find_device(name, datasets());
    if (sheet.backend) {
      const Bits all = {3, 4, 8, 16};
      EXPECT_EQ(bits("llama_cpp", device), sheet.backend == "hpu" ? Bits{} : all) << name;
      EXPECT_EQ(bits("tessera", device), Bits{}) << name;
      EXPECT_EQ(bits("vllm", device), Bits{}) << name;
      EXPECT_EQ(bits("llmpq_2023", device), Bits{}) << name;
      continue;
    }
    EXPECT_EQ(bits("vllm_rocm", device), Bits{}) << name;
    EXPECT_EQ(bits("llama_cpp", device), (Bits{3, 4, 8, 16})) << name;
    EXPECT_EQ(bits("tessera", device), (Bits{3, 4, 8, 16})) << name;
    EXPECT_EQ(bits("llmpq_2023", device), (Bits{3, 4, 8, 16})) << name;
    EXPECT_EQ(bits("vllm", device), sheet.compute_capability < 7 ? Bits{} : (Bits{4, 8, 16}))
        << name;
  }
  EXPECT_EQ(bits("vllm_rocm", "MI300X"), (Bits{4, 8, 16}));
  EXPECT_EQ(bits("vllm_rocm", "RX-7900-XTX"), (Bits{4, 16}));
  EXPECT_EQ(bits("vllm_rocm", "M3-Max-128G"), Bits{});
}

TEST(KernelSets, RocmReadsEightBitCachesWhereItHasFp8) {
  const KernelSet set = find_kernel_set("vllm_rocm", datasets());
  for (const char* name : {"MI300X", "MI325X", "MI355X", "RX-9070-XT"}) {
    EXPECT_TRUE(set.reads_kv(find_device(name, datasets()), 8)) << name;
    EXPECT_FALSE(set.reads_kv(find_device(name, datasets()), 4)) << name;
  }
  for (const char* name : {"MI210", "MI250", "RX-7900-XTX", "Strix-Halo-128G"}) {
    EXPECT_FALSE(set.reads_kv(find_device(name, datasets()), 8)) << name;
    EXPECT_TRUE(set.reads_kv(find_device(name, datasets()), 16)) << name;
  }
}

TEST(KernelSets, LlamaCppKeepsActivationsInBlocks) {
  const KernelSet set = find_kernel_set("llama_cpp", datasets());
  EXPECT_TRUE(set.gguf);
  const KernelRule& rule = *set.find(find_device("RTX-3090", datasets()), 8);
  EXPECT_EQ(rule.compute_dtype, "int8");
  EXPECT_EQ(rule.format(), WeightFormat::weights_only);
  // Cards of AMD's that have rules of their own take those, others the ones of all.
  const double own = set.find(find_device("RX-9070-XT", datasets()), 4)->memory_ratio;
  const double others = set.find(find_device("RX-7900-XTX", datasets()), 4)->memory_ratio;
  EXPECT_GT(own, others);
  Device cpu;
  cpu.backend = "cpu";
  cpu.flop_per_s = {{"fp16", 1e12}, {"fp32", 1e12}};
  EXPECT_EQ(set.find(cpu, 4)->method, "cpu-llama.cpp-q4_k_m");
}

TEST(KernelSets, MethodsFollowTheHardware) {
  const KernelSet vllm = find_kernel_set("vllm", datasets());
  EXPECT_EQ(vllm.find(find_device("T4-16G", datasets()), 4)->method, "gptq-exllama");
  EXPECT_EQ(vllm.find(find_device("A100-40G", datasets()), 4)->method, "gptq-marlin");
  const KernelSet llmpq = find_kernel_set("llmpq_2023", datasets());
  EXPECT_EQ(llmpq.find(find_device("T4-16G", datasets()), 8)->compute_dtype, "int8");
  EXPECT_EQ(llmpq.find(find_device("V100-32G", datasets()), 8)->compute_dtype, "fp16");
}

// Seconds of the six matrices of an OPT-30b layer on `tokens` tokens, without attention.
double linears_s(const char* set, const char* device_name, std::int32_t bitwidth, double tokens) {
  const Device device = find_device(device_name, datasets());
  const KernelSet kernels = find_kernel_set(set, datasets());
  const KernelRule& rule = *kernels.find(device, bitwidth);
  double seconds = 0;
  for (const double weights : {7168.0 * 7168, 7168.0 * 7168, 7168.0 * 7168, 7168.0 * 7168,
                               7168.0 * 28672, 7168.0 * 28672}) {
    const double flops =
        2 * weights * tokens / (device.flop_per_s.at(rule.compute_dtype) * rule.flop_ratio);
    const double bytes = weights * bitwidth / 8 / (device.memory_bytes_per_s * rule.memory_ratio);
    seconds += std::max(flops, bytes) + rule.token_s_per_parameter * tokens * weights +
               rule.linear_overhead_s;
  }
  return seconds;
}

// The figures that reproduction.md quotes from the papers' authors: batch 8, 512 tokens.
TEST(KernelSets, PrefillWithThe2023KernelsIsAsSlowAsThePapersSay) {
  EXPECT_NEAR(linears_s("llmpq_2023", "T4-16G", 4, 4096), 11.2, 0.6);
  EXPECT_NEAR(linears_s("llmpq_2023", "T4-16G", 16, 4096), 0.26, 0.02);
  EXPECT_NEAR(linears_s("llmpq_2023", "V100-32G", 4, 4096), 2.24, 0.1);
  EXPECT_NEAR(linears_s("llmpq_2023", "V100-32G", 16, 4096), 0.076, 0.012);
}

TEST(KernelSets, LowBitPrefillOfTheOwnBackendIsNearFp16) {
  for (const std::int32_t bitwidth : {3, 4, 8}) {
    const double ratio = linears_s("tessera", "A100-40G", bitwidth, 4096) /
                         linears_s("tessera", "A100-40G", 16, 4096);
    EXPECT_GT(ratio, 1.0);
    EXPECT_LT(ratio, 1.16);
  }
}

TEST(KernelSets, TheMostSpecificRuleWins) {
  const KernelSet set = kernel_set_from_json(set_json(), "s.json");
  EXPECT_EQ(set.find(find_device("T4-16G", datasets()), 16)->method, "a");
  EXPECT_EQ(set.find(find_device("A100-40G", datasets()), 16)->method, "b");
  EXPECT_EQ(set.find(find_device("L4", datasets()), 16)->method, "c");
  EXPECT_EQ(set.find(find_device("L4", datasets()), 4), nullptr);
  Device without = find_device("L4", datasets());
  without.flop_per_s.erase("bf16");
  EXPECT_EQ(set.find(without, 16)->method, "b");
  without.compute_capability = 5;
  EXPECT_EQ(set.find(without, 16), nullptr);
  EXPECT_TRUE(set.bitwidths_on(without).empty());
}

TEST(KernelSets, RulesSayHowTheyHoldWeights) {
  const auto format = [](const char* set, const char* device, std::int32_t bitwidth) {
    return find_kernel_set(set, datasets())
        .find(find_device(device, datasets()), bitwidth)
        ->format();
  };
  EXPECT_EQ(format("vllm", "A100-80G", 8), WeightFormat::weights_only);
  EXPECT_EQ(format("vllm_fp8", "L4", 8), WeightFormat::fp8_activations);
  EXPECT_EQ(format("vllm_fp8", "A100-80G", 8), WeightFormat::fp8_weights);  // fp8-marlin
  EXPECT_EQ(format("modern_w8a8", "A100-80G", 8), WeightFormat::int8_activations);
  EXPECT_EQ(format("llmpq_2023", "T4-16G", 8), WeightFormat::weights_only);  // LLM.int8
  EXPECT_EQ(format("llmpq_2023", "T4-16G", 4), WeightFormat::per_channel);
}

TEST(KernelSets, SayWhyTheyHaveNoKernel) {
  const auto why = [](const KernelSet& set, const char* device, std::int32_t bitwidth) {
    const Device sheet = find_device(device, datasets());
    EXPECT_EQ(set.find(sheet, bitwidth), nullptr);
    return why_no_kernel(set, sheet, bitwidth);
  };
  const KernelSet set = kernel_set_from_json(set_json(), "s");
  EXPECT_EQ(why(set, "L4", 3), "it has no such kernel");
  const KernelSet fp8 = find_kernel_set("modern_fp8", datasets());
  EXPECT_EQ(why(fp8, "T4-16G", 8), "fp8-w8a8 needs compute capability 8.9 to 8.95, T4-16G has 7.5");
  Json listed = set_json();
  listed["rules"].erase(1);
  listed["rules"].erase(0);
  EXPECT_EQ(why(kernel_set_from_json(listed, "s"), "T4-16G", 16), "c is for L4 A10");
}

TEST(KernelSets, BadRuleFieldsAreNamed) {
  struct Case {
    const char* field;
    const char* value;
    ErrorCode code;
    std::vector<std::string> parts;
  };
  const auto invalid = ErrorCode::invalid_argument;
  const auto range = ErrorCode::out_of_range;
  const std::vector<Case> cases = {
      {"bitwidth", "0", range, {"s.json: rules[2]: bitwidth", "[1, 16]"}},
      {"bitwidth", "17", range, {"bitwidth", "17"}},
      {"bitwidth", "3.5", invalid, {"bitwidth", "3.5"}},
      {"bitwidth", "null", invalid, {"'bitwidth' is missing"}},
      {"method", R"("")", invalid, {"method", "empty"}},
      {"method", "4", invalid, {"method", "string"}},
      {"min_compute_capability", "-1", range, {"min_compute_capability"}},
      {"max_compute_capability", "-1", range, {"max_compute_capability"}},
      {"devices", "[]", invalid, {"devices", "leave it out"}},
      {"devices", R"("L4")", invalid, {"devices", "list"}},
      {"devices", R"(["L4", 4])", invalid, {"devices[1]"}},
      {"devices", R"(["L4", "L4"])", invalid, {"devices[1]", "twice"}},
      {"compute_dtype", R"("fp17")", invalid, {"compute_dtype", "'fp17'", "'fp16'"}},
      {"flop_ratio", "0", range, {"flop_ratio", "0"}},
      {"flop_ratio", "1.01", range, {"flop_ratio", "1.01"}},
      {"memory_ratio", "-0.5", range, {"memory_ratio", "-0.5"}},
      {"memory_ratio", R"("0.5")", invalid, {"memory_ratio", "number"}},
      {"token_s_per_parameter", "-1e-12", range, {"token_s_per_parameter"}},
      {"linear_overhead_s", "-1", range, {"linear_overhead_s"}},
      {"mxfp4_dtype", R"("mxfp4")", invalid, {"'mxfp4'", "w4a16_mxfp4"}},
      {"mxfp4_token_bytes", "-1", range, {"mxfp4_token_bytes", "bytes"}},
      {"experts_token_bytes", "1e10", range, {"experts_token_bytes", "bytes"}},
      {"group_size", "-128", range, {"group_size"}},
      {"group_size", "1.5", invalid, {"group_size"}},
      {"source", "1", invalid, {"source"}},
      {"flop_ration", "0.5", invalid, {"'flop_ration'", "'flop_ratio'"}},
  };
  for (const Case& bad : cases) {
    SCOPED_TRACE(std::string(bad.field) + " = " + bad.value);
    Json json = set_json();
    json["rules"][2][bad.field] = json_of(bad.value);
    expect_error(bad.code, bad.parts, [&] { kernel_set_from_json(json, "s.json"); });
  }
  Json json = set_json();
  json["rules"][0]["max_compute_capability"] = 5;
  expect_error(range, {"rules[0]", "5 is below"}, [&] { kernel_set_from_json(json, "s.json"); });
}

TEST(KernelSets, BadSetFieldsAreNamed) {
  const auto bad = [](const char* field, const char* value, ErrorCode code,
                      const std::vector<std::string>& parts) {
    SCOPED_TRACE(std::string(field) + " = " + value);
    Json json = set_json();
    json[field] = json_of(value);
    expect_error(code, parts, [&] { kernel_set_from_json(json, "s.json"); });
  };
  bad("name", R"("")", ErrorCode::invalid_argument, {"name", "empty"});
  bad("rules", "[]", ErrorCode::invalid_argument, {"rules", "list"});
  bad("rules", "{}", ErrorCode::invalid_argument, {"rules", "an array"});
  bad("provenance", R"("measurd")", ErrorCode::invalid_argument, {"'measurd'", "'measured'"});
  bad("layer_overhead_s", "-1", ErrorCode::out_of_range, {"layer_overhead_s"});
  bad("host_step_s", "-1", ErrorCode::out_of_range, {"host_step_s"});
  bad("graph_batch_sizes", "[1, 8, 8]", ErrorCode::out_of_range, {"graph_batch_sizes[2]", "8"});
  bad("graph_batch_sizes", "[0, 8]", ErrorCode::out_of_range, {"graph_batch_sizes[0]"});
  bad("kv_per_query_head", R"({ "share": 1, "devices": ["L4", "L4"] })",
      ErrorCode::invalid_argument, {"kv_per_query_head", "devices[1]", "L4", "twice"});
  bad("kv_per_query_head", R"({ "share": 1.1 })", ErrorCode::out_of_range, {"share", "1.1"});
  bad("attention_flop_ratio", "2", ErrorCode::out_of_range, {"attention_flop_ratio"});
  bad("attention_memory_ratio", "0", ErrorCode::out_of_range, {"attention_memory_ratio"});
  bad("rule", "[]", ErrorCode::invalid_argument, {"'rule'", "'rules'"});
}

TEST(KernelSets, HostTimeAndPaddingByHand) {
  KernelSet set;
  EXPECT_EQ(set.host_s(64, 64), 0);
  EXPECT_EQ(set.padded_rows(9), 9);
  set.host_step_s = 1e-3;
  set.host_sequence_s = 1e-5;
  set.graph_batch_sizes = {1, 2, 4, 8, 16};
  set.host_prompt_s = 1e-4;
  EXPECT_DOUBLE_EQ(set.host_s(64, 64), 1.64e-3);
  EXPECT_DOUBLE_EQ(set.host_s(64, 65), 1.74e-3);  // a prompt among them
  const std::vector<std::pair<double, double>> padded = {{1, 1},  {1.5, 2}, {2, 2},  {3, 4},
                                                         {9, 16}, {16, 16}, {17, 17}};
  for (const auto& [sequences, rows] : padded) EXPECT_EQ(set.padded_rows(sequences), rows);
}

TEST(KernelSets, OneMayBePricedByTheProfilesOfAnother) {
  const Device device = find_device("H200-141G", datasets());
  const auto own = profile_for(device, find_kernel_set("vllm", datasets()), datasets());
  for (const char* name : {"vllm_v0", "vllm_2024", "vllm_fp8"}) {
    const KernelSet set = find_kernel_set(name, datasets());
    EXPECT_EQ(set.profile_set(), "vllm");
    EXPECT_EQ(profile_for(device, set, datasets()), own);
  }
}

TEST(KernelSets, ASchemeHasItsOwnKernelOfABitwidth) {
  const Device a6000 = find_device("A6000", datasets());
  const Device v100 = find_device("V100-32G", datasets());
  const KernelSet set = find_kernel_set("modern", datasets());
  EXPECT_EQ(set.find(a6000, 4)->method, "weight-only-int4");
  EXPECT_EQ(set.of_scheme("gptq4").find(a6000, 4)->method, "weight-only-int4-grouped");
  EXPECT_EQ(set.of_scheme("gptq4").find(a6000, 4)->group_size, 128);
  EXPECT_EQ(set.of_scheme("gptq4").find(a6000, 16)->method, "cublas-bf16");
  // Its rules stand for all devices: where it has none, INT4's do not stand in.
  EXPECT_NE(set.find(v100, 4), nullptr);
  EXPECT_EQ(set.of_scheme("gptq4").find(v100, 4), nullptr);
  EXPECT_EQ(set.find(a6000, 9), nullptr);
  EXPECT_EQ(set.of_scheme("wanda_2_4").find(a6000, 9)->method, "cusparselt-2:4");
  EXPECT_EQ(to_json(set.of_scheme("int4")), to_json(set));
  EXPECT_EQ(set.bitwidths_on(a6000), (Bits{3, 4, 8, 16}));
  EXPECT_EQ(why_no_kernel(set, a6000, 9), "it has no such kernel");
}

TEST(KernelSets, KvCachesOfEightBitsRunFromVolta) {
  const KernelSet set = find_kernel_set("modern_2024", datasets());
  EXPECT_TRUE(set.reads_kv(find_device("V100-32G", datasets()), 8));
  EXPECT_FALSE(set.reads_kv(find_device("P100-12G", datasets()), 8));
  EXPECT_FALSE(set.reads_kv(find_device("A6000", datasets()), 4));
}

TEST(KernelSets, RulesThatMatchEquallyWellAreRefused) {
  Json json = set_json();
  json["rules"].push_back(json["rules"][1]);
  expect_error(ErrorCode::invalid_argument, {"rules[3]", "rules[1]"},
               [&] { kernel_set_from_json(json, "s.json"); });
  json["rules"][3] = json["rules"][2];
  json["rules"][3]["devices"] = {"A10"};
  expect_error(ErrorCode::invalid_argument, {"rules[3]", "rules[2]"},
               [&] { kernel_set_from_json(json, "s.json"); });
  json["rules"][3]["devices"] = {"A40"};
  EXPECT_EQ(kernel_set_from_json(json, "s.json").rules.size(), 4u);
}

TEST(KernelSets, UnknownNamesOfferTheNearest) {
  expect_error(ErrorCode::not_found, {"unknown kernel set 'llmpq_2032'", "'llmpq_2023'"},
               [] { find_kernel_set("llmpq_2032", datasets()); });
}

// The files that SOURCES.md shows a user must be files that load.
TEST(Datasets, ExamplesInTheGuideLoad) {
  const std::string guide = read_file(std::string(TESSERA_SOURCE_DIR) + "/datasets/SOURCES.md");
  std::vector<Json> examples;
  for (std::size_t at = guide.find("```json\n"); at != std::string::npos;
       at = guide.find("```json\n", at + 8)) {
    examples.push_back(json_of(guide.substr(at + 8, guide.find("```", at + 8) - at - 8)));
  }
  ASSERT_EQ(examples.size(), 3u);
  const Device device = device_from_json(examples[0], "guide");
  EXPECT_EQ(cluster_from_json(examples[1], "guide", datasets()).devices.size(), 4u);
  EXPECT_EQ(kernel_set_from_json(examples[2], "guide").bitwidths_on(device), (Bits{4, 16}));
}

TEST(Datasets, DamagedKernelSetsOnlyRaiseErrors) {
  const std::uint64_t seed = test::test_seed();
  SCOPED_TRACE("TESSERA_TEST_SEED=" + std::to_string(seed));
  Rng rng(seed);
  int accepted = 0;
  for (const std::string& name : datasets().list("kernel_sets")) {
    const std::string original = read_file(datasets().find("kernel_sets", name));
    for (int i = 0; i < 300; ++i) {
      const std::string text = test::mutate(original, rng);
      try {
        const KernelSet set = kernel_set_from_json(parse_json(text, name), name);
        kernel_set_from_json(to_json(set), name);
        ++accepted;
      } catch (const Error&) {
      } catch (const std::exception& e) {
        FAIL() << name << ": " << e.what() << "\n" << text;
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace tessera::cost::kernel_set_test
