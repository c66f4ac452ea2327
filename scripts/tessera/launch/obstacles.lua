-- What of a plan a runtime cannot launch, in words; nothing where it can.

local layouts = require "tessera.launch.layout"
local schemes = require "tessera.launch.schemes"
local versions = require "tessera.launch.vllm_versions"

local M = {}

local function say(found, text, ...) found[#found + 1] = text:format(...) end

local function check_bitwidths(found, engine, runtime, allowed)
  for _, bitwidth in ipairs(engine.bitwidths) do
    if not allowed[bitwidth] then
      return say(found, "%s has no kernel for %d-bit weights", runtime, bitwidth)
    end
  end
end

-- GPUs on each node that the pipeline comes to, in its order.
local function counts_of(engine)
  local counts = {}
  for i, span in ipairs(layouts.spans(engine)) do counts[i] = #span.gpus end
  return counts
end

--- Whether all nodes of the pipeline give it equally many GPUs, which the launch without Ray needs.
function M.has_even_nodes(engine)
  local counts = counts_of(engine)
  for _, count in ipairs(counts) do
    if count ~= counts[1] then return false end
  end
  return true
end

-- Ray's workers are sorted: those of the head node first, then nodes with fewer workers before nodes with more (vLLM,
-- sort_by_driver_then_worker_ip).
local function check_order(found, layout, engine, version)
  local seen = {}
  for _, span in ipairs(layouts.spans(engine)) do
    if seen[span.node] then
      say(found, "the pipeline leaves node %s and comes back to it; vLLM's ranks on a node are neighbours",
        layout.nodes[span.node].name)
    end
    seen[span.node] = true
  end
  if M.has_even_nodes(engine) and versions.has_multi_node(version) then return end
  local counts = counts_of(engine)
  for i = 3, #counts do
    if counts[i] < counts[i - 1] then
      return say(found, "behind the first node vLLM puts nodes with fewer GPUs first; this pipeline has %s",
        table.concat(counts, ", "))
    end
  end
end

local function vllm(found, layout, engine, version)
  check_bitwidths(found, engine, "vLLM", { [4] = true, [8] = true, [16] = true })
  local degree = engine.stages[1].degree
  for _, stage in ipairs(engine.stages) do
    if stage.degree ~= degree then
      say(found, "the stages have tensor parallelism %d and %d; vLLM has one degree for all", degree, stage.degree)
      break
    end
  end
  for _, stage in ipairs(engine.stages) do
    if stage.compute_capability < 2 then
      say(found, "launch files are for NVIDIA's GPUs, and %s is none", stage.device)
      break
    end
    if stage.compute_capability < 7 then
      say(found, "%s has compute capability %g; vLLM needs 7.0", stage.device, stage.compute_capability)
      break
    end
    if engine.kv_bitwidth == 8 and stage.compute_capability < 8.9 then
      say(found, "an 8-bit KV cache is FP8 in vLLM, which needs compute capability 8.9; %s has %g", stage.device,
        stage.compute_capability)
      break
    end
  end
  if engine.kv_bitwidth ~= 16 and engine.kv_bitwidth ~= 8 then
    say(found, "vLLM has no KV cache of %d bits", engine.kv_bitwidth)
  end
  local mixed = schemes.why_mixed(engine)
  if mixed then found[#found + 1] = mixed end
  check_order(found, layout, engine, version)
end

local function llama_cpp(found, layout, engine)
  check_bitwidths(found, engine, "llama.cpp", { [3] = true, [4] = true, [8] = true, [16] = true })
  local spans = layouts.spans(engine)
  if #spans > 1 then
    say(found, "a llama.cpp server uses the GPUs of one node; this pipeline goes over %s and %s",
      layout.nodes[spans[1].node].name, layout.nodes[spans[2].node].name)
  end
  for _, stage in ipairs(engine.stages) do
    if stage.degree > 1 then
      say(found, "llama.cpp cuts models into layers, not into tensor-parallel groups of %d", stage.degree)
      break
    end
  end
  if engine.kv_bitwidth ~= 16 and engine.kv_bitwidth ~= 8 and engine.kv_bitwidth ~= 4 then
    say(found, "llama.cpp has no KV cache of %d bits", engine.kv_bitwidth)
  end
end

--- Why vLLM cannot hand keys and values from engine `from` to `to`, each { bitwidth, kv_bitwidth, degree, stages }; nil
--- where it can. Its NixlConnector wants the same checkpoint (`bitwidth` may say more of it) and KV cache on both sides
--- and degrees of which one divides the other (docs/features/nixl_connector_compatibility.md); stages it leaves out.
function M.transfer(from, to)
  if from.kv_bitwidth ~= to.kv_bitwidth then return "pools: unlike KV caches" end
  if from.bitwidth ~= to.bitwidth then return "pools: vLLM wants one checkpoint in both" end
  if from.stages > 1 or to.stages > 1 then return "pools: vLLM documents no pipelines in them" end
  local large, small = math.max(from.degree, to.degree), math.min(from.degree, to.degree)
  if large % small ~= 0 then return ("pools: degrees %d and %d, neither divides the other"):format(small, large) end
end

--- What tells one checkpoint of a model from another.
function M.checkpoint_of(engine)
  local counts = schemes.bitwidths(engine)
  return table.concat(engine.bitwidths, ",") .. (counts[8] and " " .. schemes.of_8_bit(engine) or "")
end

local function pools(found, layout, version)
  local by_role = {}
  for _, engine in ipairs(layout.engines) do
    if engine.role then
      by_role[engine.role] = { kv_bitwidth = engine.kv_bitwidth,
        bitwidth = M.checkpoint_of(engine), degree = engine.stages[1].degree, stages = #engine.stages }
    end
  end
  if not by_role.prefill then return end
  if not versions.has_pools(version) then say(found, "pools: vLLM %s has no NixlConnector", version) end
  found[#found + 1] = M.transfer(by_role.prefill, by_role.decode)
end

local runtimes = { vllm = vllm, ["llama.cpp"] = llama_cpp }

--- Why `runtime` cannot run the plan: a list of sentences without full stops, each once.
function M.of(layout, runtime, version)
  local check, found, seen, distinct = runtimes[runtime], {}, {}, {}
  for _, engine in ipairs(layout.engines) do
    if engine.offloads and check then
      say(found, "the plan keeps a part of the model in host memory or on disk, by FlexGen's schedule")
    end
    if check then check(found, layout, engine, version) end
  end
  if runtime == "vllm" then pools(found, layout, version) end
  for _, text in ipairs(found) do
    if not seen[text] then distinct[#distinct + 1] = text end
    seen[text] = true
  end
  return distinct
end

return M
