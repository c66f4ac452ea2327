#pragma once

#include <lua.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core_lua.h"
#include "tessera/core/files.h"
#include "tessera/core/json_fwd.h"
#include "tessera/lua_kit/annotations.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/workers/channel.h"

namespace tessera::app {

/// What the process reports to its caller.
enum ExitStatus : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,
  kInfeasible = 3,  ///< no plan fits; the binding constraint was named
  kInterrupted = 130
};

struct HostSettings {
  bool json = false;  ///< stdout carries one JSON value and nothing else
  bool strict = true;
  std::vector<std::string> arguments;
  std::string script;                   ///< `arg[0]`
  workers::Channel* channel = nullptr;  ///< of a worker process
};

/// The Lua state with everything a script may `require`, and what is done at its end.
class Host {
 public:
  explicit Host(HostSettings settings);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  lua_State* state() const { return L_; }
  const HostSettings& settings() const { return settings_; }
  const Installation& installation() const { return installation_; }
  const lua_kit::Reference& reference() const { return reference_; }
  lua_kit::interrupt::Watchdog& watchdog() { return *watchdog_; }

  void set_result(Json value);
  /// Bytes of Lua memory beyond which allocation fails.
  void limit_memory(double bytes);

  /// Runs a script file (see load_script) and pushes what it returns. Errors are printed.
  ExitStatus run_file(const std::string& path);
  /// Runs code; with --json what it returns is the result.
  ExitStatus run_code(const std::string& code);
  /// Calls the function below `num_arguments` on the stack; errors are printed.
  ExitStatus call(int num_arguments, int num_results);

  /// Makes the library the global `ts`, as the prompt and `-e` have it.
  ExitStatus open_ts();
  /// Prints the error on top of the stack to stderr and pops it; the status that it stands for.
  /// With --json it is the result as well, unless there is one.
  ExitStatus report_error();

  /// Collects garbage, prints the JSON result, flushes stdout; the status of the whole run.
  ExitStatus finish(ExitStatus status);

  /// Prints the JSON result, if any, and flushes stdout; the status of the whole run.
  ExitStatus print_result(ExitStatus status) const;

  /// Somebody at the terminal ended the run: errors from here on count as Ctrl-C.
  void set_stopped() { stopped_ = true; }
  /// Whether os.exit ends the process; see ExitForbidden.
  bool may_exit() const { return num_exits_forbidden_ == 0; }

  /// The Host of a state.
  static Host& of(lua_State* L);

 private:
  friend class ExitForbidden;
  struct Memory {
    std::size_t used = 0, limit = 0;
  };
  static void* allocate(void* memory, void* block, std::size_t old_size, std::size_t new_size);
  void tell_error(const lua_kit::ErrorReport& report);
  void stitch_no_traces();
  void set_package_path();
  void set_arguments();

  HostSettings settings_;
  Installation installation_;
  lua_kit::Reference reference_;
  core_lua::Environment environment_;
  Memory memory_;
  lua_State* L_;
  std::unique_ptr<lua_kit::interrupt::Watchdog> watchdog_;
  std::unique_ptr<Json> result_;
  bool stopped_ = false;
  int num_exits_forbidden_ = 0;
};

/// While it lives, os.exit raises an error: code of an experiment is part of a sweep.
class ExitForbidden {
 public:
  explicit ExitForbidden(Host& host) : host_(host) { ++host_.num_exits_forbidden_; }
  ~ExitForbidden() { --host_.num_exits_forbidden_; }
  ExitForbidden(const ExitForbidden&) = delete;
  ExitForbidden& operator=(const ExitForbidden&) = delete;

 private:
  Host& host_;
};

/// Path of this program.
std::string executable_path();

/// Folders of TESSERA_PATH, in order.
std::vector<std::string> user_folders();

/// Flushes stdout. Prints an error and returns kFailed where that is impossible.
ExitStatus flush_stdout(ExitStatus status);

/// That memory ran out, without needing any: where even reporting an error has found none.
void print_out_of_memory();

/// "tessera: <message>" with code, where, position, cause and traceback on further lines.
void print_error(const lua_kit::ErrorReport& report);
/// { "error": { "code", "message" and what else is known: "where", "constraint", "at", "cause" } }
Json error_json(const lua_kit::ErrorReport& report);

}  // namespace tessera::app
