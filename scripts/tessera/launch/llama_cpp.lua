-- `llama-server` for each engine of a plan: layers on GPUs by --tensor-split, types of layers by `llama-quantize`.
--
-- --tensor-split A,B gives GPU k the layers whose number lies between the sums before and after its share, where the
-- output layer counts as one more behind the last (llama.cpp, load_tensors). So shares that are whole numbers of layers
-- are met exactly.

local checkpoint = require "tessera.launch.checkpoint"
local common = require "tessera.launch.common"
local layouts = require "tessera.launch.layout"
local schemes = require "tessera.launch.schemes"
local shell = require "tessera.launch.shell"

local M = { name = "llama.cpp", command = "exec llama-server" }

local types = { [3] = "q3_k", [4] = "q4_k", [8] = "q8_0", [16] = "f16" }
local cache_types = { [4] = "q4_0", [8] = "q8_0", [16] = "f16" }
local bits_per_weight = { q3_k = 3.4375, q4_k = 4.5, q8_0 = 8.5, f16 = 16 }

-- "10,12,11": the last GPU has the output layer too.
local function split_of(engine)
  local counts = {}
  for i, stage in ipairs(engine.stages) do
    counts[i] = stage.num_layers + (i == #engine.stages and 1 or 0)
  end
  return table.concat(counts, ",")
end

-- { "blk\.(0|1)\.=q4_k", ... }, the most common type left out, and that type.
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
    patterns[#patterns + 1] = ("blk\\.(%s)\\.=%s"):format(table.concat(layers[bitwidth], "|"), types[bitwidth])
  end
  return patterns, types[most]
end

local function weights_of(layout, engine, given)
  if given then return { kind = "given", id = given, note = "as given; its types have to be the plan's" } end
  return {
    kind = "gguf", base = checkpoint.base_id(layout.model), key = table.concat(engine.bitwidths, ","),
    note = "llama-quantize makes them from the published weights, layer by layer as the plan says",
  }
end

local function options_of(layout, engine, index, weights)
  local workload, n = layout.workload, engine.batch_size
  local longest = math.min(workload.max_prompt_tokens + workload.max_output_tokens, layout.model.max_context_tokens)
  local cache = cache_types[engine.kv_bitwidth]
  local options = {
    { "--model", weights.id }, { "--alias", layout.model.name },
    { "--n-gpu-layers", layout.model.num_layers + 1 }, { "--split-mode", "layer" },
    { "--tensor-split", split_of(engine) }, { "--main-gpu", 0 },
    { "--override-tensor", "token_embd\\.weight=CUDA0" },
    { "--cache-type-k", cache }, { "--cache-type-v", cache },
    { "--parallel", n }, { "--ctx-size", n * longest },
    { "--batch-size", math.max(engine.prefill_micro_batch_size * workload.max_prompt_tokens, n) },
    { "--host", "0.0.0.0" }, { "--port", common.port(index) },
  }
  if cache ~= "f16" then options[#options + 1] = { "--flash-attn", "on" } end -- quantised values need it
  return options
end

local function limits_of(engine)
  local texts = {}
  local counts = schemes.bitwidths(engine)
  for _, bitwidth in ipairs { 3, 4, 8 } do
    if counts[bitwidth] then
      local name = types[bitwidth]
      texts[#texts + 1] = ("%s takes %g bits a weight"):format(name:upper(), bits_per_weight[name])
    end
  end
  local limits = {
    "micro-batches: llama.cpp forms its own batches, and with --split-mode layer one GPU works at a time in decode; "
      .. "the plan counts on stages that work side by side. Expect less than it says with more than one GPU.",
    "times: the plan's kernel set is not llama.cpp's; its seconds are no prediction of this server.",
  }
  if #texts > 0 then
    limits[#limits + 1] = ("memory: %s, scales included; the plan counted its kernel set's"):format(
      table.concat(texts, ", ")) .. "."
  end
  if engine.kv_bitwidth ~= 16 then
    limits[#limits + 1] = "flash attention: `--flash-attn on` is how builds from September 2025 on say it; before "
      .. "them it has no value."
  end
  return limits
end

--- Options of the engine that its commands are read back by.
function M.expected(_, engine)
  local cache = cache_types[engine.kv_bitwidth]
  return {
    ["--tensor-split"] = split_of(engine), ["--cache-type-k"] = cache, ["--cache-type-v"] = cache,
    ["--parallel"] = tostring(engine.batch_size),
  }, {}
end

--- What to write for one engine: { files =, limits =, weights =, spans = }.
function M.engine(layout, index, opt)
  local engine = layout.engines[index]
  local spans = layouts.spans(engine)
  local weights = weights_of(layout, engine, opt.checkpoint)
  weights.id = weights.id or common.checkpoint_folder(layout, weights) .. ".gguf"
  local lines = common.script_head(("Engine %d on node %s: %s."):format(index - 1, layout.nodes[spans[1].node].name,
    common.stages_text(spans[1].stages)), false)
  lines[#lines + 1] = "export CUDA_DEVICE_ORDER=PCI_BUS_ID # as nvidia-smi counts"
  lines[#lines + 1] = "export CUDA_VISIBLE_DEVICES=" .. table.concat(spans[1].gpus, ",")
  lines[#lines + 1] = shell.command({ "exec", "llama-server" }, options_of(layout, engine, index, weights))
  return {
    files = { { name = common.script_name(index, 0), text = table.concat(lines, "\n") .. "\n", executable = true } },
    limits = limits_of(engine), weights = weights, spans = spans,
  }
end

--- The step that makes the weights.
function M.checkpoint_script(layout, parts)
  local lines = common.script_head("The weights of every engine, by llama.cpp's own tools.", false)
  local done = {}
  for i, part in ipairs(parts) do
    local weights = part.weights
    if weights.kind == "gguf" and not done[weights.id] then
      done[weights.id] = true
      local options = { { "--token-embedding-type", "f16" }, { "--output-tensor-type", "f16" } }
      local patterns, most = layer_types(layout.engines[i])
      for _, pattern in ipairs(patterns) do options[#options + 1] = { "--tensor-type", pattern } end
      options[#options + 1] = { "base.gguf", weights.id, most }
      lines[#lines + 1] = common.base_step(layout, weights)
      lines[#lines + 1] = '[ -f base.gguf ] || python3 "${LLAMA_CPP:?the folder of llama.cpp}/convert_hf_to_gguf.py" '
        .. "base --outfile base.gguf --outtype f16"
      lines[#lines + 1] = ("[ -f %s ] || %s"):format(weights.id, shell.command({ "llama-quantize" }, options))
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

return M
