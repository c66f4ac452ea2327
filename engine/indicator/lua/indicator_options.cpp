#include "indicator_lua.h"
#include "tessera/core/units.h"
#include "tessera/quant/scheme.h"

namespace tessera::indicator_lua {

const OptionTable& indicator_options() {
  using enum OptionType;
  static const OptionTable options{
      "ts.indicator",
      "How much quality each layer loses at each bitwidth.",
      "tessera.Indicator",
      {{.name = "kind",
        .type = choice,
        .doc =
            "constant: the squared step of eq. (3) for every layer; random: draws; from weights: "
            "variance (eq. (3)), hessian (top eigenvalue times rounding error), gptq_error, "
            "measured (errors of the layer's outputs); from running the model, a layer at a time: "
            "loss (its rise), divergence (from the model as it is), nats a token",
        .default_text = "\"constant\"",
        .choices = {"constant", "random", "variance", "hessian", "gptq_error", "measured", "loss",
                    "divergence"}},
       {.name = "model",
        .type = OptionType::table,
        .doc = "Model whose layers it covers; for what is made from weights their folder or file; "
               "for loss and divergence these too, or what ts.language_model gave",
        .lua_type = "tessera.Model|tessera.LanguageModel|string",
        .required = true},
       {.name = "bitwidths",
        .type = integer_list,
        .doc = "Bitwidths it covers; 3, 4 and 8 of loss and divergence",
        .unit = "bits",
        .default_text = "{3, 4, 8, 16}",
        .min = 1,
        .max = 16},
       {.name = "variant",
        .type = choice,
        .doc = "As the papers say; llm-pq: steps as LLM-PQ prints them (variance); llm-pq-code: as "
               "its published code computes it (variance, hessian), of which random has two modes",
        .default_text = "\"paper\"",
        .choices = {"paper", "llm-pq", "llm-pq-code", "llm-pq-uniform", "llm-pq-constant"}},
       {.name = "statistics",
        .type = text,
        .doc = "File of what the operators read (`tessera man statistics`). Without one kind "
               "variance takes inputs of zero mean and unit variance; the other kinds need one "
               "with Hessians"},
       {.name = "granularity",
        .type = choice,
        .doc = "What shares a scale. Default: tensor for kind variance, as in eq. (3); channel for "
               "the kinds that quantise",
        .choices = names_of<quant::Granularity>()},
       {.name = "group_size",
        .type = integer,
        .doc = "Input channels that share a scale, of granularity group",
        .default_text = "128",
        .min = 1,
        .max = 1048576},
       {.name = "symmetric",
        .type = boolean,
        .doc = "Scales of max |W|, else of max - min",
        .default_text = "true"},
       {.name = "rounding",
        .type = choice,
        .doc = "How weights are rounded: G(X) is 1/4 Var[X], or 1/6 (E[X]^2 + Var[X])",
        .default_text = "\"deterministic\"",
        .choices = names_of<kernels::Rounding>()},
       {.name = "seed",
        .type = integer,
        .doc = "Seed of kind random and of stochastic rounding",
        .default_text = "0",
        .min = 0,
        .max = kMaxExactInteger},
       {.name = "threads",
        .type = integer,
        .doc = "Threads over the weights; 0: as many as there are processors",
        .default_text = "0",
        .min = 0,
        .max = 1024},
       {.name = "file",
        .type = text,
        .doc = "Of loss and divergence: the text that the model runs"},
       {.name = "samples",
        .type = integer,
        .doc = "Of loss and divergence: consecutive pieces of the text, from its start",
        .default_text = "16",
        .min = 2,
        .max = 1e6},
       {.name = "tokens",
        .type = integer,
        .doc = "Of each piece",
        .unit = "tokens",
        .default_text = "256",
        .min = 2,
        .max = 1e9},
       {.name = "method",
        .type = choice,
        .doc = "Of loss and divergence: how weights become codes; gptq, awq: with statistics",
        .default_text = "\"rtn\"",
        .choices = {"rtn", "gptq", "awq"}},
       {.name = "activation_bitwidth",
        .type = integer,
        .doc = "Of loss and divergence: 8 rounds what quantised matrices multiply",
        .unit = "bits",
        .default_text = "16",
        .min = 8,
        .max = 16},
       {.name = "out",
        .type = text,
        .doc = "Of loss and divergence: the indicator goes there as JSON; what is done lies in "
               "OUT.part meanwhile, and the same call goes on from there"},
       {.name = "progress",
        .type = callback,
        .doc = "Called after every layer",
        .lua_type = "fun(num_done: integer, num_layers: integer)"}},
      "string"};
  return options;
}

}  // namespace tessera::indicator_lua
