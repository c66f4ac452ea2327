-- The verbs around a deployment as the shell starts them.

local core = require "tessera.core"
local host = require "tessera.host"
local shell = require "tessera.launch.shell"
local support = require "support"

local function run(...) return host.run_program({ host.program, ... }, "") end

-- Of a call that fails: its status and what it says.
local function fails(...)
  local status, _, err = run(...)
  return status, err
end

local folder
setup(function()
  folder = os.tmpname()
  os.remove(folder)
  host.make_folder(folder)
end)
teardown(function()
  os.execute("rm -rf " .. shell.quote(folder))
  support.remove_files()
end)

describe("tessera plan --launch", function()
  it("plans for the runtime and writes the folder", function()
    local out = folder .. "/a b'c"
    local status, text, err = run("plan", "--model", "opt-1.3b", "--cluster", "2xL4", "--kernel-set", "vllm",
      "--batch-size", "32", "--launch", "vllm", "--out", out, "--no-beside")
    assert.equal(0, status, err)
    assert.matches("runtime vllm", text)
    assert.matches("engine%-0%-node%-0.sh", text)
    status = host.run_program({ "bash", "-n", out .. "/engine-0-node-0.sh" }, "")
    assert.equal(0, status)
    status, err = fails("plan", "--model", "opt-1.3b", "--cluster", "2xL4", "--launch", "vllm", "--out", out,
      "--batch-size", "32", "--no-beside")
    assert.equal(1, status)
    assert.matches("earlier export", err)
  end)
  it("asks for what belongs together", function()
    local status, err = fails("plan", "--model", "opt-1.3b", "--cluster", "2xL4", "--launch", "vllm")
    assert.equal(2, status)
    assert.matches("name it with %-%-out", err)
    status, err = fails("plan", "--model", "opt-1.3b", "--cluster", "2xL4", "--out", "x")
    assert.equal(2, status)
    assert.matches("belongs to %-%-launch", err)
  end)
  it("takes Hugging Face ids of models that ship", function()
    local status, text, err = run("plan", "--model", "meta-llama/Llama-3.3-70B-Instruct", "--cluster", "8xH200-141G",
      "--batch-size", "32", "--no-beside", "--json")
    assert.equal(0, status, err)
    assert.equal("optimal", core.from_json(text).status)
    status, err = fails("plan", "--model", "meta-llama/Llama-9-70B", "--cluster", "8xH200-141G")
    assert.equal(1, status)
    assert.matches("unknown model .* did you mean .*llama%-3%-70b", err)
    assert.equal("llama-3.1-8b", require "tessera".problem { model = "meta-llama/Llama-3.1-8B-Instruct",
      cluster = "1xL4" }.model.name)
    support.raises("not_found", "'x.gguf': no such file or folder", function() require "tessera".model "x.gguf" end)
    support.raises("not_found", "no_such.json", function() require "tessera".model "./no_such.json" end)
  end)
end)

describe("tessera help", function()
  it("takes a topic of two words, and names what it does not know", function()
    local status, text = run("help", "tessera", "bench")
    assert.equal(0, status)
    assert.matches("^tessera bench", text)
    local _, _, err = run("help", "A", "B")
    assert.matches("no help on 'A B'", err)
  end)
end)

describe("tessera plan on GPUs of other vendors", function()
  it("says which of them vLLM's launch files leave out", function()
    local function said(cluster)
      local status, text, err = run("plan", "--model", "llama-3.1-8b", "--cluster", cluster)
      assert.equal(0, status, err)
      return (text:gsub("%s+", " "))
    end
    assert.is_nil(said("1xMI300X"):find "do not cover")
    assert.matches("do not cover MI100: .*launch llama.cpp", said "1xMI100")
  end)
end)

describe("tessera support", function()
  it("says what fits and runs, and how sure that is", function()
    local status, text, err = run("support", "llama-3.1-8b", "A100-80G")
    assert.equal(0, status, err)
    assert.matches("16 bit: fits, [%d.]+ GiB of 79.0 GiB; kernel set", text)
    assert.matches("held%-out error", text)
    status, text = run("support", "llama-3.3-70b", "L4", "16", "--json")
    assert.equal(0, status)
    local row = core.from_json(text).rows[1]
    assert.is_false(row.runs)
    assert.is_true(row.devices >= 8)
    assert.is_string(row.why_not)
  end)
  it("says what the model is, and how its own weights are stored", function()
    local status, text = run("support", "gpt-oss-120b", "MI300X", "4")
    assert.equal(0, status)
    assert.matches("116.8 B parameters, 5.712 B of them for a token; 72.0 KiB of KV cache a token", text, 1, true)
    assert.matches("stored as MXFP4 %(4 bits%)", text:gsub("%s+", " "))
    local _, plain = run("support", "llama-3.1-8b", "L4", "4")
    assert.is_nil(plain:find "stored as")
    local _, json = run("support", "gpt-oss-120b", "MI300X", "4", "--json")
    local facts = core.from_json(json).facts
    assert.same({ 4, "MXFP4", 73728 }, { facts.stored_bits, facts.stored_as, facts.kv_bytes_per_token })
  end)
  it("takes several devices, at a bitwidth that comes last", function()
    local status, text = run("support", "llama-3.1-8b", "L4", "A10", "T4-16G", "4")
    assert.equal(0, status)
    local found = {}
    for device, bits in text:gmatch "llama%-3.1%-8b on ([%w-]+), [^\n]*\n +(%d+) bit: fits" do
      found[#found + 1] = device .. " " .. bits
    end
    assert.same({ "L4 4", "A10 4", "T4-16G 4" }, found)
    status, text = run("support", "llama-3.1-8b", "L4", "A10", "--json")
    assert.equal(0, status)
    local list = core.from_json(text)
    assert.same({ "L4", 4, 4 }, { list[1].device, #list[1].rows, #list[2].rows })
  end)
  it("prices more than one device as they are launched, sharing every layer", function()
    local _, text = run("support", "llama-3.3-70b", "A100-80G", "16", "--json")
    local row = core.from_json(text).rows[1]
    assert.equal(2, row.devices)
    assert.is_true(row.decode_tok_s > 18, row.decode_tok_s) -- a pipeline gives 11
  end)
  it("lists the devices that have a model", function()
    local status, text = run("support", "qwen2.5-72b")
    assert.equal(0, status)
    assert.matches("\nH200%-141G +8 4 +1 +8 +%d+  vllm", text)
    assert.matches("\nT4%-16G +%- +4 +4 ", text)
    for line in text:gmatch "[^\n]+" do assert.is_true(#line <= 80 or line:find "^On no" ~= nil, line) end
  end)
  it("says why not", function()
    local status, text = run("support", "llama-3.1-8b", "P100-12G", "8", "--kernel-set", "vllm")
    assert.equal(3, status)
    assert.matches("needs compute capability 7", text)
    local err
    status, err = fails("support")
    assert.equal(2, status)
    assert.matches("name a model, and devices", err)
    status, err = fails("support", "llama-3.1-8b", "L4", "four")
    assert.equal(2, status)
    assert.matches("'four' is neither a device .* nor a bitwidth", err)
    status, err = fails("support", "llama-3.1-8b", "L5")
    assert.equal(1, status)
    assert.matches("unknown device", err)
  end)
end)

describe("tessera detect", function()
  it("reads files of hosts, and joins what it wrote", function()
    local header = "index, name, memory.total [MiB], pcie.link.gen.max, pcie.link.width.max\n"
    local a, b = folder .. "/a.txt", folder .. "/b.txt"
    core.write_file(a, header .. "0, NVIDIA L4, 23034 MiB, 4, 16\n")
    core.write_file(b, header .. "0, NVIDIA H200, 143771 MiB, 5, 16\n")
    local status, err = fails("detect", a, "--out", folder .. "/a.json")
    assert.equal(0, status, err)
    status, err = fails("detect", folder .. "/a.json", b, "--out", folder .. "/all.json")
    assert.equal(0, status, err)
    local text
    status, text, err = run("plan", "--model", "opt-1.3b", "--cluster", folder .. "/all.json", "--no-beside", "--json",
      "--use-all-devices", "--replicas", "1")
    assert.equal(0, status, err)
    assert.equal(2, #core.from_json(text).stages)
    status, err = fails("detect", folder .. "/nothing.txt")
    assert.equal(1, status)
    assert.matches("nothing.txt", err)
    for said, nodes in pairs {
      ["nodes%[1%]: an integer where an object belongs"] = '{"name": "a", "devices": [["L4", 1]]}, 5',
      ["devices%[0%]: the field 'name' is missing"] = '{"name": "a", "devices": [{"a": 1}]}',
      ["nodes%[0%]: the field 'name' is missing"] = '{"devices": [["L4", 1]]}',
    } do
      core.write_file(folder .. "/bad.json", '{"name": "c", "nodes": [' .. nodes .. "]}")
      status, err = fails("detect", folder .. "/bad.json")
      assert.equal(1, status)
      assert.matches(said, err)
    end
  end)
  it("says what to run on a host", function()
    local status, text = run("detect", "--commands")
    assert.equal(0, status)
    assert.matches("nvidia%-smi topo %-m", text)
  end)
end)

describe("tessera compare", function()
  it("shows a table and a verdict", function()
    local plan = folder .. "/plan.json"
    local status, err = fails("plan", "--model", "opt-1.3b", "--cluster", "1xL4", "--batch-size", "32", "--no-beside",
      "--save", plan)
    assert.equal(0, status, err)
    local bench = support.temporary(core.to_json { avg_latency = 9.5, latencies = { 9, 10 }, percentiles = {} })
    local text
    status, text, err = run("compare", plan, bench)
    assert.equal(0, status, err)
    assert.matches("one run says nothing of its own error", text)
    assert.matches("no other plan of the same groups of devices is better", text)
    status, err = fails("compare", plan)
    assert.equal(2, status)
    assert.matches("name a plan and what was measured", err)
  end)
end)

describe("tessera quantise", function()
  it("writes a copy", function()
    local model = host.installation.datasets_dir .. "/language_models/grammar-opt-5m"
    local status, err = fails("quantise", model, "--bitwidths", "8", "--group-size", "64", "--out", folder .. "/copy")
    assert.equal(0, status, err)
    assert.equal("file", core.file_kind(folder .. "/copy/config.json"))
    status, err = fails("quantise", model, "--out", folder .. "/copy2")
    assert.equal(2, status)
    assert.matches("either %-%-bitwidths or %-%-plan", err)
  end)
end)
