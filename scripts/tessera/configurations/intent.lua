-- ts.intent(options): what somebody wants of a deployment, and the order that it gives configurations (iServe, section
-- 4.1).

local core = require "tessera.core"
local options = require "tessera.options"
local sort_by_fields = require "tessera.sort_by_fields"

local path = "ts.intent"

-- By aim: the field of a row.
local fields = {
  latency = "latency_s", cost = "cost_byte_s", memory = "memory_bytes", gpu_hours = "gpu_s", usd = "usd",
}
local limits = { "latency_s", "memory_bytes", "gpu_s", "cost_byte_s", "usd" }
local tolerance = 1e-9

local read = options.card {
  name = path,
  doc = "An aim and limits. rank(rows) sorts rows of fingerprint:estimates, or any with these fields: those within all "
    .. "limits first, by the aim; then the others by how far the worst limit is exceeded. Ties: fewer GPUs, less "
    .. "memory, less latency, the lower index. Rows have rank, value (of the aim), meets and excess (value over limit, "
    .. "the worst). Refused rows are left out.",
  returns = "tessera.Intent",
  options = {
    { name = "minimise", type = "choice", choices = { "latency", "cost", "memory", "gpu_hours", "usd" },
      doc = "Left out: latency where limits are given and none is on latency, else cost (memory x latency)" },
    { name = "latency_s", type = "number", unit = "s", min = 0, max = 1e9, doc = "At most" },
    { name = "memory_bytes", type = "number", unit = "bytes", min = 0, max = 1e18, doc = "At most, of all GPUs" },
    { name = "gpu_s", type = "number", unit = "s", min = 0, max = 1e12, doc = "At most: GPUs x latency" },
    { name = "cost_byte_s", type = "number", unit = "bytes s", min = 0, max = 1e21,
      doc = "At most: memory x latency (bytes s)" },
    { name = "usd", type = "number", unit = "USD", min = 0, max = 1e9, doc = "At most, of a request" },
    { name = "max_perplexity_increase", type = "number", min = 0, max = 1e6,
      doc = "At most (ratio), at the unfavourable end of what is published: other rows are left out" },
  },
}

core.document_object {
  name = "tessera.Intent", doc = "What is wanted of a deployment.",
  fields = { { "minimise", "string", "The aim" }, { "limits", "table", "By field" } },
  methods = { { "rank", "(rows: table[]): table[]", "The rows that can be, the best first" } },
}

local Intent = {}
local private = setmetatable({}, { __mode = "k" })

local function field_of(row, field, i)
  return options.number(row[field], ("intent:rank rows[%d].%s"):format(i, field), nil, nil,
    field == "usd" and "; price_usd_per_h or prices of fingerprint:estimates gives it" or "")
end

-- Whether a row's scheme keeps the bound on quality. Of one that nobody has measured nothing can be promised.
local function is_good(row, bound)
  local increase = row.perplexity_increase
  if type(increase) == "table" then increase = increase.high end
  return not bound or type(increase) == "number" and increase <= bound + tolerance
end

-- A bound needs something to hold on to.
local function check_quality(rows, bound)
  if not bound or #rows == 0 then return end
  for _, row in ipairs(rows) do
    if row.perplexity_increase then return end
  end
  core.refuse("intent:rank rows[1].perplexity_increase", "max_perplexity_increase needs { low, mid, high } or a number "
    .. "in some row; measure = \"profile\" of ts.fingerprint gives it")
end

-- Value over limit, the worst of all; 1 or less: within them.
local function excess_of(row, given, i)
  local worst = 0
  for _, field in ipairs(limits) do
    local limit = given[field]
    if limit then
      local value = field_of(row, field, i)
      worst = math.max(worst, limit > 0 and value / limit or value > 0 and math.huge or 1)
    end
  end
  return worst
end

function Intent:rank(rows)
  local intent = private[self]
  if not intent then core.refuse("intent:rank", "call it with a colon, on what ts.intent gave") end
  options.list(rows, "intent:rank rows", "a list of rows", options.item_of "table")
  check_quality(rows, intent.max_perplexity_increase)
  local within, beyond = {}, {}
  for i, row in ipairs(rows) do
    if not row.refused and is_good(row, intent.max_perplexity_increase) then
      local excess = excess_of(row, intent.limits, i)
      local item = {
        row = row, position = i, excess = excess, meets = excess <= 1 + tolerance,
        value = field_of(row, fields[intent.minimise], i), num_gpus = field_of(row, "num_gpus", i),
        memory_bytes = field_of(row, "memory_bytes", i), latency_s = field_of(row, "latency_s", i),
        index = row.index or i - 1,
      }
      table.insert(item.meets and within or beyond, item)
    end
  end
  sort_by_fields(within, { "value", "num_gpus", "memory_bytes", "latency_s", "index" })
  sort_by_fields(beyond, { "excess", "num_gpus", "memory_bytes", "latency_s", "index" })
  local ranked = {}
  for _, list in ipairs { within, beyond } do
    for _, item in ipairs(list) do
      local row = {}
      for key, value in pairs(item.row) do row[key] = value end
      row.rank, row.value, row.meets = #ranked + 1, item.value, item.meets
      row.excess = next(intent.limits) and item.excess or nil
      ranked[#ranked + 1] = row
    end
  end
  return ranked
end

local meta = {
  __index = Intent, __name = "tessera.Intent",
  __tostring = function(self)
    local intent = private[self]
    if not intent then return "intent" end
    local words = { "intent: least " .. intent.minimise }
    for _, field in ipairs(limits) do
      if intent.limits[field] then words[#words + 1] = ("%s <= %g"):format(field, intent.limits[field]) end
    end
    return table.concat(words, ", ")
  end,
}

return function(given)
  local opt = read(given or {})
  local bounds = {}
  for _, field in ipairs(limits) do bounds[field] = opt[field] end
  local aim = opt.minimise or next(bounds) and not bounds.latency_s and "latency" or "cost"
  local intent, shown = { minimise = aim, limits = bounds,
    max_perplexity_increase = opt.max_perplexity_increase }, {}
  for field, limit in pairs(bounds) do shown[field] = limit end
  local object = setmetatable({ minimise = aim, limits = shown }, meta)
  private[object] = intent
  return object
end
