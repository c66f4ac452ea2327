#include "serve.h"
#include "tessera/lm/module_entry.h"

namespace tessera::http {
namespace {

class HttpModule final : public Module {
 public:
  void check(const ServerOptions& options, bool has_key) const override {
    http::check(options, has_key);
  }
  std::string serve(const ServeRequest& request) const override { return http::serve(request); }
};

}  // namespace

extern "C" const Module* TESSERA_MODULE_ENTRY(tessera_http_module)() {
  static const HttpModule module;
  return &module;
}

}  // namespace tessera::http
