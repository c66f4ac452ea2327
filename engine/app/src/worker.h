#pragma once

#include "host.h"

namespace tessera::app {

/// Whether this process was started by a pool of workers, to run points of an experiment.
bool is_worker(int argc, char** argv);

/// Runs points until the pool is gone: `require("tessera.desk.experiment.worker").main(setup)`,
/// where setup is the pool's first message, a JSON object. `arguments` in it are those of the
/// script.
ExitStatus run_worker(const std::string& argument);

}  // namespace tessera::app
