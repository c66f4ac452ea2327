-- The rules of the grammar: what may follow, how often, and which first words tell it apart.

local lexicon = require "tessera.models.grammar.lexicon"

local function set(text)
  local result = {}
  for word in text:gmatch "%S+" do result[word] = true end
  return result
end

local function union(...)
  local result = {}
  for _, words in ipairs { ... } do
    for word in pairs(words) do result[word] = true end
  end
  return result
end

--- { key, p, starts } triples, scaled to a sum of 1; those with p = 0 drop out.
local function branches(triples)
  local weights, starts = {}, {}
  for _, triple in ipairs(triples) do
    if triple[2] > 0 then
      weights[#weights + 1] = triple
      starts[#starts + 1] = triple[3] or false
    end
  end
  local result = lexicon.distribution(weights)
  for i, choice in ipairs(result) do choice.starts = starts[i] or nil end
  return result
end

local sets = setmetatable({}, { __mode = "k" })

--- The words of a distribution.
local function words_of(distribution)
  local result = sets[distribution]
  if not result then
    result = {}
    for _, choice in ipairs(distribution) do result[choice.key] = true end
    sets[distribution] = result
  end
  return result
end

local function without(weights, used)
  local rest = {}
  for _, item in ipairs(weights) do
    if not used[item[1]] then rest[#rest + 1] = item end
  end
  return lexicon.distribution(rest)
end

local zipf, distribution = lexicon.zipf, lexicon.distribution
local adjectives, adverbs = distribution(zipf(lexicon.adjectives)), distribution(zipf(lexicon.adverbs))
local places, prepositions = distribution(zipf(lexicon.places)), distribution(zipf(lexicon.prepositions))
local openers = distribution { { "today", 3 }, { "now", 1 }, { "once", 2.5 }, { "yesterday", 1.5 } }
local tense_of = { today = "present", now = "present", once = "past", yesterday = "past" }
local adverb_words, adjective_words = words_of(adverbs), words_of(adjectives)
local preposition_words, determiner_words = words_of(prepositions), words_of(lexicon.determiners)
local owned = zipf(lexicon.owned)
local names, pronoun_of, possessive_of = {}, {}, {}
for i, name in ipairs(lexicon.women) do
  names[2 * i - 1], names[2 * i] = name, lexicon.men[i]
  pronoun_of[name], pronoun_of[lexicon.men[i]] = "she", "he"
  possessive_of[name], possessive_of[lexicon.men[i]] = "her", "his"
end
local name_words = set(table.concat(names, " "))
local singular_determiners, plural_determiners = {}, {}
for _, choice in ipairs(lexicon.determiners) do
  local number = lexicon.determiner_number[choice.key]
  if number ~= "plural" then singular_determiners[#singular_determiners + 1] = { choice.key, choice.p } end
  if number ~= "singular" then plural_determiners[#plural_determiners + 1] = { choice.key, choice.p } end
end
local determiners = {
  both = lexicon.determiners, singular = distribution(singular_determiners), plural = distribution(plural_determiners),
}
local noun_phrase_starts = union(name_words, determiner_words, set "he she his her")
local copulas = { present = { singular = "is", plural = "are" }, past = { singular = "was", plural = "were" } }
local relative_depth, clause_depth = 2, 2

-- Rules: s is the source, t the story: tense, people, the last person named -----------------------------------------

local noun_phrase, verb_phrase, clause

local function person(s, t)
  local weights = {}
  for i, someone in ipairs(t.people) do weights[i] = { someone.name, someone == t.last and 1 or 2 } end
  local name = s.word(distribution(weights))
  for _, someone in ipairs(t.people) do
    if someone.name == name then t.last = someone end
  end
  return { number = "singular", class = "person", reflexive = pronoun_of[name] == "she" and "herself" or "himself" }
end

local function pronoun(s, t)
  s.say(pronoun_of[t.last.name])
  return { number = "singular", class = "person",
    reflexive = pronoun_of[t.last.name] == "she" and "herself" or "himself" }
end

local function possession(s, t)
  s.say(possessive_of[t.last.name])
  if s.maybe(0.3, { [t.last.adjective] = true }) then s.say(t.last.adjective) end
  s.say(t.last.noun)
  return { number = "singular", class = "thing", reflexive = "itself" }
end

local relative_kinds = branches { { "object", 0.5, noun_phrase_starts }, { "subject", 0.5 } }
relative_kinds[2].otherwise = true

local function common(s, t, options)
  local determiner = s.word(determiners[options.number or "both"])
  local number = lexicon.determiner_number[determiner]
  if options.number and number == "both" then number = options.number end
  if s.maybe(0.28, adjective_words) then s.word(adjectives) end
  local noun = s.word(lexicon.noun[number][options.class or "any"])
  local head = { number = lexicon.number_of[noun], class = lexicon.class_of[noun] }
  head.reflexive = head.number == "plural" and "themselves" or "itself"
  if s.maybe(0.1, { of = true }) then
    s.say "of"
    s.say "the"
    s.word(places)
  end
  local mark = head.class == "person" and "who" or "that"
  if options.depth < relative_depth and s.maybe(0.16, { [mark] = true }) then
    s.say(mark)
    if s.pick(relative_kinds) == "subject" then
      verb_phrase(s, t, head, { relative = true, depth = options.depth + 1 })
    else
      local subject = noun_phrase(s, t, { depth = options.depth + 1 })
      local form = t.tense == "past" and "past" or subject.number
      s.word(lexicon.transitive[subject.class][form])
    end
  end
  return head
end

--- options: number wanted, class preferred, depth of relative clauses, subject whose reflexive may stand here
function noun_phrase(s, t, options)
  local is_singular = options.number ~= "plural"
  local people, last = {}, t.last
  for _, someone in ipairs(t.people) do people[someone.name] = true end
  local may_follow = is_singular and last
  local kind = s.pick(branches {
    { "common", 0.5, determiner_words },
    { "person", is_singular and 0.27 or 0, people },
    { "pronoun", may_follow and not options.subject and 0.14 or 0, last and { [pronoun_of[last.name]] = true } },
    { "possession", may_follow and 0.09 or 0, last and { [possessive_of[last.name]] = true } },
    { "reflexive", options.subject and 0.07 or 0, options.subject and { [options.subject.reflexive] = true } },
  })
  if kind == "common" then return common(s, t, options) end
  if kind == "person" then return person(s, t) end
  if kind == "pronoun" then return pronoun(s, t) end
  if kind == "possession" then return possession(s, t) end
  s.say(options.subject.reflexive)
  return options.subject
end

local function place(s)
  s.word(prepositions)
  s.say "the"
  s.word(places)
end

--- options: relative (nothing that could as well belong to what is outside), base (after "does"), depth
function verb_phrase(s, t, subject, options)
  local form = options.base and "base" or t.tense == "past" and "past" or subject.number
  local be = not options.base and copulas[t.tense][subject.number]
  if s.maybe(0.12, adverb_words) then s.word(adverbs) end
  local transitive, intransitive = lexicon.transitive[subject.class][form], lexicon.intransitive[subject.class][form]
  local may_report = subject.class == "person" and not options.relative and options.depth < clause_depth
  local kind = s.pick(branches {
    { "transitive", 0.42, words_of(transitive) },
    { "intransitive", 0.28, words_of(intransitive) },
    { "be", be and 0.16 or 0, be and { [be] = true } },
    { "report", may_report and 0.14 or 0, words_of(lexicon.cognitive[form]) },
  })
  if kind == "report" then
    s.word(lexicon.cognitive[form])
    s.say "that"
    return clause(s, t, options.depth + 1)
  elseif kind == "be" then
    s.say(be)
    s.word(adjectives)
    return
  elseif kind == "intransitive" then
    s.word(intransitive)
  else
    local verb = s.word(transitive)
    noun_phrase(s, t, { class = lexicon.object_class[verb], depth = options.depth, subject = subject })
  end
  if not options.relative and s.maybe(0.18, preposition_words) then place(s) end
end

function clause(s, t, depth) verb_phrase(s, t, noun_phrase(s, t, { depth = depth }), { depth = depth }) end

local rules = {}

function rules.statement(s, t)
  clause(s, t, 0)
  s.say "."
end

function rules.condition(s, t)
  s.word(distribution { { "when", 2 }, { "if", 1 } })
  clause(s, t, 1)
  s.say ","
  clause(s, t, 1)
  s.say "."
end

function rules.question(s, t)
  local number
  if t.tense == "past" then
    s.say "did"
  else
    number = s.word(distribution { { "does", 2 }, { "do", 1 } }) == "does" and "singular" or "plural"
  end
  verb_phrase(s, t, noun_phrase(s, t, { number = number, depth = 1 }), { base = true, depth = 1 })
  s.say "?"
end

function rules.existence(s, t)
  s.say "there"
  local number = s.pick(branches {
    { "singular", 2, { [copulas[t.tense].singular] = true } }, { "plural", 1, { [copulas[t.tense].plural] = true } },
  })
  s.say(copulas[t.tense][number])
  common(s, t, { number = number, depth = 1 })
  place(s)
  s.say "."
end

--- The second of two says what both can do.
function rules.pair(s, t)
  local link = s.word(distribution { { "both", 2 }, { "neither", 1 } }) == "both" and "and" or "nor"
  noun_phrase(s, t, { depth = 1 })
  s.say(link)
  local second = noun_phrase(s, t, { depth = 1 })
  verb_phrase(s, t, { class = second.class, number = link == "and" and "plural" or second.number,
    reflexive = link == "and" and "themselves" or second.reflexive }, { depth = 1 })
  s.say "."
end

function rules.recall(s, t)
  s.say "it"
  s.say(copulas[t.tense].singular)
  person(s, t)
  s.say "who"
  s.say(t.tense == "past" and "had" or "has")
  s.say "the"
  s.say(t.last.adjective)
  s.say(t.last.noun)
  s.say "."
end

local sentences = branches {
  { "statement", 0.58, noun_phrase_starts }, { "condition", 0.1, set "when if" },
  { "question", 0.09, set "does do did" }, { "existence", 0.08, set "there" },
  { "pair", 0.08, set "both neither" }, { "recall", 0.07, set "it" },
}

local function introduction(s, t)
  local used = {}
  local function introduce()
    local someone = { name = s.word(without(zipf(names), used)) }
    s.say(t.tense == "past" and "had" or "has")
    s.say "a"
    someone.adjective = s.word(adjectives)
    someone.noun = s.word(without(owned, used))
    used[someone.name], used[someone.noun] = true, true
    t.people[#t.people + 1] = someone
  end
  introduce()
  if s.maybe(0.4, { [","] = true }) then
    s.say ","
    introduce()
  end
  s.say "and"
  introduce()
  s.say "."
end

local function paragraph(s)
  local opener = s.word(openers)
  local t = { tense = tense_of[opener], people = {} }
  s.say ","
  introduction(s, t)
  local count = 0
  repeat
    rules[s.pick(sentences)](s, t)
    count = count + 1
  until count >= 3 and s.maybe(0.2, { ["\n"] = true })
  s.say "\n"
end

return { paragraph = paragraph, is_name = name_words }
