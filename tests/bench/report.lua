-- What the benchmark scripts share: the machine's name, medians with their spread, markdown tables.
local M = {}

local function first_match(path, pattern)
  local file = io.open(path)
  if not file then return nil end
  local text = file:read "*a"
  file:close()
  return text:match(pattern)
end

--- One line about the machine: times mean little without it.
function M.machine()
  local cpu = first_match("/proc/cpuinfo", "model name%s*:%s*([^\n]+)") or "unknown CPU"
  local mhz = first_match("/proc/cpuinfo", "cpu MHz%s*:%s*([%d.]+)")
  local _, cores = (first_match("/proc/cpuinfo", "^(.*)$") or ""):gsub("processor%s*:", "")
  local load = first_match("/proc/loadavg", "^(%S+)") or "?"
  return ("CPU: %s%s, %d cores seen, load average %s at the start. Times are wall-clock."):format(
    cpu, mhz and (" at %.0f MHz"):format(mhz) or "", cores, load)
end

function M.seconds(s)
  if s >= 100 then return ("%.0f"):format(s) end
  if s >= 10 then return ("%.1f"):format(s) end
  if s >= 0.0995 then return ("%.2f"):format(s) end
  return ("%.4f"):format(s)
end

function M.median(list)
  local sorted = {}
  for i, value in ipairs(list) do sorted[i] = value end
  table.sort(sorted)
  local middle = math.floor((#sorted + 1) / 2)
  return #sorted % 2 == 1 and sorted[middle] or (sorted[middle] + sorted[middle + 1]) / 2
end

--- "0.12 (0.11-0.15)": the median and the spread of several runs.
function M.spread(list)
  local text = M.seconds(M.median(list))
  if #list == 1 then return text end
  return ("%s (%s-%s)"):format(text, M.seconds(math.min(unpack(list))), M.seconds(math.max(unpack(list))))
end

--- Starts a markdown table; rows follow one by one, so that a long run shows what it has.
function M.header(columns)
  print("| " .. table.concat(columns, " | ") .. " |")
  print("|" .. ("---|"):rep(#columns))
end

function M.row(...)
  print("| " .. table.concat({ ... }, " | ") .. " |")
end

--- Data of a JSON file of ours: objects, arrays, strings without brackets, numbers.
function M.read_json(path)
  local file = io.open(path)
  if not file then return nil end
  local text = file:read("*a"):gsub("%[", "{"):gsub("%]", "}"):gsub('("[^"]*")%s*:', "[%1]=")
  file:close()
  return assert(loadstring("return " .. text, path))()
end

--- The value of "--name VALUE" among the script's arguments; true for a flag that takes none.
function M.argument(name, takes_value)
  local arguments = require("tessera.host").arguments
  for i, argument in ipairs(arguments) do
    if argument == name then return not takes_value or assert(arguments[i + 1], name .. " needs a value") end
  end
end

return M
