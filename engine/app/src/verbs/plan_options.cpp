#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "core_lua.h"
#include "solver_lua.h"
#include "tessera/core/quality.h"
#include "tessera/core/record_options.h"
#include "tessera/solver/deploy/plan_serving.h"
#include "verbs.h"

namespace tessera::app {

OptionSpec report_flag() {
  return as_text("report",
                 "Writes what was found as one HTML page: a map of the GPUs, layers and bits, "
                 "memory, times");
}

OptionSpec as_text(std::string_view name, std::string_view doc) {
  return {.name = name, .type = OptionType::text, .doc = doc};
}

OptionSpec prices_option() {
  return {.name = "usd_per_hour",
          .type = OptionType::text_list,
          .doc = "Price of a device type, as A100-80G=1.29; can be repeated",
          .unit = "USD/h"};
}

void add_launch_flags(OptionTable& table, OptionSpec launch) {
  table.options.push_back(std::move(launch));
  table.options.push_back(as_text("out", "Folder that --launch writes"));
  table.options.push_back(
      {.name = "as",
       .type = OptionType::choice,
       .doc = "Of --launch: where servers start, by scripts alone or by a Docker Compose file, "
              "Kubernetes manifests or Ray Serve's configuration beside them",
       .default_text = "shell",
       .choices = {"shell", "compose", "kubernetes", "ray"}});
  table.options.push_back(
      as_text("runtime_version", "Version of the runtime that --launch is for"));
  table.options.push_back(as_text("checkpoint", "Of --launch: Hugging Face id or folder to serve"));
  table.options.push_back({.name = "overwrite",
                           .type = OptionType::boolean,
                           .doc = "A folder that --launch wrote before may go"});
}

void take_flags(OptionTable& table, const std::vector<OptionSpec>& options) {
  for (const OptionSpec& option : options) {
    if (option.flag) table.options.push_back(option);
  }
}

void add_quality_bound(OptionTable& table) {
  static const std::string doc = fmt::format(
      "{}, kept at the unfavourable end; default: {:g} by the middle guess, as long as "
      "that fits and no flag says otherwise what quality is worth",
      options_of<QualityBound>().front().doc, *solver::kDefaultQuality.max_perplexity_increase);
  take_flags(table, options_of<QualityBound>());
  for (OptionSpec& option : table.options) {
    if (option.name == "max_perplexity_increase") option.doc = doc;
  }
}

namespace {

/// Says what a verb does, with the lengths of requests where nobody says them. Without a batch a
/// plan is of a stream, whose requests have other lengths than the record: its defaults go.
std::string_view take_stream_defaults(OptionTable& table) {
  std::string prompt, output;
  for (OptionSpec& option : table.options) {
    if (option.name == "prompt_tokens") prompt = option.default_text;
    if (option.name == "output_tokens") output = option.default_text;
    const bool is_of_batch = option.name == "prompt_tokens" || option.name == "output_tokens" ||
                             option.name == "batch_size";
    if (is_of_batch) option.default_text.clear();
  }
  static const std::string doc = fmt::format(
      "What to run of one model on one cluster: for a stream of requests within latency limits, or "
      "with --batch-size and the flags of its search for an offline batch. Requests have {} prompt "
      "and {} output tokens, in a batch {} and {}",
      kStreamPromptTokens, kStreamOutputTokens, prompt, output);
  return doc;
}

}  // namespace

const OptionTable& plan_options() {
  static const OptionTable table = [] {
    OptionTable t{"tessera plan", "", "", {}};
    t.options.push_back(as_text(
        "model",
        "Model by name (opt-30b), or the path of a config.json, its folder or a .gguf file"));
    t.options.push_back(
        as_text("cluster",
                "Cluster by name (llmpq-3), a cluster file (my.json), or devices as "
                "3xT4-16G+1xV100-32G, a node for each term; "
                "'(2xRTX-3090+1xRTX-4090)' is one node, '@bridges' adds NVLink bridges"));
    for (OptionSpec& option : t.options) option.required = true;
    t.options.push_back(prices_option());
    take_flags(t, core_lua::workload_options().options);
    t.doc = take_stream_defaults(t);
    add_stream_flags(t);
    take_flags(t, solver_lua::problem_options().options);
    for (OptionSpec& option : t.options) {
      if (option.name != "theta") continue;
      option.doc =
          "Price of quality loss in place of a bound; 1 beside other flags that take the "
          "default bound away: --planner, --indicator, --preset, --memory, --theta-unit, "
          "--objective paper";
      option.default_text.clear();
    }
    t.options.push_back(
        as_text("quality", "Quality floor: a planner whose omega may not be exceeded (uniform)"));
    add_quality_bound(t);
    t.options.push_back(as_text("indicator", "Indicator as a JSON or CSV file"));
    take_flags(t, solver_lua::plan_options().options);
    t.options.push_back({.name = "beside",
                         .type = OptionType::boolean,
                         .doc = "Shows what people run today on the same problem",
                         .default_text = "true"});
    t.options.push_back(as_text("save", "Writes the plan to this file"));
    add_launch_flags(
        t, {.name = "launch",
            .type = OptionType::choice,
            .doc = "Also writes what starts servers that run the plan, into the folder --out; "
                   "plans for that runtime",
            .choices = {"vllm", "llama.cpp", "json"}});
    t.options.push_back({.name = "unlike_engines",
                         .type = OptionType::boolean,
                         .doc = "Of --launch: engines behind one address may serve unlike bits"});
    t.options.push_back(as_text("picture", "Writes the pipeline as an SVG picture to this file"));
    t.options.push_back(report_flag());
    return t;
  }();
  return table;
}

}  // namespace tessera::app
