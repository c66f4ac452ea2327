-- `tessera compare`: a plan beside what vLLM's benchmarks measured of it.

local compare = require "tessera.launch.compare"
local core = require "tessera.core"
local host = require "tessera.host"
local http = require "tessera.http"
local stream = require "tessera.cli.stream"
local terminal = require "tessera.terminal"
local ts = require "tessera"

local M = {}

local function correction_text(phase, correction)
  local text = ("%s is %.3g of the prediction (from %s, %d run%s"):format(phase, correction.factor, correction.from,
    correction.num_runs, correction.num_runs == 1 and "" or "s")
  if not correction.error then return text .. "; one run says nothing of its own error)" end
  text = text .. (", spread %.2g %%"):format(correction.error * 100)
  if correction.left_out_error then
    text = text .. (", worst run predicted by the others %.2g %% off"):format(correction.left_out_error * 100)
  end
  return text .. ")"
end

local function stages_text(stages)
  local parts = {}
  for i, stage in ipairs(stages) do
    parts[i] = ("%d layers at %.3g bits on %s"):format(stage.num_layers, stage.mean_bitwidth, stage.device)
  end
  return table.concat(parts, ", ")
end

local function verdict(another)
  if another.status == "time_limit" then return "whether another plan is better was not settled in the time" end
  if another.gain_ratio <= 0.01 then
    return "with that, no other plan of the same groups of devices is better by more than 1 %"
  end
  local text = ("with that, another plan is better by %.2g %%: %s"):format(another.gain_ratio * 100,
    stages_text(another.stages))
  if another.is_better then return text .. "; so it is where the correction is off by its error" end
  return text .. "; where the correction is off by its error it may not be"
end

local function show(result)
  terminal.say(ts.table(result.rows, { columns = { "file", "metric", "predicted", "measured", "ratio", "note" } }))
  for _, remark in ipairs(result.remarks) do terminal.say(remark .. "\n") end
  for _, phase in ipairs { "prefill", "decode" } do
    local correction = result.corrections[phase]
    if correction then terminal.say(correction_text(phase, correction) .. "\n") end
  end
  if result.another then terminal.say(verdict(result.another) .. "\n") end
end

-- What the launch of a folder says of itself; nil where there is none.
local function manifest_of(folder)
  local path = folder .. "launch.json"
  if core.file_kind(path) ~= "file" then return nil end
  local ok, about = pcall(core.from_json, core.read_file(path))
  return ok and type(about) == "table" and about or nil
end

-- The plan that is meant by its file, or by the folder of a launch.
local function plan_file(name)
  if core.file_kind(name) ~= "folder" then return name end
  local folder = name:gsub("/*$", "/")
  local about, files = manifest_of(folder) or {}, {}
  for i, part in ipairs(type(about.parts) == "table" and about.parts or {}) do files[i] = folder .. part.file end
  if #files == 1 then return files[1] end
  if #files == 0 then core.refuse(name, "no launch is in this folder; name the file of a plan") end
  core.refuse(name, ("its engines are unlike, with a plan each, and what is measured behind their router is of all: "
    .. "measure one at its own port, and name its plan, %s"):format(table.concat(files, " or ")))
end

-- Lengths of the stream that a plan, or the launch beside it, was made for; the plan's own are a batch's. nil where
-- none says them.
local function planned_lengths(plan, path)
  for _, note in ipairs(plan.notes) do
    local lengths = stream.noted_lengths(note)
    if lengths then return lengths end
  end
  local about = manifest_of(path:match "^(.*/)[^/]*$" or "")
  return about and type(about.stream) == "table" and about.stream or nil
end

-- What a running server says of itself, or a file of it.
local function metrics_of(place)
  if not place:find "://" then
    if core.file_kind(place) == "file" then return core.read_file(place) end
    core.refuse(place, "no file, and no URL as in http://host:8000/metrics")
  end
  local ok, answer = pcall(http.get, place, "/metrics", 10, 16 * 2 ^ 20)
  if ok then return answer end
  if answer.code == "unsupported" and answer.where ~= place then
    core.raise("unsupported", ("this build has no HTTP, which comes with what runs models (bash scripts/quickstart.sh "
      .. "--models); `curl -o metrics.txt %s` makes a file, and --metrics metrics.txt reads it"):format(place), place)
  end
  error(answer, 0)
end

--- @param given table the flags; names: the plan, then files of benchmarks
function M.main(given)
  local names = given.names
  if #names < 2 and not (given.metrics and names[1]) then
    core.raise("usage", "name a plan and what was measured: tessera compare plan.json bench.json, or --metrics "
      .. "http://HOST:PORT/metrics of a running server", "tessera compare")
  end
  local paths = {}
  for i = 2, #names do paths[i - 1] = names[i] end
  local path = plan_file(names[1])
  local plan = ts.load_plan(path)
  local result = compare.compare(plan, paths, { replan = given.replan ~= false,
    time_limit_s = given.time_limit_s or 10, recalibrate = given.recalibrate,
    metrics = given.metrics and { url = given.metrics, text = metrics_of(given.metrics) },
    planned = planned_lengths(plan, path) })
  if host.json then
    host.set_result(result)
    return 0
  end
  show(result)
  if given.recalibrate then
    terminal.say(("%s has the correction, as a kernel set: `tessera plan` and `tessera capacity` with --kernel-set %s "
      .. "plan by it, and compare --recalibrate adds what it reads\n"):format(given.recalibrate, given.recalibrate))
  end
  return 0
end

return M
