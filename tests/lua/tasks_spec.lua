-- `tessera man tasks`: ten tasks of at most five commands, and what is ours of them runs, one after the other in a
-- folder with the files that they begin with.

local core = require "tessera.core"
local folders = require "launch_folders"
local host = require "tessera.host"
local support = require "support"

local root = debug.getinfo(1, "S").source:match "^@(.*)/" .. "/../.."

folders.keep(setup, teardown)

local own = { tessera = true }
local others = { docker = true, kubectl = true, curl = true, serve = true, vllm = true, cpack = true, apt = true }

-- { { title =, commands = { ... } } } of the page.
local function tasks()
  local list = {}
  for line in support.read(root .. "/scripts/tessera/man/tasks.md"):gmatch "[^\n]+" do
    local title, command = line:match "^## (%d+%. .+)$", line:match "^    (%S.*)$"
    if title then list[#list + 1] = { title = title, commands = {} } end
    if command then table.insert(list[#list].commands, command) end
  end
  return list
end

local header = "index, name, memory.total [MiB], pcie.link.gen.max, pcie.link.width.max, compute_cap\n"

-- What people bring.
local brought = {
  ["host1.txt"] = "host: a\n" .. header .. "0, NVIDIA L4, 23034 MiB, 4, 16, 8.9\n",
  ["host2.txt"] = "host: b\n" .. header .. "0, NVIDIA L4, 23034 MiB, 4, 16, 8.9\n",
  ["nodes.json"] = core.to_json { kind = "List", items = { { metadata = { name = "n1",
    labels = { ["nvidia.com/gpu.product"] = "NVIDIA-L4", ["nvidia.com/gpu.memory"] = "23034" } },
    status = { allocatable = { ["nvidia.com/gpu"] = "2", memory = "100000000Ki" } } } } },
  ["bench.json"] = core.to_json { model_id = "llama-3.1-8b", num_prompts = 8, max_concurrency = 8, completed = 8,
    request_rate = "inf", total_input_tokens = 8000, total_output_tokens = 1600, request_throughput = 1,
    output_throughput = 200, mean_ttft_ms = 400, mean_tpot_ms = 40 },
  ["metrics.txt"] = '# TYPE vllm:time_to_first_token_seconds histogram\n'
    .. 'vllm:time_to_first_token_seconds_sum{model_name="llama-3.1-8b"} 12.5\n'
    .. 'vllm:time_to_first_token_seconds_count{model_name="llama-3.1-8b"} 64\n'
    .. 'vllm:inter_token_latency_seconds_sum{model_name="llama-3.1-8b"} 512\n'
    .. 'vllm:inter_token_latency_seconds_count{model_name="llama-3.1-8b"} 12800\n',
}

describe("ten tasks of an engineer", function()
  it("take at most five commands, and ours run", function()
    local list, folder, count = tasks(), folders.fresh(), 0
    assert.equal(10, #list)
    host.make_folder(folder)
    for name, text in pairs(brought) do core.write_file(folder .. "/" .. name, text) end
    local lines = {}
    for i = 0, 39 do
      lines[i + 1] = ('{"timestamp": %d, "input_length": %d, "output_length": 64, "hash_ids": [%d]}'):format(i * 500,
        400 + i, i)
    end
    core.write_file(folder .. "/trace.jsonl", table.concat(lines, "\n"))
    for _, task in ipairs(list) do
      assert.is_true(#task.commands >= 1 and #task.commands <= 5, task.title)
      for _, command in ipairs(task.commands) do
        local word = command:match "^%S+"
        assert.is_true(own[word] or others[word], command)
        if own[word] then
          -- No server runs here: its page is a file.
          command = command:gsub("%-%-metrics http://127%.0%.0%.1:8000/metrics", "metrics.txt")
          local status, out, err = host.run_program({ "bash", "-c", ("cd '%s' && '%s' %s"):format(folder, host.program,
            command:sub(#word + 1)) }, "")
          assert.equal(0, status, task.title .. ": " .. command .. "\n" .. out .. err)
          count = count + 1
        end
      end
    end
    assert.is_true(count >= 12)
    assert.equal("file", core.file_kind(folder .. "/launch/compose.yaml"))
    assert.equal("file", core.file_kind(folder .. "/k8s/kubernetes.yaml"))
    assert.equal("file", core.file_kind(folder .. "/ray/ray-serve.yaml"))
    assert.equal("file", core.file_kind(folder .. "/corrections.json"))
  end)
end)
