-- iServe's settings (Liao et al., arXiv 2501.13111, section 8): eight A6000 of 48 GB joined in pairs by NVLink, else
-- PCIe; one request at a time; TensorRT-LLM of 2024, and PyTorch for Figs. 4 and 5. The lengths of the dummy requests
-- and of the ranking are not in print: 512 tokens in, and 100 out as in Fig. 1.
local claims = require "lib.claims"
local ts = require "tessera"

local M = {
  cluster = "8xA6000@bridges", tensorrt_llm = "modern_2024", pytorch = "transformers_2023", prompt_tokens = 512,
  output_tokens = 100,
}

local known = {} -- by model, kernel set, prompt, stages and cluster

--- Estimates of all configurations, and the fingerprint. options: kernel_set, prompt_tokens, stages, cluster
function M.estimates(model, options)
  options = options or {}
  local kernel_set, prompt = options.kernel_set or M.tensorrt_llm, options.prompt_tokens or M.prompt_tokens
  local cluster = options.cluster or M.cluster
  local key = table.concat({ model, kernel_set, prompt, options.stages or "", cluster }, "|")
  if not known[key] then
    local map = ts.fingerprint { model = model, cluster = cluster, kernel_set = kernel_set, prompt_tokens = prompt,
      stages = options.stages, configurations = ts.configurations { model = model, cluster = cluster } }
    known[key] = { map:estimates { output_tokens = M.output_tokens }, map }
  end
  return unpack(known[key])
end

--- The row of a shape; nil where it cannot run.
function M.find(rows, scheme, tensor_parallel, pipeline_parallel)
  for _, row in ipairs(rows) do
    local found = row.scheme == scheme and row.tensor_parallel == tensor_parallel
      and row.pipeline_parallel == pipeline_parallel
    if found then return not row.refused and row or nil end
  end
end

--- The row with the least of a field among those that can run, and the most.
function M.ends(rows, field, scheme)
  local least, most
  for _, row in ipairs(rows) do
    if not row.refused and (not scheme or row.scheme == scheme) then
      if not least or row[field] < least[field] then least = row end
      if not most or row[field] > most[field] then most = row end
    end
  end
  return least, most
end

--- "int4_kv8 (4, 1)"
function M.name(row) return ("%s (%d, %d)"):format(row.scheme, row.tensor_parallel, row.pipeline_parallel) end

M.within, M.same = claims.within, claims.same

return M
