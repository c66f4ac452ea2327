-- Masters and workers that die, stop and come back while prompts are answered: every prompt is answered exactly once,
-- with the tokens of a run that nothing disturbs, and nothing is left running.
--
-- `tessera execute --recover --journal` answers prompts on three stages, each in a process of its own, and is hit from
-- outside at random moments of its life: as its workers start, load, answer, recover and end. `killed`: three times a
-- worker gets SIGKILL; `stopped`: a worker gets SIGSTOP, and is given up; `paused`: SIGSTOP for 1.5 s, which is to pass
-- unnoticed; `cut`: a connection between two of its processes is reset by the kernel (ss --kill, which takes root);
-- `stranger`: somebody writes nonsense to the master's port; `master`: the master gets SIGKILL. A run that did not end
-- well is begun again with its journal. Hits that find nobody there are not counted.
local ts = require "tessera"
local core = require "tessera.core"
local generator = require("lib.quality.summary").generator
local hits = require "lib.runtime.hits"
local models = require "lib.runtime.models"

local num_prompts, prompt_tokens, max_tokens = 16, 8, 80

-- Numbers of [0, 1), the same for the same seed.
local function random(seed)
  local draw = generator(seed)
  return function() return (draw(2 ^ 20) - 1) / 2 ^ 20 end
end

-- None of a file that is not there.
local function lines_of(path)
  local list, file = {}, io.open(path)
  if not file then return list end
  for line in file:lines() do list[#list + 1] = line end
  file:close()
  return list
end

local function plan_of(folder)
  local problem = ts.problem { model = folder, cluster = "3xT4-16G", bitwidths = { 4 }, tensor_parallel = 1,
    workload = { prompt_tokens = prompt_tokens, output_tokens = max_tokens, batch_size = 8 } }
  return assert(ts.plan(problem, { planner = "manual", prefill_micro_batch_size = 2, decode_micro_batch_size = 3,
    stages = models.stages("T4-16G", models.cut({ { 1 / 3, 4 }, { 1 / 3, 4 }, { 1 / 3, 4 } },
      problem.model.num_layers)) }))
end

local function prompts_file(path, vocab_size)
  local lines = {}
  for i, tokens in ipairs(models.prompts(num_prompts, prompt_tokens, vocab_size)) do
    lines[i] = core.to_json { tokens = tokens, max_tokens = max_tokens - i } -- they do not end together
  end
  core.write_file(path, table.concat(lines, "\n") .. "\n")
end

-- How often each prompt stands in the journal, beside once; and how many answers are not those wanted.
local function judge(result, journal, wanted)
  local seen, missing, twice, differ, number = {}, 0, 0, 0, 0
  for _, line in ipairs(lines_of(journal)) do
    number = number + 1
    if number > 1 then
      local prompt = core.from_json(line).prompt
      seen[prompt] = (seen[prompt] or 0) + 1
    end
  end
  for i = 0, num_prompts - 1 do
    if not seen[i] then missing = missing + 1 end
    if (seen[i] or 0) > 1 then twice = twice + 1 end
  end
  for i = 1, num_prompts do
    local got = result and result.requests[i].tokens or {}
    if core.to_json(got) ~= core.to_json(wanted.requests[i].tokens) then differ = differ + 1 end
  end
  return missing, twice, differ
end

return ts.experiment {
  name = "runtime/faults",
  doc = "Masters and workers that die, stop and come back: every prompt answered exactly once",
  grid = { kind = { "killed", "stopped", "paused", "cut", "stranger", "master" }, runs = { 80 } },
  quick = { kind = { "killed", "master" }, runs = { 2 } },
  columns = { "faults", "noticed", "replans", "starts", "answers", "missing", "twice", "differ", "left_running",
    "refused", "longest_s", "undisturbed_s" },
  notes = {
    "faults: hits that found somebody; noticed: those that the masters which ended well tell of; replans: layers moved",
    "starts: of masters; left_running: runs after which a worker was still there 5 s later",
    "longest_s: of one run with all its starts; undisturbed_s: of one that nothing hit, the least of three",
  },
  time_limit_s = 3600,

  run = function(point, context)
    return models.with(models.small, function(folder)
      local ok, why = pcall(plan_of, folder)
      if not ok then return nil, why end
      local base = ("%s/%s"):format(context.output_dir, point.kind)
      local files = { note = base .. ".note", left = 0 }
      local plan, prompts, journal = base .. ".plan.json", base .. ".prompts.jsonl", base .. ".journal"
      why:save(plan)
      os.remove(files.note)
      prompts_file(prompts, why:problem().model.vocab_size)
      local plain = { hits.program, "execute", plan, "--model", folder, "--prompts", prompts, "--device", "cpu",
        "--threads", "1", "--temperature", "0.8", "--seed", "11", "--ignore-stop-tokens", "--json" }
      local undisturbed_s, wanted = math.huge, nil
      for _ = 1, 3 do
        local start = core.clock()
        local status, out, err = hits.run(plain)
        if status ~= 0 then
          return nil, { code = err:find("this build", 1, true) and "no_data" or "internal", message = err }
        end
        wanted, undisturbed_s = core.from_json(out), math.min(undisturbed_s, core.clock() - start)
      end
      local row = { undisturbed_s = undisturbed_s, longest_s = 0, faults = 0, noticed = 0, replans = 0,
        starts = 0, answers = 0, missing = 0, twice = 0, differ = 0, refused = 0 }
      local command = { unpack(plain) }
      for _, word in ipairs { "--recover", "--journal", journal } do command[#command + 1] = word end
      local draw = random(#point.kind * 1000 + point.runs)
      for _ = 1, point.runs do
        os.remove(journal)
        local start = core.clock()
        local result, starts = hits.run_through(point.kind, command, files, row.undisturbed_s, draw)
        row.longest_s = math.max(row.longest_s, core.clock() - start)
        local missing, twice, differ = judge(result, journal, wanted)
        row.starts, row.answers = row.starts + starts, row.answers + num_prompts
        row.missing, row.twice, row.differ = row.missing + missing, row.twice + twice, row.differ + differ
        if result then
          row.noticed, row.replans = row.noticed + #result.faults, row.replans + result.replans
          row.refused = row.refused + (result.num_refused or 0)
        end
      end
      row.faults, row.left_running = #lines_of(files.note), files.left
      return row
    end)
  end,

  check = function(t)
    for _, column in ipairs { "missing", "twice", "differ", "left_running" } do
      t:expect_all { column = column, at_most = 0 }
    end
    for _, kind in ipairs { "paused", "stranger" } do
      t:expect_all { column = "noticed", where = { kind = kind }, at_most = 0 }
    end
    t:expect_all { column = "faults", where = { kind = "killed" }, at_least = 1 }
  end,
}
