-- What becomes of a claim: "pass", "fail", "skipped" where points that it is about have not been run, or "differs" for
-- one that is known not to hold here and says why. A claim that is listed so and holds is a failure: the list is stale.
-- A claim about data of the user's, which may come out either way, passes or differs.

local core = require "tessera.core"

local M = {}

M.options = {
  not_reproduced = {
    type = "string", doc = "Why this does not hold here; it then counts apart, and fails once it holds",
  },
  may_differ = { type = "string", doc = "Why this may not hold on other data; it then counts as not reproduced" },
}

--- The reason as given, or nil.
function M.reason(text, path)
  if text ~= nil and not text:find "%S" then
    core.raise("invalid_argument", path .. ": say why the claim does not hold", path)
  end
  return text
end

local function of_counts(result)
  if result.failed > 0 then return "fail" end
  if result.skipped > 0 then return "skipped" end
  if result.checked == 0 then
    result.lines[1] = "nothing to check: no point is concerned"
    return "fail"
  end
  return "pass"
end

--- The status of { checked, skipped, failed, lines, not_reproduced, may_differ, broken }; what there is to say goes to
--- `lines`. `broken`: a point that it is about failed, which is no finding.
function M.of(result)
  local status = of_counts(result)
  if status == "fail" then result.not_reproduced = result.not_reproduced or result.may_differ end
  if not result.not_reproduced or status == "skipped" then return status end
  if status == "pass" then
    table.insert(result.lines, 1, "it holds, though it is listed as not reproduced (" .. result.not_reproduced
      .. "): take not_reproduced away")
    return "fail"
  end
  return (result.checked > 0 and not result.broken) and "differs" or "fail"
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
  local count = { pass = 0, fail = 0, skipped = 0, differs = 0 }
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
