-- README.md of a launch folder: what to run in which order, and what of the plan the runtime cannot honour.

local common = require "tessera.launch.common"
local hub = require "tessera.launch.hub"
local limits = require "tessera.launch.limits"

local M = {}

-- Text from outside, where Markdown would read marks into it.
local function plain(text) return (tostring(text):gsub("%c", " "):gsub("([\\`*_<>|#%[%]])", "\\%1")) end

local function distinct(parts, field)
  local seen, list = {}, {}
  for _, part in ipairs(parts) do
    for _, text in ipairs(part[field]) do
      if not seen[text] then list[#list + 1] = text end
      seen[text] = true
    end
  end
  return list
end

-- On another platform than shells: its own steps, after the weights that have to be made.
local function platform_steps(parts, opt)
  local steps = {}
  for _, part in ipairs(parts) do
    if (part.weights.kind == "quantise" or part.weights.kind == "gguf") and not steps[1] then
      steps[1] = ("1. `./%s`: the weights. %s"):format(opt.checkpoint_script, opt.checkpoint_text)
    end
  end
  if not steps[1] then
    steps[1] = ("1. The weights are fetched as servers start. %s"):format(opt.checkpoint_text)
  end
  for _, text in ipairs(opt.platform_steps) do steps[#steps + 1] = ("%d. %s"):format(#steps + 1, text) end
  return steps
end

local function steps_of(layout, parts, opt)
  local steps = {}
  local function add(text, ...) steps[#steps + 1] = ("%d. %s"):format(#steps + 1, text:format(...)) end
  if #layout.nodes > 1 or #parts > 1 then
    add("`hosts.sh`: put the addresses of the nodes in, and copy this folder to every node.")
  end
  add("`./%s`: the weights. %s", opt.checkpoint_script, opt.checkpoint_text)
  local are_unlike = limits.are_unlike(opt.limits)
  for i, part in ipairs(parts) do
    local seats = are_unlike and (", %d requests at a time"):format(opt.limits[i].max_num_seqs) or ""
    for rank, span in ipairs(part.spans) do
      local role = layout.engines[i].role
      add("on node %s: `./%s` (%s%s%s)", plain(layout.nodes[span.node].name), common.script_name(i, rank - 1),
        role and role .. ": " or "", plain(common.stages_text(span.stages)), seats)
    end
  end
  add("`./wait.sh`, while these run: returns when every engine answers, or fails after half an hour.")
  if common.has_pools(layout) then
    add("`./proxy.sh`: one address, port %d, that sends each request to a prefill and then to a decode engine (needs "
      .. "vLLM's repository).", opt.router_port)
  elseif #parts > 1 then
    add("`./router.sh`: one address, port %d, for all engines (needs nginx).", opt.router_port)
  end
  if layout.request_classes then
    local words = {}
    for i, name in ipairs(layout.request_classes) do words[i] = ("`%s`"):format(common.class_word(name)) end
    add("requests say their class in the header `X-Request-Class`: %s; each class goes to the engines that were "
      .. "planned for it, one without the header as the first.", table.concat(words, ", "))
  end
  return steps
end

local function made_by(layout)
  local names = {}
  for i, plan in ipairs(layout.plans) do names[i] = ("`%s`"):format(plan.name) end
  local files = table.concat(names, ", ")
  if layout.serving then return ("Made by Tessera from %s, for a stream of requests."):format(files) end
  return ("Made by Tessera from %s. The plan expects %.0f output tokens a second, and %.3g s for a batch of %d "
    .. "requests."):format(files, layout.throughput_tok_s, layout.latency_s, layout.workload.batch_size)
end

local function add_list(lines, title, items)
  lines[#lines + 1], lines[#lines + 2], lines[#lines + 3] = "", title, ""
  for _, item in ipairs(items) do lines[#lines + 1] = "- " .. item end
end

--- The text. `opt`: runtime (its name), version, checkpoint_script, checkpoint_text, router_port, notes, limits,
--- left_out.
function M.text(layout, parts, opt)
  local lines = {
    ("# %s on %s, by %s%s"):format(plain(layout.model.name), plain(layout.cluster.name), opt.runtime,
      opt.version and " " .. opt.version or ""),
    "",
    made_by(layout),
    ("It takes %s. Clients call the model `%s`."):format(limits.text(opt.limits), plain(hub.served_name(layout.model))),
    "",
    "## Steps",
    "",
  }
  if opt.platform_steps then
    for _, step in ipairs(platform_steps(parts, opt)) do lines[#lines + 1] = step end
    lines[#lines + 1], lines[#lines + 2], lines[#lines + 3] = "", "Or with the scripts, on nodes without it:", ""
  end
  for _, step in ipairs(steps_of(layout, parts, opt)) do lines[#lines + 1] = step end
  local differences = distinct(parts, "limits")
  for _, note in ipairs(opt.notes) do differences[#differences + 1] = note end
  if #differences == 0 then differences[1] = "nothing that is known." end
  add_list(lines, ("## What of the plan %s does not honour"):format(opt.runtime), differences)
  if #opt.left_out > 0 then add_list(lines, "## GPUs that are left out", opt.left_out) end
  if opt.runtime == "vLLM" and #layout.plans == 1 then
    lines[#lines + 1] = ""
    lines[#lines + 1] = ("Measure it with `vllm bench serve --save-result`, then `tessera compare plan.json "
      .. "RESULT.json`.")
  end
  return table.concat(lines, "\n") .. "\n"
end

return M
