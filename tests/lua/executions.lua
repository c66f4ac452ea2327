-- What the specs of plans that run share: plans of the small model, what one process writes, and its workers.
local assert = require "luassert"
local host = require "tessera.host"
local ts = require "tessera"

local M = {}

local path = host.installation.datasets_dir .. "/language_models/grammar-opt-5m"

local function runs_here()
  local ok, why = pcall(ts.language_model, { path = path, threads = 1, progress = false })
  if not ok then return why end
  local found = io.open(host.program:gsub("/bin/tessera$", "/lib/tessera/tessera_run.so"), "rb")
  if not found then return { code = "unsupported", message = "there is no module of the runtime" } end
  found:close()
end

local missing = runs_here()
if missing and missing.code ~= "unsupported" then error(missing, 0) end

--- Why nothing runs here; nil where it does.
M.missing = missing

--- busted's `it` for what runs plans, which says why where this build runs none.
function M.it_runs(it, pending)
  -- @param lacks string|nil what else is not here
  return function(what, fn, lacks)
    if missing or lacks then
      pending(what .. ": " .. (missing and missing.message or lacks))
    else
      it(what, fn)
    end
  end
end

M.no_torch = host.version.libtorch == "none" and "this build has no LibTorch" or nil

--- @param stages list of { layers, bits, ratio of KV heads elsewhere or nil }
function M.plan_of(stages, opt)
  opt = opt or {}
  local degree = opt.degree or 1
  local device = degree > 1 and degree .. "xT4-16G" or "T4-16G"
  local list, devices = {}, 0
  for i, stage in ipairs(stages) do
    local bitwidths = {}
    for k = 1, stage[1] do bitwidths[k] = stage[2] end
    list[i] = { device = device, bitwidths = bitwidths,
      attention = stage[3] and { device = device, ratio = stage[3] } }
    devices = devices + degree + (stage[3] and 1 or 0)
  end
  local problem = ts.problem { model = opt.model or path, cluster = devices .. "xT4-16G",
    tensor_parallel = degree, bitwidths = opt.bitwidths or { 4, 8, 16 }, kv_bitwidth = opt.kv_bitwidth,
    workload = { prompt_tokens = opt.prompt_tokens or 60, output_tokens = 40, batch_size = opt.batch_size or 8,
      chunk_tokens = opt.chunk_tokens } }
  return assert(ts.plan(problem, { planner = "manual", stages = list, prefill_micro_batch_size = opt.prefill or 2,
    decode_micro_batch_size = opt.decode or 2 }))
end

M.path = path

M.texts = {
  "the cat", "a dog sees", "the birds", "she", "one day the", "they", "my", "these kings of the city like", "a",
  "Today, Anna has a small boat and the birds of the city follow these kings who like the boats",
}

function M.options(opt)
  local all = { model = path, prompts = M.texts, max_tokens = 16, device = "cpu", progress = false, temperature = 0 }
  for key, value in pairs(opt or {}) do all[key] = value end
  return all
end

--- What one process writes.
function M.alone(plan, opt)
  local lm = ts.language_model { path = opt.model, plan = plan, kv_bitwidth = opt.kv_bitwidth, threads = 1,
    group_size = opt.group_size, progress = false }
  local wanted = {}
  for i, text in ipairs(opt.prompts) do
    wanted[i] = lm:generate(text, { max_tokens = opt.max_tokens, temperature = opt.temperature, top_k = opt.top_k,
      top_p = opt.top_p, repetition_penalty = opt.repetition_penalty, ignore_stop_tokens = opt.ignore_stop_tokens,
      seed = (opt.seed or 0) + i - 1 })
  end
  return wanted
end

--- A run has written what one process does.
function M.is_same(plan, opt, run)
  assert.equal("done", run.state, run.why)
  assert.is_false(run.partial)
  for i, generation in ipairs(M.alone(plan, opt)) do
    assert.same(generation.tokens, run.tokens[i], ("prompt %d"):format(i))
    assert.equal(generation.text, run.texts[i])
    assert.equal(generation.stop_reason, run.stop_reasons[i])
    assert.equal(generation.prompt_tokens, run.prompt_tokens[i])
  end
end

--- Process ids of workers of this program, of one rank or all.
function M.workers(rank)
  local pipe = io.popen(("pgrep -P $PPID -f -- '[s]tage --rank %s '"):format(rank or ".*"))
  local pids = {}
  for line in pipe:lines() do pids[#pids + 1] = line end
  pipe:close()
  return pids
end

--- Sends a signal to the worker of a rank.
function M.signal(name, rank)
  local pids = M.workers(rank)
  assert.equal(1, #pids)
  os.execute(("kill -%s %s"):format(name, pids[1]))
end

return M
