-- README.md of a launch folder: what to run in which order, and what of the plan the runtime cannot honour.

local common = require "tessera.launch.common"

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

local function steps_of(layout, parts, opt)
  local steps = {}
  local function add(text, ...) steps[#steps + 1] = ("%d. %s"):format(#steps + 1, text:format(...)) end
  if #layout.nodes > 1 or #parts > 1 then
    add("`hosts.sh`: put the addresses of the nodes in, and copy this folder to every node.")
  end
  add("`./%s`: the weights. %s", opt.checkpoint_script, opt.checkpoint_text)
  for i, part in ipairs(parts) do
    for rank, span in ipairs(part.spans) do
      add("on node %s: `./%s` (%s)", plain(layout.nodes[span.node].name), common.script_name(i, rank - 1),
        plain(common.stages_text(span.stages)))
    end
  end
  add("`./wait.sh`, while these run: returns when every engine answers, or fails after half an hour.")
  if #parts > 1 then add("`./router.sh`: one address, port %d, for all engines (needs nginx).", opt.router_port) end
  return steps
end

--- The text. `opt`: runtime (its name), version, checkpoint_script, checkpoint_text, router_port, note.
function M.text(layout, parts, opt)
  local lines = {
    ("# %s on %s, by %s%s"):format(plain(layout.model.name), plain(layout.cluster.name), opt.runtime,
      opt.version and " " .. opt.version or ""),
    "",
    layout.serving and "Made by Tessera from `plan.json`, for a stream of requests."
      or ("Made by Tessera from `plan.json`. The plan expects %.0f output tokens a second, and %.3g s for a batch of "
      .. "%d requests."):format(layout.throughput_tok_s, layout.latency_s, layout.workload.batch_size),
    "",
    "## Steps",
    "",
  }
  for _, step in ipairs(steps_of(layout, parts, opt)) do lines[#lines + 1] = step end
  lines[#lines + 1], lines[#lines + 2] = "", ("## What of the plan %s does not honour"):format(opt.runtime)
  lines[#lines + 1] = ""
  local limits = distinct(parts, "limits")
  for _, limit in ipairs(limits) do lines[#lines + 1] = "- " .. limit end
  if #limits == 0 and not opt.note then lines[#lines + 1] = "- nothing that is known." end
  if opt.note then lines[#lines + 1] = "- " .. opt.note end
  if opt.runtime == "vLLM" then
    lines[#lines + 1] = ""
    lines[#lines + 1] = ("Measure it with `vllm bench serve --save-result`, then `tessera compare plan.json "
      .. "RESULT.json`.")
  end
  return table.concat(lines, "\n") .. "\n"
end

return M
