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
          {.name = "columns", .type = text_list, .doc = "Columns to show, in this order"},
          {.name = "sort", .type = text, .doc = "Column to sort by; -column for descending"},
          {.name = "limit", .type = integer, .doc = "Rows to show at most", .min = 0, .max = 1e9},
          {.name = "failed", .type = boolean, .doc = "Only failed points, with their tracebacks"},
          {.name = "meta", .type = boolean, .doc = "Also script, commit, seed, machine, duration"},
          {.name = "format",
           .type = choice,
           .doc = "How rows are written",
           .default_text = "\"table\"",
           .choices = {"table", "json", "csv", "markdown", "latex"}},
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
