-- What becomes of a claim: "pass", "fail", "skipped" where points that it is about have not been run, "differs" for one
-- that is known not to hold here, or "note" for one that no data could overturn.
--
-- A claim that differs says why, and in `here` what comes out instead: it fails once it holds, since the list is stale
-- then, and once what comes out leaves that interval. A note fails where it does not hold. A claim about data of the
-- user's, which may come out either way, passes or differs.

local core = require "tessera.core"

local M = {}

M.options = {
  not_reproduced = {
    type = "string",
      doc = "Why this does not hold here; it then counts apart, and fails once it holds or leaves `here`",
  },
  here = {
    type = "any", lua_type = "number[]|string|boolean",
    doc = "With not_reproduced, what comes out instead: { lowest, highest } of all that is compared, or a text",
  },
  note = {
    type = "string",
    doc = "Why no data could overturn this (fitted on these rows, a theorem, print against print); it counts apart",
  },
  may_differ = { type = "string", doc = "Why this may not hold on other data; it then counts as not reproduced" },
}

local reasons = { "not_reproduced", "note", "may_differ" }

local function is_number(value) return type(value) == "number" and value == value end

local function check_interval(here, path)
  if type(here) == "string" or type(here) == "boolean" then return end
  if type(here) ~= "table" or #here ~= 2 or not is_number(here[1]) or not is_number(here[2]) or here[1] > here[2] then
    core.raise("invalid_argument", path .. ".here: { lowest, highest } belongs here, or a text", path)
  end
end

--- Copies what a claim says of its verdict from its options to its result.
function M.read(given, result, path)
  local last
  for _, name in ipairs(reasons) do
    local text = given[name]
    if text ~= nil then
      if not text:find "%S" then
        core.raise("invalid_argument", ("%s.%s: say why"):format(path, name), path)
      end
      if last then core.raise("invalid_argument", ("%s: %s and %s at once"):format(path, last, name), path) end
      last, result[name] = name, text
    end
  end
  if (given.here ~= nil) ~= (given.not_reproduced ~= nil) then
    core.raise("invalid_argument", path .. ": not_reproduced = \"why\" and here = { lowest, highest }, what comes out "
      .. "instead, belong together, so that the claim can still fail", path)
  end
  if given.here ~= nil then check_interval(given.here, path) end
  result.here = given.here
end

local function of_counts(result)
  if result.waits then return "skipped" end
  if result.failed > 0 then return "fail" end
  if result.skipped > 0 then return "skipped" end
  if result.checked == 0 then
    result.lines[1] = "nothing to check: no point is concerned"
    return "fail"
  end
  return "pass"
end

-- Whether all that is compared lies in the stored interval; what does not is said.
local function stays(result)
  local inside = #result.values > 0
  if not inside then table.insert(result.lines, 1, "there is no number to hold against what is stored") end
  for _, value in ipairs(result.values) do
    local fits
    if type(result.here) == "table" then
      fits = is_number(value) and value >= result.here[1] and value <= result.here[2]
    else
      fits = value == result.here
    end
    if not fits then
      inside = false
      table.insert(result.lines, 1, ("%s is not what is stored as coming out here, %s"):format(M.text(value),
        M.text(result.here)))
    end
  end
  return inside
end

--- What t:note says of itself: it stands for its own reason.
M.remark = "computed from the rows, nothing is claimed"

--- A value or an interval as text.
function M.text(value)
  if type(value) == "table" then return ("%.4g to %.4g"):format(value[1], value[2]) end
  return type(value) == "number" and ("%.4g"):format(value) or tostring(value)
end

--- The status of { checked, skipped, failed, lines, values, not_reproduced, here, note, may_differ, broken }; what
--- there is to say goes to `lines`. `broken`: a point that it is about failed, which is no finding. `values`: all that
--- is compared.
function M.of(result)
  local status = of_counts(result)
  if status == "skipped" then return status end
  if result.note then return status == "pass" and "note" or status end
  if result.may_differ and status == "fail" and result.checked > 0 and not result.broken then
    result.not_reproduced = result.may_differ
    return "differs"
  end
  if not result.not_reproduced then return status end
  if status == "pass" then
    table.insert(result.lines, 1, "it holds, though it is listed as not reproduced (" .. result.not_reproduced
      .. "): take not_reproduced away")
    return "fail"
  end
  return (result.checked > 0 and not result.broken and stays(result)) and "differs" or "fail"
end

--- Why a stored claim differs or is a note: a sentence, or nil.
function M.why(claim)
  if claim.status == "note" then return claim.note ~= M.remark and "a note: " .. claim.note or nil end
  if claim.status ~= "differs" then return nil end
  return ("not reproduced%s: %s"):format(claim.here and (" (here %s)"):format(claim.here) or "", claim.not_reproduced)
end

--- What is stored as `passed`: nil for claims that neither pass nor fail.
function M.passed(status)
  if status == "pass" then return true end
  if status == "fail" then return false end
end

--- The claims that fail.
function M.failed(claims)
  local failed = {}
  for _, claim in ipairs(claims) do
    if M.status(claim) == "fail" then failed[#failed + 1] = claim end
  end
  return failed
end

--- How many claims of each status there are; old stored claims have `passed` alone.
function M.count(claims)
  local count = { pass = 0, fail = 0, skipped = 0, differs = 0, note = 0 }
  for _, claim in ipairs(claims or {}) do
    local status = M.status(claim)
    count[status] = count[status] + 1
  end
  return count
end

--- The status of a stored claim.
function M.status(claim)
  if claim.status then return claim.status end
  if claim.passed == nil then return "skipped" end
  return claim.passed and "pass" or "fail"
end

return M
