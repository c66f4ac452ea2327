-- Words of shell commands: quoted so that nothing in them is special, and read back.

local M = {}

--- The word as a shell reads it back, whatever is in it. { variable = "HOST_0", before =, after = } is what a variable
--- holds then, with text around it.
function M.quote(word)
  if type(word) == "table" then
    return ('%s"$%s"%s'):format(word.before and M.quote(word.before) or "", word.variable,
      word.after and M.quote(word.after) or "")
  end
  word = tostring(word)
  if word:find "^[%w_@%%+=:,./%-]+$" then return word end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

--- A command over lines: the words that start it, then an option and its value on each line.
function M.command(start, options)
  local words = {}
  for i, word in ipairs(start) do words[i] = M.quote(word) end
  local lines = { table.concat(words, " ") }
  for _, option in ipairs(options) do
    local parts = {}
    for i = 1, #option do parts[i] = M.quote(option[i]) end
    lines[#lines + 1] = table.concat(parts, " ")
  end
  return table.concat(lines, " \\\n  ")
end

-- One piece of a word that starts at `at`: its text and what follows it.
local function piece(text, at)
  local c = text:sub(at, at)
  if c == "'" then
    local stop = text:find("'", at + 1, true)
    if not stop then return nil end
    return text:sub(at + 1, stop - 1), stop + 1
  elseif c == '"' then
    local stop = text:find('"', at + 1, true)
    if not stop then return nil end
    return text:sub(at + 1, stop - 1), stop + 1
  elseif c == "\\" then
    return text:sub(at + 1, at + 1), at + 2
  end
  return c, at + 1
end

--- The words of one command as `command` writes it; variables stay as "$NAME". nil where a quote is open.
function M.words(text)
  local words, word, at = {}, nil, 1
  while at <= #text do
    local continued = text:sub(at, at + 1) == "\\\n"
    if continued or text:find("^%s", at) then
      if word then words[#words + 1], word = word, nil end
      at = at + (continued and 2 or 1)
    else
      local part
      part, at = piece(text, at)
      if not part then return nil end
      word = (word or "") .. part
    end
  end
  if word then words[#words + 1] = word end
  return words
end

--- The command of a script that starts with `start` ("exec vllm serve"), continued lines and all, and the variables
--- that it exports: words, { [name] = value }. nil where there is none.
function M.read_script(text, start)
  local variables, command, open = {}, nil, false
  for line in (text .. "\n"):gmatch "(.-)\n" do
    local name, value = line:match "^export ([%w_]+)=(.*)$"
    if name then variables[name] = (M.words(value) or {})[1] end
    if line:sub(1, #start) == start and not command then
      command, open = "", true
    end
    if open then
      command = command .. line .. "\n"
      open = line:sub(-1) == "\\"
    end
  end
  return command and M.words(command), variables
end

return M
