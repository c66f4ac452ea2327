// Verbs around a deployment: what machines there are, what runs on them, how it went.

#include "measure_lua.h"
#include "quant_lua.h"
#include "verbs.h"

namespace tessera::app {

const OptionTable& detect_options() {
  using enum OptionType;
  static const OptionTable options{
      "tessera detect",
      "Describes the GPUs of this machine (NVML, else nvidia-smi), or of the hosts whose files are "
      "given: what `nvidia-smi` printed there, or what `tessera detect --out` wrote; - is stdin",
      "",
      {
          {.name = "out", .type = text, .doc = "Writes the cluster to this file"},
          {.name = "name", .type = text, .doc = "Of the cluster; default: its devices"},
          {.name = "link_gbps",
           .type = number,
           .doc = "Network between hosts, one direction; no tool on one host knows it",
           .unit = "Gb/s",
           .default_text = "100",
           .min = 1e-3,
           .max = 1e6},
          {.name = "cpu",
           .type = boolean,
           .doc =
               "Shares of this machine's CPU in place of GPUs, with rates that are measured now"},
          {.name = "cores_per_device",
           .type = integer,
           .doc = "Of each of these",
           .unit = "cores",
           .default_text = "1",
           .min = 1,
           .max = 4096},
          {.name = "commands",
           .type = boolean,
           .doc = "Prints the commands whose output stands for a host, and nothing else"},
      }};
  return options;
}

const OptionTable& profile_verb_options() {
  static const OptionTable table = [] {
    using enum OptionType;
    OptionTable t{
        "tessera profile",
        "Measures layers on this machine, at every bitwidth, and writes the points and the "
        "profile fitted to them, by which plans are priced (tessera man profiles)",
        "",
        {}};
    t.options = {as_text("device",
                         "cpu, a cluster file of `tessera detect --cpu`, or the name of a GPU that "
                         "is here; default: cpu"),
                 as_text("model", "A shape, whose weights are made up, or a folder with weights"),
                 as_text("out", "Folder that gets `profiles`; default: here")};
    for (const OptionSpec& option : profile_lua::measure_options().options) {
      if (t.find(option.name) == nullptr && option.flag && option.type != callback &&
          option.type != OptionType::table) {
        t.options.push_back(option);
      }
    }
    return t;
  }();
  return table;
}

const OptionTable& support_options() {
  using enum OptionType;
  static const OptionTable options{
      "tessera support",
      "Whether a model fits on each DEVICE and runs there, at each BITWIDTH or the one that comes "
      "last: memory, kernels, what was measured; more devices, sharing each layer, where one is "
      "too small. MODEL alone: on which devices, a line each",
      "",
      {
          {.name = "kernel_set", .type = text, .doc = "Kernels to look at; default: all that ship"},
          {.name = "context_tokens",
           .type = integer,
           .doc = "Longest request, prompt and output; default: 4096, or the model's limit",
           .unit = "tokens",
           .min = 2,
           .max = 1e8},
          {.name = "batch_size",
           .type = integer,
           .doc = "Requests served together",
           .unit = "requests",
           .default_text = "1",
           .min = 1,
           .max = 1e6},
      }};
  return options;
}

const OptionTable& compare_options() {
  using enum OptionType;
  static const OptionTable options{
      "tessera compare",
      "Puts what a plan predicts beside what a benchmark measured or a running server says, fits a "
      "correction, and says where a prediction left its interval, whether the traffic has left the "
      "plan, and whether another plan would now be better",
      "",
      {
          {.name = "metrics",
           .type = OptionType::text,
           .doc = "A running server's page of metrics, as in http://host:8000/metrics, read as the "
                  "file of it would be: 10 s and 16 MiB at most"},
          {.name = "recalibrate",
           .type = OptionType::text,
           .doc =
               "FILE.json that keeps what runs said of the prices, a kernel set: predictions are "
               "corrected by it, what is read now is added, and --kernel-set FILE.json plans by "
               "it"},
          {.name = "replan",
           .type = boolean,
           .doc = "Looks whether another plan would now be better",
           .default_text = "true"},
          {.name = "time_limit_s",
           .type = number,
           .doc = "Of that search",
           .unit = "s",
           .default_text = "10",
           .min = 0,
           .max = 1e6},
      }};
  return options;
}

const OptionTable& quantise_verb_options() {
  static const OptionTable table = [] {
    OptionTable t{"tessera quantise",
                  "Writes a quantised copy of a model on disk that vLLM and transformers load",
                  "",
                  {}};
    t.options.push_back({.name = "bitwidths",
                         .type = OptionType::integer_list,
                         .doc = "One of 3, 4, 8, 16 for all layers, or one for each: 16,8,4,...",
                         .unit = "bits",
                         .min = 3,
                         .max = 16});
    t.options.push_back({.name = "plan",
                         .type = OptionType::text,
                         .doc = "In place of bitwidths: a saved plan, whose bitwidths it takes"});
    for (const OptionSpec& option : quant_lua::quantise_model_options().options) {
      const bool shown = option.type != OptionType::callback && option.type != OptionType::table &&
                         option.name != "model" && option.name != "bitwidths" &&
                         option.name != "plan";
      if (shown) t.options.push_back(option);
    }
    return t;
  }();
  return table;
}

}  // namespace tessera::app
