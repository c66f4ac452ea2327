-- Which claims of an experiment the data could overturn. Every number of every row is made smaller and larger, numbers
-- of several rows their mean, every text and truth another one, and what is missing what another row has: alone, for
-- all rows and for those that share the value of a key. The claims are judged again: one that no change moves from
-- "pass" or "differs" to "fail", or from "pass" to "differs", says nothing of the rows.

local core = require "tessera.core"
local claims = require "tessera.desk.experiment.claims"

local M = {}

local changes = {
  function(value) return type(value) == "number" and (value == 0 and 1 or value * 2) end,
  function(value) return type(value) == "number" and (value == 0 and -1 or value / 2) end,
  function(value, column) return type(value) == "number" and column.mean end,
  function(value) return type(value) == "number" and (value == 0 and 1e6 or value * 1e6) end,
  function(value) return type(value) == "number" and value / 1e6 end,
  function(value) return type(value) == "number" and -value end,
  function(value) return type(value) == "string" and "another" end,
  function(value, column) return value == nil and column.some end,
  function(value) if type(value) == "boolean" then return not value end end,
}

local is_no_column = { point = true, meta = true, error = true }

local function columns_of(rows)
  local seen, list = {}, {}
  for _, row in ipairs(rows) do
    for column in pairs(row) do
      if not seen[column] and not is_no_column[column] then seen[column], list[#list + 1] = true, column end
    end
  end
  table.sort(list)
  return list
end

-- Lists of rows that are changed together: each alone, all, and all that share a key's value.
local function groups_of(experiment, rows)
  local groups, all = {}, {}
  for i in ipairs(rows) do all[i] = i end
  groups[1] = all -- the changes that move most come first
  for _, key in ipairs(experiment.keys) do
    local by_value, order = {}, {}
    for i, row in ipairs(rows) do
      local value = tostring(row.point[key])
      if not by_value[value] then by_value[value], order[#order + 1] = {}, value end
      table.insert(by_value[value], i)
    end
    for _, value in ipairs(order) do groups[#groups + 1] = by_value[value] end
  end
  for i in ipairs(rows) do groups[#groups + 1] = { i } end
  return groups
end

-- Of a column in some rows: { mean of its numbers, some value that a row has }.
local function summary_of(rows, group, column)
  local sum, count, some = 0, 0, nil
  for _, i in ipairs(group) do
    local value = rows[i][column]
    if type(value) == "number" then sum, count = sum + value, count + 1 end
  end
  for _, row in ipairs(rows) do
    if some == nil then some = row[column] end
  end
  return { mean = count > 1 and sum / count or nil, some = some }
end

-- The rows with one column of some of them changed; nil where that changes none.
local function changed(rows, group, column, change)
  local copy, any, summary = {}, false, summary_of(rows, group, column)
  for i, row in ipairs(rows) do copy[i] = row end
  for _, i in ipairs(group) do
    local before = rows[i][column]
    local other = change(before, summary)
    if other ~= nil and (other ~= false or before == true) and other ~= before then
      copy[i], any = {}, true
      for key, value in pairs(rows[i]) do copy[i][key] = value end
      copy[i][column] = other
    end
  end
  return any and copy or nil
end

local is_judged = { pass = true, differs = true }

local function fell(before, after) return after == "fail" or before == "pass" and after == "differs" end

--- Every claim that passes or differs on these rows: { text, status, by }; `by` says what made it fail, and is nil
--- where nothing did.
function M.of(experiment, rows)
  local list, by_text = {}, {}
  for _, claim in ipairs(claims.check(experiment, rows)) do
    if claim.status == "fail" then
      core.raise("invalid_argument", ("%s: the claim '%s' fails before anything is changed: %s"):format(experiment.name,
        claim.text, claim.numbers or table.concat(claim.lines, "; ")), "overturn")
    end
    if is_judged[claim.status] and not by_text[claim.text] then
      list[#list + 1] = { text = claim.text, status = claim.status }
      by_text[claim.text] = list[#list]
    end
  end
  local waiting = #list
  local columns = columns_of(rows)
  for _, change in ipairs(changes) do
    for _, group in ipairs(groups_of(experiment, rows)) do
      for _, column in ipairs(columns) do
        if waiting == 0 then return list end
        local other = changed(rows, group, column, change)
        for _, claim in ipairs(other and claims.check(experiment, other) or {}) do
          local known = by_text[claim.text]
          if known and not known.by and fell(known.status, claim.status) then
            known.by, waiting = ("%s of %d row%s"):format(column, #group, #group == 1 and "" or "s"), waiting - 1
          end
        end
      end
    end
  end
  return list
end

return M
