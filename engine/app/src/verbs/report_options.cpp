#include "verbs.h"

namespace tessera::app {

const OptionTable& report_options() {
  using enum OptionType;
  static const OptionTable options{
      "tessera report",
      "Writes the newest run of the named experiments, or of all, as one HTML file",
      "",
      {
          {.name = "results",
           .type = text,
           .doc = "File of results (SQLite)",
           .default_text = "\"results.db\""},
          {.name = "out", .type = text, .doc = "File to write", .default_text = "\"report.html\""},
          {.name = "run",
           .type = integer,
           .doc = "Which run of the one named experiment. Default: the newest",
           .min = 1,
           .max = 9007199254740991.0},
      }};
  return options;
}

}  // namespace tessera::app
