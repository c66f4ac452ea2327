-- Plans that run over process groups, and under launchers: the tokens are those of one process.
local core = require "tessera.core"
local executions = require "executions"
local host = require "tessera.host"
local ranks = require "tessera.runtime.ranks"
local support = require "support"
local ts = require "tessera"

local it_runs = executions.it_runs(it, pending)
local alone, is_same, no_torch = executions.alone, executions.is_same, executions.no_torch
local options, path, plan_of = executions.options, executions.path, executions.plan_of
local signal, texts, workers = executions.signal, executions.texts, executions.workers

describe("c10d between stages", function()
  after_each(function() assert.same({}, workers()) end)

  it_runs("carries the tokens of one process", function()
    local plan = plan_of({ { 5, 8 }, { 1, 4 }, { 6, 4 } },
      { batch_size = 7, prefill = 3, decode = 2, chunk_tokens = 3 })
    local opt = options { transport = "c10d", temperature = 0.9, top_k = 20, seed = 5, ignore_stop_tokens = true }
    local run = ts.execute(plan, opt)
    assert.equal("c10d", run.transport)
    is_same(plan, opt, run)
    assert.equal("tcp", ts.execute(plan, options { prompts = { "a" } }).transport)
  end, no_torch)

  it_runs("goes on in a new group after a rank of a stage was killed", function()
    local plan = plan_of({ { 6, 4 }, { 6, 4 } }, { degree = 2, batch_size = 3 })
    local answers = 0
    local opt = options { transport = "c10d", recover = true, ignore_stop_tokens = true, group_size = 32 }
    opt.on_answer = function()
      answers = answers + 1
      if answers == 4 then signal("KILL", 2) end
    end
    local run = ts.execute(plan, opt)
    assert.equal(1, #run.faults)
    assert.same({ 2, 2 }, { run.faults[1].rank, run.faults[1].stage })
    is_same(plan, opt, run)
  end, no_torch)

  it_runs("moves layers to the workers that are left, in a group of those", function()
    local plan = plan_of({ { 4, 4 }, { 4, 4 }, { 4, 4 } }, { batch_size = 3, bitwidths = { 4 } })
    local answers = 0
    local opt = options { transport = "c10d", recover = true, ignore_stop_tokens = true }
    opt.on_answer = function()
      answers = answers + 1
      if answers == 2 or answers == 5 or answers == 8 then signal("KILL", 1) end
    end
    local run = ts.execute(plan, opt)
    assert.same({ 3, 1, 2 }, { #run.faults, run.replans, #run.stages })
    opt.on_answer, opt.recover = nil, nil
    is_same(plan, opt, run)
  end, no_torch)

  it_runs("ends within 5 s of a peer that answers no more, and names it", function()
    local plan = plan_of({ { 6, 4 }, { 6, 4 } }, { batch_size = 2 })
    local began, stopped_s
    local opt = options { transport = "c10d" }
    opt.progress = function(what) if what == "load" then began = core.clock() end end
    opt.on_answer = function()
      if stopped_s then return end
      signal("STOP", 1)
      stopped_s = core.clock() - began
    end
    local run = ts.execute(plan, opt)
    assert.equal("failed", run.state)
    assert.matches("^stage 1 %(rank 1, host 127.0.0.1, process %d+%): did not answer for 4 s", run.why)
    local noticed_s = run.faults[1].at_s - stopped_s
    assert.is_true(noticed_s > 2.5 and noticed_s < 5.5, noticed_s) -- 5 s, and what a busy machine is late
  end, no_torch)

  it_runs("is refused where LibTorch is not", function()
    local plan, prompts = support.temporary(), support.temporary "the cat\n"
    plan_of({ { 6, 4 }, { 6, 4 } }):save(plan)
    local status, _, err = host.run_program({ "env", "TESSERA_TORCH_MODULE=/none.so", host.program, "execute", plan,
      "--model", path, "--prompts", prompts, "--device", "cpu", "--transport", "c10d" }, "")
    assert.equal(1, status)
    assert.matches("transport: c10d is LibTorch's, and this build has none; tcp needs nothing more", err, 1, true)
  end)
end)

-- Two ranks as torchrun starts them: by itself, and as two machines.
describe("under torchrun", function()
  local namespaces = [[
    a=tessera-a-$$ b=tessera-b-$$
    trap 'ip netns del $a; ip netns del $b' EXIT
    ip netns add $a && ip netns add $b && ip link add va netns $a type veth peer name vb netns $b || exit 3
    ip -n $a addr add 10.77.0.1/24 dev va && ip -n $b addr add 10.77.0.2/24 dev vb || exit 3
    for link in "$a lo" "$a va" "$b lo" "$b vb"; do ip -n ${link% *} link set ${link#* } up || exit 3; done
    export WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 TORCHELASTIC_USE_AGENT_STORE=True
    RANK=1 ip netns exec $b "$@" & RANK=0 ip netns exec $a "$@"
    status=$?
    wait $! && exit $status]]
  local function shell(...) return host.run_program({ "sh", "-c", ... }, "") end
  local has_namespaces = shell "ip netns add tessera-$$ && ip netns del tessera-$$" == 0
  local places = {
    { "on one machine", { "torchrun", "--nproc-per-node", "2", "--no-python", "--master-port", "29741", "--" },
      shell "command -v torchrun" ~= 0 and "there is no torchrun" or nil },
    { "on two machines", { "sh", "-c", namespaces, "sh" },
      not has_namespaces and "no network namespaces can be made" or nil },
  }

  for _, place in ipairs(places) do
    for _, transport in ipairs { "tcp", "c10d" } do
      it_runs(("writes the tokens of one process by %s %s"):format(transport, place[1]), function()
        local plan, prompts = support.temporary(), support.temporary(table.concat(texts, "\n") .. "\n")
        local key = support.temporary "a secret of the two machines"
        host.run_program({ "chmod", "600", key }, "")
        plan_of({ { 6, 4 }, { 6, 8 } }):save(plan)
        local words = { host.program, "execute", plan, "--model", path, "--prompts", prompts, "--max-tokens", "16",
          "--device", "cpu", "--temperature", "0", "--transport", transport, "--secret-file", key }
        local command = {}
        for _, list in ipairs { place[2], words } do
          for _, word in ipairs(list) do command[#command + 1] = word end
        end
        local status, out, err = host.run_program(command, "")
        assert.equal(0, status, err)
        assert.matches("hidden states by " .. transport, err, 1, true)
        local wanted = {}
        for i, generation in ipairs(alone(ts.load_plan(plan), options())) do
          wanted[i] = ("%d\t%s\n"):format(i, (generation.text:gsub("[\t\n\r]", " ")))
        end
        assert.equal(table.concat(wanted), out)
      end, place[3] or transport == "c10d" and no_torch or nil)
    end
  end

  it_runs("says how many processes the plan has", function()
    local plan, prompts = support.temporary(), support.temporary "a\n"
    plan_of({ { 6, 4 }, { 6, 8 } }):save(plan)
    local status, _, err = host.run_program({ "env", "RANK=0", "WORLD_SIZE=3", host.program, "execute", plan, "--model",
      path, "--prompts", prompts, "--device", "cpu" }, "")
    assert.equal(2, status)
    assert.matches("the plan has 2 processes, and torchrun started 3", err, 1, true)
  end)
end)

describe("a rank", function()
  local function here(environment) return ranks.here(function(name) return environment[name] end) end

  it("is what the launcher says", function()
    assert.is_nil(here {})
    assert.is_nil(here { RANK = "1" })
    assert.is_nil(here { RANK = "3", WORLD_SIZE = "2" })
    assert.same({ launcher = "torchrun", rank = 1, size = 2, local_size = 2, host = "10.0.0.1", port = 1235 },
      here { RANK = "1", WORLD_SIZE = "2", LOCAL_WORLD_SIZE = "2", MASTER_ADDR = "10.0.0.1", MASTER_PORT = "1234",
        TORCHELASTIC_USE_AGENT_STORE = "True" })
    assert.same({ launcher = "Slurm", rank = 0, size = 4, host = "10.1.1.1", port = 29500 },
      here { SLURM_PROCID = "0", SLURM_NTASKS = "4", SLURM_LAUNCH_NODE_IPADDR = "10.1.1.1" })
    assert.equal("Open MPI", here({ OMPI_COMM_WORLD_RANK = "2", OMPI_COMM_WORLD_SIZE = "3" }).launcher)
    assert.equal("MPICH", here({ PMI_RANK = "2", PMI_SIZE = "3" }).launcher)
  end)
end)
