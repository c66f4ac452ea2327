#include "ilp/model_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "ilp/cbc.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/text.h"

namespace tessera::solver {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{4} << 30;

ModelFormat format_of(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".lp") return ModelFormat::lp;
  if (extension == ".mps") return ModelFormat::mps;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: the name ends neither in .lp nor in .mps, which says the format",
                          quote(path)),
              "path");
}

// COIN-OR writes to names only: what it wrote moves from here to where it belongs, so that the
// target is written as every other file is.
class TemporaryFile {
 public:
  TemporaryFile() {
    name_ = (std::filesystem::temp_directory_path() / "tessera-model-XXXXXX").string();
    const int file = ::mkstemp(name_.data());
    if (file < 0) {
      throw Error(ErrorCode::io, fmt::format("cannot write {}: {}", name_,
                                             std::generic_category().message(errno)));
    }
    ::close(file);
  }
  ~TemporaryFile() { ::unlink(name_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

}  // namespace

void write_model_file(const LinearModel& model, const std::string& path) {
  const ModelFormat format = format_of(path);
  const TemporaryFile file;
  write_coin(model, file.name(), format);
  write_file(path, read_file(file.name(), kMaxBytes));
}

LinearModel read_model_file(const std::string& path) {
  read_file(path, kMaxBytes);  // COIN-OR says less about a file that is not there
  return read_coin(path, format_of(path));
}

}  // namespace tessera::solver
