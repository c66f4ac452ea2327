-- ts.fit_correction(points): the line through predicted and measured times (FlexLLM, (18)).

local core = require "tessera.core"
local options = require "tessera.options"

local path = "ts.fit_correction"

core.document {
  name = path,
  doc = "measured = scale x predicted + offset_s, by least squares. mape: mean of |fitted - measured| / measured; "
    .. "band: excellent below 5 %, good below 15 %, acceptable to 20 %, else concerning. A negative scale has a note.",
  parameters = { { "points", "table[]", "{ predicted_s =, measured_s = } of two or more batch sizes" } },
  returns = "table",
}

local function band_of(mape)
  return mape < 0.05 and "excellent" or mape < 0.15 and "good" or mape <= 0.2 and "acceptable" or "concerning"
end

local function check_point(point, where)
  options.plain(point, where, "{ predicted_s =, measured_s = }")
  for _, field in ipairs { "predicted_s", "measured_s" } do
    local value = point[field]
    if type(value) ~= "number" or not (value > 0 and value < 1e12) then
      core.refuse(where .. "." .. field, ("%s is no time; give seconds above 0"):format(tostring(value)))
    end
  end
end

return function(points)
  local where = path .. " points"
  options.list(points, where, "a list of { predicted_s =, measured_s = }", check_point)
  local n, x, y, xx, xy, least, most = #points, 0, 0, 0, 0, math.huge, 0
  for _, point in ipairs(points) do
    x, y = x + point.predicted_s / n, y + point.measured_s / n
    least, most = math.min(least, point.predicted_s), math.max(most, point.predicted_s)
  end
  if n < 2 or most - least <= 1e-12 * most then
    core.refuse(where, ("%d points, all at one predicted time; a line needs two: measure another batch size"):format(n))
  end
  for _, point in ipairs(points) do
    xx = xx + (point.predicted_s - x) ^ 2
    xy = xy + (point.predicted_s - x) * (point.measured_s - y)
  end
  local fit = { scale = xy / xx, mape = 0 }
  fit.offset_s = y - fit.scale * x
  for _, point in ipairs(points) do
    local fitted = fit.scale * point.predicted_s + fit.offset_s
    fit.mape = fit.mape + math.abs(fitted - point.measured_s) / point.measured_s / n
  end
  fit.band = band_of(fit.mape)
  if fit.scale < 0 then fit.note = "the scale is negative: more work would take less time" end
  return fit
end
