// The live page: what a browser gets at / and /events.
#include <gmock/gmock.h>

#include <set>

#include "test_server.h"

namespace tessera::http::view_test {
namespace {

using namespace test_server;
using testing::HasSubstr;

/// Who looks at /events.
class Viewer {
 public:
  explicit Viewer(const TestServer& server) : client_(server.port) { client_.send(get("/events")); }
  /// Views that come until one fits; the last of them is that one. Null: none came.
  Json wait_for(const std::function<bool(const Json&)>& fits) {
    while (true) {
      client_.receive([&](const std::string& in) {
        text_ += in.substr(seen_);
        seen_ = in.size();
        return text_.find("\n\n") != std::string::npos;
      });
      seen_ = 0;
      const std::size_t end = text_.find("\n\n");
      if (end == std::string::npos) return nullptr;
      const std::size_t begin = text_.rfind("data: ", end);
      const Json view = Json::parse(text_.substr(begin + 6, end - begin - 6));
      text_.erase(0, end + 2);
      if (fits(view)) return view;
    }
  }
  Client& client() { return client_; }

 private:
  Client client_;
  std::string text_;
  std::size_t seen_ = 0;
};

bool any(const Json&) { return true; }

Json long_request() {
  return {{"prompt", "go on"}, {"max_tokens", 400}, {"ignore_eos", true}, {"stream", true}};
}

TEST(View, ThePageAsksNobodyButItsServer) {
  const TestServer server;
  const Answer page = server.ask(get("/"));
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, "<p>page</p>");
  EXPECT_THAT(page.head, HasSubstr("Content-Type: text/html"));
  EXPECT_THAT(page.head, HasSubstr("default-src 'none'"));
  EXPECT_EQ(server.ask("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").status,
            405);
  EXPECT_EQ(server.ask("GET / HTTP/1.1\r\nHost: stranger\r\nConnection: close\r\n\r\n").status,
            421);
}

TEST(View, ShowsTheEngineAsItIs) {
  const TestServer server({.step_us = 20'000});
  Viewer viewer(server);
  const Json idle = viewer.wait_for(any);
  EXPECT_EQ(idle["num_running"], 0);
  EXPECT_EQ(idle["used_blocks"], 0);
  EXPECT_TRUE(idle["requests"].empty());
  Client client(server.port);
  client.send(post("/v1/completions", shown_json(long_request())));
  const Json busy = viewer.wait_for([](const Json& view) { return view["output_tokens"] > 20; });
  ASSERT_EQ(busy["requests"].size(), 1u);
  const Json& request = busy["requests"][0];
  EXPECT_EQ(request["state"], "running");
  EXPECT_EQ(request["output_tokens"], busy["output_tokens"]);
  // Of each block one name, all of them in the cache.
  std::set<std::int64_t> blocks;
  for (std::size_t i = 0; i < request["blocks"].size(); i += 2) {
    for (std::int64_t k = 0; k < request["blocks"][i + 1]; ++k)
      blocks.insert(request["blocks"][i].get<std::int64_t>() + k);
  }
  EXPECT_EQ(std::ssize(blocks), busy["used_blocks"].get<std::int64_t>());
  EXPECT_GE(*blocks.begin(), 0);
  EXPECT_LT(*blocks.rbegin(), busy["kv_blocks"].get<std::int64_t>());
  ASSERT_FALSE(busy["steps"].empty());
  const Json& last = busy["steps"].back();
  EXPECT_EQ(last["decode_tokens"], 1);
  EXPECT_GE(last["duration_s"].get<double>(), 0.02);
  client.close();
  // The last view is of an engine that is idle again.
  const Json over = viewer.wait_for([](const Json& view) { return view["num_running"] == 0; });
  EXPECT_EQ(over["used_blocks"], 0);
}

TEST(View, ShowsTheQueue) {
  const TestServer server({.max_num_seqs = 1, .step_us = 20'000});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<Client>(server.port));
    clients.back()->send(post("/v1/completions", shown_json(long_request())));
  }
  Viewer viewer(server);
  const Json view = viewer.wait_for(
      [](const Json& now) { return now["num_running"] == 1 && now["num_waiting"] == 2; });
  ASSERT_EQ(view["requests"].size(), 3u);
  EXPECT_EQ(view["requests"][0]["state"], "running");
  EXPECT_EQ(view["requests"][2]["state"], "waiting");
}

TEST(View, WhoLeavesIsForgottenAndTooManyAreRefused) {
  const TestServer server;
  std::vector<std::unique_ptr<Viewer>> viewers;
  for (int i = 0; i < 16; ++i) {
    viewers.push_back(std::make_unique<Viewer>(server));
    ASSERT_FALSE(viewers.back()->wait_for(any).is_null());
  }
  EXPECT_EQ(server.ask(get("/events")).status, 503);
  viewers.resize(8);
  Json view = nullptr;
  for (int i = 0; i < 1000 && view.is_null(); ++i) {
    // Until the server has noticed.
    Client client(server.port);
    client.send(get("/events"));
    if (client.receive([](const std::string& in) { return in.size() > 15; }).find(" 200 ") !=
        std::string::npos)
      view = true;
  }
  EXPECT_FALSE(view.is_null());
  EXPECT_EQ(server.complete({{"prompt", "a"}, {"max_tokens", 3}}).status, 200);
}

TEST(View, AnswersHeadAndEndsWithItsServer) {
  TestServer server;
  const Answer head =
      server.ask("HEAD /events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(head.status, 200);
  Viewer viewer(server);
  ASSERT_FALSE(viewer.wait_for(any).is_null());
  std::atomic<bool> is_done = false;
  server.on_io([&] { server.service->drain([&] { is_done = true; }); });
  EXPECT_THAT(viewer.client().receive_all(), testing::EndsWith("0\r\n\r\n"));
  EXPECT_TRUE(is_done);
}

TEST(View, AsksForTheKey) {
  const TestServer server({.api_key = "abc"});
  EXPECT_EQ(server.ask(get("/")).status, 200);
  EXPECT_EQ(server.ask(get("/events")).status, 401);
  Client client(server.port);
  client.send(get("/events", "Authorization: Bearer abc\r\n"));
  EXPECT_THAT(
      client.receive([](const std::string& in) { return in.find("data: ") != std::string::npos; }),
      HasSubstr("num_running"));
}

}  // namespace
}  // namespace tessera::http::view_test
