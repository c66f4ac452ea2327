-- vLLM's V1 scheduler, logged step by step, against ts.serve. A step takes a second here.
local core = require "tessera.core"
local host = require "tessera.host"
local measured = require "lib.measured"
local support = require "support"
local ts = require "tessera"

local fixture = host.installation.datasets_dir .. "/../tests/reference/scheduler/vllm_v1_steps.json"

local function read(path) return core.from_json(core.read_file(path)) end

-- What ts.engine and ts.traffic cannot say of a run; or nil.
local function left_out(case, fields)
  if case.async_scheduling then return "async_scheduling" end
  if case.kv_connector then return "kv_connector" end
  if (case.pipeline_parallel_size or 1) > 1 then return "pipelines, which belong to a plan" end
  if (case.watermark or 0) > 0 then return "watermark in V1" end
  if case.scheduler_reserve_full_isl == false then return "scheduler_reserve_full_isl = false" end
  if fields.abort_step then return "aborted requests" end
  if case.num_spec_tokens then return "drafts accepted as a list says" end
end

-- A trace of the requests. Where `own` their outputs are found nowhere else, as each has a session for itself.
local function trace_of(requests, own, max_model_len)
  local columns = "arrival_s,prompt_tokens,output_tokens,prefix_group,prefix_tokens,priority"
  local lines = { columns .. (own and ",session" or "") }
  for i, r in ipairs(requests) do
    local group = r.prefix_group >= 0
    local output = math.min(r.output_tokens, max_model_len - r.prompt_tokens) -- vLLM ends them there by itself
    lines[#lines + 1] = table.concat({ r.arrival, r.prompt_tokens, output, group and r.prefix_group or "",
      group and r.prefix_tokens or "", r.priority or 0, own and i or nil }, ",")
  end
  return support.temporary(table.concat(lines, "\n") .. "\n")
end

local function steps_of(case, requests, own)
  local deployment = ts.deployment { step_cost = { base_s = 1 }, engine = {
    max_num_seqs = case.max_num_seqs, max_num_batched_tokens = case.max_num_batched_tokens,
    kv_blocks = case.kv_blocks, block_size = case.block_size, max_model_len = case.max_model_len or 4096,
    enable_prefix_caching = case.enable_prefix_caching,
    enable_chunked_prefill = case.enable_chunked_prefill, policy = case.policy,
    long_prefill_token_threshold = case.long_prefill_token_threshold,
  } }
  local traffic = ts.traffic { trace = trace_of(requests, own, case.max_model_len or 4096) }
  return ts.serve(deployment, traffic, { record = true }):steps()
end

local function text_of(scheduled, preempted, finished, free)
  local parts = {}
  for _, pair in ipairs(scheduled) do parts[#parts + 1] = pair[1] .. "+" .. pair[2] end
  return ("%s; preempted %s; finished %s; %s free"):format(table.concat(parts, " "), table.concat(preempted, " "),
    table.concat(finished, " "), free or "any")
end

-- Our rows by time, as text, and as text without free blocks.
local function rows_by_time(steps)
  local exact, loose, count = {}, {}, 0
  for _, row in ipairs(steps) do
    local scheduled = {}
    for i, part in ipairs(row.scheduled) do scheduled[i] = { part.request, part.tokens } end
    table.sort(scheduled, function(a, b) return a[1] < b[1] end)
    local preempted, finished = row.preempted, row.finished
    table.sort(preempted)
    table.sort(finished)
    if #scheduled + #preempted + #finished > 0 then
      exact[row.start_s] = text_of(scheduled, preempted, finished, row.free_blocks)
      loose[row.start_s] = text_of(scheduled, preempted, finished)
      count = count + 1
    end
  end
  return exact, loose, count
end

local function pairs_of(flat)
  local list = {}
  for i = 1, #flat, 2 do list[#list + 1] = { flat[i], flat[i + 1] } end
  return list
end

-- One run of the fixture: the rows listed, and those between them that repeat what the row before scheduled.
local function check_run(run)
  local case, requests = run.case, {}
  for i, values in ipairs(case.requests) do
    requests[i] = {}
    for k, name in ipairs(case.request_fields) do requests[i][name] = values[k] end
  end
  local exact, loose, count = rows_by_time(steps_of(case, requests, not run.name:find "^first/"))
  local compared = 0
  for i, row in ipairs(run.log) do
    local events, step = row[4] or {}, row[1]
    local scheduled = pairs_of(row[2])
    local wanted = text_of(scheduled, events.preempted or {}, events.finished or {}, row[3])
    if #scheduled > 0 or events.preempted or events.finished then
      assert.equal(wanted, exact[step], ("%s, step %d"):format(run.name, step))
      compared = compared + 1
    end
    local last = run.log[i + 1] and run.log[i + 1][1] - 1 or step
    for between = step + 1, #scheduled > 0 and last or step do
      assert.equal(text_of(scheduled, {}, {}), loose[between], ("%s, step %d"):format(run.name, between))
      compared = compared + 1
    end
  end
  assert.equal(count, compared, run.name .. ": steps that vLLM has not")
end

describe("the steps of vLLM's scheduler", function()
  after_each(support.remove_files)

  it("are those of ts.serve, for every run of the fixture that options can say", function()
    local why, count = {}, 0
    for _, run in ipairs(read(fixture).runs) do
      local fields = {}
      for _, name in ipairs(run.case.request_fields) do fields[name] = true end
      local reason = left_out(run.case, fields)
      if reason then
        why[reason] = (why[reason] or 0) + 1
      else
        check_run(run)
        count = count + 1
      end
    end
    for reason, number in pairs(why) do print(("# %d runs left out: %s"):format(number, reason)) end
    assert.equal(43, count)
  end)

  it("are those of ts.serve in the long runs of the measured data", function()
    local path, missing = measured.path "serving/vllm_v1_steps.json"
    if not path then return pending(missing.message) end
    local file = read(path)
    local count = 0
    for number, run in ipairs(file.runs) do
      local exact, _, ours = rows_by_time(steps_of(run.case, run.case.requests, false))
      assert.equal(#run.log, ours)
      for _, row in ipairs(run.log) do
        assert.equal(text_of(row.scheduled, row.preempted, row.finished, row.free_blocks), exact[row.step],
          ("run %d, step %d"):format(number, row.step))
        count = count + 1
      end
    end
    assert.equal(32174, count)
  end)
end)
