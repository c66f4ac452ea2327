-- The flags of a verb in words, from the table that parses them.

local M = {}

--- "--prompt-tokens" for "prompt_tokens".
function M.name(option) return "--" .. option:gsub("_", "-") end

--- Of each option of a verb: { flag = "--rate", value = "RATE" or "" for none, said = what it is }.
function M.of(options)
  local list = {}
  for i, option in ipairs(options) do
    local value = ""
    if option.choices then
      value = table.concat(option.choices, "|")
    elseif option.type ~= "boolean" then
      value = option.name:match "[^_]+$":upper()
    end
    local unit = option.unit ~= "" and (" (%s)"):format(option.unit) or ""
    local default = option.default and (" (default %s)"):format(option.default) or ""
    list[i] = { flag = M.name(option.name), value = value, said = option.doc .. unit .. default }
  end
  return list
end

--- Names of the verbs that usage, which is what `tessera` says without a word, lists.
function M.verbs(usage)
  local verbs = {}
  for name in usage:gmatch "\n *tessera (%l+)" do verbs[#verbs + 1] = name end
  return verbs
end

return M
