-- Ray Serve's configuration of vLLM's engines: an application with an LLMConfig for engines that are alike, whose
-- engine_kwargs are the options that the scripts have.

local containers = require "tessera.launch.platforms.containers"
local core = require "tessera.core"
local hub = require "tessera.launch.hub"
local yaml = require "tessera.launch.yaml"
local map = yaml.map

local M = {}

-- Ray's names of accelerators, where it has one for a type of ours that it finds by itself.
local accelerators = {
  ["V100-16G"] = "V100", ["V100-32G"] = "V100", ["V100S-32G"] = "V100", ["T4-16G"] = "T4", ["L4"] = "L4",
  ["L40S"] = "L40S", ["A10G"] = "A10G", ["A100-40G"] = "A100", ["A100-80G"] = "A100", ["H100-80G"] = "H100",
  ["H200-141G"] = "H200", ["H20-96G"] = "H20", ["B200-180G"] = "B200", ["MI300X"] = "AMD-Instinct-MI300X-OAM",
  ["MI325X"] = "AMD-Instinct-MI325X-OAM", ["MI350X"] = "AMD-Instinct-MI350X-OAM",
  ["MI355X"] = "AMD-Instinct-MI355X-OAM",
  ["MI250X"] = "AMD-Instinct-MI250X", ["MI250"] = "AMD-Instinct-MI250X-MI250",
  ["MI210"] = "AMD-Instinct-MI210", ["MI100"] = "AMD-Instinct-MI100",
}

-- What Ray Serve says itself, and what is another word there.
local of_ray = { ["--served-model-name"] = true, ["--host"] = true, ["--port"] = true, ["--nnodes"] = true,
  ["--node-rank"] = true, ["--master-addr"] = true, ["--master-port"] = true, ["--headless"] = true,
  ["--distributed-executor-backend"] = true }

-- { "--max-num-seqs", 64 } as max_num_seqs: 64, { "--no-enable-prefix-caching" } as enable_prefix_caching: false.
local function engine_arguments(node)
  local entries = {}
  for _, option in ipairs(node.options) do
    if not of_ray[option[1]] then
      local name, value = option[1]:gsub("^%-%-", ""):gsub("%-", "_"), option[2]
      if value == nil then value = not name:find "^no_" end
      if type(value) == "string" then value = tonumber(value) or value end
      entries[#entries + 1] = { (name:gsub("^no_", "")), value }
    end
  end
  entries[#entries + 1] = { "distributed_executor_backend", "ray" }
  return entries
end

local function environment(part)
  local entries = {}
  for _, each in ipairs(part.nodes[1].variables) do
    if not each[1]:find "^CUDA_" and not each[1]:find "VISIBLE_DEVICES$" then
      entries[#entries + 1] = { each[1], each[2] }
    end
  end
  return #entries > 0 and map { { "env_vars", map(entries) } } or nil
end

-- A bundle for each GPU, in the order of the stages, of the type that Ray knows.
local function bundles(part)
  local list = {}
  for _, span in ipairs(part.spans) do
    for _, stage in ipairs(span.stages) do
      local names = {}
      for run in stage.device:gmatch "[^+]+" do
        local count, name = run:match "^(%d+)x(.+)$"
        for _ = 1, tonumber(count) or stage.degree do names[#names + 1] = name or run end
      end
      for i = 1, stage.degree do
        local known = accelerators[names[i]]
        list[#list + 1] = map { { "CPU", 1 }, { "GPU", 1 },
          known and { "accelerator_type:" .. known, 0.001 } or { "accelerator_type", nil } }
      end
    end
  end
  return list
end

local function configuration(layout, part)
  return {
    { "model_loading_config", map { { "model_id", hub.served_name(layout.model) },
      { "model_source", part.weights.id } } },
    { "engine_kwargs", map(engine_arguments(part.nodes[1])) },
    { "placement_group_config", map { { "bundles", bundles(part) },
      { "strategy", #part.spans == 1 and "STRICT_PACK" or "PACK" } } },
    { "runtime_env", environment(part) },
  }
end

--- Files, and the steps of README.md; nil and why where Ray Serve cannot.
function M.files(layout, parts, opt)
  if opt.kind ~= "vllm" then
    return nil, core.why("unsupported", "Ray Serve's LLM applications run vLLM; --launch vllm --as ray")
  end
  local why = containers.obstacle(layout)
  if why then return nil, why end
  local kinds, by_text = {}, {}
  for _, part in ipairs(parts) do
    local own = configuration(layout, part)
    local text = yaml.text(map(own))
    local kind = by_text[text] or { configuration = own, count = 0, max_num_seqs = 0 }
    if not by_text[text] then kinds[#kinds + 1] = kind end
    by_text[text], kind.count = kind, kind.count + 1
  end
  local applications, notes = {}, {}
  for i, kind in ipairs(kinds) do
    table.insert(kind.configuration, 3, { "deployment_config", map { { "num_replicas", kind.count } } })
    local name = containers.dns_name(layout.model.name) .. (#kinds > 1 and "-" .. i - 1 or "")
    applications[i] = map {
      { "name", name }, { "route_prefix", #kinds > 1 and "/" .. name or "/" },
      { "import_path", "ray.serve.llm:build_openai_app" },
      { "args", map { { "llm_configs", { map(kind.configuration) } } } },
    }
  end
  if #kinds > 1 then
    notes[1] = ("Ray Serve: engines of one address are alike there; these are %d kinds, an application each, at "
      .. "addresses of their own."):format(#kinds)
  end
  notes[#notes + 1] = "Ray Serve: it asks for no key; HF_TOKEN is the environment's in which Ray's nodes were started. "
    .. "GPUs of types that Ray has no name for are taken as they come."
  return { { name = "ray-serve.yaml", text = yaml.text(map {
    { "http_options", map { { "host", #layout.nodes == 1 and "127.0.0.1" or "0.0.0.0" },
      { "port", opt.router_port } } },
    { "applications", applications },
  }) } }, {
    "Ray on every node: `ray start --head`, on the others `ray start --address=HEAD:6379` (`pip install "
      .. "\"ray[serve,llm]\"`).",
    "`serve deploy ray-serve.yaml`; `serve status` says when it is RUNNING.",
  }, notes
end

return M
