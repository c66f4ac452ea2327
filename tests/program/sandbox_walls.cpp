// Runs a script behind one wall of the sandbox: sandbox_walls lua|kernel run --sandbox FILE [ARGS].
// The product always builds both; only this program, which is never installed, can leave one out.

#include <cstdio>
#include <cstring>
#include <exception>

#include "lua_verb.h"
#include "sandbox/sandbox.h"

int main(int argc, char** argv) {
  using namespace tessera::app;
  if (argc < 3) return 2;
  const bool lua_alone = std::strcmp(argv[1], "lua") == 0;
  const Sandbox box = prepare_sandbox(parse_command_line(argc - 1, argv + 1));
  return tessera::sandbox::supervise(box.limits, [&]() -> int {
    try {
      if (lua_alone) {
        tessera::restrict_access(box.access);
      } else {
        build_kernel_wall(box);
      }
      Host host(box.command.settings);
      if (lua_alone) {
        host.limit_memory(box.limits.memory_bytes);
        build_lua_wall(host, box.module_folders);
      }
      return host.finish(run_files(host, box.command));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "tessera: %s\n", error.what());
      return kFailed;
    }
  });
}
