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

const OptionTable& plot_options() {
  using enum OptionType;
  static const OptionTable options{
      "tessera plot",
      "Draws the plots of an experiment's newest run on the terminal, or writes them; with --kind "
      "a "
      "plot of your own",
      "",
      {
          {.name = "results",
           .type = text,
           .doc = "File of results (SQLite)",
           .default_text = "\"results.db\""},
          {.name = "run",
           .type = integer,
           .doc = "Which run. Default: the newest",
           .min = 1,
           .max = 9007199254740991.0},
          {.name = "out", .type = text, .doc = "Folder to write into. Default: to the terminal"},
          {.name = "format",
           .type = choice,
           .doc = "Of the files; pdf and png are made by rsvg-convert, tex is for pgfplots. "
                  "Default: svg",
           .choices = {"svg", "pdf", "png", "tex", "txt"}},
          {.name = "where",
           .type = text_list,
           .doc = "Only points with these values: key=value, or key=value,value; repeatable"},
          {.name = "kind",
           .type = choice,
           .doc = "A plot of your own, see `tessera help ts.plot`. Default: those that the "
                  "experiment declares",
           .choices = {"bars", "lines", "scatter", "heatmap", "pareto", "cdf"}},
          {.name = "x", .type = text, .doc = "Column along x"},
          {.name = "y", .type = text, .doc = "Column along y"},
          {.name = "by", .type = text, .doc = "Column whose values are the series"},
          {.name = "facet", .type = text, .doc = "Column with a small plot per value"},
          {.name = "over",
           .type = text,
           .doc = "Key that counts repetitions, of which means are drawn with their intervals"},
          {.name = "against",
           .type = text_list,
           .doc = "With repetitions: differences to the point with these values, key=value"},
          {.name = "value", .type = text, .doc = "Column that colours the cells of a heatmap"},
          {.name = "title", .type = text, .doc = "Above the plot"},
          {.name = "log_x", .type = boolean, .doc = "Logarithmic; only above zero"},
          {.name = "log_y", .type = boolean, .doc = "Logarithmic; only above zero"},
      }};
  return options;
}

}  // namespace tessera::app
