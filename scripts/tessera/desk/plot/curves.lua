-- What is computed before points are drawn: the order along a line, cumulative shares, the Pareto front.

local M = {}

local function by_x(a, b)
  if a.x ~= b.x then return a.x < b.x end
  return a.y < b.y
end

--- Points of every series along x.
function M.sort(data)
  for _, series in ipairs(data.series) do table.sort(series.points, by_x) end
end

--- Gives every point the share of its series that is not larger: y from 1/n to 1.
function M.cumulate(data)
  for _, series in ipairs(data.series) do
    table.sort(series.points, function(a, b) return a.x < b.x end)
    for i, point in ipairs(series.points) do point.y = i / #series.points end
  end
end

--- The points of a curve: as they are, or (cdf) the corners of its steps.
function M.steps(points, kind)
  if kind ~= "cdf" or #points == 0 then return points end
  local corners = { { x = points[1].x, y = 0 } }
  for i, point in ipairs(points) do
    if i > 1 then corners[#corners + 1] = { x = point.x, y = points[i - 1].y } end
    corners[#corners + 1] = { x = point.x, y = point.y }
  end
  return corners
end

--- The intervals along a line, as polygons: for each run of points that have one, their upper ends and back along the
--- lower ones, { { x, y }, ... }; of one point alone its two ends.
function M.bands(points)
  local bands, run = {}, {}
  local function close()
    local polygon = {}
    for _, point in ipairs(run) do polygon[#polygon + 1] = { x = point.x, y = point.high } end
    for i = #run, 1, -1 do polygon[#polygon + 1] = { x = run[i].x, y = run[i].low } end
    if #run > 0 then bands[#bands + 1] = polygon end
    run = {}
  end
  for _, point in ipairs(points) do
    if point.low then run[#run + 1] = point else close() end
  end
  close()
  return bands
end

--- The points of all series that none beats in both directions, along x. `better`: "lower" or "higher".
function M.front(data, x_better, y_better)
  local sign_x, sign_y = x_better == "higher" and -1 or 1, y_better == "higher" and -1 or 1
  local all = {}
  for _, series in ipairs(data.series) do
    for _, point in ipairs(series.points) do all[#all + 1] = point end
  end
  table.sort(all, function(a, b)
    if a.x ~= b.x then return sign_x * a.x < sign_x * b.x end
    return sign_y * a.y < sign_y * b.y
  end)
  local front, best = {}, math.huge
  for _, point in ipairs(all) do
    if sign_y * point.y < best then
      front[#front + 1] = point
      best = sign_y * point.y
    end
  end
  table.sort(front, by_x)
  return front
end

--- The front as stairs along x: between two of its points only what the worse of both reaches is known.
function M.stairs(front, x_better)
  local corners = {}
  for i, point in ipairs(front) do
    local before = front[i - 1]
    if before and x_better == "higher" then corners[#corners + 1] = { x = before.x, y = point.y }
    elseif before then corners[#corners + 1] = { x = point.x, y = before.y } end
    corners[#corners + 1] = { x = point.x, y = point.y }
  end
  return corners
end

return M
