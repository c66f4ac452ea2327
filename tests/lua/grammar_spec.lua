-- tessera.models.grammar: texts of known entropy.
local grammar = require "tessera.models.grammar"
local lexicon = require "tessera.models.grammar.lexicon"
local raises = require("support").raises

describe("tessera.models.grammar", function()
  it("writes the same text for a seed", function()
    local text, about = grammar.text(11, 500)
    assert.equal(text, (grammar.text(11, 500)))
    assert.not_equal(text, (grammar.text(12, 500)))
    assert.is_true(about.num_words >= 500 and about.num_words < 900)
    assert.equal("\n", text:sub(-1))
  end)

  it("recognises in a text the choices that wrote it", function()
    for seed = 1, 200 do
      local text, about = grammar.text(seed, 400)
      assert.same(about, grammar.entropy(text), "seed " .. seed)
    end
  end)

  it("adds up over paragraphs", function()
    local first, about_first = grammar.text(3, 100)
    local second, about_second = grammar.text(4, 100)
    local both = grammar.entropy(first .. second)
    assert.near(about_first.surprisal_nats + about_second.surprisal_nats, both.surprisal_nats, 1e-9)
  end)

  it("has a surprisal whose mean is the entropy", function()
    local differences, sum, squares = 400, 0, 0
    for seed = 1, differences do
      local _, about = grammar.text(1000 + seed, 200)
      local difference = about.surprisal_nats - about.entropy_nats
      sum, squares = sum + difference, squares + difference * difference
    end
    local mean = sum / differences
    local deviation = math.sqrt((squares / differences - mean * mean) / differences)
    assert.is_true(math.abs(mean) < 4 * deviation, ("%g is not 0 within 4 times %g"):format(mean, deviation))
  end)

  local opening = "Once, Anna had a red boat and Carl had a small bell. "

  it("prices a word by its frequency", function()
    local function nats(text) return grammar.entropy(opening .. text .. "\n").surprisal_nats end
    local rest = " He worked. She waited. Anna worked."
    rest = rest:gsub("She", "He")
    local adverbs = lexicon.adverbs
    local first, tenth = "Carl " .. adverbs[1] .. " worked.", "Carl " .. adverbs[10] .. " worked."
    assert.near(math.log((10 + 1.7) / (1 + 1.7)), nats(tenth .. rest) - nats(first .. rest), 1e-9)
  end)

  it("refuses what it would not write, and says where", function()
    local function refused(text, message)
      raises("invalid_argument", message, function() grammar.entropy(text) end)
    end
    local rest = " Anna worked. Carl worked. Anna worked.\n"
    assert.is_table(grammar.entropy(opening .. "Carl worked." .. rest))
    refused(opening .. "Carl work." .. rest, 'word 16, "work"') -- agreement
    refused(opening .. "Carl barked." .. rest, '"barked"') -- what dogs do
    refused(opening .. "The dogs that Carl sees was red." .. rest, '"sees"') -- tense
    refused(opening .. "Maria worked." .. rest, '"Maria"') -- nobody introduced her
    refused(opening .. "It was Anna who had the red bell." .. rest, '"bell"') -- that is Carl's
    refused(opening .. "Carl worked. She worked." .. rest, '"she"') -- the last one named is Carl
    refused(opening .. "Carl worked", "the end")
    refused(opening .. "carl worked." .. rest, "capitalised")
    refused("", "the end")
  end)

  it("keeps words of different kinds apart", function()
    local kind_of = {}
    local function add(kind, words)
      for _, word in ipairs(words) do
        local key = type(word) == "table" and word.key or word
        kind_of[key] = kind_of[key] or kind
        assert.equal(kind, kind_of[key], key)
      end
    end
    add("name", lexicon.women)
    add("name", lexicon.men)
    add("place", lexicon.places)
    add("adjective", lexicon.adjectives)
    add("adverb", lexicon.adverbs)
    add("preposition", lexicon.prepositions)
    add("noun", lexicon.noun.both.any)
    for _, class in ipairs(lexicon.classes) do
      for _, form in ipairs { "base", "singular", "past" } do
        add("intransitive verb", lexicon.intransitive[class][form])
        add("transitive verb", lexicon.transitive[class][form])
        add("cognitive verb", lexicon.cognitive[form])
      end
    end
    add("mark", { "and", "nor", "both", "neither", "there", "it", "who", "that", "of", "he", "she", "his", "her" })
    for _, adjective in ipairs(lexicon.adjectives) do assert.not_matches("^[aeiou]", adjective) end -- after "a"
    for _, choice in ipairs(lexicon.noun.both.any) do assert.not_matches("^[aeiou]", choice.key) end
  end)
end)
