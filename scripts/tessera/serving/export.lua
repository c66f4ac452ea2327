-- What starts a deployment of ts.plan_serving's list: every kind of its engines by the exporter of plans, on the GPUs
-- that it has in the whole cluster.

local common = require "tessera.launch.common"
local core = require "tessera.core"
local layouts = require "tessera.launch.layout"
local obstacles = require "tessera.launch.obstacles"
local parts_of = require "tessera.serving.parts"
local vllm = require "tessera.launch.vllm"
local write_folder = require "tessera.launch.write"

-- What nobody uses: "2 of 4 L4 on node a", in the order of the cluster.
local function left_out(cluster, places, used)
  local order, groups = {}, {}
  for i, device in ipairs(cluster.devices) do
    local key = device.name .. " on node " .. places[i].node
    if not groups[key] then
      order[#order + 1], groups[key] = key, { all = 0, left = 0 }
    end
    groups[key].all = groups[key].all + 1
    if not used[i - 1] then groups[key].left = groups[key].left + 1 end
  end
  local list = {}
  for _, key in ipairs(order) do
    local group = groups[key]
    if group.left > 0 then list[#list + 1] = ("%d of %d %s"):format(group.left, group.all, key) end
  end
  return list
end

-- Options of ts.engine that vLLM has flags for.
local flagged = {
  "block_size", "enable_prefix_caching", "enable_chunked_prefill", "async_scheduling", "long_prefill_token_threshold",
  "policy",
}

-- Limits of the engines of a part and what was settled, as vLLM's flags say them.
local function limits_of(part, engine)
  local told = {
    max_num_seqs = part.engine.max_num_seqs, max_num_batched_tokens = part.engine.max_num_batched_tokens,
    gpu_memory_utilization = engine.gpu_memory_utilization,
  }
  for _, name in ipairs(flagged) do told[name] = engine[name] end
  return told
end

-- Parts of a row as layouts.join wants them, and the devices that are used.
local function joined(asked, row, devices, places)
  local list, used = {}, {}
  for i, one in ipairs(parts_of.list(asked, row, devices)) do
    list[i] = { plan = one.plan, role = one.role, share = one.share, class_shares = one.part.class_shares, places = {},
      limits = limits_of(one.part, asked.engine) }
    for k, index in ipairs(one.devices) do
      list[i].places[k], used[index] = places[index + 1], true
    end
  end
  return list, used
end

-- What of the search the runtime does not honour.
local function notes_of(asked, row)
  local notes = {}
  local engine = asked.engine
  if engine.scheduler and engine.scheduler ~= "vllm_v1" then
    notes[#notes + 1] = ("scheduler: simulated with %s; vLLM has its own."):format(engine.scheduler)
  end
  if engine.speculative then
    notes[#notes + 1] = "speculative: simulated with drafts; name the model that drafts by --speculative-config."
  end
  local launched = common.launched_router(asked.router)
  if row.engines > 1 and asked.router ~= launched then
    notes[#notes + 1] = ("router: simulated with %s; router.sh chooses the engine with the fewest connections."):format(
      asked.router or "a function")
  end
  return notes
end

-- Lengths of the stream that the list was asked for; empty where a trace or a distribution says them.
local function stream_of(given)
  local traffic = type(given.traffic) == "table" and given.traffic or given
  local prompt, output = traffic.prompt_tokens, traffic.output_tokens
  if type(prompt) ~= "number" or type(output) ~= "number" then return {} end
  return { prompt_tokens = prompt, output_tokens = output }
end

--- Writes the folder of a deployment. `asked`: model, cluster, engine, router, kernel_set, and request_classes where
--- parts have class_shares; `row`: parts, engines; `devices`: of each part, into the cluster's; `opt`: version,
--- checkpoint, unlike_engines, overwrite; `what` it is, with what was `given` for it.
local function write(asked, row, devices, kind, folder, opt, what)
  if kind ~= "vllm" and kind ~= "json" then
    core.refuse(what.path .. ".kind", ("'%s' is neither vllm nor json"):format(tostring(kind)))
  end
  if type(folder) ~= "string" or folder == "" then core.refuse(what.path .. ".folder", "name a folder") end
  local notes = notes_of(asked, row)
  if kind == "vllm" then
    opt.version, notes[#notes + 1] = vllm.version(opt.version or asked.engine.runtime_version)
  elseif opt.version then
    core.refuse(what.path .. ".version", "only vllm has flags by version")
  end
  local nodes, places = asked.cluster.nodes, {}
  for i, place in ipairs(asked.cluster:places()) do
    places[i] = { node = nodes[place.node_index + 1].name, gpu = place.gpu }
  end
  local list, used = joined(asked, row, devices, places)
  local layout, why = layouts.join(list, asked.cluster.name, common.launched_router(asked.router),
    asked.request_classes)
  if not layout then return nil, why end
  local found = obstacles.of(layout, kind, opt.version)
  if found[1] then
    return nil, core.why("unsupported", ("%s cannot run %s: %s. %s { runtime = \"%s\" } has only what it can"):format(
      kind, what.name, table.concat(found, "; "), what.made_by, kind))
  end
  local manifest = { cluster = asked.cluster.name, router = layout.router, parts = {},
    request_classes = layout.request_classes, stream = stream_of(what.given) }
  for i, part in ipairs(list) do
    manifest.parts[i] = { file = layout.plans[i].name, role = part.role, share = part.share,
      class_shares = part.class_shares, limits = part.limits, places = part.places }
  end
  opt.notes = notes
  opt.left_out = what.whole_cluster and left_out(asked.cluster, places, used) or {}
  local written
  written, why = write_folder(layout, kind, folder, opt, manifest)
  if not written then return nil, why end
  written.left_out = opt.left_out
  return written
end

--- Writes the folder of a list's row. `opt`: rank, version, checkpoint, unlike_engines, overwrite.
local function of_list(plans, kind, folder, opt)
  local row = plans[opt.rank]
  local written, why = write(parts_of.asked(plans), row, plans.found:devices(opt.rank), kind, folder, opt,
    { path = "plans:export", name = ("rank %d"):format(opt.rank), made_by = "ts.plan_serving", whole_cluster = true,
      given = plans.options })
  if not written then return nil, why end
  written.layout, written.rank = row.layout, opt.rank
  return written
end

return { of_list = of_list, write = write }
