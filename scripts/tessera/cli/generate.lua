-- `tessera generate`: a text continued token by token on stdout; how fast on stderr.

local core = require "tessera.core"
local flags = require "tessera.cli.flags"
local host = require "tessera.host"
local lm = require "tessera.lm"
local on_disk = require "tessera.cli.on_disk"
local tables = require "tessera.options"
local terminal = require "tessera.terminal"
local ts = require "tessera"

local M = {}

local interrupted_status = 130

local function prompt_of(given)
  local text = given.names[2]
  if text == nil then
    core.raise("usage", "give a text to continue behind the model, or - to read one from stdin", "tessera generate")
  end
  return text == "-" and core.read_file "/dev/stdin" or text
end

-- The prompt as the model reads it: a text, or with --chat the tokens of a chat in its template.
local function asked_of(model, prompt, given, path)
  for _, name in ipairs { "system", "chat_template" } do
    if given[name] and not given.chat then
      local flag = flags.name(name)
      core.raise("usage", flag .. ": it belongs to --chat", flag)
    end
  end
  if not given.chat then return prompt end
  local messages = { { role = "user", content = prompt } }
  if given.system then table.insert(messages, 1, { role = "system", content = given.system }) end
  local text = lm.chat_prompt(path, core.to_json(messages), given.chat_template)
  return model.tokenizer:encode(text, { special = false }) -- the template begins the text itself
end

local function rate(tokens, seconds)
  return seconds > 0 and (", %.1f tok/s"):format(tokens / seconds) or ""
end

--- "9 tokens of prompt in 0.02 s, 450 tok/s; 20 tokens in 0.31 s, 64 tok/s; ended by max_tokens"
local function speed_text(model, result)
  local parts = { ("%d tokens of prompt in %.3g s%s"):format(result.prompt_tokens, result.prompt_s,
    rate(result.prompt_tokens, result.prompt_s)) }
  if result.ttft_s then parts[#parts + 1] = ("first token after %.3g s"):format(result.ttft_s) end
  if result.tpot_s then
    parts[#parts + 1] = ("then %.3g ms a token, %.1f tok/s"):format(1000 * result.tpot_s, 1 / result.tpot_s)
  end
  parts[#parts + 1] = ("%d tokens, ended by %s"):format(#result.tokens, result.stop_reason)
  return ("%s\n%s\n"):format(tostring(model), table.concat(parts, "; "))
end

--- @param given table the flags; names: the model and the prompt
function M.main(given)
  local path = on_disk.path(given, "tessera generate", 2, ", then a text to continue")
  local prompt = prompt_of(given)
  local model = ts.language_model(on_disk.options(given, path, { seed = true }))
  local options = tables.of_flags(given, "lm:generate")
  if not host.json then
    options.on_token = function(piece)
      terminal.out:write(piece)
      terminal.out:flush()
    end
  end
  local asked = asked_of(model, prompt, given, path)
  host.poll_interrupts(true)
  local ok, result = pcall(model.generate, model, asked, options)
  host.poll_interrupts(false)
  if not ok then error(result, 0) end
  if host.json then
    host.set_result(result)
  else
    terminal.out:write "\n"
  end
  terminal.err:write(speed_text(model, result))
  return result.stop_reason == "interrupted" and interrupted_status or 0
end

return M
