-- Topics of `tessera help` that only Lua knows: planners, and the names that can be asked for.

local core = require "tessera.core"

local function planners()
  local lines = { "Planners, for ts.plan(problem, { planner = \"name\" }):" }
  for _, card in ipairs(require("tessera.planners").list()) do
    lines[#lines + 1] = ("  %-10s %s%s"):format(card.name, card.doc,
      card.source ~= "" and (" [" .. card.source .. "]") or "")
    local options = {}
    for name in pairs(card.options) do options[#options + 1] = name end
    table.sort(options)
    for _, name in ipairs(options) do
      local o = card.options[name]
      lines[#lines + 1] = ("  %-10s   %s (default %s): %s"):format("", name, tostring(o.default), o.doc or "")
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

local function names(kind)
  return function() return table.concat(core.names(kind), "\n") .. "\n" end
end

local topics = {
  planners = planners, models = names "models", devices = names "devices", clusters = names "clusters",
  workloads = names "workloads", kernel_sets = names "kernel_sets",
}

local M = {}

--- Text on a topic, or nil.
function M.topic(topic)
  if topics[topic] then return topics[topic]() end
  return core.help(topic)
end

--- Names of the topics that only Lua knows.
function M.topics()
  local list = {}
  for name in pairs(topics) do list[#list + 1] = name end
  table.sort(list)
  return list
end

return M
