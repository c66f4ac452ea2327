#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tessera::test {

using Json = nlohmann::json;

/// Chromium without a window, driven through its debugging pipe: JSON ended by NUL on file
/// descriptors 3 and 4 (https://chromedevtools.github.io/devtools-protocol). One page.
class Browser {
 public:
  /// Path of an installed Chromium: TESSERA_CHROMIUM, else the usual names in PATH.
  static std::optional<std::string> find();

  /// @throws std::runtime_error when it does not start or stops answering, here and below.
  explicit Browser(const std::string& program);
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  /// Opens a page and waits for its load event. Returns the seconds from navigation to the end of
  /// the load event and of the next frame.
  double open(const std::string& url);
  /// Value of a JavaScript expression; awaits a promise. A thrown exception becomes an error.
  Json evaluate(const std::string& expression);
  void set_size(int width, int height, bool phone);
  /// Media features: { "prefers-color-scheme", "dark" }; `media`: "print", or "" for the screen.
  void set_media(const std::string& feature, const std::string& value,
                 const std::string& media = "");
  void move_pointer(double x, double y);
  void press(const std::string& key);
  /// Bytes of a PNG of the window or of the whole page, and of a PDF.
  std::string screenshot(bool whole_page);
  std::string print_pdf();

  /// Since the last open: console errors and uncaught exceptions, and addresses that were asked for
  /// beside the page's own.
  const std::vector<std::string>& problems() const { return problems_; }
  const std::vector<std::string>& requests() const { return requests_; }

  /// One command of the protocol.
  Json call(const std::string& method, Json params = Json::object());

 private:
  void start(const std::string& program);
  Json next_message(std::chrono::steady_clock::time_point deadline);
  void note(const Json& event);

  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  int next_id_ = 1;
  bool loaded_ = false;
  std::string session_, buffer_, url_;
  std::vector<std::string> problems_, requests_;
  std::filesystem::path profile_;
};

}  // namespace tessera::test
