-- Where choices come from: drawn for a text to write, recognised in a text to read. Both add up what they cost.
--
-- A source answers `pick(choices)` with the key of one of { key =, p =, starts = }, whose first words differ: those in
-- `starts`, or the key itself, or with `otherwise` any but those of the others. `say(word)` is a word without a choice.
-- `surprisal_nats` is the sum of -log p of what was picked, `entropy_nats` that of the entropies of the choices.

local M = {}

-- L'Ecuyer's combined generator (1988), period 2^61: the same numbers wherever Lua's numbers are doubles.
local function generator(seed)
  local a, b = seed % 2147483562 + 1, math.floor(seed / 2147483562) % 2147483398 + 1
  local function uniform()
    a, b = 40014 * a % 2147483563, 40692 * b % 2147483399
    return ((a - b) % 2147483562 + 0.5) / 2147483562
  end
  for _ = 1, 20 do uniform() end -- neighbouring seeds part
  return uniform
end

local function new_source(source)
  source.surprisal_nats, source.entropy_nats = 0, 0
  local function count(choice, choices)
    source.surprisal_nats = source.surprisal_nats - math.log(choice.p)
    source.entropy_nats = source.entropy_nats + choices.entropy
    return choice.key
  end

  function source.pick(choices) return count(source.choose(choices), choices) end

  --- A choice that is itself the word.
  function source.word(choices)
    local word = source.pick(choices)
    source.say(word)
    return word
  end

  --- Whether something follows that begins with one of `starts`.
  function source.maybe(p, starts)
    local entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    return source.pick { { key = true, p = p, starts = starts }, { key = false, p = 1 - p, otherwise = true },
      entropy = entropy }
  end
  return source
end

--- Draws. `words` are those said so far.
function M.writer(seed)
  local uniform, source = generator(seed), { words = {} }
  function source.choose(choices)
    local u, last = uniform(), nil
    for _, choice in ipairs(choices) do
      if choice.p > 0 then
        last, u = choice, u - choice.p
        if u < 0 then break end
      end
    end
    return last
  end
  function source.say(word) source.words[#source.words + 1] = word end
  return new_source(source)
end

--- Recognises the choices behind a list of words, or raises { word_index =, word = }.
function M.reader(words)
  local source, at = {}, 1
  local function fail() error({ word_index = at, word = words[at] or "the end" }, 0) end
  function source.choose(choices)
    local word = words[at]
    for _, choice in ipairs(choices) do
      local fits = choice.otherwise or choice.key == word
      if choice.starts then fits = choice.starts[word] end
      if fits and choice.p > 0 then return choice end
    end
    fail()
  end
  function source.say(word)
    if words[at] ~= word then fail() end
    at = at + 1
  end
  function source.done() return at > #words end
  return new_source(source)
end

return M
