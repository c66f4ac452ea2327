-- Which part of the points this process runs: --shard i/n, or what Slurm, mpirun or torchrun say in the environment.

local core = require "tessera.core"

local M = {}

local launchers = {
  { "SLURM_PROCID", "SLURM_NTASKS", "Slurm" },
  { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI" },
  { "PMI_RANK", "PMI_SIZE", "MPI (PMI)" },
  { "RANK", "WORLD_SIZE", "torchrun" },
}

local function fail(where, text) core.raise("usage", where .. ": " .. text, where) end

local function checked(index, count, where, shown)
  index, count = tonumber(index), tonumber(count)
  if not index or not count or index % 1 ~= 0 or count % 1 ~= 0 or count < 1 then
    fail(where, ("'%s' is not i/n, a part and the number of parts: 0/4, 1/4, 2/4, 3/4"):format(shown))
  end
  if index < 0 or index >= count then
    fail(where, ("part %d of %d does not exist: parts count from 0 to %d"):format(index, count, count - 1))
  end
  return { index = index, count = count, text = ("%d/%d"):format(index, count) }
end

--- { index, count, text, by } or nil where everything runs here; `by` names the launcher whose word it is.
function M.choose(given, getenv)
  getenv = getenv or os.getenv
  if given then
    local index, count = given:match "^(%d+)/(%d+)$"
    return checked(index, count, "--shard", given)
  end
  for _, launcher in ipairs(launchers) do
    local index, count = getenv(launcher[1]), getenv(launcher[2])
    if index and count then
      local where = launcher[1] .. ", " .. launcher[2]
      local shard = checked(index, count, where, index .. "/" .. count)
      shard.by = launcher[3]
      if shard.count > 1 then return shard end
    end
  end
  return nil
end

--- The results file of a shard that a launcher started: its own, since file locks across machines are not to be
--- trusted. "{shard}" in the name is where its number goes.
function M.path(results, shard)
  local name = shard and ("shard-%d-of-%d"):format(shard.index, shard.count) or "all"
  local path, count = results:gsub("{shard}", name)
  if count > 0 or not shard or not shard.by then return path end
  local base, suffix = results:match "^(.+)(%.[^./]+)$"
  return (base or results) .. "." .. name .. (suffix or "")
end

--- Every n-th item.
function M.part(items, shard)
  if not shard then return items end
  local part = {}
  for i = shard.index + 1, #items, shard.count do part[#part + 1] = items[i] end
  return part
end

return M
