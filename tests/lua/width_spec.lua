-- What the program prints of itself at 80 columns: no line is longer, whatever one asks for, and no word is cut.
local host = require "tessera.host"
local terminal = require "tessera.terminal"
local ts = require "tessera"

local columns = 80

-- Lines that are longer, with what prints them; a word longer than a line, as an address is, may stand alone in it.
local function long_lines(list, what, text)
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do
    local alone = not line:match "^%s*(.-)%s*$":find " "
    if terminal.width(line) > columns and not alone then list[#list + 1] = what .. ": " .. line end
  end
end

local function printed(...)
  local status, out, err = host.run_program({ "env", "COLUMNS=" .. columns, host.program, ... }, "")
  assert.equal(0, status, err)
  return out
end

local function words_of(text)
  local words = {}
  for word in text:gmatch "%S+" do words[word] = true end
  return words
end

describe("at 80 columns", function()
  it("is every topic of help", function()
    local list, topics = {}, host.help_topics()
    assert.is_true(#topics > 80)
    for _, topic in ipairs(topics) do long_lines(list, topic, assert(host.help(topic), topic)) end
    for topic in pairs(ts.help_topics()) do long_lines(list, topic, ts.help_topic(topic)) end
    assert.same({}, list)
  end)

  it("loses no word of an option's description", function()
    local cards = host.cards()
    for _, group in ipairs(cards.options) do
      local seen = words_of(host.help(group.name) or "")
      for _, option in ipairs(group.options) do
        for word in option.doc:gmatch "%S+" do
          assert.is_true(next(seen) == nil or seen[word] ~= nil, group.name .. "." .. option.name .. ": " .. word)
        end
      end
    end
  end)

  it("are the overview and the flags of every verb", function()
    local list, overview = {}, printed "help"
    long_lines(list, "help", overview)
    long_lines(list, "--help", printed "--help")
    long_lines(list, "version --kernels", printed("version", "--kernels"))
    local verbs = 0
    for verb in overview:gmatch "\n  tessera (%l+)" do
      verbs = verbs + 1
      long_lines(list, verb, printed(verb, "--help"))
    end
    assert.is_true(verbs > 15)
    assert.same({}, list)
  end)

  it("are all pages of the manual", function()
    local list, pages = {}, 0
    for page in ("\n" .. printed "man"):gmatch "\n(%l[%w_]*)  " do
      pages = pages + 1
      long_lines(list, "man " .. page, printed("man", page))
    end
    assert.is_true(pages > 10)
    assert.same({}, list)
  end)

  it("are answers", function()
    local list = {}
    for _, words in ipairs {
      { "plan", "--model", "llama-3.1-8b", "--cluster", "1xL4" },
      { "plan", "--model", "opt-1.3b", "--cluster", "1xT4+1xL4", "--batch-size", "4" },
      { "capacity", "--model", "llama-3.1-8b", "--cluster", "1xL4", "--frontier" },
      { "support", "llama-3.3-70b", "A100-80G" }, { "support", "llama-3.1-8b" }, { "support", "opt-1.3b", "T4" },
      { "select", "--model", "llama-2-70b", "--cluster", "8xA6000@bridges", "--latency", "1", "--no-beside" },
      { "strategies", "--model", "opt-1.3b", "--devices", "A10+T4-16G,T4-16G", "--exact" },
      { "examples" }, { "data" }, { "list" },
    } do
      long_lines(list, table.concat(words, " "), printed(unpack(words)))
    end
    assert.same({}, list)
  end)

  it("is what scripts print of deployments and runs", function()
    local script = [[
      local ts = require "tessera"
      local deployment = ts.deployment { model = "llama-3.1-8b", cluster = "2xL4+1xA10G" }
      local traffic = ts.traffic { rate_per_s = 3, prompt_tokens = 800, output_tokens = 150, num_requests = 200 }
      local options = { slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.1 } } }
      print(deployment)
      print(ts.serve(deployment, traffic, options))
      print(ts.max_rate(deployment, traffic, options))
    ]]
    local list, text = {}, printed("-e", script)
    long_lines(list, "print", text)
    assert.same({}, list)
    assert.matches("\n  0%-1  mixed    L4  ", text)
    assert.matches("\np99, 95 %%    TTFT ", text)
  end)
end)
