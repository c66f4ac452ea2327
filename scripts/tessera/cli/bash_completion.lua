-- What completes the command line in bash: verbs, their flags, and what a flag or a verb takes where that is known.
-- Elsewhere bash completes the names of files, as ever.

local core = require "tessera.core"
local flags = require "tessera.cli.flags"
local man = require "tessera.cli.man"

local M = {}

local head = [[
# Completes the command line of tessera; written by it when it was built.
_tessera() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} words=
  if [ "$COMP_CWORD" -eq 1 ]; then
    words=%q
  else
    case "$verb $previous $word" in
]]

local tail = [[
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _tessera tessera
]]

local function case(pattern, words)
  return ("      %s) words=%q ;;\n"):format(pattern, table.concat(words, " "))
end

-- What a verb or a flag takes, where its names ship.
local function known_words()
  local models = core.names "models"
  return { man = man.topics(), support = models, ["--model"] = models, ["--cluster"] = core.names "clusters" }
end

--- The script. usage: what `tessera` says without a word; cards: of its host.
function M.text(usage, cards)
  local verbs, words_of, cases = flags.verbs(usage), known_words(), {}
  for _, verb in ipairs(verbs) do
    local card, names = cards.options["tessera " .. verb], {}
    for i, option in ipairs(card and card.options or {}) do
      names[i] = flags.name(option.name)
      local values = option.choices or words_of[names[i]]
      if values then cases[#cases + 1] = case(('"%s %s "*'):format(verb, names[i]), values) end
    end
    names[#names + 1], names[#names + 2] = "--json", "--help"
    cases[#cases + 1] = case(('"%s "*" -"*'):format(verb), names)
    if words_of[verb] then cases[#cases + 1] = case(('"%s "*'):format(verb), words_of[verb]) end
  end
  return head:format(table.concat(verbs, " ")) .. table.concat(cases) .. tail
end

return M
