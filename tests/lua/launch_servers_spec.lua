-- Which checkpoint a launch serves, and that its servers take the requests that people send, on what people have.

local core = require "tessera.core"
local csv = require "fidelity.fit.csv"
local folders = require "launch_folders"
local host = require "tessera.host"
local hub = require "tessera.launch.hub"
local checkpoint = require "tessera.launch.checkpoint"
local limits = require "tessera.launch.limits"
local measured = require "lib.measured"
local solver = require "tessera.solver"
local support = require "support"
local ts = require "tessera"
local versions = require "tessera.launch.vllm_versions"
local raises = support.raises

local fresh = folders.fresh
folders.keep(setup, teardown)

local function sheet(id, typed)
  return { name = id:match "[^/]+$", source = "https://huggingface.co/" .. id .. " config.json", checkpoint = typed,
    max_context_tokens = 131072, hidden_size = 4096, num_heads = 32, head_dim = 128, ffn_size = 14336 }
end

-- An engine of 32 layers at one bitwidth, or at those of a list.
local function engine_at(bits, eight_bit)
  local bitwidths = type(bits) == "table" and bits or {}
  for i = #bitwidths + 1, 32 do bitwidths[i] = bits end
  return { bitwidths = bitwidths, kernel_set = { name = "vllm", eight_bit = eight_bit or "int" } }
end

describe("a GGUF file that was named", function()
  local model = ts.model(debug.getinfo(1, "S").source:match "^@(.*)/" .. "/../reference/decoders/gguf/llama/model.gguf")

  it("is known by its types", function()
    assert.matches("^/.*/llama/model%.gguf$", model.checkpoint)
    assert.matches("^gguf ", model.checkpoint_format)
    assert.is_true(model.checkpoint_bits > 0 and model.checkpoint_bits <= 16)
    local taken = require "tessera.cli.taken"
    for bits, planned in pairs { [2.3] = 3, [3.9] = 3, [4.5] = 4, [5.5] = 8, [8.5] = 8, [16] = 16 } do
      local bitwidths = taken.bitwidths { checkpoint = "/m.gguf", checkpoint_format = "gguf x", checkpoint_bits = bits }
      assert.same(planned < 16 and { planned } or nil, bitwidths)
    end
  end)

  it("is what llama.cpp serves, and nothing for vLLM", function()
    local folder = fresh()
    local plan = assert(ts.plan(ts.problem { model = model, cluster = { { "L4", 1 } }, bitwidths = { 16 },
      kernel_set = "llama_cpp", runtime = "llama.cpp", workload = { prompt_tokens = 32, output_tokens = 16 } }))
    assert(plan:export("llama.cpp", folder))
    local script = core.read_file(folder .. "/engine-0-node-0.sh")
    assert.truthy(script:find("--model " .. model.checkpoint .. " ", 1, true), script)
    assert.not_matches("llama%-quantize", core.read_file(folder .. "/checkpoint.sh"))
    raises("invalid_argument", "is GGUF, which llama.cpp runs",
      function() checkpoint.choose({ model = model }, engine_at(16)) end)
  end)
end)

describe("a folder that was named", function()
  it("is planned for where its tensors are those of its configuration", function()
    local taken = require "tessera.cli.taken"
    local origin = debug.getinfo(1, "S").source:match "^@(.*)/" .. "/../reference/decoders/arcee/"
    local config = core.from_json(core.read_file(origin .. "config.json"))
    local function model_with(changes)
      local own = {}
      for key, value in pairs(config) do own[key] = value end
      for key, value in pairs(changes) do own[key] = value end
      local folder = fresh()
      core.write_folder(folder, {
        { name = "config.json", text = core.to_json(own) },
        { name = "model.safetensors", text = core.read_file(origin .. "model.safetensors") },
      }, false)
      return taken.model { model = folder }
    end
    assert.equal(config.num_hidden_layers, model_with {} .num_layers)
    raises("invalid_argument", "has the shape [48, ", function() model_with { intermediate_size = 64 } end)
    raises("invalid_argument", "names a quantisation (gptq)",
      function() model_with { quantization_config = { quant_method = "gptq", bits = 4 } } end)
  end)
end)

describe("the checkpoint of a name", function()
  it("is the id as typed; a bare name means the instruction-tuned model", function()
    for _, case in ipairs {
      { "meta-llama/Llama-3.1-8B", nil, "meta-llama/Llama-3.1-8B-Instruct" },
      { "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B" },
      { "meta-llama/Llama-3.1-8B", "meta-llama/llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B-Instruct" },
      { "meta-llama/Llama-3.1-8B", "unsloth/Meta-Llama-3.1-8B-Instruct", "unsloth/Meta-Llama-3.1-8B-Instruct" },
      { "meta-llama/Llama-3.1-8B", "llama3.1:8b", "meta-llama/Llama-3.1-8B-Instruct" },
      { "meta-llama/Llama-3.1-8B", "llama-3.1-8b-base", "meta-llama/Llama-3.1-8B" },
      { "meta-llama/Meta-Llama-3-70B", nil, "meta-llama/Meta-Llama-3-70B-Instruct" },
      { "meta-llama/Llama-3.3-70B-Instruct", nil, "meta-llama/Llama-3.3-70B-Instruct" },
      { "meta-llama/Llama-2-13b-hf", nil, "meta-llama/Llama-2-13b-chat-hf" },
      { "codellama/CodeLlama-34b-hf", nil, "codellama/CodeLlama-34b-Instruct-hf" },
      { "Qwen/Qwen2.5-32B", nil, "Qwen/Qwen2.5-32B-Instruct" },
      { "Qwen/Qwen2.5-32B", "Qwen/Qwen2.5-32B-Instruct-AWQ", "Qwen/Qwen2.5-32B-Instruct-AWQ" },
      { "Qwen/Qwen2-57B-A14B", nil, "Qwen/Qwen2-57B-A14B-Instruct" },
      { "Qwen/Qwen3-8B", nil, "Qwen/Qwen3-8B" },
      { "Qwen/Qwen3-8B", "qwen3-8b-base", "Qwen/Qwen3-8B-Base" },
      { "google/gemma-2-9b", nil, "google/gemma-2-9b-it" },
      { "google/gemma-3-27b-it", nil, "google/gemma-3-27b-it" },
      { "mistralai/Mistral-7B-v0.1", nil, "mistralai/Mistral-7B-Instruct-v0.1" },
      { "mistralai/Mixtral-8x7B-v0.1", nil, "mistralai/Mixtral-8x7B-Instruct-v0.1" },
      { "tiiuae/falcon-7b", nil, "tiiuae/falcon-7b-instruct" },
      { "deepseek-ai/DeepSeek-V2-Lite", nil, "deepseek-ai/DeepSeek-V2-Lite-Chat" },
      { "deepseek-ai/DeepSeek-V3", nil, "deepseek-ai/DeepSeek-V3" },
      { "facebook/opt-13b", nil, "facebook/opt-13b" },
    } do
      assert.equal(case[3], hub.id_of(sheet(case[1], case[2])), case[2] or case[1])
    end
    assert.is_nil(hub.id_of(sheet("Qwen/Qwen3-8B", "deepseek-r1:8b")), "another checkpoint of that shape")
    raises("invalid_argument", "'deepseek-r1:8b' is a checkpoint whose id is not known here",
      function() checkpoint.choose({ model = sheet("Qwen/Qwen3-8B", "deepseek-r1:8b") }, engine_at(16)) end)
    assert.is_nil(hub.id_of { name = "mine" })
  end)

  it("has a context of its own", function()
    assert.equal(32768, hub.context_tokens(sheet "Qwen/Qwen2.5-7B"))
    assert.equal(131072, hub.context_tokens(sheet("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-7B")))
    assert.equal(131072, hub.context_tokens(sheet "meta-llama/Llama-3.1-8B"))
  end)

  it("tells its bits", function()
    for name, bits in pairs {
      ["Qwen/Qwen2.5-32B-Instruct-AWQ"] = 4, ["Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8"] = 8, ["a/b-GPTQ-Int4"] = 4,
      ["a/b-GPTQ"] = 4, ["a/b-bnb-4bit"] = 4, ["RedHatAI/x-quantized.w4a16"] = 4, ["RedHatAI/x-quantized.w8a8"] = 8,
      ["Qwen/Qwen3-8B-FP8"] = 8, ["RedHatAI/x-FP8-dynamic"] = 8, ["nvidia/x-NVFP4"] = 4, ["a/b-AutoRound"] = 4,
      ["RedHatAI/x-quantized.w4a8"] = 4, ["m-Q4_K_M.gguf"] = 4,
      ["m.Q8_0.gguf"] = 8, ["m-IQ3_XS.gguf"] = 3, ["m-BF16.gguf"] = 16,
    } do
      assert.equal(bits, hub.bits_of_name(name), name)
    end
    for _, name in ipairs { "meta-llama/Llama-3.1-8B-Instruct", "awq/model", "Qwen/Qwen3-8B", "fp8" } do
      assert.is_true(hub.bits_of_name(name) == nil or name == "fp8", name)
    end
  end)

  it("is served at the plan's bits: itself, a published copy of it, or one that is made of it", function()
    local function chosen(id, typed, engine)
      return checkpoint.choose({ model = sheet(id, typed) }, engine)
    end
    local llama, instruct = "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct"
    assert.equal(instruct, chosen(llama, nil, engine_at(16)).id)
    assert.equal("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", chosen(llama, instruct, engine_at(4)).id)
    assert.equal("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", chosen(llama, nil, engine_at(8, "fp8")).id)
    local base = chosen(llama, llama, engine_at(4)) -- nobody publishes one of the base model
    assert.equal("quantise", base.kind)
    assert.equal(llama, base.base)
    local online = chosen(llama, llama, engine_at(8, "fp8"))
    assert.equal(llama, online.id)
    assert.equal("fp8", online.quantization)
    local named = chosen(llama, "meta-llama/Llama-3.1-8B-Instruct", engine_at(8, "fp8")) -- not a copy of it
    assert.same({ "meta-llama/Llama-3.1-8B-Instruct", "fp8" }, { named.id, named.quantization })
    local awq = "Qwen/Qwen2.5-32B-Instruct-AWQ"
    assert.equal(awq, chosen("Qwen/Qwen2.5-32B", awq, engine_at(4)).id)
    raises("invalid_argument", "has weights of 4 bits, and the plan has 8-bit layers: plan with --bitwidths 4",
      function() chosen("Qwen/Qwen2.5-32B", awq, engine_at(8)) end)
    raises("invalid_argument", "the plan has 8- and 4-bit layers",
      function() chosen("Qwen/Qwen2.5-32B", awq, engine_at { 8 , 4 }) end)
    raises("invalid_argument", "in the format of MLX",
      function() chosen(llama, "mlx-community/Meta-Llama-3.1-8B-Instruct-4bit", engine_at(4)) end)
    raises("invalid_argument", "is GGUF, which llama.cpp runs",
      function() chosen(llama, "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", engine_at(4)) end)
  end)

  it("of another format or with a tag is refused with the id to name instead", function()
    local function refuses(message, id, typed)
      raises("invalid_argument", message,
        function() checkpoint.choose({ model = sheet(id, typed) }, engine_at(4)) end)
    end
    local qwen = "Qwen/Qwen2.5-14B"
    for _, tag in ipairs { "", ":Q4_K_M" } do
      for _, host_name in ipairs { "", "hf.co/", "https://huggingface.co/" } do
        local typed = host_name .. "bartowski/Qwen2.5-14B-Instruct-GGUF" .. tag
        refuses(typed .. " is GGUF, which llama.cpp runs", qwen, typed)
        refuses("made from (--model Qwen/Qwen2.5-14B-Instruct)", qwen, typed)
      end
      refuses("made from (--model Qwen/Qwen2.5-14B)", qwen, "a/Qwen2.5-14B-GGUF" .. tag)
    end
    refuses("name the model as Qwen/Qwen2.5-14B-Instruct,", qwen, "Qwen/Qwen2.5-14B-Instruct:main")
    refuses("name the model as OWNER/NAME,", "Qwen/Qwen3-8B", "deepseek-r1:8b")
  end)

  it("that is given is served as it is, or refused", function()
    assert.equal("fp8", checkpoint.given(engine_at(8, "fp8"), "a/b-BF16").quantization)
    assert.is_nil(checkpoint.given(engine_at(8, "fp8"), "a/b-FP8").quantization)
    assert.matches("have to be the plan's", checkpoint.given(engine_at(4), "a/b").note)
    raises("invalid_argument", "a/b-FP8 has weights of 8 bits, and the plan has 4-bit layers: plan with --bitwidths 8",
      function() checkpoint.given(engine_at(4), "a/b-FP8") end)
    raises("invalid_argument", "m-F16.gguf has weights of 16 bits",
      function() checkpoint.given(engine_at(8, "fp8"), "m-F16.gguf") end)
    raises("invalid_argument", "neither an id", function() checkpoint.given(engine_at(4), "-rf") end)
    local folder = fresh()
    host.make_folder(folder)
    local function with(config)
      core.write_file(folder .. "/config.json", core.to_json(config))
      return checkpoint.given(engine_at(4), folder)
    end
    assert.equal("as given", with { quantization_config = { quant_method = "awq", bits = 4 } }.note)
    assert.equal("as given", with { quantization_config = { quant_method = "compressed-tensors",
      config_groups = { group_0 = { weights = { num_bits = 4 } } } } }.note)
    raises("invalid_argument", "has weights of 16 bits", function() with { hidden_size = 8 } end)
    raises("invalid_argument", "has weights of 8 bits",
      function() with { quantization_config = { quant_method = "fp8" } } end)
  end)
end)

describe("experts in MXFP4", function()
  local function engine_of(cluster, version)
    local path = fresh()
    local problem = ts.problem { model = "gpt-oss-20b", cluster = cluster, tensor_parallel = 1, bitwidths = { 4 },
      kernel_set = "vllm", runtime = "vllm", workload = { batch_size = 4, prompt_tokens = 512, output_tokens = 32 } }
    assert(assert(ts.plan(problem)):export("vllm", path, { version = version }))
    return assert(ts.load_launch(path)).engines[1]
  end

  it("run by the kernels that were priced", function()
    local hopper, older = engine_of("1xH100-80G"), engine_of("1xH100-80G", "0.14.0")
    assert.equal("marlin", hopper.options["--moe-backend"])
    assert.is_nil(hopper.variables.VLLM_MXFP4_USE_MARLIN)
    assert.is_nil(older.options["--moe-backend"])
    assert.equal("1", older.variables.VLLM_MXFP4_USE_MARLIN)
    assert.equal('{"moe":{"activation":"mxfp8"}}', engine_of("1xB200-180G").options["--quantization-config"])
    assert.equal("1", engine_of("1xB200-180G", "0.14.0").variables.VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8)
    local ada = engine_of("1xL40S") -- has Marlin alone
    assert.same({}, { ada.options["--moe-backend"], ada.options["--quantization-config"] })
  end)
end)

describe("the router", function()
  it("passes prompts of any length, as any user", function()
    local path = fresh()
    assert(assert(ts.plan({ model = "llama-3.1-8b", cluster = "(4xA100-80G)", kernel_set = "vllm",
      workload = { prompt_tokens = 256, output_tokens = 32, batch_size = 8 } }, { replicas = 2 })):export("vllm", path))
    local function bash(command) return host.run_program({ "bash", "-c", command }, "") end
    local no_server = ("cd '%s' && nginx() { :; } && exec() { :; } && . ./router.sh"):format(path)
    assert.equal(0, (bash(no_server)))
    local configuration = support.read(path .. "/router.nginx.conf")
    for _, line in ipairs { "client_max_body_size 0", "proxy_request_buffering off", "proxy_buffering off" } do
      assert.matches("\n%s*" .. line .. ";", configuration)
    end
    local status, out = bash "nginx -V 2>&1"
    if status ~= 0 then return pending "there is no nginx" end
    -- What nginx has for its files and this configuration does not say, it would make where it was built to.
    local count = 0
    for kind in out:gmatch "%-%-http%-([%w-]+)%-temp%-path=" do
      count = count + 1
      assert.matches("\n%s*" .. kind:gsub("-", "_") .. "_temp_path router.temp/", configuration)
    end
    assert.is_true(count == 0 or count == 5, count)
    local _, text, err = host.run_program({ "nginx", "-t", "-p", path .. "/", "-c", "router.nginx.conf" }, "")
    assert.matches("syntax is ok", text .. err)
  end)
end)

describe("the share of the KV cache that one request may need", function()
  local models = {
    ["meta-llama/Llama-3.1-8B-Instruct + EAGLE head"] = "llama-3.1-8b", ["Qwen/Qwen3-14B-AWQ"] = "qwen3-14b",
    ["Qwen/Qwen3-8B-FP8"] = "qwen3-8b", ["Qwen/Qwen2-7B-Instruct"] = "qwen2.5-7b",
    ["openai/gpt-oss-20b"] = "gpt-oss-20b",
  }
  local devices = { ["H100 SXM"] = "H100-80G", L4 = "L4", ["A100 80 GB PCIe"] = "A100-80G",
    ["24 GB card (23.53 GiB seen)"] = "RTX-4090" }
  local bits = { bf16 = 16, fp8 = 8, awq4 = 4, mxfp4 = 4 }

  local function predicted(row)
    local deployment = ts.deployment {
      model = models[row.model], cluster = ("(%dx%s)"):format(row.gpus, devices[row.gpu]), replicas = 1,
      tensor_parallel = tonumber(row.tp), pipeline_parallel = tonumber(row.pp), bitwidths = { bits[row.weights] },
      kv_bitwidth = row.kv_dtype == "fp8" and 8 or 16, kernel_set = row.weights == "fp8" and "vllm_fp8" or "vllm",
      engine = { max_num_seqs = tonumber(row.max_num_seqs),
        max_num_batched_tokens = tonumber(row.max_num_batched_tokens), runtime_version = row.vllm,
        gpu_memory_utilization = tonumber(row.gpu_memory_utilization) },
    }
    return deployment.replicas[1].kv_tokens
  end

  it("is in the cache that vLLM had, on every start that people reported of its V1 engine", function()
    local path, why = measured.path "field/kv.csv"
    if not path then return pending(why.message) end
    local checked = 0
    for row in csv.rows(path) do
      if row.engine == "v1" and models[row.model] and devices[row.gpu] then
        local most = predicted(row) * solver.server_request(core.model(models[row.model])).cache_share
        assert.is_true(most <= tonumber(row.kv_tokens), ("%s: %d of %s"):format(row.id, most, row.kv_tokens))
        checked = checked + 1
      end
    end
    assert.is_true(checked >= 7, checked .. " starts")
  end)
end)

describe("servers of recommended launches", function()
  local clusters = {
    "1xT4-16G", "2xT4-16G", "4xT4-16G", "8xT4-16G", "1xV100-16G", "4xV100-32G", "1xL4", "2xL4", "4xL4", "8xL4",
    "1xRTX-3090", "2xRTX-3090", "4xRTX-3090", "1xRTX-4090", "2xRTX-4090", "8xRTX-4090", "1xRTX-5090", "2xL40S",
    "4xL40S", "1xA6000", "4xA6000", "1xA100-40G", "2xA100-40G", "4xA100-40G", "1xA100-80G", "2xA100-80G", "8xA100-80G",
    "1xH100-80G", "8xH100-80G", "8xH200-141G", "2x(8xA100-80G)", "2xA100-40G+4xT4-16G",
  }
  local models = { "llama-3.1-8b", "qwen2.5-32b", "llama-3.3-70b", "qwen3-30b-a3b" }

  local function check(name, plan, folder)
    local launched = assert(ts.load_launch(folder))
    local readme = support.read(folder .. "/README.md")
    for _, engine in ipairs(launched.engines) do
      local function number(flag) return tonumber(engine.options[flag]) end
      local context = number "--max-model-len"
      if context < limits.common_tokens(plan:problem().model) then
        assert.matches("longer requests are refused", readme, name)
      end
      assert.is_true(context <= hub.context_tokens(plan:problem().model), name)
      assert.is_true(number "--max-num-seqs" >= 64 or readme:find "requests at a time" ~= nil, name)
      assert.is_true(number "--max-num-batched-tokens" >= 512 and number "--max-num-batched-tokens" <= 8192, name)
      assert.is_true(number "--max-num-batched-tokens" >= number "--max-num-seqs", name)
      assert.is_true(number "--gpu-memory-utilization" <= 0.95, name)
      assert.same({}, versions.missing(launched.runtime_version, engine.words), name)
    end
    return #launched.engines
  end

  local slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.1 } }
  local function searched(model, cluster, targets)
    return assert(ts.plan_serving { model = model, cluster = cluster, slo = targets, disaggregated = false,
      traffic = { prompt_tokens = 1000, output_tokens = 200 }, num_requests = 400 })[1]
  end

  it("have vLLM's own tokens of a step, unless fewer serve a tenth more, which is said", function()
    for _, case in ipairs {
      { "llama-3.1-8b", "1xL4", 2048 }, { "llama-3.1-8b", "1xRTX-3090", 2048 }, { "qwen2.5-14b", "1xA100-80G", 2048 },
      { "llama-3.1-8b", "1xH100-80G", 8192 }, { "llama-3.1-8b", "1xT4-16G", 2048 },
    } do
      local row, name = searched(case[1], case[2], slo), case[1] .. " on " .. case[2]
      local tokens = row.parts[1].engine.max_num_batched_tokens
      assert.is_true(row.parts[1].engine.max_num_seqs >= 64, name)
      if row.tokens_note == "" then
        assert.equal(case[3], tokens, name)
      else
        assert.is_true(tokens < case[3], name)
        local said, usual, less = row.tokens_note:match(
          "^steps of (%d+) tokens: vLLM's own (%d+) would serve (%d+) %% less$")
        assert.equal(tostring(tokens), said, row.tokens_note)
        assert.equal(tostring(case[3]), usual, row.tokens_note)
        assert.is_true(tonumber(less) >= 9, row.tokens_note)
      end
    end
  end)

  it("serve no less by a looser limit", function()
    local known_to = 0.93 -- of a rate, to which it is found
    local both = searched("opt-13b", "2xRTX-4090", slo).rate_per_s
    local one = searched("opt-13b", "2xRTX-4090", { ttft_s = slo.ttft_s }).rate_per_s
    assert.is_true(one >= known_to * both, ("%.2f after %.2f"):format(one, both))
  end)

  it("take 4,000 tokens, or say that they do not", function()
    local short, checked = {}, 0
    for _, model in ipairs(models) do
      for _, cluster in ipairs(clusters) do
        local name, folder = model .. " on " .. cluster, fresh()
        local plan = ts.plan(ts.problem { model = model, cluster = cluster, runtime = "vllm" })
        if plan and plan:export("vllm", folder, { unlike_engines = true }) then
          check(name, plan, folder)
          checked = checked + 1
          if support.read(folder .. "/README.md"):find("longer requests are refused", 1, true) then
            short[#short + 1] = name
          end
        end
      end
    end
    assert.is_true(checked >= 90, checked .. " launches")
    assert.is_true(#short <= 6, table.concat(short, ", "))
  end)
end)
