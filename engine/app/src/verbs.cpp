#include "verbs.h"

namespace tessera::app {

const std::vector<LuaVerb>& lua_verbs() {
  static const std::vector<LuaVerb> verbs{
      {"plan", "tessera.cli.plan", "", "plan and print", plan_options()},
      {"capacity", "tessera.cli.capacity", "",
       "which engines serve a stream of requests within latency limits", capacity_options()},
      {"select", "tessera.cli.select", "",
       "ways to deploy a model for one request at a time, ranked by an intent", select_options()},
      {"fleet", "tessera.cli.fleet", "FILE",
       "which replicas of which models run on which nodes, with a bound", fleet_options()},
      {"strategies", "tessera.cli.strategies", "",
       "three ways to run a batch on a fast and a slow GPU, and the best plan beside them",
       strategies_options()},
      {"support", "tessera.cli.support", "MODEL [DEVICE [BITWIDTH]]",
       "where a model fits and runs, and how fast", support_options()},
      {"detect", "tessera.cli.detect", "HOST_FILE", "the GPUs of this machine, as a cluster file",
       detect_options()},
      {"profile", "tessera.cli.profile", "", "measure layers on this machine, for plans",
       profile_verb_options()},
      {"compare", "tessera.cli.compare", "PLAN BENCH",
       "a plan beside what benchmarks measured or a server says", compare_options()},
      {"quantise", "tessera.cli.quantise", "MODEL_DIR",
       "a quantised copy of a model that vLLM loads", quantise_verb_options()},
      {"indicator", "tessera.cli.indicator", "MODEL_DIR",
       "sensitivity of every layer of a model on disk", indicator_verb_options()},
      {"generate", "tessera.cli.generate", "MODEL", "continue a text: generate MODEL PROMPT",
       generate_verb_options()},
      {"execute", "tessera.cli.execute", "PLAN",
       "run a plan: its stages as processes, prompts in its batches", execute_verb_options()},
      {"serve", "tessera.cli.serve", "MODEL", "a model behind OpenAI's HTTP interface",
       serve_verb_options()},
      {"view", "tessera.cli.view", "LOG", "a step log as a page that plays it",
       view_verb_options()},
      {"stage", "tessera.cli.stage", "", "a worker of a run that another process leads",
       stage_verb_options()},
      {"quality", "tessera.cli.quality", "MODEL", "perplexity of a model at any bitwidths",
       quality_verb_options()},
      {"bench", "tessera.cli.bench", "MODEL",
       "rates of a model, or of kernels at a shape, on this machine", bench_verb_options()},
      {"results", "tessera.cli.results", "NAME", "what experiments have stored: tables, exports",
       results_options()},
      {"report", "tessera.cli.report", "NAME", "stored results as one HTML file", report_options()},
      {"plot", "tessera.cli.plot", "NAME", "plots of stored results: on the terminal, as files",
       plot_options()},
      {"examples", "tessera.cli.examples", "NAME", "worked examples: lists them, copies one",
       examples_options()},
      {"data", "tessera.cli.data", "NAME",
       "data of others: what reads them, where they are to be had", data_options()},
      {"man", "tessera.cli.man", "TOPIC", "pages to read: tutorial, planner, experiments, ...",
       man_options()},
  };
  return verbs;
}

}  // namespace tessera::app
