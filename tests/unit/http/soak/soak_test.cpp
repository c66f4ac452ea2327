// A million tokens for clients that come, cancel and vanish: nothing stays of them.
#include <dirent.h>
#include <gmock/gmock.h>

#include <fstream>

#include "../test_server.h"
#include "tessera/core/rng.h"

namespace tessera::http::soak_test {
namespace {

using namespace test_server;

constexpr std::int64_t kTokens = 1'000'000;
constexpr int kClients = 64;

struct Use {
  double anonymous_mib = 0;
  std::int64_t descriptors = 0, threads = 0;
};

std::int64_t entries_of(const char* folder) {
  std::int64_t count = 0;
  DIR* open = ::opendir(folder);
  while (open != nullptr && ::readdir(open) != nullptr) ++count;
  if (open != nullptr) ::closedir(open);
  return count;
}

Use use_now() {
  Use use{.descriptors = entries_of("/proc/self/fd"), .threads = entries_of("/proc/self/task")};
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) use.anonymous_mib = std::stod(line.substr(8)) / 1024;
  }
  return use;
}

/// Until sockets of clients that have gone are closed.
bool has_closed(std::int64_t descriptors) {
  for (int i = 0; i < 10'000 && use_now().descriptors > descriptors; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return use_now().descriptors == descriptors;
}

/// What clients were told, all together.
struct Told {
  std::atomic<std::int64_t> tokens = 0, whole = 0, left = 0;
};

void be_client(const TestServer& server, std::uint64_t seed, std::int64_t until, Told& told) {
  Rng rng(seed);
  while (told.tokens < until) {
    const std::int64_t most = rng.integer(1, 400);
    const Json body{{"prompt", std::string(static_cast<std::size_t>(rng.integer(1, 80)), 'a')},
                    {"max_tokens", most},
                    {"ignore_eos", true},
                    {"stream", true},
                    {"temperature", rng.integer(0, 1)},
                    {"seed", seed}};
    Client client(server.port);
    client.send(post("/v1/completions", shown_json(body)));
    const double mode = rng.uniform();
    if (mode < 0.1) {  // vanishes at once
      ++told.left;
      continue;
    }
    if (mode < 0.4) {  // after a few tokens
      client.receive([](const std::string& in) { return in.find("data:") != std::string::npos; });
      ++told.left;
      continue;
    }
    const std::string text = client.receive_all(60'000);
    ASSERT_THAT(text, testing::HasSubstr("[DONE]"));
    told.tokens += most;
    ++told.whole;
  }
}

void serve_until(const TestServer& server, std::int64_t until, std::uint64_t seed, Told& told) {
  std::vector<std::thread> clients;
  for (int k = 0; k < kClients; ++k) {
    clients.emplace_back(
        [&, k] { be_client(server, seed + static_cast<std::uint64_t>(k), until, told); });
  }
  for (std::thread& client : clients) client.join();
  ASSERT_TRUE(server.is_idle());
}

TEST(Soak, AMillionTokensLeaveNothingBehind) {
  const TestServer server(
      {.kv_blocks = 600, .max_num_seqs = 24, .max_waiting = 1000, .batched_tokens = 256});
  const std::int64_t descriptors = use_now().descriptors;
  Told told;
  serve_until(server, kTokens / 5, 1, told);  // what memory the first clients take stays with it
  EXPECT_TRUE(has_closed(descriptors));
  const Use before = use_now();
  serve_until(server, kTokens, 1000, told);
  EXPECT_TRUE(has_closed(descriptors));
  const Use after = use_now();
  EXPECT_LT(after.anonymous_mib, before.anonymous_mib + 24);
  EXPECT_EQ(after.threads, before.threads);
  const EngineState state = server.engine->state();
  EXPECT_EQ(state.num_running + state.num_waiting + state.used_blocks, 0);
  EXPECT_GE(told.tokens, kTokens);
  EXPECT_GT(told.left, told.whole / 4);
  EXPECT_EQ(server.metric("vllm:num_requests_running"), 0);
  EXPECT_EQ(server.metric("vllm:kv_cache_usage_perc"), 0);
  // Who was answered is counted as that. Some who left had their last token before that was
  // noticed, and of some nothing was read.
  const double length = server.metric("vllm:request_success_total{finished_reason=\"length\"");
  const double abort = server.metric("vllm:request_success_total{finished_reason=\"abort\"");
  EXPECT_GE(length, static_cast<double>(told.whole));
  EXPECT_LE(length + abort, static_cast<double>(told.whole + told.left));
  EXPECT_EQ(server.metric("vllm:e2e_request_latency_seconds_count"), length + abort);
  EXPECT_GE(server.metric("vllm:generation_tokens_total"), static_cast<double>(told.tokens));
}

}  // namespace
}  // namespace tessera::http::soak_test
