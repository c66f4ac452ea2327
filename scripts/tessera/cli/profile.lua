-- `tessera profile`: layers measured on this machine; writes the points as a table, and the profile fitted to them as a
-- file that plans find.

local core = require "tessera.core"
local grid = require "tessera.devices.measured_grid"
local host = require "tessera.host"
local tables = require "tessera.options"
local terminal = require "tessera.terminal"
local ts = require "tessera"

local M = {}

local function us(seconds) return ("%.1f"):format(1e6 * seconds) end

-- What a sample is of, in a table's columns.
local function cells(sample, row)
  local cell = { what = sample.phase or sample.name or (sample.op == "gemm" and "LM head") or row.piece,
    bits = sample.bitwidth and tostring(sample.bitwidth) or "-", ["us"] = us(row.median_s),
    ["+-%"] = ("%.1f"):format(50 * row.spread_ratio), noisy = row.noisy and "noisy" or "" }
  cell.of = sample.op == "layer"
    and ("%d x %d after %d"):format(sample.batch_size, sample.tokens, sample.context_tokens)
    or row.ranks and core.format_bytes(row.bytes) or ("%d rows"):format(row.batch_size)
  return cell
end

local function show(profile, report)
  local lines = {}
  for i, sample in ipairs(report.samples) do
    lines[i] = cells(sample, report.rows[i])
    local other = report.alone_rows and report.alone_rows[i]
    lines[i]["alone us"] = other and us(other.median_s)
  end
  local columns = { "what", "bits", "of", "us", "+-%" }
  if report.alone_rows then columns[#columns + 1] = "alone us" end
  columns[#columns + 1] = "noisy"
  terminal.say(ts.table(lines, { columns = columns }))
  for _, each in ipairs(report.loading) do
    print(("loading a layer at %2d bits: %s, %s"):format(each.bitwidth, core.format_seconds(each.layer_s),
      core.format_bytes(each.layer_bytes)))
  end
  print(("%s, %s: medians, +-: half of the distance of the quartiles; %d of %d points are noisy"):format(
    report.device.name, report.busy and "its other cores busy with the same" or "alone", report.num_noisy,
    #report.rows))
  print(("held-out error of the fit: median %.1f %%, worst %.1f %%; before: %.0f %%"):format(100 * report.after.median,
    100 * report.after.worst, 100 * report.before.median))
  return profile
end

-- The profile's file and the tables beside it, in `profiles` of a folder of data.
local function write(profile, report, folder)
  local stem = ("%s/profiles/%s.%s"):format(folder, report.device.name, profile.kernel_set)
  host.make_folder(folder .. "/profiles")
  core.write_file(stem .. ".csv", grid.csv(report.samples, report.rows))
  if report.alone_rows then
    core.write_file(stem .. ".alone.csv", grid.csv(report.alone_samples, report.alone_rows))
  end
  profile:save(stem .. ".json")
  return stem .. ".json"
end

--- @param given table the flags
function M.main(given)
  if #given.names > 0 then
    core.raise("usage", ("'%s' belongs behind a flag: --model, --device"):format(given.names[1]), "tessera profile")
  end
  if not given.model then core.raise("usage", "name a model: --model smollm2-135m, or a folder", "tessera profile") end
  local profile, report = ts.measure_profile(tables.of_flags(given, "ts.measure_profile"))
  local folder = given.out or "."
  local path = write(profile, report, folder)
  if host.json then
    local result = { profile = path, device = report.device:to_table(), rows = report.rows, busy = report.busy,
      alone_rows = report.alone_rows, loading = report.loading, num_noisy = report.num_noisy, before = report.before,
      after = report.after }
    host.set_result(result)
  else
    show(profile, report)
    print(("written to %s; plans find it with TESSERA_PATH=%s"):format(path, folder))
  end
  return 0
end

return M
