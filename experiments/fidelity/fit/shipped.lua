-- What shipped profiles say of their own errors, part by part: rows and claims for the papers' figures of fidelity.
--
-- local shipped = require "fidelity.fit.shipped"; local points, part_of = shipped.parts({ "T4-16G" },
--   { "llmpq_2023_08" })

local ts = require "tessera"
local core = require "tessera.core"

local M = {}

local function text_of(part)
  local words = { part.op }
  for _, field in ipairs { "name", "dtype", "kv_dtype" } do words[#words + 1] = part[field] end
  if part.bitwidth then words[#words + 1] = part.bitwidth .. " bit" end
  words[#words + 1] = part.phase
  return table.concat(words, " ")
end

-- Points { kind = kernel set, model = device, case = part } of the parts that were fitted to something, and a function
-- from a point to its part. Kernel sets that are not there are passed over.
function M.parts(devices, kernel_sets)
  local known, points, found = {}, {}, {}
  for _, name in ipairs(core.names "kernel_sets") do known[name] = true end
  for _, kernel_set in ipairs(kernel_sets) do
    for _, device in ipairs(known[kernel_set] and devices or {}) do
      for _, part in ipairs(ts.profile { device = device, kernel_set = kernel_set }.parts) do
        if part.num_points > 0 then
          local point = { kind = kernel_set, model = device, case = text_of(part) }
          points[#points + 1], found[core.to_json(point)] = point, part
        end
      end
    end
  end
  return points, function(point)
    return found[core.to_json { kind = point.kind, model = point.model, case = point.case }]
  end
end

function M.row(part)
  local held_out = part.held_out or {}
  return {
    num_points = part.num_points, provenance = part.provenance, error_ratio = held_out.mean,
    p90_error_ratio = held_out.p90, worst_error_ratio = held_out.worst,
    split = held_out.split or "no held-out point",
  }
end

-- Parts of a kernel set with measured points, the worst first, and how many of them have no held-out error.
local function measured_parts(t, kernel_set)
  local with_error, without = {}, {}
  for _, row in ipairs(t:rows { kind = kernel_set }) do
    if row.provenance ~= "published" then
      local list = row.error_ratio and with_error or without
      list[#list + 1] = row
    end
  end
  table.sort(with_error, function(a, b) return a.error_ratio > b.error_ratio end)
  return with_error, without
end

-- The papers quote a mean: it is claimed over the parts that have an error, with the worst of them beside it; what has
-- none is a note. Values read off a figure are no measurement and count in neither.
function M.expect_mean(t, kernel_set, limit)
  local with_error, without = measured_parts(t, kernel_set)
  if #with_error + #without == 0 then return t:skip("no part of " .. kernel_set .. " has points") end
  local sum, worst, names = 0, {}, {}
  for i, row in ipairs(with_error) do
    sum = sum + row.error_ratio
    if i <= 3 then
      worst[i] = ("%s %s %.1f %%"):format(row.point.model, row.point.case:gsub("^layer ", ""), 100 * row.error_ratio)
    end
  end
  local mean = #with_error > 0 and sum / #with_error or math.huge
  t:expect(("%s: mean held-out error under %g %%"):format(kernel_set, 100 * limit), mean < limit,
    ("%.1f %% over %d parts; the worst: %s"):format(100 * mean, #with_error, table.concat(worst, ", ")),
    { value = mean })
  for i, row in ipairs(without) do names[i] = row.point.model .. " " .. row.point.case:gsub("^layer ", "") end
  t:note(kernel_set .. ": parts that rest on points and have no error, so are modelled",
    ("%d of %d: %s"):format(#without, #without + #with_error, table.concat(names, ", ")))
end

return M
