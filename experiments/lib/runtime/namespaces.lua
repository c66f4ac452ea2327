-- A host for each stage, as network namespaces of this machine on one bridge, each sending at a given rate (tbf). Needs
-- root, ip and tc. Namespaces share the machine's clock.

local core = require "tessera.core"
local host = require "tessera.host"

local M = {}

local subnet, bridge = "10.213.7", "tessera-br"
local port = 47113

local function shell(...)
  local line = (...):format(select(2, ...))
  return os.execute(line .. " >/dev/null 2>&1") == 0
end

local function name_of(rank) return "tessera-" .. rank end
local function address_of(rank) return ("%s.%d"):format(subnet, rank + 2) end

local function close(count)
  for rank = 0, count - 1 do shell("ip netns del %s", name_of(rank)) end
  shell("ip link del %s", bridge)
end

local function open_rank(rank, bytes_per_s)
  local name, link = name_of(rank), "tessera-v" .. rank
  return shell("ip netns add %s", name) and shell("ip link add %s type veth peer name eth0 netns %s", link, name)
    and shell("ip link set %s master %s up", link, bridge)
    and shell("ip -n %s addr add %s/24 dev eth0", name, address_of(rank))
    and shell("ip -n %s link set eth0 up && ip -n %s link set lo up", name, name)
    and shell("ip netns exec %s tc qdisc add dev eth0 root tbf rate %.0fbit burst 4kb latency 4s", name,
      8 * bytes_per_s)
end

--- What fn(options) returns, with options of ts.execute for `count` stages that are started there; nil and why where
--- this machine lets nobody make namespaces.
function M.with(count, bytes_per_s, context, fn)
  close(count)
  local is_open = shell("ip link add %s type bridge", bridge)
    and shell("ip addr add %s.1/24 dev %s && ip link set %s up", subnet, bridge, bridge)
  for rank = 0, count - 1 do is_open = is_open and open_rank(rank, bytes_per_s) end
  if not is_open then
    close(count)
    return nil, { code = "no_data", message = "network namespaces need root, ip and tc" }
  end
  local secret = context.output_dir .. "/secret"
  shell("(umask 077 && head -c 24 /dev/urandom | base64 > '%s')", secret)
  for rank = 0, count - 1 do
    os.execute(("ip netns exec %s '%s' stage --rank %d --connect %s.1:%d --host %s --secret-file '%s' "
      .. ">/dev/null 2>&1 &"):format(name_of(rank), host.program, rank, subnet, port, address_of(rank), secret))
  end
  local ok, result, why = pcall(fn, { workers = "others", host = subnet .. ".1", port = port, secret_file = secret })
  os.remove(secret)
  close(count)
  if not ok then core.raise(result.code or "internal", core.error_text(result), "namespaces") end
  return result, why
end

return M
