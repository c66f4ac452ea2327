-- Which process of a run this one is, where a launcher started it: torchrun, Slurm, Open MPI or MPICH.

local M = {}

-- In the order in which they are asked: torchrun may run under Slurm.
local launchers = {
  { name = "torchrun", rank = "RANK", size = "WORLD_SIZE", here = "LOCAL_WORLD_SIZE" },
  { name = "Open MPI", rank = "OMPI_COMM_WORLD_RANK", size = "OMPI_COMM_WORLD_SIZE",
    here = "OMPI_COMM_WORLD_LOCAL_SIZE" },
  { name = "MPICH", rank = "PMI_RANK", size = "PMI_SIZE", here = "MPI_LOCALNRANKS" },
  { name = "Slurm", rank = "SLURM_PROCID", size = "SLURM_NTASKS", here = "SLURM_NTASKS_PER_NODE" },
}

local default_port = 29500

local function whole(text)
  local value = text and text:match "^%d+$" and tonumber(text)
  return value or nil
end

-- Where the master listens. torchrun's agent sits on MASTER_PORT itself.
local function address(getenv)
  local host = getenv "MASTER_ADDR" or getenv "SLURM_LAUNCH_NODE_IPADDR" or "127.0.0.1"
  local port = whole(getenv "MASTER_PORT") or default_port
  if getenv "TORCHELASTIC_USE_AGENT_STORE" == "True" then port = port + 1 end
  return host, port
end

--- { launcher =, rank =, size =, local_size =, host =, port = } of this process; nil where no launcher says so.
--- local_size: of this machine's ranks, nil where it does not say.
--- @param getenv function|nil os.getenv, or what stands for it
function M.here(getenv)
  getenv = getenv or os.getenv
  for _, launcher in ipairs(launchers) do
    local rank, size = whole(getenv(launcher.rank)), whole(getenv(launcher.size))
    if rank and size and rank < size then
      local host, port = address(getenv)
      return { launcher = launcher.name, rank = rank, size = size, local_size = whole(getenv(launcher.here)),
        host = host, port = port }
    end
  end
end

return M
