#include "model_file.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/output.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/solver/mip/cbc.h"

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

std::string_view end_of(ModelFormat format) { return format == ModelFormat::lp ? "End" : "ENDATA"; }

// COIN-OR does not say when writing failed; what it closes a model with tells.
bool is_complete(std::string_view text, ModelFormat format) {
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  return lower(text.substr(text.find_last_of('\n') + 1)) == lower(end_of(format));
}

std::string last_bytes(const std::string& path, std::uint64_t size) {
  std::ifstream file(path, std::ios::binary);
  const std::uint64_t wanted = std::min<std::uint64_t>(size, 64);
  std::string text(wanted, '\0');
  file.seekg(static_cast<std::streamoff>(size - wanted));
  file.read(text.data(), static_cast<std::streamsize>(wanted));
  return text;
}

// Why a file may have ended early: the room that the disk has left, and a limit on sizes.
std::string room(const std::string& path) {
  std::error_code error;
  const auto folder = std::filesystem::absolute(path, error).parent_path();
  const auto space = std::filesystem::space(folder, error);
  std::string text;
  if (!error) {
    text =
        fmt::format("; the disk has {} left", format_bytes(static_cast<double>(space.available)));
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    text += fmt::format("; files are limited to {} (ulimit -f)",
                        format_bytes(static_cast<double>(limit.rlim_cur)));
  }
  return text;
}

}  // namespace

void write_model_file(const LinearModel& model, const std::string& path) {
  const ModelFormat format = format_of(path);
  OutputFile file(path);
  const std::string& scratch = file.scratch_path();
  write_coin(model, scratch, format);
  const std::uint64_t size = std::filesystem::file_size(scratch);
  if (!is_complete(last_bytes(scratch, size), format)) {
    throw Error(ErrorCode::io,
                fmt::format("cannot write {}: COIN-OR's file ends after {} bytes, without the line "
                            "'{}' that closes a model{}",
                            quote(path, 300), size, end_of(format), room(path)),
                path);
  }
  file.commit();
}

LinearModel read_model_file(const std::string& path) {
  const ModelFormat format = format_of(path);
  const std::string text = read_file(path, kMaxBytes);
  if (!is_complete(text, format)) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: it ends after {} bytes, without the line '{}' that closes a model; "
                    "was it cut short?",
                    quote(path, 300), text.size(), end_of(format)),
        path);
  }
  return read_coin(path, format);
}

}  // namespace tessera::solver
