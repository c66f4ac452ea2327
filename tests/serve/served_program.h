#pragma once

// `tessera serve` on a model that runs, as tests start it and ask it.

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "http_client.h"
#include "program.h"

namespace tessera::test::served_program {

using namespace http;

inline std::string model() {
  return std::string(TESSERA_SOURCE_DIR) + "/datasets/language_models/grammar-opt-5m";
}

// A port that nobody has at this moment, and the socket that keeps it.
class Port {
 public:
  Port() {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ::listen(socket_, 1);
    socklen_t size = sizeof address;
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    number_ = ntohs(address.sin_port);
  }
  ~Port() { free(); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  void free() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  std::int32_t number() const { return number_; }

 private:
  int socket_ = -1;
  std::int32_t number_ = 0;
};

inline Answer ask(std::int32_t port, const std::string& request) {
  Client client(port);
  client.send(request);
  return answer_of(client.receive_all());
}

/// Flags of a server of the model.
inline std::vector<std::string> of_model() { return {model(), "--threads", "1"}; }

/// A server, and what is done with it once it says that it serves; it is told to end afterwards.
inline Process served(std::vector<std::string> flags,
                      const std::function<void(std::int32_t port, pid_t pid)>& use,
                      bool ends = true, const std::vector<std::string>& of = of_model(),
                      std::map<std::string, std::string> environment = {}) {
  Port port;
  port.free();
  std::vector<std::string> words{"serve", "--port", std::to_string(port.number())};
  words.insert(words.end(), of.begin(), of.end());
  words.insert(words.end(), flags.begin(), flags.end());
  std::thread user;
  ProcessSetup setup;
  for (const auto& [name, value] : environment) setup.environment.emplace_back(name, value);
  setup.wait_for = "serving ";
  setup.then = [&](pid_t pid) {
    user = std::thread([&, pid] {
      use(port.number(), pid);
      if (ends) kill(pid, SIGTERM);
    });
  };
  Process process = run_program(words, setup);
  if (user.joinable()) user.join();
  EXPECT_EQ(process.out,
            fmt::format("serving grammar-opt-5m on http://127.0.0.1:{}\n", port.number()))
      << process.err;
  return process;
}

// Processes of a server's stages, by rank.
inline std::map<int, pid_t> stages_of(pid_t server) {
  std::map<int, pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream status(entry.path() / "status");
    std::string line;
    bool is_child = false;
    while (std::getline(status, line)) is_child |= line == fmt::format("PPid:\t{}", server);
    if (!is_child) continue;
    std::ifstream file(entry.path() / "cmdline");
    const std::string words{std::istreambuf_iterator<char>(file), {}};
    const std::size_t at = words.find(std::string("--rank") + '\0');
    if (at != std::string::npos) found[std::stoi(words.substr(at + 7))] = std::stoi(name);
  }
  return found;
}

/// The text of a stream that ended as it should; else with what is wrong.
inline std::string text_of_stream(const std::string& answer) {
  std::string all;
  for (const std::string& event : events_of(answer_of(answer).body)) {
    if (event == "[DONE]") return all;
    const Json json = Json::parse(event);
    if (json.contains("error")) return all + " and " + json["error"].dump();
    all += json["choices"][0]["text"].get<std::string>();
  }
  return all + " and no [DONE]";
}

/// Whether nothing is left of any request, by its gauges; it may take until the last is told of.
inline bool is_idle(std::int32_t port) {
  for (int i = 0; i < 1000; ++i) {
    const std::string metrics = ask(port, get("/metrics")).body;
    const auto is_zero = [&](const char* gauge) {
      return metrics.find(fmt::format("{}{{model_name=\"grammar-opt-5m\"}} 0\n", gauge)) !=
             std::string::npos;
    };
    if (is_zero("num_requests_running") && is_zero("num_requests_waiting") &&
        is_zero("kv_cache_usage_perc"))
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

class PlanTest : public FolderTest {
 protected:
  // Of two stages.
  std::string plan() {
    const std::string script = file("plan.lua", fmt::format(R"lua(
local ts = require "tessera"
local shape = ts.model {{ config = "{0}/config.json" }}
local first, second = {{}}, {{}}
for i = 1, shape.num_layers do table.insert(i * 2 <= shape.num_layers and first or second, 8) end
local problem = ts.problem {{ model = "{0}", cluster = "2xT4-16G", bitwidths = {{ 8 }},
  workload = {{ prompt_tokens = 60, output_tokens = 40, batch_size = 4 }} }}
assert(ts.plan(problem, {{ planner = "manual", prefill_micro_batch_size = 2, decode_micro_batch_size = 2,
  stages = {{ {{ device = "T4-16G", bitwidths = first }}, {{ device = "T4-16G", bitwidths = second }} }} }})):save(
  require("tessera.host").arguments[1])
)lua",
                                                            model()));
    const Process made = run_program({script, path("plan.json")});
    EXPECT_EQ(made.status, 0) << made.err;
    return path("plan.json");
  }
};

}  // namespace tessera::test::served_program
