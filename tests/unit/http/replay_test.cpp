// Simulated = real: the simulator takes every decision of a server's log again.
#include "tessera/serving/replay.h"

#include <gmock/gmock.h>

#include "tessera/core/rng.h"
#include "test_server.h"

namespace tessera::http::replay_test {
namespace {

using namespace test_server;

struct Case {
  std::string scheduler;
  std::int64_t kv_blocks = 60;
  bool caches = true, swaps = false, drafts = false;
};

class Replayed : public testing::TestWithParam<int> {};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {.scheduler = "vllm_v1"},
      {.scheduler = "vllm_v1", .kv_blocks = 34},
      {.scheduler = "vllm_v1", .caches = false},
      {.scheduler = "vllm_v1", .drafts = true},
      {.scheduler = "vllm_v0", .kv_blocks = 34},
      {.scheduler = "vllm_v0", .kv_blocks = 34, .caches = false, .swaps = true},
      {.scheduler = "sarathi"},
      {.scheduler = "sglang"},
      {.scheduler = "orca"},
      {.scheduler = "static"},
  };
  return all;
}

// Six choices come at one moment and want more blocks than a small cache has, whoever is quick.
void send_crowd(const TestServer& server) {
  const Json body{{"prompt", std::string(20, 'a')},
                  {"max_tokens", 100},
                  {"temperature", 0},
                  {"ignore_eos", true},
                  {"stream", true},
                  {"n", 6}};
  Client client(server.port);
  client.send(post("/v1/completions", shown_json(body)));
  EXPECT_THAT(client.receive_all(), testing::HasSubstr("[DONE]"));
}

// Requests that share the beginnings of their prompts; some leave after a few tokens, or at once.
void send_traffic(const TestServer& server, std::uint64_t seed) {
  std::vector<std::thread> clients;
  for (std::uint64_t k = 0; k < 6; ++k) {
    clients.emplace_back([&server, seed, k] {
      Rng rng(seed * 100 + k);
      for (int i = 0; i < 6; ++i) {
        const auto shared = static_cast<std::size_t>(rng.integer(0, 60));
        const std::string prompt = std::string(shared, 'a') + std::to_string(rng.integer(0, 3));
        const Json body{{"prompt", prompt},
                        {"max_tokens", rng.integer(1, 60)},
                        {"temperature", 0},
                        {"ignore_eos", rng.uniform() < 0.7},
                        {"stream", true},
                        {"n", rng.integer(1, 2)},
                        {"cache_salt", k == 0 ? "own" : ""}};
        Client client(server.port);
        client.send(post("/v1/completions", shown_json(body)));
        const double mode = rng.uniform();
        if (mode < 0.15) continue;
        if (mode < 0.4) {
          client.receive(
              [](const std::string& in) { return in.find("data:") != std::string::npos; });
          continue;
        }
        EXPECT_THAT(client.receive_all(), testing::HasSubstr("[DONE]"));
      }
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_P(Replayed, DecidesTheSame) {
  const Case& one = cases()[static_cast<std::size_t>(GetParam()) % cases().size()];
  TestServer::Options options{.kv_blocks = one.kv_blocks, .context = 200, .step_us = 100};
  options.records = true;
  options.engine.scheduler = one.scheduler;
  options.engine.enable_prefix_caching = one.caches;
  // It computes prompts whole, and again with what was said.
  if (one.scheduler == "vllm_v0") options.batched_tokens = 200;
  if (one.swaps) options.engine.preemption_mode = serving::PreemptionMode::swap;
  if (one.drafts) options.engine.speculative = serving::Speculation{.num_tokens = 3};
  TestServer server(std::move(options));
  if (one.drafts) {  // a text that repeats itself
    server.model->logit = [](std::int32_t, std::int32_t last, std::int32_t token) {
      return token == 'a' + (5 * last + 3) % 11 ? 9.0f : 0.0f;
    };
  }
  send_crowd(server);
  send_traffic(server, static_cast<std::uint64_t>(GetParam()));
  EXPECT_TRUE(server.is_idle());
  server.end();
  const serving::Served served = server.engine->take_record();
  EXPECT_GE(served.log.requests.size(), 42u);
  const serving::ReplicaRecord& sums = served.log.replicas.front();
  EXPECT_GT(sums.num_cancelled, 0);
  EXPECT_TRUE(one.kv_blocks == 60 || sums.num_preemptions > 0);
  EXPECT_TRUE(one.scheduler != "vllm_v1" || !one.caches || sums.prefix_hits > 0);
  EXPECT_TRUE(!one.drafts || sums.drafted_tokens > 0);
  EXPECT_TRUE(!one.swaps || sums.num_swaps > 0);
  const serving::ReplayCard card = serving::replay_card(served);
  const serving::Replay replay = serving::replay(card, served.log);
  EXPECT_TRUE(replay.identical) << one.scheduler << ": " << replay.first_difference.value_or("");
  EXPECT_EQ(replay.num_steps, std::ssize(served.log.steps));
}

INSTANTIATE_TEST_SUITE_P(TwentyTraffics, Replayed, testing::Range(0, 20));

}  // namespace
}  // namespace tessera::http::replay_test
