#include "tessera/core/record_options.h"
#include "verbs.h"

namespace tessera::app {

const OptionTable& strategies_options() {
  using enum OptionType;
  static const OptionTable options = [] {
    OptionTable t{"tessera strategies",
                  "Data parallelism, attention offload and model parallelism over one or two GPUs "
                  "(FlexLLM): what each takes, costs and holds, and which is the cheapest within "
                  "a limit on latency",
                  "",
                  {}};
    t.options = {
        as_text("model",
                "Model by name (opt-1.3b), or the path of a config.json, its folder or a .gguf "
                "file"),
        {.name = "devices",
         .type = text_list,
         .doc = "The faster first: A10G,T4-16G, or one device; A10G+T4-16G,A10G: configurations to "
                "choose from"},
        {.name = "slo_s_per_token",
         .type = number,
         .doc = "Limit on the whole time over the output tokens",
         .unit = "s",
         .min = 0,
         .max = 1e9},
        {.name = "link_gbps",
         .type = number,
         .doc = "Between the two, one way; the default is that of the paper's boards",
         .unit = "Gb/s",
         .default_text = "16",
         .min = 1e-6,
         .max = 1e6},
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
         .default_text = "64",
         .min = 1,
         .max = 1e6},
        {.name = "batch_size",
         .type = integer,
         .doc = "Requests",
         .unit = "requests",
         .default_text = "32",
         .min = 1,
         .max = 1e6},
        {.name = "formulas",
         .type = choice,
         .doc = "profile: Tessera's prices and memory; printed, simulated: the paper's equations",
         .default_text = "\"profile\"",
         .choices = {"profile", "printed", "simulated"}},
        {.name = "exact",
         .type = boolean,
         .doc = "Beside it the best of all plans on the same devices",
         .default_text = "false"},
        prices_option(),
        {.name = "time_limit_s",
         .type = number,
         .doc = "Of --exact",
         .unit = "s",
         .default_text = "10",
         .min = 0,
         .max = 1e6}};
    t.options[0].required = t.options[1].required = true;
    return t;
  }();
  return options;
}

}  // namespace tessera::app
