-- The words of the grammar and how often each is chosen: by Zipf's law in the order in which they are listed.

local M = {}

local function list(text)
  local words = {}
  for word in text:gmatch "%S+" do words[#words + 1] = word end
  return words
end

--- Choices with probabilities: items { key =, p = }, `by_key`, and their entropy in nats.
function M.distribution(weights)
  local total, entropy, result = 0, 0, { by_key = {} }
  for _, item in ipairs(weights) do total = total + item[2] end
  for i, item in ipairs(weights) do
    local p = item[2] / total
    result[i] = { key = item[1], p = p }
    result.by_key[item[1]] = p
    if p > 0 then entropy = entropy - p * math.log(p) end
  end
  result.entropy = entropy
  return result
end

--- Weights by rank, in all `share`. The offset keeps the first word from taking a third of all.
function M.zipf(words, share)
  local weights, total = {}, 0
  for rank in ipairs(words) do total = total + 1 / (rank + 1.7) end
  for rank, word in ipairs(words) do weights[rank] = { word, (share or 1) / (rank + 1.7) / total } end
  return weights
end

local function joined(...)
  local all = {}
  for _, weights in ipairs { ... } do
    for _, item in ipairs(weights) do all[#all + 1] = item end
  end
  return all
end

local function map(words, fn)
  local result = {}
  for i, word in ipairs(words) do result[i] = fn(word) end
  return result
end

local function plural(word) return word .. "s" end

-- base, third person, past; a word alone is regular
local function verb(text)
  local base, third, past = text:match "^(%a+)/(%a+)/(%a+)$"
  if base then return { base = base, singular = third, past = past } end
  return { base = text, singular = text .. "s", past = text .. (text:match "e$" and "d" or "ed") }
end

M.women = list "Anna Clara Maria Emma Nora Julia Laura Greta Hanna Petra Dora Karin"
M.men = list "David Carl Martin Adam Erik Felix Henry Jakob Boris Konrad Georg Ludwig"

local nouns = {
  person = list [[king doctor boy girl teacher farmer queen soldier painter sailor baker judge lawyer driver merchant
    hunter poet clerk monk guest]],
  animal = list "dog cat horse bird cow bear lion rabbit goat frog monkey snake duck hen crow whale tiger spider",
  thing = list [[boat house book table door lamp chair letter clock ring picture hat bottle bell coat basket mirror
    wheel candle ladder drum kettle pillow blanket carpet hammer needle rope bucket]],
}
M.places = list "city river park village forest garden market church bridge castle harbour station valley mountain"

M.adjectives = list [[small red new black white blue young green dark happy strong strange heavy bright famous quiet
  yellow brown poor rich tired lazy hungry dusty broken clever gentle proud]]
M.adverbs = list "often never always sometimes slowly rarely quickly still seldom gladly"
M.prepositions = list "in near behind beside under"

local intransitive = {
  person = list "work talk wait laugh sing/sings/sang walk smile dance rest travel listen shout",
  animal = list "sleep/sleeps/slept jump play bark climb roar growl howl crawl eat/eats/ate",
  thing = list "fall/falls/fell move burn crack float turn glow roll rattle creak",
}
local transitive = {
  person = list "see/sees/saw like help want follow visit need paint remember invite thank count clean",
  animal = list "chase bite/bites/bit guard fear attack smell lick hunt warn",
  thing = list "cover block support damage surround resemble protect conceal hide/hides/hid",
}
local cognitive = list "say/says/said think/thinks/thought know/knows/knew believe hope claim doubt dream"

M.classes = { "person", "animal", "thing" }
M.class_of = {} -- of a noun, singular or plural
M.number_of = {} -- of a noun: "singular" or "plural"
for class, words in pairs(nouns) do
  for _, word in ipairs(words) do
    M.class_of[word], M.class_of[plural(word)] = class, class
    M.number_of[word], M.number_of[plural(word)] = "singular", "plural"
  end
end

-- noun[number][class or "any"]; number is "singular", "plural" or, after "the", "both"
M.noun = { singular = {}, plural = {}, both = {} }
local class_share = { person = 0.45, animal = 0.25, thing = 0.3 }
for _, wanted in ipairs { "person", "animal", "thing", "any" } do
  local forms = { singular = {}, plural = {} }
  for _, class in ipairs(M.classes) do
    -- a verb prefers objects of a class and takes others
    local share = 0.3 * class_share[class] + (wanted == class and 0.7 or 0)
    if wanted == "any" then share = class_share[class] end
    forms.singular = joined(forms.singular, M.zipf(nouns[class], share))
    forms.plural = joined(forms.plural, M.zipf(map(nouns[class], plural), share))
  end
  M.noun.singular[wanted] = M.distribution(forms.singular)
  M.noun.plural[wanted] = M.distribution(forms.plural)
  for _, item in ipairs(forms.singular) do item[2] = item[2] * 2 end
  M.noun.both[wanted] = M.distribution(joined(forms.singular, forms.plural))
end

local function forms_of(words)
  local verbs, result = map(words, verb), {}
  for _, form in ipairs { "base", "singular", "past" } do
    result[form] = M.distribution(M.zipf(map(verbs, function(v) return v[form] end)))
  end
  result.plural = result.base
  return result
end

M.object_class = {} -- of a transitive verb in any of its forms
M.intransitive, M.transitive, M.cognitive = {}, {}, forms_of(cognitive)
for _, class in ipairs(M.classes) do
  M.intransitive[class] = forms_of(intransitive[class])
  M.transitive[class] = forms_of(transitive[class])
  for i, text in ipairs(transitive[class]) do
    for _, form in pairs(verb(text)) do M.object_class[form] = M.classes[i % 3 + 1] end
  end
end

M.owned = nouns.thing
M.determiner_number = {
  the = "both", a = "singular", every = "singular", this = "singular", some = "plural", many = "plural",
  these = "plural", two = "plural", three = "plural",
}
M.determiners = M.distribution {
  { "the", 8 }, { "a", 4 }, { "some", 2 }, { "every", 1.5 }, { "many", 1.2 }, { "this", 1 }, { "two", 1 },
  { "these", 0.8 }, { "three", 0.5 },
}

return M
