#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <lua.hpp>
#include <string>
#include <string_view>

/// Ctrl-C. The first SIGINT sets `flag()`, which solvers poll, and makes interpreted Lua raise an
/// error with code "interrupted" at its next instruction. A loop that LuaJIT has compiled never
/// looks; so if the process is still running after a grace period, or at a second SIGINT, a
/// watchdog thread prints the incumbent and ends the process with status 130.
namespace tessera::lua_kit::interrupt {

/// Set from Ctrl-C until `reset`. Valid for the program's life.
const std::atomic<bool>* flag();

/// Of a loop over draws. @throws Error{interrupted} after Ctrl-C; looks once in 1,024 draws.
void check_draw(std::int64_t draw);

enum class Stream { out, err };

/// What to print if the process must end now: the best plan so far with its bound. Replaces the
/// previous text; empty withdraws it. Cheap enough to call per incumbent.
void set_incumbent_text(std::string_view text, Stream stream = Stream::out);

/// Sends the incumbent to stderr whatever it was registered for: --json keeps stdout for data.
void keep_stdout_clean();

/// Writes the incumbent, if any, and withdraws it. For a host that ends in an orderly way.
void print_incumbent();

/// Forgets a Ctrl-C that has been dealt with (back at the prompt).
void reset(lua_State* L);

/// How long the script that runs may still take (s); infinite where no TimeLimit is in force.
double left_s();

/// Code of the error that a TimeLimit raises. Not "time_limit", which planners give as a result.
inline constexpr const char* kTimeLimitCode = "script_time_limit";

/// A limit on what a script does while this lives: a heuristic, a planner in Lua. Past it,
/// interpreted Lua raises an error with kTimeLimitCode; a loop that LuaJIT has compiled never
/// looks, so a script that is still silent a grace period later ends the process: the watchdog
/// prints the incumbent, names the culprit, and exits with status 1. Limits nest; an inner one ends
/// no later than the outer. Without a Watchdog it only feeds `left_s`.
class TimeLimit {
 public:
  /// @param who "heuristic 'greedy_balance'", for the message.
  TimeLimit(lua_State* L, double limit_s, std::string_view who);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  lua_State* L_;
};

/// When a running process is ended from outside Lua.
enum class Policy {
  after_grace,    ///< a grace period after the first Ctrl-C, or at the second: scripts
  second_signal,  ///< only at the second: code entered at a prompt
  polled,         ///< only at the second; Lua goes on after the first, and looks at `flag()`
  never           ///< Ctrl-C means something else: the prompt itself
};

/// Handles SIGINT, and SIGURG for its own use, while it lives. One per process, made on the thread
/// that runs `L`.
class Watchdog {
 public:
  explicit Watchdog(lua_State* L,
                    std::chrono::milliseconds grace = std::chrono::milliseconds(1000));
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void set_policy(Policy policy);
};

}  // namespace tessera::lua_kit::interrupt
