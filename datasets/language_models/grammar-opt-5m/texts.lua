-- The tokens that train.cpp reads: text of the grammar as 16-bit ids, documents of 1,000 words behind </s>.
--   tessera texts.lua      writes train.ids and held_out.ids, and prints what no model can beat on the second
local ts = require "tessera"
local core = require "tessera.core"
local grammar = require "tessera.models.grammar"

local tokenizer = ts.tokenizer((arg[0]:match "^(.*)/" or ".") .. "/tokenizer.json")
local end_of_text = 2

local function write(path, first_seed, num_words)
  local pieces, seed, words, tokens, surprisal_nats = {}, first_seed, 0, 0, 0
  while words < num_words do
    local text, about = grammar.text(seed, 1000)
    local ids = tokenizer:encode(text, { special = false })
    table.insert(ids, 1, end_of_text)
    for i, id in ipairs(ids) do ids[i] = string.char(id % 256, math.floor(id / 256)) end
    pieces[#pieces + 1] = table.concat(ids)
    seed, words, tokens = seed + 1, words + about.num_words, tokens + #ids
    surprisal_nats = surprisal_nats + about.surprisal_nats
  end
  core.write_file(path, table.concat(pieces))
  print(("%s: %d tokens, %.4f nats a token by the grammar"):format(path, tokens, surprisal_nats / tokens))
end

write("train.ids", 300000, 6500000)
write("held_out.ids", 900000, 60000)
