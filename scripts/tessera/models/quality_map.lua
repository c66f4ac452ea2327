-- ts.quality_map: from measured plans of one model, what omega means in nats and in perplexity.
--
-- Losses of layers add up over a plan, after one scale per model and indicator, and miss by a factor: so
--   kl_nats = scale omega exp(e), e normal, all of one deviation: scale and deviation from the logarithms of the ratios
--   rise of the loss = slope omega + e, the variance of e in proportion to omega: by least squares with these weights.
-- A divergence is the mean of log(p / q) under the model as it is; on a text the same mean is the rise of the loss, and
-- for close distributions its variance is twice the divergence, so that it grows with omega, and a rise may be below 0.
-- Bands are prediction intervals of Student's t with one degree of freedom less than there are points.

local core = require "tessera.core"
local options = require "tessera.options"
local plan_omega = require "tessera.planning.plan_omega"
local student_t = require "tessera.models.student_t"

local type_name, path, format = "tessera.QualityMap", "ts.quality_map", "tessera.quality_map/1"

local confidence, min_points = 0.9, 3

local read = options.card {
  name = path,
  doc = "What the quality penalty omega is worth in divergence and perplexity, from plans of one model that were "
    .. "measured: one scale, and its spread. Give points or file; at least 3 points, of one model, text, indicator and "
    .. "settings.",
  returns = type_name,
  options = {
    { name = "points", type = "table", lua_type = "table[]",
      doc = "Results of plan:quality: of each the omega, kl_nats, loss_increase_nats, base_perplexity, model, "
        .. "indicator and settings" },
    { name = "file", type = "string", doc = "What map:save wrote" },
  },
}

local read_predict = options.card {
  name = "map:predict",
  doc = "Divergence and perplexity of a plan, with 90 % bands. What is outside of the omegas that were measured is "
    .. "refused unless it is asked for.",
  parameters = { { "plan", "tessera.Plan|number", "Of this model and indicator; or a normalised omega" } },
  returns = "{ omega: number, kl_nats: table, perplexity_increase: table, num_points: integer, confidence: number, "
    .. "extrapolated: boolean, provenance: string }: the tables { low, mid, high }",
  options = {
    { name = "extrapolate", type = "boolean", default = false,
      doc = "Also where omega is below the least or above the largest of the points; the result says extrapolated" },
  },
}

core.document_object {
  name = type_name, doc = "What omega is worth in divergence and perplexity, for one model and indicator.",
  fields = {
    { "model", "string", "That was measured" },
    { "indicator", "string", "Whose omega it reads: kind, variant, and a hash of its values" },
    { "settings", "string", "How layers were quantised and the text was cut" },
    { "base_perplexity", "number", "Of the model as it is" },
    { "num_points", "integer", "Plans measured" },
    { "points", "table[]", "{ omega, kl_nats, loss_increase_nats } of each, by omega" },
    { "min_omega", "number", "Least of the points" },
    { "max_omega", "number", "Largest of the points" },
    { "kl_nats_per_omega", "number", "The scale" },
    { "spread_ratio", "number", "By what factor points miss it: exp of the deviation of the logarithms" },
    { "loss_nats_per_omega", "number", "The slope of the rise of the loss" },
    { "provenance", "string", "fitted" },
  },
  methods = {
    { "predict", "(plan: tessera.Plan|number, options: table?): table", "See map:predict" },
    { "save", "(path: string)", "Writes the points as JSON, which ts.quality_map { file = path } reads" },
    { "to_table", "(): table", "Its fields" },
  },
}

local fail = core.refuse

local function finite(value) return type(value) == "number" and value == value and math.abs(value) < math.huge end

-- What points have to agree in; a difference in the base perplexity tells another text from this one.
local shared = {
  { "model", "string" }, { "indicator", "string" }, { "settings", "string" }, { "base_perplexity", "number" },
}

local function checked_point(point, at)
  options.plain(point, at, "what plan:quality gave")
  if point.omega == nil then
    fail(at, "it has no omega: plan:quality gives one where keys and values have the plan's bits")
  end
  for _, name in ipairs { "omega", "kl_nats", "loss_increase_nats" } do
    if not finite(point[name]) then
      fail(at .. "." .. name, ("%s is no finite number"):format(tostring(point[name])))
    end
  end
  for _, each in ipairs(shared) do
    local name, wanted = each[1], each[2]
    if type(point[name]) ~= wanted then
      fail(at .. "." .. name, ("a %s belongs here, not a %s"):format(wanted, type(point[name])))
    end
  end
  if point.partial then fail(at, "its measurement was interrupted") end
  if point.omega <= 0 or point.kl_nats <= 0 then
    fail(at, ("omega %g and %g nats: where nothing is lost nothing is said of a scale; leave the point out"):format(
      point.omega, point.kl_nats))
  end
end

local function check_agreement(point, first, at)
  for _, name in ipairs { "model", "indicator", "settings" } do
    if point[name] ~= first[name] then
      fail(at, ("its %s is '%s', that of the first point '%s'; one map is for one %s"):format(name, point[name],
        first[name], name))
    end
  end
  if math.abs(point.base_perplexity / first.base_perplexity - 1) > 1e-6 then
    fail(at, ("the model as it is has perplexity %.6g here and %.6g at the first point: another text, or other "
      .. "weights"):format(point.base_perplexity, first.base_perplexity))
  end
end

local function checked_points(points, at)
  options.list(points, at, "a list of what plan:quality gave", checked_point)
  if #points < min_points then
    fail(at, ("%d of at least %d: fewer have no spread to make a band of"):format(#points, min_points))
  end
  local list = {}
  for i, point in ipairs(points) do
    check_agreement(point, points[1], ("%s[%d]"):format(at, i))
    list[i] = { omega = point.omega, kl_nats = point.kl_nats, loss_increase_nats = point.loss_increase_nats }
  end
  table.sort(list, function(a, b)
    if a.omega ~= b.omega then return a.omega < b.omega end
    return a.kl_nats < b.kl_nats
  end)
  for i = 2, #list do
    if list[i].omega == list[i - 1].omega and list[i].kl_nats == list[i - 1].kl_nats then
      fail(at, ("two points have omega %g and %g nats: one measurement counts once"):format(list[i].omega,
        list[i].kl_nats))
    end
  end
  return list
end

-- Mean and deviation of log(kl / omega).
local function fit_divergence(points)
  local sum, squares = 0, 0
  for _, point in ipairs(points) do sum = sum + math.log(point.kl_nats / point.omega) end
  local mean = sum / #points
  for _, point in ipairs(points) do squares = squares + (math.log(point.kl_nats / point.omega) - mean) ^ 2 end
  return mean, math.sqrt(squares / (#points - 1))
end

-- Slope of the rise over omega, deviation of the rise at omega 1, and the sum of the omegas.
local function fit_rise(points)
  local rises, omegas, squares = 0, 0, 0
  for _, point in ipairs(points) do rises, omegas = rises + point.loss_increase_nats, omegas + point.omega end
  local slope = rises / omegas
  for _, point in ipairs(points) do
    squares = squares + (point.loss_increase_nats - slope * point.omega) ^ 2 / point.omega
  end
  return slope, math.sqrt(squares / (#points - 1)), omegas
end

local private = setmetatable({}, { __mode = "k" })

local QualityMap = {}

local function of(map, method)
  return private[map] or fail("map:" .. method, "call it with a colon, on what ts.quality_map gave")
end

-- omega of what predict was given.
local function omega_of(state, given)
  if type(given) == "number" then
    if not finite(given) or given < 0 then fail("map:predict", ("omega is %g; it is not negative"):format(given)) end
    return given
  end
  if type(given) ~= "userdata" or getmetatable(given) ~= "tessera.Plan" then
    fail("map:predict", "a plan or its normalised omega belongs here, not a " .. type(given))
  end
  local omega, indicator = plan_omega.of(given)
  local model = given:problem().model.name
  if model ~= state.model then
    fail("map:predict", ("it is a plan of '%s', the map is of '%s'"):format(model, state.model))
  end
  if indicator ~= state.indicator then
    fail("map:predict", ("the plan's omega is of the indicator '%s', the map's of '%s'"):format(indicator,
      state.indicator))
  end
  return omega
end

local function band(low, mid, high, transform)
  return { low = transform(low), mid = transform(mid), high = transform(high) }
end

function QualityMap:predict(given, opt)
  local state = of(self, "predict")
  local omega, extrapolate = omega_of(state, given), read_predict(opt or {}).extrapolate
  local outside = omega < state.min_omega or omega > state.max_omega
  if outside and not extrapolate then
    core.raise("out_of_range", ("map:predict: omega %.4g is outside of what was measured, %.4g to %.4g; measure a plan "
      .. "there, or say extrapolate = true"):format(omega, state.min_omega, state.max_omega), "map:predict")
  end
  local n, width = state.num_points, student_t.within(confidence, state.num_points - 1)
  local log_width = width * state.log_deviation * math.sqrt(1 + 1 / n)
  local kl = state.kl_nats_per_omega * omega
  local rise = state.loss_nats_per_omega * omega
  local rise_width = width * state.rise_deviation * math.sqrt(omega + omega ^ 2 / state.sum_omega)
  return {
    omega = omega,
    kl_nats = { low = kl * math.exp(-log_width), mid = kl, high = kl * math.exp(log_width) },
    perplexity_increase = band(rise - rise_width, rise, rise + rise_width, function(x) return math.exp(x) - 1 end),
    num_points = n, confidence = confidence, extrapolated = outside, provenance = "fitted",
  }
end

local field_names = {
  "model", "indicator", "settings", "base_perplexity", "num_points", "points", "min_omega", "max_omega",
  "kl_nats_per_omega", "spread_ratio", "loss_nats_per_omega", "provenance",
}

local function copy_of(points)
  local list = {}
  for i, point in ipairs(points) do
    list[i] = { omega = point.omega, kl_nats = point.kl_nats, loss_increase_nats = point.loss_increase_nats }
  end
  return list
end

function QualityMap:to_table()
  local state, fields = of(self, "to_table"), {}
  for _, name in ipairs(field_names) do fields[name] = state[name] end
  fields.points = copy_of(state.points)
  return fields
end

function QualityMap:save(file)
  local state = of(self, "save")
  if type(file) ~= "string" or file == "" then fail("map:save", "the path of a file belongs here") end
  core.write_file(file, core.to_json {
    format = format, model = state.model, indicator = state.indicator, settings = state.settings,
    base_perplexity = state.base_perplexity, points = copy_of(state.points),
  } .. "\n")
end

local function summary(self)
  local state = private[self]
  return ("quality map of %s, %s: %.4g nats per omega, within a factor of %.3g (%d points, omega %.4g to %.4g)"):format(
    state.model, state.indicator, state.kl_nats_per_omega, state.spread_ratio, state.num_points, state.min_omega,
    state.max_omega)
end

local shell = {
  __index = function(self, name)
    if QualityMap[name] then return QualityMap[name] end
    for _, field in ipairs(field_names) do
      if field == name then return name == "points" and copy_of(private[self].points) or private[self][name] end
    end
    local known = { unpack(field_names) }
    for method in pairs(QualityMap) do known[#known + 1] = method end
    table.sort(known)
    fail("map", ("'%s' does not exist%s"):format(tostring(name), core.did_you_mean(tostring(name), known)))
  end,
  __newindex = function(_, name) fail("map", ("read-only: cannot set '%s'"):format(tostring(name))) end,
  __tostring = summary,
  __metatable = type_name,
}

-- The points that a file holds, each with what they share.
local function points_in(file)
  local content = core.from_json(core.read_file(file))
  if type(content) ~= "table" or content.format ~= format then
    fail(file, ("it is no quality map: its format is not '%s'"):format(format))
  end
  options.list(content.points, file .. ".points", "a list of points", function(point, at)
    options.plain(point, at, "a point")
    for _, each in ipairs(shared) do point[each[1]] = content[each[1]] end
  end)
  return content.points
end

return function(given)
  if type(given) ~= "table" then fail(path, "give one table, not a " .. type(given)) end
  local opt = read(given)
  if (opt.points == nil) == (opt.file == nil) then fail(path, "give either points or file") end
  local all = opt.points or points_in(opt.file)
  local points = checked_points(all, opt.points and path .. ".points" or opt.file .. ".points")
  local log_scale, log_deviation = fit_divergence(points)
  local slope, rise_deviation, sum_omega = fit_rise(points)
  local self = setmetatable({}, shell)
  private[self] = {
    model = all[1].model, indicator = all[1].indicator, settings = all[1].settings,
    base_perplexity = all[1].base_perplexity, num_points = #points, points = points, min_omega = points[1].omega,
    max_omega = points[#points].omega, kl_nats_per_omega = math.exp(log_scale), spread_ratio = math.exp(log_deviation),
    loss_nats_per_omega = slope, provenance = "fitted", log_deviation = log_deviation, rise_deviation = rise_deviation,
    sum_omega = sum_omega,
  }
  return self
end
