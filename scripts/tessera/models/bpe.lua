-- Byte-level byte-pair encoding (Sennrich et al. 2016; Radford et al. 2019), learnt from a text and written as Hugging
-- Face's tokenizer.json. Meant for the ASCII texts of tessera.models.grammar.

local M = {}

local specials = { "<s>", "<pad>", "</s>", "<unk>" } -- as OPT numbers them

local function utf8_of(code)
  if code < 0x80 then return string.char(code) end
  return string.char(0xC0 + math.floor(code / 64), 0x80 + code % 64)
end

-- The printable character that stands for each byte in GPT-2's vocabulary: itself, or one from U+0100 on.
local symbol_of, bytes_in_order = {}, {}
do
  local function is_printable(byte)
    return byte >= 33 and byte <= 126 or byte >= 161 and byte <= 172 or byte >= 174
  end
  local others = {}
  for byte = 0, 255 do
    if is_printable(byte) then
      symbol_of[byte] = utf8_of(byte)
      bytes_in_order[#bytes_in_order + 1] = byte
    else
      symbol_of[byte] = utf8_of(0x100 + #others)
      others[#others + 1] = byte
    end
  end
  for _, byte in ipairs(others) do bytes_in_order[#bytes_in_order + 1] = byte end
end

-- The pieces within which pairs are merged, as GPT-2's pattern cuts ASCII text without runs of white space.
local function pieces(text)
  local at = 1
  return function()
    if at > #text then return nil end
    local piece = text:match("^ ?%a+", at) or text:match("^ ?%d+", at) or text:match("^ ?[^%s%w]+", at)
      or text:match("^%s", at)
    at = at + #piece
    return piece
  end
end

local function symbols_of(piece)
  local symbols = {}
  for i = 1, #piece do symbols[i] = symbol_of[piece:byte(i)] end
  return symbols
end

local function merge(symbols, left, right)
  local result, i = {}, 1
  while i <= #symbols do
    if symbols[i] == left and symbols[i + 1] == right then
      result[#result + 1] = left .. right
      i = i + 2
    else
      result[#result + 1] = symbols[i]
      i = i + 1
    end
  end
  return result
end

-- The most frequent pair; of equals the first in the order of bytes.
local function best_pair(words)
  local counts, best = {}, nil
  for _, word in ipairs(words) do
    for i = 1, #word.symbols - 1 do
      local pair = word.symbols[i] .. " " .. word.symbols[i + 1]
      counts[pair] = (counts[pair] or 0) + word.count
    end
  end
  for pair, count in pairs(counts) do
    if not best or count > counts[best] or count == counts[best] and pair < best then best = pair end
  end
  return best
end

local Tokenizer = {}
Tokenizer.__index = Tokenizer

--- Learns merges from a text until there are `vocab_size` tokens, or no pairs: 4 special tokens, 256 bytes, merges.
function M.train(text, vocab_size)
  local counts, words = {}, {}
  for piece in pieces(text) do counts[piece] = (counts[piece] or 0) + 1 end
  for piece, count in pairs(counts) do words[#words + 1] = { symbols = symbols_of(piece), count = count } end
  local self = setmetatable({ tokens = {}, merges = {}, id_of = {}, cache = {} }, Tokenizer)
  for _, special in ipairs(specials) do self:add(special) end
  for _, byte in ipairs(bytes_in_order) do self:add(symbol_of[byte]) end
  while #self.tokens < vocab_size do
    local pair = best_pair(words)
    if not pair then break end
    local left, right = pair:match "^(%S+) (%S+)$"
    self.merges[#self.merges + 1] = { left, right }
    self:add(left .. right)
    for _, word in ipairs(words) do word.symbols = merge(word.symbols, left, right) end
  end
  return self
end

function Tokenizer:add(token)
  self.tokens[#self.tokens + 1] = token
  self.id_of[token] = #self.tokens - 1
end

--- 0-based ids, without special tokens.
function Tokenizer:encode(text)
  local ids = {}
  for piece in pieces(text) do
    local known = self.cache[piece]
    if not known then
      local symbols = symbols_of(piece)
      for _, pair in ipairs(self.merges) do symbols = merge(symbols, pair[1], pair[2]) end
      known = {}
      for i, symbol in ipairs(symbols) do known[i] = self.id_of[symbol] end
      self.cache[piece] = known
    end
    for _, id in ipairs(known) do ids[#ids + 1] = id end
  end
  return ids
end

local function quoted(text) return '"' .. text:gsub('["\\]', "\\%0") .. '"' end

--- tokenizer.json: like OPT's, it puts </s> in front of a text.
function Tokenizer:json()
  local added, vocab, merges = {}, {}, {}
  for i, token in ipairs(specials) do
    added[i] = ('    { "id": %d, "content": %s, "single_word": false, "lstrip": false, "rstrip": false, "normalized": '
      .. 'false, "special": true }'):format(i - 1, quoted(token))
  end
  for i, token in ipairs(self.tokens) do vocab[i] = ("      %s: %d"):format(quoted(token), i - 1) end
  for i, pair in ipairs(self.merges) do merges[i] = "      " .. quoted(pair[1] .. " " .. pair[2]) end
  local byte_level = '"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true'
  return ([[
{
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [
%s
  ],
  "normalizer": null,
  "pre_tokenizer": { %s },
  "post_processor": {
    "type": "TemplateProcessing",
    "single": [
      { "SpecialToken": { "id": "</s>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }
    ],
    "pair": [
      { "SpecialToken": { "id": "</s>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } },
      { "SpecialToken": { "id": "</s>", "type_id": 1 } }, { "Sequence": { "id": "B", "type_id": 1 } }
    ],
    "special_tokens": { "</s>": { "id": "</s>", "ids": [2], "tokens": ["</s>"] } }
  },
  "decoder": { %s },
  "model": {
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": "",
    "end_of_word_suffix": "",
    "fuse_unk": false,
    "byte_fallback": false,
    "vocab": {
%s
    },
    "merges": [
%s
    ]
  }
}
]]):format(table.concat(added, ",\n"), byte_level, byte_level, table.concat(vocab, ",\n"), table.concat(merges, ",\n"))
end

return M
