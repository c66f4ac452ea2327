-- `vllm serve` for each engine of a plan: flags, environment, a script for each node.

local checkpoint = require "tessera.launch.checkpoint"
local common = require "tessera.launch.common"
local core = require "tessera.core"
local expert_kernels = require "tessera.launch.expert_kernels"
local hub = require "tessera.launch.hub"
local layouts = require "tessera.launch.layout"
local server_limits = require "tessera.launch.limits"
local obstacles = require "tessera.launch.obstacles"
local schemes = require "tessera.launch.schemes"
local versions = require "tessera.launch.vllm_versions"

local M = { name = "vLLM", command = "exec vllm serve", key_variable = "VLLM_API_KEY" }

local first_ray_port, first_master_port, first_side_port = 6379, 29501, 5600

--- Layers of each stage: "16,16".
local function partition_of(engine)
  local counts = {}
  for i, stage in ipairs(engine.stages) do counts[i] = stage.num_layers end
  return table.concat(counts, ",")
end

local function dtype_of(engine)
  for _, stage in ipairs(engine.stages) do
    if common.backend(stage) == "cuda" and stage.compute_capability < 8 then return "half" end -- no BF16 before
  end
  return "auto"
end

-- Engines that hand keys and values to each other have one type of numbers.
local function shared_dtype(layout, engine)
  for _, other in ipairs(engine.role and layout.engines or { engine }) do
    if dtype_of(other) ~= "auto" then return dtype_of(other) end
  end
  return "auto"
end

-- How keys and values get from prefill to decode engines, in both pools.
local connector_roles = { prefill = "kv_producer", decode = "kv_consumer" }
local function transfer_config(engine)
  return ('{"kv_connector":"NixlConnector","kv_role":"%s"}'):format(connector_roles[engine.role])
end

-- What the engine was told otherwise than vLLM has it.
local function settled_options(serving)
  local options = {}
  local function add(is_other, ...)
    if is_other then options[#options + 1] = { ... } end
  end
  add(serving.block_size and serving.block_size ~= 16, "--block-size", serving.block_size)
  add(serving.enable_prefix_caching == false, "--no-enable-prefix-caching")
  add(serving.async_scheduling == false, "--no-async-scheduling")
  add(serving.async_scheduling, "--async-scheduling")
  add((serving.long_prefill_token_threshold or 0) > 0, "--long-prefill-token-threshold",
    serving.long_prefill_token_threshold)
  add(serving.policy == "priority", "--scheduling-policy", "priority")
  return options
end

-- Sizes of a group as vLLM counts them: each part with requests of its own has limits of its own, too.
local function sizes_of(engine)
  local parts = engine.split.attention_data_parallel
  local function of_part(number) return math.ceil(number / parts) end
  return {
    tensor_parallel = engine.stages[1].degree / parts, data_parallel = parts,
    max_num_seqs = engine.limits and of_part(engine.limits.max_num_seqs),
    max_num_batched_tokens = engine.limits and of_part(engine.limits.max_num_batched_tokens),
  }
end

-- What all nodes of an engine are told.
local function shared_options(layout, engine, weights, version)
  local serving, sizes = engine.serving or {}, sizes_of(engine)
  local options = {
    { "--served-model-name", hub.served_name(layout.model) },
    { "--tensor-parallel-size", sizes.tensor_parallel },
    { "--pipeline-parallel-size", #engine.stages },
    { "--dtype", shared_dtype(layout, engine) },
    { "--kv-cache-dtype", engine.kv_bitwidth == 8 and "fp8" or "auto" },
    { "--gpu-memory-utilization", ("%.2f"):format(engine.limits.gpu_memory_utilization) },
    { "--max-model-len", engine.limits.max_model_len },
    { "--max-num-seqs", sizes.max_num_seqs },
    { "--max-num-batched-tokens", sizes.max_num_batched_tokens },
    { serving.enable_chunked_prefill == false and "--no-enable-chunked-prefill" or "--enable-chunked-prefill" },
  }
  for _, option in ipairs(settled_options(serving)) do options[#options + 1] = option end
  if sizes.data_parallel > 1 then table.insert(options, 3, { "--data-parallel-size", sizes.data_parallel }) end
  if engine.split.expert_parallel > 1 then table.insert(options, 3, { "--enable-expert-parallel" }) end
  if weights.quantization then table.insert(options, 2, { "--quantization", weights.quantization }) end
  if engine.role then options[#options + 1] = { "--kv-transfer-config", transfer_config(engine) } end
  options[#options + 1] = (expert_kernels.choice(layout, engine, version))
  return options
end

-- How ranks on several nodes find each other: options of node `rank` (0-based).
local function joining_options(engine_index, spans, rank, with_ray)
  if #spans == 1 then return { { "--distributed-executor-backend", "mp" } } end
  if with_ray then return { { "--distributed-executor-backend", "ray" } } end
  local options = {
    { "--distributed-executor-backend", "mp" }, { "--nnodes", #spans }, { "--node-rank", rank },
    { "--master-addr", common.host(spans[1].node) },
    { "--master-port", first_master_port + engine_index - 1 },
  }
  if rank > 0 then options[#options + 1] = { "--headless" } end
  return options
end

local function environment(layout, index, engine, span, version)
  local variables = common.gpu_choice(common.backend(engine.stages[1]), span.gpus)
  if #engine.stages > 1 then variables[#variables + 1] = { "VLLM_PP_LAYER_PARTITION", partition_of(engine) } end
  if engine.role then
    variables[#variables + 1] = { "VLLM_NIXL_SIDE_CHANNEL_HOST", common.host(span.node) }
    variables[#variables + 1] = { "VLLM_NIXL_SIDE_CHANNEL_PORT", first_side_port + index - 1 }
  end
  variables[#variables + 1] = select(2, expert_kernels.choice(layout, engine, version))
  return variables
end

-- Waits until Ray has all GPUs; the head's script goes on then.
local function ray_head(port, num_gpus, gpus_here)
  return {
    ("ray start --head --port=%d --num-gpus=%d"):format(port, gpus_here),
    "ready=no",
    "for _ in $(seq 180); do",
    ("  if python3 -c 'import ray, sys; ray.init(address=\"auto\", log_to_driver=False); sys.exit("
      .. "ray.cluster_resources().get(\"GPU\", 0) < %d)' 2>/dev/null; then ready=yes; break; fi"):format(num_gpus),
    "  sleep 5",
    "done",
    ("if [ \"$ready\" = no ]; then echo 'Ray has fewer than %d GPUs after 15 minutes' >&2; exit 1; fi"):format(
      num_gpus),
  }
end

-- What node `rank` (0-based) of an engine runs, as common.node_script and the platforms write it.
local function node_of(layout, index, spans, rank, o)
  local engine, span, weights, with_ray = layout.engines[index], spans[rank + 1], o.weights, o.with_ray
  local node = {
    comment = ("Engine %d%s on node %s: %s."):format(index - 1, engine.role and (" (%s)"):format(engine.role) or "",
      layout.nodes[span.node].name, common.stages_text(span.stages)),
    rank = rank, span = span, variables = environment(layout, index, engine, span, o.version), serves = rank == 0,
    port = common.port(index),
  }
  if with_ray and rank > 0 then
    node.start = { "ray", "start", common.host(spans[1].node, "--address=", ":" .. first_ray_port + index - 1),
      ("--num-gpus=%d"):format(#span.gpus), "--block" }
    return node
  end
  if with_ray then
    node.before = ray_head(first_ray_port + index - 1, #engine.stages * engine.stages[1].degree, #span.gpus)
  end
  node.start, node.options = { "vllm", "serve", weights.id }, shared_options(layout, engine, weights, o.version)
  for _, option in ipairs(joining_options(index, spans, rank, with_ray)) do node.options[#node.options + 1] = option end
  if rank == 0 then
    node.options[#node.options + 1] = { "--host", common.listen_address }
    node.options[#node.options + 1] = { "--port", node.port }
  end
  return node
end

-- Of a plan for a batch: what vLLM does otherwise.
local function batch_limits(layout, engine)
  local limits = {
    ("micro-batches: the plan sends %d requests through prefill and %d through decode at a time; vLLM's scheduler "
      .. "forms its own batches, of at most %d requests and %d tokens%s."):format(engine.prefill_micro_batch_size,
      engine.decode_micro_batch_size, engine.limits.max_num_seqs, engine.limits.max_num_batched_tokens,
      #engine.stages > 1 and "; stages idle where all requests are in one batch" or ""),
    "requests: the plan serves a batch that starts and ends together; vLLM takes and returns requests one by one.",
  }
  if not layout.workload.chunk_tokens then
    limits[#limits + 1] = "prefill: the plan runs whole prompts in a pass; vLLM cuts the last prompt of a pass where "
      .. "the token budget ends."
  end
  return limits
end

-- On AMD's GPUs: what is known of vLLM there, and what is not.
local function rocm_notes(engine)
  if common.backend(engine.stages[1]) ~= "rocm" then return {} end
  local notes = {
    ("ROCm: no step of vLLM was measured on %s for kernel set %s, whose ratios are assumed; hold its server against "
      .. "the plan by `tessera compare`. Wheels and images of its own: docs.vllm.ai, Installation, AMD ROCm."):format(
      engine.stages[1].device, engine.kernel_set.name),
  }
  local counts = schemes.bitwidths(engine)
  if counts[4] then
    notes[2] = "ROCm: vLLM's list of what it runs there has AWQ and GPTQ in 4 bits, by Triton's kernels, and the table "
      .. "of its documentation leaves both out: try the checkpoint before you count on it."
  end
  return notes
end

-- What a person has to know about one engine.
local function limits_of(layout, engine, version, with_ray)
  local limits = engine.serving and {} or batch_limits(layout, engine)
  if engine.kernel_set.runtime ~= "vllm" then
    limits[#limits + 1] = ("times: priced with kernel set %s, whose kernels are not vLLM's (--kernel-set vllm has "
      .. "those)."):format(engine.kernel_set.name)
  end
  if engine.stages[1].device:find("+", 1, true) then
    limits[#limits + 1] = ("groups: %s hold equal shards, so that the slowest sets the pace and the smallest how much "
      .. "fits; vLLM warns that they are unlike."):format(engine.stages[1].device)
  end
  for _, stage in ipairs(engine.stages) do
    if common.backend(stage) == "cuda" and stage.compute_capability < 7.5 and versions.is_without_volta(version) then
      limits[#limits + 1] = ("version: wheels of vLLM since 0.20 have no code for compute capability 7.0 (CUDA 13), so "
        .. "that none of them starts on %s. Install 0.19 with PyTorch 2.10 for CUDA 12.8 on every node, or build vLLM "
        .. "for it; --runtime-version 0.19 writes the flags and the memory of that version."):format(stage.device)
      break
    end
  end
  for _, note in ipairs(rocm_notes(engine)) do limits[#limits + 1] = note end
  if engine.split.attention_data_parallel > 1 then
    limits[#limits + 1] = ("parts: %d engines behind one address share the experts; --max-num-seqs and "
      .. "--max-num-batched-tokens are those of each, and all wait for the one with the longest step."):format(
      engine.split.attention_data_parallel)
  end
  if engine.serving and engine.serving.prefill_wait_steps then
    limits[#limits + 1] = ("waits: prompts were held back for up to %d steps, as TensorRT-LLM does it; vLLM reads them "
      .. "at once, so that first tokens come earlier and steps with prompts more often."):format(
      engine.serving.prefill_wait_steps)
  end
  if #engine.stages > 1 then
    limits[#limits + 1] = "KV cache: all stages get as many blocks as the stage with the least free memory has."
  end
  for _, note in ipairs(server_limits.notes(layout, engine.limits)) do limits[#limits + 1] = note end
  if engine.role then
    limits[#limits + 1] = "pools: `vllm serve` has no router for them; proxy.sh starts vLLM's example, which takes "
      .. "turns among engines and is not for production. Both pools need the library NIXL (`uv pip install nixl`) and "
      .. "the same attention backend, which unlike GPUs may have to be told (--attention-backend)."
  end
  if with_ray then
    limits[#limits + 1] = "node order: Ray's workers are sorted, the head's first, then nodes with fewer GPUs, then "
      .. "by IP address. Nodes with equally many GPUs need addresses that ascend in the order of the stages."
  end
  return limits
end

--- What its scripts export to choose GPUs of a node.
function M.gpu_variables(engine, gpus)
  return common.as_variables(common.gpu_choice(common.backend(engine.stages[1]), gpus))
end

--- Limits of the servers, one for each engine.
function M.limits(layout, version) return server_limits.of(layout, version) end

--- Options of the engine that its commands are read back by, and variables.
function M.expected(_, engine)
  local sizes = sizes_of(engine)
  return {
    ["--tensor-parallel-size"] = tostring(sizes.tensor_parallel),
    ["--data-parallel-size"] = sizes.data_parallel > 1 and tostring(sizes.data_parallel) or nil,
    ["--enable-expert-parallel"] = engine.split.expert_parallel > 1 or nil,
    ["--pipeline-parallel-size"] = tostring(#engine.stages),
    ["--kv-cache-dtype"] = engine.kv_bitwidth == 8 and "fp8" or "auto",
    ["--max-model-len"] = engine.limits and tostring(engine.limits.max_model_len),
    ["--max-num-seqs"] = engine.limits and tostring(sizes.max_num_seqs),
    ["--max-num-batched-tokens"] = engine.limits and tostring(sizes.max_num_batched_tokens),
    ["--kv-transfer-config"] = engine.role and transfer_config(engine) or nil,
  }, { VLLM_PP_LAYER_PARTITION = #engine.stages > 1 and partition_of(engine) or nil }
end

local function refuse_unknown_flags(version, node)
  local words = {}
  for i, option in ipairs(node.options or {}) do words[i] = option[1] end
  local missing = versions.missing(version, words)
  if #missing == 0 then return end
  core.refuse("plan:export.version", ("vLLM %s has no %s, which this plan needs"):format(version,
    table.concat(missing, ", ")))
end

--- What to write for one engine: { nodes =, limits =, weights =, spans =, with_ray = whether Ray joins its nodes }.
function M.engine(layout, index, opt)
  local engine = layout.engines[index]
  local spans = layouts.spans(engine)
  local with_ray = #spans > 1 and not (obstacles.has_even_nodes(engine) and versions.has_multi_node(opt.version))
  local weights = checkpoint.choose(layout, engine, opt.checkpoint)
  weights.id = weights.id or common.checkpoint_folder(layout, weights)
  local nodes = {}
  for rank = 0, #spans - 1 do
    nodes[rank + 1] = node_of(layout, index, spans, rank,
      { weights = weights, with_ray = with_ray, version = opt.version })
    refuse_unknown_flags(opt.version, nodes[rank + 1])
  end
  return { nodes = nodes, limits = limits_of(layout, engine, opt.version, with_ray), weights = weights, spans = spans,
    with_ray = with_ray }
end

--- The version in force, checked.
function M.version(version)
  local chosen = version or versions.default
  local nearest, is_newer = versions.nearest(chosen, "plan:export.version")
  if not is_newer then return chosen, nil end
  return chosen, ("flags: %s is newer than %s, the newest whose flags are known."):format(chosen, nearest)
end

return M
