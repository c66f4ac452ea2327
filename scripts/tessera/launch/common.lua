-- What the launch files of every runtime have in common: names, hosts, waiting, the router, the step that gets the
-- weights.

local core = require "tessera.core"
local hub = require "tessera.launch.hub"
local shell = require "tessera.launch.shell"

local M = {}

local first_port = 8000

--- Where engine `index` (1-based) listens.
function M.port(index) return first_port + index - 1 end

--- Name of the script of node `rank` (0-based) of an engine.
function M.script_name(index, rank) return ("engine-%d-node-%d.sh"):format(index - 1, rank) end

--- The word that stands for a node's address; hosts.sh says it.
function M.host(node, before, after)
  return { variable = ("HOST_%d"):format(node - 1), before = before, after = after }
end

--- The word that stands for the address that servers listen at; hosts.sh says it.
M.listen_address = { variable = "LISTEN" }

-- What chooses GPUs by number; Metal has one GPU, and numbers none.
local choices = {
  cuda = { { "CUDA_DEVICE_ORDER", "PCI_BUS_ID", "as nvidia-smi counts" }, { "CUDA_VISIBLE_DEVICES", "%s" } },
  rocm = { { "HIP_VISIBLE_DEVICES", "%s" } },
  sycl = { { "ONEAPI_DEVICE_SELECTOR", "level_zero:%s" } },
  metal = {},
}

local no_cuda = 2 -- compute capabilities below it are of no NVIDIA GPU

--- What drives the GPUs of a stage: "cuda", "rocm", "sycl" or "metal".
function M.backend(stage) return stage.backend or stage.compute_capability >= no_cuda and "cuda" or "metal" end

--- The variables, { name, value, comment }, that choose these GPUs among those of a node.
function M.gpu_choice(backend, gpus)
  local variables = {}
  for i, each in ipairs(choices[backend]) do
    variables[i] = { each[1], (each[2]:gsub("%%s", table.concat(gpus, ","))), each[3] }
  end
  return variables
end

--- The same as a table of values by name.
function M.as_variables(choice)
  local variables = {}
  for _, each in ipairs(choice) do variables[each[1]] = each[2] end
  return variables
end

--- "layers 0 to 15 on 2xA100-80G; layers 16 to 31 on L4".
function M.stages_text(stages)
  local texts = {}
  for i, stage in ipairs(stages) do
    local last = stage.first_layer + stage.num_layers - 1
    local layers = stage.num_layers == 1 and "layer " .. last or ("layers %d to %d"):format(stage.first_layer, last)
    local is_counted = stage.degree > 1 and not stage.device:find("+", 1, true) -- unlike ones are in the name
    texts[i] = ("%s on %s%s"):format(layers, is_counted and stage.degree .. "x" or "", stage.device)
  end
  return table.concat(texts, "; ")
end

-- Text from outside in a comment of a script: no line breaks.
local function one_line(text) return (text:gsub("%c", " ")) end

--- First lines of a script.
function M.script_head(comment, needs_hosts)
  local lines = { "#!/usr/bin/env bash", "# " .. one_line(comment), "set -euo pipefail", 'cd "$(dirname "$0")"' }
  if needs_hosts then lines[#lines + 1] = ". ./hosts.sh" end
  return lines
end

-- Raises for a node whose name is none that a host can have: it would be read as configuration where addresses go.
local function check_host_name(name)
  if #name <= 253 and name:find "^[%w][%w%-_.]*$" then return end
  core.refuse("plan:export.hosts", ("node '%s' has no name of a host (letters, digits, '-', '.'), and the launch "
    .. "scripts reach it by that; rename it in the cluster's file"):format(one_line(name):sub(1, 80)))
end

--- Addresses of the nodes, to be edited, and where servers listen: beyond this machine only with a key, which
--- `key_variable` or the file api_key holds.
function M.hosts(layout, key_variable)
  local here = #layout.nodes == 1
  local lines = { "# Addresses of the nodes, as the others reach them. Put the real ones here, on every node alike." }
  for i, node in ipairs(layout.nodes) do
    if not here then check_host_name(node.name) end
    lines[#lines + 1] = ("HOST_%d=%s"):format(i - 1, shell.quote(here and "127.0.0.1" or node.name))
  end
  local text = [[

# Where servers listen: 127.0.0.1 is this machine alone, 0.0.0.0 every network that it is in.
LISTEN=${LISTEN:-@ADDRESS@}

# Beyond this machine servers ask for a key: @KEY@, else what the file api_key holds.
need_key() {
  case $LISTEN in 127.0.0.1 | localhost) return 0 ;; esac
  if [ -z "${@KEY@:-}" ] && [ -s api_key ]; then @KEY@=$(cat api_key); fi
  if [ -z "${@KEY@:-}" ]; then
    echo "to listen at $LISTEN takes a key, the same on every node: (umask 077; openssl rand -hex 32 > api_key)" >&2
    exit 1
  fi
  export @KEY@
}
]]
  return table.concat(lines, "\n") .. "\n"
    .. text:gsub("@(%u+)@", { ADDRESS = here and "127.0.0.1" or "0.0.0.0", KEY = key_variable })
end

-- "http://$HOST_0:8000/health" for each engine.
local function addresses(parts, path)
  local words = {}
  for i, part in ipairs(parts) do
    words[i] = shell.quote(M.host(part.spans[1].node, "http://", ":" .. M.port(i) .. path))
  end
  return words
end

--- The script of a node of an engine: { comment, serves = whether it answers requests, variables = { { name, value,
--- note } }, before = lines that go first, start = words, options = { { flag, value } } }.
function M.node_script(node)
  local lines = M.script_head(node.comment, true)
  if node.serves then lines[#lines + 1] = "need_key" end
  for _, each in ipairs(node.variables) do
    lines[#lines + 1] = ("export %s=%s%s"):format(each[1], shell.quote(each[2]), each[3] and " # " .. each[3] or "")
  end
  for _, line in ipairs(node.before or {}) do lines[#lines + 1] = line end
  lines[#lines + 1] = shell.command({ "exec", unpack(node.start) }, node.options or {})
  return table.concat(lines, "\n") .. "\n"
end

-- Text of a script: its head, and what follows.
local function script_of(head, more)
  for _, line in ipairs(more) do head[#head + 1] = line end
  return table.concat(head, "\n") .. "\n"
end

--- Waits until all engines answer, for a limited time.
function M.wait_script(parts)
  local lines = M.script_head("Waits until every engine answers: wait.sh [SECONDS].", true)
  local more = {
    "limit_s=${1:-1800}",
    "end=$((SECONDS + limit_s))",
    "for address in " .. table.concat(addresses(parts, "/health"), " ") .. "; do",
    '  until curl --silent --fail --max-time 5 --output /dev/null "$address"; do',
    '    if [ "$SECONDS" -ge "$end" ]; then echo "not ready after $limit_s s: $address" >&2; exit 1; fi',
    "    sleep 2",
    "  done",
    '  echo "ready: $address"',
    "done",
  }
  return script_of(lines, more)
end

--- Whether engines have roles.
function M.has_pools(layout) return layout.engines[1].role ~= nil end

--- vLLM's example of a proxy: each request goes to a prefill engine, then with its keys and values to a decode engine.
function M.proxy_script(layout, parts, port)
  local lines = M.script_head("The one address of all engines: vLLM's example proxy on port " .. port .. ".", true)
  local hosts, ports = { prefill = {}, decode = {} }, { prefill = {}, decode = {} }
  for i, part in ipairs(parts) do
    local role = layout.engines[i].role
    table.insert(hosts[role], shell.quote(M.host(part.spans[1].node)))
    table.insert(ports[role], M.port(i))
  end
  local function of(list) return table.concat(list, " ") end
  return script_of(lines, {
    "# From vLLM's repository, of the version that serves; it needs fastapi, uvicorn and httpx.",
    "proxy=${PROXY:-vllm/tests/v1/kv_connector/nixl_integration/toy_proxy_server.py}",
    'if [ ! -f "$proxy" ]; then echo "no proxy at $proxy: PROXY=FILE ./proxy.sh" >&2; exit 1; fi',
    "need_key",
    'export OPENAI_API_KEY="${VLLM_API_KEY:-}" # what it shows to the engines; it asks nobody for a key itself',
    ('exec python3 "$proxy" --host 127.0.0.1 --port %d \\'):format(port),
    ("  --prefiller-hosts %s --prefiller-ports %s \\"):format(of(hosts.prefill), of(ports.prefill)),
    ("  --decoder-hosts %s --decoder-ports %s"):format(of(hosts.decode), of(ports.decode)),
  })
end

-- nginx's methods by the routers that do the same; without one it sends in turn.
local nginx_methods = { least_requests = "least_conn;", round_robin = "", random = "random;",
  power_of_two = "random two least_conn;" }

--- The router of a stream that router.sh is: the one asked for, or where nginx has none like it the fewest connections.
function M.launched_router(name) return nginx_methods[name] and name or "least_requests" end

--- What router.sh makes beside itself.
M.router_makes = { configuration = "router.nginx.conf", pid = "router.pid", temporary = "router.temp" }

-- What an engine weighs among those behind one address.
local function weight(engine) return engine.share or engine.batch_size end

-- Engines behind one name. Those that weigh nothing are not among them.
local function upstream(name, layout, hosts, weight_of)
  local lines = { ("upstream %s {"):format(name) }
  local method = nginx_methods[M.launched_router(layout.router)]
  if method ~= "" then lines[#lines + 1] = "  " .. method end
  for i, engine in ipairs(layout.engines) do
    local own = weight_of(engine)
    if own > 0 then lines[#lines + 1] = ("  server %s weight=%d;"):format(hosts[i], own) end
  end
  lines[#lines + 1] = "}"
  return lines
end

-- nginx weighs by whole numbers: shares to a thousandth of the largest, and none that is something as nothing.
local function class_weight(layout, class)
  local most = 0
  for _, engine in ipairs(layout.engines) do most = math.max(most, engine.class_shares[class]) end
  return function(engine)
    local share = engine.class_shares[class]
    if most == 0 then return 1 end -- nobody planned for the class
    return share > 0 and math.max(1, math.floor(1000 * share / most + 0.5)) or 0
  end
end

--- What a request says in the header X-Request-Class, by the name of its class.
function M.class_word(name) return (name:gsub("[^%w%-_.]", "_")) end

--- Lines of nginx's http block for the engines of a layout behind one address: their hosts, and what to listen at.
--- Prompts and answers of any length pass as they come. Classes of requests each have weights of their own; a request
--- that does not say its class is of the first. `dollar`: how a variable of nginx begins where the text goes.
function M.router_http(layout, hosts, listen, dollar)
  local lines, classes = {}, layout.request_classes
  local function add(list)
    for _, line in ipairs(list) do lines[#lines + 1] = line end
  end
  if classes then
    add { ("map %shttp_x_request_class %sengines {"):format(dollar, dollar), "  default engines_0;" }
    for i, name in ipairs(classes) do add { ('  "%s" engines_%d;'):format(M.class_word(name), i - 1) } end
    add { "}" }
    for i in ipairs(classes) do
      add(upstream(("engines_%d"):format(i - 1), layout, hosts, class_weight(layout, i)))
    end
  else
    add(upstream("engines", layout, hosts, weight))
  end
  add {
    "server {",
    ("  listen %s;"):format(listen),
    "  client_max_body_size 0;",
    "  location / {",
    ("    proxy_pass http://%sengines;"):format(classes and dollar or ""),
    "    proxy_http_version 1.1;",
    "    proxy_set_header Connection '';",
    "    proxy_request_buffering off;",
    "    proxy_buffering off;",
    "    proxy_read_timeout 3600s;",
    "  }",
    "}",
  }
  return lines
end

--- nginx in front of several engines: each gets requests by its share of the plan's batch, or of a stream by what it
--- sustains. What nginx has compiled in for its files is root's.
function M.router_script(layout, parts, port)
  local lines = M.script_head("The one address of all engines: nginx on port " .. port .. ".", true)
  local hosts = {}
  for i, part in ipairs(parts) do hosts[i] = ("$HOST_%d:%d"):format(part.spans[1].node - 1, M.port(i)) end
  local makes = M.router_makes
  local more = {
    "mkdir -p " .. makes.temporary,
    ("cat > %s <<END"):format(makes.configuration),
    "daemon off;",
    ("pid %s;"):format(makes.pid),
    "error_log stderr;",
    "events { worker_connections 4096; }",
    "http {",
    "  access_log off;",
  }
  for _, kind in ipairs { "client_body", "proxy", "fastcgi", "uwsgi", "scgi" } do
    more[#more + 1] = ("  %s_temp_path %s/%s;"):format(kind, makes.temporary, kind)
  end
  for _, line in ipairs(M.router_http(layout, hosts, ("$LISTEN:%d"):format(port), "\\$")) do
    more[#more + 1] = "  " .. line
  end
  for _, line in ipairs {
    "}",
    "END",
    "# Names in the configuration are beside this script. A log of its own that nginx may not open does no harm.",
    ('exec nginx -p "$PWD/" -c %s'):format(makes.configuration),
  } do
    more[#more + 1] = line
  end
  return script_of(lines, more)
end

local folders = setmetatable({}, { __mode = "k" }) -- [layout] = { [key] = folder }

--- The folder in which `tessera quantise` puts the weights of an engine; engines with alike weights share one.
function M.checkpoint_folder(layout, weights)
  local known = folders[layout] or { count = 0 }
  folders[layout] = known
  if not known[weights.key] then
    known[weights.key], known.count = ("./checkpoint-%d"):format(known.count), known.count + 1
  end
  return known[weights.key]
end

--- Lines that put the published weights into the folder base, which is there once they are whole.
function M.base_step(layout, weights)
  if weights.base then
    return {
      "if [ ! -d base ]; then", "  hf download " .. shell.quote(weights.base) .. " --local-dir base.part",
      "  mv base.part base", "fi",
    }
  end
  return { ("[ -d base ] || { echo %s >&2; exit 1; }"):format(
    shell.quote(("put the weights of %s into the folder base"):format(layout.model.name))) }
end

-- Lines that make one quantised copy.
local function making(layout, weights)
  local lines = M.base_step(layout, weights)
  local options = { unpack(weights.options) }
  options[#options + 1] = { "--out", weights.id }
  lines[#lines + 1] = ("[ -d %s ] || %s"):format(weights.id, shell.command({ "tessera", "quantise", "base" }, options))
  return lines
end

--- Gets or makes the weights of all engines. `fetch(id)`: the command that downloads them.
function M.checkpoint_script(layout, parts)
  local lines = M.script_head("The weights of every engine: run it once on every node, or share the folder.", false)
  local done = {}
  for _, part in ipairs(parts) do
    local weights = part.weights
    if not done[weights.id] then
      done[weights.id] = true
      lines[#lines + 1] = "# " .. one_line(weights.note)
      if weights.kind == "quantise" then
        for _, line in ipairs(making(layout, weights)) do lines[#lines + 1] = line end
      elseif hub.is_id(weights.id) then
        local id = shell.quote(weights.id)
        lines[#lines + 1] = ("[ -d %s ] || hf download %s"):format(id, id)
      end
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

return M
