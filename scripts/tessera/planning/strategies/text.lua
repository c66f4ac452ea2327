-- What ts.select_strategy found, as a table to read.

local core = require "tessera.core"
local terminal = require "tessera.terminal"

local function share_of(row)
  if row.batch then return ("%d+%d requests"):format(row.batch[1], row.batch[2]) end
  if row.layers then return ("%d+%d layers"):format(row.layers[1], row.layers[2]) end
  return row.attention_ratio and ("%.3g %% of heads"):format(100 * row.attention_ratio) or ""
end

local function seconds(value) return value and ("%.3g"):format(value) or "-" end

local function thousands(tokens_per_usd)
  if not tokens_per_usd then return "-" end
  return tokens_per_usd == math.huge and "inf" or ("%.4gK"):format(tokens_per_usd / 1e3)
end

local columns = {
  { name = "", right = true, cell = function(row) return (row.reason and "*" or "") .. row.rank end },
  { name = "strategy", cell = function(row) return row.strategy end },
  { name = "on", of_several = true, cell = function(row) return tostring(row.configuration) end },
  { name = "share", cell = share_of },
  { name = "prefill s", right = true, cell = function(row) return seconds(row.prefill_s) end },
  { name = "token s", right = true, cell = function(row) return seconds(row.decode_s) end },
  { name = "in all s", right = true, cell = function(row) return seconds(row.latency_s) end },
  { name = "USD/h", right = true, of_price = true, cell = function(row) return ("%.3g"):format(row.usd_per_h) end },
  { name = "tok/USD", right = true, of_price = true, cell = function(row) return thousands(row.tokens_per_usd) end },
}

-- { [configuration, from 1] = "A10 + T4-16G" }
local function configurations_of(rows)
  local names = {}
  for _, row in ipairs(rows) do names[row.configuration + 1] = table.concat(row.devices, " + ") end
  return names
end

local function table_lines(rows, shown)
  local lines = {}
  for i = 0, #rows do lines[i + 1] = " " end
  for _, column in ipairs(shown) do
    local cells, width = { column.name }, #column.name
    for i, row in ipairs(rows) do
      cells[i + 1] = column.cell(row)
      width = math.max(width, #cells[i + 1])
    end
    for i, cell in ipairs(cells) do
      local gap = (" "):rep(width - #cell)
      lines[i] = lines[i] .. " " .. (column.right and gap .. cell or cell .. gap)
    end
  end
  return lines
end

local function exact_text(exact)
  local gain = exact.gain_ratio and (", %.3g times as fast as the choice (%.3g at 16 bits)"):format(exact.gain_ratio,
    exact.gain_16_bit_ratio) or ""
  local is_paid = exact.tokens_per_usd < math.huge
  local paid = is_paid and (", %s tokens per USD"):format(thousands(exact.tokens_per_usd)) or ""
  return ("the best of all plans, %s: %s, %s%s%s"):format(exact.status, (exact.strategy:gsub("_", " ")),
    core.format_seconds(exact.latency_s), paid, gain)
end

return function(found)
  local names, shown = configurations_of(found), {}
  local is_paid = false
  for _, row in ipairs(found) do is_paid = is_paid or row.usd_per_h > 0 end
  for _, column in ipairs(columns) do
    if (#names > 1 or not column.of_several) and (is_paid or not column.of_price) then shown[#shown + 1] = column end
  end
  local lines = table_lines(found, shown)
  if #names == 1 then
    table.insert(lines, 1, "  on " .. names[1])
  else
    for i, name in ipairs(names) do lines[#lines + 1] = ("  on %d: %s"):format(i - 1, name) end
  end
  local words = {}
  for _, row in ipairs(found) do
    if row.reason then words[#words + 1] = ("  * %d: %s, %s"):format(row.rank, row.reason, row.why) end
  end
  if found.exact then words[#words + 1] = "  " .. exact_text(found.exact) end
  for _, note in ipairs(found.notes or {}) do words[#words + 1] = "  note: " .. note end
  if #words > 0 then lines[#lines + 1] = terminal.wrapped(table.concat(words, "\n")) end
  return table.concat(lines, "\n")
end
