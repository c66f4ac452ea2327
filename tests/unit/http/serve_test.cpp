// What clients get, and some of the ten faults of other servers, each a test by its number (the
// others are beside hostile clients and programs): the texts of lm::generate whatever runs beside,
// and OpenAI's shapes.
#include <gmock/gmock.h>

#include <set>

#include "tessera/core/text.h"
#include "tessera/lm/generate.h"
#include "test_server.h"

namespace tessera::http::serve_test {
namespace {

using namespace test_server;
using testing::HasSubstr;

std::string text_of(const Json& answer, std::size_t choice = 0) {
  return answer["choices"][choice]["text"].get<std::string>();
}

struct Streamed {
  std::string text, finish_reason;
  int num_ends = 0, num_usages = 0;
  bool is_done = false;
  Json usage = nullptr, logprobs = Json::array();
};

Streamed streamed(const Answer& answer, std::size_t choice = 0) {
  Streamed all;
  for (const std::string& event : events_of(answer.body)) {
    EXPECT_FALSE(all.is_done) << "something follows [DONE]";
    if (event == "[DONE]") {
      all.is_done = true;
      continue;
    }
    const Json chunk = Json::parse(event);
    if (chunk.contains("usage")) {
      ++all.num_usages;
      all.usage = chunk["usage"];
      EXPECT_TRUE(chunk["choices"].empty());
    }
    for (const Json& one : chunk["choices"]) {
      if (one["index"] != choice) continue;
      if (one.contains("text")) all.text += one["text"].get<std::string>();
      if (one.contains("delta") && one["delta"].contains("content"))
        all.text += one["delta"]["content"].get<std::string>();
      if (!one["logprobs"].is_null()) all.logprobs.push_back(one["logprobs"]);
      if (one["finish_reason"].is_null()) continue;
      ++all.num_ends;
      all.finish_reason = one["finish_reason"].get<std::string>();
    }
  }
  return all;
}

std::string alone(const TestServer& server, const std::string& prompt, std::int64_t max_tokens,
                  lm::SamplingOptions sampling = {.temperature = 0}) {
  lm::GenerateRequest request{
      .sampling = sampling, .max_tokens = max_tokens, .ignore_stop_tokens = true};
  return lm::generate(*server.model, server.model->own_tokens.encode(prompt), request).text;
}

Json wants(const std::string& prompt, std::int64_t max_tokens) {
  return {{"prompt", prompt}, {"max_tokens", max_tokens}, {"temperature", 0}, {"ignore_eos", true}};
}

TEST(Serve, SaysWhatOneProcessSaysWhateverRunsBeside) {
  const TestServer server;
  std::vector<std::thread> clients;
  for (int i = 0; i < 24; ++i) {
    clients.emplace_back([&server, i] {
      const std::string prompt = fmt::format("prompt {} {}", i % 5, std::string(i * 3, 'x'));
      Json body = wants(prompt, 10 + i);
      const std::string expected = alone(server, prompt, 10 + i);
      if (i % 3 == 1) {
        body["temperature"] = 0.9;
        body["seed"] = i;
      }
      const std::string wanted =
          i % 3 == 1 ? alone(server, prompt, 10 + i,
                             {.temperature = 0.9, .seed = static_cast<std::uint64_t>(i)})
                     : expected;
      body["stream"] = i % 2 == 0;
      const Answer answer = server.complete(body);
      ASSERT_EQ(answer.status, 200) << answer.body;
      EXPECT_EQ(i % 2 == 0 ? streamed(answer).text : text_of(answer.json()), wanted) << i;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(server.is_idle());
}

TEST(Serve, StreamsWhatItAnswersWhole) {
  const TestServer server;
  for (const char* options :
       {"{}", R"({"temperature":1,"seed":3})", R"({"stop":["e","zz"]})", R"({"logprobs":2})",
        R"({"n":3,"seed":4,"temperature":1})", R"({"echo":true})", R"({"echo":true,"logprobs":1})",
        R"({"max_tokens":7,"stop":["never there"]})"}) {
    Json body = wants("A prompt", 40);
    body.update(Json::parse(options));
    const Json whole = server.complete(body).json();
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    const Answer answer = server.complete(body);
    for (std::size_t i = 0; i < whole["choices"].size(); ++i) {
      const Streamed stream = streamed(answer, i);
      EXPECT_EQ(stream.text, text_of(whole, i)) << options;
      EXPECT_EQ(stream.finish_reason, whole["choices"][i]["finish_reason"]) << options;
      EXPECT_EQ(stream.num_ends, 1);
      EXPECT_EQ(stream.num_usages, 1);
      EXPECT_TRUE(stream.is_done);
      Json usage = whole["usage"];
      usage.erase("prompt_tokens_details");  // the second one finds the first one's blocks
      Json again = stream.usage;
      again.erase("prompt_tokens_details");
      EXPECT_EQ(again, usage) << options;
    }
  }
}

TEST(Serve, Fault5TellsOfUsageOnlyWhereItIsAskedForAndOfEveryChoice) {
  const TestServer server;
  Json body = wants("abc", 5);
  body["stream"] = true;
  EXPECT_EQ(streamed(server.complete(body)).num_usages, 0);
  body["stream_options"] = Json::object();
  EXPECT_EQ(streamed(server.complete(body)).num_usages, 0);
  body["n"] = 2;
  body["prompt"] = {"abc", "wxyz"};
  body["stream_options"] = {{"include_usage", true}};
  const Streamed stream = streamed(server.complete(body));
  EXPECT_EQ(stream.usage["prompt_tokens"], 4 + 5);  // each prompt once, with its first token
  EXPECT_EQ(stream.usage["completion_tokens"], 4 * 5);
}

TEST(Serve, Fault4StopsAtTheEarliestTextAndKeepsWhatDidNotBecomeOne) {
  const TestServer server;
  const std::string text = alone(server, "Tell", 60);
  ASSERT_GT(text.size(), 20u);
  // Two texts across tokens, of which the one that comes first counts, and one that never ends.
  const std::string later = text.substr(14, 3), first = text.substr(8, 4);
  const std::size_t at = std::min(text.find(first), text.find(later));
  Json body = wants("Tell", 60);
  body["stop"] = {later, first, text.substr(text.size() - 2) + "!"};
  for (const bool streams : {false, true}) {
    body["stream"] = streams;
    const Answer answer = server.complete(body);
    EXPECT_EQ(streams ? streamed(answer).text : text_of(answer.json()), text.substr(0, at));
    if (!streams) {
      EXPECT_EQ(answer.json()["choices"][0]["finish_reason"], "stop");
      EXPECT_EQ(answer.json()["choices"][0]["stop_reason"],
                text.substr(at).starts_with(first) ? first : later);
    }
  }
  body["stop"] = text.substr(text.size() - 2) + "!";
  body["stream"] = false;
  EXPECT_EQ(text_of(server.complete(body).json()), text) << "an end that was held back is lost";
  EXPECT_TRUE(server.is_idle());
}

TEST(Serve, Fault3GivesWholeCharactersAndLeavesOutWhatTheEndCuts) {
  const TestServer server;
  const std::string cycle = "a\xC3\xA9\xF0\x9F\x99\x82";  // one, two and four bytes
  server.model->logit = [cycle](std::int32_t before, std::int32_t last, std::int32_t token) {
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      const auto byte = [&](std::size_t k) {
        return static_cast<std::int32_t>(static_cast<unsigned char>(cycle[k % cycle.size()]));
      };
      const bool here = byte(i) == last && (last == 'a' || byte(i + cycle.size() - 1) == before);
      if (here) return token == byte(i + 1) ? 9.0f : 0.0f;
    }
    return token == 'a' ? 9.0f : 0.0f;
  };
  std::string all;
  for (int i = 0; i < 4; ++i) all += cycle;
  for (std::int64_t count = 1; count < 20; ++count) {
    std::string expected = all.substr(0, static_cast<std::size_t>(count));
    expected = std::string(utf8_prefix(expected));
    for (const bool streams : {false, true}) {
      Json body = wants("zz", count);
      body["stream"] = streams;
      const Answer answer = server.complete(body);
      EXPECT_EQ(streams ? streamed(answer).text : text_of(answer.json()), expected) << count;
      if (streams) continue;
      EXPECT_EQ(answer.json()["usage"]["completion_tokens"], count);
    }
  }
}

TEST(Serve, DrawsChoicesBySeedsInARow) {
  const TestServer server;
  Json body = wants("seeds", 12);
  body["temperature"] = 1.2;
  body["seed"] = 40;
  body["n"] = 3;
  const Json answer = server.complete(body).json();
  ASSERT_EQ(answer["choices"].size(), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(text_of(answer, i), alone(server, "seeds", 12, {.temperature = 1.2, .seed = 40 + i}));
    EXPECT_EQ(answer["choices"][i]["index"], i);
  }
}

TEST(Serve, Fault6GivesLogProbabilitiesInTheShapeOfTheEndpoint) {
  const TestServer server;
  Json body = wants("likely", 8);
  body["logprobs"] = 0;
  const Json none = server.complete(body).json()["choices"][0]["logprobs"];
  ASSERT_EQ(none["tokens"].size(), 8u);
  EXPECT_EQ(none["token_logprobs"].size(), 8u);
  EXPECT_EQ(none["text_offset"][0], 0);
  EXPECT_EQ(none["top_logprobs"][0].size(), 1u) << "the chosen one";
  body["logprobs"] = 3;
  const Json three = server.complete(body).json()["choices"][0]["logprobs"];
  EXPECT_GE(three["top_logprobs"][0].size(), 3u);
  auto history = server.model->own_tokens.encode("likely");
  const std::vector<double> expected = server.model->log_probabilities(history);
  EXPECT_NEAR(three["token_logprobs"][0].get<double>(),
              *std::max_element(expected.begin(), expected.end()), 1e-5);
  Json chat{{"messages", Json::array({{{"role", "user"}, {"content", "hi"}}})},
            {"max_tokens", 4},
            {"ignore_eos", true},
            {"temperature", 0},
            {"logprobs", true},
            {"top_logprobs", 2}};
  const Json content = server.chat(chat).json()["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 4u);
  EXPECT_EQ(content[0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(content[0]["top_logprobs"][0]["logprob"], content[0]["logprob"]);
  EXPECT_TRUE(content[0]["bytes"].is_array());
  chat.erase("logprobs");
  chat.erase("top_logprobs");
  EXPECT_TRUE(server.chat(chat).json()["choices"][0]["logprobs"].is_null());
}

// The prompt's tokens stand before the answer's, in the same four lists; nothing came before the
// first.
TEST(Serve, EchoesHowLikelyThePromptWas) {
  const TestServer server({.batched_tokens = 7});  // read in chunks
  const std::string prompt = "echo of a \xC3\xA9 prompt";
  const std::vector<std::int32_t> ids = server.model->own_tokens.encode(prompt);
  Json body = wants(prompt, 6);
  body.update({{"echo", true}, {"logprobs", 2}, {"n", 2}});
  for (int again = 0; again < 2; ++again) {  // nothing of it is left out as the cache has it
    const Json answer = server.complete(body).json();
    EXPECT_EQ(answer["usage"]["prompt_tokens"], ids.size());
    for (std::size_t choice = 0; choice < 2; ++choice) {
      EXPECT_EQ(text_of(answer, choice), prompt + alone(server, prompt, 6));
      const Json all = answer["choices"][choice]["logprobs"];
      ASSERT_EQ(all["token_logprobs"].size(), ids.size() + 6);
      for (const char* list : {"tokens", "text_offset", "top_logprobs"})
        EXPECT_EQ(all[list].size(), ids.size() + 6) << list;
      EXPECT_TRUE(all["token_logprobs"][0].is_null());
      EXPECT_TRUE(all["top_logprobs"][0].is_null());
      for (std::size_t i = 1; i < ids.size(); ++i) {
        const auto expected = server.model->log_probabilities(std::span(ids).first(i));
        EXPECT_NEAR(all["token_logprobs"][i].get<double>(),
                    expected[static_cast<std::size_t>(ids[i])], 1e-5)
            << i;
        EXPECT_GE(all["top_logprobs"][i].size(), 2u);
      }
      EXPECT_EQ(all["text_offset"][ids.size()], num_characters(prompt));
      EXPECT_LT(all["token_logprobs"][ids.size()].get<double>(), 0);
    }
  }
  body = {{"prompt", prompt}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 0}};
  for (const bool streams : {false, true}) {  // what measures of a text ask for
    body["stream"] = streams;
    const Answer answer = server.complete(body);
    const Json logprobs =
        streams ? streamed(answer).logprobs[0] : answer.json()["choices"][0]["logprobs"];
    EXPECT_EQ(logprobs["tokens"].size(), ids.size());
    EXPECT_EQ(streams ? streamed(answer).text : text_of(answer.json()), prompt);
    if (streams) continue;
    EXPECT_EQ(answer.json()["usage"]["completion_tokens"], 0);
    EXPECT_EQ(answer.json()["choices"][0]["finish_reason"], "length");
  }
  body["echo"] = false;
  EXPECT_EQ(server.complete(body).status, 400);
  body = {{"prompt", {ids[0]}}, {"max_tokens", 1}, {"echo", true}, {"logprobs", 1}};
  EXPECT_EQ(server.complete(body).json()["choices"][0]["logprobs"]["tokens"].size(), 2u);
  EXPECT_TRUE(server.is_idle());
}

TEST(Serve, PenalisesAndBiases) {
  const TestServer server;
  Json body = wants("bias", 6);
  body["logit_bias"] = {{"97", 100}};
  EXPECT_EQ(text_of(server.complete(body).json()), "aaaaaa");
  // Of two that are alike but for what the model says, within 6, each comes again and again.
  body["logit_bias"] = {{"97", 100}, {"98", 100}};
  body["frequency_penalty"] = 2;
  body["max_tokens"] = 20;
  const std::string text = text_of(server.complete(body).json());
  EXPECT_EQ(std::ranges::count(text, 'a') + std::ranges::count(text, 'b'), 20);
  EXPECT_GE(std::ranges::count(text, 'a'), 8);
  EXPECT_GE(std::ranges::count(text, 'b'), 8);
  body = wants("end", 6);
  body["ignore_eos"] = false;
  body["logit_bias"] = {{"256", 100}};
  const Json ended = server.complete(body).json();
  EXPECT_EQ(text_of(ended), "");
  EXPECT_EQ(ended["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(ended["usage"]["completion_tokens"], 1) << "the end token counts";
  body["min_tokens"] = 3;
  EXPECT_EQ(server.complete(body).json()["usage"]["completion_tokens"], 4);
  body = wants("ids", 6);
  body["logit_bias"] = {{"120", 100}};
  body["stop_token_ids"] = {120};
  const Json stopped = server.complete(body).json();
  EXPECT_EQ(stopped["choices"][0]["stop_reason"], 120);
  EXPECT_EQ(stopped["choices"][0]["finish_reason"], "stop");
}

TEST(Serve, TalksByTheModelsTemplate) {
  const TestServer server;
  Json body{{"messages", Json::array({{{"role", "system"}, {"content", "s"}},
                                      {{"role", "user"}, {"content", "u"}}})},
            {"max_tokens", 9},
            {"temperature", 0},
            {"ignore_eos", true}};
  const Json answer = server.chat(body).json();
  lm::GenerateRequest request{
      .sampling = {.temperature = 0}, .max_tokens = 9, .ignore_stop_tokens = true};
  const std::string expected =
      lm::generate(*server.model,
                   server.model->own_tokens.encode("<system>s<user>u<assistant>", false), request)
          .text;
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["message"]["content"], expected);
  EXPECT_EQ(answer["choices"][0]["message"]["role"], "assistant");
  body["stream"] = true;
  const Answer stream = server.chat(body);
  EXPECT_EQ(streamed(stream).text, expected);
  const Json first = Json::parse(events_of(stream.body).front());
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["choices"][0]["delta"]["role"], "assistant");
  const TestServer without({.chat_template = ""});
  const Answer refused = without.chat(body);
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.message(), HasSubstr("no chat template"));
  EXPECT_EQ(refused.param(), "\"messages\"");
}

TEST(Serve, MakesTokensAndTextsOfThem) {
  const TestServer server;
  const Json answer = server.ask(post("/tokenize", R"({"prompt":"a b"})")).json();
  EXPECT_EQ(answer["tokens"], Json(server.model->own_tokens.encode("a b")));
  EXPECT_EQ(answer["count"], answer["tokens"].size());
  EXPECT_EQ(answer["max_model_len"], 512);
  const Json chat =
      server.ask(post("/tokenize", R"({"messages":[{"role":"user","content":"x"}]})")).json();
  EXPECT_EQ(chat["tokens"], Json(server.model->own_tokens.encode("<user>x<assistant>", false)));
  EXPECT_EQ(server.ask(post("/detokenize", R"({"tokens":[104,105]})")).json()["prompt"], "hi");
  EXPECT_EQ(server.ask(post("/detokenize", R"({"tokens":[104,999999]})")).status, 400);
  EXPECT_EQ(server.ask(post("/tokenize", R"({"prompt":7})")).param(), "\"prompt\"");
}

TEST(Serve, SaysWhichModelItHas) {
  const TestServer server;
  const Json list = server.ask(get("/v1/models")).json();
  EXPECT_EQ(list["data"][0]["id"], "fake");
  EXPECT_EQ(list["data"][0]["max_model_len"], 512);
  EXPECT_EQ(server.ask(get("/v1/models/fake")).json()["id"], "fake");
  EXPECT_EQ(server.ask(get("/v1/models/other")).status, 404);
  Json body = wants("x", 2);
  body["model"] = "other";
  const Answer answer = server.complete(body);
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.json()["error"]["code"], "model_not_found");
  EXPECT_EQ(server.ask(get("/health")).status, 200);
}

TEST(Serve, CountsEveryRequestUnderVllmsNames) {
  const TestServer server;
  for (int i = 0; i < 3; ++i) server.complete(wants("count", 5));
  EXPECT_TRUE(server.is_idle());
  EXPECT_EQ(server.metric("vllm:generation_tokens_total"), 15);
  EXPECT_EQ(server.metric("vllm:prompt_tokens_total"), 18);
  EXPECT_EQ(server.metric("vllm:num_requests_running"), 0);
  EXPECT_EQ(server.metric("vllm:kv_cache_usage_perc"), 0);
  EXPECT_EQ(server.metric("vllm:time_to_first_token_seconds_count"), 3);
  EXPECT_EQ(server.metric("vllm:e2e_request_latency_seconds_count"), 3);
  EXPECT_EQ(server.metric("vllm:request_success_total{finished_reason=\"length\""), 3);
}

TEST(Serve, KeepsAConnectionForTheNextRequest) {
  const TestServer server;
  Client client(server.port);
  const std::string body = shown_json(wants("again", 3));
  const std::string request = fmt::format(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
      "application/json\r\nContent-Length: {}\r\n\r\n{}",
      body.size(), body);
  client.send(request + request + get("/health"));  // the second waits behind the first
  const std::string all = client.receive_all();
  std::size_t count = 0;
  for (std::size_t at = 0; (at = all.find("HTTP/1.1 200 OK", at)) != std::string::npos; ++at)
    ++count;
  EXPECT_EQ(count, 3u);
}

}  // namespace
}  // namespace tessera::http::serve_test
