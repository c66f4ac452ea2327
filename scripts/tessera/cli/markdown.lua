-- Markdown as plain text for a terminal: headings, paragraphs, lists, code, tables. Only what the pages use.

local M = {}

-- Bytes of a text that take a column: those that begin a character.
local function width_of(text) return select(2, text:gsub("[^\128-\191]", "")) end

-- Words, of which a long one parts behind each '|' ("a"|"b"|"c").
local function words_of(text, width)
  local words = {}
  for word in text:gmatch "%S+" do
    local whole = width_of(word) <= width
    for part in word:gmatch(whole and ".+" or "[^|]*|?") do
      if part ~= "" then words[#words + 1] = part end
    end
  end
  return words
end

local function wrap(text, width)
  local lines, line = {}, ""
  for _, word in ipairs(words_of(text, width)) do
    if line ~= "" and width_of(line) + 1 + width_of(word) > width then
      lines[#lines + 1], line = line, word
    else
      line = line == "" and word or line .. " " .. word
    end
  end
  if line ~= "" or #lines == 0 then lines[#lines + 1] = line end
  return lines
end

-- Without the marks inside a line.
local function plain(text)
  text = text:gsub("%[([^%]]+)%]%(#[^)]*%)", "%1"):gsub("%[([^%]]+)%]%(([^)]*)%)", "%1 (%2)")
  return (text:gsub("%*%*(.-)%*%*", "%1"):gsub("`([^`]*)`", "%1"):gsub("\\|", "|"))
end

local function cells_of(line)
  local cells = {}
  local marked = line:gsub("\\|", "\1"):gsub("^%s*|", ""):gsub("|%s*$", "")
  for cell in (marked .. "|"):gmatch "(.-)|" do
    cells[#cells + 1] = plain((cell:gsub("\1", "|"):match "^%s*(.-)%s*$"))
  end
  return cells
end

-- Column widths that fit: the widest gives way until they do, but for its longest word; nil where that is too wide.
local function column_widths(rows, width)
  local widths, least, total = {}, {}, 0
  for _, row in ipairs(rows) do
    for c, cell in ipairs(row) do
      widths[c] = math.max(widths[c] or 1, width_of(cell))
      for _, word in ipairs(words_of(cell, width / 3)) do least[c] = math.max(least[c] or 1, width_of(word)) end
    end
  end
  for c = 1, #widths do total = total + widths[c] + (c > 1 and 2 or 0) end
  while total > width do
    local widest
    for c = 1, #widths do
      if widths[c] > (least[c] or 1) and (not widest or widths[c] > widths[widest]) then widest = c end
    end
    if not widest then return nil end
    widths[widest], total = widths[widest] - 1, total - 1
  end
  return widths
end

-- A table without room: of each row the first cell, and below it the others with what their columns are called.
local function add_stacked(rows, opt, out)
  for r = 2, #rows do
    for _, line in ipairs(wrap(rows[r][1], opt.width)) do out[#out + 1] = line end
    for c = 2, #rows[r] do
      local cell, called = rows[r][c], rows[1][c]
      if cell ~= "" then
        if called ~= "" then cell = called .. ": " .. cell end
        for i, line in ipairs(wrap(cell, opt.width - 6)) do out[#out + 1] = (i == 1 and "    " or "      ") .. line end
      end
    end
  end
end

local function add_table(source, opt, out)
  local rows = {}
  for _, line in ipairs(source) do
    if not line:find "^[%s|:%-]+$" then rows[#rows + 1] = cells_of(line) end
  end
  local widths = column_widths(rows, opt.width)
  if not widths then return add_stacked(rows, opt, out) end
  for r, row in ipairs(rows) do
    local wrapped, height = {}, 1
    for c = 1, #widths do
      wrapped[c] = wrap(row[c] or "", widths[c])
      height = math.max(height, #wrapped[c])
    end
    for h = 1, height do
      local parts = {}
      for c = 1, #widths do
        local cell = wrapped[c][h] or ""
        parts[c] = c < #widths and cell .. (" "):rep(widths[c] - width_of(cell)) or cell
      end
      out[#out + 1] = (table.concat(parts, "  "):gsub("%s+$", ""))
    end
    if r == 1 then
      local rule = {}
      for c = 1, #widths do rule[c] = ("-"):rep(widths[c]) end
      out[#out + 1] = table.concat(rule, "  ")
    end
  end
end

local function add_wrapped(text, first, rest, opt, out)
  for i, line in ipairs(wrap(plain(text), opt.width - #rest)) do
    out[#out + 1] = (i == 1 and first or rest) .. line
  end
end

-- The lines of one block, and where the next begins.
local function block_at(lines, i, belongs)
  local block = {}
  while lines[i] and belongs(lines[i], #block) do
    block[#block + 1] = lines[i]
    i = i + 1
  end
  return block, i
end

local function is_item(line) return line:find "^%s*[-*] " or line:find "^%s*%d+%. " end

local function is_text(line)
  return line ~= "" and not line:find "^#" and not line:find "^```" and not line:find "^|" and not is_item(line)
end

local function add_item(block, opt, out)
  local indent, mark, text = block[1]:match "^(%s*)([-*%d.]+) (.*)$"
  for b = 2, #block do text = text .. " " .. block[b] end
  local first = indent .. mark .. " "
  add_wrapped(text, first, (" "):rep(#first), opt, out)
end

local shells = {}
for _, name in ipairs { "tessera", "bash", "vllm", "cmake", "ctest", "hf", "python3", "torchrun" } do
  shells[name] = true
end

-- A line of code, as it is where it fits. A remark goes before what it is about, what stands beside is continued there,
-- and code is broken at blanks.
local function add_code(code, opt, out)
  local indent = code:match "^ *"
  local function add(text, first, rest, ending)
    local lines = wrap(text, opt.width - #rest - #ending)
    for i, line in ipairs(lines) do
      out[#out + 1] = (i == 1 and first or rest) .. line .. (i < #lines and ending or "")
    end
  end
  if width_of(code) <= opt.width then
    out[#out + 1] = code
    return
  end
  local is_shell = shells[code:match "%S+"] or code:find "^%s*%-%-%w"
  local before, mark, remark
  if not is_shell then before, mark, remark = code:match "^(.-)%s*(%-%-) (.*)$" end
  if not mark then before, mark, remark = code:match "^(.-)%s*(#) (.*)$" end
  if mark then
    add(remark, indent .. mark .. " ", indent .. mark .. " ", "")
    if before ~= "" then add_code(before, opt, out) end
    return
  end
  local head, aside = code:match "^(.*%S   +)(%S.*)$"
  if head and #head <= opt.width * 0.7 then
    add(aside, head, (" "):rep(#head), "")
  else
    add(code, indent, indent .. "    ", is_shell and " \\" or "")
  end
end

--- The page as text.
--- @param opt table width (columns), bold (whether headings are bold)
function M.text(page, opt)
  local lines, out, i = {}, {}, 1
  page = page:gsub("\n*\n%s*<!%-%-.-%-%->", "") -- comments are for whoever edits the page
  for line in (page:gsub("\n$", "") .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  while lines[i] do
    local line, block = lines[i]
    if line:find "^#" then
      local level, title = line:match "^(#+)%s*(.*)$"
      title = plain(title)
      out[#out + 1] = opt.bold and "\27[1m" .. title .. "\27[0m" or (#level <= 2 and title:upper() or title)
      i = i + 1
    elseif line:find "^```" then
      block, i = block_at(lines, i + 1, function(l) return not l:find "^```" end)
      for _, code in ipairs(block) do add_code(code == "" and "" or "    " .. code, opt, out) end
      i = i + 1
    elseif line:find "^    " and not is_item(line) then
      block, i = block_at(lines, i, function(l) return l:find "^    " ~= nil end)
      for _, code in ipairs(block) do add_code(code, opt, out) end
    elseif line:find "^|" then
      block, i = block_at(lines, i, function(l) return l:find "^|" ~= nil end)
      add_table(block, opt, out)
    elseif is_item(line) then
      block, i = block_at(lines, i, function(l, count) return count == 0 or is_text(l) end)
      add_item(block, opt, out)
    elseif line == "" then
      out[#out + 1], i = "", i + 1
    else
      block, i = block_at(lines, i, is_text)
      add_wrapped(table.concat(block, " "), "", "", opt, out)
    end
  end
  return table.concat(out, "\n") .. "\n"
end

return M
