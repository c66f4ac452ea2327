#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tessera/http/server_options.h"
#include "tessera/lm/language_model.h"
#include "tessera/run/execute.h"
#include "tessera/serving/deployment.h"
#include "tessera/serving/served.h"

/// A model behind OpenAI's HTTP interface, on the scheduler that simulations have.
namespace tessera::http {

/// A server, once it listens.
struct Listening {
  std::string name, host;  ///< of the model for clients, and the address
  std::int32_t port = 0;   ///< the one that was free where 0 was asked for
  std::int64_t kv_blocks = 0, block_size = 0;
};

struct ServeRequest {
  std::shared_ptr<const lm::LanguageModel> model;
  std::shared_ptr<const lm::LanguageModel> draft_model = nullptr;  ///< that guesses for it
  /// Its layers are in stages, each a process: `model` has none, and is for shape and tokens.
  std::optional<run::ExecuteRequest> stages = {};
  serving::Replica engine;  ///< kv_blocks 0: what its seats can use, within a tenth of the memory
  /// What decodes the prompts that `engine` reads then, with its options and as many blocks; both
  /// in stages.
  std::optional<serving::Replica> decoder = {};
  ServerOptions options;
  std::string api_key = {};  ///< that clients show; empty: none
  std::string page = {};     ///< HTML for a browser at /, which shows what comes from /events
  std::function<void(const Listening&)> on_listening = {};
  /// Called at the end with all that happened, which is kept in memory until then; empty: nothing
  /// is kept but for a step log.
  std::function<void(serving::Served)> on_record = {};
};

/// What the shared module of the server offers: its packages stay off the program's way to its
/// start.
class Module {
 public:
  virtual ~Module() = default;
  /// What is wrong with a server before its model is loaded. @throws Error in one line: a port in
  /// use, a key missing, a template that is not understood
  virtual void check(const ServerOptions& options, bool has_key) const = 0;
  /// Serves on this thread until SIGTERM or SIGINT have it end. @return what is to be told of an
  /// end that was none of these; else ""
  virtual std::string serve(const ServeRequest& request) const = 0;
  /// The body that `http://HOST[:PORT][/PATH]` answers a GET with. No redirection is followed.
  /// @param path asked for where the URL has none
  /// @param time_limit_s of all of it: the name, the connection and the answer
  /// @throws Error{invalid_argument} for another URL; Error{unsupported} for https; Error{io}
  /// naming the host where nothing answers in time, with another status than 200, or with more than
  /// `max_bytes`
  virtual std::string get(const std::string& url, const std::string& path, double time_limit_s,
                          std::size_t max_bytes) const = 0;
};

inline constexpr const char* kModule = "tessera_http";
inline constexpr const char* kModuleEntry = "tessera_http_module";
using ModuleEntry = const Module*();

/// Loads it at the first call, as lm::module() does. @throws as that
const Module& module();

}  // namespace tessera::http
