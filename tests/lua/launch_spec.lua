-- plan:export: what it writes, that it reads back to the plan, and what it refuses.

local core = require "tessera.core"
local folders = require "launch_folders"
local host = require "tessera.host"
local measured = require "lib.measured"
local shell = require "tessera.launch.shell"
local support = require "support"
local ts = require "tessera"
local versions = require "tessera.launch.vllm_versions"
local raises, declines = support.raises, support.declines

local fresh, checked_by_bash = folders.fresh, folders.checked_by_bash
folders.keep(setup, teardown)

local function problem(changes)
  return ts.problem(support.changed({
    model = "llama-3.1-8b", cluster = "2x(2xA100-80G)", kernel_set = "vllm", bitwidths = { 4, 8, 16 },
    tensor_parallel = 2, workload = { prompt_tokens = 256, output_tokens = 32, batch_size = 8 },
  }, changes))
end

local function stage(device, num_layers, bitwidth)
  local bitwidths = {}
  for i = 1, num_layers do bitwidths[i] = bitwidth end
  return { device = device, bitwidths = bitwidths }
end

-- A plan made by hand, 32 layers in all.
local function plan_of(changes, stages)
  return assert(ts.plan(problem(changes), { planner = "manual", stages = stages, prefill_micro_batch_size = 2,
    decode_micro_batch_size = 4 }))
end

local function two_nodes(bits)
  return plan_of(nil, { stage("2xA100-80G@a100-80g", 20, bits or 16), stage("2xA100-80G@a100-80g-2", 12, bits or 16) })
end

local function script(path, name) return support.read(path .. "/" .. (name or "engine-0-node-0.sh")) end

describe("words of a shell", function()
  it("read back whatever is in them", function()
    math.randomseed(20)
    local letters = { "a", " ", "'", '"', "\\", "$", "`", "\n", "*", ";", "&", "#", "é", "-", "/" }
    for _ = 1, 300 do
      local word = {}
      for i = 1, math.random(1, 8) do word[i] = letters[math.random(#letters)] end
      word = table.concat(word)
      assert.same({ "x", word, "y" }, shell.words(shell.command({ "x", word }, { { "y" } })))
      local status, out = host.run_program({ "bash", "-c", "printf %s " .. shell.quote(word) }, "")
      assert.equal(0, status)
      assert.equal(word, out)
    end
    assert.is_nil(shell.words "an 'open quote")
  end)
end)

describe("vLLM's flags by version", function()
  it("know what came and went", function()
    assert.is_true(versions.has("0.14.0", "--nnodes"))
    assert.is_false(versions.has("0.10.0", "--nnodes"))
    assert.is_false(versions.has("0.12.3", "--nnodes"), "as 0.10.0, the newest that is not newer")
    assert.is_false(versions.has("0.24.0", "--no-such-flag"))
    assert.is_true(versions.has_multi_node "0.24.0")
    assert.is_true(versions.has_multi_node "0.33.0")
    assert.is_false(versions.has_multi_node "0.8.5")
  end)
  it("refuse what is no version", function()
    raises("invalid_argument", "'newest' is no version", function() versions.nearest("newest", "v") end)
    raises("invalid_argument", "older than 0.8.5", function() versions.nearest("0.7.3", "v") end)
  end)
  it("agree with the packages' own lists, where those are", function()
    local path, why = measured.path "vllm/flags.json"
    if not path then return pending(why.message) end
    local lists = core.from_json(core.read_file(path))
    for _, version in ipairs(versions.versions) do
      local has = {}
      for _, flag in ipairs(lists[version].flags) do has[flag] = true end
      for _, flag in ipairs(versions.known_flags()) do
        -- Made from field names, which the lists lack; and in 0.33 the flag is in entrypoints/common/cli_args.py.
        local unlisted = flag == "--host" or flag == "--port" or flag == "--headless" and version == "0.33.0"
        if not unlisted then
          assert.equal(has[flag] or false, versions.has(version, flag), version .. " " .. flag)
        end
      end
    end
  end)
end)

describe("plan:export vllm", function()
  it("writes commands that read back to the plan", function()
    local path = fresh()
    local written = assert(two_nodes():export("vllm", path))
    assert.equal(path, written.folder)
    checked_by_bash(path, written.files)
    local back = assert(ts.load_launch(path))
    assert.equal("vllm", back.runtime)
    assert.equal("0.24.0", back.runtime_version)
    local options, variables = back.engines[1].options, back.engines[1].variables
    assert.equal("2", options["--tensor-parallel-size"])
    assert.equal("2", options["--pipeline-parallel-size"])
    assert.equal("20,12", variables.VLLM_PP_LAYER_PARTITION)
    assert.equal("auto", options["--kv-cache-dtype"])
    assert.equal("256", options["--max-num-seqs"])
    assert.equal("2048", options["--max-num-batched-tokens"])
    assert.equal("131072", options["--max-model-len"])
    assert.equal("$HOST_0", options["--master-addr"])
    assert.equal("$LISTEN", options["--host"])
    assert.is_true(options["--enable-chunked-prefill"])
    assert.is_true(ts.check(back.plan))
    assert.matches("%-%-node%-rank 1", script(path, "engine-0-node-1.sh"))
    assert.matches("%-%-headless", script(path, "engine-0-node-1.sh"))
    assert.matches("|| hf download meta%-llama/Llama%-3.1%-8B%-Instruct\n", script(path, "checkpoint.sh"))
    assert.matches("micro%-batches", script(path, "README.md"))
  end)

  it("joins nodes by Ray where the version has no other way, or nodes differ", function()
    local path = fresh()
    assert(two_nodes():export("vllm", path, { version = "0.10.0" }))
    assert.matches("ray start %-%-head", script(path))
    assert.matches("%-%-distributed%-executor%-backend ray", script(path))
    assert.matches('exec ray start %-%-address="%$HOST_0":6379', script(path, "engine-0-node-1.sh"))
    assert(ts.load_launch(path))
    local uneven = plan_of({ cluster = "(2xL4)+1xA100-80G", tensor_parallel = 1 },
      { stage("L4", 4, 8), stage("L4", 4, 8), stage("A100-80G", 24, 8) })
    path = fresh()
    assert(uneven:export("vllm", path))
    assert.matches("%-%-distributed%-executor%-backend ray", script(path))
    assert.matches("Ray's workers are sorted", script(path, "README.md"))
  end)

  it("starts an engine for each replica, with a router", function()
    local plan = assert(ts.plan(problem { cluster = "(4xA100-80G)" }, { replicas = 2 }))
    local path = fresh()
    local written = assert(plan:export("vllm", path))
    checked_by_bash(path, written.files)
    local back = assert(ts.load_launch(path))
    assert.equal(2, #back.engines)
    assert.equal("0,1", back.engines[1].variables.CUDA_VISIBLE_DEVICES)
    assert.equal("2,3", back.engines[2].variables.CUDA_VISIBLE_DEVICES)
    assert.equal("8001", back.engines[2].options["--port"])
    assert.matches("server %$HOST_0:8001 weight=4;", script(path, "router.sh"))
    declines("unsupported", "one replica of several", plan.replicas[1]:export("vllm", fresh()))
  end)

  it("chooses the weights", function()
    local function checkpoint_of(changes, bits, given)
      local path = fresh()
      assert(plan_of(support.changed({ cluster = "1xL4", tensor_parallel = 1 }, changes),
        { type(bits) == "table" and { device = "L4", bitwidths = bits } or stage("L4", 32, bits) })
        :export("vllm", path, { checkpoint = given }))
      return assert(ts.load_launch(path)).engines[1].words[4], script(path, "checkpoint.sh"), script(path)
    end
    assert.equal("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", (checkpoint_of({}, 4)))
    assert.equal("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", (checkpoint_of({ kernel_set = "vllm_fp8" }, 8)))
    assert.equal("my model's 'weights'", (checkpoint_of({}, 4, "my model's 'weights'")))
    local mixed = {}
    for i = 1, 32 do mixed[i] = i < 9 and 8 or 4 end
    local id, step = checkpoint_of({}, mixed)
    assert.equal("./checkpoint-0", id)
    assert.matches("tessera quantise base", step)
    assert.matches("%-%-bitwidths 8,8,8,8,8,8,8,8,4,4", step)
    local deepseek = assert(ts.plan(problem { model = "deepseek-v3", cluster = "2x(8xH200-141G)", tensor_parallel = 8,
      bitwidths = { 8, 16 } }))
    local path = fresh()
    assert(deepseek:export("vllm", path))
    assert.equal("deepseek-ai/DeepSeek-V3", assert(ts.load_launch(path)).engines[1].words[4])
    assert.matches("as published, which are FP8", script(path, "checkpoint.sh"))
    local shape = support.changed(core.from_json(core.read_file(core.data_file("models", "llama-3.1-8b"))).config)
    local file = support.temporary(core.to_json { name = "mine", config = shape })
    os.rename(file, file .. ".json")
    local own, _, text = checkpoint_of({ model = { config = file .. ".json" }, kernel_set = "vllm_fp8" }, 8)
    os.remove(file .. ".json")
    assert.is_string(own)
    assert.matches("%-%-quantization fp8", text)
  end)

  it("says an FP8 cache only where GPUs have it", function()
    local path = fresh()
    assert(plan_of({ cluster = "1xL4", tensor_parallel = 1, kv_bitwidth = 8 }, { stage("L4", 32, 8) })
      :export("vllm", path))
    assert.equal("fp8", assert(ts.load_launch(path)).engines[1].options["--kv-cache-dtype"])
    declines("unsupported", "needs compute capability 8.9; A100-80G has 8",
      plan_of({ cluster = "1xA100-80G", tensor_parallel = 1, kv_bitwidth = 8 }, { stage("A100-80G", 32, 8) })
        :export("vllm", fresh()))
  end)

  it("declines what vLLM cannot run", function()
    declines("unsupported", "tensor parallelism 2 and 1", plan_of(
      { cluster = "(4xA100-80G)", tensor_parallel = { 1, 2 } },
      { stage("2xA100-80G", 20, 8), stage("A100-80G", 6, 8), stage("A100-80G", 6, 8) }):export("vllm", fresh()))
    declines("unsupported", "no kernel for 3-bit", plan_of({ cluster = "1xL4", tensor_parallel = 1,
      bitwidths = { 3, 4 }, kernel_set = "tessera" }, { stage("L4", 32, 3) }):export("vllm", fresh()))
    declines("unsupported", "leaves node a100-80g and comes back", plan_of({ tensor_parallel = 1 },
      { stage("A100-80G@a100-80g", 8, 8), stage("A100-80G@a100-80g-2", 8, 8), stage("A100-80G@a100-80g", 8, 8),
        stage("A100-80G@a100-80g-2", 8, 8) }):export("vllm", fresh()))
    local mixed = {}
    for i = 1, 32 do mixed[i] = i < 9 and 8 or 4 end
    declines("unsupported", "second quantisation scheme", plan_of({ cluster = "1xL4", tensor_parallel = 1,
      kernel_set = "vllm_fp8" }, { { device = "L4", bitwidths = mixed } }):export("vllm", fresh()))
    declines("unsupported", "abstract instance", assert(ts.plan(ts.problem { instance = support.tiny_instance() }))
      :export("vllm", fresh()))
    support.remove_files()
  end)

  it("does not touch what it did not write", function()
    local plan, path = two_nodes(), fresh()
    assert(plan:export("vllm", path))
    raises("invalid_argument", "is an earlier export", function() plan:export("vllm", path) end)
    assert(plan:export("vllm", path, { overwrite = true }))
    core.write_file(path .. "/notes.txt", "mine\n")
    raises("invalid_argument", "holds notes.txt, which no export wrote",
      function() plan:export("vllm", path, { overwrite = true }) end)
    assert.equal("mine\n", script(path, "notes.txt"))
    local own = fresh()
    host.make_folder(own)
    assert(plan:export("vllm", own), "an empty folder is as good as none")
    local foreign = fresh()
    host.make_folder(foreign)
    core.write_file(foreign .. "/a", "b")
    raises("invalid_argument", "holds files that no export wrote (a)", function() plan:export("vllm", foreign) end)
    raises("invalid_argument", "there is a file at", function() plan:export("vllm", foreign .. "/a") end)
    raises("io", "there is no folder", function() plan:export("vllm", fresh() .. "/deeper") end)
    core.write_file(own .. "/launch.json", "5")
    raises("invalid_argument", "is none that an export wrote",
      function() plan:export("vllm", own, { overwrite = true }) end)
  end)

  it("takes no name of a node for an address, nor of a model for a flag", function()
    local name = "127.0.0.1:1;}server{listen 9001;root /;}upstream y{server 127.0.0.1"
    local plan = plan_of({ cluster = { { "L4", 1, node = name }, { "L4", 1, node = "b" }, link_gbps = 100 },
      tensor_parallel = 1 }, { stage("L4@" .. name, 16, 4), stage("L4@b", 16, 4) })
    raises("invalid_argument", "has no name of a host", function() plan:export("vllm", fresh()) end)
    assert(plan:export("json", fresh()))
    local shape = support.changed(core.from_json(core.read_file(core.data_file("models", "llama-3.1-8b"))).config)
    local file = support.temporary(core.to_json(shape))
    for _, bad in ipairs { "-rf", "x\ny" } do
      local own = plan_of({ model = { name = bad, config = file }, cluster = "1xL4", tensor_parallel = 1 },
        { stage("L4", 32, 4) })
      raises("invalid_argument", "cannot be that of a server", function() own:export("vllm", fresh()) end)
    end
    support.remove_files()
  end)

  it("takes limits of servers and refuses what are none", function()
    local plan, path = two_nodes(), fresh()
    assert(plan:export("vllm", path, { engine = { max_num_seqs = 96, max_model_len = 4096 } }))
    local options = assert(ts.load_launch(path)).engines[1].options
    assert.equal("96", options["--max-num-seqs"])
    assert.equal("4096", options["--max-model-len"])
    local function with(engine) return function() plan:export("vllm", fresh(), { engine = engine }) end end
    raises("out_of_range", "-5 is outside [1, 1e+06]", with { max_num_seqs = -5 })
    raises("out_of_range", "1.5 is outside", with { max_num_seqs = 1.5 })
    raises("out_of_range", "x is outside", with { max_num_seqs = "x" })
    raises("out_of_range", "nan is outside", with { gpu_memory_utilization = support.nan })
    raises("invalid_argument", "'1' is none of", with { 5 })
    raises("invalid_argument", "'max_num_seq' is none of", with { max_num_seq = 5 })
  end)

  it("refuses what it does not know", function()
    local plan = two_nodes()
    raises("invalid_argument", "'vlm' is none of", function() plan:export("vlm", fresh()) end)
    raises("invalid_argument", "name a folder", function() plan:export("vllm") end)
    raises("invalid_argument", "unknown option 'verson'", function() plan:export("vllm", fresh(), { verson = 1 }) end)
    raises("invalid_argument", "is older than 0.8.5",
      function() plan:export("vllm", fresh(), { version = "0.6.0" }) end)
    raises("invalid_argument", "only vllm", function() plan:export("json", fresh(), { version = "0.24.0" }) end)
  end)

  -- Runs a script of an export with stand-ins for programs: each prints its words, a line each.
  local function run_with_stubs(path, name, ...)
    local bin = folders.parent() .. "/bin"
    if not core.file_kind(bin) then
      host.make_folder(bin)
      for _, program in ipairs { "vllm", "ray", "nginx", "hf", "tessera", "curl" } do
        core.write_file(bin .. "/" .. program, "#!/usr/bin/env bash\necho " .. program
          .. "\nprintf '%s\\n' \"$@\"\nenv | grep '^CUDA_\\|^VLLM_' | sort\n[ " .. program .. " != curl ]\n")
      end
      assert.equal(0, (host.run_program({ "bash", "-c", "chmod +x " .. shell.quote(bin) .. "/*" }, "")))
    end
    return host.run_program({ "env", "PATH=" .. bin .. ":" .. os.getenv "PATH", path .. "/" .. name, ... }, "")
  end

  it("starts the server with just these words, whatever the model is called", function()
    local strange = [[it's "a" $(model) `x` \ *]]
    local path = fresh()
    local plan = two_nodes()
    assert(plan:export("vllm", path, { checkpoint = strange }))
    local status, out, err = run_with_stubs(path, "engine-0-node-0.sh")
    assert.equal(1, status, out)
    assert.matches("to listen at 0.0.0.0 takes a key", err)
    core.write_file(path .. "/api_key", "secret\n")
    status, out, err = run_with_stubs(path, "engine-0-node-0.sh")
    assert.equal(0, status, err)
    assert.matches("\nVLLM_API_KEY=secret\n", out)
    assert.not_matches("secret", script(path))
    local words = assert(ts.load_launch(path)).engines[1].words
    local lines = {}
    for line in out:gmatch "[^\n]+" do lines[#lines + 1] = line end
    assert.equal("vllm", lines[1])
    assert.equal("serve", lines[2])
    assert.equal(strange, lines[3])
    for i = 4, #words do
      assert.equal(({ ["$HOST_0"] = "a100-80g", ["$LISTEN"] = "0.0.0.0" })[words[i]] or words[i], lines[i - 1])
    end
    assert.matches("\nCUDA_VISIBLE_DEVICES=0,1\n", out)
    assert.matches("\nVLLM_PP_LAYER_PARTITION=20,12\n", out)
    status, out, err = run_with_stubs(path, "checkpoint.sh")
    assert.equal(0, status, err)
    assert.not_matches("hf", out, nil, "weights of a strange name are where the user says")
  end)

  it("waits for a limited time, and routes by share", function()
    local plan = assert(ts.plan(problem { cluster = "(4xA100-80G)" }, { replicas = 2 }))
    local path = fresh()
    assert(plan:export("vllm", path))
    local status, _, err = run_with_stubs(path, "wait.sh", "0")
    assert.equal(1, status)
    assert.matches("not ready after 0 s: http://127.0.0.1:8000/health", err)
    local out
    status, out, err = run_with_stubs(path, "router.sh")
    assert.equal(0, status, err)
    assert.matches("nginx\n%-p\n%S+/\n%-c\nrouter.nginx.conf\n", out)
    local configuration = script(path, "router.nginx.conf")
    assert.matches("server 127.0.0.1:8000 weight=4;", configuration)
    assert(plan:export("vllm", path, { overwrite = true }), "what a script makes later is no foreign file")
  end)

  it("writes flags that vLLM's own parser takes", function()
    local path, python = fresh(), host.installation.scripts_dir .. "/../tests/reference/vllm_flags.py"
    assert(two_nodes():export("vllm", path))
    local words = assert(ts.load_launch(path)).engines[1].words
    local arguments = {}
    for i = 4, #words do arguments[i - 3] = words[i]:find "^%$" and "10.0.0.1" or words[i] end
    local status, out, err = host.run_program({ "python3", python }, core.to_json { arguments })
    if status == 3 then return pending("Python has no vLLM: " .. out) end
    assert.equal(0, status, err)
    assert.same({}, core.from_json(out).errors)
  end)
end)

describe("any plan that a runtime runs", function()
  local seed = tonumber(os.getenv "TESSERA_TEST_SEED") or 20261123

  -- Nodes of the same or of different GPUs, a degree that divides them all, layers and bitwidths at random.
  local function random_plan()
    local types = { "A100-80G", "L40S", "L4" }
    local degree, cluster, stages = ({ 1, 2, 4 })[math.random(3)], { link_gbps = 100 }, {}
    for node = 1, math.random(1, 3) do
      local device, groups = types[math.random(#types)], math.random(1, 2)
      cluster[node] = { device, groups * degree, node = ("host-%d"):format(node) }
      for _ = 1, groups do
        stages[#stages + 1] = { device = (degree > 1 and degree .. "x" or "") .. device .. "@host-" .. node,
          bitwidths = {} }
      end
    end
    for _ = 1, 32 do
      local bitwidths = stages[math.random(#stages)].bitwidths
      bitwidths[#bitwidths + 1] = ({ 4, 8, 16 })[math.random(3)]
    end
    for k, empty in ipairs(stages) do
      if #empty.bitwidths == 0 then -- every stage holds a layer
        local donor = stages[k % #stages + 1]
        for _, other in ipairs(stages) do if #other.bitwidths > #donor.bitwidths then donor = other end end
        empty.bitwidths[1] = table.remove(donor.bitwidths)
      end
    end
    return ts.plan(problem { cluster = cluster, tensor_parallel = degree }, { planner = "manual", stages = stages,
      prefill_micro_batch_size = math.random(1, 8), decode_micro_batch_size = math.random(1, 8) })
  end

  it("reads back, in bash's eyes too, or is declined with a reason", function()
    math.randomseed(seed)
    local written_count = 0
    for i = 1, 40 do
      local plan = assert(random_plan(), ("TESSERA_TEST_SEED=%d, plan %d"):format(seed, i))
      for _, kind in ipairs { "vllm", "llama.cpp", "json" } do
        local path = fresh()
        local written, why = plan:export(kind, path)
        if written then
          written_count = written_count + 1
          checked_by_bash(path, written.files)
          local back = assert(ts.load_launch(path))
          assert.is_true(back.plan == plan, ("TESSERA_TEST_SEED=%d, plan %d, %s"):format(seed, i, kind))
        else
          assert.equal("unsupported", why.code)
          assert.is_true(kind ~= "json")
        end
      end
    end
    assert.is_true(written_count >= 60)
  end)
end)

describe("ts.load_launch", function()
  it("finds a script that says something else", function()
    local path = fresh()
    assert(two_nodes():export("vllm", path))
    local text = script(path)
    local function with(from, to)
      core.write_file(path .. "/engine-0-node-0.sh", (text:gsub(from, to)))
      return ts.load_launch(path)
    end
    declines("mismatch", "--tensor-parallel-size is 4, the plan's is 2",
      with("tensor%-parallel%-size 2", "tensor-parallel-size 4"))
    declines("mismatch", "VLLM_PP_LAYER_PARTITION is 16,16, the plan's is 20,12", with("20,12", "16,16"))
    declines("mismatch", "--kv-cache-dtype is fp8", with("dtype auto \\\n  %-%-gpu", "dtype fp8 \\\n  --gpu"))
    declines("mismatch", "--max-model-len is 612, the plan's is 131072", with("len 131072", "len 612"))
    core.write_file(path .. "/engine-0-node-0.sh", text)
    local second = script(path, "engine-0-node-1.sh")
    core.write_file(path .. "/engine-0-node-1.sh", (second:gsub("parallel%-size 2", "parallel-size 4")))
    declines("mismatch", "engine-0-node-1.sh: option --pipeline-parallel-size is 4", ts.load_launch(path))
    core.write_file(path .. "/engine-0-node-1.sh", (second:gsub("DEVICES=0,1", "DEVICES=0")))
    declines("mismatch", "engine-0-node-1.sh: variable CUDA_VISIBLE_DEVICES is 0,", ts.load_launch(path))
    raises("invalid_argument", "no line that starts with 'exec vllm serve'",
      function() with("exec vllm", "vllm") end)
  end)
  it("refuses what is no export", function()
    local path = fresh()
    host.make_folder(path)
    raises("not_found", "launch.json", function() ts.load_launch(path) end)
    core.write_file(path .. "/launch.json", "[1]")
    raises("invalid_argument", "no launch.json that this program wrote", function() ts.load_launch(path) end)
    core.write_file(path .. "/launch.json", '{"format": "tessera-launch", "version": 1, "runtime": "x"}')
    raises("invalid_argument", "its runtime is 'x'", function() ts.load_launch(path) end)
  end)
end)

describe("plan:export llama.cpp", function()
  local function two_gpus(changes)
    return plan_of(support.changed({ cluster = "(1xL4+1xT4-16G)", tensor_parallel = 1 }, changes),
      { stage("T4-16G", 10, 8), stage("L4", 22, 4) })
  end
  -- As llama.cpp places layer i of n, the output layer being n.
  local function device_of(split, i, n)
    local sum, total = 0, 0
    for share in split:gmatch "%d+" do total = total + share end
    local k = 0
    for share in split:gmatch "%d+" do
      sum = sum + share
      if i / (n + 1) < sum / total then return k end
      k = k + 1
    end
  end
  it("puts every layer where the plan has it", function()
    local path = fresh()
    local written = assert(two_gpus():export("llama.cpp", path))
    checked_by_bash(path, written.files)
    local engine = assert(ts.load_launch(path)).engines[1]
    assert.equal("10,23", engine.options["--tensor-split"])
    for i = 0, 32 do assert.equal(i < 10 and 0 or 1, device_of(engine.options["--tensor-split"], i, 32)) end
    assert.equal("1,0", engine.variables.CUDA_VISIBLE_DEVICES)
    assert.equal("33", engine.options["--n-gpu-layers"])
    assert.is_nil(engine.options["--override-tensor"]) -- the embedding stays in the host's memory
    local step = script(path, "checkpoint.sh")
    assert.matches("'blk\\%.%(0|1|2|3|4|5|6|7|8|9%)\\%.=q8_0'", step)
    assert.matches("Q4_K_M", step)
    assert.is_nil(step:find("=q4_k", 1, true)) -- most layers are as the file's type has them
  end)
  it("chooses GPUs by what drives them, and reads that back", function()
    local runtime = require "tessera.launch.llama_cpp"
    local function chosen(backend, capability)
      local function on(gpu) return { backend = backend, compute_capability = capability, gpus = { gpu } } end
      return runtime.gpu_variables { stages = { { backend = "cpu", gpus = { 3 } }, on(0), on(2) } }
    end
    assert.same({ CUDA_DEVICE_ORDER = "PCI_BUS_ID", CUDA_VISIBLE_DEVICES = "0,2" }, chosen(nil, 8.9))
    assert.same({ HIP_VISIBLE_DEVICES = "0,2" }, chosen("rocm", 1))
    assert.same({ ONEAPI_DEVICE_SELECTOR = "level_zero:0,2" }, chosen("sycl", 1))
    assert.same({}, chosen("metal", 1))
  end)
  it("says the cache's type and declines what it cannot run", function()
    local path = fresh()
    assert(two_gpus { kv_bitwidth = 8 }:export("llama.cpp", path))
    assert.equal("q8_0", assert(ts.load_launch(path)).engines[1].options["--cache-type-v"])
    declines("unsupported", "GPUs of one node", two_nodes():export("llama.cpp", fresh()))
    declines("unsupported", "2 stages and tensor parallelism 2", two_nodes():export("llama.cpp", fresh()))
  end)
end)

describe("plan:export json", function()
  it("is the layout, of any plan, and reads back", function()
    local path = fresh()
    assert(two_nodes(8):export("json", path))
    local back = assert(ts.load_launch(path))
    assert.equal(20, back.engines[1].stages[1].num_layers)
    assert.same({ 0, 1 }, back.engines[1].stages[2].gpus)
    core.write_file(path .. "/layout.json", (script(path, "layout.json"):gsub('"num_layers":20', '"num_layers":21')))
    declines("mismatch", "not the layout of the plan", ts.load_launch(path))
  end)
end)
