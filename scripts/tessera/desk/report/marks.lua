-- Provenance marks: what stands behind a column of numbers, as a sign with a tooltip; the legend says it in words.

local html = require "tessera.desk.report.html"

local M = {}

local kinds = {
  { "measured", "●", "measured on hardware" },
  { "fitted", "◐", "from a model fitted to measurements; the error is the held-out one" },
  { "modelled", "○", "from a model without a measurement behind it" },
  { "published", "¶", "as printed in the paper" },
  { "not stated", "–", "the script did not say where the numbers come from" },
}
local signs, meanings = {}, {}
for _, kind in ipairs(kinds) do signs[kind[1]], meanings[kind[1]] = kind[2], kind[3] end

local function error_text(error_ratio)
  return error_ratio and (", held-out error %.2g %%"):format(100 * error_ratio) or ""
end

--- A mark for { { kind, count, error_ratio } }, commonest first.
function M.mark(sources)
  local words = {}
  for i, source in ipairs(sources) do
    local rows = #sources > 1 and (" (%d rows)"):format(source.count) or ""
    words[i] = ("%s%s%s: %s"):format(source.kind, error_text(source.error_ratio), rows,
      meanings[source.kind] or "a word of the script's own")
  end
  local tip = table.concat(words, "; ")
  local sign = signs[sources[1].kind] or "◇"
  if #sources > 1 then sign = sign .. "+" end
  return html.h("button", {
    type = "button", class = "mark", ["data-tip"] = tip, title = tip, ["aria-label"] = tip,
  }, sign)
end

--- Where the numbers of a run's rows come from: { { kind, count, error_ratio (the largest) } }, commonest first.
function M.sources(list)
  local counts, order = {}, {}
  for _, row in ipairs(list) do
    local meta = row.meta or {}
    local kind = meta.provenance or "not stated"
    local entry = counts[kind]
    if not entry then
      entry = { kind = kind, count = 0 }
      counts[kind] = entry
      order[#order + 1] = entry
    end
    entry.count = entry.count + 1
    if meta.error_ratio then entry.error_ratio = math.max(entry.error_ratio or 0, meta.error_ratio) end
  end
  table.sort(order, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    return a.kind < b.kind
  end)
  return #order > 0 and order or { { kind = "not stated", count = 0 } }
end

M.published = { { kind = "published", count = 0 } }
M.measured = { { kind = "measured", count = 0 } }

--- What the signs beside columns say, folded.
function M.key()
  return html.h("details", { class = "key" },
    html.h("summary", nil, "Signs beside columns: where the numbers come from"), M.legend())
end

function M.legend()
  local items = {}
  for i, kind in ipairs(kinds) do
    items[i] = html.h("li", nil, html.h("span", { class = "sign", ["aria-hidden"] = "true" }, kind[2]), " ",
      html.h("b", nil, kind[1]), ": " .. kind[3])
  end
  return html.h("ul", { class = "marks" }, items)
end

return M
