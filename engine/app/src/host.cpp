#include "host.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "bindings.h"
#include "host_module.h"
#include "loads.h"
#include "memory_reserve.h"
#include "script.h"
#include "strict.h"
#include "terminal.h"
#include "tessera/core/access.h"
#include "tessera/core/colour.h"
#include "tessera/core/error.h"
#include "tessera/core/terminal_text.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/nesting.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::app {
namespace {

const char kHostKey = 0;
constexpr std::size_t kReserve = 64u << 20;  // for reporting that memory ran out
constexpr const char* kSandboxMemoryHint =
    "the sandbox has a memory limit; --sandbox-memory-gib allows more";

// Most of the machine's memory: a runaway script gets an error instead of the kernel's OOM killer.
std::size_t default_memory_limit() {
  const double bytes = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                       static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  return static_cast<std::size_t>(bytes * 0.75);
}

// An error outside any protected call, which only running out of memory can cause.
int panic(lua_State* L) {
  const std::string message(lua_kit::text_or_empty(L, -1));  // nothing that asks Lua for memory
  write_text(stderr, fmt::format("tessera: {}, while reporting another error\n",
                                 message.empty() ? "error" : message));
  std::_Exit(kFailed);
}

// The library's complaints say what is wrong and `at` which line. The way there helps only where
// code itself failed, or where a script was interrupted.
bool shows_traceback(const lua_kit::ErrorReport& report) {
  if (report.code == "interrupted") return !report.at.empty();
  return report.code == "script" || report.code == "internal" || report.code == "out_of_memory";
}

// Not by std::regex: GCC 12 takes it for uninitialised under the sanitizers.
bool has_word(std::string_view text, std::string_view word) {
  const auto in_word = [&](std::size_t i) {
    return i < text.size() && (text[i] == '_' || std::isalnum(static_cast<unsigned char>(text[i])));
  };
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !in_word(at - 1);
    if (begins && !in_word(at + word.size())) return true;
  }
  return false;
}

ExitStatus status_of(const std::string& code) {
  if (code == "usage") return kUsage;  // flags and names that a verb in Lua refused
  if (code == "infeasible") return kInfeasible;
  return kFailed;
}

}  // namespace

std::string executable_path() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) throw Error(ErrorCode::io, "cannot find the program's own path in /proc");
  return std::string(path, static_cast<std::size_t>(length));
}

std::vector<std::string> user_folders() {
  std::vector<std::string> folders;
  const char* variable = std::getenv("TESSERA_PATH");
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) folders.emplace_back(rest.substr(0, end));
    rest = end == rest.size() ? std::string_view() : rest.substr(end + 1);
  }
  return folders;
}

ExitStatus flush_stdout(ExitStatus status) {
  // A write that failed earlier leaves its mark in the stream, not in errno.
  const bool failed_before = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !failed_before) return status;
  write_text(stderr, fmt::format("tessera: cannot write to stdout: {}\n",
                                 failed_before ? "an earlier write failed" : std::strerror(errno)));
  return status == kDone ? kFailed : status;
}

void print_out_of_memory() {
  write_text(stderr, "tessera: not enough memory\n");
  if (access_is_restricted()) write_text(stderr, fmt::format("  hint:  {}\n", kSandboxMemoryHint));
}

void print_error(const lua_kit::ErrorReport& report) {
  std::fflush(stdout);
  constexpr std::size_t kShown = 16384;  // of a message; nobody reads megabytes
  const Terminal facts = terminal_facts(STDERR_FILENO);
  const ColourScope colours(facts.colour);
  std::string text = paint(Tone::bad, "tessera:") + " ";
  text += printable(std::string_view(report.message).substr(0, kShown));
  text += report.message.size() > kShown ? "...\n" : "\n";
  text = wrapped(text, facts.width());
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<7}{}\n", name, printable(value));
  };
  add("code:", report.code);
  add("where:", report.where);
  if (report.constraint.empty()) {
    add("at:", report.at);
  } else {
    text += "  binding constraint: " + printable(report.constraint) + "\n";
  }
  add("cause:", report.cause);
  if (report.code == "out_of_memory" && access_is_restricted()) {
    add("hint:", kSandboxMemoryHint);
  }
  if (shows_traceback(report) && !report.traceback.empty()) {
    text += printable(report.traceback) + "\n";
  }
  write_styled(stderr, text);
}

Json error_json(const lua_kit::ErrorReport& report) {
  Json fields = {{"code", report.code}, {"message", report.message}};
  const std::pair<const char*, const std::string&> more[] = {{"where", report.where},
                                                             {"constraint", report.constraint},
                                                             {"at", report.at},
                                                             {"cause", report.cause}};
  for (const auto& [name, text] : more) {
    if (!text.empty()) fields[name] = text;
  }
  // A message may quote bytes that are no text.
  return Json::parse(Json{{"error", fields}}.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void* Host::allocate(void* memory, void* block, std::size_t old_size, std::size_t new_size) {
  auto* budget = static_cast<Memory*>(memory);
  if (new_size == 0) {
    std::free(block);
    budget->used -= old_size;
    return nullptr;
  }
  if (new_size > old_size && budget->used + (new_size - old_size) > budget->limit) return nullptr;
  void* moved = std::realloc(block, new_size);
  if (moved != nullptr) budget->used += new_size - old_size;
  return moved;
}

Host::Host(HostSettings settings)
    : settings_(std::move(settings)),
      installation_(find_installation(executable_path())),
      environment_{DataFolders::from_environment(installation_.datasets_dir), reference_},
      memory_{0, default_memory_limit()},
      L_(lua_newstate(allocate, &memory_)) {
  if (L_ == nullptr) throw Error(ErrorCode::internal, "cannot create a Lua state");
  keep_memory_back();
  lua_atpanic(L_, panic);
  luaL_openlibs(L_);
  stitch_no_traces();
  lua_kit::guard_recursion(L_);
  lua_kit::set_registry_pointer(L_, &kHostKey, this);
  set_package_path();
  set_arguments();
  open_host_module(*this);
  open_bindings(L_, environment_, settings_.channel);
  record_loads(L_, installation_.scripts_dir + "/");
  if (settings_.strict) set_strict(L_, LUA_GLOBALSINDEX, true);
  watchdog_ = std::make_unique<lua_kit::interrupt::Watchdog>(L_);
  if (settings_.json) lua_kit::interrupt::keep_stdout_clean();
}

Host::~Host() {
  watchdog_.reset();
  lua_close(L_);
}

Host& Host::of(lua_State* L) {
  return *static_cast<Host*>(lua_kit::registry_pointer(L, &kHostKey));
}

// LuaJIT 2.1.0-beta3 ends a trace at a call of C and may go on in another one, stitched to it, in
// the middle of `for key in pairs(t)`: the loop then sees an empty table. No trace is long enough
// for it any more.
void Host::stitch_no_traces() {
  const lua_kit::StackGuard guard(L_);
  lua_getglobal(L_, "jit");
  lua_kit::push_field(L_, -1, "opt", "jit");
  lua_kit::push_field(L_, -1, "start", "jit.opt");
  lua_kit::push_text(L_, "minstitch=100000");
  call(1, 0);
}

void Host::set_package_path() {
  std::string path;
  std::vector<std::string> folders = {installation_.scripts_dir};
  for (const std::string& folder : user_folders()) folders.push_back(folder);
  for (const std::string& folder : folders) {
    path += fmt::format("{0}/?.lua;{0}/?/init.lua;", folder);
  }
  lua_kit::set_library_folder(L_, installation_.scripts_dir + "/tessera/");
  lua_getglobal(L_, "package");
  lua_kit::push_field(L_, -1, "path", "package");
  path += lua_kit::check_text(L_, -1, "package.path");
  lua_pop(L_, 1);
  lua_kit::set_text(L_, "path", path);
  lua_pop(L_, 1);
}

void Host::set_arguments() {
  lua_kit::push_texts(L_, settings_.arguments);
  lua_kit::push_text(L_, settings_.script);
  lua_rawseti(L_, -2, 0);
  lua_setglobal(L_, "arg");
}

void Host::set_result(Json value) { result_ = std::make_unique<Json>(std::move(value)); }

void Host::limit_memory(double bytes) { memory_.limit = static_cast<std::size_t>(bytes); }

ExitStatus Host::run_file(const std::string& path) {
  start_loads(L_);
  try {
    load_script(L_, path);
  } catch (const Error& error) {
    tell_error({std::string(name_of(error.code())), error.message(), error.where()});
    return kFailed;
  }
  for (const std::string& argument : settings_.arguments) lua_kit::push_text(L_, argument);
  return call(static_cast<int>(settings_.arguments.size()), 1);
}

// With `ts`, as the prompt has it, where the code speaks of it.
ExitStatus Host::run_code(const std::string& code) {
  if (has_word(code, "ts")) {
    if (const ExitStatus status = open_ts(); status != kDone) return status;
  }
  try {
    load_text(L_, code, "=(command line)");
  } catch (const Error& error) {
    tell_error({std::string(name_of(error.code())), error.message()});
    return kFailed;
  }
  for (const std::string& argument : settings_.arguments) lua_kit::push_text(L_, argument);
  const ExitStatus status = call(static_cast<int>(settings_.arguments.size()), 1);
  if (status != kDone || !settings_.json || lua_isnil(L_, -1)) return status;
  lua_pushcfunction(L_, lua_kit::guarded<tessera::app::set_result>);
  lua_insert(L_, -2);
  return call(1, 0);
}

ExitStatus Host::open_ts() {
  lua_pushliteral(L_, "ts");
  lua_getglobal(L_, "require");
  lua_pushliteral(L_, "tessera");
  if (const ExitStatus status = call(1, 1); status != kDone) {
    lua_settop(L_, 0);
    return status;
  }
  lua_rawset(L_, LUA_GLOBALSINDEX);
  return kDone;
}

void Host::tell_error(const lua_kit::ErrorReport& report) {
  print_error(report);
  if (settings_.json && !result_) set_result(error_json(report));
}

ExitStatus Host::call(int num_arguments, int num_results) {
  if (!lua_checkstack(L_, num_results + 2)) return kFailed;
  if (lua_kit::protected_call(L_, num_arguments, num_results) == 0) return kDone;
  return report_error();
}

ExitStatus Host::report_error() {
  const bool interrupted = *lua_kit::interrupt::flag() || stopped_;
  lua_kit::interrupt::reset(L_);  // what follows may run the script's __tostring
  memory_.limit += kReserve;
  const lua_kit::ErrorReport report = lua_kit::read_error(L_, -1);
  lua_pop(L_, 1);
  const ExitStatus status = interrupted ? kInterrupted : status_of(report.code);
  if (status == kInterrupted) lua_kit::interrupt::print_incumbent();
  tell_error(report);
  memory_.limit -= kReserve;
  return status;
}

ExitStatus Host::finish(ExitStatus status) {
  if (*lua_kit::interrupt::flag()) {  // a script that caught the error and went on to its end
    lua_kit::interrupt::reset(L_);
    lua_kit::interrupt::print_incumbent();
    write_text(stderr, "tessera: interrupted by Ctrl-C\n");
    status = kInterrupted;
  }
  // Finalizers run here, where their errors can still be reported; lua_close would swallow them.
  if (status == kDone) {
    lua_settop(L_, 0);
    lua_pushcfunction(L_, [](lua_State* L) -> int {
      lua_gc(L, LUA_GCCOLLECT, 0);
      return 0;
    });
    status = call(0, 0);
  }
  return print_result(status);
}

ExitStatus Host::print_result(ExitStatus status) const {
  if (settings_.json && result_ != nullptr) write_text(stdout, result_->dump(2) + "\n");
  return flush_stdout(status);
}

}  // namespace tessera::app
