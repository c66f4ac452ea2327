-- Names of devices, clusters and models as people write them: what is meant, what is said where several fit, and what
-- is refused with the way out.
local core = require "tessera.core"
local host = require "tessera.host"
local hub = require "tessera.launch.hub"
local support = require "support"
local taken = require "tessera.cli.taken"
local ts = require "tessera"
local raises = support.raises

-- Sheet, then spellings of it.
local devices = {
  ["A100-80G"] = { "A100", "a100", "NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", "A100 80GB", "a100_80gb", "A100-80GB",
    "A100 80G", "A100-SXM-80GB", "NVIDIA A100 80GB PCIe", "A100-PCIe-80GB", "nvidia-a100-80gb", "A100 SXM4 80 GB" },
  ["A100-40G"] = { "NVIDIA A100-SXM4-40GB", "A100 40GB", "A100-PCIE-40GB", "a100-40gib", "A100_40G" },
  ["H100-80G"] = { "H100", "H100 SXM", "h100-sxm5", "NVIDIA H100 80GB HBM3", "H100SXM", "H100 80GB", "H100-SXM5-80GB" },
  ["H100-PCIe"] = { "3D controller: NVIDIA Corporation GH100 [H100 PCIe] (rev a1)", "H100 PCIe",
    "NVIDIA H100 PCIe", "h100_pcie", "H100PCIe" },
  ["H100-NVL"] = { "H100 NVL", "NVIDIA H100 NVL", "H100-94G", "H100NVL" },
  ["H200-141G"] = { "H200", "NVIDIA H200", "H200 SXM", "H200-141GB" },
  ["H200-NVL"] = { "NVIDIA H200 NVL", "H200 NVL" },
  ["B200-180G"] = { "B200", "NVIDIA B200", "B200-192GB" },
  ["B300"] = { "NVIDIA B300 SXM6 AC", "B300 288GB" },
  ["T4-16G"] = { "T4", "Tesla T4", "NVIDIA Corporation TU104GL [Tesla T4] (rev a1)", "NVIDIA T4", "Tesla-T4",
    "t4 16GB" },
  ["V100-16G"] = { "V100", "Tesla V100", "Tesla V100-SXM2-16GB", "V100 16GB", "V100-PCIE-16GB" },
  ["V100-32G"] = { "V100 32GB", "Tesla V100-SXM2-32GB", "V100-32GB", "V100 SXM2 32 GB" },
  ["P100-16G"] = { "P100", "Tesla P100-PCIE-16GB" },
  ["P40"] = { "Tesla P40", "NVIDIA P40" },
  ["L4"] = { "NVIDIA L4", "L4-24G", "L4 24GB" },
  ["L40"] = { "NVIDIA L40", "L40 48GB" },
  ["L40S"] = { "NVIDIA L40S", "L40S-48GB", "l40s" },
  ["A10G"] = { "NVIDIA A10G", "A10G 24GB" },
  ["A2"] = { "NVIDIA A2", "A2 16GB" }, ["A16"] = { "NVIDIA A16" },
  ["A2000"] = { "RTX A2000", "NVIDIA RTX A2000 12GB" },
  ["RTX-4000-SFF-Ada"] = { "NVIDIA RTX 4000 SFF Ada Generation" },
  ["RTX-4070-Laptop"] = { "NVIDIA GeForce RTX 4070 Laptop GPU" },
  ["RTX-5060-Ti-8G"] = { "RTX 5060 Ti 8GB" }, ["RTX-5060-Ti-16G"] = { "RTX 5060 Ti", "NVIDIA GeForce RTX 5060 Ti" },
  ["Jetson-AGX-Orin-64G"] = { "Jetson AGX Orin", "Jetson AGX Orin 64GB" },
  ["A30"] = { "NVIDIA A30", "A30-24GB" },
  ["A40"] = { "NVIDIA A40", "A40-48GB" },
  ["A6000"] = { "RTX A6000", "RTX-A6000", "NVIDIA RTX A6000", "rtxa6000", "A6000 48GB", "Quadro RTX A6000" },
  ["RTX-3090"] = { "3090", "RTX 3090", "RTX3090", "RTX3090-24G", "GeForce RTX 3090", "NVIDIA GeForce RTX 3090",
    "rtx_3090", "3090 24GB", "3090s", "GA102 [GeForce RTX 3090]",
    "VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090 Lite Hash Rate] (rev a1)" },
  ["RTX-4090"] = { "4090", "RTX 4090", "rtx4090", "NVIDIA GeForce RTX 4090", "RTX-4090-24GB" },
  ["RTX-5090"] = { "5090", "RTX 5090 32GB", "NVIDIA GeForce RTX 5090" },
  ["RTX-2080-Ti"] = { "RTX 2080 Ti", "2080ti", "GeForce RTX 2080 Ti" },
  ["RTX-3060"] = { "RTX 3060", "3060 12GB" },
  ["RTX-3080"] = { "RTX 3080", "NVIDIA GeForce RTX 3080", "3080 10GB" },
  ["RTX-3080-12G"] = { "RTX 3080 12GB" },
  ["RTX-4060-Ti-16G"] = { "RTX 4060 Ti", "4060ti 16GB", "NVIDIA GeForce RTX 4060 Ti" },
  ["RTX-4060-Ti-8G"] = { "RTX 4060 Ti 8GB" },
  ["RTX-4080"] = { "RTX 4080", "RTX4080" },
  ["RTX-6000-Ada"] = { "NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada", "6000 Ada" },
  ["MI250X"] = { "AMD Instinct MI250X", "MI250X 64GB" },
  ["M4-Pro-48G"] = { "M4 Pro 48GB", "Apple M4 Pro 48GB" },
  ["M3-Ultra-512G"] = { "Mac Studio M3 Ultra 512GB" },
  ["Gaudi-2"] = { "Gaudi2", "Intel Gaudi 2", "HL-225", "gaudi2 96GB" },
  ["Gaudi-3"] = { "Gaudi 3", "Intel Gaudi3" },
  ["RTX-4090-D"] = { "RTX 4090 D", "NVIDIA GeForce RTX 4090 D" },
  ["TITAN-V"] = { "NVIDIA TITAN V", "Titan V" },
  ["RTX-PRO-6000"] = { "RTX PRO 6000", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition" },
  ["Quadro-RTX-6000"] = { "Quadro RTX 6000", "quadro rtx6000" },
  ["GB10"] = { "NVIDIA GB10", "DGX Spark" },
  ["GB200"] = { "NVIDIA GB200" },
  ["GH200-96G"] = { "GH200", "NVIDIA GH200 480GB" },
  ["MI300X"] = { "mi300x", "AMD Instinct MI300X", "AMD Instinct MI300X OAM", "MI300X-192GB" },
  ["MI325X"] = { "AMD Instinct MI325X", "MI325X 256GB" },
  ["RX-7900-XTX"] = { "7900XTX", "7900 XTX", "RX 7900 XTX", "AMD Radeon RX 7900 XTX", "Radeon RX 7900 XTX" },
  ["AI-PRO-R9700"] = { "Radeon AI PRO R9700", "R9700" },
  ["M3-Max-128G"] = { "M3 Max", "Apple M3 Max", "M3 Max 128GB" },
  ["M3-Max-64G"] = { "Apple M3 Max 64GB" },
  ["M2-Ultra-192G"] = { "M2 Ultra", "Apple M2 Ultra" },
  ["Arc-A770"] = { "Intel Arc A770", "Arc A770", "A770 16GB", "Intel(R) Arc(TM) A770 Graphics" },
}

-- What is not meant by any of these, with what the message says.
local unknown_devices = {
  ["T4-16"] = "did you mean 'T4%-16G'", ["RTX 3090 12GB"] = "there is 'RTX%-3090' %(24.00 GiB%)",
  ["A100-60G"] = "there is 'A100%-40G' .* 'A100%-80G'", ["A11"] = "did you mean", ["RTX 6000"] = "RTX%-6000%-Ada",
  ["L4 PCIe 80GB"] = "there is 'L4'",
  ["T4-0G"] = "there is 'T4%-16G'", ["RTX 9999"] = "unknown device", ["H300"] = "did you mean",
  ["../T4-16G"] = "unknown device", ["T4-16G\0"] = "unknown device", [""] = "unknown device",
}

local clusters = {
  ["8xH100"] = { 8, "H100-80G", 1 }, ["2xA100"] = { 2, "A100-80G", 1 }, ["T4"] = { 1, "T4-16G", 1 },
  ["8 x H100"] = { 8, "H100-80G", 1 }, ["4*L4"] = { 4, "L4", 1 }, ["2×RTX 4090"] = { 2, "RTX-4090", 1 },
  ["8xH100 SXM"] = { 8, "H100-80G", 1 }, ["7900XTX"] = { 1, "RX-7900-XTX", 1 }, ["4090"] = { 1, "RTX-4090", 1 },
  ["2x7900XTX"] = { 2, "RX-7900-XTX", 1 }, ["2x4090"] = { 2, "RTX-4090", 1 }, ["3xT4-16G"] = { 3, "T4-16G", 1 },
  ["2xDGX-H100"] = { 16, "H100-80G", 2 }, ["2xDGX-A100"] = { 16, "A100-80G", 2 }, ["dgx-h100"] = { 8, "H100-80G", 1 },
  ["DGX-A100"] = { 8, "A100-80G", 1 }, ["p5.48xlarge"] = { 8, "H100-80G", 1 }, ["2xRTX-A6000"] = { 2, "A6000", 1 },
  ["4xNVIDIA L40S"] = { 4, "L40S", 1 },
  ["HGX H100"] = { 8, "H100-80G", 1 }, ["2xHGX-H200"] = { 16, "H200-141G", 2 },
  ["NVIDIA DGX A100 40GB"] = { 8, "A100-40G", 1 }, ["DGX B200"] = { 8, "B200-180G", 1 },
  ["DGX-1"] = { 8, "V100-32G", 1 }, ["g5.12xlarge"] = { 4, "A10G", 1 }, ["2xg4dn.xlarge"] = { 2, "T4-16G", 2 },
  ["p3.16xlarge+g6.12xlarge"] = { 12, "V100-16G", 2 }, ["a2-highgpu-8g"] = { 8, "A100-40G", 1 },
  ["a2-ultragpu-1g"] = { 1, "A100-80G", 1 }, ["G2-Standard-48"] = { 4, "L4", 1 },
  ["Standard_NC24ads_A100_v4"] = { 1, "A100-80G", 1 }, ["nc64as_t4_v3"] = { 4, "T4-16G", 1 },
  ["RTX 3090 x2"] = { 2, "RTX-3090", 1 }, ["H100x8"] = { 8, "H100-80G", 1 }, ["8 H100"] = { 8, "H100-80G", 1 },
  ["NVIDIA H100 80GB HBM3 x 8"] = { 8, "H100-80G", 1 }, ["A100-80GB:8"] = { 8, "A100-80G", 1 },
  ["gpu:a100:4"] = { 4, "A100-80G", 1 }, ["gpu_8x_h100_sxm5"] = { 8, "H100-80G", 1 },
  ["dual 3090"] = { 2, "RTX-3090", 1 }, ["2x3090s"] = { 2, "RTX-3090", 1 },
  ["4 A100 40GB + 2 L4"] = { 6, "A100-40G", 2 }, ["2x8xH100"] = { 16, "H100-80G", 2 }, ["2x4xL4"] = { 8, "L4", 2 },
  ["ml.g5.12xlarge"] = { 4, "A10G", 1 }, ["Standard_ND96asr_v4"] = { 8, "A100-40G", 1 },
  ["3090 Ti"] = { 1, "RTX-3090-Ti", 1 }, ["L40S x 4"] = { 4, "L40S", 1 },
  ["2 x L4 (PCIe)"] = { 2, "L4", 1 }, ["H200"] = { 1, "H200-141G", 1 },
}

-- Shape, then { what is typed, format, bits }.
local models = {
  ["llama-3.1-8b"] = { { "meta-llama/Llama-3.1-8B-Instruct" }, { "meta-llama/Meta-Llama-3.1-8B-Instruct" },
    { "Meta-Llama-3.1-8B" }, { "Llama-3.1-8B-Instruct" }, { "meta-llama/Llama-3.1-8B" },
    { "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", "awq", 4 },
    { "neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8", "fp8", 8 }, { "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic",
    "fp8", 8 }, { "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "compressed-tensors w4a16", 4 },
    { "unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "bitsandbytes", 4 },
    { "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", "gguf" }, { "llama3.1:8b", "gguf q4_k_m", 4 },
    { "llama3.1:8b-instruct-q8_0", "gguf q8_0", 8 }, { "llama3.1:8b-instruct-fp16", "fp16", 16 },
    { "mlx-community/Meta-Llama-3.1-8B-Instruct-4bit", "mlx", 4 }, { "llama3.1" },
    { "deepseek-ai/DeepSeek-R1-Distill-Llama-8B" }, { "NousResearch/Hermes-3-Llama-3.1-8B" },
    { "some/Finetune-of-Llama-3_1-8B-v2-AWQ", "awq", 4 } },
  ["llama-3.1-70b"] = { { "llama3.1:70b-instruct-q4_K_M", "gguf q4_k_m", 4 },
    { "hugging-quants/Meta-Llama-3.1-70B-Instruct-GPTQ-INT4", "gptq", 4 } },
  ["llama-3.3-70b"] = { { "meta-llama/Llama-3.3-70B-Instruct" },
    { "casperhansen/llama-3.3-70b-instruct-awq", "awq", 4 }, { "nvidia/Llama-3.3-70B-Instruct-FP4", "fp4", 4 },
    { "bartowski/Llama-3.3-70B-Instruct-GGUF:Q4_K_M", "gguf q4_k_m", 4 },
    { "unsloth/Llama-3.3-70B-Instruct-GGUF:IQ4_XS", "gguf iq4_xs", 4 }, { "llama3.3:70b", "gguf q4_k_m", 4 },
    { "deepseek-ai/DeepSeek-R1-Distill-Llama-70B" },
    { "turboderp/Llama-3.3-70B-Instruct-exl2-4.25bpw", "exl2", 4.25 } },
  ["llama-3.2-3b"] = { { "meta-llama/Llama-3.2-3B-Instruct" }, { "hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q5_K_M",
    "gguf q5_k_m", 5 } },
  ["qwen2.5-7b"] = { { "Qwen/Qwen2.5-7B-Instruct-AWQ", "awq", 4 }, { "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "gptq", 8 },
    { "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "gptq", 4 }, { "qwen2.5:7b", "gguf q4_k_m", 4 },
    { "Qwen/Qwen2.5-Coder-7B-Instruct" }, { "Qwen/Qwen2.5-7B-Instruct-1M" },
    { "Qwen/Qwen2.5-7B-Instruct-GGUF", "gguf" } },
  ["qwen2.5-32b"] = { { "Qwen/Qwen2.5-32B-Instruct" }, { "Qwen/QwQ-32B" }, { "Qwen/QwQ-32B-AWQ", "awq", 4 },
    { "qwen2.5-coder:32b", "gguf q4_k_m", 4 } },
  ["qwen2.5-72b"] = { { "Qwen/Qwen2.5-72B-Instruct-AWQ", "awq", 4 } },
  ["qwen3-4b"] = { { "Qwen/Qwen3-4B" }, { "Qwen/Qwen3-4B-AWQ", "awq", 4 } },
  ["qwen3-8b"] = { { "Qwen/Qwen3-8B-FP8", "fp8", 8 }, { "qwen3:8b", "gguf q4_k_m", 4 }, { "Qwen/Qwen3-8B-Base" } },
  ["qwen3-14b"] = { { "Qwen/Qwen3-14B-AWQ", "awq", 4 } },
  ["qwen3-30b-a3b"] = { { "Qwen/Qwen3-30B-A3B-FP8", "fp8", 8 }, { "Qwen/Qwen3-30B-A3B-GPTQ-Int4", "gptq", 4 } },
  ["qwen3-30b-a3b-2507"] = { { "Qwen/Qwen3-30B-A3B-Instruct-2507" }, { "Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "fp8",
    8 }, { "Qwen/Qwen3-Coder-30B-A3B-Instruct" } },
  ["qwen3-235b-a22b"] = { { "Qwen/Qwen3-235B-A22B-FP8", "fp8", 8 } },
  ["qwen3-coder-480b-a35b"] = { { "QuantTrio/Qwen3-Coder-480B-A35B-Instruct-AWQ", "awq", 4 } },
  ["deepseek-v3"] = { { "deepseek-ai/DeepSeek-V3" }, { "deepseek-ai/DeepSeek-R1" }, { "deepseek-ai/DeepSeek-R1-0528" },
    { "DeepSeek-R1" }, { "deepseek-ai/DeepSeek-V3-0324" }, { "nvidia/DeepSeek-V3.1-NVFP4", "nvfp4", 4 },
    { "nvidia/DeepSeek-R1-FP4", "fp4", 4 } },
  ["qwen2.5-14b"] = { { "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B" }, { "deepseek-r1:14b", "gguf q4_k_m", 4 } },
  ["gemma-3-27b"] = { { "google/gemma-3-27b-it" }, { "gemma3:27b", "gguf q4_k_m", 4 },
    { "google/gemma-3-27b-it-qat-q4_0-gguf", "gguf q4_0", 4 } },
  ["gemma-2-9b"] = { { "google/gemma-2-9b-it" } },
  ["mistral-7b-v0.3"] = { { "mistralai/Mistral-7B-Instruct-v0.3" }, { "TheBloke/Mistral-7B-Instruct-v0.3-GPTQ", "gptq",
    4 } },
  ["mistral-7b"] = { { "mistralai/Mistral-7B-v0.1" }, { "mistralai/Mistral-7B-Instruct-v0.1" },
    { "HuggingFaceH4/zephyr-7b-beta" }, { "TheBloke/OpenHermes-2.5-Mistral-7B-AWQ", "awq", 4 } },
  ["mistral-small-24b"] = { { "mistralai/Mistral-Small-24B-Instruct-2501" } },
  ["mixtral-8x7b"] = { { "mistralai/Mixtral-8x7B-Instruct-v0.1" }, { "mixtral:8x7b", "gguf q4_k_m", 4 } },
  ["phi-4"] = { { "microsoft/phi-4" }, { "phi4" }, { "phi4:14b", "gguf q4_k_m", 4 } },
  ["glm-4.5-air"] = { { "zai-org/GLM-4.5-Air" }, { "zai-org/GLM-4.5-Air-FP8", "fp8", 8 },
    { "cpatonn/GLM-4.5-Air-AWQ-4bit", "awq", 4 } },
  ["kimi-k2"] = { { "moonshotai/Kimi-K2-Instruct" } },
  ["deepseek-v2"] = { { "deepseek-ai/DeepSeek-Coder-V2-Instruct" }, { "deepseek-ai/DeepSeek-V2.5-1210" } },
  ["deepseek-v2-lite"] = { { "deepseek-coder-v2" }, { "deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct" } },
  ["llama-4-scout"] = { { "meta-llama/Llama-4-Scout-17B-16E-Instruct" },
    { "RedHatAI/Llama-4-Scout-17B-16E-Instruct-quantized.w4a16", "compressed-tensors w4a16", 4 },
    { "llama4:scout", "gguf q4_k_m", 4 } },
  ["llama-4-maverick"] = { { "meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8", "fp8", 8 } },
  ["qwen1.5-14b"] = { { "Qwen/Qwen1.5-14B-Chat" }, { "Qwen-14B" }, { "Qwen/Qwen-14B-Chat-Int4", nil, 4 } },
  ["granite-4.0-micro"] = { { "ibm-granite/granite-4.0-micro" } },
  ["granite-3-8b"] = { { "ibm-granite/granite-3.1-8b-instruct" },
    { "RedHatAI/granite-3.1-8b-instruct-FP8-dynamic", "fp8",
    8 } },
  ["phi-3-mini"] = { { "microsoft/Phi-3-mini-4k-instruct" }, { "microsoft/Phi-3-mini-4k-instruct-gguf", "gguf" } },
  ["phi-4-mini"] = { { "microsoft/Phi-4-mini-instruct" } },
  ["phi-1.5"] = { { "microsoft/phi-1_5" } },
  ["internlm2.5-7b"] = { { "internlm/internlm2_5-7b-chat" } },
  ["mixtral-8x22b"] = { { "mistralai/Mixtral-8x22B-Instruct-v0.1" } },
  ["mistral-small-22b"] = { { "mistralai/Mistral-Small-Instruct-2409" }, { "mistralai/Codestral-22B-v0.1" } },
  ["llama-2-13b"] = { { "lmsys/vicuna-13b-v1.5" }, { "NousResearch/Nous-Hermes-Llama2-13b" },
    { "TheBloke/Llama-2-13B-chat-GPTQ", "gptq", 4 } },
  ["bloom-7b1"] = { { "bigscience/bloom-7b1" } },
  ["codellama-34b"] = { { "WizardLMTeam/WizardCoder-Python-34B-V1.0" } },
  ["starcoder2-15b"] = { { "bigcode/starcoder2-15b" } },
  ["deepseek-r1-distill-qwen-1.5b"] = { { "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B" },
    { "unsloth/DeepSeek-R1-Distill-Qwen-1.5B-GGUF:Q8_0", "gguf q8_0", 8 } },
  ["gpt-oss-20b"] = { { "openai/gpt-oss-20b" }, { "gpt-oss:20b", "gguf mxfp4", 4 } },
  ["gpt-oss-120b"] = { { "openai/gpt-oss-120b" }, { "unsloth/gpt-oss-120b-BF16", "bf16", 16 } },
}

describe("a device's name", function()
  it("is taken in any usual spelling", function()
    for sheet, spellings in pairs(devices) do
      for _, name in ipairs(spellings) do
        local ok, device = pcall(ts.device, name)
        assert.is_true(ok, ("%s: %s"):format(name, tostring(device)))
        assert.equal(sheet, device.name, name)
      end
    end
  end)

  it("is its own sheet's for every sheet, and so is what a driver calls it", function()
    for _, name in ipairs(core.names "devices") do
      local device = ts.device(name)
      assert.equal(name, device.name)
      local of_driver = core.device_meant(device.full_name).device
      local nominal = math.abs(of_driver.memory_bytes / device.memory_bytes - 1)
      assert.is_true(of_driver.name == name or nominal > 0.06 or of_driver.full_name == device.full_name,
        ("%s is called %s, which is taken for %s"):format(name, device.full_name, of_driver.name))
    end
  end)

  it("is refused with the way out", function()
    for name, message in pairs(unknown_devices) do
      local ok, err = pcall(ts.device, name)
      assert.is_false(ok, name)
      assert.equal("not_found", err.code, name)
      assert.matches(message, err.message)
      assert.not_matches("\n", err.message)
    end
  end)

  it("says which was taken where several fit", function()
    assert.matches("A100 is taken for A100%-80G; others of the name: A100%-40G", ts.cluster "2xA100":notes()[1])
    assert.same({}, ts.cluster "2xA100-80G":notes())
    assert.same({}, ts.cluster "2xT4":notes())
  end)

  it("of a PCIe board has no NVLink", function()
    assert.is_nil(ts.device "A100-PCIE-40GB".nvlink_bytes_per_s)
    assert.equal("pcie", ts.cluster "2xA100-PCIE-40GB":link(0, 1).kind)
    assert.equal("nvlink", ts.cluster "2xA100-SXM4-40GB":link(0, 1).kind)
  end)
end)

describe("a cluster's name", function()
  it("is taken as people write it", function()
    for text, expected in pairs(clusters) do
      local ok, cluster = pcall(ts.cluster, text)
      assert.is_true(ok, ("%s: %s"):format(text, tostring(cluster)))
      assert.equal(expected[1], #cluster.devices, text)
      assert.equal(expected[2], cluster.devices[1].name, text)
      assert.equal(expected[3], #cluster.nodes, text)
    end
  end)

  it("is refused with the way out", function()
    raises("not_found", "term 2: unknown device 'T5'", function() return ts.cluster "1xT4+3xT5" end)
    raises("not_found", "did you mean 'llmpq-3'", function() return ts.cluster "llmpq3" end)
    raises("not_found", "unknown cluster 'Foo 9000': no device, cluster or cloud instance here is called so",
      function() return ts.cluster "Foo 9000" end)
    raises("not_found", "there is 'RTX-3090'", function() return ts.cluster "2xRTX-3090-12G" end)
    raises("not_found", "unknown cluster 'L4-0G'; there is 'L4'", function() return ts.cluster "L4-0G" end)
    raises("out_of_range", "5000", function() return ts.cluster "5000xT4" end)
    for _, text in ipairs { "8 GiB", "0 H100", "H100 x0", "x8", ":8", "2x2x2xL4", "8 of them", "two A100" } do
      local ok, why = pcall(ts.cluster, text)
      assert.is_false(ok, text)
      assert.not_matches("\n", why.message)
    end
  end)
end)

describe("a model's name", function()
  it("is taken with its suffixes, which tell how weights are stored", function()
    for shape, names in pairs(models) do
      for _, case in ipairs(names) do
        local ok, model = pcall(ts.model, case[1])
        assert.is_true(ok, ("%s: %s"):format(case[1], tostring(model)))
        assert.equal(shape, model.name, case[1])
        assert.equal(case[1], model.checkpoint)
        assert.equal(case[2], model.checkpoint_format, case[1])
        assert.equal(case[3], model.checkpoint_bits, case[1])
      end
    end
  end)

  it("is one shape's: no name or id is listed twice", function()
    local owners = {}
    for _, shape in ipairs(core.names "models") do
      local file = core.from_json(core.read_file(core.data_file("models", shape)))
      local own = { (file.source:match "^https://huggingface%.co/(%S+)"), unpack(file.ids or {}) }
      for _, id in ipairs(own) do
        id = id:lower()
        assert.is_true(owners[id] == nil or owners[id] == shape, ("%s: %s and %s"):format(id, owners[id], shape))
        owners[id] = shape
        assert.equal(shape, ts.model(id).name, id)
      end
    end
  end)

  it("of a folder is the folder, in the format of its configuration", function()
    local folder = support.temporary()
    os.remove(folder)
    host.make_folder(folder)
    local config = { model_type = "llama", num_hidden_layers = 2, hidden_size = 64, num_attention_heads = 4,
      num_key_value_heads = 2, intermediate_size = 128, vocab_size = 100, max_position_embeddings = 128 }
    local function model(quantised)
      config.quantization_config = quantised
      core.write_file(folder .. "/config.json", core.to_json(config))
      return ts.model(folder .. "/")
    end
    local plain = model()
    assert.same({ folder }, { plain.checkpoint, plain.checkpoint_format, plain.checkpoint_bits })
    local awq = model { quant_method = "awq", bits = 4 }
    assert.same({ folder, "awq", 4 }, { awq.checkpoint, awq.checkpoint_format, awq.checkpoint_bits })
    assert.equal(awq, ts.model(folder .. "/config.json"))
    assert.is_nil(awq.checkpoint_group_size)
    local mixed = model {
      quant_method = "compressed-tensors", ignore = { "re:.*self_attn.*", "model.layers.1.mlp.up_proj" },
      config_groups = { a = { weights = { num_bits = 4, group_size = 32 } }, b = { weights = { num_bits = 8 } } },
    }
    assert.same({ "compressed-tensors mix", 8, 32 },
      { mixed.checkpoint_format, mixed.checkpoint_bits, mixed.checkpoint_group_size })
    local kept = {}
    for _, one in ipairs(mixed.checkpoint_kept) do kept[one.name] = one.share end
    assert.same({ q_proj = 1, k_proj = 1, v_proj = 1, o_proj = 1, up_proj = 0.5 }, kept)
    assert.matches("8 bits as compressed%-tensors mix.*; 16 bits: k_proj, .*up_proj in 50 %% of the layers",
      taken.text(mixed))
    config.vision_config = { depth = 2, hidden_size = 8, intermediate_size = 16 }
    config.audio_config = { model_type = "x" }
    local said = taken.text(model())
    assert.truthy(said:find("its vision tower, about 1e-06 billion parameters, is counted: 2.0 KiB of each GPU", 1,
      true), said)
    assert.truthy(said:find("its audio tower of a size that its configuration does not say", 1, true), said)
    config.vision_config, config.audio_config = nil, nil
    raises("usage", "is stored as hqq, and nothing here says at how many bits", function()
      taken.bitwidths(model { quant_method = "hqq" })
    end)
    assert.same({ 4 }, taken.bitwidths(model { quant_method = "hqq" }, { 4 }))
    raises("invalid_argument", "quantization_config.quant_method is missing", function() model { bits = 4 } end)
    host.run_program({ "rm", "-r", folder }, "")
  end)

  it("of a shape names no checkpoint", function()
    for _, name in ipairs(core.names "models") do
      local model = ts.model(name)
      assert.is_nil(model.checkpoint)
      assert.is_nil(model.checkpoint_bits)
    end
  end)

  it("tells the bits of ids and files to launches, too", function()
    for name, bits in pairs { ["Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8"] = 8, ["x/y-quantized.w8a8"] = 8, ["x/y-NVFP4"] = 4,
      ["/models/l8b-Q5_K_M.gguf"] = 5, ["m/x-bnb-4bit"] = 4, ["llama3.1:8b"] = 4, ["m/x-4.25bpw-exl2"] = 4.25,
      ["x/y-bf16"] = 16 } do
      assert.equal(bits, hub.bits_of_name(name), name)
    end
    assert.is_nil(hub.bits_of_name "meta-llama/Llama-3.1-8B-Instruct")
  end)

  it("tells the bits that it is planned at, and no others", function()
    local awq = ts.model "Qwen/Qwen2.5-7B-Instruct-AWQ"
    assert.same({ 4 }, taken.bitwidths(awq))
    assert.same({ 4 }, taken.bitwidths(awq, { 4 }))
    raises("usage", "has weights of 4 bits: leave --bitwidths out", function() taken.bitwidths(awq, { 4, 8 }) end)
    assert.same({ 8 }, taken.bitwidths(ts.model "qwen2.5-7b", { 8 }))
    assert.is_nil(taken.bitwidths(ts.model "qwen2.5-7b"))
    raises("usage", "4.25 bits as exl2, which neither vLLM nor llama.cpp runs", function()
      taken.bitwidths { checkpoint = "/m", checkpoint_format = "exl2", checkpoint_bits = 4.25 }
    end)
  end)

  it("of a base model never launches the tuned one", function()
    assert.equal("Qwen/Qwen3-8B-Base", hub.id_of(ts.model "qwen3-8b-base"))
    assert.equal("meta-llama/Llama-3.1-8B", hub.id_of(ts.model "llama-3.1-8b-base"))
    assert.is_nil(hub.id_of(ts.model "gemma-2-27b-base"))
  end)

  it("says of which cards NVLink bridges were not counted", function()
    local model = ts.model "opt-13b"
    local function said(cluster) return taken.text(model, ts.cluster(cluster)) end
    assert.matches("^H100%-NVL: PCIe between the cards; where NVLink bridges join pairs %(300 GB/s%), write @bridges",
      said "2xH100-NVL")
    assert.equal(1, select(2, said "4xA6000+2xA6000":gsub("A6000: PCIe", "")))
    for _, cluster in ipairs { "4xA6000@bridges", "1xA6000+1xA6000", "8xH100-80G", "2xT4-16G@no-peer" } do
      assert.equal("", said(cluster), cluster)
    end
  end)

  it("says which cards were taken to reach each other's memory", function()
    local model = ts.model "opt-13b"
    local function said(cluster) return taken.text(model, ts.cluster(cluster)) end
    assert.matches("^T4%-16G: taken to reach each other's memory over PCIe; .* write @no%-peer", said "2xT4-16G")
    assert.matches("^A100%-80G: taken to reach", said "2xA100 80GB PCIe":match "[^\n]*taken to reach[^\n]*")
    for _, cluster in ipairs { "1xT4-16G", "2xRTX-4090", "1xT4-16G+1xT4-16G", "8xMI300X", "2xM2-Max-96G",
      { { "T4-16G", 2 }, peer_access = true } } do
      assert.equal("", said(cluster))
    end
  end)

  it("says what was taken", function()
    assert.matches("of 'Qwen/Qwen2.5%-7B%-Instruct%-AWQ': awq, 4 bits",
      tostring(ts.model "Qwen/Qwen2.5-7B-Instruct-AWQ"))
  end)

  it("is refused with the way out", function()
    for name, message in pairs {
      ["meta-llama/Llama-3.1-9B-Instruct"] = "did you mean 'llama%-3.1%-8b'", ["op-30b"] = "did you mean 'opt%-30b'",
      ["nvidia/Llama-3_3-Nemotron-Super-49B-v1"] = "though its config.json is read; .* 'llama%-3.3%-70b'; or give",
      ["meta-llama/Llama-3.2-11B-Vision"] = "cross%-attention to images, which no description here can say",
      ["falcon-h1-7b"] = "its sizes do not ship, though its config.json is read; .* 'falcon3%-7b'",
      ["deepseek-ai/DeepSeek-V4"] = "its sizes do not ship, though its config.json is read; .*deepseek%-v4%-flash",
      ["zai-org/GLM-5"] = "its sizes do not ship, though its config.json is read; .* 'deepseek%-v3.2'",
      ["Llama 4"] = "it may be llama%-4%-maverick or llama%-4%-scout; write which",
      ["yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"] = "unknown model", ["microsoft/Phi-4-multimodal"] = "unknown model",
      ["meta-llama/Llama-3.1-8B-Instruct + EAGLE head"] = "name the model alone",
      ["foo/Llama-3.1-8B-to-4B"] = "unknown model", ["xai-org/grok-2"] = "none of the %d+ that ship",
      ["Qwen/Qwen9-1B"] = "or give the path of its config.json",
      ["opt"] = "it may be opt%-1.3b or .* others; write which", ["qwen"] = "it may be qwen1.5%-0.5b or ",
      ["llama 70b"] = "it may be llama%-2%-70b or llama%-3%-70b or llama%-3.1%-70b or llama%-3.3%-70b; write which",
      ["Llama-3.1-8B-Q4_K_M.gguf"] = "no such file or folder; 'Llama%-3.1%-8B%-Q4_K_M' plans without it",
      ["../models/opt-30b"] = "unknown model", ["opt-30b\0"] = "unknown model", ["no/such"] = "unknown model",
      ["awq"] = "unknown model", ["-"] = "unknown model", ["Qwen/"] = "unknown model", [":8b"] = "unknown model",
    } do
      local ok, err = pcall(ts.model, name)
      assert.is_false(ok, name)
      assert.equal("not_found", err.code, name)
      assert.matches(message, err.message)
    end
  end)

  it("never fails inside", function()
    math.randomseed(11)
    local characters = "abAB019-_./: qQ4k"
    for _ = 1, 100 do
      local name = {}
      for i = 1, math.random(24) do
        local at = math.random(#characters)
        name[i] = characters:sub(at, at)
      end
      for _, make in ipairs { ts.model, ts.device, ts.cluster } do
        local ok, err = pcall(make, table.concat(name))
        assert.is_true(ok or err.code ~= "internal", table.concat(name))
      end
    end
  end)
end)
