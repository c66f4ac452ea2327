-- Which flags of `vllm serve` exist in which version, and what its benchmark writes: read from the packages' argument
-- modules (vllm/engine/arg_utils.py, cli_args.py below entrypoints; Apache-2.0) of the versions below. Only flags that
-- launch files use.

local core = require "tessera.core"
local serving = require "tessera.serving"

local M = {}

M.versions = { "0.8.5", "0.10.0", "0.14.0", "0.24.0", "0.33.0" } -- ascending

--- The version that is written for where nobody says another.
M.default = serving.engine({}).runtime_version

-- [flag] = first version of the list that has it.
local flags = {
  ["--served-model-name"] = "0.8.5",
  ["--host"] = "0.8.5", -- spelt out in 0.8.5 only; later the parser makes them from field names
  ["--port"] = "0.8.5",
  ["--quantization"] = "0.8.5",
  ["--dtype"] = "0.8.5",
  ["--tensor-parallel-size"] = "0.8.5",
  ["--data-parallel-size"] = "0.8.5",
  ["--enable-expert-parallel"] = "0.8.5",
  ["--pipeline-parallel-size"] = "0.8.5",
  ["--distributed-executor-backend"] = "0.8.5",
  ["--kv-cache-dtype"] = "0.8.5",
  ["--gpu-memory-utilization"] = "0.8.5",
  ["--max-model-len"] = "0.8.5",
  ["--max-num-seqs"] = "0.8.5",
  ["--max-num-batched-tokens"] = "0.8.5",
  ["--enable-chunked-prefill"] = "0.8.5",
  ["--block-size"] = "0.8.5",
  ["--enable-prefix-caching"] = "0.8.5",
  ["--async-scheduling"] = "0.10.0",
  ["--long-prefill-token-threshold"] = "0.8.5",
  ["--scheduling-policy"] = "0.8.5",
  ["--kv-transfer-config"] = "0.8.5",
  ["--nnodes"] = "0.14.0",
  ["--node-rank"] = "0.14.0",
  ["--master-addr"] = "0.14.0",
  ["--master-port"] = "0.14.0",
  ["--headless"] = "0.10.0",
  ["--moe-backend"] = "0.24.0",
  ["--quantization-config"] = "0.24.0",
}

--- Flags that the table knows, sorted.
function M.known_flags()
  local names = {}
  for name in pairs(flags) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- { 0, 24, 0 } of "0.24.0"; nil where it is none.
local function numbers_of(version)
  local major, minor, patch = version:match "^v?(%d+)%.(%d+)%.?(%d*)$"
  if not major then return nil end
  return { tonumber(major), tonumber(minor), tonumber(patch) or 0 }
end

local function is_before(a, b)
  local x, y = numbers_of(a), numbers_of(b)
  for i = 1, 3 do
    if x[i] ~= y[i] then return x[i] < y[i] end
  end
  return false
end

--- The version of the list that says what `version` has: the newest that is not newer. A second result: whether
--- `version` is newer than all. Raises for what is no version, or older than all.
function M.nearest(version, path)
  if not numbers_of(version) then
    core.refuse(path, ("'%s' is no version of vLLM; write it as %s"):format(version, M.default))
  end
  if is_before(version, M.versions[1]) then
    core.refuse(path, ("vLLM %s is older than %s, the oldest whose flags are known"):format(version, M.versions[1]))
  end
  local found = M.versions[1]
  for _, known in ipairs(M.versions) do
    if not is_before(version, known) then found = known end
  end
  return found, is_before(M.versions[#M.versions], version)
end

--- Whether the version has the flag, or for --no-NAME the flag NAME.
function M.has(version, flag)
  local known = flags[flag] or flags[flag:gsub("^%-%-no%-", "--")]
  if not known then return false end
  return not is_before(M.nearest(version, "version"), known)
end

--- Whether several nodes can be joined without Ray.
function M.has_multi_node(version) return M.has(version, "--nnodes") and M.has(version, "--headless") end

--- Whether pools can hand over keys and values by NixlConnector, which 0.9.0 documents.
function M.has_pools(version) return not is_before(version, "0.9.0") end

--- Whether its wheels have no code for compute capability 7.0: from 0.20 on they are built for CUDA 13, which dropped
--- it, on PyTorch 2.11, whose wheels for CUDA 12.8 have too (vllm#39878).
function M.is_without_volta(version) return not is_before(version, "0.20.0") end

--- Flags of a command (its words) that the version lacks.
function M.missing(version, words)
  local missing = {}
  for _, word in ipairs(words) do
    local flag = type(word) == "string" and word:match "^%-%-[%w%-]+"
    if flag and not M.has(version, flag) then missing[#missing + 1] = flag end
  end
  return missing
end

return M
