-- LLM-PQ's runs and plans as its published logs and tables have them (llmpq/measured_runs.csv and plans.json of the
-- measured data, see lib.measured): which plan ran where, and how long it took.

local core = require "tessera.core"
local measured = require "lib.measured"
local paper = require "tessera.desk.experiment.paper"

local M = {}

--- All runs in their order, and by id: { point = { id }, epoch, cluster, model, batch, s, tokens, decode_passes,
--- pipeline, prefill_mb, decode_mb, total_s, grade, ... }; nil and why where the data is not there.
function M.read()
  local path, why = measured.path "llmpq/measured_runs.csv"
  if not path then return nil, why end
  local runs = paper.parse("# source: LLM-PQ's logs and tables\n# keys: id\n" .. core.read_file(path), path).rows
  local by_id = {}
  for _, run in ipairs(runs) do by_id[run.point.id] = run end
  return runs, by_id
end

local device_names = { T4 = "T4-16G", P100 = "P100-12G" }

--- Stages of a plan by hand, from a run's pipeline: "T4:8(7x8b+1x16b) | V100-32G:21(13x8b+8x16b)". Which layers of a
--- stage have which bits is not known.
function M.stages_of(run)
  local stages = {}
  for device, bits in run.pipeline:gmatch "([%w-]+):%d+(%b())" do
    local bitwidths = {}
    for number, bitwidth in bits:gmatch "(%d+)x(%d+)b" do
      for _ = 1, tonumber(number) do bitwidths[#bitwidths + 1] = tonumber(bitwidth) end
    end
    stages[#stages + 1] = { device = device_names[device] or device, bitwidths = bitwidths }
  end
  return stages
end

--- The bitwidths of a logged plan, layer by layer; nil and why where the data is not there.
function M.bitwidths(id)
  local path, why = measured.path "llmpq/plans.json"
  if not path then return nil, why end
  for _, plan in ipairs(core.from_json(core.read_file(path)).plans) do
    if plan.id == id then return plan.layer_bits end
  end
  core.raise("not_found", ("%s has no plan '%s'"):format(path, id), path)
end

return M
