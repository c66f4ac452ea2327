// Verbs that show or copy what ships, and what does not: `tessera examples`, `tessera data`,
// `tessera man`, `tessera view`.

#include "verbs.h"

namespace tessera::app {

const OptionTable& examples_options() {
  using enum OptionType;
  static const OptionTable options{
      "tessera examples",
      "Lists the worked examples, or copies the named ones with their data",
      "",
      {
          {.name = "to", .type = text, .doc = "Folder to copy into", .default_text = "\".\""},
          {.name = "force", .type = boolean, .doc = "Overwrites files that are there already"},
      }};
  return options;
}

const OptionTable& data_options() {
  using enum OptionType;
  static const OptionTable options{
      "tessera data",
      "Lists the data sets of others that experiments, fits and tests read, or shows one in full; "
      "nothing is fetched",
      "",
      {
          {.name = "check",
           .type = boolean,
           .doc = "Compares the SHA-256 of every file with the one that is recorded"},
      }};
  return options;
}

const OptionTable& view_verb_options() {
  static const OptionTable options{
      "tessera view",
      "Writes a step log, of tessera serve --step-log or served:save_trace, as the page that the "
      "server has at /, which plays it",
      "",
      {as_text("out", "File to write; default: the log's name with .html")}};
  return options;
}

const OptionTable& man_options() {
  static const OptionTable options{
      "tessera man", "Shows a page of the manual, or lists the pages", "", {}};
  return options;
}

}  // namespace tessera::app
