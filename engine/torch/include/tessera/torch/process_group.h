#pragma once

#include "tessera/run/process_group.h"

namespace tessera::run {

/// A process group of c10d. Returns when all ranks are there. @throws std::exception
std::unique_ptr<ProcessGroup> make_process_group(const ProcessGroupRequest& request);

}  // namespace tessera::run
