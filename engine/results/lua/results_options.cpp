#include "results_options.h"

#include "tessera/core/units.h"

namespace tessera::results_lua {
namespace {

constexpr double kMaxTime_s = 1e12;

// Where a run or a row comes from; both take these.
const std::vector<OptionSpec>& origin_specs() {
  static const std::vector<OptionSpec> specs{
      {.name = "script_hash", .type = OptionType::text, .doc = "SHA-256 of the script"},
      {.name = "git_commit", .type = OptionType::text, .doc = "Commit the script lies in"},
      {.name = "seed",
       .type = OptionType::integer,
       .doc = "Seed",
       .min = -kMaxExactInteger,
       .max = kMaxExactInteger},
      {.name = "machine", .type = OptionType::table, .doc = "As store.machine() gives it"},
      {.name = "build", .type = OptionType::table, .doc = "What the program was built from"}};
  return specs;
}

OptionTable with_origin(OptionTable table) {
  const auto& specs = origin_specs();
  table.options.insert(table.options.end(), specs.begin(), specs.end());
  return table;
}

}  // namespace

const OptionTable& open_options() {
  static const OptionTable table{"store.open",
                                 "How to open a results file.",
                                 "tessera.ResultStore",
                                 {{.name = "read_only",
                                   .type = OptionType::boolean,
                                   .doc = "Neither makes nor changes any file",
                                   .default_text = "false"},
                                  {.name = "create",
                                   .type = OptionType::boolean,
                                   .doc = "Makes the file where there is none",
                                   .default_text = "true"},
                                  {.name = "optional",
                                   .type = OptionType::boolean,
                                   .doc = "To read: nil in place of an error where there is no "
                                          "file yet, or nothing in it",
                                   .default_text = "false"},
                                  {.name = "durable",
                                   .type = OptionType::boolean,
                                   .doc = "Waits for the disk after every addition, which then "
                                          "survives power loss too",
                                   .default_text = "false"}}};
  return table;
}

const OptionTable& start_run_options() {
  static const OptionTable table = with_origin(
      {"ResultStore:start_run",
       "A sweep over an experiment that is about to begin.",
       "integer",
       {{.name = "experiment", .type = OptionType::text, .doc = "Its name", .required = true},
        {.name = "script_path", .type = OptionType::text, .doc = "File of the script"},
        {.name = "script_text",
         .type = OptionType::table,
         .doc = "Its content",
         .lua_type = "string"},
        {.name = "quick",
         .type = OptionType::boolean,
         .doc = "Of a reduced grid",
         .default_text = "false"},
        {.name = "shard", .type = OptionType::text, .doc = "Part of the grid, such as \"1/4\""},
        {.name = "declaration",
         .type = OptionType::table,
         .doc = "What the experiment says of itself: name, doc, keys, columns, plots"}}});
  return table;
}

const OptionTable& add_options() {
  static const OptionTable table = with_origin(
      {"ResultStore:add",
       "The outcome of one point. Times are seconds since 1970.",
       "",
       {{.name = "point",
         .type = OptionType::table,
         .doc = "Its keys and values",
         .required = true},
        {.name = "status",
         .type = OptionType::text,
         .doc = "Outcome in a word",
         .default_text = "\"done\""},
        {.name = "columns", .type = OptionType::table, .doc = "What the script returned"},
        {.name = "order",
         .type = OptionType::integer,
         .doc = "Place among the rows; default: behind the others",
         .min = 0,
         .max = kMaxExactInteger},
        {.name = "error",
         .type = OptionType::table,
         .doc = "Given: the point failed, and why",
         .lua_type = "string"},
        {.name = "traceback",
         .type = OptionType::table,
         .doc = "Of the failure",
         .lua_type = "string"},
        {.name = "log",
         .type = OptionType::table,
         .doc = "What the point printed",
         .lua_type = "string"},
        {.name = "provenance",
         .type = OptionType::choice,
         .doc = "Of its numbers",
         .choices = {"measured", "fitted", "published", "modelled"}},
        {.name = "error_ratio",
         .doc = "Held-out relative error of what made the numbers",
         .min = 0},
        {.name = "started_at",
         .doc = "When it began",
         .unit = "s",
         .default_text = "0",
         .min = 0,
         .max = kMaxTime_s},
        {.name = "duration_s",
         .doc = "How long it took",
         .unit = "s",
         .default_text = "0",
         .min = 0,
         .max = kMaxTime_s},
        {.name = "inputs",
         .type = OptionType::table,
         .doc = "Files it read, each { path =, sha256 = }"},
        {.name = "artefacts",
         .type = OptionType::table,
         .doc = "Things it made, each { name =, kind =, value = }"},
        {.name = "replace",
         .type = OptionType::boolean,
         .doc = "Replaces a stored row that did not fail",
         .default_text = "false"}}});
  return table;
}

const OptionTable& runs_options() {
  static const OptionTable table{
      "ResultStore:runs",
      "Which runs to list, oldest first.",
      "table[]",
      {{.name = "experiment", .type = OptionType::text, .doc = "Of this experiment only"}}};
  return table;
}

const OptionTable& rows_options() {
  static const OptionTable table{
      "ResultStore:rows",
      "What the rows of a run hold.",
      "table[]",
      {{.name = "meta",
        .type = OptionType::boolean,
        .doc = "Each row has a field meta: script_hash, git_commit, seed, machine, build, "
               "started_at, duration_s, inputs, provenance, error_ratio, traceback, log; rows of "
               "one origin share machine and build",
        .default_text = "false"},
       {.name = "failed",
        .type = OptionType::boolean,
        .doc = "Only those that failed",
        .default_text = "false"},
       {.name = "limit",
        .type = OptionType::integer,
        .doc = "The first so many",
        .min = 0,
        .max = kMaxExactInteger},
       {.name = "progress",
        .type = OptionType::callback,
        .doc = "Called a few times a second with the number of rows read",
        .lua_type = "fun(num_rows: number)"}}};
  return table;
}

const OptionTable& merge_options() {
  static const OptionTable table{
      "ResultStore:merge",
      "What to do where files disagree.",
      "table",
      {{.name = "prefer",
        .type = OptionType::choice,
        .doc = "Which of two rows to keep; without it nothing is merged where two disagree",
        .choices = {"first", "last"}},
       {.name = "progress",
        .type = OptionType::callback,
        .doc = "Called a few times a second with the share that is done",
        .lua_type = "fun(share: number)"}}};
  return table;
}

}  // namespace tessera::results_lua
