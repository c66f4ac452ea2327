-- `tessera help quality`, `omega` and `theta`: what a plan costs the model, in plain words.

local M = {}

M.quality = [[
Quality: what a plan does to the model, over the model at 16 bits

Fewer bits make a model faster and a little worse. Say how much worse it may be,
and the fastest plan that keeps it is found:

  -- perplexity at most 1 % above; at least 99 % of the accuracy
  ts.problem { ..., quality = { max_perplexity_increase = 0.01 } }
  ts.problem { ..., quality = { min_accuracy_recovery = 0.99 } }
  tessera plan ... --max-perplexity-increase 0.01 --min-accuracy-recovery 0.99

Both may be given, and both are kept then. They are ratios: 0.01 is 1 %. Every
plan says, asked or not:

  plan.quality.perplexity_increase   { low, mid, high }: 0.02 is 2 % above 16
                                     bits
  plan.quality.accuracy_recovery     { low, mid, high }: of averages of tasks,
                                     0.99 is 99 %
  plan.quality.kl_nats               { low, mid, high }: how far predictions
                                     move, per token
  plan.quality.grade, .source        how close the measurements behind them are

mid is the best guess, low to high holds 90 % of the truth. A bound that you
give is kept at the unfavourable end, so that it is broken by one model in
twenty; quality = { ..., at = "mid" } keeps it at the guess. Where you give
none, `tessera plan`, `tessera capacity` and ts.plan_serving keep perplexity at
most 1 % above by the middle guess, as long as something fits so. Grades:

  measured  this model was measured: published, or by yourself (below)
  sibling   other sizes of its generation were (Llama-3.1-8B from Llama-3)
  family    other generations of its family (Qwen2.5 from Qwen3)
  unknown   neither: the average over all families, and a band of a factor of 7
            to both sides

Nothing finer than 1 % is promised: equal models scatter as much. A bound below
0.01 keeps 16 bits. Weights are taken to be calibrated, as GPTQ and AWQ
checkpoints are; quantisation = "rtn" is rounding to nearest. Kernel sets that
round activations as well (INT8, FP8) and the KV cache's bits have losses of
their own. What nobody published of a model, measure; the grade is then
measured, and the band a factor of 1.9:

  tessera indicator MODEL --kind divergence --file TEXT --bitwidths 3,4,8 \
    --out own.json
  tessera plan ... --indicator own.json --max-perplexity-increase 0.01

plan:quality(MODEL, { file = TEXT }) runs the plan's bitwidths on a text: the
truth. See also: tessera help omega.
]]

M.omega = [[
omega: how much quality a plan loses, as the planner counts it

omega[layer][bitwidth] is a number per layer, from an indicator (tessera man
indicator), and a plan's omega is the sum over its layers, normalised: 1 is what
4 bits throughout lose, 0.1 a tenth of it. It compares plans of one model under
one indicator, and nothing else: no perplexity follows from it, unless the
indicator was measured.

Limit it with quality = { max_omega = x }, or to a baseline's with quality = {
at_least = "uniform" }. Whoever thinks in perplexity or accuracy says that
instead (tessera help quality): omega is then in nats that published or own
measurements say each layer loses, and 1 still is 4 bits throughout.
ts.quality_map finds what an omega is worth on a model of yours.
]]

M.theta = [[
theta: the price of omega, for research

Planners minimise latency + theta x omega. theta is in seconds for what 4 bits
throughout lose (omega 1), or, with theta_unit = "ms_per_raw_omega", as the
papers print it. theta = 0 looks at speed alone; 1 is the default, and 0 where a
quality floor is given, which is what to use unless a paper is reproduced: a
limit says what is wanted, a price has to be tried out, and means another thing
for every model, workload and indicator.

See also: tessera help quality, tessera help omega.
]]

return M
