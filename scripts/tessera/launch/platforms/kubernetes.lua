-- Kubernetes manifests: for an engine on one node a Deployment, on several alike a LeaderWorkerSet, on unlike ones a
-- Deployment for each; a Service for each engine and one for all. GPUs are chosen by their products' labels, as
-- NVIDIA's feature discovery and AMD's labeller set them, and by how many there are; which ones of a node, Kubernetes
-- chooses.

local common = require "tessera.launch.common"
local containers = require "tessera.launch.platforms.containers"
local core = require "tessera.core"
local yaml = require "tessera.launch.yaml"
local map = yaml.map

local M = {}

local secret = "tessera-keys"
local gib = 2 ^ 30

local makers = {
  cuda = { resource = "nvidia.com/gpu", label = "nvidia.com/gpu.product" },
  rocm = { resource = "amd.com/gpu", label = "amd.com/gpu.product-name" },
  sycl = { resource = "gpu.intel.com/xe", label = nil },
}

-- What the label of a device type may say: its driver's names, without blanks and without what sheets add in brackets.
-- Kubernetes refuses values of other characters.
local function products(name, blank)
  local ok, device = pcall(core.device, name)
  local names, seen = {}, {}
  local function add(text)
    local product = text:gsub("%s*%b()", ""):gsub("%s+", blank):gsub("[^%w_.-]+", blank)
    if not seen[product] then names[#names + 1] = product end
    seen[product] = true
  end
  if not ok then return { (name:gsub("[^%w_.-]", "-")) } end
  add(device.full_name)
  add((device.full_name:gsub("^NVIDIA Tesla ", "Tesla "))) -- drivers before 470 leave the maker out
  local sheet = core.from_json(core.read_file(core.data_file("devices", device.name)))
  for _, driver_name in ipairs(sheet.driver_names or {}) do
    add(driver_name)
    add("NVIDIA " .. driver_name)
  end
  return names
end

local function affinity(part, span)
  local maker = makers[containers.backend(part)]
  local types = containers.types(span)
  if not (maker and maker.label and types[1]) then return nil end
  local values = products(types[1], maker.label:find "^amd" and "_" or "-")
  return map { { "nodeAffinity", map { { "requiredDuringSchedulingIgnoredDuringExecution", map {
    { "nodeSelectorTerms", { map { { "matchExpressions", { map { { "key", maker.label }, { "operator", "In" },
      { "values", values } } } } } } } } } } } }
end

local function from_secret(name, key, is_optional)
  return map { { "name", name }, { "valueFrom", map { { "secretKeyRef", map { { "name", secret }, { "key", key },
    { "optional", is_optional or nil } } } } } }
end

local function environment(node, values, key_variable)
  local list = {}
  for _, each in ipairs(node.variables) do
    local chooses_gpus = each[1]:find "VISIBLE_DEVICES$" or each[1]:find "DEVICE_SELECTOR$"
    if not chooses_gpus and each[1] ~= "CUDA_DEVICE_ORDER" then
      list[#list + 1] = map { { "name", each[1] }, { "value", containers.value(each[2], values) } }
    end
  end
  if node.serves then list[#list + 1] = from_secret(key_variable, "api-key") end
  list[#list + 1] = from_secret("HF_TOKEN", "hf-token", true)
  return list
end

-- CPU as vLLM asks for it, a core for each GPU and two more; memory for the weights of a part as they are read.
local function resources(part, span)
  local maker, count = makers[containers.backend(part)], #span.gpus
  local memory = ("%dGi"):format(math.ceil(containers.weight_bytes(span) / gib) + 16 * math.max(1, count))
  local gpus = maker and count > 0 and { maker.resource, tostring(count) } or nil
  local limits = { { "memory", memory } }
  if gpus then table.insert(limits, 1, gpus) end
  local requests = { { "cpu", tostring(2 + count) }, { "memory", memory } }
  if gpus then table.insert(requests, 1, gpus) end
  return map { { "requests", map(requests) }, { "limits", map(limits) } }
end

local function probe(port, period_s, failures)
  return map { { "httpGet", map { { "path", "/health" }, { "port", port } } }, { "periodSeconds", period_s },
    { "timeoutSeconds", 6 }, { "failureThreshold", failures } }
end

local function pod_spec(part, node, opt, values)
  local entrypoint, arguments = containers.command(node, values)
  local container = {
    { "name", "engine" }, { "image", opt.image }, { "command", entrypoint }, { "args", arguments },
    { "workingDir", containers.folder }, { "env", environment(node, values, opt.key_variable) },
    { "resources", resources(part, node.span) },
  }
  if node.serves then
    container[#container + 1] = { "ports", { map { { "name", "http" }, { "containerPort", node.port } } } }
    container[#container + 1] = { "startupProbe", probe(node.port, 10, 360) }
    container[#container + 1] = { "readinessProbe", probe(node.port, 5, 3) }
    container[#container + 1] = { "livenessProbe", probe(node.port, 20, 6) }
  end
  container[#container + 1] = { "volumeMounts", {
    map { { "name", "launch" }, { "mountPath", containers.folder } },
    map { { "name", "models" }, { "mountPath", "/root/.cache/huggingface" } },
    map { { "name", "shm" }, { "mountPath", "/dev/shm" } },
  } }
  local function on_node(name, path)
    return map { { "name", name }, { "hostPath", map { { "path", path }, { "type", "DirectoryOrCreate" } } } }
  end
  return map {
    { "affinity", affinity(part, node.span) },
    { "enableServiceLinks", false }, -- variables of other Services, VLLM_PORT among them, are not for the program
    { "containers", { map(container) } },
    { "volumes", { on_node("launch", "/var/lib/tessera/" .. opt.name), on_node("models", "/var/lib/tessera/models"),
      map { { "name", "shm" }, { "emptyDir", map { { "medium", "Memory" }, { "sizeLimit", "16Gi" } } } } } },
  }
end

local function labels_of(opt, index, serves)
  return map { { "app.kubernetes.io/name", opt.name }, { "tessera/engine", tostring(index - 1) },
    { "tessera/serves", serves and "true" or "false" } }
end

local function object(api, kind, name, labels, spec)
  return map { { "apiVersion", api }, { "kind", kind }, { "metadata", map { { "name", name }, { "labels", labels } } },
    { "spec", spec } }
end

local function template(labels, spec) return map { { "metadata", map { { "labels", labels } } }, { "spec", spec } } end

local function deployment(part, node, index, name, opt, values)
  local labels = map { { "app.kubernetes.io/name", opt.name }, { "tessera/engine", tostring(index - 1) },
    { "tessera/rank", tostring(node.rank) }, { "tessera/serves", node.serves and "true" or "false" } }
  return object("apps/v1", "Deployment", name, labels, map {
    { "replicas", 1 }, { "strategy", map { { "type", "Recreate" } } }, -- a second one would find no GPUs
    { "selector", map { { "matchLabels", labels } } },
    { "template", template(labels, pod_spec(part, node, opt, values)) },
  })
end

local function service(name, selector, ports, is_headless)
  return object("v1", "Service", name, selector, map { { "clusterIP", is_headless and "None" or nil },
    { "publishNotReadyAddresses", is_headless or nil }, { "selector", selector }, { "ports", ports } })
end

local function port_entry(port, target)
  return map { { "name", "http" }, { "port", port }, { "targetPort", target } }
end

-- Whether all workers of an engine are started alike: the same type and number of GPUs, and no variable of their own.
local function are_alike(part)
  local first = part.nodes[2]
  for i = 3, #part.nodes do
    local other = part.nodes[i]
    if #other.span.gpus ~= #first.span.gpus or containers.types(other.span)[1] ~= containers.types(first.span)[1] then
      return false
    end
  end
  return true
end

-- The rank of a worker, which its LeaderWorkerSet counts.
local function as_any_worker(node)
  local options = {}
  for i, option in ipairs(node.options or {}) do
    options[i] = option[1] == "--node-rank" and { option[1], "$(LWS_WORKER_INDEX)" } or option
  end
  local any = {}
  for key, value in pairs(node) do any[key] = value end
  any.options = node.options and options
  return any
end

local function leader_worker_set(part, index, name, opt, values)
  local leader, worker = part.nodes[1], as_any_worker(part.nodes[2])
  return object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, labels_of(opt, index, true), map {
    { "replicas", 1 },
    { "leaderWorkerTemplate", map {
      { "size", #part.nodes }, { "restartPolicy", "RecreateGroupOnPodRestart" },
      { "leaderTemplate", template(labels_of(opt, index, true), pod_spec(part, leader, opt, values)) },
      { "workerTemplate", template(labels_of(opt, index, false), pod_spec(part, worker, opt, values)) },
    } },
  })
end

local function with_hosts(layout, host)
  local values = { LISTEN = "0.0.0.0" }
  for i in ipairs(layout.nodes) do values[("HOST_%d"):format(i - 1)] = host end
  return values
end

-- Manifests of one engine.
local function of_engine(layout, part, index, opt)
  local name = ("%s-%d"):format(opt.name, index - 1)
  local documents = {}
  if #part.nodes == 1 then
    documents[1] = deployment(part, part.nodes[1], index, name, opt, with_hosts(layout, name))
  elseif are_alike(part) then
    documents[1] = leader_worker_set(part, index, name, opt, with_hosts(layout, "$(LWS_LEADER_ADDRESS)"))
  else
    local head = name .. "-head"
    for i, node in ipairs(part.nodes) do
      documents[i] = deployment(part, node, index, ("%s-node-%d"):format(name, node.rank), opt,
        with_hosts(layout, head))
    end
    documents[#documents + 1] = service(head, map { { "app.kubernetes.io/name", opt.name },
      { "tessera/engine", tostring(index - 1) }, { "tessera/rank", "0" } },
      { port_entry(part.nodes[1].port, part.nodes[1].port) }, true)
  end
  documents[#documents + 1] = service(name .. "-http", labels_of(opt, index, true),
    { port_entry(common.port(index), "http") })
  return documents
end

--- Files, and the steps of README.md; nil and why where containers cannot. Notes are of what Kubernetes does otherwise.
function M.files(layout, parts, opt)
  local why = containers.obstacle(layout)
  if why then return nil, why end
  local own = { name = containers.dns_name(layout.model.name), key_variable = opt.key_variable }
  local documents, notes, is_of_workers = {}, {}, false
  for i, part in ipairs(parts) do
    own.image, why = containers.image(opt.kind, part, opt.version)
    if not own.image then return nil, why end
    for _, document in ipairs(of_engine(layout, part, i, own)) do documents[#documents + 1] = document end
    is_of_workers = is_of_workers or #part.nodes > 1 and are_alike(part)
    for _, span in ipairs(part.spans) do
      local types = containers.types(span)
      if #types > 1 then
        notes[#notes + 1] = ("Kubernetes: a node's label names one type of GPU; engine %d has %s on one node, which is "
          .. "looked for by %s."):format(i - 1, table.concat(types, " and "), types[1])
      end
    end
  end
  documents[#documents + 1] = service(own.name, map { { "app.kubernetes.io/name", own.name },
    { "tessera/serves", "true" } }, { port_entry(80, "http") })
  notes[#notes + 1] = "Kubernetes: which of a node's GPUs a container gets is its device plugin's choice; a Service "
    .. "sends each connection to any engine, whatever it weighs."
  local steps = {
    ("`kubectl create secret generic %s --from-literal=api-key=$(openssl rand -hex 32) "
      .. "--from-literal=hf-token=$HF_TOKEN`: the key that clients show, and yours of Hugging Face."):format(secret),
    ("`kubectl get nodes -L nvidia.com/gpu.product,amd.com/gpu.product-name`: nodes whose GPUs have no such label are "
      .. "not found; weights of this folder are looked for in /var/lib/tessera/%s of each node."):format(own.name),
    "`kubectl apply -f kubernetes.yaml`" .. (is_of_workers and "; a LeaderWorkerSet needs its controller "
      .. "(lws.sigs.k8s.io)." or "."),
    ("`kubectl port-forward service/%s 9000:80`: one address, port 9000, for all engines."):format(own.name),
  }
  return { { name = "kubernetes.yaml", text = yaml.text(unpack(documents)) } }, steps, notes
end

return M
