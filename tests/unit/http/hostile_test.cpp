// Clients that leave, dawdle, lie or ask for what is not there: clear answers, nothing else
// disturbed.
#include <gmock/gmock.h>

#include "refusal.h"
#include "request_head.h"
#include "test_server.h"

namespace tessera::http::hostile_test {
namespace {

using namespace test_server;
using testing::HasSubstr;

Json long_request() {
  return {{"prompt", "go on"}, {"max_tokens", 400}, {"ignore_eos", true}, {"stream", true}};
}

TEST(Hostile, Fault1WhoLeavesIsForgottenWithinAStep) {
  TestServer server({.max_num_seqs = 2, .step_us = 20'000});
  Client stays(server.port);
  stays.send(post("/v1/completions", shown_json(long_request())));
  stays.receive([](const std::string& text) { return text.find("data:") != std::string::npos; });
  {
    Client streams(server.port), waits(server.port), whole(server.port);
    streams.send(post("/v1/completions", shown_json(long_request())));
    streams.receive(
        [](const std::string& text) { return text.find("data:") != std::string::npos; });
    waits.send(post("/v1/completions", shown_json(long_request())));
    Json body = long_request();
    body["stream"] = false;
    whole.send(post("/v1/completions", shown_json(body)));
    for (int i = 0; i < 20'000 && server.engine->state().num_waiting < 2; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(server.engine->state().num_waiting, 2);
  }
  // Of 400 steps that each of them had before it, those that pass until their sockets are closed.
  const std::int64_t left = server.num_steps;
  const auto here = [&] {
    const EngineState state = server.engine->state();
    return state.num_waiting + state.num_running;
  };
  for (int i = 0; i < 5000 && here() > 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_LT(server.num_steps - left, 100);
  EXPECT_EQ(server.engine->state().num_running, 1) << "somebody else's request ended";
  server.step_us = 0;
  const std::string rest = stays.receive_all();
  EXPECT_THAT(rest, HasSubstr("[DONE]"));
  EXPECT_TRUE(server.is_idle());
  EXPECT_EQ(server.metric("vllm:request_success_total{finished_reason=\"abort\""), 3);
  EXPECT_EQ(server.metric("vllm:e2e_request_latency_seconds_count"), 4);
}

TEST(Hostile, Fault1WhoLeavesWhileItsPromptIsReadIsForgotten) {
  TestServer server({.batched_tokens = 8, .step_us = 20'000});
  {
    Client reads(server.port);
    Json body = long_request();
    body["prompt"] = std::string(400, 'p');  // 50 steps
    body["max_tokens"] = 20;
    reads.send(post("/v1/completions", shown_json(body)));
    for (int i = 0; i < 20'000 && server.num_steps < 2; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(server.is_idle());
  EXPECT_LT(server.num_steps, 40);
  EXPECT_EQ(server.metric("vllm:time_to_first_token_seconds_count"), 0);
}

// Its drafts are under way as it leaves; who stays has what it would have had alone.
TEST(Hostile, Fault2ACancelOfWhoSpeculatesFreesItAndNobodyElse) {
  TestServer::Options options{.max_num_seqs = 3, .step_us = 2000};
  options.engine.speculative = serving::Speculation{.num_tokens = 3};
  TestServer server(std::move(options));
  server.model->logit = [](std::int32_t, std::int32_t last, std::int32_t token) {
    return token == 'a' + (5 * last + 3) % 11 ? 9.0f : 0.0f;  // a text that repeats itself
  };
  Json body = long_request();
  body.update({{"temperature", 0}, {"max_tokens", 200}});
  Json whole = body;
  whole["stream"] = false;
  const std::string alone = server.complete(whole).json()["choices"][0]["text"].get<std::string>();
  Client stays(server.port);
  stays.send(post("/v1/completions", shown_json(body)));
  for (int i = 0; i < 12; ++i) {
    Client leaves(server.port);
    leaves.send(post("/v1/completions", shown_json(body)));
    leaves.receive([](const std::string& text) { return text.find("data:") != std::string::npos; });
  }
  std::string text;
  for (const std::string& event : events_of(answer_of(stays.receive_all()).body)) {
    if (event != "[DONE]") text += Json::parse(event)["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, alone);
  EXPECT_TRUE(server.is_idle());
  EXPECT_GT(server.metric("vllm:spec_decode_num_accepted_tokens_total"), 0);
}

TEST(Hostile, Fault9WhoLeavesIsInEveryCountAndInNoGauge) {
  const TestServer server({.step_us = 3000});
  const Answer whole =
      server.complete({{"prompt", "go on"}, {"max_tokens", 4}, {"ignore_eos", true}});
  ASSERT_EQ(whole.status, 200) << whole.body;
  const std::int64_t prompt_tokens = Json::parse(whole.body)["usage"]["prompt_tokens"];
  for (int i = 0; i < 3; ++i) {
    Client client(server.port);
    client.send(post("/v1/completions", shown_json(long_request())));
    client.receive([](const std::string& text) { return text.find("data:") != std::string::npos; });
  }
  EXPECT_TRUE(server.is_idle());
  for (const char* gauge :
       {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"})
    EXPECT_EQ(server.metric(gauge), 0) << gauge;
  EXPECT_EQ(server.metric("vllm:request_success_total{finished_reason=\"abort\""), 3);
  EXPECT_EQ(server.metric("vllm:request_success_total{finished_reason=\"length\""), 1);
  for (const char* count :
       {"vllm:e2e_request_latency_seconds_count", "vllm:request_prompt_tokens_count",
        "vllm:request_generation_tokens_count", "vllm:time_to_first_token_seconds_count"})
    EXPECT_EQ(server.metric(count), 4) << count;
  EXPECT_EQ(server.metric("vllm:request_prompt_tokens_sum"), 4 * prompt_tokens);
}

TEST(Hostile, WhoComesAndGoesLeavesNothingBehind) {
  const TestServer server({.kv_blocks = 200, .step_us = 100});
  for (int i = 0; i < 120; ++i) {
    Client client(server.port);
    client.send(post("/v1/completions", shown_json(long_request())));
    if (i % 3 == 0) continue;  // before anything
    int events = 0;
    client.receive([&](const std::string& text) {
      events = 0;
      for (std::size_t at = 0; (at = text.find("data:", at)) != std::string::npos; ++at) ++events;
      return events >= 3;
    });
    EXPECT_GE(events, 3);
  }
  EXPECT_TRUE(server.is_idle());
  EXPECT_EQ(server.complete({{"prompt", "x"}, {"max_tokens", 3}}).status, 200);
}

TEST(Hostile, WhoReadsTooSlowlyIsCutOff) {
  TestServer::Options options{.kv_blocks = 20'000, .context = 100'000};
  options.limits.max_unsent = 64 << 10;
  const TestServer server(std::move(options));
  Client client(server.port, 4096);
  Json body = long_request();
  body["max_tokens"] = 90'000;
  body["n"] = 4;
  client.send(post("/v1/completions", shown_json(body)));
  for (int i = 0; i < 20'000 && server.engine->state().num_running == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(server.is_idle(30'000));
  EXPECT_EQ(server.metric("tessera:slow_readers_total"), 1);
}

TEST(Hostile, HeadsThatTwoReadersWouldReadApartAreRefused) {
  const TestServer server;
  const std::string line = "POST /v1/completions HTTP/1.1\r\n", host = "Host: localhost\r\n";
  const std::string type = "Content-Type: application/json\r\n";
  struct Case {
    std::string request;
    int status;
  };
  const std::string chunked = line + host + type + "Transfer-Encoding: chunked\r\n\r\n";
  const std::vector<Case> cases{
      {line + host + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde", 400},
      {line + host + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {line + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {line + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
      {line + host + "Transfer-Encoding: xchunked\r\n\r\n", 400},
      {line + host + "Content-Length: -5\r\n\r\n", 400},
      {line + host + "Content-Length: +5\r\n\r\n", 400},
      {line + host + "Content-Length: 5, 5\r\n\r\n", 400},
      {line + host + "Content-Length: 0x5\r\n\r\n", 400},
      {line + host + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {line + host + "Content-Length : 5\r\n\r\nabcde", 400},
      {line + host + "X: a\r\n folded\r\n\r\n", 400},
      {line + host + " X: a\r\n\r\n", 400},
      {line + host + host + "\r\n", 400},
      {line + "\r\n", 400},
      {line + host + std::string("X: a\0b\r\n\r\n", 10), 400},
      {line + host + "X: a\rb\r\n\r\n", 400},
      {line + host + "X\x80: a\r\n\r\n", 400},
      {"POST /v1/completions HTTP/1.1\n" + host + "\n", 400},
      {"POST  /v1/completions HTTP/1.1\r\n" + host + "\r\n", 400},
      {"POST /a b HTTP/1.1\r\n" + host + "\r\n", 400},
      {"POST http://localhost/v1/completions HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /health HTTP/2.0\r\n" + host + "\r\n", 400},
      {"\x16\x03\x01\x02\x01\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\n" + host + "X: " + std::string(20'000, 'a') + "\r\n\r\n", 431},
      {std::string(30'000, 'a'), 431},
      {chunked + "-2\r\nab\r\n0\r\n\r\n", 400},
      {chunked + "ffffffffffffffffff\r\nab\r\n", 400},
      {chunked + "2 \n\r\nab\r\n0\r\n\r\n", 400},
      {chunked + "2\r\nabcd\r\n0\r\n\r\n", 400},
      {chunked + "zz\r\n", 400},
      {line + host + "Expect: 200-ok\r\nContent-Length: 5\r\n\r\n", 417},
      {line + host + type + "Content-Length: 104857600\r\n\r\n", 413},
      {line + host + "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415},
      {line + "Host: evil.example\r\n" + type + "Content-Length: 2\r\n\r\n{}", 421},
      {line + "Host: 127.0.0.1.evil.example\r\n" + type + "Content-Length: 2\r\n\r\n{}", 421},
      {"DELETE /v1/models HTTP/1.1\r\n" + host + "\r\n", 405},
      {"GET /v1/completions HTTP/1.1\r\n" + host + "\r\n", 405},
      {"GET /nothing HTTP/1.1\r\n" + host + "\r\n", 404},
      {"GET /health HTTP/1.1\r\n" + host + "\r\n", 200},
      {"GET /health HTTP/1.0\r\n\r\n", 200},
      {"GET /v1/models HTTP/1.1\r\nHost: [::1]:8000\r\n\r\n", 200},
  };
  for (const Case& one : cases) {
    Client client(server.port);
    client.send(one.request);
    const std::string text = client.receive(
        [](const std::string& in) { return in.find("\r\n\r\n") != std::string::npos; });
    EXPECT_EQ(answer_of(text).status, one.status) << one.request.substr(0, 200);
  }
  EXPECT_EQ(server.complete({{"prompt", "x"}, {"max_tokens", 1}}).status, 200);
}

TEST(Hostile, BodiesBeyondTheLimitEndByLengthAndByChunks) {
  const TestServer server;
  Client client(server.port);
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
      "application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "100000\r\n" + std::string(1 << 20, ' ') + "\r\n";
  for (int i = 0; i < 100 && client.send(chunk); ++i) {
  }
  EXPECT_EQ(answer_of(client.receive_all()).status, 413);
  const std::string brackets(100'000, '[');
  const Answer nested = server.ask(post("/v1/completions", "{\"prompt\":" + brackets));
  EXPECT_EQ(nested.status, 400);
  EXPECT_THAT(nested.message(), HasSubstr("nested deeper than 32 levels"));
}

TEST(Hostile, FieldsAreNamed) {
  const TestServer server;
  struct Case {
    const char *body, *param, *message;
  };
  const std::vector<Case> cases{
      {"", "null", "empty"},
      {"[]", "null", "no JSON object"},
      {"{", "null", "not valid JSON"},
      {R"({"prompt":"\ud800"})", "null", "not valid JSON"},
      {"{\"prompt\":\"\xff\"}", "null", "UTF-8"},
      {R"({"prompt":"a","prompt":"b"})", "null", "twice"},
      {"{}", R"("prompt")", "missing"},
      {R"({"prompt":""})", "null", ""},
      {R"({"prompt":[]})", R"("prompt")", "empty"},
      {R"({"prompt":[[]]})", R"("prompt")", "empty"},
      {R"({"prompt":{}})", R"("prompt")", "belongs here"},
      {R"({"prompt":[1,"a"]})", R"("prompt")", "no token id"},
      {R"({"prompt":[-1]})", R"("prompt")", "no token id"},
      {R"({"prompt":[100000]})", R"("prompt")", "beyond the vocabulary"},
      {R"({"prompt":"a","temprature":1})", R"("temprature")", "did you mean 'temperature'"},
      {R"({"prompt":"a","temperature":2.5})", R"("temperature")", "[0, 2]"},
      {R"({"prompt":"a","temperature":-1})", R"("temperature")", "[0, 2]"},
      {R"({"prompt":"a","temperature":"1"})", R"("temperature")", "a string where a number"},
      {R"({"prompt":"a","temperature":1e999})", "null", "too large"},
      {R"({"prompt":"a","top_p":0})", R"("top_p")", "(0, 1]"},
      {R"({"prompt":"a","n":0})", R"("n")", "[1, 128]"},
      {R"({"prompt":"a","n":1.5})", R"("n")", "not an integer"},
      {R"({"prompt":"a","n":129})", R"("n")", "[1, 128]"},
      {R"({"prompt":"a","max_tokens":0})", R"("max_tokens")", "0 is for echo"},
      {R"({"prompt":"a","max_tokens":-1})", R"("max_tokens")", "outside"},
      {R"({"prompt":"a","stream":1})", R"("stream")", "true or false"},
      {R"({"prompt":"a","stop":[1]})", R"("stop")", "strings"},
      {R"({"prompt":"a","stop":""})", R"("stop")", "empty"},
      {R"({"prompt":"a","logprobs":21})", R"("logprobs")", "[0, 20]"},
      {R"({"prompt":"a","logprobs":true})", R"("logprobs")", "a boolean where"},
      {R"({"prompt":"a","logit_bias":{"a":1}})", R"("logit_bias")", "no token id"},
      {R"({"prompt":"a","logit_bias":{"99999":1}})", R"("logit_bias")", "vocabulary"},
      {R"({"prompt":"a","logit_bias":{"9":101}})", R"("logit_bias")", "[-100, 100]"},
      {R"({"prompt":"a","presence_penalty":3})", R"("presence_penalty")", "[-2, 2]"},
      {R"({"prompt":"a","best_of":2})", R"("best_of")", "not offered"},
      {R"({"prompt":"a","suffix":"x"})", R"("suffix")", "not offered"},
      {R"({"prompt":"a","stream_options":{}})", R"("stream_options")", "stream"},
      {R"({"prompt":"a","messages":[]})", R"("messages")", "unknown field"},
      {R"({"prompt":"a","max_tokens":600})", R"("prompt")", "together 602"},
      {R"({"prompt":"a","seed":-1})", R"("seed")", "outside"},
  };
  for (const Case& one : cases) {
    const Answer answer = server.ask(post("/v1/completions", one.body));
    if (std::string_view(one.message).empty()) {
      EXPECT_EQ(answer.status, 200) << one.body << answer.body;  // its first token is a prompt
      continue;
    }
    ASSERT_EQ(answer.status, 400) << one.body << answer.body;
    EXPECT_EQ(answer.param(), one.param) << one.body;
    EXPECT_THAT(answer.message(), HasSubstr(one.message)) << one.body;
  }
  const auto chat = [&](const char* body) {
    return server.ask(post("/v1/chat/completions", body));
  };
  EXPECT_THAT(chat(R"({"messages":[]})").message(), HasSubstr("there is none"));
  EXPECT_THAT(chat(R"({"messages":[{"role":"user","content":"a"}],"tools":[]})").message(),
              HasSubstr("'tools' is not offered"));
  EXPECT_THAT(chat(R"({"messages":[{"role":"user","content":"a"}],"logprobs":1})").param(),
              HasSubstr("logprobs"));
  const Answer passed = chat(
      R"({"messages":[{"role":"user","content":"a"}],"user":"me","store":true,"max_tokens":2})");
  EXPECT_EQ(passed.status, 200) << passed.body;
}

TEST(Hostile, Fault7PromptsBeyondTheContextAreNeverCut) {
  const TestServer server;
  const Answer answer = server.complete({{"prompt", std::string(600, 'x')}, {"max_tokens", 5}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json()["error"]["code"], "context_length_exceeded");
  EXPECT_THAT(answer.message(), HasSubstr("601 tokens, the context 512"));
  const Answer both = server.complete({{"prompt", std::string(500, 'x')}, {"max_tokens", 50}});
  EXPECT_EQ(both.status, 400);
  EXPECT_THAT(both.message(),
              HasSubstr("501 tokens and max_tokens is 50, together 551; the context has 512"));
}

TEST(Hostile, ManyIdleAndHalfSentConnectionsDisturbNobody) {
  TestServer::Options options;
  options.limits.request_timeout = HttpServer::Seconds(0.5);
  const TestServer server(std::move(options));
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 300; ++i) {
    clients.push_back(std::make_unique<Client>(server.port));
    if (i % 2 == 0) clients.back()->send("POST /v1/completions HTTP/1.1\r\nHost: loc");
  }
  EXPECT_EQ(server.complete({{"prompt", "x"}, {"max_tokens", 3}}).status, 200);
  EXPECT_EQ(answer_of(clients[0]->receive_all()).status, 408);
  EXPECT_TRUE(clients[0]->is_ended());
  clients[1]->send(get("/health"));
  EXPECT_EQ(answer_of(clients[1]->receive_all()).status, 200) << "an idle one may go on";
}

TEST(Hostile, ConnectionsHaveALimit) {
  TestServer::Options options;
  options.limits.max_connections = 4;
  const TestServer server(std::move(options));
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(std::make_unique<Client>(server.port));
  Client beyond(server.port);
  EXPECT_EQ(answer_of(beyond.receive_all()).status, 503);
  clients.clear();
  for (int i = 0; i < 2000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (server.ask(get("/health")).status == 200) return;
  }
  ADD_FAILURE() << "nobody gets in again";
}

TEST(Hostile, AFullQueueSaysSo) {
  const TestServer server({.max_num_seqs = 1, .max_waiting = 1, .step_us = 20'000});
  Client first(server.port), second(server.port);
  first.send(post("/v1/completions", shown_json(long_request())));
  first.receive([](const std::string& text) { return text.find("data:") != std::string::npos; });
  second.send(post("/v1/completions", shown_json(long_request())));
  for (int i = 0; i < 20'000 && server.engine->state().num_waiting == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const Answer full = server.complete(long_request());
  EXPECT_EQ(full.status, 503);
  EXPECT_THAT(full.head, HasSubstr("Retry-After"));
}

TEST(Hostile, AKeyIsAskedForEverywhereButOfHealth) {
  const TestServer server({.api_key = "0123456789abcdef"});
  const Answer none = server.ask(get("/v1/models"));
  EXPECT_EQ(none.status, 401);
  EXPECT_THAT(none.head, HasSubstr("WWW-Authenticate: Bearer"));
  EXPECT_EQ(server.ask(get("/v1/models", "Authorization: Bearer 0123456789abcdeX\r\n")).status,
            401);
  EXPECT_EQ(server.ask(get("/metrics", "Authorization: Bearer 0123456789abcde\r\n")).status, 401);
  EXPECT_EQ(server.ask(get("/v1/models", "Authorization: Bearer 0123456789abcdef\r\n")).status,
            200);
  EXPECT_EQ(server.ask(get("/health")).status, 200);
}

TEST(Hostile, WhatIsUnderWayEndsBeforeTheServer) {
  TestServer server({.step_us = 20'000});
  Client client(server.port);
  Json body = long_request();
  body["max_tokens"] = 100;
  client.send(post("/v1/completions", shown_json(body)));
  client.receive([](const std::string& text) { return text.find("data:") != std::string::npos; });
  std::atomic<bool> is_done = false;
  server.on_io([&] { server.service->drain([&] { is_done = true; }); });
  for (int i = 0; i < 2000 && server.ask(get("/health")).status != 503; ++i) {
  }
  EXPECT_EQ(server.complete(body).status, 503);
  server.step_us = 0;
  EXPECT_THAT(client.receive_all(), HasSubstr("[DONE]"));
  for (int i = 0; i < 20'000 && !is_done; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(is_done);
}

TEST(Hostile, WhatIsCutShortIsToldSo) {
  TestServer server({.step_us = 20'000});
  Client streams(server.port), whole(server.port);
  Json body = long_request();
  streams.send(post("/v1/completions", shown_json(body)));
  streams.receive([](const std::string& text) { return text.find("data:") != std::string::npos; });
  body["stream"] = false;
  whole.send(post("/v1/completions", shown_json(body)));
  for (int i = 0; i < 20'000 && server.engine->state().num_running < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server.on_io([&] { server.service->fail_all(503, "the server was told to end"); });
  const std::string rest = streams.receive_all();
  EXPECT_THAT(rest, HasSubstr("\"error\""));
  EXPECT_THAT(rest, testing::Not(HasSubstr("[DONE]")));
  EXPECT_EQ(answer_of(whole.receive_all()).status, 503);
}

TEST(OwnHost, IsThisMachineAlone) {
  for (const char* host :
       {"localhost", "LOCALHOST:80", "127.0.0.1:8000", "127.9.9.9", "[::1]", "[::1]:8000"})
    EXPECT_TRUE(is_own_host(host, "127.0.0.1")) << host;
  for (const char* host : {"", "example.org", "localhost.evil", "127.0.0.1.evil", "127.evil",
                           "[::2]", "[::1", "[::1]x", "1.2.3.4"})
    EXPECT_FALSE(is_own_host(host, "127.0.0.1")) << host;
}

}  // namespace
}  // namespace tessera::http::hostile_test
