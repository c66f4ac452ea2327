#include "worker.h"

#include <cstring>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/workers/channel.h"

namespace tessera::app {
namespace {

constexpr const char* kFlag = "--worker=";
/// Of a worker's memory limit, what its script may have: the rest is for the engine, and for
/// saying that memory ran out.
constexpr double kShareOfLua = 0.75;

}  // namespace

bool is_worker(int argc, char** argv) {
  return argc == 2 && std::strncmp(argv[1], kFlag, std::strlen(kFlag)) == 0;
}

ExitStatus run_worker(const std::string& argument) {
  const auto limits = workers::WorkerArgument::parse(argument.substr(std::strlen(kFlag)));
  workers::Channel channel(limits);
  const auto message = channel.receive();
  if (!message) return kFailed;
  const Json setup = parse_json(message->text, "setup of the worker");
  JsonFields fields(setup, "setup of the worker");
  HostSettings settings;
  settings.script = fields.text("script");
  settings.strict = fields.boolean("strict", true);
  settings.arguments = setup.value("arguments", std::vector<std::string>());
  settings.channel = &channel;
  Host host(std::move(settings));
  if (limits.memory_bytes > 0) host.limit_memory(kShareOfLua * limits.memory_bytes);
  lua_State* L = host.state();
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.desk.experiment.worker");
  if (const ExitStatus status = host.call(1, 1); status != kDone) return status;
  lua_kit::push_field(L, -1, "main", "tessera.desk.experiment.worker");
  lua_kit::push_json(L, setup);
  return host.call(1, 0);
}

}  // namespace tessera::app
