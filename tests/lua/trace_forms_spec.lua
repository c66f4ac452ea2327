-- Traces in the forms that tools write them: what is read, in which unit, and what is refused by what it is.

local support = require "support"
local ts = require "tessera"
local raises = support.raises

teardown(support.remove_files)

local function traffic(text) return ts.traffic { trace = support.temporary(text) } end

-- Arrivals and lengths of a text, "0 512/64 1.5 300/8".
local function read(text)
  local words = {}
  for i, r in ipairs(traffic(text):requests()) do
    words[i] = ("%.10g %d/%d"):format(r.arrival_s, r.prompt_tokens, r.output_tokens)
  end
  return table.concat(words, " ")
end

local function noted(text) return table.concat(traffic(text).notes, "; ") end

local function utf16(text, high_first)
  local bytes = text:gsub(".", function(c) return high_first and "\0" .. c or c .. "\0" end)
  return (high_first and "\254\255" or "\255\254") .. bytes
end

local own = "arrival_s,prompt_tokens,output_tokens\n0,512,64\n1.5,300,8\n"
local own_read = "0 512/64 1.5 300/8"

describe("a trace", function()
  it("is read with semicolons, tabs, decimal commas, any line end and any byte order mark", function()
    assert.equal(own_read, read(own))
    assert.equal(own_read, read((own:gsub(",", ";"):gsub("1%.5", "1,5"))))
    assert.equal(own_read, read((own:gsub(",", "\t"))))
    assert.equal(own_read, read((own:gsub("\n", "\r\n"))))
    assert.equal(own_read, read("\239\187\191" .. own))
    assert.equal(own_read, read(utf16(own, false)))
    assert.equal(own_read, read(utf16(own, true)))
  end)

  it("is read as Azure wrote it in 2023 and 2024, with offsets from UTC", function()
    assert.equal("0 374/44 4.314579 396/109", read("TIMESTAMP,ContextTokens,GeneratedTokens\n"
      .. "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"))
    assert.equal("0 2162/5 0.50257 2399/6 3600 9/9", read("TIMESTAMP,ContextTokens,GeneratedTokens\n"
      .. "2024-05-10 00:00:00.00993+00:00,2162,5\n2024-05-10T02:00:00.5125+0200,2399,6\n"
      .. "2024-05-10T00:00:00.00993-01,9,9\n"))
  end)

  it("is read as BurstGPT has it, without requests that failed", function()
    local text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,"
      .. "Conversation log\n45,ChatGPT,1087,0,1087,API "
      .. "log\n118,GPT-4,417,276,693,API log\n"
    assert.equal("0 472/18 113 417/276", read(text))
    assert.matches("1 requests without an answer", noted(text))
    raises("invalid_argument", "none of its 1 requests got an answer", function()
      traffic "timestamp,Request tokens,Response tokens\n1,2,0\n"
    end)
  end)

  it("is read from objects: Mooncake in milliseconds, Qwen-Bailian in seconds, arrays", function()
    local mooncake = '{"timestamp": 0, "input_length": 1025, "output_length": 500, "hash_ids": [0, 1, 2]}\n\n'
      .. '{"timestamp": 3051, "input_length": 600, "output_length": 4, "hash_ids": [0, 7]}\n'
    assert.equal("0 1025/500 3.051 600/4", read(mooncake))
    assert.equal("0 40/5 0.5 20/8", read('{"chat_id": 1, "parent_chat_id": -1, "timestamp": 61, "input_length": 40, '
      .. '"output_length": 5, "type": "text", "turn": 1, "hash_ids": [1, 2, 3]}\n{"chat_id": 2, "timestamp": 61.5, '
      .. '"input_length": 20, "output_length": 8, "hash_ids": [1, 9]}\n'))
    assert.equal(own_read, read('[{"arrival_s": 0, "prompt_tokens": 512, "output_tokens": 64},\n'
      .. ' {"arrival_s": 1.5, "prompt_tokens": 300, "output_tokens": 8}]'))
    raises("invalid_argument", "line 3: not valid JSON", function() traffic(mooncake:sub(1, -20)) end)
    raises("invalid_argument", "line 2", function() traffic(mooncake:sub(1, 83) .. "\n[1]") end)
  end)

  it("is read from objects within objects, as ServeGen has them, and from logs of answers", function()
    assert.equal("0 512/128 1.5 300/64", read('[{"request_id": 0, "timestamp": 0.1, "data": {"input_tokens": 512, '
      .. '"output_tokens": 128}}, {"request_id": 1, "timestamp": 1.6, "data": {"input_tokens": 300, '
      .. '"output_tokens": 64}}]'))
    local answer = '{"created": %d, "model": "gpt-4", "usage": {"prompt_tokens": %d, "completion_tokens": %d, '
      .. '"prompt_tokens_details": {"cached_tokens": 3}}}\n'
    assert.equal("0 512/128 2 300/64", read(answer:format(1715299200, 512, 128) .. answer:format(1715299202, 300, 64)))
    assert.equal("0 512/128 1.5 300/64", read("request_id,startTime,endTime,prompt_tokens,completion_tokens\n"
      .. "a,2026-01-01 10:00:00+00,2026-01-01 10:00:02+00,512,128\n"
      .. "b,2026-01-01 10:00:01.5+00,2026-01-01 10:00:03+00,300,64\n"))
    assert.equal("0 5/6", read '[{"arrival_s": 0, "prompt_tokens": 5, "output_tokens": 6, "x": {"prompt_tokens": 9}}]')
  end)

  it("without an arrival says what is amiss", function()
    raises("invalid_argument", "line 2: 'timestamp_ms' says nothing; each request has its arrival", function()
      traffic('{"session_id": "a", "timestamp": 0, "input_length": 512, "output_length": 128}\n'
        .. '{"session_id": "a", "delay": 1500, "input_length": 700, "output_length": 64}\n')
    end)
    raises("invalid_argument", "arrival_s in seconds, arrival_ms in milliseconds", function()
      traffic "timestamp_us,prompt_tokens,output_tokens\n0,512,128\n1500000,300,64\n"
    end)
  end)

  it("tells times since 1970 by their size", function()
    for _, unit in ipairs { 1, 1e3, 1e6 } do
      assert.equal("0 5/6 2 7/8", read(("timestamp,input_length,output_length\n%.0f,5,6\n%.0f,7,8\n"):format(
        1715299200 * unit, 1715299202 * unit)))
    end
  end)

  it("names a unit that is likely another", function()
    local head = "%s,prompt_tokens,output_tokens\n%s,512,64\n%s,512,64\n%s,100,10\n"
    raises("invalid_argument", "if they are milliseconds, call the column timestamp_ms", function()
      traffic(head:format("arrival_s", 0, 812, 1900))
    end)
    assert.equal("0 512/64 812 512/64 1900 100/10", read(head:format("arrival_s", "0.0", "812.0", "1900.0")))
    assert.matches("if they are milliseconds", noted(head:format("arrival_s", 0, 20, 60)))
    assert.matches("if it counts seconds, call the column arrival_s", noted(head:format("timestamp_ms", 0.0, 0.8, 1.9)))
    assert.equal("", noted(head:format("arrival_s", 0, 1, 3)))
    assert.equal("", noted(head:format("timestamp_ms", 0, 812, 1900)))
  end)

  it("is refused by what it is", function()
    for bytes, words in pairs {
      ["\31\139\8\0"] = "compressed by gzip; `gunzip -k`", ["\40\181\47\253\0"] = "zstd", ["PK\3\4"] = "zip archive",
      ["PAR1xx"] = "Parquet", ["\128\4\149"] = "a pickle of Python",
      ["SQLite format 3\0"] = "SQLite", [""] = "empty", ["a,b\n"] = "no columns of prompt",
      ["arrival_s,prompt_tokens,output_tokens\n"] = "no requests in it",
      ["{}\n"] = "objects without any number",
      ['{"arrival_s": 0, "input_length": 9e99, "output_length": 1, "hash_ids": [1]}\n'] = "an integer in",
      ['[{"id": "x", "conversations": [{"from": "human"}]}]'] = "the header has: 'id'",
    } do
      raises("invalid_argument", words, function() traffic(bytes) end)
    end
  end)
end)
