-- How far a sweep is, on stderr: one live line on a terminal, a line now and then elsewhere.

local core = require "tessera.core"
local rows = require "tessera.desk.rows"
local units = require "tessera.desk.units"
local terminal = require "tessera.terminal"
local grid = require "tessera.desk.experiment.grid"

local M = {}

local redraw_s = 0.1

--- "45 s", "3 min 20 s", "2 h 5 min"
function M.duration(s)
  if s < 9.95 then return ("%.1f s"):format(s) end
  s = math.floor(s + 0.5)
  if s < 60 then return ("%d s"):format(s) end
  if s < 3600 then return ("%d min %d s"):format(math.floor(s / 60), s % 60) end
  return ("%d h %d min"):format(math.floor(s / 3600), math.floor(s % 3600 / 60))
end

local function rate_text(per_s)
  if per_s >= 10 then return ("%.0f/s"):format(per_s) end
  if per_s >= 0.1 then return ("%.1f/s"):format(per_s) end
  return ("%.1f/min"):format(60 * per_s)
end

-- The first column, by name, that has a better end.
local function goal_of(row, declared)
  for _, name in ipairs(rows.columns({ row }, declared)) do
    local better = units.better(name)
    if better and type(row[name]) == "number" then return name, better end
  end
end

--- `self.total` points to run. `add(row)`: one more is stored; `note(text)`: a line above the bar.
function M.new(total, experiment, stream)
  local self = { total = total, done = 0, failed = 0, running = 0 }
  local facts, started = terminal.facts "stderr", core.clock()
  local width = facts.redraws and facts.columns
  local drawn_at, best, goal, better, last_tenth = width and 0 or started, nil, nil, nil, 0
  stream = stream or terminal.err

  local function numbers()
    local elapsed = math.max(core.clock() - started, 1e-6)
    local parts = { ("%d/%d"):format(self.done, self.total) }
    if self.failed > 0 then parts[#parts + 1] = ("%d failed"):format(self.failed) end
    if self.done > 0 then
      local rate = self.done / elapsed
      parts[#parts + 1] = rate_text(rate)
      if self.done < self.total then parts[#parts + 1] = "left " .. M.duration((self.total - self.done) / rate) end
    end
    if best then
      parts[#parts + 1] = ("best %s %.4g (%s)"):format(goal, best.value, grid.text(best.point, experiment.keys))
    end
    return table.concat(parts, "  ")
  end

  local function draw()
    local text, cells = numbers(), 20
    if width < 60 then cells = 8 end
    local line = terminal.fit(text, math.max(width - cells - 2, 10))
    local share = self.done / math.max(self.total, 1)
    stream:erase()
    stream:styled(terminal.bar(share, cells, self.failed > 0 and "yellow" or "green", facts), " ", line)
  end

  local function clear()
    if width then stream:erase() end
  end

  function self.redraw(now)
    if not width then return end
    local time = core.clock()
    if not now and time - drawn_at < redraw_s then return end
    drawn_at = time
    draw()
  end

  function self.note(text)
    clear()
    stream:write(text, text:sub(-1) == "\n" and "" or "\n")
    if width then drawn_at = 0 end
  end

  local function keep_best(row)
    if row.error then return end
    if not goal then goal, better = goal_of(row, experiment.columns) end
    local value = goal and row[goal]
    if type(value) ~= "number" then return end
    if not best or (better == "higher" and value > best.value) or (better == "lower" and value < best.value) then
      best = { value = value, point = row.point }
    end
  end

  function self.add(row)
    self.done = self.done + 1
    keep_best(row)
    if row.error then
      self.failed = self.failed + 1
      self.note(("%s: %s: %s"):format(row.status, grid.text(row.point, experiment.keys),
        (row.error:gsub("\n.*", ""):sub(1, 300))))
    end
    local tenth = math.floor(10 * self.done / self.total)
    if not width and tenth > last_tenth and (core.clock() - drawn_at > 1 or self.done == self.total) then
      last_tenth, drawn_at = tenth, core.clock()
      stream:write(numbers(), "\n")
    end
    self.redraw()
  end

  function self.finish()
    clear()
  end

  function self.elapsed_s() return core.clock() - started end

  return self
end

return M
