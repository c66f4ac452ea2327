-- What flexgen and flexgen_int8 share: FlexGen's policy search (Sheng et al., ICML 2023, 4.2-4.3) on a pipeline.
--
-- What the papers do with it (LLM-PQ 6.1): layers split evenly over the devices, one micro-batch size for both phases,
-- the batch over the number of stages; what does not fit goes to the host and to disk. FlexGen's own 4.4 says the same
-- of several GPUs: equal stages, each with the policy of one GPU. The cost model and its equations are in
-- solver/offload/include/tessera/solver/offload/offload.h; the linear programme runs on CLP.
--
-- What FlexGen searches: block size and GPU batch by enumeration, then the nine shares (weights, cache, activations on
-- GPU, CPU, disk) by a linear programme. Here the block is the pipeline's micro-batch (`search_blocks` tries others),
-- the GPU batch is enumerated within it, and one programme settles the shares of all stages, so that unlike devices
-- get policies of their own.
--
-- What FlexGen's published cost_model.py does differently from its paper: T_pre = max(ctog + dtoc, gtoc + ctod, comp)
-- and T_gen = ctog + max(gtoc, dtoc, ctod, comp) where the paper overlaps all five; rates fitted on one cloud VM
-- with a T4 (12.9 GB/s to the GPU, 0.97 back for the cache, 0.47 from disk, two FLOP rates per phase); memories at
-- 80 %; activations never on disk. Here: the paper's maxima; PCIe as on the data sheet in both directions, the node's
-- disk rate, layer times from the kernel set; 80 % of the host's memory (`host_memory_ratio`), and of a device what the
-- problem's memory model leaves. A node without a disk rate has no disk; disks have no capacity in a cluster's
-- description and hold whatever is asked of them. Prompts are not chunked.
--
-- What LLM-PQ's scripts do (examples/exp_scripts/flexgen): that cost_model.py once per type of device, 70 to 80 % of
-- each memory, no disk, the policies passed on by hand. On cluster 3 (OPT-30b) it gave T4s 63 % of the weights and none
-- of the cache, V100s everything. "int8" there is --compress-w, which the cost model prices at a quarter of FP16.

local search = require "tessera.planning.baselines"

local M = {}

M.options = {
  search_blocks = { type = "boolean", default = false,
    doc = "Tries every useful micro-batch size, not only the batch over the stages" },
  host_memory_ratio = { type = "number", default = 0.8, min = 0, max = 1,
    doc = "Share of a node's memory that the plan may use" },
  host_attention_bytes_per_s = { type = "number", default = 12.3e9, min = 1, max = 1e18,
    doc = "KV cache that a node's processors attend to (bytes/s); FlexGen fitted 0.0123 TFLOP/s, a byte each" },
}

-- The smallest GPU batch of each number of them in a block.
local function gpu_batches(block)
  local list, last = {}, nil
  for size = block, 1, -1 do
    local count = math.ceil(block / size)
    if count ~= last then list[#list + 1] = math.ceil(block / count) end
    last = count
  end
  return list
end

local function blocks_of(problem, opt, num_stages)
  local fixed = opt.prefill_micro_batch_size or opt.decode_micro_batch_size
  if fixed then return { fixed } end
  return opt.search_blocks and problem:micro_batch_sizes() or { search.batch_over_stages(problem, num_stages) }
end

local function contains(list, wanted)
  for _, item in ipairs(list) do
    if item == wanted then return true end
  end
  return false
end

local function note_of(best, counts, bitwidth)
  return ("%s, weights stored at %d bits and computed at 16, blocks of %d in GPU batches of %d; priced by "
    .. "FlexGen's cost model, host attention at %.3g GB/s, %g %% of host memory, disks without limit where the cluster "
    .. "has any"):format(
    search.layers_text(counts), bitwidth, best.prefill_micro_batch_size, best.offload.gpu_batch_size,
    best.offload.host_attention_bytes_per_s / 1e9, 100 * best.offload.host_memory_ratio)
end

local function refusal(problem, opt, name, bitwidth, order)
  if not contains(problem.bitwidths, bitwidth) then
    return ("%s stores weights at %d bits, which is not one of the problem's bitwidths (%s)"):format(name, bitwidth,
      table.concat(problem.bitwidths, ", "))
  end
  if opt.prefill_micro_batch_size and opt.decode_micro_batch_size
    and opt.prefill_micro_batch_size ~= opt.decode_micro_batch_size then
    return ("%s has one block size for both phases, not %d in prefill and %d in decode"):format(name,
      opt.prefill_micro_batch_size, opt.decode_micro_batch_size)
  end
  if not problem.model then
    return name .. " needs a model, a cluster and a workload: an instance file says nothing of host memory and disks"
  end
  if #order > problem.num_layers then
    return ("%d stages and only %d layers"):format(#order, problem.num_layers)
  end
end

--- The plan of least latency by FlexGen's cost model, weights stored at `bitwidth`; nil and why where there is none.
function M.plan(problem, opt, name, bitwidth)
  local order = opt.device_order or problem.devices
  local why = refusal(problem, opt, name, bitwidth, order)
  if why then return nil, why end
  local counts = search.even_counts(problem.num_layers, #order)
  local late, best, message = search.clock(opt), {}, nil
  for _, block in ipairs(blocks_of(problem, opt, #order)) do
    for _, gpu_batch_size in ipairs(gpu_batches(block)) do
      if late() then break end
      local candidate = {
        stages = search.stages(order, counts, bitwidth),
        prefill_micro_batch_size = block, decode_micro_batch_size = block,
        offload = {
          gpu_batch_size = gpu_batch_size, host_memory_ratio = opt.host_memory_ratio,
          host_attention_bytes_per_s = opt.host_attention_bytes_per_s,
        },
      }
      local shares, latency_s = problem:offload(candidate)
      if not shares then
        message = latency_s.message
      elseif not best.latency_s or latency_s < best.latency_s then
        for k, share in ipairs(shares) do candidate.stages[k].offload = share end
        best.latency_s, best.candidate = latency_s, candidate
      end
    end
  end
  local candidate, reason = search.answer(best, late, message and ("%s does not fit: %s"):format(name, message))
  if not candidate then return nil, reason end
  return search.add_note(candidate, note_of(candidate, counts, bitwidth))
end

return M
