#include "tessera/results/origin.h"

#include <sha256.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::results {
namespace fs = std::filesystem;
namespace {

// Of a regular file only: a pipe in its place would be waited for.
std::ifstream opened(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) ? std::ifstream(path) : std::ifstream();
}

std::string first_line(const fs::path& path) {
  std::ifstream file = opened(path);
  std::string line;
  std::getline(file, line);
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  return line;
}

// What follows the first line's `key`, for files such as /proc/cpuinfo and /etc/os-release.
std::string value_after(const char* path, std::string_view key, std::string_view separators) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t start = line.find_first_not_of(separators, key.size());
    if (start == std::string::npos) return "";
    return line.substr(start, line.find_last_not_of(separators) - start + 1);
  }
  return "";
}

bool is_commit(const std::string& text) {
  return (text.size() == 40 || text.size() == 64) &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The folder that git keeps, from the entry `.git` of a checkout: itself, or the file of a linked
// checkout that names it.
fs::path git_folder(const fs::path& entry) {
  std::error_code ignored;
  if (fs::is_directory(entry, ignored)) return entry;
  const std::string line = first_line(entry);
  if (!line.starts_with("gitdir: ")) return {};
  return entry.parent_path() / line.substr(8);
}

std::string commit_of(const fs::path& git) {
  const std::string head = first_line(git / "HEAD");
  if (!head.starts_with("ref: ")) return is_commit(head) ? head : "";
  const std::string name = head.substr(5);
  // A linked checkout has its own HEAD and shares the branches.
  const std::string common = first_line(git / "commondir");
  const fs::path shared = common.empty() ? git : git / common;
  if (const std::string commit = first_line(shared / name); is_commit(commit)) return commit;
  std::ifstream packed = opened(shared / "packed-refs");
  for (std::string line; std::getline(packed, line);) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || line.substr(space + 1) != name) continue;
    if (is_commit(line.substr(0, space))) return line.substr(0, space);
  }
  return "";
}

}  // namespace

std::string sha256(std::string_view text) {
  std::array<char, SHA256_DIGEST_STRING_LENGTH> digest{};
  SHA256Data(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), digest.data());
  return digest.data();
}

std::string file_sha256(const std::string& path,
                        const std::function<void(std::uint64_t)>& progress) {
  check_may_read(path);
  const auto fail = [&path](const std::string& why) {
    throw Error(ErrorCode::io, "cannot read " + path + ": " + why, path);
  };
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error) fail(error.message());
  if (!fs::is_regular_file(status)) fail("it is no regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(std::strerror(errno));
  SHA2_CTX state;
  SHA256Init(&state);
  std::vector<char> piece(4u << 20);
  for (std::uint64_t done = 0; file;) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    const auto count = static_cast<std::size_t>(file.gcount());
    SHA256Update(&state, reinterpret_cast<const std::uint8_t*>(piece.data()), count);
    done += count;
    if (progress && count > 0) progress(done);
  }
  if (file.bad() || !file.eof()) fail("reading stopped before its end");
  std::array<char, SHA256_DIGEST_STRING_LENGTH> digest{};
  SHA256End(&state, digest.data());
  return digest.data();
}

Json machine_facts() {
  Json facts = Json::object();
  const auto set = [&facts](const char* name, const std::string& text) {
    if (!text.empty() && is_utf8(text)) facts[name] = text;
  };
  utsname system{};
  if (::uname(&system) == 0) set("host", system.nodename);
  set("os", value_after("/etc/os-release", "PRETTY_NAME=", "\""));
  set("kernel", std::string(system.sysname) + " " + system.release);
  set("cpu", value_after("/proc/cpuinfo", "model name", " \t:"));
  if (const long cores = ::sysconf(_SC_NPROCESSORS_ONLN); cores > 0) facts["num_cores"] = cores;
  struct sysinfo memory {};
  if (::sysinfo(&memory) == 0) {
    facts["memory_bytes"] =
        static_cast<std::int64_t>(memory.totalram) * static_cast<std::int64_t>(memory.mem_unit);
  }
  return facts;
}

std::string git_commit(const std::string& path) {
  std::error_code error;
  fs::path folder = fs::absolute(path, error);
  if (error) return "";
  for (;; folder = folder.parent_path()) {
    if (const fs::path entry = folder / ".git"; fs::exists(entry, error)) {
      return commit_of(git_folder(entry));
    }
    if (folder == folder.parent_path()) return "";
  }
}

}  // namespace tessera::results
