-- plans:export and `tessera capacity --launch`: engines of one type, of two beside each other, and pools.

local core = require "tessera.core"
local folders = require "launch_folders"
local host = require "tessera.host"
local support = require "support"
local ts = require "tessera"

local fresh, checked_by_bash = folders.fresh, folders.checked_by_bash
folders.keep(setup, teardown)

local function search(changes)
  return assert(ts.plan_serving(support.changed({
    model = "llama-3.1-8b", cluster = "(2xL4+2xA100-40G)+2xL4", num_requests = 100, disaggregated = false,
    bitwidths = { 8 },
    traffic = { prompt_tokens = 300, output_tokens = 40 }, slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.1 } },
  }, changes)))
end

local function read(path, name) return support.read(path .. "/" .. name) end

local function rank_of(list, is_wanted)
  for rank, row in ipairs(list) do
    if is_wanted(row) then return rank end
  end
end

-- Each engine's device is on the GPU that its script names: { "node:gpu" = engine }.
local function gpus_of(path, num_engines)
  local hosts, places = {}, {}
  for index, name in read(path, "hosts.sh"):gmatch "HOST_(%d+)=([^\n]*)" do hosts[index] = name end
  for i = 0, num_engines - 1 do
    local text = read(path, ("engine-%d-node-0.sh"):format(i))
    local node = text:match "on node ([^:]+):"
    for gpu in text:match("CUDA_VISIBLE_DEVICES=([%d,]+)"):gmatch "%d+" do
      assert.is_nil(places[node .. ":" .. gpu], "two engines on one GPU")
      places[node .. ":" .. gpu] = i
    end
  end
  return places, hosts
end

describe("plans:export", function()
  it("tells the engine what was settled otherwise than vLLM has it, and reads it back", function()
    local engine = { block_size = 32, enable_prefix_caching = false, async_scheduling = false, policy = "priority",
      long_prefill_token_threshold = 512 }
    local list = search { engine = engine }
    local path = fresh()
    assert(list:export("vllm", path))
    local text = read(path, "engine-0-node-0.sh")
    for _, flag in ipairs { "--block-size 32", "--no-enable-prefix-caching", "--no-async-scheduling",
      "--scheduling-policy priority", "--long-prefill-token-threshold 512", "--enable-chunked-prefill" } do
      assert.truthy(text:find(flag, 1, true), flag)
    end
    assert(ts.load_launch(path))
    local plain = fresh()
    assert(search():export("vllm", plain))
    assert.falsy(read(plain, "engine-0-node-0.sh"):find("async", 1, true))
    support.raises("invalid_argument", "vLLM 0.8.5 has no --no-async-scheduling",
      function() list:export("vllm", fresh(), { version = "0.8.5" }) end)
  end)

  it("starts engines of one type on the GPUs that they have in the cluster", function()
    local list = search()
    local rank = assert(rank_of(list, function(row) return #row.parts == 1 and row.parts[1].device == "A100-40G" end))
    local path = fresh()
    local written = assert(list:export("vllm", path, { rank = rank }))
    checked_by_bash(path, written.files)
    local places = gpus_of(path, list[rank].engines)
    assert.truthy(places["node:2"] and places["node:3"]) -- behind the two L4 of that node
    assert.is_nil(places["node:0"])
    assert.same({ "2 of 2 L4 on node node", "2 of 2 L4 on node l4" }, written.left_out)
    assert.matches("## GPUs that are left out\n\n%- 2 of 2 L4 on node node\n%- 2 of 2 L4 on node l4\n",
      read(path, "README.md"))
    assert.equal(list[rank].layout, written.layout)
    local back = assert(ts.load_launch(path))
    assert.equal(1, #back.plans)
    assert.equal(list[rank].engines, #back.engines)
  end)

  it("starts engines of two types beside each other, each with its own flags", function()
    local list = search { kv_bitwidths = { 16, 8 } }
    local rank = assert(rank_of(list, function(row) return #row.parts == 2 end))
    local row, path = list[rank], fresh()
    local written = assert(list:export("vllm", path, { rank = rank }))
    checked_by_bash(path, written.files)
    assert.same({}, written.left_out)
    assert.not_matches("left out", read(path, "README.md"))
    local back = assert(ts.load_launch(path))
    assert.equal(2, #back.plans)
    assert.equal(row.engines, #back.engines)
    local at = 0
    for _, part in ipairs(row.parts) do
      for _ = 1, part.engines do
        at = at + 1
        local options = back.engines[at].options
        assert.equal(tostring(part.tensor_parallel), options["--tensor-parallel-size"])
        assert.equal(part.kv_bitwidth == 8 and "fp8" or "auto", options["--kv-cache-dtype"])
        assert.equal(tostring(part.engine.max_num_seqs), options["--max-num-seqs"])
        assert.equal(tostring(part.engine.max_num_batched_tokens), options["--max-num-batched-tokens"])
        assert.is_nil(options["--kv-transfer-config"])
      end
    end
    local steps = read(path, "README.md")
    local fewest, most = math.huge, 0
    for i, one in ipairs(back.engines) do
      local seats = tonumber(one.options["--max-num-seqs"])
      fewest, most = math.min(fewest, seats), math.max(most, seats)
      if not steps:find "%d at a time on each engine" then
        assert.matches(("engine%%-%d%%-node%%-0.sh` %%([^\n]*, %d requests at a time%%)"):format(i - 1, seats), steps)
      end
    end
    assert.matches((fewest < most and "tokens, %d to %d at a time by engine" or "tokens, %d at a time on each engine")
      :format(fewest, most), steps)
    local places = gpus_of(path, row.engines)
    local used = 0
    for _ in pairs(places) do used = used + 1 end
    assert.equal(row.gpus, used)
    local weights, wanted = {}, {}
    for weight in read(path, "router.sh"):gmatch "server %$HOST_%d:%d+ weight=(%d+);" do
      weights[#weights + 1] = tonumber(weight)
    end
    for _, part in ipairs(row.parts) do
      for _ = 1, part.engines do wanted[#wanted + 1] = part.share end
    end
    assert.same(wanted, weights)
    assert.equal(100, math.max(unpack(weights)))
    assert.is_true(math.min(unpack(weights)) < 100)
  end)

  it("routes as it was simulated, where nginx has a method for that", function()
    local methods = { least_requests = "least_conn;", round_robin = false, random = "random;",
      power_of_two = "random two least_conn;", least_tokens = "least_conn;" }
    for router, method in pairs(methods) do
      local path = fresh()
      assert(search({ router = router, cluster = "2xL4", tensor_parallel = { 1 } }):export("vllm", path))
      local text = read(path, "router.sh")
      for _, other in pairs { "least_conn;", "random;", "random two least_conn;" } do
        assert.equal(other == method, text:find("\n    " .. other, 1, true) ~= nil, router .. " " .. other)
      end
      local is_told = read(path, "README.md"):find("simulated with least_tokens", 1, true) ~= nil
      assert.equal(router == "least_tokens", is_told)
      local _, alike = text:gsub("weight=1;", "")
      assert.equal(2, alike)
      assert(ts.load_launch(path))
    end
  end)

  -- The T4 has no BF16, so none of its group has.
  it("starts a group of unlike GPUs as vLLM has it", function()
    local list = search { model = "qwen2.5-14b", cluster = "(1xT4+1xL4)", slo = { ttft_s = { p99 = 20 } } }
    local rank = assert(rank_of(list, function(row) return row.layout == "1 x T4-16G+L4 TP2" end))
    local path = fresh()
    local written = assert(list:export("vllm", path, { rank = rank }))
    local text = read(path, "engine-0-node-0.sh")
    for _, line in ipairs { "layers 0 to 47 on T4-16G+L4.", "CUDA_VISIBLE_DEVICES=0,1", "--tensor-parallel-size 2",
      "--dtype half" } do
      assert.truthy(text:find(line, 1, true), line)
    end
    assert.matches("T4%-16G%+L4 hold equal shards", read(path, "README.md"))
    checked_by_bash(path, written.files)
    local engine = ts.load_launch(path).engines[1]
    assert.equal("2", engine.options["--tensor-parallel-size"])
  end)

  it("starts engines of unlike bits behind one address only where that is allowed", function()
    local list = search { bitwidths = { 8, 16 }, unlike_engines = true }
    local rank = assert(rank_of(list, function(row)
      return #row.parts == 2 and row.parts[1].bitwidth ~= row.parts[2].bitwidth
    end))
    support.raises("invalid_argument", "one address would lead to unlike engines, engine 0 of",
      function() list:export("vllm", fresh(), { rank = rank }) end)
    local path = fresh()
    assert(list:export("vllm", path, { rank = rank, unlike_engines = true }))
    assert.matches("which one answers a request is chance", read(path, "README.md"))
  end)

  it("starts pools, with a proxy", function()
    local list = search { cluster = "4xL4", disaggregated = true, objective = "gpus",
      traffic = { rate_per_s = 20, prompt_tokens = 300, output_tokens = 100 },
      slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.08 } } }
    local rank = assert(rank_of(list, function(row) return row.disaggregated end))
    local row, path = list[rank], fresh()
    local written = assert(list:export("vllm", path, { rank = rank }))
    checked_by_bash(path, written.files)
    local back = assert(ts.load_launch(path))
    local ports = {}
    for i, engine in ipairs(back.engines) do
      local role = i <= row.parts[1].engines and "kv_producer" or "kv_consumer"
      assert.same({ kv_connector = "NixlConnector", kv_role = role },
        core.from_json(engine.options["--kv-transfer-config"]))
      ports[engine.variables.VLLM_NIXL_SIDE_CHANNEL_PORT] = true
      assert.equal(back.engines[1].words[4], engine.words[4]) -- one checkpoint
    end
    for i = 1, row.engines do assert.is_true(ports[tostring(5599 + i)]) end
    assert.is_nil(core.file_kind(path .. "/router.sh"))
    local proxy = read(path, "proxy.sh")
    local prefill, decode = proxy:match "%-%-prefiller%-ports ([%d ]+) \\\n.*%-%-decoder%-ports ([%d ]+)"
    assert.equal(row.parts[1].engines, select(2, prefill:gsub("%d+", "")))
    assert.equal(row.parts[2].engines, select(2, decode:gsub("%d+", "")))
    assert.matches("proxy.sh", read(path, "README.md"))
    support.declines("unsupported", "vLLM 0.8.5 has no NixlConnector",
      list:export("vllm", fresh(), { rank = rank, version = "0.8.5" }))
  end)

  it("declines what vLLM does not run, and refuses what is not there", function()
    local list = search { cluster = "1xA100-40G", runtime = "tessera", bitwidths = { 3 }, kv_bitwidths = { 16 } }
    support.declines("unsupported", "vLLM has no kernel for 3-bit weights", list:export("vllm", fresh()))
    local path = fresh()
    assert(list:export("json", path))
    assert.equal(1, #assert(ts.load_launch(path)).engines)
    support.raises("invalid_argument", "deployments are listed",
      function() list:export("vllm", path, { rank = 99 }) end)
    support.raises("invalid_argument", "neither vllm nor json", function() list:export("llama.cpp", path) end)
    support.raises("invalid_argument", "name a folder", function() list:export("vllm") end)
    support.raises("invalid_argument", "earlier export", function() list:export("json", path) end)
    support.raises("invalid_argument", "plans:export", function() list.export({}, "vllm", path) end)
  end)

  it("reads back no manifest that it did not write", function()
    local path = fresh()
    assert(search { cluster = "1xL4" }:export("vllm", path))
    local text = read(path, "launch.json")
    for _, change in ipairs { { '"plan.json"', '"../plan.json"' }, { '"mixed"', '"both"' }, { '"gpu":0', '"gpu":"0"' },
      { '"places":%[.-%]', '"places":[]' }, { '"limits":%b{}', '"limits":1' } } do
      local broken, changes = text:gsub(change[1], change[2])
      assert.is_true(changes > 0, change[1])
      core.write_file(path .. "/launch.json", broken)
      support.raises("invalid_argument", "it is not as this program wrote it", function() ts.load_launch(path) end)
    end
  end)
end)

describe("tessera capacity --launch", function()
  local function capacity(...)
    return host.run_program({ host.program, "capacity", "--model", "llama-3.1-8b", "--ttft-p99", "2", "--tpot-p99",
      "0.08", "--prompt-tokens", "300", "--output-tokens", "100", "--num-requests", "100", ... }, "")
  end

  it("writes the first, and says which GPUs are left out", function()
    local path = fresh()
    local status, text, err = capacity("--cluster", "4xL4", "--rate", "20", "--bitwidths", "16,8",
      "--launch", "vllm", "--out", path)
    assert.equal(0, status, err)
    assert.matches("starts prefill", text)
    assert.matches("\nleft out: 1 of 4 L4 on node l4\n", text)
    assert(ts.load_launch(path))
  end)

  it("takes what is settled of the search, its engines and its traffic as flags", function()
    local status, text, err = capacity("--cluster", "1xL4", "--bitwidths", "8", "--kv-bitwidths", "16",
      "--pipeline-parallel", "1", "--max-num-seqs", "64", "--router", "round_robin", "--prefix-groups", "1",
      "--prefix-tokens", "16", "--json")
    assert.equal(0, status, err)
    local options = core.from_json(text).options
    assert.equal(1, #options)
    assert.equal(16, options[1].kv_bitwidth)
    assert.equal(64, options[1].engine.max_num_seqs)
    local refused, _, why = capacity("--cluster", "1xL4", "--max-perplexity-increase", "5")
    assert.equal(1, refused)
    assert.matches("5 %% is 0.05", why)
  end)

  it("names the best that shares engines where pools cannot be started", function()
    local status, _, err = capacity("--cluster", "4xL4", "--rate", "18", "--bitwidths", "16,8", "--launch", "vllm",
      "--out", fresh(), "--runtime-version", "0.8.5")
    assert.equal(1, status, err)
    assert.matches("has no NixlConnector.*rank %d+ .*shares engines: `tessera capacity %-%-no%-disaggregated` "
      .. "launches it", err)
  end)
end)

describe("a launched server", function()
  it("answers to the name that was typed", function()
    local id = "meta-llama/Llama-3.1-8B-Instruct"
    for typed, served in pairs { ["llama3.1:8b"] = "llama3.1:8b", ["https://huggingface.co/" .. id] = id,
      ["llama-3.1-8b"] = "llama-3.1-8b" } do
      local path = fresh()
      assert(ts.plan(ts.problem(support.settled { model = typed, cluster = "1xA100-80G", bitwidths = { 16 },
        kernel_set = "vllm" }))):export("vllm", path)
      assert.equal(served, ts.load_launch(path).engines[1].options["--served-model-name"])
      assert.matches("call the model `" .. served .. "`", read(path, "README.md"), 1, true)
    end
  end)
end)
