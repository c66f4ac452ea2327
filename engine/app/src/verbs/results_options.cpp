#include "verbs.h"

namespace tessera::app {

const OptionTable& results_options() {
  using enum OptionType;
  static const OptionTable options{
      "tessera results",
      "Lists the experiments of a results file, or the rows of one experiment",
      "",
      {
          {.name = "results",
           .type = text,
           .doc = "File of results (SQLite)",
           .default_text = "\"results.db\""},
          {.name = "where",
           .type = text_list,
           .doc = "Only points with these values: key=value, or key=value,value; repeatable"},
          {.name = "run",
           .type = integer,
           .doc = "Which run. Default: the newest",
           .min = 1,
           .max = 9007199254740991.0},
          {.name = "columns",
           .type = text_list,
           .doc = "Exactly these columns, in this order; paper and diff are the published numbers "
                  "beside the column that stands next to them, paper.NAME those of one column"},
          {.name = "paper",
           .type = boolean,
           .doc = "The published numbers beside ours, and the difference, where the experiment has "
                  "some; --no-paper leaves them out",
           .default_text = "true"},
          {.name = "over",
           .type = text,
           .doc = "Means over this key of the points, which counts repetitions, with half of their "
                  "95 % intervals (ts.repeated)"},
          {.name = "against",
           .type = text_list,
           .doc = "With --over: differences to the point with these values, key=value, each "
                  "repetition's to its own; an interval without 0 is more than chance"},
          {.name = "sort", .type = text, .doc = "Column to sort by; -column for descending"},
          {.name = "limit", .type = integer, .doc = "Rows to show at most", .min = 0, .max = 1e9},
          {.name = "failed", .type = boolean, .doc = "Only failed points, with their tracebacks"},
          {.name = "meta", .type = boolean, .doc = "Also script, commit, seed, machine, duration"},
          {.name = "format",
           .type = choice,
           .doc = "How rows are written",
           .default_text = "\"table\"",
           .choices = {"table", "json", "csv", "markdown", "latex"}},
          {.name = "caption",
           .type = text,
           .doc = "Of the LaTeX table; empty: the tabular alone. Default: what the experiment says "
                  "of itself"},
          {.name = "label", .type = text, .doc = "Of the LaTeX table. Default: tab:NAME"},
          {.name = "best",
           .type = text_list,
           .doc =
               "Columns whose best value stands bold, in LaTeX and Markdown: NAME, NAME=lower or "
               "NAME=higher where the name does not tell, or all"},
          {.name = "best_per",
           .type = text_list,
           .doc = "With --best: the best of the rows that are alike in these columns"},
          {.name = "out", .type = text, .doc = "Writes to this file instead"},
          {.name = "diff",
           .type = text_list,
           .doc = "Two runs (2,5), or another results file: what differs, point by point"},
          {.name = "merge",
           .type = text_list,
           .doc = "Results files (of shards) whose rows are added to --results"},
          {.name = "prefer",
           .type = choice,
           .doc = "Which row --merge keeps where two contradict each other; without it that is an "
                  "error",
           .choices = {"first", "last"}},
      }};
  return options;
}

}  // namespace tessera::app
