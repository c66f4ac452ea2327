#include "tessera/core/hub_link.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/text.h"

namespace tessera {
namespace {

std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    if (slash != 0) parts.emplace_back(path.substr(0, slash));
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return parts;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::optional<HubLink> hub_link(std::string_view text) {
  bool has_scheme = false, is_hub = false;
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (!text.starts_with(scheme)) continue;
    has_scheme = true;
    text.remove_prefix(scheme.size());
  }
  if (text.starts_with("www.")) text.remove_prefix(4);
  for (const std::string_view host : {"huggingface.co/", "hf.co/"}) {
    // hf.co/OWNER/NAME:TAG is a name of ollama's.
    if (!text.starts_with(host) || (host == "hf.co/" && !has_scheme)) continue;
    is_hub = true;
    text.remove_prefix(host.size());
  }
  if (!is_hub) return std::nullopt;
  const std::string whole(text);
  text = text.substr(0, text.find_first_of("?#"));
  const std::vector<std::string> parts = parts_of(text);
  const bool names_model = parts.size() >= 2 && parts[0] != "datasets" && parts[0] != "spaces" &&
                           parts[0] != "models" && parts[0] != "collections";
  for (const std::string& part : parts) {
    if (part != "..") continue;
    refuse(quote(whole), "an address of the hub has no ..");
  }
  if (!names_model) {
    refuse(quote(whole),
           "it names no model of the hub; copy the address of its page, "
           "https://huggingface.co/OWNER/NAME");
  }
  HubLink link{.id = parts[0] + "/" + parts[1]};
  const bool is_within =
      parts.size() >= 4 && (parts[2] == "tree" || parts[2] == "blob" || parts[2] == "resolve");
  if (!is_within) return link;
  link.revision = parts[3];
  for (std::size_t i = 4; i < parts.size(); ++i) link.file += (i == 4 ? "" : "/") + parts[i];
  return link;
}

std::string hub_cache() {
  namespace fs = std::filesystem;
  if (const std::string cache = variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = variable("HF_HOME"); !home.empty())
    return (fs::path(home) / "hub").string();
  const std::string home = variable("HOME");
  return home.empty() ? "" : (fs::path(home) / ".cache" / "huggingface" / "hub").string();
}

std::string in_hub_cache(const HubLink& link) {
  namespace fs = std::filesystem;
  const std::string cache = hub_cache();
  const std::size_t slash = link.id.find('/');
  if (cache.empty() || slash == std::string::npos) return "";
  const fs::path folder =
      fs::path(cache) / ("models--" + link.id.substr(0, slash) + "--" + link.id.substr(slash + 1));
  // A branch's file holds the commit that it was at.
  std::string commit = link.revision;
  if (std::ifstream ref(folder / "refs" / link.revision); ref) ref >> commit;
  const fs::path found = folder / "snapshots" / commit / link.file;
  return file_kind(found.string()) == FileKind::none ? "" : found.lexically_normal().string();
}

}  // namespace tessera
