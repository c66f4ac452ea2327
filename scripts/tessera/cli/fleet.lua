-- `tessera fleet`: nodes, models and kinds of replicas of a file; what runs where, for what money, and how good it is.

local core = require "tessera.core"
local fleets = require "tessera.fleets.fleet"
local host = require "tessera.host"
local new_bar = require "tessera.bar"
local tables = require "tessera.options"
local terminal = require "tessera.terminal"
local ts = require "tessera"

local M = {}

local units = { cost = "USD/h", gpus = "GPUs", rate = "times the demand" }

-- With four digits, never as a power of ten where that can be.
local function digits(value)
  if value ~= 0 and math.abs(value) < 1e4 then return ("%.4g"):format(value) end
  return ("%.0f"):format(value)
end

-- A plain table of right-aligned numbers behind a name.
local function table_text(head, rows)
  local widths = {}
  for _, row in ipairs { head, unpack(rows) } do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, #cell) end
  end
  local lines = {}
  for _, row in ipairs { head, unpack(rows) } do
    local cells = {}
    for i, cell in ipairs(row) do
      cells[i] = (i == 1 and "%-" or "%") .. widths[i] .. "s"
      cells[i] = cells[i]:format(cell)
    end
    lines[#lines + 1] = table.concat(cells, "  ") .. "\n"
  end
  return table.concat(lines)
end

local function head_text(fleet)
  local objective = fleet.instance.objective
  local text = ("%s %s"):format(digits(fleet.objective), units[objective])
  if fleet.bound then
    text = text .. ("; nothing is %s than %s with these columns (gap %.2g %%)"):format(
      objective == "rate" and "better" or "less", digits(fleet.bound), 100 * fleet.gap)
  end
  return ("%s, %s after %s. %d GPUs on %d nodes, %.2f USD/h\n"):format(text, (fleet.status:gsub("_", " ")),
    core.format_seconds(fleet.solve_s), fleet.gpus, #fleet.nodes, fleet.usd_per_h)
end

local function models_text(fleet)
  local with_reserve = (fleet.instance.reserve_nodes or 0) > 0
  local head, rows = { "model", "req/s", "served" }, {}
  if with_reserve then head[#head + 1] = "with loss" end
  for _, name in ipairs { "replicas", "GPUs", "nodes", "USD/h", "one more req/s" } do head[#head + 1] = name end
  local function multiple(value) return value and ("%.2fx"):format(value) or "-" end
  for i, model in ipairs(fleet.models) do
    local row = { model.name, digits(model.demand_per_s), multiple(model.scale) }
    if with_reserve then row[#row + 1] = multiple(model.reserve_scale) end
    local price = fleet.dual_prices.models[i]
    local more = { ("%d"):format(model.replicas), ("%d"):format(model.gpus), ("%d"):format(model.nodes),
      ("%.2f"):format(model.usd_per_h), price and digits(math.abs(price.value)) or "-" }
    for _, cell in ipairs(more) do row[#row + 1] = cell end
    rows[i] = row
  end
  return table_text(head, rows)
end

-- A row for each kind of replica and class of nodes.
local function columns_text(fleet)
  local rows, by_key = {}, {}
  for _, replica in ipairs(fleet.replicas) do
    local key = replica.column_index .. "|" .. replica.node_class
    local row = by_key[key] or { name = ("%s: %s"):format(replica.model, replica.label), class = replica.node_class,
      count = 0, gpus = 0, nodes = 0, seen = {} }
    if not by_key[key] then by_key[key], rows[#rows + 1] = row, row end
    row.count, row.gpus = row.count + replica.count, row.gpus + replica.count * replica.gpus
    for _, node in ipairs(replica.node_indices) do
      if not row.seen[node] then row.seen[node], row.nodes = true, row.nodes + 1 end
    end
  end
  local cells = {}
  for i, row in ipairs(rows) do
    cells[i] = { row.name, row.class, ("%d"):format(row.count), ("%d"):format(row.nodes), ("%d"):format(row.gpus) }
  end
  return table_text({ "replicas", "on", "number", "nodes", "GPUs" }, cells)
end

local function prices_text(fleet)
  local words = {}
  for _, price in ipairs(fleet.dual_prices.devices) do
    if price.value > 1e-9 then
      words[#words + 1] = ("one more %s %s (in %s)"):format(price.name, digits(price.value), price.node_class)
    end
  end
  if #words == 0 then return "One more GPU of any type is worth nothing here.\n" end
  return ("Worth in %s, by the linear programme: %s.\n"):format(units[fleet.instance.objective],
    table.concat(words, ", "))
end

local function show(fleet)
  terminal.say(terminal.wrapped(head_text(fleet)) .. "\n" .. models_text(fleet))
  if #fleet.replicas > 0 then terminal.say("\n" .. columns_text(fleet)) end
  local lines = { "\n", terminal.wrapped(prices_text(fleet)) }
  for _, note in ipairs(fleet.notes) do lines[#lines + 1] = terminal.wrapped("Note: " .. note .. "\n") end
  terminal.say(table.concat(lines))
end

-- What a script returns: options of ts.plan_fleet, flags before them.
local function described(path, flags)
  local asked = host.load_script(path)()
  if type(asked) ~= "table" then
    core.raise("usage", ("%s returned a %s, no options of ts.plan_fleet: { cluster =, models = }"):format(
      path, type(asked)), "tessera fleet")
  end
  for name, value in pairs(flags) do asked[name] = value end
  return asked
end

local function planned_by_models(given, flags)
  local asked = described(given.names[1], flags)
  if given.from then asked.current = ts.load_plan(given.from) end
  local fleet, why = ts.plan_fleet(asked)
  fleet = fleet or why.best
  if not fleet then return nil, why end
  for _, flag in ipairs { "save", "report" } do
    if given[flag] and not fleets.is(fleet) then
      local call = flag == "save" and "plan.fleets[1]:save(FILE)" or "ts.report(plan.fleets[1], FILE)"
      core.raise("usage", "there is a fleet for each period: take those that you want in a script, " .. call,
        "tessera fleet --" .. flag)
    end
  end
  if given.save then fleet:save(given.save) end
  if given.report then ts.report(fleet, given.report) end
  if host.json then host.set_result(fleet:to_table()) else terminal.say(fleet:explain() .. "\n") end
  return why and 130 or 0
end

--- @param given table the flags; names: the file
function M.main(given)
  if #given.names ~= 1 then
    core.raise("usage", "name a file of format tessera-fleet-1, or a script that returns options of ts.plan_fleet: "
      .. "tessera fleet fleet.json", "tessera fleet")
  end
  local asked = tables.of_flags(given, "ts.plan_fleet")
  if given.names[1]:find "%.lua$" then return planned_by_models(given, asked) end
  if given.report then
    core.raise("usage", "--report needs models to simulate: a script that returns options of ts.plan_fleet",
      "tessera fleet")
  end
  asked.instance, asked.start = given.names[1], given.from and ts.load_plan(given.from) or nil
  local draw, erase = new_bar()
  if draw then
    local limit_s = asked.time_limit_s or 60
    asked.on_incumbent = function(news)
      draw(news.elapsed_s, limit_s, ("%s, bound %s"):format(digits(news.objective),
        news.bound and digits(news.bound) or "none yet"))
    end
  end
  local fleet, why = ts.plan_fleet(asked)
  erase()
  fleet = fleet or why.best
  if not fleet then return nil, why end
  if given.save then fleet:save(given.save) end
  if host.json then host.set_result(fleet:to_table()) else show(fleet) end
  return why and 130 or 0
end

return M
