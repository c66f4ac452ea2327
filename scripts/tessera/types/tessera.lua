---@meta tessera
-- Generated from the option tables and cards of the engine; do not edit.
error("for editors only: the definitions are built into the program")

---@class tessera.Error
---@field code string invalid_argument, out_of_range, not_found, infeasible, ...
---@field message string One line: what, where, the numbers and what to do
---@field where string? Option, field or file
---@field constraint string? What no plan can meet

local ts = {}

--- What a calibration wrote.
---@class tessera.Calibration
---@field num_inputs integer Of matrices; those that share one count once
---@field num_tokens integer Of the text
---@field seconds number Time it took (s)

--- What `check` of an experiment is given: the rows, and ways to say what should hold. A claim with `not_reproduced` says why it does not hold here, and in `here` what comes out instead, { lowest, highest } or a text: it counts apart, and fails once it holds or leaves that interval. One with `note` says why no data could overturn it, and counts apart as well. One with `may_differ` counts apart where it does not hold.
---@class tessera.Claims
---@field expect_best fun(self, options: { column: string, is: table, lowest: boolean?, highest: boolean?, within: number?, where: table?, not_reproduced: string?, here: any, note: string?, may_differ: string? }) The best row of each group of points is one with these values
---@field expect_close fun(self, options: { column: string, to: any, rel: number?, abs: number?, where: table?, not_reproduced: string?, here: any, note: string?, may_differ: string? }) A column is within a ratio or a distance of the published one, another column, or a number
---@field expect_all fun(self, options: { column: string, at_least: number?, at_most: number?, equals: any, where: table?, not_reproduced: string?, here: any, note: string?, may_differ: string? }) Every row's column is within bounds, or equals a value
---@field expect_order fun(self, options: { column: string, by: string, order: any[], lowest: boolean?, highest: boolean?, within: number?, where: table?, not_reproduced: string?, here: any, note: string?, may_differ: string? }) The values of a key come in this order, the best first
---@field expect_ratio fun(self, options: { column: string, of: table, over: table, mean: string?, at_least: number?, at_most: number?, to: number?, rel: number?, where: table?, not_reproduced: string?, here: any, note: string?, may_differ: string? }) The mean ratio between two sets of points (geometric, arithmetic, highest or lowest) is within bounds, or within a factor of 1 + rel of the expected one
---@field expect_that fun(self, options: { text: string, holds: fun(at: (fun(point: table): table), rows: table[]): (boolean, string?, any), where: table?, not_reproduced: string?, here: any, note: string?, may_differ: string? }) A claim in words, judged once all of its points have run; at { key = value } is the row of one
---@field expect fun(self, text: string, condition: any, numbers: any, options: { value: any, not_reproduced: string?, here: any, note: string?, may_differ: string? }?) A claim in words, whether it holds, the numbers, and what `here` is about
---@field note fun(self, text: string, numbers: any) Says something of the rows that claims nothing
---@field skip fun(self, text: string) Says what cannot be checked, and why: a claim that waits for data
---@field rows fun(self, where: table?): table[] Rows that are stored, to compute with
---@field published fun(self, point: table, column: string): any The paper's value of a point

--- Devices on nodes, and what connects them.
---@class tessera.Cluster
---@field name string Name
---@field devices tessera.Device[] In the order given
---@field nodes table[] name, host_memory_bytes
---@field network_bytes_per_s number Between nodes, one direction (bytes/s)
---@field source string Where the description comes from
---@field link fun(self, from: integer, to: integer): table bytes_per_s, latency_s and kind of the link between two devices (0-based indices)
---@field part fun(self, devices: integer[]): tessera.Cluster The same nodes and links with some of the devices: their indices (0-based), ascending
---@field node_indices fun(self): integer[] The node of each device (0-based)
---@field topology fun(self): string The nodes, their devices, and the links within and between them

--- A declared collection of experiments: what ts.collection was given, and its scripts.
---@class tessera.Collection
---@field name string Of the report's file
---@field doc string One line
---@field paths string[] Of the scripts, in order
---@field empty string[] Folders that hold no script

--- Engines that serve together.
---@class tessera.Deployment
---@field replicas table[] Engines: name, role, scheduler, async_scheduling, kv_blocks, kv_tokens, num_stages, usd_per_h, kv_bytes_per_token
---@field router string Rule that chooses an engine
---@field plan tessera.Plan? What runs, where there is a model and one pool
---@field source string Where the step times come from
---@field notes string[] What else matters
---@field step_s fun(self, options: table): number Time of a step on the first engine (s); options num_decodes, context_tokens, num_prompts, prompt_tokens, prompt_context_tokens

--- A GPU type by its data sheet.
---@class tessera.Device
---@field name string Name to refer to it by
---@field full_name string As on the box
---@field memory_bytes number Memory as the driver reports it (bytes)
---@field memory_bytes_per_s number Peak memory bandwidth (bytes/s)
---@field flop_per_s table<string, number> Dense peak rate by dtype: fp16 (required), fp32, bf16, int8, fp8, int4 (FLOP/s)
---@field compute_capability number CUDA compute capability, such as 7.5
---@field num_multiprocessors number? Streaming multiprocessors; left out: by the FP32 rate and the capability
---@field pcie_bytes_per_s number PCIe bandwidth, one direction (bytes/s)
---@field nvlink_bytes_per_s number? NVLink bandwidth to one peer, one direction (bytes/s)
---@field nvlink_bridge_bytes_per_s number? NVLink bandwidth between two cards joined by a bridge, one direction (bytes/s)
---@field price_usd_per_h number? List price (USD/h)
---@field price_source string Where the price was read
---@field source string Where the figures were read

--- A serving engine, with the knobs under vLLM's names.
---@class tessera.Engine
---@field scheduler string static, orca, vllm_v0, vllm_v1, sarathi, sglang, or one that a script registered; see tessera help schedulers
---@field max_num_seqs integer Requests that run at the same time (requests)
---@field max_num_batched_tokens integer Tokens computed in a step at most (tokens)
---@field max_model_len integer Prompt and output of a request at most; 0: the model's context, without a model no limit (tokens)
---@field block_size integer Tokens in a block of the KV cache (tokens)
---@field kv_blocks integer? Blocks of the KV cache; left out: what the memory holds (blocks)
---@field gpu_memory_utilization number Share of a device's memory that the engine takes
---@field enable_prefix_caching boolean Find blocks of earlier requests again
---@field enable_chunked_prefill boolean? Compute prompts in pieces; left out: on, but off in vllm_v0; static, orca and sarathi do not ask
---@field long_prefill_token_threshold integer Prompt tokens of one request per step at most; 0: no such limit (tokens)
---@field policy string Order of the queue; priority: lower numbers first, and others are preempted for them
---@field watermark number vllm_v0, sarathi: share of blocks kept free at admission
---@field delay_factor number vllm_v0: a prompt waits for so many times the last one's time
---@field preemption_mode string vllm_v0: what becomes of a preempted request's KV cache
---@field swap_space_gib number vllm_v0: host memory for it (GiB)
---@field swap_bytes_per_s number vllm_v0: rate between device and host (bytes/s)
---@field kv_allocation string How the KV cache is handed out: blocks as they are needed, one region per request, or max_model_len for each
---@field static_slots string static: a slot whose request has ended goes on being computed, or is left out
---@field chunk_size integer sarathi: tokens of a step (tokens)
---@field schedule_policy string sglang: order of waiting prompts
---@field schedule_conservativeness number sglang: factor on the share of future outputs that memory is kept for
---@field mixed_chunk boolean sglang: prompts and decodes in one step
---@field speculative table? Drafts: { method, num_tokens, acceptance, ... }, see tessera help ts.engine.speculative
---@field host string serial: the host prepares a step when the last one is done; overlapped: while it runs
---@field async_scheduling boolean? vllm_v1: decide a step while the one before it runs, as vLLM does from 0.14 on; left out: off, unless ts.deployment knows better
---@field kv_cache_dtype string auto (as the plan says), fp8 or bfloat16

--- A declared experiment: what ts.experiment was given, and its points.
---@class tessera.Experiment
---@field name string Under which results are stored
---@field doc string One line
---@field keys string[] Of a point, in order
---@field points table[] All of them, in order
---@field quick_points table[] Those of --quick
---@field seed integer As given

--- A text that a model wrote.
---@class tessera.Generation
---@field text string What follows the prompt
---@field tokens integer[] Its tokens, without the one that ended it
---@field prompt_tokens integer Length of the prompt (tokens)
---@field prompt_s number Time of the prompt's passes (s)
---@field ttft_s number? Time to the first token (s)
---@field tpot_s number? Mean time of a token after the first (s)
---@field stop_reason string stop_token: the model ended it; max_tokens, context: it is as long as it may be; on_token: that returned false; interrupted: Ctrl-C

--- What ts.register_heuristic takes.
---@class tessera.HeuristicCard
---@field name string What planner = names
---@field doc string One sentence
---@field source string? The paper it comes from
---@field options table<string, { type: string, default: any, min: number?, max: number?, doc: string? }>? Options of its own, which ts.plan then takes
---@field improve fun(search: tessera.Search, opt: table) Improves the plan of the search by moves
---@field starts "one"|"every"|nil adabits' plan, or that of every order of device types and pair of micro-batch sizes, of which the best answer counts

--- Quality lost per layer and bitwidth.
---@class tessera.Indicator
---@field kind string constant, random, variance, hessian, gptq_error, measured, loss, divergence or imported
---@field variant string Which form of its kind
---@field num_layers integer Layers it covers
---@field provenance string measured, fitted, published or modelled
---@field overhead_s number Time it took to obtain (s)
---@field weights_s number Of it, time over the weights (s)
---@field statistics_s number Of it, time over the statistics of the inputs (s)
---@field source string Where it comes from
---@field bitwidths integer[] Bitwidths it covers
---@field omega fun(self, layer_index: integer, bitwidth: integer): number Raw omega of a layer (0-based)
---@field omegas fun(self, bitwidth: integer): number[] Raw omega of every layer, the first layer first
---@field standard_error fun(self, layer_index: integer, bitwidth: integer): number? Of omega where it is the mean of a sample, such as a loss over pieces of text
---@field save fun(self, path: string) Writes it as JSON

--- A model in memory that runs (tessera man language_models).
---@class tessera.LanguageModel
---@field model tessera.Model Its architecture
---@field tokenizer tessera.Tokenizer Text to tokens and back; read when first used
---@field path string Where it came from
---@field dtype string What weights of 16 bits are kept as
---@field bitwidths integer[]? Of each layer (bits); absent where they are as stored
---@field layers string[] How each layer is kept, in words
---@field kv_bitwidth integer Of keys and values (bits); 16 stands for dtype
---@field weight_bytes integer All weights in memory (bytes)
---@field threads integer Of every step
---@field load_s number Time that loading took (s)
---@field logits fun(self, ids: integer[]): tessera.Tensor [#ids, vocab_size], after each of the tokens (from 0)
---@field generate fun(self, prompt: string|integer[], options: tessera.options.lm.generate?): tessera.Generation Continues a text; see lm:generate
---@field perplexity fun(self, options: tessera.options.lm.perplexity): tessera.Perplexity How well it predicts a text; see lm:perplexity
---@field zero_shot fun(self, options: tessera.options.lm.zero_shot): tessera.ZeroShot Answers to questions, as lm-evaluation-harness scores them; see lm:zero_shot
---@field calibrate fun(self, options: tessera.options.lm.calibrate): tessera.Calibration Writes the statistics that gptq, awq and indicators read; see lm:calibrate
---@field speed fun(self, options: tessera.options.lm.speed?): tessera.Speed How fast one sequence is; see lm:speed
---@field describe fun(self): string What print shows: how each layer is kept
---@field to_table fun(self): table Its fields; without a tokenizer where it has none

--- The largest rate of requests that keeps to an SLO.
---@class tessera.MaxRate
---@field rate_per_s number The largest that held (1/s); 0: none does
---@field low_per_s number The bracket: the same as rate_per_s (1/s)
---@field high_per_s number? The smallest rate above it that did not hold (1/s); nil: none was found
---@field limited_by string What breaks there, and what requests wait for
---@field note string Where the run is too short to tell; empty where it is not
---@field points table[] Rates that were simulated, in order: rate_per_s, holds, broken, cut_short, ttft_p99_s, tpot_p99_s, attainment_ratio, throughput_tok_s
---@field served tessera.Served? The run at rate_per_s

--- Architecture of a decoder-only transformer.
---@class tessera.Model
---@field name string Name
---@field family string Architecture family
---@field num_layers integer Decoder layers
---@field hidden_size integer Width of the residual stream
---@field num_heads integer Query heads
---@field num_kv_heads integer Key and value heads
---@field head_dim integer Width of a head
---@field ffn_size integer Width of the feed-forward network (of one expert)
---@field vocab_size integer Tokens in the vocabulary
---@field max_context_tokens integer Longest context (tokens)
---@field num_parameters integer All parameters, tied embeddings once
---@field num_active_parameters integer Parameters that one token passes through
---@field layer_parameters integer Parameters of the first decoder layer
---@field tied_embeddings boolean The LM head is the token embedding
---@field source string Where the architecture was read
---@field kv_bytes_per_token fun(self, kv_bitwidth: number?): number KV cache of one token over all layers (bytes); 16 bits by default
---@field layer_bytes fun(self, bitwidth: number): number Weights of the first decoder layer at a bitwidth (bytes), without scales

--- A small change of a plan, priced. Read-only; valid until the next step of its search.
---@class tessera.Move
---@field kind string shift: the num_layers layers from first_layer on, next to a boundary, go to the neighbouring stage with their bitwidths. retype: layer first_layer becomes to_bitwidth. swap: two layers, of one stage or of two, trade bitwidths. rule: bitwidth transfer (Algorithm 2 of LLM-PQ): num_layers layers of from_bitwidth leave a slow stage for any other, which gives layers of to_bitwidth back, or narrows its own to make room. micro_batch: num_layers is the new size, of prefill where first_layer is 0, of decode where it is 1. order: two stages trade devices
---@field from_stage integer Stage that gives layers (0-based)
---@field to_stage integer Stage that takes layers (0-based)
---@field first_layer integer First layer it concerns (0-based)
---@field num_layers integer Layers it concerns; of micro_batch the new size (requests)
---@field from_bitwidth integer Of the layers before (bits)
---@field to_bitwidth integer Of the layers after (bits)
---@field fits boolean Every memory limit and the quality floor hold afterwards
---@field objective_delta number Change of what the problem minimises (s); negative is better
---@field prefill_delta_s number Change of the prefill's share of the latency (s)
---@field decode_delta_s number Change of the decode's share of the latency (s)
---@field omega_delta number Change of omega, in the units of the problem
---@field memory_delta_bytes number Change of the memory in use (bytes)
---@field keep fun(self): tessera.Move A copy that lasts beyond the next step
---@field to_table fun(self): table Its fields as a table

--- How well a model predicts a text.
---@class tessera.Perplexity
---@field perplexity number exp(loss_nats)
---@field loss_nats number Mean loss of a token (nats)
---@field standard_error number? Of loss_nats: what another text of this kind might give (nats)
---@field num_tokens integer Predicted
---@field num_segments integer Or windows
---@field num_left_tokens integer Behind the last whole segment, not scored
---@field context_tokens integer Of a segment (tokens)
---@field seconds number Time it took (s)
---@field tok_s number Tokens run through the model (tok/s)
---@field kl_nats number? Divergence from the reference, mean over tokens; absent without one (nats)
---@field kl_standard_error number? Of kl_nats (nats)
---@field loss_increase_nats number? loss_nats less the reference's on the same tokens; absent without one (nats)
---@field loss_increase_standard_error number? Of loss_increase_nats, from the differences token by token (nats)
---@field partial boolean Ctrl-C ended it: of the tokens until then

--- Which layers run where, at which bitwidths, in which micro-batches, and what that costs.
---@class tessera.Plan
---@field status string optimal (proven) or feasible
---@field stopped_by string? What cut the search short: time_limit or interrupted; another run may end elsewhere. Absent where it came to its end
---@field planner string Who made it
---@field objective number What the planner minimised (s)
---@field bound number? No plan of the search is below it (s)
---@field gap number? (objective - bound) / objective
---@field solve_s number Time the planner took (s)
---@field device_order string[] Devices by stage
---@field prefill_micro_batch_size integer Requests
---@field decode_micro_batch_size integer Requests
---@field latency_s number Batch end to end, by the steady model (s)
---@field throughput_tok_s number Output tokens over latency_s (tok/s)
---@field omega number Quality lost, in the units of the problem
---@field mean_bitwidth number Over the layers (bits)
---@field provenance string Of the latencies: measured, fitted, published or modelled
---@field error number? Held-out relative error of the latency, where known
---@field stages tessera.Stage[] In pipeline order; none where there are replicas
---@field offload table? Of a plan that offloads: gpu_batch_size, host_memory_ratio, host_attention_bytes_per_s
---@field notes string[] Fallbacks taken and what else matters
---@field devices integer[]? Of a replica: its devices in the whole cluster (0-based)
---@field kv_bitwidth integer? Of the KV cache (bits); absent for an instance, and where replicas differ
---@field kv_omega number? Share of omega that the KV cache's bitwidth has; absent as kv_bitwidth
---@field candidates table[]? What came of each open choice: name, status, objective, latency_s, bound, message; absent where nothing was open
---@field quality tessera.PlanQuality|fun(self: tessera.Plan, model: tessera.LanguageModel|string, options: table): table What it does to the model, from published or own measurements; called, as plan:quality(model, options), it is measured on a text
---@field unused_devices string[]? Devices that run nothing of it, with their nodes ("L4@a"); absent for an instance
---@field replicas tessera.Plan[]? Pipelines that share the batch; absent where there is one
---@field explain fun(self, options: tessera.options.plan.explain?): string|table What binds it, what a little more hardware or a lower quality would buy, and how sure the choice is; see plan:explain
---@field export fun(self, kind: "vllm"|"llama.cpp"|"json", folder: string, options: tessera.options.plan.export?): table?, tessera.Error? Writes what starts servers that run it; see plan:export
---@field save fun(self, path: string) Writes it with its problem as JSON, for ts.load_plan
---@field problem fun(self): tessera.Problem The problem it solves
---@field with_note fun(self, text: string): tessera.Plan A copy with one more note

--- What a plan does to the model, over the model at 16 bits, from published or own measurements; `tessera help quality`. Called, as plan:quality(model, options), it is measured on a text. Of an abstract instance it has no numbers.
---@class tessera.PlanQuality
---@field perplexity_increase { low: number, mid: number, high: number }? Ratio less 1: 0.01 is 1 %; low to high holds 90 %
---@field accuracy_recovery { low: number, mid: number, high: number }? Ratio, of averages of tasks
---@field kl_nats { low: number, mid: number, high: number }? Divergence per token (nats)
---@field grade string How close the measurements are: measured, sibling, family or unknown
---@field source string? What the numbers rest on
---@field text string All of it in one line

--- What ts.register_planner takes.
---@class tessera.PlannerCard
---@field name string What planner = names
---@field doc string One sentence
---@field source string? The paper it comes from
---@field options table<string, { type: string, default: any, min: number?, max: number?, doc: string? }>? Options of its own, which ts.plan then takes
---@field plan fun(problem: tessera.Problem, opt: table): table?, tessera.Error? Returns stages and both micro-batch sizes, as planner = "manual" takes them, or nil and why

--- A picture of rows; print shows it in the terminal.
---@class tessera.Plot
---@field svg fun(self, inside: boolean?): string The picture as SVG; inside: for a HTML page that has the style already
---@field text fun(self, columns: integer?): string The picture as text of so many columns; default: those of the terminal
---@field save fun(self, path: string) Writes it as .svg, .pdf and .png (by rsvg-convert), .tex (pgfplots) or .txt

--- What is to be planned and what counts as good.
---@class tessera.Problem
---@field name string Model and cluster, or the instance's name
---@field num_layers integer Decoder layers
---@field batch_size integer Requests
---@field bitwidths integer[] Candidates, ascending
---@field devices string[] Names in cluster order, with their nodes ("T4-16G@a"), as device_order takes them
---@field model tessera.Model? Absent for an instance
---@field cluster tessera.Cluster? Absent for an instance
---@field workload tessera.Workload? Absent for an instance
---@field indicator tessera.Indicator? Absent for an instance
---@field kernel_set string? Kernels that the latencies assume
---@field memory string? Memory model
---@field kv_bitwidth integer? Of the KV cache; the first where it is open (bits)
---@field quantisation string? How checkpoints are rounded, for what plans say of quality: gptq (calibrated, also AWQ and the like) or rtn (to nearest)
---@field objective string steady: the pipeline's steady state; paper: eq. (4) as printed
---@field theta number Price of omega
---@field theta_unit string What theta multiplies: omega scaled so that 4 bits throughout cost 1 s, or raw omega and milliseconds
---@field use_all_devices boolean Every device holds a layer
---@field allow_empty_stage boolean Middle stages may be empty
---@field runtime string? Server that is to run the plan: only what it can launch is searched, and a note says what that costs
---@field constraints table[] Side constraints, as problem:add_constraint takes them
---@field quality table? The quality floor, as it was given
---@field max_omega number? Largest omega of a plan, which a floor in other words becomes too
---@field tensor_parallel integer[]? Degrees to choose from; absent for an instance
---@field uniform_degree boolean? All stages of a pipeline have the same degree; absent for an instance
---@field searches_replicas boolean? Whether ts.plan looks for replicas where it is not told how many; absent for an instance
---@field kv_bitwidths integer[]? Of the KV cache, to choose from (bits)
---@field kernel_sets string[]? Kernel sets to choose from
---@field with fun(self, changes: table): tessera.Problem A copy with options of ts.problem changed
---@field add_constraint fun(self, constraint: table): tessera.Problem A copy with one more linear row that every plan must keep; problem:with { constraints = {} } lifts them
---@field write_model fun(self, path: string, options: table): boolean?, tessera.Error? Writes the integer programme as .lp or .mps, for other solvers
---@field evaluate fun(self, plan: table): table Prices stages given by hand: fits, objective, latency_s, omega; constraint and message where it does not fit
---@field micro_batch_sizes fun(self): integer[] Sizes worth trying: the smallest of each number of micro-batches
---@field balanced_partition fun(self, options: table): integer[]? Layers per stage at one bitwidth, balanced by the workload's stage times; nil where none fits
---@field device_facts fun(self, options: table): table[] Usable memory, FP16 rate and time of a layer of each device
---@field offload fun(self, plan: table): table[]?, number FlexGen's linear programme for stages given by hand with offload = { gpu_batch_size = }: shares per stage of weights, kv_cache and activations on device, host and disk, and the latency (s); nil and why where none fits
---@field variants fun(self): tessera.Problem[], string[], string[] One problem for each way to settle what is open (tensor parallelism, KV bitwidth), their names, and notes on what was left out
---@field device_orders fun(self, limit: integer?): string[][] Distinct orders of all devices

--- What is known about the speed of a device under a kernel set.
---@class tessera.Profile
---@field device string The device's name
---@field kernel_set string Kernels that were measured
---@field source string Where it comes from
---@field parts table[] By op and dtype: method, coefficients, range, num_points, held_out, beyond, provenance
---@field layer_s fun(self, query: table): number, table Seconds of one decoder layer { model, bitwidth, phase, batch_size, tokens, context_tokens }, and { provenance, error, method, in_range, why }
---@field gemm_s fun(self, query: table): number, table Seconds of a product { dtype, m, n, k }, and the same
---@field attention_s fun(self, query: table): number, table Seconds of attention { phase, dtype, batch_size, tokens, context_tokens, num_heads, num_kv_heads, head_dim }, and the same
---@field experts_s fun(self, query: table): number, table Seconds of all experts of a layer { dtype, tokens, hidden_size, inner_size, num_experts, top_k, routing, num_devices }, and the same
---@field all_reduce_s fun(self, query: table): number, table Seconds in which num_devices of a node sum a buffer { dtype, bytes, num_devices }, and the same; by the runtime's kernel, or NCCL where that is not used; name = "nccl": by NCCL
---@field all_gather_s fun(self, query: table): number, table Seconds in which num_devices, each with a share of a buffer, all get the whole of it { bytes, num_devices }, and the same
---@field reduce_scatter_s fun(self, query: table): number, table Seconds in which num_devices sum a buffer and each get a share of it { bytes, num_devices }, and the same
---@field all_to_all_s fun(self, query: table): number, table Seconds in which num_devices exchange shares of their buffers { bytes, num_devices }, and the same
---@field send_recv_s fun(self, query: table): number, table Seconds in which a device of a node sends { bytes } to another, and the same
---@field save fun(self, path: string) Writes it as JSON

--- What omega is worth in divergence and perplexity, for one model and indicator.
---@class tessera.QualityMap
---@field model string That was measured
---@field indicator string Whose omega it reads: kind, variant, and a hash of its values
---@field settings string How layers were quantised and the text was cut
---@field base_perplexity number Of the model as it is
---@field num_points integer Plans measured
---@field points table[] { omega, kl_nats, loss_increase_nats } of each, by omega
---@field min_omega number Least of the points
---@field max_omega number Largest of the points
---@field kl_nats_per_omega number The scale
---@field spread_ratio number By what factor points miss it: exp of the deviation of the logarithms
---@field loss_nats_per_omega number The slope of the rise of the loss
---@field provenance string fitted
---@field predict fun(self, plan: tessera.Plan|number, options: table?): table See map:predict
---@field save fun(self, path: string) Writes the points as JSON, which ts.quality_map { file = path } reads
---@field to_table fun(self): table Its fields

--- A weight matrix as codes, and how far they are from it.
---@class tessera.Quantised
---@field method string What made the codes: rtn where gptq did worse than it
---@field bitwidth integer Bits of a code
---@field mse number Mean squared difference of the weights
---@field max_error number Largest difference of a weight
---@field scale_max number Largest scale
---@field bytes integer Of codes, scales and zero points as a checkpoint stores them
---@field output_error number? Squared error of the outputs for a token, summed over them; nil without calibration
---@field rtn_output_error number? The same by round-to-nearest, where it was compared
---@field damping number Of gptq: added to the Hessian's diagonal, over its mean
---@field dequantised fun(self): tessera.Tensor The values that the codes stand for

--- A quantised copy of a model, and what became of each matrix.
---@class tessera.QuantisedModel
---@field out string The folder
---@field bytes_before integer Of all tensors of the model
---@field bytes_after integer Of all tensors of the copy
---@field seconds number Time it took (s)
---@field notes string[] What whoever loads it should know
---@field matrices table[] { tensor, layer_index, bitwidth, method, mse, max_error, output_error, rtn_output_error } of each, the last two where calibration gave them

--- An open file of results.
---@class tessera.ResultStore
---@field path string The file
---@field is_open boolean Until it is closed
---@field start_run fun(self, options: table): integer Begins a run and gives its id; see ResultStore:start_run
---@field runs fun(self, options?: table): table[] Runs, oldest first; see ResultStore:runs
---@field run fun(self, id: integer): table One run, with script_text
---@field add fun(self, run: integer, row: table) Stores one row for good; see ResultStore:add
---@field add_all fun(self, run: integer, rows: table[]) Stores many rows, all or none; see ResultStore:add
---@field keys fun(self, run: integer): table<string, string>, table<string, boolean> The status of each stored point by its key; the keys of those that failed
---@field rows fun(self, run: integer, options?: table): table[] Rows in order: point, status, the columns, error; see ResultStore:rows
---@field artefacts fun(self, run: integer, key: string): table[] Plans, timelines and pictures of one row: name, kind, value
---@field set_claims fun(self, run: integer, claims: table[]) Replaces what was checked of a run
---@field merge fun(self, paths: string[], options?: table): table Copies the runs of other files in; see ResultStore:merge
---@field close fun(self) Closes the file

--- The stored rows of one experiment.
---@class tessera.Results
---@field name string Of the experiment
---@field db string File of results
---@field has fun(self, point: table): boolean Whether the run that add goes on with has a row of this point
---@field add fun(self, point: table, row: table) Stores what came of a point; then that survives power loss too
---@field rows fun(self, options: table?): table[] Rows that match key = value or { values }; run =, status =, meta =
---@field runs fun(self): table[] Runs of the experiment, oldest first
---@field count fun(self, options: table?): integer Rows that match
---@field diff fun(self, other: any): table What differs from another run, file or object

--- What ts.register_router takes.
---@class tessera.RouterCard
---@field name string What router = names
---@field doc string One sentence
---@field source string? Where it comes from
---@field choose fun(replicas: table[], request: table): integer Gives a position in replicas, from 1. Each has waiting, running, pending_tokens, used_blocks, kv_blocks, seats, and cached_tokens where the card asks for prefixes; the request has request, prompt_tokens, max_tokens, priority and slo_class
---@field prefixes boolean? Whether it reads cached_tokens, which takes a look-up in every engine

--- What a simulation saw.
---@class tessera.Run
---@field total_s number Last token of the last request (s)
---@field prefill_s number Until the last prompt is through (s)
---@field decode_s number The rest (s)
---@field ttft_s number Time to first token, mean over requests (s)
---@field ttft_max_s number Of the last request served (s)
---@field tpot_s number Time per output token after the first, mean over requests (s)
---@field decode_round_s number Mean period between token rounds (s)
---@field host_s number Time of the host, in the first stage's busy_s: scheduling, inputs, sampling; 0 where the kernel set has none (s)
---@field throughput_tok_s number Output tokens over total_s (tok/s)
---@field num_batches integer Batches, one after another
---@field quantiles table? Where lengths vary, over requests: ttft_s, tpot_s and e2e_s, each { mean, p50, p90, p99, max } (s)
---@field expected tessera.Run? Where lengths vary: one batch in which all requests have the mean lengths, as planners price it
---@field expected_error number? Throughput by the mean lengths over that of the distribution, less 1
---@field provenance string Of the stage times
---@field stages tessera.RunStage[] In pipeline order
---@field timeline table? First 256 busy intervals as columns: stage_index, is_link (of the link after it), is_decode, micro_batch, start_s, duration_s; num_events: of the whole run
---@field save_trace fun(self, path: string) Chrome trace for Perfetto, one track per stage; of several batches the first
---@field requests fun(self): table? Where lengths vary, every request as columns prompt_tokens, output_tokens, arrival_s, ttft_s, tpot_s, e2e_s

--- How busy a stage was.
---@class tessera.RunStage
---@field name string Stage and device
---@field busy_s number Time it computed (s)
---@field idle_ratio number Share of the run it did not

--- What ts.register_scheduler takes.
---@class tessera.SchedulerCard
---@field name string What scheduler = names
---@field doc string One sentence
---@field source string? Where it comes from
---@field options table<string, { type: string, default: any, min: number?, max: number?, doc: string? }>? Options of its own: ts.engine { scheduler = { name =, ... } }
---@field schedule fun(view: tessera.SchedulerView, opt: table) Decides a step
---@field every_step boolean? Ask for every step. Otherwise a step in which all that run decode one token and nobody joins is taken to be decided alike until a request comes or ends, or blocks are short

--- A request as a scheduler in Lua sees it. Read-only, and good for one step: what is kept longer shows another request. What it will really generate is not among it.
---@class tessera.SchedulerRequest
---@field request number Its number in the traffic (0-based)
---@field arrival_s number When it came (s)
---@field prompt_tokens number Of its prompt (tokens)
---@field max_tokens number It may generate at most (tokens)
---@field known_tokens number Prompt and output so far (tokens)
---@field computed_tokens number Of these, in the KV cache or in a step under way (tokens)
---@field generated_tokens number Output so far (tokens)
---@field left_tokens number To compute; 0 while its step is under way (tokens)
---@field scheduled_tokens number In the step that is being decided (tokens)
---@field num_blocks number Blocks that it holds
---@field priority number Lower goes first
---@field slo_class number Which limits are its own (0-based)
---@field num_preemptions number So far
---@field is_running boolean It has a seat

--- What a scheduler in Lua decides a step with. Calls are checked at once: what breaks the budget, the seats or a request's state is an error that names them.
---@class tessera.SchedulerView
---@field now_s number Time (s)
---@field free_blocks number Of the KV cache
---@field tokens_left number Of max_num_batched_tokens
---@field seats_left number Of max_num_seqs
---@field block_size number Tokens in a block
---@field num_running number Requests that ran when the step began
---@field num_waiting number Requests that waited when the step began
---@field running fun(self, i: integer): tessera.SchedulerRequest? The i-th that runs, in order of admission, from 1
---@field waiting fun(self, i: integer): tessera.SchedulerRequest? The i-th that waits, in order of the queue, from 1
---@field schedule fun(self, request: tessera.SchedulerRequest, tokens: number?): number Puts it into the step, with a seat if it waits, and its cached prefix; tokens left out: all that it has left. Gives the tokens; 0, with nothing changed, where blocks are short
---@field preempt fun(self, request: tessera.SchedulerRequest) Takes its blocks and puts it in front of the queue
---@field cached_tokens fun(self, request: tessera.SchedulerRequest): number That the prefix cache holds of a waiting one
---@field blocks_needed fun(self, request: tessera.SchedulerRequest): number Free blocks that go when it is admitted

--- What a heuristic is given: a plan that fits, and the moves from it.
---@class tessera.Search
---@field moves fun(self, query: { from: integer?, to: integer?, kinds: string|string[]|nil }?): fun(): tessera.Move? Iterates over moves of the plan at hand, in a fixed order; kinds: see tessera.Move. Moves that do not fit are among them, except rules
---@field random_move fun(self, query: { from: integer?, to: integer?, kinds: string|string[]|nil, fits: boolean? }?): tessera.Move? A copy of one of those moves, each as likely as the others; with fits = true of those that fit; nil where there is none. The others are not priced, so a draw is cheap; rules alone have to be, once for each step
---@field count fun(self, query: { from: integer?, to: integer?, kinds: string|string[]|nil }?): integer How many moves that is
---@field stages fun(self): table[] The plan at hand: for each stage device, first_layer (0-based), num_layers, bitwidths (a list, one per layer), prefill_s, decode_s (one micro-batch), memory_bytes, memory_left_bytes
---@field micro_batch_sizes fun(self): integer, integer Of the plan at hand: prefill, decode (requests)
---@field omega fun(self): number Of the plan at hand, in the units that theta multiplies
---@field apply fun(self, move: tessera.Move) Makes the step; the engine checks it again and prices it anew
---@field undo fun(self): boolean Takes the last step back; false where there is none
---@field evaluate fun(self, move: tessera.Move): table The move priced from scratch
---@field perturb fun(self, strength: number) Random steps that fit, about strength times the number of layers; strength in [0, 1]
---@field slowest_stage fun(self): integer The stage that weighs most in the objective (0-based)
---@field objective fun(self): number Of the plan at hand (s)
---@field best fun(self): tessera.Plan The best plan met so far
---@field expired fun(self): boolean Whether the time limit has passed
---@field moves_made fun(self): integer Steps made so far
---@field random fun(self): number In [0, 1), from the plan's seed

--- What became of traffic. Where `stable` is false its latencies measure how long the run went on.
---@class tessera.Served
---@field verdict string stable, or unstable and above which rate; latencies of an unstable run measure its length
---@field stable boolean Whether the queue does not grow beyond chance
---@field stability string Why, in one line
---@field ttft_s table Time to first token, from sending: mean, p50, p90, p95, p99, n, their intervals mean_low, mean_high, ... (s)
---@field tpot_s table Time per output token after the first, of requests with several (s)
---@field itl_s table Gaps between tokens, of all requests (s)
---@field e2e_s table From sending to the last token (s)
---@field queue_s table From sending to the first step (s)
---@field throughput_tok_s number Output tokens per second (tok/s)
---@field total_tok_s number? Prompt and output tokens per second (tok/s)
---@field request_per_s number Requests answered per second (1/s)
---@field offered_request_per_s number? Requests sent per second; nil in closed loops and for all at once (1/s)
---@field sustainable_request_per_s number? Estimate of what an unstable run would sustain; nil of a stable one (1/s)
---@field goodput_request_per_s number? Requests within the SLO per second; nil without one (1/s)
---@field attainment_ratio number? Requests within the SLO among all, rejected and unfinished ones too
---@field attainment_low number? Wilson's 95 % interval of it
---@field attainment_high number? Its upper end
---@field targets table[] Whether each percentile of the SLO holds
---@field attains_slo boolean? Whether all targets hold and the run is stable
---@field num_requests integer Requests looked at
---@field num_finished integer Answered in full
---@field num_rejected integer That can never fit
---@field num_unfinished integer Under way or waiting when the run was cut off
---@field num_left_out integer Left out as warm-up or cool-down
---@field duration_s number From the first request sent to the last answer (s)
---@field output_tokens integer Of finished requests (tokens)
---@field peak_tok_s number Output tokens of the fullest second, a request's spread evenly between its first and last (tok/s)
---@field peak_concurrency integer Most requests between sending and last token
---@field preemptions integer Times that a request lost its blocks
---@field swaps integer Of them, by moving blocks to the host
---@field recomputed_tokens integer Computed once more (tokens)
---@field cached_tokens integer Of prompts, found in the prefix cache (tokens)
---@field prefix_hit_ratio number? Tokens found among tokens looked up; nil without lookups
---@field kv_usage_ratio number? Used share of the KV blocks, mean over the run; nil without a limit
---@field kv_peak_usage_ratio number? The largest, of any replica
---@field internal_fragmentation_ratio number? Token slots handed out that hold no token, mean over time
---@field external_fragmentation_ratio number? Token slots free while a request was refused for memory, of all; nil if none was
---@field utilisation_ratio number Busy share of the replicas' time
---@field replicas table[] The same for each replica
---@field acceptance_ratio number? Drafted tokens that were accepted
---@field accepted_length number? Tokens per verification, the target's own included (tokens)
---@field waited_s table Mean time before the first step by what stopped the queue: step, seats, tokens, blocks, policy (s)
---@field waited_ratio table The same as shares
---@field transfer_s number Keys and values under way between pools, mean (s)
---@field usd_per_h number? All replicas (USD/h)
---@field usd_per_million_tokens number? Output tokens, idle time paid too (USD)
---@field usd_per_million_total_tokens number? Prompt (cached ones too) and output tokens (USD)
---@field mean_power_w number? All replicas (W)
---@field kwh_per_million_tokens number? Output tokens (kWh)
---@field joule_per_token number? Output tokens (J)
---@field num_unsent integer Not sent yet when the run was cut off
---@field source string What the times are: modelled or measured
---@field cut_off string Why the run stopped early; empty: it did not
---@field text string What print shows
---@field requests fun(self): table[] A row per request: request (0-based), outcome, arrival_s, first_scheduled_s, first_token_s, last_token_s, queue_s, ttft_s, tpot_s, e2e_s, output_tokens, cached_tokens, recomputed_tokens, preemptions, replica (0-based), transfer_s, and waited: seconds before its first step by what stopped the queue (step, seats, tokens, blocks, policy). What did not happen is nil
---@field steps fun(self): table[] A row per step: step, replica (0-based), start_s, duration_s, scheduled (a list of { request, tokens }), preempted, finished, free_blocks, waiting, running, and limit, which stopped admission (none, seats, tokens, blocks, policy)
---@field series fun(self, rows: integer?): table[] The state over time in equal stretches, 500 unless said: time_s, waiting, running, used_blocks, throughput_tok_s
---@field save_trace fun(self, path: string) Writes a trace for Perfetto or chrome://tracing: steps, requests, counters
---@field save_requests fun(self, path: string) Writes a CSV with a row per request

--- Deployments that serve traffic within an SLO, the best first: a list.
---@class tessera.ServingPlans
---@field reasons table[] Engines that were ruled out: engine, reason
---@field simulated integer Engines and deployments that were simulated, each at several rates
---@field objective string What the order goes by
---@field preference string? Why the first is not the one with the largest rate
---@field aggregated_over_disaggregated number? Rate per device of the first of each, as a ratio
---@field frontier fun(self): table[] Tokens per second and user against tokens per second and device, at loads from a tenth of each deployment's rate to all of it: tok_s_per_user, tok_s_per_gpu, rank, rate_per_s, efficient (nothing listed beats it in both)
---@field export fun(self, kind: "vllm"|"json", folder: string, options: table?): table?, tessera.Error? What starts a deployment of the list, in a folder

--- Rates of a model on this machine, one for each repeat.
---@class tessera.Speed
---@field prefill_tok_s number[] Rate of each prefill (tok/s)
---@field decode_tok_s number[] Rate of each decoding (tok/s)
---@field prompt_tokens integer Of the prompt (tokens)
---@field context_tokens integer Before the first decoded one (tokens)
---@field output_tokens integer Decoded (tokens)
---@field kv_cache_bytes integer Of the cache that decoding used (bytes)

--- Consecutive layers on one device.
---@class tessera.Stage
---@field device string Device type
---@field node string Node that holds it; empty for an instance
---@field device_index integer Into the cluster's devices (0-based)
---@field first_layer integer First layer (0-based)
---@field num_layers integer Layers
---@field bitwidths integer[] One per layer (bits)
---@field prefill_s number One prefill pass of one micro-batch (s)
---@field decode_s number One decode step of one micro-batch (s)
---@field memory tessera.StageMemory Where its memory goes
---@field offload table? Of a plan that offloads: shares of weights, kv_cache and activations on device, host and disk; host_bytes, disk_bytes

--- Where the memory of a stage goes.
---@class tessera.StageMemory
---@field weight_bytes number Decoder layers at their bitwidths (bytes)
---@field kv_cache_bytes number Whole batch, full length (bytes)
---@field activation_bytes number Peak of either phase (bytes)
---@field embedding_bytes number Embeddings and LM head held here (bytes)
---@field reserve_bytes number Runtime and allocator (bytes)
---@field total_bytes number Sum of the above (bytes)
---@field capacity_bytes number Of the device (bytes)

--- Numbers with a shape: of a file, read when they are asked for, or your own.
---@class tessera.Tensor
---@field name string As in the file
---@field num_elements integer Product of the shape
---@field shape fun(self): integer[] Sizes, slowest first
---@field dtype fun(self): string What it is stored as, in the file's words: F32, F16, BF16, Q4_K, ...
---@field min fun(self): number? Least of the finite numbers; nil where there is none
---@field max fun(self): number? Greatest of the finite numbers
---@field mean fun(self): number? Mean of the finite numbers
---@field variance fun(self): number? Their variance: of the population, divided by the count
---@field num_not_finite fun(self): integer How many numbers are NaN or infinite
---@field to_table fun(self, first: integer?, count: integer?): number[] The numbers from `first` (1-based), row by row, as f32; all by default

--- Text to tokens, numbered from 0, and back.
---@class tessera.Tokenizer
---@field vocab_size integer How many tokens it has
---@field bos_token_id integer? Begins a text
---@field stop_token_ids integer[] End a text
---@field path string Where it came from
---@field encode fun(self, text: string, options: tessera.options.tokenizer.encode?): integer[] The tokens of a text; special = false leaves out what begins one
---@field decode fun(self, ids: integer[], options: tessera.options.tokenizer.decode?): string The text of tokens; skip_special = true leaves out those that end or begin one
---@field token fun(self, id: integer): string As its file spells it

--- Requests and when they come.
---@class tessera.Traffic
---@field num_requests integer Requests, all turns counted
---@field rate_per_s number? Requests per second offered, of traces as measured; nil of a closed loop and where all come at once (1/s)
---@field mean_prompt_tokens number Mean prompt length, shared prefixes included (tokens)
---@field mean_output_tokens number Mean number of generated tokens (tokens)
---@field cv number? Standard deviation by mean of the gaps between arrivals: 1 of a Poisson process; later turns are left out
---@field duration_s number Until the last arrival, later turns left out (s)
---@field concurrency integer? Requests under way in a closed loop; nil of an open one
---@field description string What was asked for, in one line
---@field notes string[] What was left out or changed, and what that does
---@field requests fun(self): table[] A row per request: arrival_s, of a later turn think_s and after (0-based) in its place; prompt_tokens, output_tokens, max_tokens, priority, slo_class and, where it has them, prefix_group, prefix_tokens, session, turn
---@field save fun(self, path: string) Writes the requests as a CSV that ts.traffic { trace = path } reads again, the same to the picosecond; the limit of a closed loop is not among them
---@field scaled fun(self, options: { rate_per_s: number }): tessera.Traffic The same requests at another rate: gaps are divided, lengths and think times stay

--- What became of a training.
---@class tessera.Training
---@field num_parameters integer Tied embeddings counted once
---@field num_tokens integer Trained on, repetitions counted
---@field loss_nats number Per token, mean of the steps of the last report (nats)
---@field held_out_loss_nats number? Per token of held_out_tokens, of the weights as written; absent without any (nats)
---@field elapsed_s number Time it took (s)

--- The weights of a model on disk; nothing is read before it is asked for.
---@class tessera.Weights
---@field path string As given
---@field files string[] The files behind it
---@field num_tensors integer Tensors in all files
---@field size_bytes integer Of all tensors, as stored (bytes)
---@field config table? config.json, or the metadata of a GGUF file
---@field metadata table __metadata__ of a safetensors file
---@field tensors fun(self): fun(): table? Iterates { name, dtype, shape, file, offset_bytes, size_bytes }, in the order of the files
---@field tensor fun(self, name: string): tessera.Tensor A tensor by its name in the file
---@field model fun(self): tessera.Model The architecture, from config.json or the metadata of a GGUF file
---@field linear fun(self, layer_index: integer, name: string, expert_index: integer?): tessera.Tensor A matrix by Tessera's name ("q_proj", "experts.up_proj"), out of a fused tensor where it is stored in one; [out_features, in_features]

--- One batch of requests.
---@class tessera.Workload
---@field name string Name to refer to it by
---@field prompt_tokens number Prompt length per request, the mean where lengths vary (tokens)
---@field output_tokens number Generated tokens per request, the mean where lengths vary (tokens)
---@field batch_size integer Requests served together (requests)
---@field max_prompt_tokens integer Longest prompt, for which memory is reserved; default: the mean, or the longest of lengths, whose longer requests are left out (tokens)
---@field max_output_tokens integer Longest output, for which memory is reserved; default: as for prompts (tokens)
---@field chunk_tokens integer? Chunked prefill: tokens of a prompt per pass (tokens)
---@field num_chunks integer Prefill passes per prompt
---@field context_tokens number Tokens in a request's KV cache, mean over decode steps (tokens)
---@field num_requests integer? Requests that the lengths vary over
---@field num_left_out integer? Requests of the file beyond the longest allowed
---@field has_arrivals boolean Whether it is known when the requests came
---@field source string Where the figures come from
---@field requests fun(self): table? The traced requests as columns prompt_tokens, output_tokens and, where known, arrival_s; nil where all are alike

--- Answers of a model to questions.
---@class tessera.ZeroShot
---@field accuracy number Share of right answers
---@field standard_error number? Of accuracy
---@field accuracy_norm number? The same by log-likelihood per character; absent without choices
---@field accuracy_norm_standard_error number? Of accuracy_norm
---@field perplexity number? Of a word, of lambada
---@field perplexity_standard_error number? Of perplexity
---@field num_items integer Answered
---@field seconds number Time it took (s)
---@field partial boolean Ctrl-C ended it: of the items until then
---@field answers table[] { log_likelihoods, is_right, is_right_norm } of each item

---@class tessera.options.ResultStore.add
---@field point table Its keys and values
---@field status? string Outcome in a word [default "done"]
---@field columns? table What the script returned
---@field order? integer Place among the rows; default: behind the others (an integer in [0, 9.0072e+15])
---@field error? string Given: the point failed, and why
---@field traceback? string Of the failure
---@field log? string What the point printed
---@field provenance? "measured"|"fitted"|"published"|"modelled" Of its numbers
---@field error_ratio? number Held-out relative error of what made the numbers (a number >= 0)
---@field started_at? number When it began (a number in [0, 1000000000000] (s)) [default 0]
---@field duration_s? number How long it took (a number in [0, 1000000000000] (s)) [default 0]
---@field inputs? table Files it read, each { path =, sha256 = }
---@field artefacts? table Things it made, each { name =, kind =, value = }
---@field replace? boolean Replaces a stored row that did not fail [default false]
---@field script_hash? string SHA-256 of the script
---@field git_commit? string Commit the script lies in
---@field seed? integer Seed (an integer in [-9.0072e+15, 9.0072e+15])
---@field machine? table As store.machine() gives it
---@field build? table What the program was built from

---@class tessera.options.ResultStore.merge
---@field prefer? "first"|"last" Which of two rows to keep; without it nothing is merged where two disagree
---@field progress? fun(share: number) Called a few times a second with the share that is done

---@class tessera.options.ResultStore.rows
---@field meta? boolean Each row has a field meta: script_hash, git_commit, seed, machine, build, started_at, duration_s, inputs, provenance, error_ratio, traceback, log; rows of one origin share machine and build [default false]
---@field failed? boolean Only those that failed [default false]
---@field limit? integer The first so many (an integer in [0, 9.0072e+15])
---@field progress? fun(num_rows: number) Called a few times a second with the number of rows read

---@class tessera.options.ResultStore.runs
---@field experiment? string Of this experiment only

---@class tessera.options.ResultStore.start_run
---@field experiment string Its name
---@field script_path? string File of the script
---@field script_text? string Its content
---@field quick? boolean Of a reduced grid [default false]
---@field shard? string Part of the grid, such as "1/4"
---@field declaration? table What the experiment says of itself: name, doc, keys, columns, plots
---@field script_hash? string SHA-256 of the script
---@field git_commit? string Commit the script lies in
---@field seed? integer Seed (an integer in [-9.0072e+15, 9.0072e+15])
---@field machine? table As store.machine() gives it
---@field build? table What the program was built from

---@class tessera.options.deployment.step_s
---@field num_decodes? integer Requests that decode one token (an integer in [0, 1000000]) [default 0]
---@field context_tokens? integer In the KV cache of each of them (an integer in [0, 100000000] (tokens)) [default 0]
---@field num_prompts? integer Prompts, or pieces of them (an integer in [0, 100000]) [default 0]
---@field prompt_tokens? integer Tokens of each (an integer in [1, 100000000] (tokens)) [default 1]
---@field prompt_context_tokens? integer In the KV cache of each (an integer in [0, 100000000] (tokens)) [default 0]

---@class tessera.options.lm.calibrate
---@field text? string The text
---@field file? string In its place: a file with the text
---@field out string File to write (safetensors; tessera man statistics)
---@field num_samples? integer Consecutive pieces of the text, from its start (an integer in [1, 1000000]) [default 32]
---@field sample_tokens? integer Of each piece (an integer in [1, 268435456] (tokens)) [default 512]
---@field with_hessian? boolean With what gptq and the Hessian's indicators need [default false]
---@field layers_at_once? integer The text is run again for each so many layers, whose sums alone are in memory; 0: once (an integer in [0, 10000]) [default 0]
---@field progress? fun(done: integer, total: integer) Called after each piece

---@class tessera.options.lm.generate
---@field max_tokens? integer Most tokens of the text; fewer where the model's context ends (an integer in [1, 268435456] (tokens)) [default 128]
---@field ignore_stop_tokens? boolean Goes on where the model ends its text [default false]
---@field temperature? number Logits are divided by it; 0: always the most likely token (a number in [0, 1000000]) [default 1]
---@field top_k? integer Only so many of the most likely tokens, and those as likely as the last of them; 0: all (an integer in [0, 1000000000]) [default 0]
---@field top_p? number Only the most likely tokens that have this probability together; at least one (a number in [0, 1]) [default 1]
---@field repetition_penalty? number Logits of tokens that are in the text are divided by it, negative ones multiplied; 1: none (a number in [0.01, 100]) [default 1]
---@field seed? integer Of the draws; the same seed gives the same text, on any number of threads (an integer in [0, 9.0072e+15]) [default 0]
---@field on_token? fun(piece: string, id: integer?): boolean? Gets what became complete of the text, in whole characters, and the token; no token with what was left at the end. false ends the text

---@class tessera.options.lm.perplexity
---@field text? string The text
---@field file? string In its place: a file with the text
---@field context_tokens? integer Of a segment, or of the window that a stride moves. Default: 2048, or the model's context where that is less (an integer in [2, 268435456] (tokens))
---@field stride? integer The window moves by it and scores what no window before it has. Default: segments that share nothing, as in the papers (an integer in [1, 268435456] (tokens))
---@field max_tokens? integer Of the text, from its start. Default: all (an integer in [2, 268435456] (tokens))
---@field reference? tessera.LanguageModel The divergence from this model and the rise of the loss over its own are measured too: of the same vocabulary, mostly the same one unquantised
---@field progress? fun(done: integer, total: integer, loss_nats: number, tok_s: number) Called now and then

---@class tessera.options.lm.speed
---@field prompt_tokens? integer Length of the prompt that is prefilled at once. Default: 512, or the model's context where that is less (an integer in [1, 268435456] (tokens))
---@field context_tokens? integer In the cache when decoding starts. Default: 128, or half of the model's context where that is less (an integer in [1, 268435456] (tokens))
---@field output_tokens? integer Steps of decoding that are timed together. Default: 128, or what the model's context leaves (an integer in [1, 268435456] (tokens))
---@field repeats? integer How often, after a first time that does not count (an integer in [1, 1000]) [default 5]
---@field seed? integer Of the tokens, which are random (an integer in [0, 9.0072e+15]) [default 0]
---@field progress? fun(done: integer, total: integer) Called after each repeat

---@class tessera.options.lm.zero_shot
---@field task "lambada"|"arc_easy"|"arc_challenge"|"piqa" What the items are
---@field special? boolean Contexts with the tokenizer's first token [default true]
---@field file string The items, as JSON lines as they were published
---@field limit? integer Items from the start at most; 0: all (an integer in [0, 1000000000]) [default 0]
---@field progress? fun(done: integer, total: integer) Called after each item

---@class tessera.options.map.predict
---@field extrapolate? boolean Also where omega is below the least or above the largest of the points; the result says extrapolated [default false]

---@class tessera.options.plan.explain
---@field as? "text"|"table" A text to read, or the numbers behind it [default "text"]
---@field what_if? boolean Solve again; false: a quick look at what binds [default true]
---@field robustness? integer Problems in which every latency is off, by independent factors per device type, phase and bitwidth (an integer in [0, 10000]) [default 20]
---@field error? number Relative error of a latency; default: the plan's held-out error, 0.1 where none is known (a number in [0, 2])
---@field time_limit_s? number Of all solves together; the text says when it cut them short (a number in [0, 1000000] (s)) [default 5]
---@field seed? integer Of the latencies that are off (an integer in [0, 4294967296]) [default 0]

---@class tessera.options.plan.export
---@field version? string Of vLLM; default 0.24.0, whose kernels are measured
---@field checkpoint? string Hugging Face id or path of the weights to serve; default: chosen
---@field engine? table Of engines that serve a stream: max_num_seqs, max_num_batched_tokens, max_model_len, gpu_memory_utilization, in place of what the plan's batch needs
---@field overwrite? boolean Whether an earlier export may go [default false]

---@class tessera.options.plans.export
---@field rank? integer Of the list (an integer in [1, 100]) [default 1]
---@field version? string Of vLLM, as for plan:export
---@field checkpoint? string Hugging Face id or path of the weights to serve; default: chosen
---@field overwrite? boolean Whether an earlier export may go [default false]

---@class tessera.options.problem.add_constraint
---@field name string For messages
---@field terms table[] List of { stage or boundary, device, bitwidth, layer, coefficient = 1 }: each counts the layers that match everything given
---@field sense "<="|">="|"==" How the left side compares with rhs
---@field rhs number Right-hand side (a number in [-1e+15, 1e+15])

---@class tessera.options.problem.add_constraint.term
---@field stage? integer On this stage (1-based) (an integer in [1, 1000000])
---@field boundary? integer On stages 1 to this one: the first layer (0-based) of the stage after it (an integer in [1, 1000000])
---@field device? string On devices of this name, "T4-16G" or "T4-16G@node"
---@field bitwidth? integer At this bitwidth (an integer in [1, 16] (bits))
---@field layer? integer This one layer (0-based): 1 or 0 (an integer in [0, 1000000])
---@field coefficient? number What each such layer adds to the left side (a number in [-1e+15, 1e+15]) [default 1]

---@class tessera.options.problem.balanced_partition
---@field device_order string[] Devices by position
---@field bitwidth integer Of every layer (an integer in [1, 16] (bits))
---@field prefill_micro_batch_size integer Requests per prefill micro-batch (an integer in [1, 1000000])
---@field decode_micro_batch_size integer Requests per decode micro-batch (an integer in [1, 1000000])
---@field phase? "both"|"prefill"|"decode" What is balanced: a stage's share of the latency, or its time in one phase [default "both"]

---@class tessera.options.problem.device_facts
---@field device_order string[] Devices by position
---@field prefill_micro_batch_size integer Requests per prefill micro-batch (an integer in [1, 1000000])
---@field decode_micro_batch_size integer Requests per decode micro-batch (an integer in [1, 1000000])

---@class tessera.options.problem.write_model
---@field prefill_micro_batch_size integer Requests per prefill micro-batch (an integer in [1, 1000000])
---@field decode_micro_batch_size integer Requests per decode micro-batch (an integer in [1, 1000000])
---@field device_order? string[] Devices by stage; default: decided inside the model
---@field form? "base"|"paper"|"tightened" The programme itself, or with ranges for stage times and boundaries that hold every plan worth finding; paper: eqs. (4)-(16) as printed, for one device_order, columns z_layer7_stage2_8bit, y_layer7_8bit, u_layer7_stage2 [default "base"]

---@class tessera.options.store.open
---@field read_only? boolean Neither makes nor changes any file [default false]
---@field create? boolean Makes the file where there is none [default true]
---@field optional? boolean To read: nil in place of an error where there is no file yet, or nothing in it [default false]
---@field durable? boolean Waits for the disk after every addition, which then survives power loss too [default false]

---@class tessera.options.tokenizer.decode
---@field skip_special? boolean Without the tokens that end or begin a text [default false]

---@class tessera.options.tokenizer.encode
---@field special? boolean With what the tokenizer puts around a text: a first token, ... [default true]

---@class tessera.options.traffic.scaled
---@field rate_per_s number Requests per second (a number >= 0 (1/s))

---@class tessera.options.calibrate
---@field device tessera.Device|string|table Device that was measured, or its name
---@field kernel_set? string Kernels that were measured [default "modern"]
---@field samples table[]|string Measured points { dtype, m, n, k, latency_s }, { model, bitwidth, phase, batch_size, tokens, context_tokens, latency_s }, ..., or the path of a table that ts.read_profile_data reads
---@field method? string How to fit: operator, regression, table, ...; auto takes what predicts held-out points best [default "auto"]
---@field hold_out? string[] Fields that are held out together, as {"n", "k"}; default: every point
---@field folds? integer Folds of the held-out error; 0 leaves one out at a time; default: 0 for few samples, else 5 (an integer in [0, 1000000])
---@field seed? integer Deals the points to folds (an integer in [0, 9.0072e+15]) [default 0]
---@field source? string Where the points come from; default: as the first says
---@field donor? tessera.Profile|string Profile whose form is scaled; default: of the device's own and the shipped ones what predicts best

---@class tessera.options.calibration_points
---@field device string Name of a device
---@field kernel_set? string What the products are run with [default "modern"]
---@field dtype? string bfloat16, int8_wo, int4_wo, sq, fp8 ...
---@field dtypes? string[] Several of these, in place of dtype
---@field count? integer How many (an integer in [1, 1000] (points)) [default 20]
---@field design? "least_variance"|"d_optimal"|"even" What they make small: the mean variance of what a calibration predicts; the volume of its parameters' confidence region; or none, points spread evenly over the logarithms [default "least_variance"]
---@field candidates? table[] Products { dtype, m, n, k } or attention to choose from, in place of the ranges and dtypes
---@field max_m? integer Most tokens of a pass; the least is 1 (an integer in [2, 1000000] (rows)) [default 8192]
---@field min_side? integer Least n and k (an integer in [64, 65536]) [default 256]
---@field max_side? integer Largest n and k (an integer in [128, 1000000]) [default 32768]

---@class tessera.options.cluster
---@field name? string Name to refer to it by
---@field link_gbps? number Network between nodes, one direction (a number in [0.001, 1000000] (Gb/s)) [default 100]
---@field nvlink_gbps? number NVLink between any two devices of a node, one direction; default: what they have (a number in [0.001, 1000000] (Gb/s))
---@field nvlink? boolean false: devices of a node talk over PCIe although they have NVLink [default true]
---@field nvlink_bridges? boolean true: NVLink bridges join the cards of a node that take them, in pairs [default false]
---@field link_latency_s? number Latency between nodes (a number in [0, 10] (s)) [default 3e-05]
---@field host_memory_gib? number Memory of each node (a number in [0, 1000000] (GiB))
---@field disk_bytes_per_s? number Rate of each node's disk, either direction (a number in [1, 1e+15] (bytes/s))
---@field source? string Where the description comes from

---@class tessera.options.collection
---@field name string Of the report's file: reproduce_all
---@field doc? string One line [default ""]
---@field scripts string[] Scripts that return experiments, or folders of such scripts, from the folder of this one
---@field except? string[] Scripts of these folders that are left out

---@class tessera.options.cross_validate
---@field device tessera.Device|string|table Device that was measured, or its name
---@field kernel_set? string Kernels that were measured [default "modern"]
---@field samples table[]|string Measured points { dtype, m, n, k, latency_s }, { model, bitwidth, phase, batch_size, tokens, context_tokens, latency_s }, ..., or the path of a table that ts.read_profile_data reads
---@field method? string How to fit: operator, regression, table, ...; auto takes what predicts held-out points best [default "auto"]
---@field hold_out? string[] Fields that are held out together, as {"n", "k"}; default: every point
---@field folds? integer Folds of the held-out error; 0 leaves one out at a time; default: 0 for few samples, else 5 (an integer in [0, 1000000])
---@field seed? integer Deals the points to folds (an integer in [0, 9.0072e+15]) [default 0]
---@field source? string Where the points come from; default: as the first says

---@class tessera.options.data_sets
---@field name? string Only this one
---@field check? boolean Reads all files and compares their SHA-256 [default false]

---@class tessera.options.deployment
---@field plan? tessera.Plan A plan, each of its replicas an engine; instead of model and cluster
---@field model? tessera.Model|string|table Model, or its name
---@field cluster? tessera.Cluster|string|table Cluster, or its name
---@field tensor_parallel? integer Devices that share each layer (an integer in [1, 64]) [default 1]
---@field pipeline_parallel? integer Stages, layers spread over them as vLLM does (an integer in [1, 4096]) [default 1]
---@field replicas? integer Engines; left out: as many as there are devices for, without a model 1 (an integer in [1, 100000])
---@field bitwidths? integer[] Of all layers, or one per layer (a list, each item an integer in [1, 16] (bits)) [default {16}]
---@field kv_bitwidth? integer Of the KV cache (an integer in [2, 16] (bits)) [default 16]
---@field kernel_set? string Kernels that run the layers [default "auto"]
---@field host_step_s? number Time of the host per step, as measured on a machine; left out: the kernel set's (a number in [0, 100] (s))
---@field host_sequence_s? number Time of the host per step and request in it, likewise (a number in [0, 100] (s))
---@field host_prompt_s? number Time of the host on top of a step that reads prompts, likewise (a number in [0, 100] (s))
---@field engine? tessera.Engine|table Engine, or a table of its options
---@field step_cost? table|fun(step: table): number Time of a step without a model: { base_s =, per_token_s =, per_sequence_s =, per_context_token_s = }, or a function of a table of what the step computes
---@field kv_blocks? integer Blocks of each engine's KV cache; left out: the engine's, what the memory holds, or without a model as many as the traffic can use (an integer in [1, 1000000000] (blocks))
---@field kv_bytes_per_token? number Without a model, for transfers and swapping (a number in [0, 1000000000000] (bytes))
---@field usd_per_h? number Price of an engine; left out: its devices' list price (a number in [0, 1000000000] (USD/h))
---@field idle_w? number Power of an engine that waits (a number in [0, 1000000000] (W))
---@field busy_w? number Power of an engine that computes (a number in [0, 1000000000] (W))
---@field draft? tessera.Plan Plan of the model that drafts, for speculative.method = "draft_model"
---@field router? string|table Name of the rule that chooses an engine, or a table of its options [default "round_robin"]
---@field pools? table[] Pools of engines with a role each: { role = "prefill", ... }, { role = "decode", ... }
---@field api_s? number Time of client and API server per request before an engine sees it, in TTFT and E2E; left out: the kernel set's (0.0055 for vllm), 0 with step_cost (a number in [0, 1000] (s))
---@field transfer? table How keys and values go from pool to pool

---@class tessera.options.deployment.pool
---@field role "mixed"|"prefill"|"decode" What they do
---@field plan? tessera.Plan A plan, each of its replicas an engine; instead of model and cluster
---@field model? tessera.Model|string|table Model, or its name
---@field cluster? tessera.Cluster|string|table Cluster, or its name
---@field tensor_parallel? integer Devices that share each layer (an integer in [1, 64]) [default 1]
---@field pipeline_parallel? integer Stages, layers spread over them as vLLM does (an integer in [1, 4096]) [default 1]
---@field replicas? integer Engines; left out: as many as there are devices for, without a model 1 (an integer in [1, 100000])
---@field bitwidths? integer[] Of all layers, or one per layer (a list, each item an integer in [1, 16] (bits)) [default {16}]
---@field kv_bitwidth? integer Of the KV cache (an integer in [2, 16] (bits)) [default 16]
---@field kernel_set? string Kernels that run the layers [default "auto"]
---@field host_step_s? number Time of the host per step, as measured on a machine; left out: the kernel set's (a number in [0, 100] (s))
---@field host_sequence_s? number Time of the host per step and request in it, likewise (a number in [0, 100] (s))
---@field host_prompt_s? number Time of the host on top of a step that reads prompts, likewise (a number in [0, 100] (s))
---@field engine? tessera.Engine|table Engine, or a table of its options
---@field step_cost? table|fun(step: table): number Time of a step without a model: { base_s =, per_token_s =, per_sequence_s =, per_context_token_s = }, or a function of a table of what the step computes
---@field kv_blocks? integer Blocks of each engine's KV cache; left out: the engine's, what the memory holds, or without a model as many as the traffic can use (an integer in [1, 1000000000] (blocks))
---@field kv_bytes_per_token? number Without a model, for transfers and swapping (a number in [0, 1000000000000] (bytes))
---@field usd_per_h? number Price of an engine; left out: its devices' list price (a number in [0, 1000000000] (USD/h))
---@field idle_w? number Power of an engine that waits (a number in [0, 1000000000] (W))
---@field busy_w? number Power of an engine that computes (a number in [0, 1000000000] (W))

---@class tessera.options.deployment.router
---@field name? string round_robin, random, least_requests, least_tokens, power_of_two, prefix_aware, kv_aware, vllm_dp, shared_queue, or one that a script registered; see tessera help routers [default "round_robin"]
---@field signal_age_s? number Loads are read so far apart; between, it knows what it sent (a number in [0, 1000000] (s)) [default 0]
---@field seed? integer Of random choices (an integer in [0, 9.0072e+15]) [default 0]
---@field match_ratio? number prefix_aware: share of the prompt from which on the best match counts (a number in [0, 1]) [default 0.5]
---@field most_difference? integer prefix_aware: the idlest replica is taken where the busiest has more requests beyond it than this, and (an integer in [0, 1000000000] (requests)) [default 32]
---@field most_ratio? number prefix_aware: more than this many times as many (a number in [1, 1000000000]) [default 1.5]
---@field choose? fun(replicas: table[], request: table): integer choose(replicas, request) of a script: replicas is a list of { waiting, running, pending_tokens, used_blocks, kv_blocks, seats, cached_tokens }; returns a position in it
---@field prefixes? boolean Whether `choose` reads cached_tokens, the prompt tokens that an engine has in its prefix cache [default false]

---@class tessera.options.deployment.step_cost
---@field base_s? number Every step (a number in [0, 1000000] (s)) [default 0]
---@field per_token_s? number Every new token (a number in [0, 1000000] (s)) [default 0]
---@field per_sequence_s? number Every request in the step (a number in [0, 1000000] (s)) [default 0]
---@field per_context_token_s? number Every token in their KV caches before the step (a number in [0, 1000000] (s)) [default 0]

---@class tessera.options.deployment.transfer
---@field bytes_per_s? number Rate of each sender; 0: no time (a number in [0, 1e+15] (bytes/s)) [default 0]
---@field link_gbps? number The same in Gb/s (a number in [1e-06, 10000000] (Gb/s))
---@field latency_s? number Of a hand-over (a number in [0, 10000] (s)) [default 0]
---@field per_layer? boolean Each layer goes as soon as it is computed; only the last one's time shows [default false]

---@class tessera.options.device
---@field file? string JSON file of one device; the other fields come from it
---@field name? string Name to refer to it by
---@field full_name? string As on the box
---@field memory_bytes? number Memory as the driver reports it (a number in [1048576, 1e+15] (bytes))
---@field memory_bytes_per_s? number Peak memory bandwidth (a number in [1000000, 1e+15] (bytes/s))
---@field flop_per_s? table<string, number> Dense peak rate by dtype: fp16 (required), fp32, bf16, int8, fp8, int4
---@field compute_capability? number CUDA compute capability, such as 7.5 (a number in [1, 100])
---@field num_multiprocessors? number Streaming multiprocessors; left out: by the FP32 rate and the capability (a number in [1, 10000])
---@field pcie_bytes_per_s? number PCIe bandwidth, one direction (a number in [1000000, 1e+15] (bytes/s))
---@field nvlink_bytes_per_s? number NVLink bandwidth to one peer, one direction (a number in [1000000, 1e+15] (bytes/s))
---@field nvlink_bridge_bytes_per_s? number NVLink bandwidth between two cards joined by a bridge, one direction (a number in [1000000, 1e+15] (bytes/s))
---@field price_usd_per_h? number List price (a number in [0, 1000000] (USD/h))
---@field price_source? string Where the price was read
---@field source? string Where the figures were read

---@class tessera.options.engine
---@field scheduler? string static, orca, vllm_v0, vllm_v1, sarathi, sglang, or one that a script registered; see tessera help schedulers [default "vllm_v1"]
---@field max_num_seqs? integer Requests that run at the same time (an integer in [1, 1048576] (requests)) [default 256]
---@field max_num_batched_tokens? integer Tokens computed in a step at most (an integer in [1, 1000000000] (tokens)) [default 8192]
---@field max_model_len? integer Prompt and output of a request at most; 0: the model's context, without a model no limit (an integer in [0, 1000000000] (tokens)) [default 0]
---@field block_size? integer Tokens in a block of the KV cache (an integer in [1, 65536] (tokens)) [default 16]
---@field kv_blocks? integer Blocks of the KV cache; left out: what the memory holds (an integer in [1, 1000000000] (blocks))
---@field gpu_memory_utilization? number Share of a device's memory that the engine takes (a number in [0.01, 1]) [default 0.9]
---@field enable_prefix_caching? boolean Find blocks of earlier requests again [default true]
---@field enable_chunked_prefill? boolean Compute prompts in pieces; left out: on, but off in vllm_v0; static, orca and sarathi do not ask
---@field long_prefill_token_threshold? integer Prompt tokens of one request per step at most; 0: no such limit (an integer in [0, 1000000000] (tokens)) [default 0]
---@field policy? "fcfs"|"priority" Order of the queue; priority: lower numbers first, and others are preempted for them [default "fcfs"]
---@field watermark? number vllm_v0, sarathi: share of blocks kept free at admission (a number in [0, 1]) [default 0.01]
---@field delay_factor? number vllm_v0: a prompt waits for so many times the last one's time (a number in [0, 1000000]) [default 0]
---@field preemption_mode? "recompute"|"swap" vllm_v0: what becomes of a preempted request's KV cache [default "recompute"]
---@field swap_space_gib? number vllm_v0: host memory for it (a number in [0, 1000000] (GiB)) [default 4]
---@field swap_bytes_per_s? number vllm_v0: rate between device and host (a number in [1, 1e+15] (bytes/s)) [default 25000000000]
---@field kv_allocation? "paged"|"contiguous"|"maximum" How the KV cache is handed out: blocks as they are needed, one region per request, or max_model_len for each [default "paged"]
---@field static_slots? "idle"|"shrink" static: a slot whose request has ended goes on being computed, or is left out [default "idle"]
---@field chunk_size? integer sarathi: tokens of a step (an integer in [1, 1000000000] (tokens)) [default 512]
---@field schedule_policy? "lpm"|"fcfs"|"lof"|"random"|"shortest"|"hrrn" sglang: order of waiting prompts [default "lpm"]
---@field schedule_conservativeness? number sglang: factor on the share of future outputs that memory is kept for (a number in [0, 100]) [default 1]
---@field mixed_chunk? boolean sglang: prompts and decodes in one step [default false]
---@field speculative? table Drafts: { method, num_tokens, acceptance, ... }, see tessera help ts.engine.speculative
---@field host? "serial"|"overlapped" serial: the host prepares a step when the last one is done; overlapped: while it runs [default "serial"]
---@field async_scheduling? boolean vllm_v1: decide a step while the one before it runs, as vLLM does from 0.14 on; left out: off, unless ts.deployment knows better
---@field kv_cache_dtype? string auto (as the plan says), fp8 or bfloat16 [default "auto"]

---@class tessera.options.engine.speculative
---@field method? "ngram"|"draft_model"|"mtp"|"eagle" Who drafts: the text itself, a small model, or a head of the model [default "ngram"]
---@field num_tokens? integer Drafted per step and request (an integer in [0, 64] (tokens)) [default 4]
---@field acceptance? number|number[] Share of drafts accepted up to and including each position; one number: of each draft whose predecessors passed [default {0.7, 0.5, 0.4, 0.3}]
---@field draft_base_s? number Time of drafting one token for a batch; left out with a plan: derived from the model (a number in [0, 1000000] (s))
---@field draft_per_sequence_s? number Time of drafting one token, per request (a number in [0, 1000000] (s))

---@class tessera.options.experiment
---@field name string Under which results are stored: llmpq/table4
---@field doc? string One line [default ""]
---@field paper? table Published cells, from ts.paper
---@field seed? integer Every point's own seed comes from it and the point (an integer) [default 0]
---@field grid table<string, any[]>|table[] Values by key, of which every combination is a point; or a list of points
---@field quick? table<string, any[]> Other values for --quick, by key
---@field run fun(point: table, context: table): table Computes the columns of one point; context has seed, quick, point_index and output_dir
---@field check? fun(t: tessera.Claims) The claims; t:expect_best and so on
---@field columns? string[] Columns to show, in order; default: all
---@field notes? string[] Said beneath the table: settings, and what the numbers are not
---@field plots? table[] For the report: options of ts.plot without rows
---@field time_limit_s? number Of one point, beyond which it is stopped (a number in [0.001, 10000000] (s)) [default 300]

---@class tessera.options.fit_profile
---@field device tessera.Device|string|table Device that was measured, or its name
---@field kernel_set? string Kernels that were measured [default "modern"]
---@field samples table[]|string Measured points { dtype, m, n, k, latency_s }, { model, bitwidth, phase, batch_size, tokens, context_tokens, latency_s }, ..., or the path of a table that ts.read_profile_data reads
---@field method? string How to fit: operator, regression, table, ...; auto takes what predicts held-out points best [default "auto"]
---@field hold_out? string[] Fields that are held out together, as {"n", "k"}; default: every point
---@field folds? integer Folds of the held-out error; 0 leaves one out at a time; default: 0 for few samples, else 5 (an integer in [0, 1000000])
---@field seed? integer Deals the points to folds (an integer in [0, 9.0072e+15]) [default 0]
---@field source? string Where the points come from; default: as the first says

---@class tessera.options.indicator
---@field kind? "constant"|"random"|"variance"|"hessian"|"gptq_error"|"measured"|"loss"|"divergence" constant: the squared step of eq. (3) for every layer; random: draws; from weights: variance (eq. (3)), hessian (top eigenvalue times rounding error), gptq_error, measured (errors of the layer's outputs); from running the model, a layer at a time: loss (its rise), divergence (from the model as it is), nats a token [default "constant"]
---@field model tessera.Model|tessera.LanguageModel|string Model whose layers it covers; for what is made from weights their folder or file; for loss and divergence these too, or what ts.language_model gave
---@field bitwidths? integer[] Bitwidths it covers; 3, 4 and 8 of loss and divergence (a list, each item an integer in [1, 16] (bits)) [default {3, 4, 8, 16}]
---@field variant? "paper"|"llm-pq"|"llm-pq-code"|"llm-pq-uniform"|"llm-pq-constant" As the papers say; llm-pq: steps as LLM-PQ prints them (variance); llm-pq-code: as its published code computes it (variance, hessian), of which random has two modes [default "paper"]
---@field statistics? string File of what the operators read (`tessera man statistics`). Without one kind variance takes inputs of zero mean and unit variance; the other kinds need one with Hessians
---@field granularity? "tensor"|"channel"|"group" What shares a scale. Default: tensor for kind variance, as in eq. (3); channel for the kinds that quantise
---@field group_size? integer Input channels that share a scale, of granularity group (an integer in [1, 1048576]) [default 128]
---@field symmetric? boolean Scales of max |W|, else of max - min [default true]
---@field rounding? "deterministic"|"stochastic" How weights are rounded: G(X) is 1/4 Var[X], or 1/6 (E[X]^2 + Var[X]) [default "deterministic"]
---@field seed? integer Seed of kind random and of stochastic rounding (an integer in [0, 9.0072e+15]) [default 0]
---@field threads? integer Threads over the weights; 0: as many as there are processors (an integer in [0, 1024]) [default 0]
---@field file? string Of loss and divergence: the text that the model runs
---@field samples? integer Of loss and divergence: consecutive pieces of the text, from its start (an integer in [2, 1000000]) [default 16]
---@field tokens? integer Of each piece (an integer in [2, 1000000000] (tokens)) [default 256]
---@field method? "rtn"|"gptq"|"awq" Of loss and divergence: how weights become codes; gptq, awq: with statistics [default "rtn"]
---@field activation_bitwidth? integer Of loss and divergence: 8 rounds what quantised matrices multiply (an integer in [8, 16] (bits)) [default 16]
---@field out? string Of loss and divergence: the indicator goes there as JSON; what is done lies in OUT.part meanwhile, and the same call goes on from there
---@field progress? fun(num_done: integer, num_layers: integer) Called after every layer

---@class tessera.options.language_model
---@field path string Folder with config.json, weights and tokenizer, or a GGUF file
---@field dtype? "f32"|"f16"|"bf16" What weights of 16 bits are kept as; sums are f32 [default "f32"]
---@field plan? tessera.Plan|table Plan whose bitwidths the layers get
---@field bitwidths? integer|integer[] In place of a plan: one of 3, 4, 8, 16 for all layers, or a list of one for each
---@field method? "rtn"|"gptq"|"awq" How weights become codes; gptq, awq: with statistics [default "rtn"]
---@field activation_bitwidth? integer Of what matrices in codes or blocks multiply: 16 leaves it in f32, 8 rounds it (an integer in [8, 16] (bits)) [default 16]
---@field int8? boolean Layers of 8 bits multiply in whole numbers, outliers apart, as LLM.int8() does [default false]
---@field statistics? string Calibration file of gptq and awq (tessera man statistics)
---@field kv_bitwidth? integer Of keys and values: 16 keeps dtype, or 8 (an integer in [8, 16] (bits)) [default 16]
---@field device? string cpu: Tessera's kernels; torch: LibTorch's operators on the CPU, slow and independent of them; cuda, cuda:1: LibTorch on a GPU [default "cpu"]
---@field threads? integer Of every step; 0: as many as there are processors (an integer in [0, 1024]) [default 0]
---@field symmetric? boolean Whether 0 lies in the middle of the codes [default true]
---@field granularity? "tensor"|"channel"|"group" Which weights share a scale: all, an output channel's, or a group of these [default "group"]
---@field group_size? integer Input channels that share a scale, with granularity group (an integer in [1, 1048576]) [default 128]
---@field rounding? "deterministic"|"stochastic" To the nearest code, or up with the probability of the fraction [default "deterministic"]
---@field seed? integer Seed of stochastic rounding (an integer in [0, 9.0072e+15]) [default 0]
---@field act_order? "none"|"weight"|"group" Of gptq: columns as they are, those with the largest inputs first, or grouped in that order too, which no checkpoint can hold [default "none"]
---@field progress? fun(done: integer, total: integer)|false Called after each layer; false for silence. Default: a bar on a terminal

---@class tessera.options.max_batch
---@field max_batch_size? integer Larger batches are not looked at (an integer in [1, 100000] (requests)) [default 4096]
---@field prefill_micro_batch_size? integer Held fixed; default: searched (an integer in [1, 100000] (requests))
---@field decode_micro_batch_size? integer Held fixed; default: searched (an integer in [1, 100000] (requests))
---@field time_limit_s? number Of all solves together (a number in [0, 1000000] (s)) [default 60]

---@class tessera.options.max_rate
---@field slo table As of ts.serve
---@field attainment_ratio? number Share of requests that have to be within limits on each request (a number in [0, 1]) [default 0.99]
---@field tolerance? number Width of the bracket, as a share of the rate (a number in [1e-06, 1]) [default 0.02]
---@field least_rate_per_s? number The search ends where this rate does not hold already (a number in [0, 1000000000000] (1/s)) [default 0]
---@field guess_per_s? number Where the search begins; 0: at what is completed when all requests come at once (a number in [0, 1000000000000] (1/s)) [default 0]
---@field max_runs? integer Simulated rates at most (an integer in [1, 10000]) [default 40]

---@class tessera.options.model
---@field config? string Path of a config.json, of the folder that holds it, or of a file of weights
---@field name? string Name to refer to it by
---@field family? string Whose conventions hold for norms, biases and positions: opt, llama, qwen2, ...
---@field num_layers? integer Decoder layers (an integer in [1, 10000])
---@field hidden_size? integer Width of the residual stream (an integer in [1, 16777216])
---@field num_heads? integer Query heads (an integer in [1, 65536])
---@field num_kv_heads? integer Key and value heads; default: num_heads (an integer in [1, 65536])
---@field head_dim? integer Width of a head; default: hidden_size / num_heads (an integer in [1, 65536])
---@field ffn_size? integer Width of the feed-forward network (of one expert) (an integer in [1, 16777216])
---@field vocab_size? integer Tokens in the vocabulary (an integer in [1, 268435456])
---@field max_context_tokens? integer Longest context (an integer in [1, 268435456] (tokens))
---@field gated_ffn? boolean Three matrices instead of two; checked against the family
---@field tied_embeddings? boolean The LM head is the token embedding
---@field num_experts? integer Experts per layer (mixture-of-experts families) (an integer in [1, 65536])
---@field num_active_experts? integer Experts that one token visits (an integer in [1, 65536])
---@field attention_window? integer Sliding-window attention (an integer in [1, 268435456] (tokens))

---@class tessera.options.pareto
---@field max_points? integer Of each choice of devices (an integer in [2, 10000]) [default 8]
---@field max_subsets? integer Choices of devices; more are refused (an integer in [1, 100000]) [default 64]
---@field price? "usd_per_h"|"usd_per_million_tokens"|"none" The third axis: what the devices cost by the hour or by the token; none: the whole cluster, two axes [default "usd_per_h"]
---@field prices? table<string, number> By device, over those of the device files
---@field time_limit_s? number Of all solves together (a number in [0, 1000000] (s)) [default 60]

---@class tessera.options.plan
---@field planner? string|string[] Planner's name, or a list: a planner, then heuristics; see `tessera help planners` [default "exact"]
---@field device_order? string[] Devices by stage; default: searched
---@field prefill_micro_batch_size? integer Requests per prefill micro-batch; default: searched (an integer in [1, 1000000] (requests))
---@field decode_micro_batch_size? integer Requests per decode micro-batch; default: searched (an integer in [1, 1000000] (requests))
---@field stages? table[] Of planner "manual": { { device =, bitwidths = { 8, ... } }, ... }
---@field replicas? integer|integer[]|string Pipelines to split the cluster into: a number, several to choose from, or "all"; default: all, but 1 where a planner or anything of a pipeline is given, or the problem says tensor_parallel, use_all_devices or allow_empty_stage, or has a paper's preset
---@field every_candidate? boolean Plan each open choice for its own sake, not only until it is proven no better [default false]
---@field cutoff? number Only plans with an objective below it are of interest (a number (s))
---@field time_limit_s? number Wall-clock limit; the best plan so far is returned with its bound (a number in [0, 10000000] (s)) [default 60]
---@field gap? number Relative gap between plan and bound at which to stop (a number in [0, 1]) [default 0]
---@field threads? integer Threads of planners that use several; 0: one per core (an integer in [0, 1024]) [default 0]
---@field group? integer Neighbouring layers decided together, by planners of the engine (an integer in [1, 1000000] (layers)) [default 1]
---@field on_error? "stop"|"continue" When a heuristic fails by an error of its own: stop raises it (ts.plan returns nil only for expected outcomes), continue goes on from the best plan so far, with a note [default "stop"]
---@field seed? integer Seed of planners that draw (an integer in [0, 9.0072e+15]) [default 0]
---@field on_incumbent? fun(incumbent: table) Called with { objective, bound, gap } for each better plan; bound and gap where there is a bound
---@field start? tessera.Plan Of planner "ilp": a plan of this problem that it starts from
---@field form? "base"|"paper"|"tightened" Of planner "ilp": the programme with ranges, local search and a cutoff, as it stands (base), or as the papers print it, eqs. (4)-(16); same optimum [default "tightened"]

---@class tessera.options.plan_serving
---@field model tessera.Model|string|table Model, or its name
---@field cluster tessera.Cluster|string|table Cluster, or its name; devices may be left out
---@field traffic tessera.Traffic|table Traffic, or a table of the options of ts.traffic; for objectives cost and gpus with its rate
---@field slo table As for ts.max_rate
---@field objective? "rate"|"cost"|"gpus" The largest rate, or the traffic's own rate with the least money or the fewest devices [default "rate"]
---@field quality? table { max_perplexity_increase = } or { min_accuracy_recovery = }, as for ts.problem; default: 16 and 8 bits
---@field runtime? "vllm"|"tessera" What is to run it. vllm: only engines that plan:export can launch, with bitwidths and KV caches that vLLM has kernels for on their devices, and pools that its NixlConnector joins; tessera: all that a kernel set has a price for. Either way each engine has one bitwidth throughout [default "vllm"]
---@field engine? tessera.Engine|table Options of ts.engine that are settled
---@field bitwidths? integer[] To choose from; default: 16 and 8, with a bound on quality 4 too, for tessera 3 too (a list, each item an integer (bits))
---@field kv_bitwidths? integer[] To choose from; default: 16, and 8 where the runtime's kernels read it (a list, each item an integer (bits))
---@field tensor_parallel? integer[] Degrees to choose from; default: powers of two (a list, each item an integer)
---@field pipeline_parallel? integer[] Stages to choose from; default: as few as hold the model (a list, each item an integer)
---@field disaggregated? boolean Look at prefill and decode pools too [default true]
---@field router? string|table As for ts.deployment [default "least_requests"]
---@field kernel_set? string As for ts.deployment [default "auto"]
---@field limit? integer Deployments listed (an integer in [1, 100]) [default 8]
---@field num_requests? integer Per engine and simulated rate, where traffic is a table without it (an integer in [20, 1000000]) [default 2000]

---@class tessera.options.plot
---@field kind "bars"|"lines"|"scatter"|"heatmap"|"pareto"|"cdf" cdf: share of points up to x; pareto: scatter with the front drawn
---@field rows table[] { point = {...}, columns... }, ...
---@field where? table Only rows with these values, as in results:rows { ... }
---@field x string Column along x; words become categories
---@field y? string Column along y; all kinds but cdf need it
---@field by? string Column whose values are the series
---@field facet? string Column with a small plot per value, all with the same axes: lines, bars and heat maps refuse rows that differ in what they would not show
---@field value? string Column that colours the cells of a heatmap
---@field title? string Above the plot
---@field x_label? string Default: the column with its unit, as in "latency (s)"
---@field y_label? string Default: the column with its unit
---@field x_better? "lower"|"higher" Of a front; default: by the column's unit
---@field y_better? "lower"|"higher" Of a front; default: by the column's unit
---@field log_x? boolean Logarithmic; only above zero [default false]
---@field log_y? boolean Logarithmic; only above zero [default false]
---@field width? integer Of the picture (an integer in [240, 10000] (pixels)) [default 720]
---@field height? integer Of the picture; grows where labels need it (an integer in [160, 10000] (pixels)) [default 400]

---@class tessera.options.problem
---@field model? tessera.Model|string|table Model, or its name
---@field cluster? tessera.Cluster|string|table Cluster, or its name
---@field workload? tessera.Workload|string|table Workload, or its name [default "llmpq"]
---@field bitwidths? integer[] Candidate bitwidths (a list, each item an integer in [1, 16] (bits)) [default {4, 8, 16}]
---@field indicator? tessera.Indicator|string|table Indicator, file, or omega[layer][bitwidth]; default: the same for every layer
---@field kernel_set? string Kernels that run the layers; auto: the best measured set that a public runtime has on all the devices [default "auto"]
---@field profiles? (tessera.Profile|string)[] For the cluster's devices, a list of profiles or of their files; default: the shipped ones of the kernel set; {}: none, the roofline prices everything
---@field memory? "physical"|"llm-pq" Memory model [default "physical"]
---@field kv_omega? table Quality lost by the KV cache, in the indicator's units: { [8] = omega of a layer, or a list of all layers' }; default: assumed, as rounding the K and V projections
---@field quantisation? "gptq"|"rtn" How checkpoints are rounded, for what plans say of quality: gptq (calibrated, also AWQ and the like) or rtn (to nearest) [default "gptq"]
---@field kv_bitwidth? integer|integer[] Bitwidth of the KV cache, or several to choose from; default: 16, and 8 where the kernel set is known to have it (a list, each item an integer in [2, 16] (bits))
---@field tensor_parallel? integer|integer[] Degrees of tensor parallelism to choose from, within a node and device type; default: powers of two that divide the model's heads (a list, each item an integer in [1, 64] (devices))
---@field uniform_degree? boolean All stages of a pipeline have the same degree, as servers run them; false where tensor_parallel is given [default true]
---@field preset? "recommended"|"splitquant"|"llm-pq" Defaults of all other options: what suits the cluster, or the settings of a paper; see tessera help presets [default "recommended"]
---@field instance? string Abstract instance file, instead of model, cluster and workload
---@field objective? "steady"|"paper" steady: the pipeline's steady state; paper: eq. (4) as printed [default "steady"]
---@field theta? number Price of quality loss; 0 with a quality floor, the file's own with an instance (a number in [0, 1000000000000]) [default 1]
---@field theta_unit? "s_per_normalised_omega"|"ms_per_raw_omega" What theta multiplies: omega scaled so that 4 bits throughout cost 1 s, or raw omega and milliseconds [default "s_per_normalised_omega"]
---@field quality? table What may be lost: { max_perplexity_increase = 0.01 } (at most 1 % above), { min_accuracy_recovery = 0.99 }, { at_least = "uniform" } or { max_omega = x }; see tessera help quality
---@field allow_empty_stage? boolean Middle stages may hold no layer; default: where devices may be left out
---@field use_all_devices? boolean Every device holds a layer; false: devices may be left out [default false]
---@field runtime? "vllm"|"llama.cpp"|"tessera" Server that is to run the plan: only what it can launch is searched, and a note says what that costs
---@field constraints? table[] Side constraints; see problem:add_constraint

---@class tessera.options.profile
---@field device? tessera.Device|string|table Device, or its name; without a file it is needed
---@field kernel_set? string Kernels: llmpq_2023, modern, vllm, ... [default "modern"]
---@field donor? tessera.Profile|string Profile of another device, or its file, to carry over by the data sheets (`modelled`) instead of looking for one of this device
---@field file? string A saved profile, instead of the rest

---@class tessera.options.quality_map
---@field points? table[] Results of plan:quality: of each the omega, kl_nats, loss_increase_nats, base_perplexity, model, indicator and settings
---@field file? string What map:save wrote

---@class tessera.options.quantise
---@field tensor tessera.Tensor The weights, [out_features, in_features]
---@field bitwidth integer 3, 4 or 8 (an integer in [3, 8] (bits))
---@field method? "rtn"|"gptq"|"awq" rtn: to the nearest code; gptq, awq: with calibration [default "rtn"]
---@field activations? tessera.Tensor|fun(): tessera.Tensor? Inputs of the linear to calibrate with, [tokens, in_features]; or a function that gives them a batch at a time, then nil
---@field statistics? string Calibration file in place of activations (tessera man statistics)
---@field layer_index? integer Of statistics: the layer, from 0 (an integer in [0, 100000])
---@field linear? string Of statistics: the linear, such as "q_proj"
---@field scale_type? "f32"|"f16"|"bf16" What scales are rounded to, upwards [default "f32"]
---@field symmetric? boolean Whether 0 lies in the middle of the codes [default true]
---@field granularity? "tensor"|"channel"|"group" Which weights share a scale: all, an output channel's, or a group of these [default "group"]
---@field group_size? integer Input channels that share a scale, with granularity group (an integer in [1, 1048576]) [default 128]
---@field rounding? "deterministic"|"stochastic" To the nearest code, or up with the probability of the fraction [default "deterministic"]
---@field seed? integer Seed of stochastic rounding (an integer in [0, 9.0072e+15]) [default 0]
---@field act_order? "none"|"weight"|"group" Of gptq: columns as they are, those with the largest inputs first, or grouped in that order too, which no checkpoint can hold [default "none"]

---@class tessera.options.quantise_model
---@field model string Folder with safetensors and config.json
---@field out string Folder to write; it appears complete or not at all
---@field plan? tessera.Plan|table Plan whose bitwidths the layers get
---@field bitwidths? integer|integer[] In place of a plan: one of 3, 4, 8, 16 for all layers, or a list of one for each
---@field method? "rtn"|"gptq"|"awq"|"smoothquant" rtn; gptq, awq: with statistics; smoothquant: W8A8, with statistics [default "rtn"]
---@field statistics? string Calibration file (tessera man statistics)
---@field overwrite? boolean Whether an earlier result in `out` may go once the new one is complete [default false]
---@field progress? fun(done: integer, total: integer, layer_index: integer)|false Called after each matrix; false for silence. Default: a bar on a terminal
---@field symmetric? boolean Whether 0 lies in the middle of the codes [default true]
---@field granularity? "tensor"|"channel"|"group" Which weights share a scale: all, an output channel's, or a group of these [default "group"]
---@field group_size? integer Input channels that share a scale, with granularity group (an integer in [1, 1048576]) [default 128]
---@field rounding? "deterministic"|"stochastic" To the nearest code, or up with the probability of the fraction [default "deterministic"]
---@field seed? integer Seed of stochastic rounding (an integer in [0, 9.0072e+15]) [default 0]
---@field act_order? "none"|"weight"|"group" Of gptq: columns as they are, those with the largest inputs first, or grouped in that order too, which no checkpoint can hold [default "none"]

---@class tessera.options.read_profile_data
---@field format? "tessera"|"aiconfigurator"|"vidur"|"helix"|"llmpq" Whose table it is; default: by its header
---@field device? string Device that was measured, where the file does not say or says it otherwise
---@field kernel_set? string Kernels that were measured; default: the file's, modern (aiconfigurator), vllm (Vidur, Helix), or LLM-PQ's of the row's date
---@field model? string Model whose layers were measured, where the file does not say
---@field kinds? string[] Of a table with a column `kind`: the rows to take [default { "measured" }]
---@field warn? boolean Count rows that were left out on stderr [default true]

---@class tessera.options.replan
---@field tolerance? number How far above the best objective the plan may be, as a ratio (a number in [0, 100]) [default 0.01]
---@field source_bytes_per_s? number What a node reads of weights that lie outside the GPUs (a disk, a file server), where the cluster does not say disk_bytes_per_s; without either 2 GB/s, and transfer_assumes says so (a number in [1000, 1e+15] (bytes/s))
---@field lost? integer[] device_index of stages whose devices are gone, where type and node do not say which (a list, each item an integer)
---@field time_limit_s? number Of both searches together (a number in [0, 1000000] (s)) [default 60]

---@class tessera.options.results
---@field db? string File of results; default: that of --results, or results.db
---@field seed? integer To remember with the rows (an integer in [-9.0072e+15, 9.0072e+15]) [default 0]
---@field continue? "same_script"|"always"|"never" Whether add goes on with the newest run: where the script has not changed since, always, or never [default "same_script"]

---@class tessera.options.sampling.draw
---@field logits number[] Of every token; -math.huge for one that may not follow
---@field text? integer[] Tokens so far (ids from 0), for the repetition penalty (a list, each item an integer in [0, 2147483647])
---@field temperature? number Logits are divided by it; 0: always the most likely token (a number in [0, 1000000]) [default 1]
---@field top_k? integer Only so many of the most likely tokens, and those as likely as the last of them; 0: all (an integer in [0, 1000000000]) [default 0]
---@field top_p? number Only the most likely tokens that have this probability together; at least one (a number in [0, 1]) [default 1]
---@field repetition_penalty? number Logits of tokens that are in the text are divided by it, negative ones multiplied; 1: none (a number in [0.01, 100]) [default 1]
---@field seed? integer Of the draws; the same seed gives the same text, on any number of threads (an integer in [0, 9.0072e+15]) [default 0]
---@field num_draws? integer Tokens to draw (an integer in [1, 10000000]) [default 1]

---@class tessera.options.sampling.probabilities
---@field logits number[] Of every token; -math.huge for one that may not follow
---@field text? integer[] Tokens so far (ids from 0), for the repetition penalty (a list, each item an integer in [0, 2147483647])
---@field temperature? number Logits are divided by it; 0: always the most likely token (a number in [0, 1000000]) [default 1]
---@field top_k? integer Only so many of the most likely tokens, and those as likely as the last of them; 0: all (an integer in [0, 1000000000]) [default 0]
---@field top_p? number Only the most likely tokens that have this probability together; at least one (a number in [0, 1]) [default 1]
---@field repetition_penalty? number Logits of tokens that are in the text are divided by it, negative ones multiplied; 1: none (a number in [0.01, 100]) [default 1]
---@field seed? integer Of the draws; the same seed gives the same text, on any number of threads (an integer in [0, 9.0072e+15]) [default 0]

---@class tessera.options.serve
---@field slo? table Limits on ttft_s, tpot_s, e2e_s of each request, or on a statistic of all, { p99 = 2 }; a list of such: by slo_class
---@field seed? integer Of accepted drafts (an integer in [0, 9.0072e+15]) [default 0]
---@field record? boolean Keep every step, for :steps() and the trace; left out: of runs of up to 4 million tokens
---@field skip? boolean Take stretches of decode steps at once, where steps are not kept; the results are the same [default true]
---@field horizon_s? number What is not done by then stays unfinished (a number in [0, 9000000] (s)) [default 9e6]
---@field warm_up_s? number Requests sent in the first seconds are not counted (a number in [0, 1000000000] (s)) [default 0]
---@field cool_down_s? number Nor those sent in the last (a number in [0, 1000000000] (s)) [default 0]
---@field warm_up_requests? integer The same by number (an integer in [0, 1000000000] (requests)) [default 0]
---@field cool_down_requests? integer The same by number (an integer in [0, 1000000000] (requests)) [default 0]

---@class tessera.options.simulate
---@field record? boolean Keep the busy intervals, for save_trace [default true]
---@field micro_batches? "real"|"full" real: 32 in at most 6 takes the times of 6, 6, 5, 5, 5, 5; full: of six times 6, as the objective prices them [default "real"]
---@field lengths? "auto"|"means"|"distribution" distribution: batches of the workload's own requests; means: one batch in which all have the mean lengths, as planners price it; auto: distribution where the workload has one and the plan no replicas [default "auto"]
---@field batching? "padded"|"ragged" padded: prompts to the batch's longest, rows kept until the last output of their micro-batch, as LLM-PQ's runtime does; ragged: own prompts, rows given up [default "padded"]
---@field arrivals? "all_at_once"|"trace" all_at_once: a batch is there when it starts, drawn by seed; trace: the first requests of the trace, each from when it came [default "all_at_once"]
---@field num_batches? integer Batches of a distribution, one after another (an integer in [1, 100000]) [default 16]
---@field seed? integer Which requests are drawn (an integer in [0, 9.0072e+15]) [default 0]

---@class tessera.options.size
---@field model tessera.Model|string|table Model, or its name
---@field workload tessera.Workload|string|table Workload, or its name
---@field devices table What may be bought: { "T4-16G", { "A100-40G", 4 } }, at most 4 of the latter
---@field target { latency_s: number?, throughput_tok_s: number? } { throughput_tok_s = } or { latency_s = } of the whole batch, or both
---@field quality? table As for ts.problem, but for baselines; default: 4 bits throughout, max_omega = 1
---@field max_devices? integer In all (an integer in [1, 64]) [default 8]
---@field devices_per_node? integer Devices of a type on one node; default: all of them (an integer in [1, 64])
---@field link_gbps? number Network between nodes (a number in [0.001, 1000000] (Gb/s)) [default 100]
---@field prices? table<string, number> By device, over those of the device files
---@field bitwidths? integer[] As for ts.problem (a list, each item an integer (bits))
---@field indicator? tessera.Indicator|string|table As for ts.problem
---@field kernel_set? string As for ts.problem
---@field memory? string As for ts.problem
---@field kv_bitwidth? integer Of the KV cache; default: 16 (an integer in [2, 16] (bits))
---@field time_limit_s? number Of all solves together (a number in [0, 1000000] (s)) [default 60]

---@class tessera.options.speculative.accepted_drafts
---@field acceptance number|number[] Rate of each draft whose predecessors passed; or a list, cumulative by position: the share of steps that accept this draft and all before it
---@field num_tokens integer Drafted in a step (tokens) (an integer in [0, 10000] (tokens))
---@field num_requests? integer Requests (an integer in [1, 100000000]) [default 1]
---@field num_steps? integer Steps of each (an integer in [1, 100000000]) [default 1]
---@field seed? integer Of the draws (an integer in [0, 9.0072e+15]) [default 0]

---@class tessera.options.speculative.break_even_batch
---@field acceptance number|number[] Rate of each draft whose predecessors passed; or a list, cumulative by position: the share of steps that accept this draft and all before it
---@field num_tokens integer Drafted in a step (tokens) (an integer in [0, 10000] (tokens))
---@field base_s number Of a step, whatever is in it (s) (a number in [0, 1000000] (s))
---@field per_token_s number Of a step, for each token in it (s) (a number in [0, 1000000] (s))
---@field draft_base_s? number Of drafting one token for a batch (s) (a number in [0, 1000000] (s)) [default 0]
---@field draft_per_sequence_s? number Of drafting one token, for each request (s) (a number in [0, 1000000] (s)) [default 0]
---@field batch_size? number Requests at once, for the speed-up (a number in [1e-06, 1000000000] (requests))

---@class tessera.options.speculative.expected_tokens
---@field acceptance number|number[] Rate of each draft whose predecessors passed; or a list, cumulative by position: the share of steps that accept this draft and all before it
---@field num_tokens integer Drafted in a step (tokens) (an integer in [0, 10000] (tokens))

---@class tessera.options.speculative.prompt_lookup
---@field tokens integer[] The text: prompt and output so far (ids from 0) (a list, each item an integer in [0, 2147483647])
---@field prompt_lookup_min integer Shortest n-gram (tokens) (an integer in [1, 1000000000] (tokens))
---@field prompt_lookup_max integer Longest n-gram (tokens) (an integer in [1, 1000000000] (tokens))
---@field num_tokens integer Most drafts (tokens) (an integer in [1, 1000000000] (tokens))

---@class tessera.options.speculative.rule
---@field q number[] Probabilities by the draft model; token 0 comes first
---@field p number[] By the target model

---@class tessera.options.speculative.verify
---@field p number[][] Probabilities by the target model: a row for each draft and one for the token after them; token 0 comes first
---@field q? number[][] By the draft model, a row for each draft; left out: the drafts were certain, as n-grams are
---@field drafts? integer[] Drafted tokens (ids from 0); left out: drawn by q, anew for every step (a list, each item an integer in [0, 2147483647])
---@field greedy? boolean Temperature 0: a draft passes where it is the most likely token of p, which may be logits then [default false]
---@field seed? integer Of the draws (an integer in [0, 9.0072e+15]) [default 0]
---@field num_draws? integer Steps to take, for counts instead of one step (an integer in [1, 100000000])

---@class tessera.options.tensor
---@field shape integer[] Sizes, slowest first: { rows, columns } (a list, each item an integer in [0, 9.0072e+15])
---@field data number[] The numbers, row by row; kept as f32
---@field name? string What messages call it [default "tensor"]

---@class tessera.options.tokenizer
---@field path string Folder with tokenizer.json or tokenizer.model, one of these, or a GGUF file

---@class tessera.options.traffic
---@field rate_per_s? number Requests per second; math.huge: all at once, as vLLM's benchmark has it. Sessions and groups of n come as often as makes this rate of requests. Of a trace: its gaps are divided so that this is its rate (a number >= 0 (1/s))
---@field arrivals? "poisson"|"gamma"|"constant"|"closed" Open loop: independent of the answers (poisson, gamma, constant gaps); closed: a request is sent when one ends, with `concurrency` under way [default "poisson"]
---@field burstiness? number Shape of gamma gaps, as in vLLM's benchmark: 1 is Poisson, less is burstier (a number in [0.0001, 1000000])
---@field cv? number The same as standard deviation by mean of gaps: burstiness is 1 / cv^2 (a number in [0.001, 100])
---@field prompt_tokens? integer|table Prompt length: a number, or { distribution = "fixed" | "uniform" | "lognormal" | "exponential" | "geometric", mean =, cv =, min =, max = }; shared prefixes and earlier turns come on top [default 512]
---@field output_tokens? integer|table Tokens that a request generates, likewise; no scheduler sees it [default 128]
---@field num_requests? integer Requests in all; of a trace the first so many; default: 1000 without duration_s and files, else all (an integer in [1, 10000000])
---@field duration_s? number How long requests arrive, instead of num_requests; of a trace: the length of the window, before any change of rate (a number in [1e-09, 9000000] (s))
---@field seed? integer The same seed gives the same requests (an integer in [0, 9.0072e+15]) [default 0]
---@field concurrency? integer Requests under way in a closed loop (an integer in [1, 1000000])
---@field exact_rate? boolean Stretches the gaps so that the last arrival is at num_requests / rate_per_s, as vLLM's benchmark does; the count in a given time varies less then [default false]
---@field n? integer Parallel sampling: so many requests of the same prompt come together, each with an output length of its own (of a file of lengths the same) (an integer in [1, 1024]) [default 1]
---@field max_tokens? integer Limit of the output, which schedulers may see; longer outputs end there; default: the output itself (an integer in [1, 100000000] (tokens))
---@field classes? table[] Shares of the arrivals with priorities and SLO classes: { { share =, priority =, slo_class = }, ... }; a session is of one class
---@field prefix_groups? integer Different prefixes that prompts share (an integer in [1, 1000000])
---@field prefix_tokens? integer Length of a shared prefix, before the prompt's own prompt_tokens (an integer in [1, 100000000] (tokens))
---@field prefix_share? number Share of arrivals that begin with a shared prefix (a number in [0, 1]) [default 1]
---@field prefix_zipf? number Exponent s of the groups' popularity, the k-th having a share of k^-s; 0: all alike (a number in [0, 10]) [default 0]
---@field sessions? table Conversations: { turns = (a number or a distribution), think_s =, system_prompt_tokens = }; a turn's prompt is all before it and prompt_tokens new ones
---@field lengths? string CSV of prompt and output lengths, in place of prompt_tokens and output_tokens: pairs are drawn from it with the seed
---@field in_order? boolean Takes the pairs of `lengths` as they stand in the file, from the start again after the last [default false]
---@field trace? string CSV of requests with arrivals: arrival_s, prompt_tokens, output_tokens and optional prefix_group, prefix_tokens, priority, slo_class, max_tokens, session, after; Azure's, Vidur's and Mooncake's columns too; or rates over time as ServeGen's, t_s, rate_per_s and category
---@field category? string Which rates of a file of rates
---@field rate_scale? number Divides all gaps of a trace, which keeps their CV, not bursts in seconds; multiplies the rates of a file of rates (a number in [1e-06, 1000000])
---@field thin? number Share of a trace's requests to keep, whole sessions where it has any (a number in [1e-09, 1])
---@field start_s? number Start of the window of a trace (a number in [0, 9000000] (s))
---@field sort? boolean Sorts a trace by arrival; an unsorted one is refused otherwise [default false]

---@class tessera.options.train_language_model
---@field tokens integer[]|fun(): integer[]? The text as ids from 0, of which windows are taken in random order; or a function that gives it a piece at a time, then nil
---@field held_out_tokens? integer[]|fun(): integer[]? Another text, for the loss of what was written
---@field out string Folder to write, which is not there yet
---@field initial? string Folder of a model of the same shape to go on from. Default: from nothing
---@field num_layers integer Decoder layers (an integer in [1, 1000])
---@field hidden_size integer Width, a multiple of num_heads (an integer in [1, 16384])
---@field num_heads integer Attention heads (an integer in [1, 16384])
---@field ffn_size integer Width of the feed-forward part (an integer in [1, 65536])
---@field vocab_size integer Tokens of the tokenizer (an integer in [2, 1048576])
---@field max_context_tokens integer Context, and length of the windows that it is trained on (an integer in [2, 16384] (tokens))
---@field seed? integer Of the initial weights, the order and the outliers (an integer in [0, 9.0072e+15]) [default 0]
---@field num_steps integer Steps of the optimiser (an integer in [1, 1073741824])
---@field batch_size integer Windows per step, a multiple of threads (an integer in [1, 65536])
---@field peak_learning_rate? number Between warm-up and decay (a number in [0, 10]) [default 0.002]
---@field warmup_steps? integer The first ones: the rate grows linearly (an integer in [0, 1073741824]) [default 100]
---@field decay_steps? integer The last ones: the rate falls by half a cosine. Default: all after warm-up (an integer in [0, 1073741824])
---@field final_learning_rate_ratio? number Of the peak, at the end (a number in [0, 1]) [default 0]
---@field weight_decay? number Of matrices; not of embeddings, biases and LayerNorm (a number in [0, 10]) [default 0.05]
---@field max_gradient_norm? number What is longer is scaled to it (a number in [1e-09, 1000000000]) [default 1]
---@field threads? integer Each computes the gradient of its share of the batch (an integer in [1, 1024]) [default 1]
---@field bf16_products? boolean Whether to multiply in bf16: a third less time on processors with AVX512_BF16 or AMX, far more on others [default false]
---@field outlier_channels? integer Outliers behind every LayerNorm, the same channels in all layers (an integer in [0, 16384]) [default 0]
---@field outlier_scale? number What their gain grows by; a power of two loses no bit (a number in [1, 1024]) [default 1]
---@field outlier_shift? number What is added to them in the last layer, with either sign in turn; of L layers layer l (from 0) gets (l + 1) / L of it (a number in [0, 1024]) [default 0]
---@field report_every? integer Steps between two calls of progress (an integer in [1, 1073741824]) [default 50]
---@field progress? fun(progress: table): boolean? Called with { step, loss_nats, learning_rate, gradient_norm, elapsed_s, tok_s }; false ends training

---@class tessera.options.weights
---@field path string A .safetensors or .gguf file, or the folder that holds it

---@class tessera.options.workload
---@field name? string Name to refer to it by
---@field prompt_tokens? number Prompt length per request, the mean where lengths vary (a number in [1, 100000000] (tokens)) [default 512]
---@field output_tokens? number Generated tokens per request, the mean where lengths vary (a number in [1, 100000000] (tokens)) [default 100]
---@field batch_size? integer Requests served together (an integer in [1, 1000000] (requests)) [default 32]
---@field max_prompt_tokens? integer Longest prompt, for which memory is reserved; default: the mean, or the longest of lengths, whose longer requests are left out (an integer in [1, 100000000] (tokens))
---@field max_output_tokens? integer Longest output, for which memory is reserved; default: as for prompts (an integer in [1, 100000000] (tokens))
---@field chunk_tokens? integer Chunked prefill: tokens of a prompt per pass (an integer in [1, 100000000] (tokens))
---@field lengths? string CSV file of requests (Azure's, Vidur's and ShareGPT's columns, or two lengths per line): planners use the means, ts.simulate the whole distribution and, where there are any, arrivals
---@field source? string Where the figures come from

--- What people run today on the plan's problem: vllm_even, the same at the plan's own mean bits (vllm_even_4bit), with tensor parallelism where devices of a node are alike (vllm_tp8, and at 8 bits vllm_tp8_fp8, _w8a8 or _8bit), memory_split, flops_split and best_homogeneous. Each is { planner, status, latency_s, throughput_tok_s, bits, omega, mean_bitwidth, speedup_equal_quality, speedup, note }; speedup_equal_quality is its latency over that of the fastest plan found that loses no more quality than it does (the search held to its omega, theta 0), speedup its latency over the plan's. Where one has no plan, status is infeasible or time_limit and note says why.
---@param plan tessera.Plan Any plan
---@param options? { time_limit_s: number } For all of them together; default 2
---@return table[]
function ts.beside(plan, options) end

--- Adapts a device from few measured points, GPUs that no table covers included: a profile, and the errors { before, after, donor }. Points without another of their kind (op, dtype, bitwidth, phase) are not in `after`.
---@param options tessera.options.calibrate
---@return tessera.Profile
function ts.calibrate(options) end

--- What to measure before ts.calibrate, in the order in which to measure it: the products (or the attention) of a list of candidates that leave the least doubt about all of them. Samples that lack only latency_s; the first ones of a longer list are a shorter list. Several dtypes share the points.
---@param options tessera.options.calibration_points
---@return table[]
function ts.calibration_points(options) end

--- The independent checker: structure, memory, kernels, quality floor and every printed number.
---@param plan tessera.Plan Any plan
---@return true?
---@return tessera.Error?
function ts.check(plan) end

--- Devices on nodes: a shipped name ("llmpq-3"), a file ("my.json"), a text ("3xT4-16G+1xV100-32G@100Gbps", also "3 x T4-16G, 1 x V100-32G" or a device alone: a node for each term; "(2xRTX-3090+1xRTX-4090)" is one node, "2x(4xA100-40G)" two, "4xA6000@bridges" has NVLink bridges), or entries { device, count, node = "a" }. Entries without a node get one each.
---@param options? tessera.options.cluster|string
---@return tessera.Cluster
function ts.cluster(options) end

--- Declares a collection of experiments. A script that returns it is swept by `tessera run`, which then writes one report.
---@param options tessera.options.collection
---@return tessera.Collection
function ts.collection(options) end

--- Predicts every sample by a model fitted without its fold: the samples with predicted_s and error_ratio. Folds are the samples' own field `fold`, or made from hold_out.
---@param options tessera.options.cross_validate
---@return table[]
function ts.cross_validate(options) end

--- Data sets of others that experiments, fits and tests read, each declared in datasets/data_sets: name, doc, origin, licence, read_by, without (what is left out where it is absent), folder, files, num_files, num_present, size_bytes, sha256 (over the sorted lines 'SHA-256  PATH' of its files) and state: present, absent, incomplete, changed (size, or with check SHA-256) or unreadable. A file has path, size_bytes, sha256, state, where there is more to say message, and with check found_sha256. Nothing is fetched.
---@param options? tessera.options.data_sets
---@return table[]
function ts.data_sets(options) end

--- Engines that serve together: of a plan, of a model on a cluster, or of step costs without a model.
---@param options? tessera.options.deployment
---@return tessera.Deployment
function ts.deployment(options) end

--- A GPU type: a name ("T4-16G"), a file, or its data-sheet figures.
---@param options? tessera.options.device|string
---@return tessera.Device
function ts.device(options) end

--- What the best plan would be without each type of device that the plan runs on (of a single type: with one fewer), and with one more of each type beside those that there are. Each is { change, status, latency_s, omega, latency_ratio, usd_per_h }: the latency over the plan's, and what the cluster would cost more, where prices are known. status is optimal or feasible; no_better where one more device gains less than least_gain; infeasible or time_limit where there is no plan.
---@param plan tessera.Plan Any plan of a cluster
---@param options? { time_limit_s: number, least_gain: number, problem: tessera.Problem } For all of them together, default 5 and 0.005; problem: the one that was planned, where more of it was open
---@return table[]
function ts.device_changes(plan, options) end

--- A serving engine: how it batches, and what it keeps in its KV cache.
---@param options? tessera.options.engine
---@return tessera.Engine
function ts.engine(options) end

--- Declares an experiment. A script that returns it is swept by `tessera run`.
---@param options tessera.options.experiment
---@return tessera.Experiment
function ts.experiment(options) end

--- Fits the models of a device to measured points, and says how well they predict what they have not seen.
---@param options tessera.options.fit_profile
---@return tessera.Profile
function ts.fit_profile(options) end

--- Every combination of the values, in order of the sorted keys, the last changing fastest.
---@param grid table<string, any[]> Lists of strings, numbers or booleans by key
---@return table[]
function ts.grid(grid) end

--- What `tessera help TOPIC` prints of the topics that Lua knows.
---@param topic string presets, planners, heuristics, moves, schedulers, routers, models, devices, clusters, workloads, kernel_sets, quality, omega or theta
---@return string?
function ts.help_topic(topic) end

--- The topics that ts.help_topic knows, each with one line.
---@return table<string, string>
function ts.help_topics() end

--- How many values lie between edges: rows with label, from, to, count and share, for ts.table and ts.plot.
---@param values number[] Whole numbers, none below the first edge
---@param edges number[] Ascending; a bucket begins at each, the last has no end
---@return table[]
function ts.histogram(values, edges) end

--- How much quality each layer loses at each bitwidth.
---@param options tessera.options.indicator|string
---@return tessera.Indicator
function ts.indicator(options) end

--- A model in memory that runs: each layer at its bitwidth, logits, texts, perplexity (tessera man language_models).
---@param options tessera.options.language_model|string
---@return tessera.LanguageModel
function ts.language_model(options) end

--- Reads a folder that plan:export or the export of ts.plan_serving's list wrote: { plan, plans, runtime, runtime_version, engines = { { words, options, variables } } }, where plans are one for each kind of engines, options are the flags of the command that serves and variables what its script exports. Nil and why (why.code mismatch) where a script says another parallelism, split, KV type or batch than the plan beside it.
---@param folder string That plan:export wrote
---@return table?
---@return tessera.Error?
function ts.load_launch(folder) end

--- Reads a plan that plan:save wrote.
---@param path string File
---@return tessera.Plan
function ts.load_plan(path) end

--- The largest batch for which any plan fits the devices and keeps the quality floor, and the best plan for it. Exact: memory grows with the batch, so feasibility is bisected, each answer proven. A floor that names a baseline is that of the problem's own batch. Or nil and why: infeasible, time_limit.
---@param problem tessera.Problem Of a model, not of an instance file, whose batch is fixed
---@param options? tessera.options.max_batch
---@return integer?
---@return tessera.Plan|tessera.Error
function ts.max_batch(problem, options) end

--- The largest rate at which traffic is served within an SLO.
---@param deployment tessera.Deployment Engines, of ts.deployment
---@param traffic tessera.Traffic|table Requests, or the options of ts.traffic
---@param options tessera.options.max_rate
---@return tessera.MaxRate
function ts.max_rate(deployment, traffic, options) end

--- A decoder-only architecture: a path (a config.json, the folder that holds it, a .gguf or .safetensors file), a shipped name ("opt-30b"), the Hugging Face id of one that ships, or sizes. A path that exists wins over a name.
---@param options? tessera.options.model|string
---@return tessera.Model
function ts.model(options) end

--- Cells of a published table: a CSV file below datasets/papers, or papers in TESSERA_PATH.
---@param name string "llmpq/table4.csv"
---@return { source: string, keys: string[], columns: string[], rows: table[], points: table[] }
function ts.paper(name) end

--- Plans of which none is better in latency, quality and price at once, sorted by latency. Every subset of the cluster's devices is a candidate; no plan on any of them dominates a point, which exact solves prove. Points have latency_s, throughput_tok_s, omega, mean_bitwidth, price_usd_per_h, usd_per_million_tokens, devices and plan; ts.table prints them. Second result: complete (the front holds every point), stopped, solves, subsets. Or nil and why.
---@param problem tessera.Problem Its theta does not matter; its quality floor holds
---@param options? tessera.options.pareto
---@return table[]?
---@return table
function ts.pareto(problem, options) end

--- Writes a picture: of a plan its pipeline, with layers by bitwidth, memory by component and stage times, replicas below one another; of a served run what waited and ran, used blocks and tokens per second over time.
---@param thing tessera.Plan|tessera.Served Any plan, or what ts.serve gave
---@param path string File to write: PNG or PDF where it ends in .png or .pdf (made by rsvg-convert), else SVG
function ts.picture(thing, path) end

--- Plans a problem. What is not given is searched.
---@param problem tessera.Problem What is to be planned
---@param options? tessera.options.plan
---@return tessera.Plan?
---@return tessera.Error?
function ts.plan(problem, options) end

--- The deployments of a model on a cluster that serve traffic within an SLO, the best first: how many engines, of which devices, tensor parallelism, stages, bitwidths, KV cache, limits on requests and tokens, prefill and decode in one engine or in pools of their own. A list of tables with rate_per_s (the largest that held), scope (what was simulated: whole, one engine of many, or half: half the requests, by the smallest set in the ratio of the pools), tok_s_per_gpu, tok_s_per_user, ttft_p99_s, tpot_p99_s, gpus, engines, layout, parts (role, device, engines, tensor_parallel, pipeline_parallel, bitwidth, kv_bitwidth, engine of each kind), bitwidth and kv_bitwidth (the least of the parts), quality (of the worst part), usd_per_h, usd_per_million_tokens, limited_by and deployment; :frontier() gives tokens per user against tokens per GPU, :export(kind, folder) writes what starts one. Or nil and why (infeasible), with the reason for each kind of engine in why.reasons.
---@param options tessera.options.plan_serving
---@return tessera.ServingPlans?
---@return tessera.Error?
function ts.plan_serving(options) end

--- Cards of all planners and heuristics, sorted by name.
---@return table[]
function ts.planners() end

--- A picture of rows: print shows it in the terminal; :save "x.svg", "x.pdf", "x.png" (both by rsvg-convert), "x.tex" (pgfplots) or "x.txt" writes it; :svg() and :text() give it as a string. A column is looked up in the row, then in its point. Rows without a number are shown as such, with their status.
---@param options tessera.options.plot
---@return tessera.Plot
function ts.plot(options) end

--- What is to be planned: a model on a cluster under a workload, or an abstract instance file.
---@param options? tessera.options.problem
---@return tessera.Problem
function ts.problem(options) end

--- What is known about the speed of a device under a kernel set: fitted models with their held-out errors, the roofline where nothing was measured.
---@param options? tessera.options.profile
---@return tessera.Profile
function ts.profile(options) end

--- What the quality penalty omega is worth in divergence and perplexity, from plans of one model that were measured: one scale, and its spread. Give points or file; at least 3 points, of one model, text, indicator and settings.
---@param options? tessera.options.quality_map
---@return tessera.QualityMap
function ts.quality_map(options) end

--- The codes of one weight matrix, and the error they make.
---@param options tessera.options.quantise
---@return tessera.Quantised
function ts.quantise(options) end

--- Writes a quantised copy of a model that vLLM and transformers load (compressed-tensors).
---@param options tessera.options.quantise_model
---@return tessera.QuantisedModel
function ts.quantise_model(options) end

--- Measured latencies from a CSV file: samples for ts.fit_profile and ts.calibrate, and { format, num_repeats, num_skipped, skipped[k] = { reason, count, first_line } } of the rows that were left out, which are also counted on stderr.
---@param path string CSV file
---@param options? tessera.options.read_profile_data
---@return table[]
function ts.read_profile_data(path, options) end

--- Adds a heuristic written in Lua: it improves a plan that fits, by moves. Its name then works as `planner =`, alone or in a chain { "adabits", name }. An error in improve is raised by ts.plan, unless its on_error is "continue"; one that is cut short leaves the best plan so far, which says so in stopped_by.
---@param card tessera.HeuristicCard name, doc, source, options, improve = function(search, opt), starts = "one" (adabits' plan) or "every" (that of every order of device types and pair of micro-batch sizes; the best answer counts)
---@return tessera.HeuristicCard
function ts.register_heuristic(card) end

--- Adds a planner written in Lua; its name then works as `planner =`. One of the same name that was added before is replaced.
---@param card tessera.PlannerCard name, doc, source, plan = function(problem, opt), options = { [name] = { type =, default =, min =, max =, doc = } }
---@return tessera.PlannerCard
function ts.register_planner(card) end

--- Adds a router written in Lua; its name then works as `router =` of ts.deployment. One of the same name that was added before is replaced.
---@param card tessera.RouterCard name, doc, choose = function(replicas, request), prefixes
---@return tessera.RouterCard
function ts.register_router(card) end

--- Adds a scheduler written in Lua; its name then works as `scheduler =` of ts.engine. One of the same name that was added before is replaced.
---@param card tessera.SchedulerCard name, doc, schedule = function(view, opt), options, every_step
---@return tessera.SchedulerCard
function ts.register_scheduler(card) end

--- A plan for a changed cluster, within a tolerance of the best one, that loads few weights anew. A layer stays where its device held it at its bitwidth; devices are the same where type and node are; new ones may stay idle. The best objective is proven by the exact planner; the moves are searched: never more than the best plan needs, and least where moved_bytes = least_moved_bytes, a bound. Second result: moved_bytes, kept_bytes, moved_layers, least_moved_bytes, transfer_s, transfer_assumes (nil where nothing had to be), requantised_layers, optimum (a plan), optimum_moved_bytes, stopped. Or nil and why. transfer_s is the longest that a device, a node's disk or its network is busy: a layer comes from a device that holds it at its bitwidth, over the slower of PCIe and the link between them, or from the disk of its node, over the slower of PCIe and that; whichever is faster. Nothing is quantised meanwhile: weights at a bitwidth that no device held (requantised_layers) are taken to lie on the disk.
---@param plan tessera.Plan The plan that runs now
---@param cluster tessera.Cluster|string|table|tessera.Problem What is there now; a problem for plans of instances
---@param options? tessera.options.replan
---@return tessera.Plan?
---@return table|tessera.Error
function ts.replan(plan, cluster, options) end

--- Stored rows of an experiment. A script that sweeps by itself asks has(point) and calls add(point, row): what it has done is kept, with the script's hash, commit, seed and machine, however it ends. Methods: has(point), add(point, row), rows{ key = value or {values}, run =, status =, meta = }, runs(), count(), diff(run, file or other).
---@param name string Of the experiment
---@param options? tessera.options.results
---@return tessera.Results
function ts.results(name, options) end

--- Cards of all routers, sorted by name: name, doc, source.
---@return table[]
function ts.routers() end

ts.sampling = {}

--- Draws tokens by these probabilities, each as the next step of one text: the tokens (ids from 0), and how often each token came.
---@param options tessera.options.sampling.draw
---@return integer[]
---@return integer[]
function ts.sampling.draw(options) end

--- The probability of every token as lm:generate draws it: logits through the repetition penalty, temperature, top_k and top_p, in this order. Token 0 comes first.
---@param options tessera.options.sampling.probabilities
---@return number[]
function ts.sampling.probabilities(options) end

--- Cards of all schedulers, sorted by name: name, doc, source.
---@return table[]
function ts.schedulers() end

--- Serves traffic on a deployment, step by step in simulated time.
---@param deployment tessera.Deployment Engines, of ts.deployment
---@param traffic tessera.Traffic|table Requests, or the options of ts.traffic
---@param options? tessera.options.serve
---@return tessera.Served
function ts.serve(deployment, traffic, options) end

--- Runs a plan's pipeline event by event: micro-batches, chunks, token rounds, links.
---@param plan tessera.Plan Any plan
---@param options? tessera.options.simulate
---@return tessera.Run
function ts.simulate(plan, options) end

--- The cheapest mix and the smallest number of GPUs whose best plan meets a target. Proven: every cheaper, or smaller, mix was refused by a bound or by an exact solve. { cheapest, fewest, tried, refused_by_bound, refused_by_solve, mixes }; cheapest and fewest have cluster, plan, price_usd_per_h, num_devices and devices. Or nil and why: infeasible, or time_limit with what was found so far in why.best.
---@param options tessera.options.size
---@return table?
---@return tessera.Error?
function ts.size(options) end

ts.speculative = {}

--- How many drafts the simulator lets pass, over requests and their steps: counts, of no draft first. What a step accepts depends on seed, request and step alone.
---@param options tessera.options.speculative.accepted_drafts
---@return integer[]
function ts.speculative.accepted_drafts(options) end

--- Batch size up to which speculation yields more tokens per second than none, 0 where it never does, math.huge where it always does; with batch_size also the speed-up there. A step takes base_s + per_token_s x tokens, drafting a token draft_base_s + draft_per_sequence_s x batch.
---@param options tessera.options.speculative.break_even_batch
---@return number
---@return number?
function ts.speculative.break_even_batch(options) end

--- Tokens that a step yields on average, the residual or bonus token included: 1 + the sum of the cumulative rates, (1 - a^(g+1)) / (1 - a) for one rate a and g drafts. The rates are the second result.
---@param options tessera.options.speculative.expected_tokens
---@return number
---@return number[]
function ts.speculative.expected_tokens(options) end

--- Drafts from the text itself: the tokens that follow the earliest place of the longest n-gram that also ends the text. Empty where there is none.
---@param options tessera.options.speculative.prompt_lookup
---@return integer[]
function ts.speculative.prompt_lookup(options) end

--- What the rule makes of one pair of distributions, exactly: { acceptance, acceptance_rate, residual, output }. acceptance: min(1, p/q) of each token, 0 where q never drafts it; residual: what a rejection draws from, absent where there are none; output: the distribution that comes out.
---@param options tessera.options.speculative.rule
---@return table
function ts.speculative.rule(options) end

--- Verifies drafts against the target model's probabilities by the rule that engines use (Leviathan et al., 2022). One step: { tokens, drafts, num_accepted }. With num_draws: { num_draws, tokens_per_step, accepted, counts }, the steps that accepted the i-th draft, and counts[i][t + 1] of token t as the i-th that came out.
---@param options tessera.options.speculative.verify
---@return table
function ts.speculative.verify(options) end

--- Rows as aligned text, numbers to four digits, missing values as "-".
---@param rows table[] One table per line
---@param options? { columns: string[] } Keys to show, in order; default: those of all rows, sorted
---@return string
function ts.table(rows, options) end

--- Numbers of your own, as ts.quantise takes them.
---@param options tessera.options.tensor
---@return tessera.Tensor
function ts.tensor(options) end

--- Text to tokens and back, without a model's weights.
---@param options tessera.options.tokenizer|string
---@return tessera.Tokenizer
function ts.tokenizer(options) end

--- The requests of a served run: when they come, how long they are, what they share.
---@param options? tessera.options.traffic
---@return tessera.Traffic
function ts.traffic(options) end

--- Trains a decoder of OPT's architecture and writes it as Hugging Face's OPTForCausalLM in f16. Outliers change its parameters after that, and not its function.
---@param options tessera.options.train_language_model
---@return tessera.Training
function ts.train_language_model(options) end

--- The weights of a model on disk, mapped and not copied: safetensors (one file, sharded with an index, or a folder of them) or GGUF.
---@param options tessera.options.weights|string
---@return tessera.Weights
function ts.weights(options) end

--- One batch of requests: lengths per request and how many at once.
---@param options? tessera.options.workload|string
---@return tessera.Workload
function ts.workload(options) end

return ts
