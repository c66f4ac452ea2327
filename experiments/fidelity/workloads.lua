-- What planning by mean lengths leaves out: the same plans simulated with the requests of public traces.
--
-- Planners price a batch in which every request has the mean prompt and output (SplitQuant IV, "variable output
-- lengths"). The event simulation draws batches of the trace's own requests: padded, as LLM-PQ's rectangular batches
-- are run (every prompt as long as the batch's longest, rows kept until the last output of their micro-batch), or
-- ragged, each request with its own prompt and given up after its last token. `expected_error` is the throughput by
-- means over that of the distribution, less 1; with arrivals the demand bounds the latter, so it says little there.
-- Prompts beyond 3,072 and outputs beyond 1,024 tokens, more than the model attends to, are left out.
local ts = require "tessera"
local measured = require "lib.measured"

return ts.experiment {
  name = "fidelity/workloads",
  doc = "Throughput by mean lengths against the whole distribution of public traces",
  grid = {
    trace = { "azure_2023_code", "azure_2023_conv", "sharegpt_lengths", "arxiv_summarization" },
    batching = { "padded", "ragged" }, arrivals = { "all_at_once", "trace" },
  },
  quick = { trace = { "azure_2023_code" }, arrivals = { "all_at_once" } },
  columns = { "throughput_tok_s", "expected_tok_s", "expected_error", "ttft_p50_s", "ttft_p99_s", "tpot_p50_s",
    "tpot_p99_s", "e2e_p50_s", "e2e_p99_s", "num_batches" },
  seed = 7,

  run = function(point)
    local path, why = measured.path("workloads/" .. point.trace .. ".csv")
    if not path then return { status = why.code } end
    local workload = ts.workload {
      lengths = path, batch_size = 16, max_prompt_tokens = 3072, max_output_tokens = 1024,
    }
    if point.arrivals == "trace" and not workload.has_arrivals then return { status = "no_arrivals" } end
    local plan, reason = ts.plan(ts.problem {
      model = "llama-2-13b", cluster = { { "V100-32G", 2 }, { "A100-40G", 1, node = "b" }, link_gbps = 800 },
      workload = workload, kernel_set = "vllm", bitwidths = { 4, 8, 16 }, tensor_parallel = 1, use_all_devices = true,
      theta = 0.1,
    }, { replicas = 1, time_limit_s = 30 })
    if not plan then return { status = reason.code } end
    local run = ts.simulate(plan, {
      batching = point.batching, arrivals = point.arrivals, num_batches = 12, record = false, seed = 7,
    })
    local q = run.quantiles
    return {
      status = plan.status, throughput_tok_s = run.throughput_tok_s, expected_tok_s = run.expected.throughput_tok_s,
      expected_error = run.expected_error, num_batches = run.num_batches, provenance = run.provenance,
      ttft_p50_s = q.ttft_s.p50, ttft_p99_s = q.ttft_s.p99, tpot_p50_s = q.tpot_s.p50, tpot_p99_s = q.tpot_s.p99,
      e2e_p50_s = q.e2e_s.p50, e2e_p99_s = q.e2e_s.p99,
    }
  end,

  check = function(t)
    local at_once = { arrivals = "all_at_once" }
    -- The mean is optimistic: a batch waits for its longest request, and padding is work.
    t:expect_all { column = "expected_error", at_least = 0, where = at_once }
    t:expect_order {
      column = "throughput_tok_s", by = "batching", order = { "ragged", "padded" }, where = at_once,
    }
  end,
  plots = {
    { kind = "bars", x = "trace", y = "expected_error", by = "batching", where = { arrivals = "all_at_once" } },
  },
}
