-- What containers of an engine have in common on every platform: image, words of the command, GPUs by type.

local core = require "tessera.core"
local shell = require "tessera.launch.shell"

local M = {}

--- Where the launch folder is in a container, so that weights in it have the same names as for the scripts.
M.folder = "/launch"

-- llama.cpp's images have the server outside of PATH.
local programs = { ["llama-server"] = "/app/llama-server" }

local images = {
  vllm = { cuda = "vllm/vllm-openai:v%s", rocm = "vllm/vllm-openai-rocm:v%s" },
  ["llama.cpp"] = { cuda = "ghcr.io/ggml-org/llama.cpp:server-cuda", rocm = "ghcr.io/ggml-org/llama.cpp:server-rocm",
    sycl = "ghcr.io/ggml-org/llama.cpp:server-intel", cpu = "ghcr.io/ggml-org/llama.cpp:server" },
}

--- Who makes the GPUs of a part: "cuda", "rocm", "sycl", "cpu" or "metal".
function M.backend(part)
  return part.backend or part.spans[1].stages[1].backend or "cuda"
end

--- The image of a part; nil and why where there is none.
function M.image(kind, part, version)
  local backend = M.backend(part)
  local image = images[kind][backend]
  if image then return (image:gsub("%%s", version or "")) end
  return nil, core.why("unsupported", backend == "metal" and "containers see no GPU of Apple's: start the scripts on "
    .. "macOS (--as shell, the default)" or ("there is no image of %s for GPUs by %s"):format(kind, backend))
end

-- A word with what a variable stands for.
local function word_of(word, values)
  if type(word) ~= "table" then return tostring(word) end
  local value = values[word.variable] or error("no value of " .. word.variable)
  return (word.before or "") .. value .. (word.after or "")
end

--- The value of a variable of a node's environment.
function M.value(word, values) return word_of(word, values) end

--- Program and arguments, as lists of words; where lines go before them, bash and those. `values`: of variables.
function M.command(node, values)
  local words = {}
  for _, word in ipairs(node.start) do words[#words + 1] = word_of(word, values) end
  words[1] = programs[words[1]] or words[1]
  for _, option in ipairs(node.options or {}) do
    for i = 1, #option do words[#words + 1] = word_of(option[i], values) end
  end
  if not node.before then return { words[1] }, { unpack(words, 2) } end
  local lines = { "set -e", unpack(node.before) }
  for i, word in ipairs(words) do words[i] = word:find "^%$%(" and word or shell.quote(word) end
  lines[#lines + 1] = "exec " .. table.concat(words, " ")
  return { "bash", "-c" }, { table.concat(lines, "\n") .. "\n" }
end

--- GPUs of a container, which counts its own from 0, in the order of the stages, and their sorted ids on the node.
function M.gpus(span)
  local ids = { unpack(span.gpus) }
  table.sort(ids)
  local place, order = {}, {}
  for i, id in ipairs(ids) do place[id] = i - 1 end
  for i, id in ipairs(span.gpus) do order[i] = place[id] end
  return order, ids
end

--- Types of the devices of a span, in order, each once: "A100-80G" of "2xA100-80G".
function M.types(span)
  local types, seen = {}, {}
  for _, stage in ipairs(span.stages) do
    for run in stage.device:gmatch "[^+]+" do
      local name = stage.backend ~= "cpu" and run:gsub("^%d+x", "") or nil
      if name and not seen[name] then types[#types + 1] = name end
      if name then seen[name] = true end
    end
  end
  return types
end

--- Bytes of weights that a span loads.
function M.weight_bytes(span)
  local sum = 0
  for _, stage in ipairs(span.stages) do
    sum = sum + stage.memory.weight_bytes + stage.memory.embedding_bytes -- of all its GPUs together
  end
  return sum
end

--- A name as DNS has it: lower case, digits and '-'.
function M.dns_name(text)
  local name = text:lower():gsub("[^%w]+", "-"):sub(1, 40):gsub("^%-+", ""):gsub("%-+$", "")
  if not name:find "^%a" then name = "m-" .. name end
  return name
end

--- Why no platform of containers takes a layout; nil where they do.
function M.obstacle(layout)
  if layout.engines[1].role then
    return core.why("unsupported", "pools of prefill and decode need vLLM's example proxy, which no image has: start "
      .. "the scripts, or leave pools out (--no-disaggregated)")
  end
end

return M
