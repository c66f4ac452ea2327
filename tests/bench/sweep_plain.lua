-- The points of tests/bench/sweep.lua in a plain loop: every n-th from point i on, so that two processes share them.
--   tessera tests/bench/sweep_plain.lua 0 2 & tessera tests/bench/sweep_plain.lua 1 2; wait
local core = require "tessera.core"
local ts = require "tessera"

local shard, shards = tonumber((...) or 0), tonumber((select(2, ...)) or 1)
local folder = debug.getinfo(1, "S").source:match "^@(.*)[/\\]" or "."
local experiment = dofile(folder .. "/sweep.lua")

local started_s, count, done = core.clock(), 0, 0
for _, point in ipairs(ts.grid(experiment.grid)) do
  if count % shards == shard then
    local row = experiment.run(point)
    assert(row.status == "optimal" or row.status == "infeasible", row.status)
    done = done + 1
  end
  count = count + 1
end
local elapsed_s = core.clock() - started_s
print(("%d of %d points in %.2f s, %.3f ms each"):format(done, count, elapsed_s, 1e3 * elapsed_s / done))
