-- What experiments/quality computes around its measurements: statistics, bitwidths of layers, the relative error.
local host = require "tessera.host"
local plans = require "lib.quality.plans"
local relative_error = require "lib.quality.relative_error"
local summary = require "lib.quality.summary"
local ts = require "tessera"

local data = host.installation.experiments_dir .. "/indicator/data/"

local function near(expected, actual, tolerance)
  assert.is_true(math.abs(expected - actual) <= tolerance, ("%.9g is not %.9g"):format(actual, expected))
end

describe("summary", function()
  it("has mean and deviation, and leaves out what is not there", function()
    local rows = { { x = 1 }, { x = 2 }, {}, { x = 6 } }
    near(3, summary.mean(rows, "x"), 0)
    near(math.sqrt(7), summary.deviation(rows, "x"), 1e-12)
    assert.is_nil(summary.mean({}, "x"))
    assert.is_nil(summary.deviation { 1 })
  end)

  it("bootstraps the mean to about 1.96 standard errors", function()
    local values, draw = {}, summary.generator(5)
    for i = 1, 400 do values[i] = draw(1000) end
    local found, error = summary.bootstrap(summary.mean, { values }, 1), summary.deviation(values) / 20
    near(summary.mean(values), found.value, 0)
    near(2 * 1.96 * error, found.high - found.low, 0.5 * error)
  end)

  it("draws all of a range evenly, whatever the seed", function()
    local counts = { 0, 0, 0 }
    for seed = 1, 3000 do
      local k = summary.generator(seed)(3)
      counts[k] = counts[k] + 1
    end
    for _, count in ipairs(counts) do near(1000, count, 150) end -- 5.8 standard deviations
  end)

  it("finds the coefficients of a plane, and none of columns that are one another", function()
    local y, a, b = {}, { 1, 2, 3, 4, 7 }, { 2, -1, 0, 5, 1 }
    for i in ipairs(a) do y[i] = 3 - 2 * a[i] + 0.5 * b[i] end
    local found = summary.regression(y, { a, b })
    for k, expected in ipairs { 3, -2, 0.5 } do near(expected, found[k], 1e-9) end
    near(1, found.r2, 1e-12)
    assert.is_nil(summary.regression(y, { a, a }))
  end)
end)

describe("plans", function()
  it("shuffle the same counts", function()
    for seed = 1, 20 do
      local list, counts = plans.shuffled(30, { 3, 4, 8 }, seed), { [3] = 0, [4] = 0, [8] = 0 }
      for _, bitwidth in ipairs(list) do counts[bitwidth] = counts[bitwidth] + 1 end
      assert.same({ [3] = 10, [4] = 10, [8] = 10 }, counts)
      assert.same(list, plans.list(plans.text(list)))
    end
    assert.not_same(plans.shuffled(30, { 3, 4, 8 }, 1), plans.shuffled(30, { 3, 4, 8 }, 2))
  end)

  it("cut layers into ranges without gaps", function()
    local next_first = 0
    for index = 1, 3 do
      local first, last = plans.range(32, index, 3)
      assert.equal(next_first, first)
      next_first = last
    end
    assert.equal(32, next_first)
    assert.same({ 16, 4, 4, 16 }, plans.of_range(4, 1, 3, 4))
  end)

  it("keep the layers wide that save most", function()
    local gain = { [0] = 1, 5, 2, 9, 0 }
    local function omega(layer, bitwidth) return bitwidth == 3 and gain[layer] or 0 end
    assert.same({ 3, 4, 3, 4, 3 }, plans.chosen(5, 3, 4, omega))
    assert.same({ 4, 4, 3, 3, 3 }, plans.chosen(5, 3, 4, function() return 1 end))
  end)
end)

-- E of a matrix's outputs and the squared error of rounding it to 4 bits, one weight at a time.
local function by_hand(file, statistics, layer, name, group_size)
  local stored = ("layers.%d.%s"):format(layer, name)
  stored = statistics.metadata["alias:" .. stored] or stored
  local variance = statistics:tensor(stored .. ".variance"):to_table()
  local mean = statistics:tensor(stored .. ".mean"):to_table()
  local w, energy, error = file:linear(layer, name):to_table(), 0, 0
  local width = #mean
  for at = 1, #w do
    local j = (at - 1) % width
    local largest, first = 0, at - j % group_size
    for other = first, math.min(first + group_size - 1, at - j + width - 1) do
      largest = math.max(largest, math.abs(w[other]))
    end
    local square = variance[j + 1] + mean[j + 1] ^ 2
    energy, error = energy + w[at] ^ 2 * square, error + (largest / 7) ^ 2 / 12 * square
  end
  return energy, error
end

describe("the relative error", function()
  local path, statistics_path = data .. "tiny_llama", data .. "tiny_llama.statistics.safetensors"

  it("is that of its formula", function()
    local file, statistics = ts.weights(path), ts.weights(statistics_path)
    local model = file:model()
    local embedding = file:tensor "model.embed_tokens.weight"
    local stream = model.hidden_size * (embedding:variance() + embedding:mean() ^ 2)
    local omega = relative_error.of(path, statistics_path, { 3, 4, 16 }, { group_size = 8, robust = false })
    for layer = 0, model.num_layers - 1 do
      local expected = 0
      for _, names in ipairs { { "q_proj", "k_proj", "v_proj", "o_proj" }, { "gate_proj", "up_proj", "down_proj" } } do
        local ratio, added = 0, nil
        for _, name in ipairs(names) do
          local energy, error = by_hand(file, statistics, layer, name, 8)
          ratio, added = ratio + error / energy, energy
        end
        expected, stream = expected + ratio * added, stream + added
      end
      near(expected / stream, omega(layer, 4), 1e-9 * expected / stream)
      near((7 / 3) ^ 2 * omega(layer, 4), omega(layer, 3), 1e-9 * omega(layer, 3))
      assert.equal(0, omega(layer, 16))
    end
  end)

  it("says which file lacks what it reads", function()
    assert.has_error(function()
      relative_error.of(path, path .. "/model.safetensors", { 4 }, { group_size = 8, robust = false })
    end)
  end)
end)
