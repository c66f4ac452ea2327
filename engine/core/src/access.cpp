#include "tessera/core/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera {
namespace fs = std::filesystem;
namespace {

constexpr int kMaxLinks = 40;  // as in Linux

struct Roots {
  fs::path write;
  std::vector<fs::path> read;
};
std::optional<Roots>& roots() {
  static std::optional<Roots> instance;
  return instance;
}

[[noreturn]] void forbid(const char* verb, const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::io,
              fmt::format("the sandbox does not {} {}: {}", verb, quote(path, 300), reason), path);
}

// Where the path leads. A file that does not exist yet is where it would be created.
fs::path resolve(const char* verb, const std::string& path) {
  if (path.find('\0') != std::string::npos) forbid(verb, path, "it contains a NUL byte");
  std::error_code error;
  fs::path next = fs::absolute(path, error);
  for (int i = 0; !error && i < kMaxLinks; ++i) {
    const fs::path resolved = fs::weakly_canonical(next, error);
    if (error) break;
    // A link that leads nowhere passes for a file that does not exist; writing would create what
    // it points at.
    std::error_code ignored;
    if (!fs::is_symlink(fs::symlink_status(resolved, ignored))) return resolved;
    const fs::path target = fs::read_symlink(resolved, error);
    next = target.is_absolute() ? target : resolved.parent_path() / target;
  }
  forbid(verb, path, error ? "where it leads is unknown: " + error.message() : "too many links");
}

bool is_beneath(const fs::path& path, const fs::path& root) {
  const auto [end_of_root, rest] =
      std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return end_of_root == root.end();
}

bool is_hidden(const fs::path& path, const fs::path& root) {
  const auto rest = std::mismatch(root.begin(), root.end(), path.begin(), path.end()).second;
  return std::any_of(rest, path.end(),
                     [](const fs::path& part) { return part.native().front() == '.'; });
}

void check_beneath_write_root(const char* verb, const std::string& path, const fs::path& place) {
  const fs::path& root = roots()->write;
  if (is_beneath(place, root)) return;
  forbid(verb, path,
         fmt::format("a sandboxed script writes beneath {} only (--sandbox-out chooses it)",
                     quote(root.string(), 300)));
}

}  // namespace

void restrict_access(const AccessRules& rules) {
  if (roots().has_value()) throw Error(ErrorCode::internal, "access is restricted already");
  const auto folder = [](const std::string& path) {
    std::error_code error;
    fs::path found = fs::canonical(path, error);
    if (error) {
      throw Error(ErrorCode::io,
                  fmt::format("cannot find the folder {}: {}", quote(path, 300), error.message()),
                  path);
    }
    return found;
  };
  Roots found{folder(rules.write_root), {}};
  for (const std::string& path : rules.read_roots) found.read.push_back(folder(path));
  roots() = std::move(found);
}

bool access_is_restricted() { return roots().has_value(); }

std::string write_root() { return roots() ? roots()->write.string() : ""; }

void check_may_read(const std::string& path) {
  if (!roots()) return;
  const fs::path place = resolve("read", path);
  if (is_beneath(place, roots()->write)) return;
  bool hidden = false;
  std::string known;
  for (const fs::path& root : roots()->read) {
    if (is_beneath(place, root) && !is_hidden(place, root)) return;
    hidden = hidden || is_beneath(place, root);
    known += (known.empty() ? "" : ", ") + quote(root.string(), 300);
  }
  forbid("read", path,
         hidden ? "hidden files stay hidden from a sandboxed script"
                : "a sandboxed script reads beneath these folders only: " + known);
}

void check_may_write(const std::string& path) {
  if (!roots()) return;
  check_beneath_write_root("write", path, resolve("write", path));
}

void check_may_replace(const std::string& path) {
  if (!roots()) return;
  const fs::path name = fs::path(path).filename();
  if (name.empty() || name == "." || name == "..") forbid("change", path, "it names no file");
  const fs::path folder = fs::path(path).parent_path();
  check_beneath_write_root("change", path, resolve("change", folder.empty() ? "." : folder));
}

void check_may_start_processes(const std::string& what) {
  if (!roots()) return;
  throw Error(ErrorCode::unsupported, "the sandbox starts no processes: " + what);
}

}  // namespace tessera
