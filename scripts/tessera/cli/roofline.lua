-- What a kernel could take at least on this machine: its bytes at the rate of memory, or its arithmetic at its peak.

local measure = require "tessera.measure"

local M = {}

--- Adds to rows of { threads =, bytes =, flop =, seconds = } what the roofline says: roofline_s, bound_by,
--- roofline_ratio and the two rates. `peak_of`: a row's field of measure.rates; its arithmetic runs at that.
function M.add(rows, peak_of)
  local rates, cores = measure.rates(1), measure.cpu().cores
  for _, row in ipairs(rows) do
    local threads = math.min(row.threads == 0 and cores or row.threads, cores)
    row.memory_bytes_per_s, row.peak_flop_per_s = threads * rates.memory_bytes_per_s, threads * rates[peak_of(row)]
    local bytes_s, flop_s = row.bytes / row.memory_bytes_per_s, row.flop / row.peak_flop_per_s
    row.roofline_s, row.bound_by = math.max(bytes_s, flop_s), bytes_s > flop_s and "memory" or "arithmetic"
    row.roofline_ratio = row.roofline_s / row.seconds
  end
end

--- A row's share of it, for a table.
function M.text(row)
  local percent = 100 * row.roofline_ratio
  return (percent < 99.5 and "%.2g %% (%s)" or "%.0f %% (%s)"):format(percent, row.bound_by)
end

--- What the share means, for below a table.
function M.legend(rows, worst_nmse)
  local row, most = rows[1], 0
  for _, each in ipairs(rows) do most = math.max(most, each.roofline_ratio or 0) end
  local disturbed = most > 1 and "above 100 %: something else ran while the machine's rates were measured; measure "
    .. "again when it is idle\n" or ""
  return ("roofline: the least time that this machine allows, over the time it took: %.3g GB/s of memory and %.4g "
    .. "GFLOP/s, measured now, what each core has while all are busy; checked against the same in double: NMSE at "
    .. "most %.1g\n"):format(row.memory_bytes_per_s / 1e9, row.peak_flop_per_s / 1e9, worst_nmse) .. disturbed
end

return M
