-- Two indicators that neither paper has, from one pass over the weights and the statistics without Hessians. Nothing is
-- fitted. With the mean squares m_j of a matrix's inputs and rounding errors that are independent and uniform within a
-- step S of their group:
--
--   absolute   omega of a layer = sum over its weights of S^2 / 12 m_j: the error of its matrices' outputs, as eq. (3)
--   relative   what errors are added to counts: a block (attention or MLP) adds its output to the residual stream, and
--              what follows reads the stream after a norm. With r = sum of S^2 / 12 m_j / sum of W_ij^2 m_j of each,
--                omega of a layer = (E_attention sum of its r + E_MLP sum of its r) / stream
--              where E is the energy that a block adds, of its last matrix (o_proj, down_proj), and stream that of the
--              embeddings and of all blocks up to this layer's end. Inputs are taken to be uncorrelated.
--
-- `robust` takes for m_j the smaller of the variance, without what is the same for every token, and of pi / 2 times the
-- squared mean absolute value, which of normal inputs is the mean square: some tokens of some channels are thousands of
-- times larger than all others (Sun et al., "Massive Activations in Large Language Models", 2024), and a mean square is
-- theirs.

local core = require "tessera.core"
local weights = require "tessera.weights"

local M = {}

local blocks = {
  { last = "o_proj", linears = { "q_proj", "k_proj", "v_proj", "o_proj" } },
  { last = "down_proj", linears = { "gate_proj", "up_proj", "down_proj" } },
}
local embeddings = {
  "token_embd.weight", "model.embed_tokens.weight", "model.decoder.embed_tokens.weight", "transformer.wte.weight",
  "wte.weight", "transformer.word_embeddings.weight", "word_embeddings.weight",
}

-- The mean squares of a matrix's inputs, at the alias's place where another matrix reads the same.
local function mean_squares(statistics, layer, linear, robust)
  local name = ("layers.%d.%s"):format(layer, linear)
  name = statistics.metadata["alias:" .. name] or name
  local squares = statistics:tensor(name .. ".variance"):to_table()
  if robust then
    local means = statistics:tensor(name .. ".abs_mean"):to_table()
    for j, mean in ipairs(means) do squares[j] = math.min(squares[j], mean ^ 2 * math.pi / 2) end
    return squares
  end
  local means = statistics:tensor(name .. ".mean"):to_table()
  for j, mean in ipairs(means) do squares[j] = squares[j] + mean ^ 2 end
  return squares
end

-- The energy of a matrix's outputs, and sum over weights of (max |W| of the group)^2 m_j.
local function energies(matrix, m, group_size)
  local w, width = matrix:to_table(), #m
  local energy, steps = 0, 0
  for row = 0, #w / width - 1 do
    for first = 1, width, group_size do
      local largest, inputs = 0, 0
      for j = first, math.min(first + group_size - 1, width) do
        local value = w[row * width + j]
        largest, inputs = math.max(largest, value * value), inputs + m[j]
        energy = energy + value * value * m[j]
      end
      steps = steps + largest * inputs
    end
  end
  return energy, steps
end

-- A model without gate_proj has none, and energy 0 of a matrix whose inputs are all 0 says nothing.
local function linear_of(file, layer, name)
  local ok, matrix = pcall(file.linear, file, layer, name)
  return ok and matrix or nil
end

local function embedding_energy(file, hidden_size)
  for _, name in ipairs(embeddings) do
    local ok, tensor = pcall(file.tensor, file, name)
    if ok then return hidden_size * (tensor:variance() + tensor:mean() ^ 2) end
  end
  core.raise("not_found", "the model has no embeddings by any known name", "relative_error")
end

--- omega(layer_index, bitwidth) of the model at `path`, for symmetric rounding in groups, and the seconds it took.
--- `options`: group_size, robust, and absolute: the errors of all matrices as they are, over nothing.
function M.of(path, statistics_path, bitwidths, options)
  local start = os.clock()
  local file, statistics = weights.open(path), weights.open(statistics_path)
  local model = file:model()
  local stream, rows = embedding_energy(file, model.hidden_size), {}
  for layer = 0, model.num_layers - 1 do
    local errors, absolute = 0, 0
    for _, block in ipairs(blocks) do
      local ratio, added = 0, 0
      for _, name in ipairs(block.linears) do
        local matrix = linear_of(file, layer, name)
        if matrix then
          local energy, steps = energies(matrix, mean_squares(statistics, layer, name, options.robust),
            options.group_size)
          absolute = absolute + steps / 12
          if energy > 0 then ratio = ratio + steps / energy / 12 end
          if name == block.last then added = energy end
        end
      end
      errors, stream = errors + ratio * added, stream + added
    end
    rows[layer] = options.absolute and absolute or errors / stream
    collectgarbage()
  end
  local step = {} -- over max |W|: codes reach from -(2^(b-1) - 1) to 2^(b-1) - 1
  for _, bitwidth in ipairs(bitwidths) do step[bitwidth] = bitwidth >= 16 and 0 or 1 / (2 ^ (bitwidth - 1) - 1) end
  return function(layer, bitwidth) return rows[layer] * step[bitwidth] ^ 2 end, os.clock() - start
end

return M
