-- A grid of terminal cells with 2 x 4 Braille dots each, and marks on top. Places are shares from 0 to 1, y upwards.

local terminal = require "tessera.terminal"

local M = {}
local Grid = {}
Grid.__index = Grid

-- Bit of the dot in column 0 or 1 and row 0 to 3 of a cell (Unicode's block U+2800).
local bits = { [0] = { [0] = 0x01, 0x02, 0x04, 0x40 }, { [0] = 0x08, 0x10, 0x20, 0x80 } }

function M.new(width, height)
  return setmetatable({ width = width, height = height, cells = {}, marks = {}, paints = {} }, Grid)
end

local function round(x) return math.floor(x + 0.5) end

function Grid:set(px, py, paint)
  local column, row = math.floor(px / 2), math.floor(py / 4)
  local at = row * self.width + column
  self.cells[at] = bit.bor(self.cells[at] or 0, bits[px % 2][py % 4])
  self.paints[at] = paint
end

function Grid:pixel(x, y) return round(x * (2 * self.width - 1)), round((1 - y) * (4 * self.height - 1)) end

function Grid:dot(x, y, paint)
  local px, py = self:pixel(x, y)
  self:set(px, py, paint)
end

function Grid:line(x1, y1, x2, y2, paint)
  local ax, ay = self:pixel(x1, y1)
  local bx, by = self:pixel(x2, y2)
  local steps = math.max(math.abs(bx - ax), math.abs(by - ay), 1)
  for i = 0, steps do self:set(round(ax + (bx - ax) * i / steps), round(ay + (by - ay) * i / steps), paint) end
end

--- One character in the cell of that place; the first of several stays. Returns whether it is to be seen.
function Grid:mark(x, y, character, paint)
  local px, py = self:pixel(x, y)
  local at = math.floor(py / 4) * self.width + math.floor(px / 2)
  if self.marks[at] then return self.marks[at] == character end
  self.marks[at] = character
  self.paints[at] = paint
  return true
end

local function braille(value)
  local code = 0x2800 + value
  return string.char(0xE0 + bit.rshift(code, 12), 0x80 + bit.band(bit.rshift(code, 6), 0x3F),
    0x80 + bit.band(code, 0x3F))
end

--- Row `r` from the top.
function Grid:row(r, facts)
  local parts = {}
  for column = 0, self.width - 1 do
    local at = r * self.width + column
    local character = self.marks[at] or (self.cells[at] and braille(self.cells[at]))
    parts[#parts + 1] = character and terminal.paint(character, self.paints[at], facts) or " "
  end
  return table.concat(parts)
end

return M
