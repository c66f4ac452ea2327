-- Texts of known entropy: a probabilistic grammar in which the next word tells which choice was made.
--
-- That makes it unambiguous, and the probability of a text the product of those of its choices. The same rules write a
-- text (choices are drawn) and read one (choices are recognised), and both add up -log p. No model gives text of the
-- grammar a lower expected loss: exp(nats / tokens) bounds the perplexity.
--
-- A paragraph sets its tense with the first word, introduces two or three people with something that each of them owns,
-- and then tells about them and others: verbs agree with subjects across relative clauses in number and in what such a
-- thing can do, clauses nest, pronouns follow the last person named, and what someone owns keeps its name.

local core = require "tessera.core"
local rules = require "tessera.models.grammar.rules"
local source = require "tessera.models.grammar.source"

local M = {}

local closes = { ["."] = true, ["?"] = true, ["\n"] = true } -- the next word is written large

local function written(words)
  local parts, before = {}, "\n"
  for _, word in ipairs(words) do
    local shown = closes[before] and word:gsub("^%l", string.upper) or word
    local is_mark = word == "\n" or word == "," or word == "." or word == "?"
    parts[#parts + 1] = (is_mark or before == "\n") and shown or " " .. shown
    before = word
  end
  return table.concat(parts)
end

local function read(text)
  local words, before = {}, "\n"
  for letters, mark in text:gmatch "([^ ,.?\n]*)([ ,.?\n]?)" do
    if letters ~= "" then
      local is_large = closes[before] and not rules.is_name[letters]
      words[#words + 1] = is_large and letters:gsub("^%u", string.lower) or letters
      before = letters
    end
    if mark ~= "" and mark ~= " " then
      words[#words + 1], before = mark, mark
    end
  end
  return words
end

--- A text of whole paragraphs, at least `num_words` words long, punctuation counted; and what `entropy` says of it.
function M.text(seed, num_words)
  local s = source.writer(seed)
  repeat rules.paragraph(s) until #s.words >= num_words
  return written(s.words), { surprisal_nats = s.surprisal_nats, entropy_nats = s.entropy_nats, num_words = #s.words }
end

--- What the grammar says of a text of whole paragraphs, as `text` returns it. surprisal_nats is -log p of the text (the
--- number of its paragraphs is given): what no model can beat on average. entropy_nats adds up the entropies of the
--- choices instead: it has the same mean and varies less. An error names the first word that is not allowed.
function M.entropy(text)
  local words = read(text)
  if written(words) ~= text then core.refuse("text", "it is not spaced or capitalised as the grammar does it") end
  local s = source.reader(words)
  local ok, why = pcall(function()
    repeat rules.paragraph(s) until s.done()
  end)
  if not ok then
    if type(why) ~= "table" then error(why, 0) end
    core.refuse("text", ("word %d, %q, is none that the grammar allows there"):format(why.word_index, why.word))
  end
  return { surprisal_nats = s.surprisal_nats, entropy_nats = s.entropy_nats, num_words = #words }
end

return M
