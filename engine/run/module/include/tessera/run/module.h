#pragma once

#include "tessera/run/execute.h"
#include "tessera/run/serve_traffic.h"

namespace tessera::run {

/// What the shared module of the runtime offers: its sockets and its packages stay off the
/// program's way to its start.
class Module {
 public:
  virtual ~Module() = default;
  virtual Executed execute(ExecuteRequest request) const = 0;
  virtual std::string serve_stage(const StageRequest& request) const = 0;
  virtual std::string read_secret(const std::string& path, std::string_view option) const = 0;
  virtual serving::Ran serve_traffic(const ServeRequest& request,
                                     const serving::Deployment& deployment,
                                     const serving::Traffic& traffic,
                                     const serving::SimulationOptions& options) const = 0;
};

inline constexpr const char* kModule = "tessera_run";
inline constexpr const char* kModuleEntry = "tessera_run_module";
using ModuleEntry = const Module*();

/// Loads it at the first call, as lm::module() does. @throws as that
const Module& module();

}  // namespace tessera::run
