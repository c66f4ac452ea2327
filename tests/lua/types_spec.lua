-- The editor's definitions and the reference page say what the program does, and leave nothing out.
local files = require "tessera.files"
local host = require "tessera.host"
local ts = require "tessera"
ts.help_topics() -- loads every part of the library, with its cards
local cards = host.cards()

-- What a name says of its unit; a doc or a unit has to say it too.
local unit_words = {
  { "bytes_per_s$", "bytes/s" }, { "_flop_per_s$", "FLOP/s" }, { "_tok_s$", "tok/s" }, { "_usd_per_h$", "USD/h" },
  { "_bytes$", "bytes" }, { "_gib$", "GiB" }, { "_gbps$", "Gb/s" }, { "_us$", "us" }, { "_per_s$", "1/s" },
  { "_s$", "s" }, { "_tokens$", "tokens" },
}

local function unit_of(name)
  for _, pair in ipairs(unit_words) do
    if name:find(pair[1]) then return pair[2] end
  end
end

local function names_unit(name, unit, doc)
  local wanted = unit_of(name)
  if not wanted then return true end
  return unit == wanted or doc:find("(" .. wanted .. ")", 1, true) ~= nil
    or doc:find("%f[%w]" .. wanted:gsub("%p", "%%%0") .. "%f[^%w]") ~= nil
end

describe("the editor's definitions", function()
  local text = host.luacats()

  it("is Lua", function() assert(loadstring(text)) end)

  it("names every function of the library, with a sentence on each", function()
    for name, value in pairs(ts) do
      if type(value) == "function" or name == "workload" then
        assert.truthy(text:find("function ts." .. name .. "(", 1, true), name .. " has no definition")
        local card = cards.functions["ts." .. name] or cards.options["ts." .. name]
        assert.truthy(#card.doc > 10, name .. " has no doc")
      end
    end
  end)

  it("uses only classes that it defines", function()
    local known = {}
    for class in text:gmatch "%-%-%-@class ([%w_.]+)" do known[class] = true end
    for class in text:gmatch "%f[%w]tessera%.[%w_.]+%w" do
      assert.truthy(known[class], class .. " is named and never defined")
    end
  end)
end)

describe("the reference page", function()
  local text = require("tessera.cli.reference_page").text(cards)

  it("has every function, object, option and flag", function()
    for _, kind in ipairs { "functions", "options", "objects" } do
      for name in pairs(cards[kind]) do
        assert.truthy(text:find("\n### " .. name .. "\n", 1, true), name .. " has no section")
      end
    end
    for name, card in pairs(cards.options) do
      for _, option in ipairs(card.options) do
        local shown = name:find " " and "--" .. option.name:gsub("_", "-") or option.name
        assert.truthy(text:find("| `" .. shown .. "` |", 1, true), name .. "." .. option.name)
      end
    end
  end)

  it("links only to sections that are there", function()
    local anchors = {}
    for title in text:gmatch "\n##+ ([^\n]+)" do
      anchors[title:lower():gsub("[^%w%- _]", ""):gsub(" ", "-")] = true
    end
    for link in text:gmatch "%]%(#([^)]+)%)" do assert.truthy(anchors[link], link) end
  end)
end)

describe("cards", function()
  it("describe every option, with its unit where the name says one", function()
    for name, card in pairs(cards.options) do
      for _, option in ipairs(card.options) do
        local at = name .. "." .. option.name
        assert.truthy(#option.doc > 3, at .. " has no doc")
        if option.numeric then assert.truthy(names_unit(option.name, option.unit, option.doc), at .. " has no unit") end
        if option.default then assert.truthy(loadstring("return " .. option.default), at .. ": " .. option.default) end
      end
    end
  end)

  it("describe every field and method of the live object types", function()
    local registry = debug.getregistry()
    local found = 0
    for name, metatable in pairs(registry) do
      local members = type(name) == "string" and name:find "^tessera%." and type(metatable) == "table"
        and rawget(metatable, "__members")
      local card = members and cards.objects[name]
      if card then
        found = found + 1
        local known = { to_table = true }
        for _, list in ipairs { card.fields, card.methods } do
          for _, member in ipairs(list) do known[member.name] = member end
        end
        for member in pairs(members) do assert.truthy(known[member], name .. "." .. member .. " has no card") end
      end
    end
    assert.truthy(found >= 8, found .. " object types found")
  end)

  it("describe every field with its unit", function()
    for name, card in pairs(cards.objects) do
      for _, field in ipairs(card.fields) do
        local at = name .. "." .. field.name
        assert.truthy(#field.doc > 3, at .. " has no doc")
        if field.type:find "^number" then
          assert.truthy(names_unit(field.name, "", field.doc), at .. " has no unit: " .. field.doc)
        end
      end
      for _, method in ipairs(card.methods) do
        assert.truthy(#method.doc > 3, name .. ":" .. method.name .. " has no doc")
        assert.truthy(method.type:find "^%(", name .. ":" .. method.name .. " has no signature")
      end
    end
  end)
end)

describe("the build", function()
  local share = host.program:match "^(.*)/[^/]+/[^/]+$" .. "/share/tessera"

  it("writes both beside the program", function()
    local path = share .. "/types/tessera.lua"
    if not files.exists(path) then return pending "a build with sanitizers has no reference" end
    assert.is_true(files.text(path) == host.luacats())
    assert.is_true(files.text(share .. "/REFERENCE.md") == require("tessera.cli.reference_page").text(cards))
  end)

  it("is where .luarc.json looks", function()
    local text = files.text(host.installation.scripts_dir .. "/../.luarc.json")
    if not text then return pending "not in a source tree" end
    assert.truthy(text:find('["build/release/share/tessera/types"]', 1, true))
  end)
end)
