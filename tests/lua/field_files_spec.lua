-- Files in the forms that people have (../shared/field/formats): each is read as what it is, or refused by a word that
-- says what it is. Skips, visibly, where they are not there.

local compare = require "tessera.launch.compare"
local core = require "tessera.core"
local detect = require "tessera.devices.detect"
local support = require "support"
local ts = require "tessera"

local folder = "../shared/field/formats/"

local plan
local function llama_plan()
  plan = plan or assert(ts.plan(ts.problem(support.settled { model = "llama-3.1-8b", cluster = "1xA100-80G",
    kernel_set = "vllm", bitwidths = { 16 },
    workload = { prompt_tokens = 512, output_tokens = 128, batch_size = 16 } })))
  return plan
end

-- By the kind of file: what reading it gives, by the names that expected.json has.
local readers = {
  compare = function(path)
    local result = compare.compare(llama_plan(), { path }, { replan = false })
    assert(#result.rows > 0, "no row")
    local values = { prompt_tokens = result.runs[1].workload.prompt_tokens,
      output_tokens = result.runs[1].workload.output_tokens }
    for _, row in ipairs(result.rows) do
      assert(row.measured > 0)
      values[row.metric] = values[row.metric] or row.measured
    end
    return values
  end,
  trace = function(path)
    ts.workload { lengths = path, batch_size = 1 }
    local traffic = ts.traffic { trace = path }
    return { n = traffic.num_requests }
  end,
  detect = function(path)
    local text, gpus = core.read_text(path), 0
    for _, host in ipairs(detect.hosts(text, path, path:match "([^/]*)$":gsub("%.%w+$", ""))) do
      for _, entry in ipairs(detect.node(host).devices) do gpus = gpus + (type(entry) == "table" and entry[2] or 1) end
    end
    return { gpus = gpus }
  end,
  model = function(path)
    local model = ts.model(path)
    return { parameters = model.num_parameters, kv_bytes_per_token = model:kv_bytes_per_token() }
  end,
}

-- Whether a message names the file (or what it is of) and one of the words, in any case.
local function says_what(message, case)
  local text = message:lower()
  if not text:find((case.named or case.file):lower(), 1, true) then return false end
  for _, word in ipairs(case.called) do
    if text:find(word:lower(), 1, true) then return true end
  end
  return #case.called == 0
end

describe("a file of the field", function()
  if core.file_kind(folder .. "expected.json") ~= "file" then
    return it("is there", function() pending "../shared/field/formats is not there" end)
  end
  teardown(support.remove_files)
  for _, case in ipairs(core.from_json(core.read_file(folder .. "expected.json"))) do
    it(case.file .. " is read or refused by what it is", function()
      local ok, got = pcall(readers[case.reader], folder .. case.file)
      if not ok then
        local message = core.error_text(got)
        assert.not_equal("read", case.expect, message)
        assert.is_true(says_what(message, case), message)
        return
      end
      for name, value in pairs(case.values) do
        if got[name] then assert.near(value, got[name], math.abs(value) * 0.02) end
      end
    end)
  end
end)
