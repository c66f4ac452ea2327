-- Deployments of several models, and requests for them, for specs.
local assert = require "luassert"
local core = require "tessera.core"
local ts = require "tessera"

local M = {}

--- Within a share of the expected value.
function M.near(expected, found, tolerance, what)
  assert.is_true(math.abs(found - expected) <= tolerance * math.max(math.abs(expected), 1e-12),
    ("%s: %g, expected %g"):format(what or "value", found, expected))
end

--- A trace of rows { at_s, model, output_tokens, prompt_tokens }.
function M.of_rows(rows)
  local lines = { "arrival_s,model,prompt_tokens,output_tokens" }
  for i, row in ipairs(rows) do
    lines[i + 1] = ("%.12f,%s,%d,%d"):format(row[1], row[2], row[4] or 8, row[3] or 1)
  end
  local file = os.tmpname()
  core.write_file(file, table.concat(lines, "\n") .. "\n")
  local traffic = ts.traffic { trace = file }
  os.remove(file)
  return traffic
end

function M.with(options, changes)
  for key, value in pairs(changes or {}) do options[key] = value end
  return options
end

--- Models on eight GPUs, one request at a time each.
function M.deployment(models, changes)
  return ts.deployment(M.with({ cluster = "8xA6000", engine = { max_num_seqs = 1 }, models = models }, changes))
end

--- A fingerprint of a model whose layers take so much and so long.
function M.fingerprint(num_layers, options)
  return ts.fingerprint { num_layers = num_layers, repeats = 1,
    configurations = ts.configurations(M.with({ num_gpus = 8, schemes = { "fp16" } }, options)),
    measure = function(run)
      local times, layers = {}, run.num_layers
      for i, n in ipairs(run.output_tokens) do
        times[i] = 0.1 + 0.02 * layers + n * (0.002 + 0.001 * layers / run.tensor_parallel ^ 0.8)
      end
      local tp, pp = run.tensor_parallel, run.pipeline_parallel
      return { memory_bytes = 1e9 + 4e8 * layers + (tp - 1) * 2e8 + (pp > 1 and pp * 1e8 or 0), latency_s = times }
    end }
end

return M
