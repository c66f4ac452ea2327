-- plan:export { as = }: on twenty clusters what Compose, Kubernetes and Ray start is what the scripts start, as another
-- parser reads it; and what cannot be started is refused.

local core = require "tessera.core"
local folders = require "launch_folders"
local host = require "tessera.host"
local support = require "support"
local ts = require "tessera"
local yaml = require "tessera.launch.yaml"

local root = debug.getinfo(1, "S").source:match "^@(.*)/" .. "/../.."

local fresh = folders.fresh
folders.keep(setup, teardown)

local function run_python(...)
  local ok, status, out, err = pcall(host.run_program, { "python3", ... }, "")
  return ok and status, out, err
end

-- { cluster, model, what else the problem has, what of the planner }
local clusters = {
  { "1xA100-80G" }, { "2xA100-80G", nil, { tensor_parallel = 2 } }, { "4xL4" }, { "8xH100-80G", "llama-3.3-70b" },
  { "2x(8xA100-80G)", "llama-3.1-405b", { tensor_parallel = 8, bitwidths = { 16 } } },
  { "2x(8xH100-80G)", "llama-3.1-405b", { tensor_parallel = 8, bitwidths = { 8 } } },
  { "2x(4xA100-40G)", "llama-3.3-70b" }, { "4xRTX-3090" }, { "2xRTX-4090", "llama-3.3-70b", { bitwidths = { 4 } } },
  { "1xA100-80G+2xL4" }, { "(1xA100-80G+1xL4)" }, { "1xV100-32G+2xT4-16G" }, { "3xT4-16G+1xV100-32G", "opt-30b" },
  { "4xL40S", "qwen2.5-32b" }, { "2x(2xRTX-2080-SUPER)" }, { "1xH200-141G", "llama-3.3-70b" }, { "2xA40" },
  { "1x(3xL4)+1x(1xA100-40G)", "qwen2.5-32b" }, { "2xA100-40G+4xT4-16G", "qwen2.5-32b", { bitwidths = { 8 } } },
  { "8xB200-180G", "llama-3.1-405b", { bitwidths = { 8 } } },
}

local function plan_of(each)
  return ts.plan(ts.problem(support.changed({ model = each[2] or "llama-3.1-8b", cluster = each[1],
    kernel_set = "vllm", runtime = "vllm", bitwidths = { 8, 16 },
    workload = { prompt_tokens = 512, output_tokens = 64, batch_size = 16 } }, each[3])), { time_limit_s = 2 })
end

describe("files of platforms", function()
  it("start what the scripts start, on twenty clusters", function()
    assert.equal(20, #clusters)
    if run_python("-c", "import yaml") ~= 0 then return pending "python3 has no module yaml to read them with" end
    local written = {}
    for _, each in ipairs(clusters) do
      local plan = assert(plan_of(each))
      for _, as in ipairs { "compose", "kubernetes", "ray" } do
        local folder = fresh()
        assert(plan:export("vllm", folder, { as = as, unlike_engines = true }))
        assert(ts.load_launch(folder))
        written[#written + 1] = folder
      end
    end
    local status, out, err = run_python(root .. "/tests/scripts/check_platforms.py", unpack(written))
    assert.equal(0, status, (out or "") .. (err or ""))
    assert.matches("60 passed, 0 failed", out)
  end)

  it("start llama.cpp's servers, on GPUs of several makers", function()
    if run_python("-c", "import yaml") ~= 0 then return pending "python3 has no module yaml to read them with" end
    local written = {}
    for _, cluster in ipairs { "2xRTX-3090", "1xMI300X", "2xL4" } do
      local plan = assert(ts.plan(ts.problem { model = "llama-3.1-8b", cluster = cluster, runtime = "llama.cpp",
        workload = { prompt_tokens = 512, output_tokens = 64, batch_size = 4 } }))
      for _, as in ipairs { "compose", "kubernetes" } do
        local folder = fresh()
        assert(plan:export("llama.cpp", folder, { as = as }))
        written[#written + 1] = folder
      end
      support.declines("unsupported", "Ray Serve's LLM applications run vLLM",
        plan:export("llama.cpp", fresh(), { as = "ray" }))
    end
    local status, out, err = run_python(root .. "/tests/scripts/check_platforms.py", unpack(written))
    assert.equal(0, status, (out or "") .. (err or ""))
    assert.matches("server%-rocm", support.read(written[3] .. "/compose.yaml"))
    assert.matches("/dev/kfd", support.read(written[3] .. "/compose.yaml"))
    assert.matches("amd.com/gpu.product%-name", support.read(written[4] .. "/kubernetes.yaml"))
  end)

  it("ask Kubernetes for labels that nodes have and for the memory of the weights once", function()
    for _, each in ipairs { { "8xH100-80G", "NVIDIA%-H100%-80GB%-HBM3\n" }, { "8xH200-141G", "NVIDIA%-H200\n" } } do
      local plan = assert(plan_of { each[1], "llama-3.1-405b", { tensor_parallel = 8, bitwidths = { 8 } } })
      local folder = fresh()
      assert(plan:export("vllm", folder, { as = "kubernetes" }))
      local text = support.read(folder .. "/kubernetes.yaml")
      assert.matches(each[2], text)
      assert.is_nil(text:find("(SXM", 1, true))
      local gib = tonumber(text:match '"(%d+)Gi"\n')
      assert.is_true(gib > 380 + 128 and gib < 420 + 128, tostring(gib)) -- 405e9 bytes, and 16 GiB for each GPU
    end
  end)

  it("are none for Apple's GPUs, whose scripts start llama.cpp without numbers of GPUs", function()
    local plan = assert(ts.plan(ts.problem { model = "llama-3.1-8b", cluster = "1xM3-Max-64G", runtime = "llama.cpp",
      workload = { prompt_tokens = 512, output_tokens = 64, batch_size = 4 } }))
    for _, as in ipairs { "compose", "kubernetes" } do
      support.declines("unsupported", "containers see no GPU of Apple's",
        plan:export("llama.cpp", fresh(), { as = as }))
    end
    local folder = fresh()
    assert(plan:export("llama.cpp", folder))
    local engine = assert(ts.load_launch(folder)).engines[1]
    assert.same({}, engine.variables)
    assert.equal("33", engine.options["--n-gpu-layers"])
    support.declines("unsupported", "NVIDIA's and AMD's GPUs, and M3-Max-64G is neither", plan:export("vllm", fresh()))
  end)

  it("start vLLM on AMD's GPUs, by their images, resources and numbers", function()
    if run_python("-c", "import yaml") ~= 0 then return pending "python3 has no module yaml to read them with" end
    local written = {}
    for _, each in ipairs { { "8xMI300X", "llama-3.3-70b", 8 }, { "4xMI250", "llama-3.1-8b", 16 },
      { "2x(2xMI300X)", "llama-3.1-8b", 16 } } do
      local plan = assert(ts.plan(ts.problem { model = each[2], cluster = each[1], runtime = "vllm",
        bitwidths = { each[3] }, workload = { prompt_tokens = 512, output_tokens = 64, batch_size = 16 } },
        { time_limit_s = 2 }))
      for _, as in ipairs { "compose", "kubernetes", "ray" } do
        local folder = fresh()
        assert(plan:export("vllm", folder, { as = as, unlike_engines = true }))
        local launch = assert(ts.load_launch(folder))
        for _, engine in ipairs(launch.engines) do
          assert.matches("^[%d,]+$", engine.variables.HIP_VISIBLE_DEVICES)
          assert.is_nil(engine.variables.CUDA_VISIBLE_DEVICES)
        end
        assert.matches("no step of vLLM was measured on %d*x?MI%d+", support.read(folder .. "/README.md"))
        written[#written + 1] = folder
      end
    end
    local status, out, err = run_python(root .. "/tests/scripts/check_platforms.py", unpack(written))
    assert.equal(0, status, (out or "") .. (err or ""))
    assert.matches("vllm%-openai%-rocm", support.read(written[1] .. "/compose.yaml"))
    assert.matches("amd.com/gpu: \"?8", support.read(written[2] .. "/kubernetes.yaml"))
    assert.matches("accelerator_type:AMD%-Instinct%-MI300X%-OAM", support.read(written[3] .. "/ray-serve.yaml"))
    assert.matches("%-%-dtype auto", support.read(written[1] .. "/engine-0-node-0.sh"))
  end)

  it("join the nodes of an engine by LeaderWorkerSet, and unlike ones by Deployments", function()
    local function manifests(cluster, model, stages)
      local plan = assert(ts.plan(ts.problem { model = model, cluster = cluster, kernel_set = "vllm",
        bitwidths = { 16 }, tensor_parallel = { 1, 2 }, workload = { prompt_tokens = 512,
          output_tokens = 64, batch_size = 16 } }, { planner = "manual", stages = stages, prefill_micro_batch_size = 4,
          decode_micro_batch_size = 4 }))
      local folder = fresh()
      assert(plan:export("vllm", folder, { as = "kubernetes" }))
      return support.read(folder .. "/kubernetes.yaml"), support.read(folder .. "/README.md")
    end
    local function stage(device, layers)
      local bitwidths = {}
      for i = 1, layers do bitwidths[i] = 16 end
      return { device = device, bitwidths = bitwidths }
    end
    local alike, readme = manifests("2x(2xA100-80G)", "llama-3.1-8b", { stage("2xA100-80G@a100-80g", 16),
      stage("2xA100-80G@a100-80g-2", 16) })
    assert.matches("kind: LeaderWorkerSet", alike)
    assert.matches('%-%-node%-rank"\n%s+%- "%$%(LWS_WORKER_INDEX%)"', alike)
    assert.matches('%-%-master%-addr"\n%s+%- "%$%(LWS_LEADER_ADDRESS%)"', alike)
    assert.matches("startupProbe", alike)
    assert.matches("secretKeyRef", alike)
    assert.matches("kubectl create secret generic tessera%-keys", readme)
    assert.matches("a LeaderWorkerSet needs its controller", readme)
    local unlike, without = manifests("1xA100-80G+1xL4+1xT4-16G", "llama-3.1-8b", { stage("A100-80G", 20),
      stage("L4", 8), stage("T4-16G", 4) })
    assert.is_nil((unlike .. without):find "LeaderWorkerSet")
    assert.matches("clusterIP: None", unlike)
  end)

  it("are refused where nothing starts them", function()
    local plan = assert(plan_of { "1xA100-80G" })
    support.raises("invalid_argument", "kind json is data", function() plan:export("json", fresh(), { as = "ray" }) end)
    local mac = assert(ts.plan(ts.problem { model = "llama-3.1-8b", cluster = "1xM3-Max-64G", runtime = "llama.cpp",
      workload = { prompt_tokens = 512, output_tokens = 64, batch_size = 1 } }))
    support.declines("unsupported", "containers see no GPU of Apple's", mac:export("llama.cpp", fresh(), {
      as = "compose" }))
    support.raises("invalid_argument", "'swarm'", function() plan:export("vllm", fresh(), { as = "swarm" }) end)
  end)
end)

describe("YAML", function()
  it("is read back as it was, whatever texts have", function()
    if run_python("-c", "import yaml") ~= 0 then return pending "python3 has no module yaml to read it with" end
    math.randomseed(7)
    local letters = { "a", " ", "'", '"', "\\", "$", "#", ":", "-", "\n", "\t", "é", "{", "[", "1", "no", "~", "%" }
    local entries, expected = {}, {}
    for i = 1, 300 do
      local text = {}
      for k = 1, math.random(0, 8) do text[k] = letters[math.random(#letters)] end
      local key = "k" .. i
      expected[key] = table.concat(text)
      entries[i] = { key, expected[key] }
    end
    local inner = yaml.map { { "a", 1 }, { "b", { "c", true } }, { "d", nil } }
    entries[#entries + 1] = { "list", { "yes", "0x1", inner, {} } }
    local path = support.temporary(yaml.text(yaml.map(entries)))
    local status, out, err = run_python("-c", "import json, sys, yaml\nwith open(sys.argv[1], newline='') as text: "
      .. "print(json.dumps(yaml.safe_load(text)))", path)
    assert.equal(0, status, err)
    local got = core.from_json(out)
    assert.same({ "yes", "0x1", { a = 1, b = { "c", true } }, {} }, got.list)
    for key, text in pairs(expected) do assert.equal(text, got[key]) end
  end)
end)
