-- Keys and values at 8 bits (a scale for each head and token) against 16: perplexity and divergence, with weights as
-- stored and at 4 bits. Plans take the KV cache at 16 bits unless asked; this says what halving it costs.
--
-- Bounds were chosen before the first run: published caches of 8 bits move the perplexity by less than 0.5 % (llama.cpp
-- pull request 7412, LMDeploy, KVQuant), and a divergence that small cannot be 0 either.
local ts = require "tessera"
local measure = require "lib.quality.measure"
local plans = require "lib.quality.plans"
local subjects = require "lib.quality.subject"

local models = { subjects.small, subjects.real }

return ts.experiment {
  name = "quality/kv_bits",
  doc = "Perplexity and divergence with keys and values at 8 bits",
  grid = { model = models, weight_bits = { "as stored", "4" }, kv_bits = { 16, 8 } },
  quick = { model = { subjects.small } },
  columns = {
    "kv_bytes_per_token", "perplexity", "perplexity_increase", "loss_increase_nats", "loss_increase_se", "kl_nats",
    "kl_se", "num_tokens", "note",
  },
  notes = measure.notes_and {
    "kv_bits 16: keys and values as f32; increases and divergence: from 16 bits and weights as stored",
  },
  time_limit_s = 3600,

  run = function(point, context)
    local subject, why = subjects.find(point.model, context.quick)
    if not subject then return nil, why end
    local bitwidths = point.weight_bits == "4" and plans.uniform(subject.num_layers, 4) or nil
    local row = measure.row(subject, { kv_bitwidth = point.kv_bits, bitwidths = bitwidths })
    row.kv_bytes_per_token = subject.model:kv_bytes_per_token(point.kv_bits)
    return row
  end,

  check = function(t)
    for _, model in ipairs(models) do
      local where = { model = model, weight_bits = "as stored", kv_bits = 8 }
      t:expect_all { column = "perplexity_increase", at_least = -0.005, at_most = 0.005, where = where }
      t:expect_all { column = "kl_nats", at_least = 1e-7, at_most = 5e-3, where = where }
      t:expect_that {
        text = "the loss rises by less than 0.005 nats: both ends of its 95 % interval lie within", where = where,
        holds = function(_, rows)
          local rise, error = rows[1].loss_increase_nats, 1.96 * rows[1].loss_increase_se
          return rise - error >= -0.005 and rise + error <= 0.005, ("%.5f +- %.5f"):format(rise, error)
        end,
      }
      t:expect_that {
        text = "beside weights of 4 bits the cache of 8 bits changes the divergence by less than 5 %",
        where = { model = model, weight_bits = "4" },
        holds = function(at)
          local ratio = at { kv_bits = 8 }.kl_nats / at { kv_bits = 16 }.kl_nats
          return ratio >= 0.95 and ratio <= 1.05, ("%+.2f %%"):format(100 * (ratio - 1))
        end,
      }
      t:expect_all { -- the model against itself: what rounding leaves
        column = "kl_nats", at_least = -1e-6, at_most = 1e-6,
        where = { model = model, weight_bits = "as stored", kv_bits = 16 },
      }
    end
  end,
}
