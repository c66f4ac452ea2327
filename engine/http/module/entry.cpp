#include "get.h"
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
  std::string get(const std::string& url, const std::string& path, double time_limit_s,
                  std::size_t max_bytes) const override {
    return http::get(url, path, time_limit_s, max_bytes);
  }
};

}  // namespace

extern "C" const Module* TESSERA_MODULE_ENTRY(tessera_http_module)() {
  static const HttpModule module;
  return &module;
}

}  // namespace tessera::http
