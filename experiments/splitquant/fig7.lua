-- SplitQuant, Fig. 7: how long inputs and outputs are, in (a) CNN/DailyMail summarisation and (b) LooGLE.
--
-- Neither data set's lengths are public as a table. Drawn instead: arXiv summarisation, a stand-in for (a), and the
-- traces that other papers serve (Azure code and chat, ShareGPT). LooGLE (about 97,000 tokens in, 63 out) has none.
-- Print gives one number to compare with: CNN/DailyMail's mean output, 299 tokens (VI-A).
local ts = require "tessera"
local measured = require "lib.measured"

local traces = { "arxiv_summarization", "azure_2023_code", "azure_2023_conv", "sharegpt_lengths" }
local edges = { 1, 65, 129, 257, 513, 1025, 2049, 4097, 8193 }
local labels = {}
for i, row in ipairs(ts.histogram({}, edges)) do labels[i] = row.label end

return ts.experiment {
  name = "splitquant/fig7",
  doc = "SplitQuant, Fig. 7: lengths of inputs and outputs in public traces",
  grid = { trace = traces, tokens = labels },
  columns = { "share_of_inputs", "share_of_outputs", "mean_input_tokens", "mean_output_tokens", "num_requests" },

  run = function(point)
    local path, why = measured.path("workloads/" .. point.trace .. ".csv")
    if not path then return { status = why.code } end
    local workload = ts.workload { lengths = path }
    local requests = workload:requests()
    local row = {
      status = "done", num_requests = workload.num_requests, provenance = "measured",
      mean_input_tokens = workload.prompt_tokens, mean_output_tokens = workload.output_tokens,
    }
    local columns = { share_of_inputs = requests.prompt_tokens, share_of_outputs = requests.output_tokens }
    for column, values in pairs(columns) do
      for _, bucket in ipairs(ts.histogram(values, edges)) do
        if bucket.label == point.tokens then row[column] = bucket.share end
      end
    end
    return row
  end,

  check = function(t)
    local all = { trace = "arxiv_summarization" }
    -- Summarising reads much and writes little, as in Fig. 7(a); 291 tokens out, where print has 299.
    local stand_in = "arXiv's abstracts stand in for CNN/DailyMail's: that they are as long is no reproduction"
    t:expect_close { column = "mean_output_tokens", to = 299, rel = 0.05, where = all, note = stand_in }
    t:expect_all { column = "mean_input_tokens", at_least = 2000, where = all, note = stand_in }
    -- No length stands for all requests of a trace.
    t:expect_all { column = "share_of_inputs", at_most = 0.8 }
  end,
  plots = {
    { kind = "bars", x = "tokens", y = "share_of_inputs", by = "trace" },
    { kind = "bars", x = "tokens", y = "share_of_outputs", by = "trace" },
  },
}
