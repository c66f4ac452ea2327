-- `llama-server` for each engine of a plan: layers on GPUs by --tensor-split, those before them in the host's memory by
-- --n-gpu-layers, types of layers by `llama-quantize`. The embedding stays in the host's memory, where rows of it are
-- looked up.
--
-- --tensor-split A,B gives GPU k the layers whose number lies between the sums before and after its share, where the
-- output layer counts as one more behind the last (llama.cpp, load_tensors). So shares that are whole numbers of layers
-- are met exactly.

local checkpoint = require "tessera.launch.checkpoint"
local common = require "tessera.launch.common"
local core = require "tessera.core"
local hub = require "tessera.launch.hub"
local layouts = require "tessera.launch.layout"
local server_limits = require "tessera.launch.limits"
local shell = require "tessera.launch.shell"

local M = { name = "llama.cpp", command = "exec llama-server", key_variable = "LLAMA_API_KEY" }

-- Of a file whose layers have one bitwidth, of layers that have another than most, and of the KV cache.
local file_types = { [3] = "Q3_K_M", [4] = "Q4_K_M", [8] = "Q8_0", [16] = "F16" }
local types = { [3] = "q3_k", [4] = "q4_k", [8] = "q8_0", [16] = "f16" }
local cache_types = { [4] = "q4_0", [8] = "q8_0", [16] = "f16" }

-- Stages on GPUs: the first may be the host's memory.
local function gpu_stages(engine)
  local stages = {}
  for _, stage in ipairs(engine.stages) do
    if stage.backend ~= "cpu" then stages[#stages + 1] = stage end
  end
  return stages
end

-- Of the engine's GPUs, which are of one kind in one process; a sheet that names none leaves the choice to llama.cpp,
-- and so does an engine without any.
local function backend_of(engine)
  local stage = gpu_stages(engine)[1]
  return stage and common.backend(stage) or "metal"
end

-- GPUs that share all layers; 1 where each has its own.
local function degree_of(engine)
  local stages = gpu_stages(engine)
  return #stages == 1 and #stages[1].gpus or 1
end

-- Variables that choose the engine's GPUs among those of a node.
local function choice_of(engine)
  local gpus = {}
  for _, stage in ipairs(gpu_stages(engine)) do
    for _, gpu in ipairs(stage.gpus) do gpus[#gpus + 1] = gpu end
  end
  return common.gpu_choice(backend_of(engine), gpus)
end

-- "10,12,11": the last GPU has the output layer too.
local function split_of(engine)
  local counts, stages = {}, gpu_stages(engine)
  for i, stage in ipairs(stages) do counts[i] = stage.num_layers + (i == #stages and 1 or 0) end
  return table.concat(counts, ",")
end

-- Where one GPU lacks room for a mixture of experts: of so many first layers the experts alone stay with the host, and
-- attention with its cache goes to the GPU, in as much memory as the plan's whole layers take there; nil where the plan
-- has no such host, or attention alone has no room. Expert weights are counted as those that a token does not visit.
local function layers_of_host_experts(layout, engine)
  local model, on_gpu = layout.model, gpu_stages(engine)
  local unvisited = (model.num_parameters - model.num_active_parameters) / model.num_layers
  if #on_gpu ~= 1 or #engine.stages ~= 2 or unvisited <= 0 then return nil end
  local memory, count = on_gpu[1].memory, on_gpu[1].num_layers
  local expert_bytes = memory.weight_bytes / count * unvisited / model.layer_parameters
  local rest_bytes = (memory.weight_bytes + memory.kv_cache_bytes) / count - expert_bytes
  local room = count * (expert_bytes + rest_bytes) - model.num_layers * rest_bytes
  if room < 0 then return nil end
  return math.ceil(model.num_layers - room / expert_bytes)
end

-- Layers on GPUs, and the output layer, which llama.cpp counts as one more.
local function gpu_layers(layout, engine)
  if layers_of_host_experts(layout, engine) then return layout.model.num_layers + 1 end
  local stages = gpu_stages(engine)
  local count = #stages > 0 and 1 or 0
  for _, stage in ipairs(stages) do count = count + stage.num_layers end
  return count
end

-- { "blk\.(0|1)\.=q8_0", ... } of layers that have another bitwidth than most, and the file's type, that of most.
local function layer_types(engine)
  local layers, most, order = {}, nil, {}
  for i, bitwidth in ipairs(engine.bitwidths) do
    if not layers[bitwidth] then
      layers[bitwidth] = {}
      order[#order + 1] = bitwidth
    end
    table.insert(layers[bitwidth], i - 1)
    if not most or #layers[bitwidth] > #layers[most] then most = bitwidth end
  end
  local patterns = {}
  for _, bitwidth in ipairs(order) do
    if bitwidth ~= most then
      patterns[#patterns + 1] = ("blk\\.(%s)\\.=%s"):format(table.concat(layers[bitwidth], "|"), types[bitwidth])
    end
  end
  return patterns, file_types[most]
end

local function weights_of(layout, engine, given)
  if given then return checkpoint.given(engine, given) end
  local id = hub.id_of(layout.model)
  if hub.is_gguf(id) then
    return { kind = "given", id = id, note = ("the file that was named, at its own types (%s)"):format(
      layout.model.checkpoint_format or "gguf") }
  end
  local bits = layout.model.checkpoint_bits or id and hub.bits_of_name(id) or 16
  if id and (bits < 16 or id:lower():find "gguf$") then
    core.refuse("plan:export.checkpoint", ("%s is quantised already, and the types of the plan's layers are made from "
      .. "16 bits: name the model that it was made from, or its file by --checkpoint FILE.gguf"):format(id))
  end
  return {
    kind = "gguf", base = id, key = table.concat(engine.bitwidths, ","),
    note = "llama-quantize makes them from the published weights, layer by layer as the plan says",
  }
end

local cache_share = 0.9 -- of what is left, since the rest is no more than known to this precision

-- A plan of another runtime's kernels counts theirs: K types take up to this much more.
local most_over_others = 1.15

local function by_llama_cpp(layout) return layout.plans[1].plan:problem().memory == "llama.cpp" end

local function weight_bytes(layout, stage)
  return stage.memory.weight_bytes * (by_llama_cpp(layout) and 1 or most_over_others)
end

-- Tokens that the caches of all stages hold.
local function cache_tokens(layout, engine)
  local workload = layout.workload
  local request = workload.max_prompt_tokens + workload.max_output_tokens
  local tokens, host_experts = math.huge, layers_of_host_experts(layout, engine)
  for _, stage in ipairs(engine.stages) do
    local memory = stage.memory
    local used = weight_bytes(layout, stage) + memory.embedding_bytes + memory.activation_bytes
    local left = memory.capacity_bytes - memory.reserve_bytes - used
    local token_bytes = memory.kv_cache_bytes / (engine.batch_size * request)
    local held = left * cache_share / token_bytes
    if host_experts and stage.backend ~= "cpu" then -- beside the plan's tokens, of all layers
      local free = math.max(0, left - memory.kv_cache_bytes) * cache_share
      held = request + free / (token_bytes * layout.model.num_layers / stage.num_layers)
    end
    tokens = math.min(tokens, held)
  end
  return tokens
end

--- Limits of the servers, one for each engine: the cache is cut into as many equal parts as requests run at a time.
function M.limits(layout)
  local list = {}
  local model, workload = layout.model, layout.workload
  local request = math.min(hub.context_tokens(model), workload.max_prompt_tokens + workload.max_output_tokens)
  local length = math.max(server_limits.common_tokens(model), request)
  for i, engine in ipairs(layout.engines) do
    local tokens = cache_tokens(layout, engine)
    local parallel = math.max(1, math.min(engine.batch_size, math.floor(tokens / length)))
    local part = math.min(hub.context_tokens(model), math.max(256, math.floor(tokens / parallel / 256) * 256))
    list[i] = { max_num_seqs = parallel, max_model_len = part, ctx_size = parallel * part }
  end
  return list
end

local function options_of(layout, engine, index, weights)
  local cache, limits = cache_types[engine.kv_bitwidth], engine.limits
  local options = {
    { "--model", weights.id }, { "--alias", hub.served_name(layout.model) },
    { "--n-gpu-layers", gpu_layers(layout, engine) },
    { "--cache-type-k", cache }, { "--cache-type-v", cache },
    { "--parallel", limits.max_num_seqs }, { "--ctx-size", limits.ctx_size }, { "--batch-size", 2048 },
    { "--host", common.listen_address }, { "--port", common.port(index) },
  }
  local host_experts = layers_of_host_experts(layout, engine)
  if host_experts then table.insert(options, 4, { "--n-cpu-moe", host_experts }) end
  if #gpu_stages(engine) > 1 then
    table.insert(options, 4, { "--split-mode", "layer" })
    table.insert(options, 5, { "--tensor-split", split_of(engine) })
    table.insert(options, 6, { "--main-gpu", 0 })
  end
  local shares_layers = degree_of(engine) > 1
  if shares_layers then table.insert(options, 4, { "--split-mode", "tensor" }) end
  -- Quantised values need it, and layers that GPUs share.
  if cache ~= "f16" or shares_layers then options[#options + 1] = { "--flash-attn", "on" } end
  return options
end

local function limits_of(layout, engine)
  local limits = {}
  if not by_llama_cpp(layout) then
    limits[1] = "times and memory: the plan's kernels are not llama.cpp's, and its stages work side by side where "
      .. "llama.cpp's take turns; `--runtime llama.cpp` plans for this server."
  end
  if engine.limits.max_model_len < server_limits.common_tokens(layout.model) then
    limits[#limits + 1] = ("requests: each has room for %d tokens, and longer ones are cut or refused; fewer bits or "
      .. "more GPUs make room."):format(engine.limits.max_model_len)
  end
  if degree_of(engine) > 1 then
    limits[#limits + 1] = "tensor parallelism: `--split-mode tensor` is in builds from April 2026 on, experimental "
      .. "there, and not for every kind of model; `--split-mode layer` runs everywhere, slower for one request."
  end
  if engine.kv_bitwidth ~= 16 or degree_of(engine) > 1 then
    limits[#limits + 1] = "flash attention: `--flash-attn on` is how builds from September 2025 on say it; before "
      .. "them it has no value."
  end
  return limits
end

--- What its scripts export to choose GPUs of a node.
function M.gpu_variables(engine)
  return common.as_variables(choice_of(engine))
end

--- Options of the engine that its commands are read back by.
function M.expected(layout, engine)
  local cache = cache_types[engine.kv_bitwidth]
  return {
    ["--tensor-split"] = #gpu_stages(engine) > 1 and split_of(engine) or nil,
    ["--split-mode"] = degree_of(engine) > 1 and "tensor" or #gpu_stages(engine) > 1 and "layer" or nil,
    ["--n-gpu-layers"] = tostring(gpu_layers(layout, engine)), ["--cache-type-k"] = cache, ["--cache-type-v"] = cache,
    ["--parallel"] = engine.limits and tostring(engine.limits.max_num_seqs),
    ["--ctx-size"] = engine.limits and tostring(engine.limits.ctx_size),
  }, {}
end

--- What to write for one engine: { nodes =, limits =, weights =, spans =, backend = that its GPUs are driven by }.
function M.engine(layout, index, opt)
  local engine = layout.engines[index]
  local spans = layouts.spans(engine)
  local weights = weights_of(layout, engine, opt.checkpoint)
  weights.id = weights.id or common.checkpoint_folder(layout, weights) .. ".gguf"
  local node = {
    comment = ("Engine %d on node %s: %s."):format(index - 1, layout.nodes[spans[1].node].name,
      common.stages_text(spans[1].stages)),
    rank = 0, span = spans[1], variables = choice_of(engine), serves = true, port = common.port(index),
    start = { "llama-server" }, options = options_of(layout, engine, index, weights),
  }
  return { nodes = { node }, limits = limits_of(layout, engine), weights = weights, spans = spans,
    backend = #gpu_stages(engine) == 0 and "cpu" or backend_of(engine) }
end

-- Lines that make a file by a command that writes FILE.part: what is there is whole.
local function add_file(lines, file, command)
  for _, line in ipairs { ("if [ ! -f %s ]; then"):format(file), "  " .. command,
    ("  mv %s.part %s"):format(file, file), "fi" } do
    lines[#lines + 1] = line
  end
end

--- The step that makes the weights.
function M.checkpoint_script(layout, parts)
  local lines = common.script_head("The weights of every engine, by llama.cpp's own tools.", false)
  local done = {}
  for i, part in ipairs(parts) do
    local weights = part.weights
    if weights.kind == "gguf" and not done[weights.id] then
      done[weights.id] = true
      local options = {}
      local patterns, most = layer_types(layout.engines[i])
      for _, pattern in ipairs(patterns) do options[#options + 1] = { "--tensor-type", pattern } end
      options[#options + 1] = { "base.gguf", weights.id .. ".part", most }
      for _, line in ipairs(common.base_step(layout, weights)) do lines[#lines + 1] = line end
      add_file(lines, "base.gguf", 'python3 "${LLAMA_CPP:?the folder of llama.cpp}/convert_hf_to_gguf.py" base '
        .. "--outfile base.gguf.part --outtype f16")
      add_file(lines, weights.id, shell.command({ "llama-quantize" }, options))
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

return M
