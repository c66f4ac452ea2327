-- The colours of pictures as colour-blind readers see them: Machado, Oliveira and Fernandes (2009), "A
-- Physiologically-based Model for Simulation of Color Vision Deficiency", severity 1.0; distances in CIE L*a*b* (1976),
-- where 2.3 is what can just be noticed.
local pipeline = require "tessera.desk.picture.pipeline"
local svg = require "tessera.desk.picture.svg"

local least = 12

local eyes = {
  usual = { { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 } },
  deuteranopia = { { 0.367322, 0.860646, -0.227968 }, { 0.280085, 0.672501, 0.047413 },
    { -0.011820, 0.042940, 0.968881 } },
  protanopia = { { 0.152286, 1.052583, -0.204868 }, { 0.114503, 0.786281, 0.099216 },
    { -0.003882, -0.048116, 1.051998 } },
}

local function times(matrix, v)
  local result = {}
  for i, row in ipairs(matrix) do result[i] = row[1] * v[1] + row[2] * v[2] + row[3] * v[3] end
  return result
end

local function linear(colour)
  local rgb = {}
  for i = 1, 3 do
    local c = tonumber(colour:sub(2 * i, 2 * i + 1), 16) / 255
    rgb[i] = c <= 0.04045 and c / 12.92 or ((c + 0.055) / 1.055) ^ 2.4
  end
  return rgb
end

local to_xyz = { { 0.4124, 0.3576, 0.1805 }, { 0.2126, 0.7152, 0.0722 }, { 0.0193, 0.1192, 0.9505 } }

local function lab(colour, eye)
  local seen = times(eye, linear(colour))
  for i = 1, 3 do seen[i] = math.max(0, math.min(1, seen[i])) end
  local xyz = times(to_xyz, seen)
  local function f(t) return t > 0.008856 and t ^ (1 / 3) or 7.787 * t + 16 / 116 end
  local x, y, z = f(xyz[1] / 0.9505), f(xyz[2]), f(xyz[3] / 1.089)
  return { 116 * y - 16, 500 * (x - y), 200 * (y - z) }
end

local function distance(a, b, eye)
  local p, q, sum = lab(a, eye), lab(b, eye), 0
  for i = 1, 3 do sum = sum + (p[i] - q[i]) ^ 2 end
  return math.sqrt(sum)
end

local function luminance(colour)
  local c = linear(colour)
  return 0.2126 * c[1] + 0.7152 * c[2] + 0.0722 * c[3]
end

local function contrast(a, b)
  local x, y = luminance(a), luminance(b)
  return (math.max(x, y) + 0.05) / (math.min(x, y) + 0.05)
end

local groups = { ["series in light"] = {}, ["series in dark"] = {}, bitwidths = {}, memory = {}, phases = {} }
for i, colours in ipairs(svg.series_colours) do
  groups["series in light"][i], groups["series in dark"][i] = colours[1], colours[2]
end
for _, colour in pairs(pipeline.bit_colours) do table.insert(groups.bitwidths, colour) end
for _, component in ipairs(pipeline.components) do table.insert(groups.memory, component[3]) end
for _, colour in pairs(pipeline.phase_colours) do table.insert(groups.phases, colour) end

describe("colours", function()
  it("are told apart by what is simulated here", function()
    -- What the simulation is worth: red and green of one lightness are one to a deuteranope, blue and yellow are not.
    assert.is_true(distance("#d55e00", "#8a8f00", eyes.usual) > 40)
    assert.is_true(distance("#d55e00", "#8a8f00", eyes.deuteranopia) < 12)
    assert.is_true(distance("#0072b2", "#e69f00", eyes.deuteranopia) > 80)
  end)

  for group, colours in pairs(groups) do
    it(("of %s differ for every eye"):format(group), function()
      for i, a in ipairs(colours) do
        for k = i + 1, #colours do
          for name, eye in pairs(eyes) do
            local found = distance(a, colours[k], eye)
            assert.is_true(found >= least, ("%s and %s to %s: %.1f"):format(a, colours[k], name, found))
          end
        end
      end
    end)
  end

  it("of series stand out from their page", function() -- WCAG 2: 3 to 1 for what is drawn
    for _, colours in ipairs(svg.series_colours) do
      assert.is_true(contrast(colours[1], "#ffffff") >= 3, colours[1])
      assert.is_true(contrast(colours[2], "#16191d") >= 3, colours[2])
    end
  end)
end)
