#include "tessera/indicator/save.h"

#include <filesystem>

#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/indicator/indicator.h"

namespace tessera::indicator {

void check_replaceable(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  if (std::filesystem::file_size(path, ignored) == 0) return;
  try {
    read_indicator(path, "");
  } catch (const Error&) {
    refuse(path, "it is there, and no indicator; name another file");
  }
}

void save_indicator(const Indicator& indicator, const std::string& path) {
  check_replaceable(path);
  write_file(path, json_text(to_json(indicator), 1) + "\n");
}

}  // namespace tessera::indicator
