#include "tessera/lm/module_entry.h"
#include "tessera/run/module.h"

namespace tessera::run {
namespace {

class RunModule final : public Module {
 public:
  Executed execute(ExecuteRequest request) const override {
    return run::execute(std::move(request));
  }
  std::string serve_stage(const StageRequest& request) const override {
    return run::serve_stage(request);
  }
  std::string read_secret(const std::string& path, std::string_view option) const override {
    return run::read_secret(path, option);
  }
  serving::Ran serve_traffic(const ServeRequest& request, const serving::Deployment& deployment,
                             const serving::Traffic& traffic,
                             const serving::SimulationOptions& options) const override {
    return run::serve_traffic(request, deployment, traffic, options);
  }
};

}  // namespace

extern "C" const Module* TESSERA_MODULE_ENTRY(tessera_run_module)() {
  static const RunModule module;
  return &module;
}

}  // namespace tessera::run
