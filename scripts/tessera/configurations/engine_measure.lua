-- The runs of a fingerprint for real: the engine loads a few layers of the model and answers one prompt on this
-- machine. Of tensor-parallel ranks one runs by itself, with the copies and sums of the others: that is "emulated".

local core = require "tessera.core"
local measure = require "tessera.measure"
local options = require "tessera.options"
local schemes = require "tessera.configurations.schemes"
local with_weights = require "tessera.devices.with_weights"

local path = "ts.fingerprint"

local read = options.reader(path .. ".engine", {
  { name = "dtype", type = "choice", default = "bf16", choices = { "bf16", "f16", "f32" }, doc = "Of 16 bits" },
  { name = "device", type = "string", default = "cpu", doc = "As ts.language_model has it" },
  { name = "threads", type = "integer", default = 0, min = 0, max = 1024, doc = "0: as many as there are processors" },
  { name = "counted", type = "choice", default = "wall", choices = { "wall", "processor" },
    doc = "wall: the time that passes; processor: the time that runs take of one, on a machine that others use too" },
})

-- How the engine keeps the weights of a scheme. What gptq4 and int4 make of them takes the same time whichever method
-- chose the codes, so that none of them calibrates.
local function form_of(name)
  local card = schemes.find(name, path .. ".configurations")
  if card.pruning then
    core.raise("unsupported", ("%s.configurations: '%s' is another checkpoint; write it by ts.prune_model and take "
      .. "the fingerprint of that at fp16"):format(path, name), path .. ".configurations")
  end
  local form = { bitwidths = card.bitwidth, kv_bitwidth = card.kv_bitwidth, granularity = "channel" }
  if name:find "^gptq4" then form.granularity, form.group_size = "group", 128 end
  return form
end

-- Heads or groups of codes that the ranks do not share evenly are an answer; all else is an error.
local function refused(run, why)
  local of_ranks = type(why) == "table" and (why.code == "invalid_argument" or why.code == "out_of_range")
  if of_ranks and run.tensor_parallel > 1 then return { refused = why.message } end
  error(why, 0)
end

--- use(measure) with what measures a run, { memory_bytes, latency_s, gpu_s, weight_bytes, kv_cache_bytes,
--- scratch_bytes, provenance } or { refused = why }, of a model whose weights are there meanwhile.
--- @param most_layers of any run
return function(opt, configurations, most_layers, use)
  if opt.model == nil then core.refuse(path .. ".model", "the engine runs a model; name a folder, file or shape") end
  if (opt.batch_size or 1) > 1 then
    core.refuse(path .. ".batch_size", "the engine answers one prompt; take measure = \"profile\", or a function")
  end
  local engine = read(opt.engine or {}, path .. ".engine")
  if engine.counted == "processor" and engine.threads ~= 1 then
    core.refuse(path .. ".engine.counted", "the time that several threads run is no latency; take threads = 1 with it")
  end
  local forms = {}
  for _, c in ipairs(configurations) do
    if c.device_types then
      core.refuse(path .. ".configurations", "of several types of GPUs the engine runs on none but this machine's; "
        .. "take measure = \"profile\", or a function")
    end
    forms[c.scheme] = forms[c.scheme] or form_of(c.scheme)
  end
  return with_weights(opt.model, most_layers, function(folder)
    return use(function(run)
      local loaded = { path = folder, dtype = engine.dtype, device = engine.device, threads = engine.threads }
      for key, value in pairs(forms[run.scheme]) do loaded[key] = value end
      local started = core.clock()
      local ok, found = pcall(measure.deployment, loaded, { num_layers = run.num_layers,
        tensor_parallel = run.tensor_parallel, pipeline_parallel = run.pipeline_parallel,
        prompt_tokens = run.prompt_tokens, output_tokens = run.output_tokens, counted = engine.counted,
        cache_tokens = run.prompt_tokens + math.max(opt.output_tokens[1], opt.output_tokens[2]) - 1 })
      if not ok then return refused(run, found) end
      found.gpu_s = (core.clock() - started) * run.tensor_parallel * run.pipeline_parallel
      found.provenance = found.emulated and "emulated" or "measured"
      return found
    end)
  end)
end
