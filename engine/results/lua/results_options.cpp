#include "results_options.h"

#include "tessera/core/units.h"
#include "tessera/lua_kit/record.h"
#include "tessera/results/store.h"

namespace tessera::results_lua {
namespace {

// What workers print and errors carry may be any bytes, not UTF-8 alone.
OptionSpec any_text(std::string_view name, std::string_view doc) {
  return {.name = name, .type = OptionType::table, .doc = doc, .lua_type = "string"};
}

}  // namespace

const OptionTable& open_options() {
  static const OptionTable table =
      lua_kit::option_table<results::OpenOptions>(
          {"store.open", "How to open a results file.", "tessera.ResultStore", {}})
          .with("create", {{.name = "optional",
                            .type = OptionType::boolean,
                            .doc = "To read: nil in place of an error where there is no file yet, "
                                   "or nothing in it",
                            .default_text = "false"}});
  return table;
}

const OptionTable& start_run_options() {
  static const OptionTable table = lua_kit::option_table<results::Origin>(
      lua_kit::option_table<results::RunSpec>({"ResultStore:start_run",
                                               "A sweep over an experiment that is about to begin.",
                                               "integer",
                                               {}})
          .with("script_path", {any_text("script_text", "Its content")}));
  return table;
}

const OptionTable& add_options() {
  static const OptionTable table = lua_kit::option_table<results::Origin>(
      lua_kit::option_table<results::Row>(
          {"ResultStore:add", "The outcome of one point. Times are seconds since 1970.", "", {}})
          .with("order", {any_text("error", "Given: the point failed, and why"),
                          any_text("traceback", "Of the failure"),
                          any_text("log", "What the point printed")})
          .with("inputs", {{.name = "artefacts",
                            .type = OptionType::table,
                            .doc = "Things it made, each { name =, kind =, value = }"},
                           {.name = "replace",
                            .type = OptionType::boolean,
                            .doc = "Replaces a stored row that did not fail",
                            .default_text = "false"}}));
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
        .choices = names_of<results::Prefer>()},
       {.name = "progress",
        .type = OptionType::callback,
        .doc = "Called a few times a second with the share that is done",
        .lua_type = "fun(share: number)"}}};
  return table;
}

}  // namespace tessera::results_lua
