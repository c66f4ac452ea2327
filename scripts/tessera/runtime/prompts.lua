-- What is to be answered, as the runtime takes it: token ids, lengths and seeds.

local core = require "tessera.core"
local options = require "tessera.options"

local M = {}

local read = options.reader("ts.execute.prompts", {
  { name = "prompt", type = "string", doc = "Text" },
  { name = "tokens", type = "integers", min = 0, max = 2147483647, doc = "Or its token ids" },
  { name = "max_tokens", type = "integer", min = 1, max = 2147483647, doc = "Of its answer" },
  { name = "seed", type = "integer", min = 0, max = 9007199254740991, doc = "Of its draws" },
  { name = "id", type = "any", doc = "Name that its answer bears" },
})

-- One prompt as a table of its own.
local function item_of(given, path)
  if type(given) == "string" then return { prompt = given } end
  if type(given) ~= "table" then
    core.refuse(path, ("a text, a list of token ids or a table belongs here, not a %s"):format(type(given)))
  end
  if given[1] ~= nil then return { tokens = given } end
  return given
end

-- Raises for a prompt that the plan's cache of `limit` tokens a request has no room for, with its answer.
local function check_room(prompt, limit, path)
  local length = #prompt.tokens
  if not limit or length + prompt.max_tokens <= limit then return end
  local of_cache = ("the %d that the plan's cache has for a request (its workload's longest prompt and output)"):format(
    limit)
  if length >= limit then
    core.refuse(path, ("%d tokens of prompt leave no room for an answer in %s; shorten the prompt, or plan with a "
      .. "longer one (--prompt-tokens %d, prompt_tokens = %d)"):format(length, of_cache, length, length))
  end
  core.refuse(path, ("%d tokens of prompt and %d of answer are more than %s; plan with longer ones, or give "
    .. "--max-tokens %d (max_tokens = %d)"):format(length, prompt.max_tokens, of_cache, limit - length, limit - length))
end

-- Where the prompts of a list came from: "questions.jsonl:3".
local places = setmetatable({}, { __mode = "k" })

--- { tokens =, max_tokens =, seed =, id = } of each. @param asked table max_tokens, seed, limit (of prompt and answer
--- together, or nil) and limit_name
function M.of(list, tokenizer, asked)
  options.list(list, "ts.execute.prompts", "a list of prompts")
  if #list == 0 then core.refuse("ts.execute.prompts", "the list is empty; give a text at least") end
  local prompts = {}
  for i, given in ipairs(list) do
    local path = places[list] and places[list][i] or ("ts.execute.prompts[%d]"):format(i)
    local item = read(item_of(given, path), path)
    if (item.prompt == nil) == (item.tokens == nil) then
      core.refuse(path, "give either prompt, a text, or tokens, its ids")
    end
    local prompt = {
      tokens = item.tokens or tokenizer:encode(item.prompt),
      max_tokens = item.max_tokens or asked.max_tokens,
      seed = item.seed or asked.seed + i - 1, -- prompt i (from 0) draws by seed + i
      id = item.id,
    }
    if #prompt.tokens == 0 then core.refuse(path, "it has no token") end
    check_room(prompt, asked.limit, path)
    prompts[i] = prompt
  end
  return prompts
end

--- Prompts of a file: one a line; of .jsonl a table a line.
function M.of_file(path)
  local list, number = {}, 0
  places[list] = {}
  local text = core.read_file(path):gsub("^\239\187\191", "") -- the mark of UTF-8 that some editors set
  for line in (text .. "\n"):gmatch "(.-)\r?\n" do
    number = number + 1
    if line:match "%S" then
      local where = ("%s:%d"):format(path, number)
      if path:match "%.jsonl$" then
        local ok, item = pcall(core.from_json, line)
        if not ok then core.refuse(where, core.error_text(item)) end
        if type(item) ~= "table" or item[1] ~= nil then
          core.refuse(where, "an object with prompt or tokens belongs here")
        end
        list[#list + 1] = item
      else
        list[#list + 1] = line
      end
      places[list][#list] = where
    end
  end
  if #list == 0 then core.refuse(path, "there is no prompt in it") end
  return list
end

return M
