#include "verbs.h"

namespace tessera::app {

const OptionTable& run_options() {
  using enum OptionType;
  static const OptionTable options{
      "tessera run",
      "Runs scripts; one that returns an experiment is swept point by point, the rows are stored",
      "",
      {
          {.name = "quick", .type = boolean, .doc = "Only the points of the experiment's `quick`"},
          {.name = "where",
           .type = text_list,
           .doc = "Only points with these values: key=value, or key=value,value; repeatable"},
          {.name = "set",
           .type = text_list,
           .doc = "Changes an assumption: name=value, or name=value,value; of the grid, or of "
                  "ts.problem for the problems of the papers' experiments; repeatable"},
          {.name = "as",
           .type = text,
           .doc = "Name that the results of --set are stored under. Default: the experiment's, and "
                  "what is set"},
          {.name = "dry_run", .type = boolean, .doc = "Says what would run, and runs nothing"},
          {.name = "jobs",
           .type = integer,
           .doc = "Worker processes; 0 runs the points in this process. Default: one per core",
           .min = 0,
           .max = 4096},
          {.name = "shard",
           .type = text,
           .doc = "i/n: every n-th point from point i on, counted from 0; merged by `tessera "
                  "results --merge`. Default: as Slurm, mpirun or torchrun say"},
          {.name = "results",
           .type = text,
           .doc = "Where rows are stored (SQLite)",
           .default_text = "\"results.db\""},
          {.name = "fresh", .type = boolean, .doc = "Starts a new run; stored rows stay"},
          {.name = "mix",
           .type = boolean,
           .doc = "Goes on with the stored run although the script has changed since"},
          {.name = "retry_failed", .type = boolean, .doc = "Runs stored points that failed again"},
          {.name = "point_time_limit_s",
           .type = number,
           .doc = "Of one point, beyond which it is stopped. Default: what the experiment says, "
                  "or 300",
           .unit = "s",
           .min = 0.001,
           .max = 1e7},
          {.name = "memory_limit_gib",
           .type = number,
           .doc = "Of one worker, beyond which its point fails. Default: an equal share of the "
                  "machine's memory",
           .unit = "GiB",
           .min = 0.0625,
           .max = 1e6},
          {.name = "sandbox",
           .type = boolean,
           .doc = "Runs a script of someone else: it writes only into its output folder, starts no "
                  "process, and is stopped at its limits"},
          {.name = "sandbox_time_limit_s",
           .type = number,
           .doc = "Of the whole script in the sandbox",
           .unit = "s",
           .default_text = "30",
           .min = 0.001,
           .max = 1e7},
          {.name = "sandbox_memory_gib",
           .type = number,
           .doc = "Of the script in the sandbox",
           .unit = "GiB",
           .default_text = "1",
           .min = 0.0625,
           .max = 1e6},
          {.name = "sandbox_out",
           .type = text,
           .doc = "Folder that the script may write into. Default: NAME-out here"},
      }};
  return options;
}

}  // namespace tessera::app
