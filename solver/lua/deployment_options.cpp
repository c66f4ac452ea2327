// Options of ts.deployment and of what it consists of.

#include "deployment_lua.h"

namespace tessera::solver_lua {
namespace {

std::vector<OptionSpec> pool_options() {
  return {
      {.name = "plan",
       .type = OptionType::table,
       .doc = "A plan, each of its replicas an engine; instead of model and cluster",
       .lua_type = "tessera.Plan"},
      {.name = "model",
       .type = OptionType::table,
       .doc = "Model, or its name",
       .lua_type = "tessera.Model|string|table"},
      {.name = "cluster",
       .type = OptionType::table,
       .doc = "Cluster, or its name",
       .lua_type = "tessera.Cluster|string|table"},
      {.name = "tensor_parallel",
       .type = OptionType::integer,
       .doc = "Devices that share each layer",
       .default_text = "1",
       .min = 1,
       .max = 64},
      {.name = "pipeline_parallel",
       .type = OptionType::integer,
       .doc = "Stages, layers spread over them as vLLM does",
       .default_text = "1",
       .min = 1,
       .max = 4096},
      {.name = "replicas",
       .type = OptionType::integer,
       .doc = "Engines; left out: as many as there are devices for, without a model 1",
       .min = 1,
       .max = 100000},
      {.name = "bitwidths",
       .type = OptionType::integer_list,
       .doc = "Of all layers, or one per layer",
       .unit = "bits",
       .default_text = "{16}",
       .min = 1,
       .max = 16},
      {.name = "kv_bitwidth",
       .type = OptionType::integer,
       .doc = "Of the KV cache",
       .unit = "bits",
       .default_text = "16",
       .min = 2,
       .max = 16},
      {.name = "kernel_set",
       .type = OptionType::text,
       .doc = "Kernels that run the layers",
       .default_text = "\"auto\""},
      {.name = "host_step_s",
       .type = OptionType::number,
       .doc = "Time of the host per step, as measured on a machine; left out: the kernel set's",
       .unit = "s",
       .min = 0,
       .max = 100},
      {.name = "host_sequence_s",
       .type = OptionType::number,
       .doc = "Time of the host per step and request in it, likewise",
       .unit = "s",
       .min = 0,
       .max = 100},
      {.name = "host_prompt_s",
       .type = OptionType::number,
       .doc = "Time of the host on top of a step that reads prompts, likewise",
       .unit = "s",
       .min = 0,
       .max = 100},
      {.name = "engine",
       .type = OptionType::table,
       .doc = "Engine, or a table of its options",
       .lua_type = "tessera.Engine|table"},
      {.name = "step_cost",
       .type = OptionType::table,
       .doc = "Time of a step without a model: { base_s =, per_token_s =, per_sequence_s =, "
              "per_context_token_s = }, or a function of a table of what the step computes",
       .lua_type = "table|fun(step: table): number"},
      {.name = "kv_blocks",
       .type = OptionType::integer,
       .doc = "Blocks of each engine's KV cache; left out: the engine's, what the memory holds, or "
              "without a model as many as the traffic can use",
       .unit = "blocks",
       .min = 1,
       .max = 1e9},
      {.name = "kv_bytes_per_token",
       .type = OptionType::number,
       .doc = "Without a model, for transfers and swapping",
       .unit = "bytes",
       .min = 0,
       .max = 1e12},
      {.name = "usd_per_h",
       .type = OptionType::number,
       .doc = "Price of an engine; left out: its devices' list price",
       .unit = "USD/h",
       .min = 0,
       .max = 1e9},
      {.name = "idle_w",
       .type = OptionType::number,
       .doc = "Power of an engine that waits",
       .unit = "W",
       .min = 0,
       .max = 1e9},
      {.name = "busy_w",
       .type = OptionType::number,
       .doc = "Power of an engine that computes",
       .unit = "W",
       .min = 0,
       .max = 1e9},
  };
}

}  // namespace

const OptionTable& one_pool_options() {
  static const OptionTable table = [] {
    OptionTable t{"ts.deployment.pool",
                  "Engines of one role; what is left out is the deployment's.", "table",
                  pool_options()};
    t.options.insert(t.options.begin(), {.name = "role",
                                         .type = OptionType::choice,
                                         .doc = "What they do",
                                         .choices = {"mixed", "prefill", "decode"},
                                         .required = true});
    return t;
  }();
  return table;
}

const OptionTable& transfer_options() {
  static const OptionTable table{
      "ts.deployment.transfer",
      "How keys and values go from prefill to decode engines.",
      "table",
      {{.name = "bytes_per_s",
        .type = OptionType::number,
        .doc = "Rate of each sender; 0: no time",
        .unit = "bytes/s",
        .default_text = "0",
        .min = 0,
        .max = 1e15},
       {.name = "link_gbps",
        .type = OptionType::number,
        .doc = "The same in Gb/s",
        .unit = "Gb/s",
        .min = 1e-6,
        .max = 1e7},
       {.name = "latency_s",
        .type = OptionType::number,
        .doc = "Of a hand-over",
        .unit = "s",
        .default_text = "0",
        .min = 0,
        .max = 1e4},
       {.name = "per_layer",
        .type = OptionType::boolean,
        .doc = "Each layer goes as soon as it is computed; only the last one's time shows",
        .default_text = "false"}}};
  return table;
}

const OptionTable& deployment_options() {
  static const OptionTable table = [] {
    OptionTable t{"ts.deployment",
                  "Engines that serve together: of a plan, of a model on a cluster, or of step "
                  "costs without a model.",
                  "tessera.Deployment", pool_options()};
    t.options.push_back(
        {.name = "draft",
         .type = OptionType::table,
         .doc = "Plan of the model that drafts, for speculative.method = \"draft_model\"",
         .lua_type = "tessera.Plan"});
    t.options.push_back(
        {.name = "router",
         .type = OptionType::table,
         .doc = "Name of the rule that chooses an engine, or a table of its options",
         .default_text = "\"round_robin\"",
         .lua_type = "string|table"});
    t.options.push_back({.name = "pools",
                         .type = OptionType::table,
                         .doc = "Pools of engines with a role each: { role = \"prefill\", ... }, "
                                "{ role = \"decode\", ... }",
                         .lua_type = "table[]"});
    t.options.push_back({.name = "api_s",
                         .type = OptionType::number,
                         .doc = "Time of client and API server per request before an engine sees "
                                "it, in TTFT and E2E; left out: the kernel set's (0.0055 for "
                                "vllm), 0 with step_cost",
                         .unit = "s",
                         .min = 0,
                         .max = 1000});
    t.options.push_back({.name = "transfer",
                         .type = OptionType::table,
                         .doc = "How keys and values go from pool to pool",
                         .lua_type = "table"});
    return t;
  }();
  return table;
}

const OptionTable& step_options() {
  static const OptionTable table{
      "deployment:step_s",
      "Time of a step on the first engine (s): prompts and decodes of one size each.",
      "number",
      {{.name = "num_decodes",
        .type = OptionType::integer,
        .doc = "Requests that decode one token",
        .default_text = "0",
        .min = 0,
        .max = 1e6},
       {.name = "context_tokens",
        .type = OptionType::integer,
        .doc = "In the KV cache of each of them",
        .unit = "tokens",
        .default_text = "0",
        .min = 0,
        .max = 1e8},
       {.name = "num_prompts",
        .type = OptionType::integer,
        .doc = "Prompts, or pieces of them",
        .default_text = "0",
        .min = 0,
        .max = 1e5},
       {.name = "prompt_tokens",
        .type = OptionType::integer,
        .doc = "Tokens of each",
        .unit = "tokens",
        .default_text = "1",
        .min = 1,
        .max = 1e8},
       {.name = "prompt_context_tokens",
        .type = OptionType::integer,
        .doc = "In the KV cache of each",
        .unit = "tokens",
        .default_text = "0",
        .min = 0,
        .max = 1e8}}};
  return table;
}

}  // namespace tessera::solver_lua
