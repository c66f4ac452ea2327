#include "tessera/core/record_options.h"
#include "verbs.h"

namespace tessera::app {

const OptionTable& select_options() {
  using enum OptionType;
  static const OptionTable options = [] {
    OptionTable t{"tessera select",
                  "Ways to deploy a model that answers one request at a time, ranked by what is "
                  "wanted of it (iServe): the first that the GPUs have room for, and where it goes",
                  "",
                  {}};
    t.options = {
        as_text("model",
                "Model by name (llama-2-70b), or the path of a config.json, its folder or a .gguf "
                "file"),
        as_text("cluster",
                "Cluster by name (server-8xa6000), a cluster file, or devices as 8xA6000@bridges"),
        as_text("minimise",
                "latency, cost (memory x latency), memory, gpu_hours or usd; default: latency "
                "where something else is limited, else cost"),
        {.name = "latency",
         .type = number,
         .doc = "Limit on the time of a request",
         .unit = "s",
         .min = 0,
         .max = 1e9},
        {.name = "memory_gib",
         .type = number,
         .doc = "Limit on the memory of all GPUs",
         .unit = "GiB",
         .min = 0,
         .max = 1e9},
        {.name = "gpu_s",
         .type = number,
         .doc = "Limit on GPUs x time of a request",
         .unit = "s",
         .min = 0,
         .max = 1e12},
        {.name = "usd",
         .type = number,
         .doc = "Limit on what a request costs",
         .unit = "USD",
         .min = 0,
         .max = 1e9},
        {.name = "max_perplexity_increase",
         .type = number,
         .doc = "Limit on the increase of the perplexity (ratio), at the unfavourable end",
         .min = 0,
         .max = 1000},
        prices_option(),
        {.name = "prompt_tokens",
         .type = integer,
         .doc = "Prompt length",
         .unit = "tokens",
         .default_text = "512",
         .min = 1,
         .max = 1e6},
        {.name = "output_tokens",
         .type = integer,
         .doc = "Generated tokens",
         .unit = "tokens",
         .default_text = "100",
         .min = 1,
         .max = 1e6},
        {.name = "kernel_set",
         .type = text,
         .doc = "Whose kernels; see tessera help kernel_sets",
         .default_text = "\"modern\""},
        {.name = "policy",
         .type = text,
         .doc = "Which GPUs: hybrid, packing or least_loaded",
         .default_text = "\"hybrid\""},
        {.name = "account",
         .type = text,
         .doc = "base: blocks share the memory of one GPU, as in the paper; footprint: what is "
                "replicated counts, too",
         .default_text = "\"base\""},
        {.name = "top",
         .type = integer,
         .doc = "Configurations that are printed",
         .default_text = "10",
         .min = 1,
         .max = 1000},
        {.name = "beside",
         .type = boolean,
         .doc = "Says beside it what a server with continuous batching would do; --no-beside "
                "leaves it out",
         .default_text = "true"}};
    t.options[0].required = t.options[1].required = true;
    return t;
  }();
  return options;
}

}  // namespace tessera::app
