#include "sandbox/sandbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "lua_verb.h"
#include "script.h"
#include "tessera/core/error.h"
#include "tessera/core/terminal_text.h"
#include "tessera/core/text.h"
#include "tessera/core/thread_pool.h"
#include "tessera/lm/module.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/table.h"
#include "tessera/sandbox/confine.h"
#include "verbs.h"

namespace tessera::app {
namespace fs = std::filesystem;
namespace {

// The numbers among the flags, checked by the option table. No script ever runs in this state.
sandbox::Limits read_limits(const FlagValues& flags) {
  const std::unique_ptr<lua_State, void (*)(lua_State*)> state(luaL_newstate(), lua_close);
  lua_State* L = state.get();
  push_flags(L, run_options(), flags);
  const auto number = [&](const char* name) {
    const lua_kit::StackGuard guard(L);
    if (!lua_kit::push_field(L, -1, name, "flags")) {
      return std::strtod(std::string(run_options().find(name)->default_text).c_str(), nullptr);
    }
    return lua_kit::any_number(L, -1, name);
  };
  sandbox::Limits limits;
  limits.time_limit_s = number("sandbox_time_limit_s");
  limits.memory_bytes = number("sandbox_memory_gib") * 1024 * 1024 * 1024;
  return limits;
}

std::string folder_of(const std::string& file) {
  const fs::path folder = fs::path(file).parent_path();
  return folder.empty() ? "." : folder.string();
}

bool holds(const fs::path& folder, const fs::path& path) {
  const auto rest = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return rest.first == folder.end();
}

// What a script must not change: the folders it runs in and from, the program, and everything else
// that the user has. A default that leads elsewhere may have come with the script.
void check_output_folder(const std::string& folder, const Sandbox& box) {
  std::vector<std::string> kept = box.access.read_roots;
  kept.push_back(executable_path());
  if (const char* home = std::getenv("HOME")) kept.emplace_back(home);
  const fs::path found = fs::canonical(folder);
  for (const std::string& path : kept) {
    std::error_code error;
    const fs::path place = fs::canonical(path, error);
    if (error || !holds(found, place)) continue;
    throw Error(ErrorCode::io,
                fmt::format("the sandbox's output folder {} holds {}, which the script could "
                            "change; give a folder of its own as --sandbox-out",
                            quote(folder, 300), quote(place.string(), 300)),
                folder);
  }
}

std::string make_output_folder(const Sandbox& box) {
  const auto given = box.command.flags.find("sandbox_out");
  const bool is_given = given != box.command.flags.end();
  const std::string folder = is_given
                                 ? given->second.front()
                                 : fs::path(box.command.files.front()).stem().string() + "-out";
  std::error_code error;
  if (!is_given && fs::is_symlink(fs::symlink_status(folder, error))) {
    throw Error(
        ErrorCode::io,
        fmt::format("the sandbox's output folder {} is a link to {}, which may have come "
                    "with the script; remove it, or name a folder as --sandbox-out",
                    quote(folder, 300), quote(fs::read_symlink(folder, error).string(), 300)),
        folder);
  }
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder, error)) {
    throw Error(ErrorCode::io,
                fmt::format("cannot make the sandbox's output folder {}: {}", quote(folder, 300),
                            error ? error.message() : "there is a file of this name"),
                folder);
  }
  check_output_folder(folder, box);
  return fs::canonical(folder).string();
}

void refuse_other_process_flags(const FlagValues& flags) {
  const auto jobs = flags.find("jobs");
  if (jobs != flags.end() && jobs->second.front() != "0") {
    throw UsageError{"--jobs: the sandbox starts no worker processes; leave it out"};
  }
}

int work_inside(const Sandbox& box) {
  try {
    build_kernel_wall(box);
    restrict_access(box.access);
    Host host(box.command.settings);
    host.limit_memory(box.limits.memory_bytes);
    build_lua_wall(host, box.module_folders);
    return host.finish(run_files(host, box.command));
  } catch (const UsageError& usage) {
    write_text(stderr, fmt::format("tessera: {}\n", usage.message));
    return usage.status;
  } catch (const std::bad_alloc&) {
    print_out_of_memory();
  } catch (const std::exception& error) {
    write_text(stderr, fmt::format("tessera: {}\n", error.what()));
  }
  return kFailed;
}

}  // namespace

Sandbox prepare_sandbox(const Command& command) {
  refuse_other_process_flags(command.flags);
  const Installation installation = find_installation(executable_path());
  Sandbox box;
  box.limits = read_limits(command.flags);
  box.command = command;
  const auto look_in = [&](const std::string& folder) {
    std::error_code error;
    std::string found = fs::canonical(folder, error).string();
    std::vector<std::string>& known = box.module_folders;
    if (!error && std::find(known.begin(), known.end(), found) == known.end()) {
      known.push_back(std::move(found));
    }
  };
  for (std::string& file : box.command.files) {
    if (file == "-") {
      throw UsageError{"--sandbox: the script has to be a file, so that its folder is known"};
    }
    file = find_script(installation, file);
    if (fs::exists(file)) look_in(folder_of(file));
  }
  for (const std::string& folder : user_folders()) look_in(folder);
  look_in(".");
  box.access.read_roots = box.module_folders;
  for (const std::string& folder :
       {installation.scripts_dir, installation.datasets_dir, installation.experiments_dir}) {
    if (fs::is_directory(folder)) box.access.read_roots.push_back(folder);
  }
  box.access.write_root = make_output_folder(box);
  box.command.flags["jobs"] = {"0"};
  box.command.flags.try_emplace("results",
                                std::vector<std::string>{box.access.write_root + "/results.db"});
  return box;
}

void build_kernel_wall(const Sandbox& box) {
  const auto threads = static_cast<double>(hardware_threads());
  sandbox::Confinement confinement;
  confinement.write_root = box.access.write_root;
  confinement.read_roots = box.access.read_roots;
  confinement.read_roots.push_back(executable_path());
  if (fs::is_directory(lm::modules_folder())) {
    confinement.read_roots.push_back(lm::modules_folder());
  }
  confinement.memory_bytes = box.limits.memory_bytes + sandbox::own_memory_bytes();
  confinement.cpu_s = box.limits.time_limit_s * threads + 10;  // if nobody watched any more
  for (const std::string& missing : sandbox::confine(confinement)) {
    write_text(stderr, fmt::format("tessera: this system does not offer {}; the sandbox relies on "
                                   "its other walls\n",
                                   missing));
  }
}

ExitStatus run_sandboxed(const Command& command) {
  const Sandbox box = prepare_sandbox(command);
  return static_cast<ExitStatus>(
      sandbox::supervise(box.limits, [&box] { return work_inside(box); }));
}

}  // namespace tessera::app
