// A plan's stages behind a server, and what goes wrong with them while clients ask: stages are
// killed, stand still for a while or for long, clients cut their connections. Every request that
// was accepted ends once, and nothing is left.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "served_program.h"
#include "tessera/core/rng.h"

namespace tessera::test::serve_faults_test {
namespace {

using namespace http;
using namespace served_program;

constexpr int kFaultsOfAServer = 10, kKillsOfARank = 2;  // which it starts again twice a minute

std::string body() {
  return R"({"prompt":"the cat","max_tokens":90,"temperature":0,"ignore_eos":true,"stream":true})";
}

struct Ends {
  std::atomic<std::int64_t> whole = 0, failed = 0, cut = 0;
};

// Asks until it is told to end.
void ask_on(std::int32_t port, std::uint64_t seed, const std::string& text,
            const std::atomic<bool>& ends, Ends& told) {
  Rng rng(seed);
  while (!ends) {
    Client client(port);
    client.send(post("/v1/completions", body()));
    if (rng.integer(0, 4) == 0) {  // and leaves in the middle
      client.receive([](const std::string& in) { return in.size() > 900; });
      ++told.cut;
      continue;
    }
    const std::string answer = client.receive_all(90'000);
    const bool is_whole = answer.find("[DONE]") != std::string::npos;
    const bool is_error = answer.find("\"error\"") != std::string::npos;
    EXPECT_NE(is_whole, is_error) << answer;
    if (is_whole) {
      EXPECT_EQ(text_of_stream(answer), text);
    }
    ++(is_whole ? told.whole : told.failed);
  }
}

// @return faults that were made
int break_stages(pid_t server, Rng& rng, int most, std::map<pid_t, int>& seen) {
  std::map<int, int> kills;
  int made = 0;
  while (made < most) {
    std::this_thread::sleep_for(std::chrono::milliseconds(rng.integer(20, 400)));
    const std::map<int, pid_t> stages = stages_of(server);
    const int rank = static_cast<int>(rng.integer(0, 1));
    if (!stages.contains(rank)) continue;  // it comes back
    const pid_t stage = stages.at(rank);
    seen[stage] = rank;
    const std::int64_t kind = rng.integer(0, 9);
    const bool dies = kind < 3 || kind == 9;
    if (dies && kills[rank]++ >= kKillsOfARank) continue;
    ++made;
    if (kind < 3) {
      kill(stage, SIGKILL);
      continue;
    }
    // For less than the master waits for a sign of life, or for longer.
    kill(stage, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(kind == 9 ? 6000 : 300));
    kill(stage, SIGCONT);
  }
  return made;
}

class ServeFaults : public PlanTest {};

TEST_F(ServeFaults, EndEveryRequestOnceAndLeaveNothing) {
  const char* asked = std::getenv("TESSERA_SERVE_FAULTS");
  const int num_faults = asked != nullptr ? std::atoi(asked) : kFaultsOfAServer;
  ASSERT_GT(num_faults, 0);
  const std::string saved = plan();
  const Process alone =
      run_program({"generate", model(), "the cat", "--plan", saved, "--max-tokens", "90",
                   "--temperature", "0", "--threads", "1", "--ignore-stop-tokens", "--json"});
  ASSERT_EQ(alone.status, 0) << alone.err;
  const std::string text = Json::parse(alone.out)["text"].get<std::string>();
  Rng rng(17);
  Ends told;
  for (int made = 0; made < num_faults;) {
    std::map<pid_t, int> seen;
    const Process p = served(
        {},
        [&](auto port, pid_t pid) {
          std::atomic<bool> ends = false;
          std::vector<std::thread> clients;
          for (int i = 0; i < 6; ++i) {
            const auto seed = static_cast<std::uint64_t>(rng.integer(0, 1 << 30));
            clients.emplace_back([&, port, seed] { ask_on(port, seed, text, ends, told); });
          }
          made += break_stages(pid, rng, std::min(kFaultsOfAServer, num_faults - made), seen);
          ends = true;
          for (std::thread& client : clients) client.join();
          EXPECT_TRUE(is_idle(port));
          for (const auto& [rank, stage] : stages_of(pid)) seen[stage] = rank;
        },
        true, {saved, "--model", model(), "--device", "cpu"});
    EXPECT_EQ(p.status, 0) << p.err;
    for (const auto& [stage, rank] : seen) EXPECT_NE(kill(stage, 0), 0) << "rank " << rank;
  }
  EXPECT_GT(told.whole, 0);
  EXPECT_EQ(told.failed, 0) << "stages that come back end no stream";
  RecordProperty("whole", static_cast<int>(told.whole));
  RecordProperty("cut", static_cast<int>(told.cut));
}

}  // namespace
}  // namespace tessera::test::serve_faults_test
