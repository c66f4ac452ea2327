-- A sheet (see tessera.desk.sheet) as a LaTeX table: rules of booktabs, numbers aligned by siunitx, columns headed by
-- what they are and their unit.

local published = require "tessera.desk.published"
local sheets = require "tessera.desk.sheet"
local units = require "tessera.desk.units"

local M = {}

local marks = {
  ["\\"] = "\\textbackslash{}", ["{"] = "\\{", ["}"] = "\\}", ["$"] = "\\$", ["&"] = "\\&", ["#"] = "\\#",
  ["%"] = "\\%", ["_"] = "\\_", ["^"] = "\\textasciicircum{}", ["~"] = "\\textasciitilde{}",
  ["<"] = "\\textless{}", [">"] = "\\textgreater{}", ["|"] = "\\textbar{}",
  ['"'] = "''", -- \\textquotedbl would need another font encoding
}

--- Text that LaTeX prints as it is.
function M.text(text)
  text = tostring(text):gsub("\r?\n", " "):gsub("%c", "?"):gsub('[\\{}$&#%%_^~<>|"]', marks)
  return (text:gsub("%-%-", "-{}-"):gsub("%-%-", "-{}-")) -- two would become a dash
end

-- What one of the unit is worth in the columns of one name, the paper's and ours alike, and how numbers are written.
local function scale_of(sheet, base)
  local sizes, most = {}, 0
  for c, name in ipairs(sheet.columns) do
    local kind, of = published.split(name)
    if kind ~= "diff" and (of or name) == base then
      for _, line in ipairs(sheet.lines) do
        local value = line[c]
        if type(value) == "number" and value == value and math.abs(value) < math.huge then
          sizes[#sizes + 1], most = math.abs(value), math.max(most, math.abs(value))
        end
      end
    end
  end
  local unit = units.of(base, most)
  return { unit = unit, format = units.shared_format(sizes, unit.worth) }
end

-- What is in print keeps its digits.
local function number_text(value, scale, printed)
  if value ~= value or math.abs(value) == math.huge then return nil end
  value = value / scale.unit.worth
  if printed and ("%.8g"):format(value):find "^-?%d+%.?%d*$" then return ("%.8g"):format(value) end
  if scale.format then return scale.format:format(value) end
  return sheets.short(value)
end

-- "12.30(41)": a mean with its half width in units of the last digit, as siunitx reads it.
local function with_half(text, half)
  local mantissa, exponent = text:match "^([+-]?[%d.]+)(e?.*)$"
  local decimals = #(mantissa:match "%.(%d+)" or "")
  local digits = half / 10 ^ (tonumber(exponent:match "^e(.+)$" or "0")) * 10 ^ decimals
  return ("%s(%.0f)%s"):format(mantissa, digits, exponent)
end

local percent = { unit = { worth = 0.01, label = "diff (%)" }, format = "%+.1f" }

-- For each column: heading, text of each line (nil: no value) and whether these are numbers.
local function columns_of(sheet)
  local numeric, result = sheets.numeric_columns(sheet), {}
  for c, name in ipairs(sheet.columns) do
    local kind, base = published.split(name)
    local column, half = { numeric = numeric[c], texts = {} }, sheet.half and sheet.half[c] or {}
    local scale = kind == "diff" and percent or scale_of(sheet, base or name)
    local heading = sheets.heading(sheet, c)
    if kind == "diff" or not numeric[c] then column.heading = kind == "diff" and scale.unit.label or heading
    elseif kind then column.heading = heading == "paper" and heading or scale.unit.label .. ", paper"
    else column.heading = scale.unit.label end
    if not numeric[c] and not kind then column.heading = heading:gsub("_", " ") end
    for l, line in ipairs(sheet.lines) do
      local value = line[c]
      if type(value) == "number" then column.texts[l] = number_text(value, scale, kind == "paper")
      elseif value ~= nil then column.texts[l] = sheets.short(value) end
      if half[l] and column.texts[l] and numeric[c] then
        column.texts[l] = with_half(column.texts[l], half[l] / scale.unit.worth)
      end
    end
    result[c] = column
  end
  return result
end

-- Options of an S column: how many digits stand before and after the point, behind which sign, and of a half width.
local function format_of(column, num_lines)
  local sign, before, after, of_half = "", 1, 0, 0
  for l = 1, num_lines do
    local text = column.texts[l]
    if text then
      local mark, whole, rest, half = text:gsub("%)$", ""):match "^([+-]?)(%d+)%.?(%d*)%(?(%d*)$"
      if not whole then return nil end -- an exponent, which no fixed place holds
      if mark ~= "" then sign = mark == "+" and "+" or sign == "" and "-" or sign end
      before, after, of_half = math.max(before, #whole), math.max(after, #rest), math.max(of_half, #half)
    end
  end
  local options = { ("table-format = %s%d%s%s"):format(sign, before, after > 0 and "." .. after or ".0",
    of_half > 0 and ("(%d)"):format(of_half) or "") }
  if of_half > 0 then options[2] = "uncertainty-mode = separate" end
  if sign == "+" then options[#options + 1] = "retain-explicit-plus" end
  return options
end

-- How a column is declared, and a function from a line's number to its cell.
local function layout(column, best, num_lines)
  local function bold(l) return best and best[l] end
  if not column.numeric then
    return "l", function(l) return bold(l) and ("\\textbf{%s}"):format(M.text(column.texts[l]))
      or M.text(column.texts[l] or "") end
  end
  local options = format_of(column, num_lines)
  if not options then
    return "r", function(l)
      if not column.texts[l] then return "{--}" end
      return bold(l) and ("{\\bfseries\\num[detect-weight]{%s}}"):format(column.texts[l])
        or ("\\num{%s}"):format(column.texts[l])
    end
  end
  if best and next(best) then options[#options + 1] = "detect-weight" end
  return ("S[%s]"):format(table.concat(options, ", ")), function(l)
    if not column.texts[l] then return "{--}" end
    return bold(l) and "\\bfseries " .. column.texts[l] or column.texts[l]
  end
end

local function tabular(sheet)
  local columns, specs, cells = columns_of(sheet), {}, { {} }
  for l = 1, #sheet.lines do cells[l + 1] = {} end
  for c, column in ipairs(columns) do
    local cell
    specs[c], cell = layout(column, sheet.best and sheet.best[c], #sheet.lines)
    cells[1][c] = column.numeric and ("{%s}"):format(M.text(column.heading)) or M.text(column.heading)
    for l = 1, #sheet.lines do cells[l + 1][c] = cell(l) end
  end
  local out = { ("\\begin{tabular}{\n  %s\n}\n\\toprule\n"):format(table.concat(specs, "\n  ")) }
  for l, line in ipairs(cells) do
    local text = table.concat(line, " & ") .. " \\\\\n"
    -- A bracket after \\ would be read as its argument.
    if text:find "^%[" then text = "{}" .. text end
    out[#out + 1] = text
    if l == 1 then out[#out + 1] = "\\midrule\n" end
  end
  out[#out + 1] = "\\bottomrule\n\\end{tabular}\n"
  return table.concat(out)
end

--- "tab:llmpq-table4" for "llmpq/table4".
function M.label(name) return "tab:" .. name:gsub("[^%w:-]+", "-") end

--- The table. options: caption and label; without a caption the tabular alone, for a table of the reader's own;
--- source: where the numbers come from, a comment.
function M.write(sheet, options)
  local head = (options.source and ("%% %s\n"):format((options.source:gsub("%c", " "))) or "")
    .. "% Needs \\usepackage{booktabs} and \\usepackage{siunitx} (its version 3, in TeX Live since 2021).\n"
  local body = tabular(sheet)
  if (options.caption or "") == "" then return head .. body end
  local label = options.label and options.label ~= "" and ("\\label{%s}\n"):format(options.label) or ""
  return ("%s\\begin{table}\n\\centering\n\\caption{%s}\n%s%s\\end{table}\n"):format(head, M.text(options.caption),
    label, body)
end

return M
