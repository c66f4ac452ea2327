#include "tessera/run/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"

namespace tessera::run {
namespace {

constexpr std::uint64_t kMostBytes = 4ull << 30;
constexpr std::int64_t kVersion = 1;

struct Head {
  std::int64_t tessera_journal = kVersion;
  std::string run;  ///< digest
};

struct Line {
  std::int64_t prompt = 0;
  std::vector<std::int32_t> tokens;
  lm::StopReason stop_reason = lm::StopReason::max_tokens;
};

}  // namespace
}  // namespace tessera::run

namespace tessera {

template <>
struct Fields<run::Head> {
  using H = run::Head;
  static constexpr auto list = std::tuple{
      field<&H::tessera_journal>(
          {.name = "tessera_journal", .doc = "Version of the format", .min = 1, .max = 1e6}),
      field<&H::run>({.name = "run", .doc = "Digest of what the answers depend on"})};
};

template <>
struct Fields<run::Line> {
  using L = run::Line;
  static constexpr auto list = std::tuple{
      field<&L::prompt>({.name = "prompt", .doc = "Its number (0-based)", .min = 0, .max = 1e12}),
      field<&L::tokens>({.name = "tokens", .doc = "Of its answer", .min = 0, .max = 2147483647}),
      field<&L::stop_reason>({.name = "stop_reason", .doc = "Why it ended"})};
};

}  // namespace tessera

namespace tessera::run {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  refuse(ErrorCode::io, quote(path, 300), "{}: {}", what, std::strerror(errno));
}

void check_head(const std::string& text, const std::string& path, const std::string& digest) {
  const auto head = from_json<Head>(parse_json(text, path + ":1"), path + ":1");
  if (head.tessera_journal != kVersion) {
    refuse(ErrorCode::unsupported, quote(path, 300), "a journal of version {}, this program has {}",
           head.tessera_journal, kVersion);
  }
  if (head.run == digest) return;
  refuse(quote(path, 300),
         "it is the journal of another run: plan, weights, prompts or options differ; name another "
         "file, or remove it to begin anew");
}

void take_line(const std::string& text, const std::string& where, Answers& answers) {
  const auto line = from_json<Line>(parse_json(text, where), where);
  if (line.prompt >= std::ssize(answers.prompts)) {
    refuse(where, "prompt {} of {}", line.prompt, answers.prompts.size());
  }
  auto& place = answers.done[static_cast<std::size_t>(line.prompt)];
  if (place) refuse(where, "prompt {} is answered twice", line.prompt);
  place = Answer{.tokens = line.tokens, .stop_reason = line.stop_reason};
}

}  // namespace

Journal::Journal(const std::string& path, const std::string& digest, Answers& answers)
    : path_(path) {
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file_ < 0) fail(path, "cannot be opened");
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    ::close(file_);
    file_ = -1;
    refuse(ErrorCode::io, quote(path, 300), "another run writes it");
  }
  try {
    const std::string text = read_file(path, kMostBytes);
    std::size_t begin = 0, number = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string line = text.substr(begin, end - begin);
      ++number;
      if (number == 1) {
        check_head(line, path, digest);
      } else {
        take_line(line, fmt::format("{}:{}", path, number), answers);
      }
    }
    const std::string head = json_text(json_of(Head{.run = digest}));
    if (number == 0 && !head.starts_with(text)) {
      refuse(quote(path, 300), "it is no journal; name another file");
    }
    // What follows the last whole line was being written.
    if (::ftruncate(file_, static_cast<off_t>(begin)) != 0) fail(path, "cannot be cut");
    if (::lseek(file_, 0, SEEK_END) < 0) fail(path, "cannot be written");
    if (number == 0) write(head);
  } catch (...) {
    ::close(file_);
    throw;
  }
}

Journal::~Journal() { ::close(file_); }

void Journal::add(std::size_t prompt, const Answer& answer) {
  write(json_text(
      json_of(Line{static_cast<std::int64_t>(prompt), answer.tokens, answer.stop_reason})));
}

void Journal::write(const std::string& line) {
  const std::string text = line + "\n";
  ssize_t n = 0;
  do {
    n = ::write(file_, text.data(), text.size());
  } while (n < 0 && errno == EINTR);
  if (n >= 0 && n != static_cast<ssize_t>(text.size())) errno = ENOSPC;  // it took a part
  if (n != static_cast<ssize_t>(text.size()) || ::fdatasync(file_) != 0) {
    fail(path_, "cannot be written");
  }
}

}  // namespace tessera::run
