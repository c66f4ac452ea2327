-- Mutations of files, by what they are made of. Each takes a text and a generator, and returns another text.

local M = {}

local json_atoms = {
  "0", "-1", "1", "-0.0", "1.5", "1e999", "-1e999", "1e308", "-1e308", "1e-320", "9007199254740993",
  "18446744073709551616", "4294967296", "NaN", "Infinity", "-inf", "null", "true", "false", '""', '"4"', '"-1"', '"x"',
  '"1e999"', '"NaN"', '"\\u0000"', '"a\\u001b]0;t\\u0007b"', '"\27[31m"', '"\\ud800"', '"\255\254"', '"é\\n\\u202e"',
  '"' .. ("y"):rep(5000) .. '"', "[]", "{}", "[null]", "[[]]", '{"": 0}', "[1,2,3]", '{"a": {"b": [{}]}}',
  ("["):rep(63) .. ("]"):rep(63), ("["):rep(3000) .. ("]"):rep(3000), ('{"a":'):rep(70) .. "1" .. ("}"):rep(70),
}

-- The value of a text as a tree of { items =, keys = or nil } and texts of atoms; nil where it is none.
local function parse(text)
  local at = 1
  local function skip() at = text:find("[^ \t\r\n]", at) or #text + 1 end
  local function string_text()
    local stop = at + 1
    while text:sub(stop, stop) ~= '"' and stop <= #text do stop = stop + (text:sub(stop, stop) == "\\" and 2 or 1) end
    local token = text:sub(at, stop)
    at = stop + 1
    return token
  end
  local function value()
    skip()
    local first = text:sub(at, at)
    if first == '"' then return { text = string_text() } end
    if first ~= "{" and first ~= "[" then
      local token = text:match("^[^%[%]{},:%s]+", at)
      if not token then error("no JSON", 0) end
      at = at + #token
      return { text = token }
    end
    local node, close = { items = {}, keys = first == "{" and {} or nil }, first == "{" and "}" or "]"
    at = at + 1
    skip()
    while text:sub(at, at) ~= close do
      if node.keys then
        skip()
        node.keys[#node.keys + 1] = string_text()
        skip()
        at = at + 1 -- the colon
      end
      node.items[#node.items + 1] = value()
      skip()
      if text:sub(at, at) == "," then at = at + 1 elseif text:sub(at, at) ~= close then error("no JSON", 0) end
      skip()
    end
    at = at + 1
    return node
  end
  local ok, node = pcall(value)
  return ok and node or nil
end

local function write(node)
  if node.text then return node.text end
  local parts = {}
  for i, item in ipairs(node.items) do
    parts[i] = (node.keys and node.keys[i] .. ": " or "") .. write(item)
  end
  local inside = table.concat(parts, ", ")
  return node.keys and "{" .. inside .. "}" or "[" .. inside .. "]"
end

-- Every place { node, index } of the tree.
local function places(node, list)
  for i, item in ipairs(node.items or {}) do
    list[#list + 1] = { node, i }
    places(item, list)
  end
  return list
end

local function changed_number(number, random)
  return random:pick { number .. "e" .. (random:below(40) - 20), "-" .. number, '"' .. number .. '"', number .. ".5",
    number .. "0", tostring(random:below(10)), "[" .. number .. "]" }
end

local edits = {
  function(parent, i, random) -- another value
    local text = parent.items[i].text
    local number = text and tonumber(text)
    parent.items[i] = { text = number and random:below(3) > 0 and changed_number(text, random)
      or random:pick(json_atoms) }
  end,
  function(parent, i) -- missing
    table.remove(parent.items, i)
    if parent.keys then table.remove(parent.keys, i) end
  end,
  function(parent, i, random) -- twice
    table.insert(parent.items, i, { text = write(parent.items[i]) })
    if parent.keys then
      local key = parent.keys[i]
      table.insert(parent.keys, i, random:once_in(2) and key or key:sub(1, -2) .. 's"')
    end
  end,
  function(parent, i, random) -- under another name, or in another place
    local other = 1 + random:below(#parent.items)
    local list = parent.keys or parent.items
    list[i], list[other] = list[other], list[i]
  end,
  function(parent, i) -- as an item of a list
    parent.items[i] = { items = { parent.items[i] } }
  end,
}

--- The values of a JSON text: exchanged, of other types, missing, twice, renamed, deep, huge.
function M.json(text, random)
  local root = parse(text)
  if not root then return M.bytes(text, random) end
  for _ = 1, 1 + random:below(3) do
    local list = places(root, {})
    if #list == 0 then return random:pick(json_atoms) end
    local place = random:pick(list)
    random:pick(edits)(place[1], place[2], random)
  end
  return write(root)
end

local fragments = { "\0", "\255", "-1", "1e999", "NaN", ",", "\n", "\r", '"', "{", "]", "\27[2J", "9007199254740993" }

--- Bytes: flipped, cut out, put in, repeated, exchanged; the end cut off.
function M.bytes(text, random)
  for _ = 1, 1 + random:below(4) do
    local at, length = 1 + random:below(math.max(1, #text)), 1 + random:below(12)
    local before, after = text:sub(1, at - 1), text:sub(at + length)
    local kind = random:below(6)
    if kind == 0 then
      text = before .. string.char(random:below(256)) .. text:sub(at + 1)
    elseif kind == 1 then
      text = before .. after
    elseif kind == 2 then
      text = before .. random:pick(fragments) .. text:sub(at)
    elseif kind == 3 then
      text = before .. text:sub(at, at + length - 1):rep(2 + random:below(3)) .. after
    elseif kind == 4 then
      local from = 1 + random:below(math.max(1, #text))
      text = before .. text:sub(from, from + length - 1) .. after
    elseif random:once_in(6) then
      text = before
    end
  end
  return text
end

local cells = {
  "", "0", "-1", "1", "1e999", "-1e308", "1e-320", "nan", "inf", "NaN", "0x10", "1,5", "9007199254740993", "1e15", "x",
  " ", '"', '""', '"a,b"', "\0", "\27[31m", "\255", "#", "=1+1", ("9"):rep(400), ("z"):rep(3000), "2023-13-45 99:99:99",
  "true", "prefill", "decode", "16",
}

--- Cells of a table of comma-separated values; lines and columns missing, twice and exchanged.
function M.csv(text, random)
  local lines = {}
  for line in (text .. "\n"):gmatch "(.-)\r?\n" do lines[#lines + 1] = line end
  for _ = 1, 1 + random:below(4) do
    local l = 1 + random:below(#lines)
    local fields = {}
    for field in (lines[l] .. ","):gmatch "(.-)," do fields[#fields + 1] = field end
    local f, kind = 1 + random:below(#fields), random:below(9)
    if kind < 4 then
      fields[f] = random:pick(cells)
    elseif kind == 4 then
      table.remove(fields, f)
    elseif kind == 5 then
      table.insert(fields, f, fields[f])
    elseif kind == 6 then
      local other = 1 + random:below(#fields)
      fields[f], fields[other] = fields[other], fields[f]
    end
    lines[l] = table.concat(fields, ",")
    if kind == 7 then table.insert(lines, l, lines[1 + random:below(#lines)]) end
    if kind == 8 and #lines > 1 then table.remove(lines, l) end
  end
  return table.concat(lines, random:once_in(8) and "\r\n" or "\n") .. "\n"
end

local function little_endian(value, size)
  local bytes = {}
  for i = 1, size do
    bytes[i] = string.char(value % 256)
    value = math.floor(value / 256)
  end
  return table.concat(bytes)
end

-- Not numbers and infinities as f32, f16 and bf16 hold them, and integers that sizes and offsets stumble over.
local words = {
  "\0\0\192\127", "\0\0\128\127", "\0\0\128\255", "\1\0\128\127", "\255\255\127\127", "\1\0\0\0", "\0\124", "\0\126",
  "\128\127", "\192\127", "\255\255\255\255", "\255\255\255\127", "\0\0\0\128", "\255\255\255\255\255\255\255\127",
  ("\255"):rep(8), ("\0"):rep(8), "\0\0\0\0\1\0\0\0", "\255", "\0",
}

--- Words of a binary file; once in four times bytes anywhere.
function M.binary(text, random)
  if random:once_in(4) then return M.bytes(text, random) end
  for _ = 1, 1 + random:below(3) do
    local word = random:pick(words)
    -- Headers are short, and most of what can go wrong is there.
    local range = random:once_in(2) and math.min(#text, 1024) or #text
    local at = random:below(math.max(1, math.floor(range / #word))) * #word
    if random:once_in(3) then at = at + random:below(8) end
    text = text:sub(1, at) .. word .. text:sub(at + #word + 1)
  end
  return text
end

local function length_of(text)
  local length = 0
  for i = 8, 1, -1 do length = length * 256 + (text:byte(i) or 0) end
  return length
end

--- The header of a safetensors file, or its numbers.
function M.safetensors(text, random)
  local length = length_of(text)
  if length + 8 > #text or random:once_in(5) then return M.bytes(text, random) end
  local header, data = text:sub(9, 8 + length), text:sub(9 + length)
  if random:once_in(3) then
    for _ = 1, 1 + random:below(3) do
      local word = random:pick(words)
      local at = random:below(math.max(1, math.floor(#data / #word))) * #word
      data = data:sub(1, at) .. word .. data:sub(at + #word + 1)
    end
  else
    header = M.json(header, random)
    if not random:once_in(6) then length = #header end
  end
  return little_endian(length, 8) .. header .. data
end

--- A database: texts inside of it are changed to others of the same length, so that its pages stay what they were.
function M.database(text, random)
  if random:once_in(3) then return M.binary(text, random) end
  for _ = 1, 1 + random:below(4) do
    local at = text:find('[%d"{}%[%]:,]', 1 + random:below(#text))
    if at then
      local last = select(2, text:find("^%d+", at)) or at
      local length = last - at + 1
      local word = random:pick { ("9"):rep(length), "-" .. ("1"):rep(length - 1), ("x"):rep(length), ("["):rep(length),
        '"' .. (" "):rep(length - 1), "{" .. ("}"):rep(length - 1), "\27" .. (" "):rep(length - 1) }
      text = text:sub(1, at - 1) .. word .. text:sub(last + 1)
    end
  end
  return text
end

return M
