-- A Docker Compose file for each node: a service for each engine that it has a part of, and the router where there are
-- several.

local common = require "tessera.launch.common"
local containers = require "tessera.launch.platforms.containers"
local yaml = require "tessera.launch.yaml"
local map = yaml.map

local M = {}

local nginx_image = "nginx:1.29"

-- "$" is Compose's own.
local function escaped(text) return (text:gsub("%$", "$$$$")) end

local function escaped_list(words)
  local list = {}
  for i, word in ipairs(words) do list[i] = escaped(word) end
  return list
end

local function service_name(index, spans, rank)
  return #spans == 1 and ("engine-%d"):format(index - 1) or ("engine-%d-node-%d"):format(index - 1, rank)
end

-- GPUs by number: NVIDIA's as reserved devices, others' as device files.
local function gpu_entries(part, span)
  local backend, order, ids = containers.backend(part), containers.gpus(span)
  if backend == "cuda" then
    for i, id in ipairs(ids) do ids[i] = tostring(id) end
    local devices = { map { { "driver", "nvidia" }, { "device_ids", ids }, { "capabilities", { "gpu" } } } }
    local reservations = map { { "reservations", map { { "devices", devices } } } }
    return { { "deploy", map { { "resources", reservations } } } }, table.concat(order, ",")
  elseif backend == "rocm" then
    return { { "devices", { "/dev/kfd", "/dev/dri" } }, { "group_add", { "video", "render" } },
      { "security_opt", { "seccomp=unconfined" } } }
  elseif backend == "sycl" then
    return { { "devices", { "/dev/dri" } }, { "group_add", { "video", "render" } } }
  end
  return {}
end

local function environment_of(layout, node, values, key_variable, visible)
  local entries = {}
  for _, each in ipairs(node.variables) do
    local value = each[1] == "CUDA_VISIBLE_DEVICES" and visible or containers.value(each[2], values)
    entries[#entries + 1] = { each[1], value:find "^%${" and value or escaped(value) }
  end
  entries[#entries + 1] = { "HF_TOKEN", "${HF_TOKEN:-}" }
  if node.serves then
    entries[#entries + 1] = { key_variable, #layout.nodes > 1
      and ("${%s:?the key that clients show; openssl rand -hex 32 makes one}"):format(key_variable)
      or ("${%s:-}"):format(key_variable) }
  end
  return map(entries)
end

local function health(port)
  return map {
    { "test", { "CMD", "curl", "--silent", "--fail", "--max-time", "5",
      ("http://127.0.0.1:%d/health"):format(port) } },
    { "interval", "10s" }, { "timeout", "6s" }, { "retries", 6 }, { "start_period", "1800s" },
  }
end

local function service(layout, part, node, opt)
  local is_alone = #layout.nodes == 1
  local values = { LISTEN = "0.0.0.0" }
  for i in ipairs(layout.nodes) do values[("HOST_%d"):format(i - 1)] = ("${HOST_%d}"):format(i - 1) end
  local entrypoint, arguments = containers.command(node, values)
  local gpus, visible = gpu_entries(part, node.span)
  for i, word in ipairs(arguments) do -- addresses stay Compose's variables
    arguments[i] = node.before and escaped(word):gsub("%$%${(HOST_%d+)}", "${%1}") or word:find "%${HOST_%d+}" and word
      or escaped(word)
  end
  local volumes = { ".:" .. containers.folder, "models:/root/.cache/huggingface" }
  if part.weights.id:find "^/" then volumes[#volumes + 1] = ("%s:%s:ro"):format(part.weights.id, part.weights.id) end
  local entries = {
    { "image", opt.image }, { "entrypoint", escaped_list(entrypoint) }, { "command", arguments },
    { "environment", environment_of(layout, node, values, opt.key_variable, visible) },
    { "working_dir", containers.folder }, { "volumes", volumes }, { "ipc", "host" },
    { "network_mode", not is_alone and "host" or nil },
    { "ports", is_alone and node.serves and { ("${LISTEN:-127.0.0.1}:%d:%d"):format(node.port, node.port) } or nil },
    { "healthcheck", node.serves and health(node.port) or nil }, { "restart", "unless-stopped" },
  }
  for _, entry in ipairs(gpus) do entries[#entries + 1] = entry end
  return map(entries)
end

-- nginx's own image fills in the addresses as it starts.
local function router_service(layout, port)
  local is_alone = #layout.nodes == 1
  local hosts = {}
  for i in ipairs(layout.nodes) do hosts[i] = { ("HOST_%d"):format(i - 1), ("${HOST_%d}"):format(i - 1) } end
  return map {
    { "image", nginx_image },
    { "environment", not is_alone and map(hosts) or nil },
    { "volumes", { "./router.conf.template:/etc/nginx/templates/default.conf.template:ro" } },
    { "network_mode", not is_alone and "host" or nil },
    { "ports", is_alone and { ("${LISTEN:-127.0.0.1}:%d:%d"):format(port, port) } or nil },
    { "restart", "unless-stopped" },
  }
end

local function router_template(layout, parts, port)
  local addresses = {}
  for i, part in ipairs(parts) do
    local host = #layout.nodes == 1 and service_name(i, part.spans, 0)
      or ("${HOST_%d}"):format(part.spans[1].node - 1)
    addresses[i] = ("%s:%d"):format(host, common.port(i))
  end
  return table.concat(common.router_http(layout, addresses, tostring(port), "$"), "\n") .. "\n"
end

local function env_text(layout, key_variable)
  local lines = { "# What the Compose files of this folder fill in; Compose reads it by itself.",
    "COMPOSE_PROJECT_NAME=" .. containers.dns_name(layout.model.name),
    "# HF_TOKEN=         of Hugging Face, for weights that ask for one", }
  if #layout.nodes == 1 then
    lines[#lines + 1] = "# LISTEN=0.0.0.0    beyond this machine, then with a key:"
    lines[#lines + 1] = ("# %s="):format(key_variable)
  else
    lines[#lines + 1] = ("# The key that clients show, the same on every node: openssl rand -hex 32\n%s="):format(
      key_variable)
    lines[#lines + 1] = "# Addresses of the nodes, as the others reach them."
    for i, node in ipairs(layout.nodes) do lines[#lines + 1] = ("HOST_%d=%s"):format(i - 1, node.name) end
  end
  return table.concat(lines, "\n") .. "\n"
end

local function file_name(layout, node) return #layout.nodes == 1 and "compose.yaml" or
  ("compose.node-%d.yaml"):format(node - 1) end

--- Files, and the steps of README.md that start them; nil and why where containers cannot.
function M.files(layout, parts, opt)
  local why = containers.obstacle(layout)
  if why then return nil, why end
  local by_node = {}
  for i, part in ipairs(parts) do
    local image
    image, why = containers.image(opt.kind, part, opt.version)
    if not image then return nil, why end
    for _, node in ipairs(part.nodes) do
      local services = by_node[node.span.node] or {}
      by_node[node.span.node] = services
      services[#services + 1] = { service_name(i, part.spans, node.rank), service(layout, part, node,
        { image = image, key_variable = opt.key_variable }) }
    end
  end
  local files, steps = { { name = ".env", text = env_text(layout, opt.key_variable) } }, {}
  if #parts > 1 then
    files[#files + 1] = { name = "router.conf.template", text = router_template(layout, parts, opt.router_port) }
    local node = parts[1].spans[1].node
    table.insert(by_node[node], { "router", router_service(layout, opt.router_port) })
  end
  if #layout.nodes > 1 then
    steps[1] = "`.env`: put the addresses of the nodes and a key in, and copy this folder to every node."
  end
  for node = 1, #layout.nodes do
    if by_node[node] then
      local name = file_name(layout, node)
      files[#files + 1] = { name = name, text = yaml.text(map {
        { "services", map(by_node[node]) }, { "volumes", map { { "models", map {} } } },
      }) }
      steps[#steps + 1] = ("on node %s: `docker compose -f %s up -d --wait`"):format(layout.nodes[node].name, name)
    end
  end
  steps[#steps + 1] = #parts > 1 and ("one address, port %d of node %s, for all engines."):format(opt.router_port,
    layout.nodes[parts[1].spans[1].node].name) or ("it answers at port %d."):format(parts[1].nodes[1].port)
  return files, steps
end

return M
