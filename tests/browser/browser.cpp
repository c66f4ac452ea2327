#include "browser.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace tessera::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{60};

std::string from_base64(const std::string& text) {
  std::string bytes;
  unsigned value = 0;
  int bits = 0;
  for (const char c : text) {
    int digit = -1;
    if (c >= 'A' && c <= 'Z') digit = c - 'A';
    if (c >= 'a' && c <= 'z') digit = c - 'a' + 26;
    if (c >= '0' && c <= '9') digit = c - '0' + 52;
    if (c == '+') digit = 62;
    if (c == '/') digit = 63;
    if (digit < 0) continue;
    value = value << 6 | static_cast<unsigned>(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(value >> bits & 0xFF);
  }
  return bytes;
}

// Puts the ends of the pipes where Chromium looks for them, without closing one by the other.
void place_pipes(int in, int out) {
  const int high_in = fcntl(in, F_DUPFD, 10), high_out = fcntl(out, F_DUPFD, 10);
  dup2(high_in, 3);
  dup2(high_out, 4);
  close(high_in);
  close(high_out);
}

}  // namespace

std::optional<std::string> Browser::find() {
  if (const char* given = std::getenv("TESSERA_CHROMIUM")) return given;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
      const std::string candidate = folder + "/" + name;
      if (access(candidate.c_str(), X_OK) == 0) return candidate;
    }
  }
  return std::nullopt;
}

Browser::Browser(const std::string& program) {
  std::string name = (std::filesystem::temp_directory_path() / "tessera_browser.XXXXXX").string();
  profile_ = mkdtemp(name.data());
  start(program);
  const Json target = call("Target.createTarget", {{"url", "about:blank"}});
  const Json attached =
      call("Target.attachToTarget", {{"targetId", target["targetId"]}, {"flatten", true}});
  session_ = attached["sessionId"];
  for (const char* domain : {"Page", "Runtime", "Log", "Network"}) {
    call(std::string(domain) + ".enable");
  }
}

void Browser::start(const std::string& program) {
  std::vector<std::string> words{program,
                                 "--headless=new",
                                 "--remote-debugging-pipe",
                                 "--user-data-dir=" + profile_.string(),
                                 "--no-first-run",
                                 "--disable-gpu",
                                 "--disable-dev-shm-usage",
                                 "--disable-background-networking",
                                 "--force-color-profile=srgb"};
  // The sandbox of Chromium does not work for root, which tests in a chroot or container are.
  if (geteuid() == 0) words.emplace_back("--no-sandbox");
  words.emplace_back("about:blank");
  int commands[2], answers[2];
  if (pipe2(commands, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipe to the browser");
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    place_pipes(commands[0], answers[1]);
    const int null = ::open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(commands[0]);
  close(answers[1]);
  to_ = commands[1];
  from_ = answers[0];
  signal(SIGPIPE, SIG_IGN);
}

Browser::~Browser() {
  close(to_);
  close(from_);
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  // Its helpers may still be writing; what they leave is in the folder for temporary files.
  for (int i = 0; i < 20; ++i) {
    std::error_code error;
    std::filesystem::remove_all(profile_, error);
    if (!error) return;
    usleep(50'000);
  }
}

Json Browser::next_message(Clock::time_point deadline) {
  for (;;) {
    if (const std::size_t end = buffer_.find('\0'); end != std::string::npos) {
      const Json message = Json::parse(buffer_.substr(0, end));
      buffer_.erase(0, end + 1);
      return message;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd file{from_, POLLIN, 0};
    if (left <= 0 || poll(&file, 1, static_cast<int>(left)) == 0) {
      throw std::runtime_error("the browser does not answer");
    }
    std::array<char, 65536> block;
    const ssize_t n = read(from_, block.data(), block.size());
    if (n <= 0) throw std::runtime_error("the browser ended");
    buffer_.append(block.data(), static_cast<std::size_t>(n));
  }
}

void Browser::note(const Json& event) {
  const std::string method = event.value("method", "");
  const Json params = event.value("params", Json::object());
  if (method == "Page.loadEventFired") loaded_ = true;
  if (method == "Runtime.exceptionThrown") {
    problems_.push_back(params["exceptionDetails"].dump());
  } else if (method == "Log.entryAdded" && params["entry"]["level"] != "info" &&
             params["entry"]["level"] != "verbose") {
    problems_.push_back(params["entry"]["text"]);
  } else if (method == "Runtime.consoleAPICalled" &&
             (params["type"] == "error" || params["type"] == "warning" ||
              params["type"] == "assert")) {
    problems_.push_back(params["args"].dump());
  } else if (method == "Network.requestWillBeSent" && params["request"]["url"] != url_) {
    requests_.push_back(params["request"]["url"]);
  }
}

Json Browser::call(const std::string& method, Json params) {
  const int id = next_id_++;
  Json command{{"id", id}, {"method", method}, {"params", std::move(params)}};
  if (!session_.empty()) command["sessionId"] = session_;
  const std::string text = command.dump() + '\0';
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = write(to_, text.data() + at, text.size() - at);
    if (n <= 0) throw std::runtime_error("the browser ended");
    at += static_cast<std::size_t>(n);
  }
  const auto deadline = Clock::now() + kPatience;
  for (;;) {
    const Json message = next_message(deadline);
    if (message.value("id", 0) != id) {
      note(message);
      continue;
    }
    if (message.contains("error")) throw std::runtime_error(method + ": " + message.dump());
    return message["result"];
  }
}

double Browser::open(const std::string& url) {
  problems_.clear();
  requests_.clear();
  url_ = url;
  loaded_ = false;
  call("Page.navigate", {{"url", url}});
  const auto deadline = Clock::now() + kPatience;
  while (!loaded_) note(next_message(deadline));
  const double ms = evaluate(
      "new Promise((done) => requestAnimationFrame(() => setTimeout(() => done("
      "performance.now()))))");
  return ms / 1000;
}

Json Browser::evaluate(const std::string& expression) {
  const Json result =
      call("Runtime.evaluate",
           {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}});
  if (result.contains("exceptionDetails")) {
    throw std::runtime_error(expression + ": " + result["exceptionDetails"].dump());
  }
  return result["result"].value("value", Json());
}

void Browser::set_size(int width, int height, bool phone) {
  call("Emulation.setDeviceMetricsOverride", {{"width", width},
                                              {"height", height},
                                              {"deviceScaleFactor", phone ? 2 : 1},
                                              {"mobile", phone}});
}

void Browser::set_media(const std::string& feature, const std::string& value,
                        const std::string& media) {
  call("Emulation.setEmulatedMedia",
       {{"media", media}, {"features", {{{"name", feature}, {"value", value}}}}});
}

void Browser::move_pointer(double x, double y) {
  call("Input.dispatchMouseEvent", {{"type", "mouseMoved"}, {"x", x}, {"y", y}});
}

void Browser::press(const std::string& key) {
  // Chromium moves the focus and clicks buttons by the key's code.
  const int code = key == "Tab"          ? 9
                   : key == "Enter"      ? 13
                   : key == "Escape"     ? 27
                   : key == "ArrowRight" ? 39
                   : key == "ArrowLeft"  ? 37
                                         : 0;
  Json event{{"type", "rawKeyDown"}, {"key", key}, {"code", key}, {"windowsVirtualKeyCode", code}};
  call("Input.dispatchKeyEvent", event);
  if (key == "Enter") call("Input.dispatchKeyEvent", {{"type", "char"}, {"text", "\r"}});
  event["type"] = "keyUp";
  call("Input.dispatchKeyEvent", event);
}

std::string Browser::screenshot(bool whole_page) {
  return from_base64(call("Page.captureScreenshot",
                          {{"format", "png"}, {"captureBeyondViewport", whole_page}})["data"]);
}

std::string Browser::print_pdf() {
  return from_base64(call("Page.printToPDF", {{"printBackground", false}})["data"]);
}

}  // namespace tessera::test
