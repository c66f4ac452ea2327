// Verbs that run models: `tessera generate`, `serve`, `execute`, `stage`, `quality`, `bench`.

#include <algorithm>
#include <initializer_list>

#include "engine_lua.h"
#include "http_lua.h"
#include "lm_lua.h"
#include "quality_lua.h"
#include "run_lua.h"
#include "tessera/linear/decoder_speed.h"
#include "tessera/linear/product_speed.h"
#include "verbs.h"

namespace tessera::app {
namespace {

// The library's own options, so that flags and what scripts give cannot disagree.
void take(OptionTable& table, const OptionTable& from,
          std::initializer_list<std::string_view> but = {}) {
  for (const OptionSpec& option : from.options) {
    const bool shown =
        option.flag && option.type != OptionType::callback && option.type != OptionType::table;
    if (!shown || std::find(but.begin(), but.end(), option.name) != but.end()) continue;
    table.options.push_back(option);
  }
}

// Of ts.language_model, with what a command line can say of layers.
void take_model(OptionTable& table, std::initializer_list<std::string_view> but = {}) {
  OptionTable model;
  take(model, lm_lua::language_model_options(), but);
  table.options.push_back({.name = "bitwidths",
                           .type = OptionType::integer_list,
                           .doc = "One of 3, 4, 8, 16 for all layers, or one for each: 16,8,4,...; "
                                  "default: as they are stored",
                           .unit = "bits",
                           .min = 3,
                           .max = 16});
  table.options.push_back({.name = "plan",
                           .type = OptionType::text,
                           .doc = "In place of bitwidths: a saved plan, whose bitwidths it takes"});
  for (const OptionSpec& option : model.options) {
    if (option.name == "path" || (option.name == "seed" && table.find("seed") != nullptr)) continue;
    table.options.push_back(option);
  }
}

}  // namespace

const OptionTable& generate_verb_options() {
  static const OptionTable table = [] {
    OptionTable t{"tessera generate",
                  "Continues a text with a model on disk; PROMPT - reads it from stdin",
                  "",
                  {}};
    t.options.push_back({.name = "chat",
                         .type = OptionType::boolean,
                         .doc = "PROMPT is what a user says, in the model's own template"});
    t.options.push_back(as_text("system", "With --chat: the message that stands before it"));
    t.options.push_back(
        as_text("chat_template", "With --chat: file with a template in place of the model's own"));
    take(t, lm_lua::generate_options());
    take_model(t, {"rounding"});
    return t;
  }();
  return table;
}

const OptionTable& execute_verb_options() {
  static const OptionTable table = [] {
    OptionTable t{
        "tessera execute",
        "Runs a saved plan and prints its answers, and what was predicted beside what was "
        "measured (tessera man execute)",
        "",
        {}};
    t.options.push_back(
        as_text("prompts",
                "File: a prompt a line, or .jsonl with prompt or tokens, max_tokens, "
                "seed, id"));
    take(t, run_lua::execute_options());
    t.options.push_back(report_flag());

    return t;
  }();
  return table;
}

const OptionTable& stage_verb_options() {
  static const OptionTable table = [] {
    OptionTable t = run_lua::stage_options();
    t.name = "tessera stage";
    return t;
  }();
  return table;
}

const OptionTable& serve_verb_options() {
  static const OptionTable table = [] {
    OptionTable t{"tessera serve",
                  "A model, or the model of a saved plan at its bitwidths, behind OpenAI's HTTP "
                  "interface, on the scheduler that ts.serve simulates (tessera man serve)",
                  "",
                  {}};
    t.options.push_back(as_text("model", "Where the model of a plan lies"));
    take(t, http_lua::server_options());
    take(t, serving_lua::engine_options(),
         {"gpu_memory_utilization", "runtime_version", "swap_bytes_per_s", "kv_cache_dtype",
          "host"});
    for (OptionSpec& option : t.options) {
      // The defaults of a device, which scripts/tessera/cli/serve.lua has.
      if (option.name == "max_num_seqs") {
        option.default_text.clear();
        option.doc = "Requests that run at the same time; left out: 32 on a CPU, 256 on a GPU";
      } else if (option.name == "max_num_batched_tokens") {
        option.default_text.clear();
        option.doc =
            "Tokens computed in a step at most; left out: 64, or twice max_num_seqs if that is "
            "more, on a CPU, 2048 on a GPU, and 8192 where prompts are not cut into pieces";
      }
    }
    t.options.push_back(
        {.name = "roles",
         .type = OptionType::text_list,
         .doc = "prefill,decode: prompts are read by one engine and decoded by another, each in "
                "processes of its own, with all of a model's layers or as a plan's two replicas "
                "have them, in their order; left out: one engine does both"});
    t.options.push_back({.name = "speculative_method",
                         .type = OptionType::text,
                         .doc = "Drafts tokens, which a step verifies: ngram, from what the text "
                                "has said before, or draft_model",
                         .choices = {"ngram", "draft_model"}});
    t.options.push_back(
        as_text("speculative_model", "Draft model of the same tokens, a folder or a .gguf file"));
    t.options.push_back({.name = "speculative_bitwidths",
                         .type = OptionType::integer_list,
                         .doc = "Of the draft model, as --bitwidths",
                         .unit = "bits",
                         .min = 3,
                         .max = 16});
    t.options.push_back({.name = "num_speculative_tokens",
                         .type = OptionType::integer,
                         .doc = "Drafted a step and request",
                         .unit = "tokens",
                         .default_text = "4",
                         .min = 1,
                         .max = 64});
    take_model(t, {"rounding", "seed", "model"});
    std::erase_if(t.options, [](const OptionSpec& option) { return option.name == "plan"; });
    return t;
  }();
  return table;
}

const OptionTable& quality_verb_options() {
  static const OptionTable table = [] {
    OptionTable t{"tessera quality",
                  "Perplexity of a model on disk over a text, at any bitwidths, and its distance "
                  "from the model as it is",
                  "",
                  {}};
    t.options.push_back(
        {.name = "text", .type = OptionType::text, .doc = "File with the text", .required = true});
    take(t, lm_lua::perplexity_options(), {"file"});
    t.options.push_back({.name = "reference",
                         .type = OptionType::boolean,
                         .doc = "Also runs the model as it is, for the divergence from it and the "
                                "increase of its perplexity"});
    take_model(t);
    return t;
  }();
  return table;
}

const OptionTable& bench_verb_options() {
  static const OptionTable table = [] {
    OptionTable t{
        "tessera bench",
        "Rates of prefill and decode of a model on disk, time to load it, and memory; of a "
        "shape, OUTPUTSxINPUTS, those of the kernels that multiply with such weights",
        "",
        {}};
    t.options.push_back({.name = "bitwidths",
                         .type = OptionType::integer_list,
                         .doc = "A row for each: 3, 4, 8, 16, or 0 as the weights are stored. "
                                "Default: 0, of a shape all others",
                         .unit = "bits",
                         .min = 0,
                         .max = 16});
    t.options.push_back({.name = "threads",
                         .type = OptionType::integer_list,
                         .doc = "A row for each; 0: as many as there are processors",
                         .default_text = "{0}",
                         .min = 0,
                         .max = 1024});
    auto kernels = names_of<linear::ProductKernel>();
    const auto others = names_of<linear::DecoderKernel>();
    kernels.insert(kernels.end(), others.begin(), others.end());
    t.options.push_back({.name = "kernel",
                         .type = OptionType::choice,
                         .doc =
                             "One kernel, with its share of this machine's roofline; its result "
                             "is checked. Products at the shape --m, --n, --k; rms_norm, "
                             "layer_norm, activate and log_sum_exp at --m, --n; rotate and "
                             "attention at --m, --heads, --head-dim, the latter also --kv-heads, "
                             "--context-tokens, --batch-size, --kv-bitwidth",
                         .choices = kernels});
    const auto size = [&t](std::string_view name, std::string_view doc, double most) {
      t.options.push_back(
          {.name = name, .type = OptionType::integer, .doc = doc, .min = 1, .max = most});
    };
    size("m", "Of --kernel: tokens, of attention those of a sequence that attend. Default: 1",
         1 << 16);
    size("n", "Of --kernel: outputs, or numbers of a row. Default: 4096", 1 << 24);
    size("k", "Of --kernel: inputs, over which it sums. Default: 4096", 1 << 24);
    size("heads", "Of --kernel attention, rotate: of queries. Default: 32", 1024);
    size("kv_heads", "Of --kernel attention: of keys and values. Default: 8", 1024);
    size("head_dim", "Of --kernel attention, rotate: numbers of a head. Default: 128", 576);
    t.options.push_back({.name = "isa",
                         .type = OptionType::text_list,
                         .doc = "Of a shape or --kernel: a row for each of these versions (tessera "
                                "version --kernels), or all. Default: the fastest"});
    take(t, lm_lua::speed_options());
    OptionTable model;
    take(model, lm_lua::language_model_options(), {"path", "threads", "seed", "rounding"});
    for (const OptionSpec& option : model.options) t.options.push_back(option);
    return t;
  }();
  return table;
}

}  // namespace tessera::app
