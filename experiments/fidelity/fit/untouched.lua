-- The untouched split: shapes of products and of attention that no fit and no choice of a model may use, and that
-- experiments/fidelity/targets.lua looks at once, as the split "untouched".
--
-- A tenth of the shapes, by a hash that was written down before anybody looked at their errors: of (n, k) for products,
-- of (heads, KV heads, head size) for attention, so a shape is kept back on every GPU, for every dtype and number of
-- rows. Untouched means from then on: models of before were chosen by splits that had these shapes among others. What
-- ships was fitted without them.
--
-- local untouched = require "fidelity.fit.untouched"; local seen, kept_back = untouched.split(samples)

local M = {}

local one_in = 10
-- The least one that leaves the geometry of Llama-3.1-8B (32 heads, 8 KV heads, 128) with the fits: for consumer GPUs
-- nothing else was measured.
local seed = 1

-- Park and Miller's generator, fed with the numbers one after another: the same everywhere.
local function hash(...)
  local state = seed
  for _, value in ipairs { ... } do state = (state + value) * 16807 % 2147483647 end
  return state * 16807 % 2147483647
end

function M.is_kept_back(sample)
  if sample.op == "attention" or sample.num_heads then
    return hash(sample.num_heads, sample.num_kv_heads, sample.head_dim) % one_in == 0
  end
  return hash(sample.n, sample.k) % one_in == 0
end

-- The samples for fits, and those that are kept back.
function M.split(samples)
  local seen, kept_back = {}, {}
  for _, sample in ipairs(samples) do
    local list = M.is_kept_back(sample) and kept_back or seen
    list[#list + 1] = sample
  end
  return seen, kept_back
end

return M
