-- Mistral-7B in BF16 on one RTX 3090 at 220 W under vLLM 0.25, closed loops of 1 to 8 requests: output tokens per
-- second, plain and with n-gram drafts. The other models of these benchmarks are none that ship.
--
-- Known: 256 tokens out, 512 in (synthetic prompts; real ones are shorter, 64 assumed), the number of drafts and their
-- mean acceptance, which is an input. Assumed: V1 with 256 seats and 2,048 tokens a step; the card's clock at 220 W
-- instead of 350 is not modelled. Nothing is fitted to these runs.
local measured = require "lib.measured"

local runs = require "fidelity.serving.parts.runs"

local campaigns = { ["tli-real"] = 64, ["tli-synth"] = 512, ["tli-synth-ext"] = 512 }

-- Rates are cumulative over positions: of each draft whose predecessors passed, the share a such that the mean over
-- positions, sum of a^i / k, is the acceptance that was measured.
local function chain_rate(acceptance, k)
  local low, high = 0, 1
  for _ = 1, 60 do
    local a, sum = (low + high) / 2, 0
    for i = 1, k do sum = sum + a ^ i end
    if sum / k < acceptance then low = a else high = a end
  end
  return low
end

local function rows()
  local table_rows, why = runs.read(measured.path "serving/rtx3090x4.csv")
  if not table_rows then return nil, why end
  local list, seen = {}, {}
  for _, r in ipairs(table_rows) do
    local prompt, concurrency = campaigns[r.campaign], tonumber(r.concurrency)
    local plain, ngram = r.spec_method == "", r.spec_method == "ngram"
    if r.model == "Mistral-7B" and prompt and concurrency and (plain or ngram) and tonumber(r.output_tok_s) then
      local k = tonumber(r.spec_k)
      local name = ("%s, %s, %s, %g at once"):format(r.campaign, r.checkpoint:gsub("Mistral%-7B%-?", ""),
        plain and "plain" or ("n-gram of %d"):format(k), concurrency)
      seen[name] = (seen[name] or 0) + 1
      if seen[name] > 1 then name = ("%s, %d"):format(name, seen[name]) end
      local out, in_tokens = tonumber(r.gen_tokens) or 256, tonumber(r.prompt_tokens) or prompt
      list[#list + 1] = {
        run = name, case = plain and "plain" or "n-gram", below_knee = true,
        deployment = {
          model = "mistral-7b", cluster = "1xRTX-3090", kernel_set = "vllm",
          engine = {
            scheduler = "vllm_v1", max_num_seqs = 256, max_num_batched_tokens = 2048, max_model_len = 8192,
            runtime_version = "0.25",
            speculative = ngram
              and { method = "ngram", num_tokens = k, acceptance = chain_rate(tonumber(r.acceptance), k) } or nil,
          },
        },
        traffic = {
          arrivals = "closed", concurrency = concurrency, num_requests = concurrency * 8, prompt_tokens = in_tokens,
          output_tokens = out,
        },
        measured = { request_rate = r.output_tok_s / out },
      }
    end
  end
  return list
end

return runs.experiment {
  stated = false, -- cards held to 220 W
  name = "rtx3090x4", doc = "Mistral-7B on an RTX 3090, closed loops, plain and with n-gram drafts",
  rows = rows, quick = 4, plots = {},
  groups = { { metrics = { request_rate = true }, differs = { request_rate = { here = { 0.28, 0.47 },
    why = "the cards are held to 220 W of 350, which is not modelled: single requests come out 45 % too fast" } } } },
  check = function(t)
    t:expect_that {
      text = "n-gram drafts are faster than none at every number of requests, as measured",
      holds = function(_, rows_of)
        local right, count = 0, 0
        for _, row in ipairs(rows_of) do
          local plain = row.case == "n-gram" and row.point.run:gsub("n%-gram of 4", "plain"):gsub(", [23]$", "")
          for _, other in ipairs(rows_of) do
            if plain and other.point.run == plain then
              count = count + 1
              if row.predicted_request_rate_per_s > other.predicted_request_rate_per_s then right = right + 1 end
            end
          end
        end
        return right == count and count > 0, ("%d of %d"):format(right, count)
      end,
    }
  end,
}
