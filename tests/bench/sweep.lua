-- What a sweep costs beyond its plans: 10,000 plans of OPT-13B on a T4 and a V100, as an experiment. The same points
-- without the machinery: tests/bench/sweep_plain.lua.
--   /usr/bin/time -f "%e s" tessera run tests/bench/sweep.lua --jobs 2 --fresh --results sweep.db > sweep.txt
local ts = require "tessera"

local function steps(first, step, count)
  local values = {}
  for i = 1, count do values[i] = first + (i - 1) * step end
  return values
end

return ts.experiment {
  name = "bench/sweep",
  doc = "10,000 plans: what the experiment machinery adds to them",
  grid = {
    batch_size = { 8, 16, 32, 64 },
    prompt_tokens = steps(128, 64, 10),
    output_tokens = steps(32, 16, 10),
    theta = steps(0.2, 0.2, 25),
  },
  quick = { batch_size = { 8 }, prompt_tokens = { 128, 512 }, output_tokens = { 32, 128 }, theta = { 1 } },
  columns = { "status", "latency_s", "throughput_tok_s", "omega" },
  run = function(point)
    local plan, why = ts.plan({
      model = "opt-13b", cluster = "1xT4-16G+1xV100-32G", theta = point.theta,
      workload = {
        prompt_tokens = point.prompt_tokens, output_tokens = point.output_tokens, batch_size = point.batch_size,
      },
    }, { threads = 1 })
    if not plan then return { status = why.code } end
    return {
      status = plan.status, latency_s = plan.latency_s, throughput_tok_s = plan.throughput_tok_s, omega = plan.omega,
    }
  end,
}
