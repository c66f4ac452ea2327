// `tessera serve` on a model that runs: what it says, how it ends, what it refuses before it
// listens.
#include <sys/stat.h>

#include <algorithm>

#include "served_program.h"

namespace tessera::test::serve_program_test {
namespace {

using namespace http;
using namespace served_program;
using testing::HasSubstr;

TEST(ServeProgram, SaysWhatGenerateSaysAndEndsWhenToldTo) {
  const Process alone = run_program({"generate", model(), "the cat", "--max-tokens", "24",
                                     "--temperature", "0", "--threads", "1", "--json"});
  ASSERT_EQ(alone.status, 0) << alone.err;
  const std::string text = Json::parse(alone.out)["text"].get<std::string>();
  const Process p = served({"--kv-blocks", "200", "--scheduler", "sarathi"}, [&](auto port, pid_t) {
    const Answer answer = ask(
        port, post("/v1/completions", R"({"prompt":"the cat","max_tokens":24,"temperature":0})"));
    EXPECT_EQ(answer.json()["choices"][0]["text"], text);
    EXPECT_THAT(ask(port, get("/metrics")).body, HasSubstr("vllm:generation_tokens_total{"));
    EXPECT_EQ(ask(port, get("/health")).status, 200);
    const Answer chat =
        ask(port, post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}]})"));
    EXPECT_EQ(chat.status, 400);
    EXPECT_THAT(chat.message(), HasSubstr("no chat template"));
  });
  EXPECT_EQ(p.status, 0) << p.err;
}

TEST(ServeProgram, EverySchedulerServesTheSameText) {
  std::string first;
  for (const char* scheduler : {"vllm_v1", "vllm_v0", "orca", "static", "sglang", "sarathi"}) {
    served({"--scheduler", scheduler, "--kv-blocks", "60", "--speculative-method", "ngram"},
           [&](auto port, pid_t) {
             std::vector<std::string> texts(6);
             std::vector<std::thread> clients;
             for (std::size_t i = 0; i < texts.size(); ++i) {
               clients.emplace_back([&, i] {
                 texts[i] =
                     ask(port, post("/v1/completions",
                                    R"({"prompt":"the birds","max_tokens":40,"temperature":0})"))
                         .json()["choices"][0]["text"]
                         .template get<std::string>();
               });
             }
             for (std::thread& client : clients) client.join();
             if (first.empty()) first = texts[0];
             for (const std::string& one : texts) EXPECT_EQ(one, first) << scheduler;
           });
  }
  EXPECT_GT(first.size(), 20u);
}

class ServePolicy : public FolderTest {};

// A scheduler of a user, in a folder of TESSERA_PATH, and a draft model at 3 bits: the same text.
TEST_F(ServePolicy, OfAFileServesTheSameTextAndSoDoesADraftModel) {
  file("schedulers/newest_first.lua", R"lua(
local ts = require "tessera"
return ts.register_scheduler { name = "newest_first", doc = "The newest first, one prompt a step",
  schedule = function(view)
    if view:continue_running(math.huge) or view.num_waiting == 0 then return end
    local last = view:waiting(view.num_waiting)
    local left = last.left_tokens - view:cached_tokens(last)
    if view.seats_left > 0 and view.tokens_left >= left then view:schedule(last, left) end
  end }
)lua");
  const std::string body = R"({"prompt":"the birds","max_tokens":40,"temperature":0})";
  std::vector<std::string> texts;
  const auto ask_many = [&](auto port, pid_t) {
    std::vector<std::string> own(5);
    std::vector<std::thread> clients;
    for (std::string& text : own) {
      clients.emplace_back([&, port] {
        text = ask(port, post("/v1/completions", body))
                   .json()["choices"][0]["text"]
                   .template get<std::string>();
      });
    }
    for (std::thread& client : clients) client.join();
    texts.insert(texts.end(), own.begin(), own.end());
  };
  served({}, ask_many);
  const Process policy = served({"--scheduler", "newest_first"}, ask_many, true, of_model(),
                                {{"TESSERA_PATH", path("")}});
  EXPECT_EQ(policy.status, 0) << policy.err;
  double drafted = 0, accepted = 0;
  const Process drafts = served(
      {"--speculative-model", model(), "--speculative-bitwidths", "3"}, [&](auto port, pid_t pid) {
        ask_many(port, pid);
        const std::string metrics = ask(port, get("/metrics")).body;
        const auto number = [&](const std::string& name) {
          const std::size_t at = metrics.find("\n" + name + "{");
          return at == std::string::npos ? -1
                                         : std::stod(metrics.substr(metrics.find('}', at) + 1));
        };
        drafted = number("vllm:spec_decode_num_draft_tokens_total");
        accepted = number("vllm:spec_decode_num_accepted_tokens_total");
      });
  EXPECT_EQ(drafts.status, 0) << drafts.err;
  EXPECT_GT(accepted, 20);
  EXPECT_GT(drafted, accepted);
  ASSERT_EQ(texts.size(), 15u);
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
  EXPECT_GT(texts[0].size(), 20u);
}

class ServeLog : public FolderTest {};

TEST_F(ServeLog, IsWhatTheSimulatorDecidesAgain) {
  const Process p = served(
      {"--kv-blocks", "40", "--step-log", path("steps.json"), "--speculative-method", "ngram"},
      [&](auto port, pid_t) {
        std::vector<std::thread> clients;
        for (int i = 0; i < 8; ++i) {
          clients.emplace_back([port, i] {
            Client client(port);
            client.send(
                post("/v1/completions",
                     fmt::format(R"({{"prompt":"the birds of the city follow","max_tokens":{},)"
                                 R"("temperature":0,"ignore_eos":true,"stream":true}})",
                                 20 + 20 * i)));
            client.receive([i](const std::string& in) {
              return i % 3 == 0 && in.find("data:") != std::string::npos;  // it leaves then
            });
          });
        }
        for (std::thread& client : clients) client.join();
      });
  EXPECT_EQ(p.status, 0) << p.err;
  const std::string script =
      file("replay.lua",
           "local r = require('tessera').replay(require('tessera.host').arguments[1])\n"
           "print(r.identical, r.num_requests, r.first_difference)\n");
  const Process again = run_program({script, path("steps.json")});
  EXPECT_EQ(again.out, "true\t8\tnil\n") << again.err;
}

// Who decodes waits for the whole step: on a CPU it holds 64 tokens unless told otherwise.
TEST_F(ServeLog, HasPromptsInPieces) {
  std::string prompt = "the birds";
  for (int i = 0; i < 50; ++i) prompt += " of the city";
  const std::string body = fmt::format(R"({{"prompt":"{}","max_tokens":2}})", prompt);
  const auto log_of = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--step-log", path("steps.json")});
    const Process p = served(flags, [&](auto port, pid_t) {
      EXPECT_EQ(ask(port, post("/v1/completions", body)).status, 200);
    });
    EXPECT_EQ(p.status, 0) << p.err;
    return read(path("steps.json"));
  };
  EXPECT_THAT(log_of({}), HasSubstr("\"scheduled\":[0,64]"));
  EXPECT_THAT(log_of({"--max-num-seqs", "50"}), HasSubstr("\"scheduled\":[0,100]"));
  EXPECT_THAT(log_of({"--no-enable-chunked-prefill"}),
              testing::Not(HasSubstr("\"scheduled\":[0,64]")));
}

TEST(ServeProgram, ASecondSignalEndsWhatIsUnderWay) {
  std::string rest;
  const Process p = served(
      {"--max-num-seqs", "4"},
      [&](auto port, pid_t pid) {
        std::vector<std::unique_ptr<Client>> clients;
        for (int i = 0; i < 40; ++i) {  // more than end before the second signal
          clients.push_back(std::make_unique<Client>(port));
          clients.back()->send(post(
              "/v1/completions",
              R"({"prompt":"go","max_tokens":240,"temperature":0,"ignore_eos":true,"stream":true})"));
        }
        clients[0]->receive(
            [](const std::string& in) { return in.find("data:") != std::string::npos; });
        kill(pid, SIGTERM);
        while (ask(port, get("/health")).status != 503) {
        }
        kill(pid, SIGTERM);
        rest = clients.back()->receive_all();
      },
      false);
  EXPECT_EQ(p.status, 1);
  EXPECT_THAT(p.err, HasSubstr("requests were ended with an error"));
  EXPECT_THAT(rest, HasSubstr("\"error\""));
}

class ServeStages : public PlanTest {};

// A dead worker takes nobody along. Streams go on with the same text.
TEST_F(ServeStages, Fault10ComeBackWhenOneDies) {
  const std::string saved = plan();
  const Process alone =
      run_program({"generate", model(), "the cat", "--plan", saved, "--max-tokens", "120",
                   "--temperature", "0", "--threads", "1", "--ignore-stop-tokens", "--json"});
  ASSERT_EQ(alone.status, 0) << alone.err;
  const std::string text = Json::parse(alone.out)["text"].get<std::string>();
  const std::string body =
      R"({"prompt":"the cat","max_tokens":120,"temperature":0,"ignore_eos":true,"stream":true})";
  const auto whole = [](const std::string& answer) {
    std::string all;
    for (const std::string& event : events_of(answer_of(answer).body)) {
      if (event == "[DONE]") return all;
      all += Json::parse(event)["choices"][0]["text"].get<std::string>();
    }
    return all + " and no [DONE]";
  };
  const Process p = served(
      {},
      [&](auto port, pid_t pid) {
        EXPECT_EQ(ask(port, get("/health")).status, 200);
        for (const int rank : {1, 0}) {
          std::vector<std::unique_ptr<Client>> clients;
          for (int i = 0; i < 3; ++i) {
            clients.push_back(std::make_unique<Client>(port));
            clients.back()->send(post("/v1/completions", body));
          }
          std::string begun = clients[0]->receive(
              [](const std::string& in) { return in.find("data:") != std::string::npos; });
          const auto stages = stages_of(pid);
          ASSERT_EQ(stages.size(), 2u);
          kill(stages.at(rank), SIGKILL);
          EXPECT_EQ(whole(begun + clients[0]->receive_all(60'000)), text);
          for (int i = 1; i < 3; ++i)
            EXPECT_EQ(whole(clients[static_cast<std::size_t>(i)]->receive_all(60'000)), text);
          EXPECT_EQ(ask(port, get("/health")).status, 200);
          EXPECT_NE(stages_of(pid).at(rank), stages.at(rank));
        }
        const Answer refused = ask(port, post("/v1/completions", R"({"prompt":"a","logprobs":1})"));
        EXPECT_EQ(refused.status, 400);
        EXPECT_EQ(refused.param(), "\"logprobs\"");
        const std::string metrics = ask(port, get("/metrics")).body;
        EXPECT_THAT(metrics, HasSubstr("num_requests_running{model_name=\"grammar-opt-5m\"} 0\n"));
        EXPECT_THAT(metrics, HasSubstr("kv_cache_usage_perc{model_name=\"grammar-opt-5m\"} 0\n"));
      },
      true, {saved, "--model", model(), "--device", "cpu"});
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_THAT(p.err, HasSubstr("signal 9"));
  EXPECT_THAT(p.err, HasSubstr("restarted"));
}

// Prompts are read by one process and decoded by another.
class ServeRoles : public PlanTest {
 protected:
  // Of a prompt, 100 tokens of it.
  static std::string body(std::size_t client) {
    return fmt::format(R"({{"prompt":"{}","max_tokens":100,"temperature":0,"ignore_eos":true,)"
                       R"("stream":true}})",
                       prompt(client));
  }
  static std::string prompt(std::size_t client) {
    const char* prompts[] = {"the cat", "the birds of the city follow", "go", "a dog sees"};
    return prompts[client % 4];
  }
  static std::string alone(std::size_t client) {
    const Process p =
        run_program({"generate", model(), prompt(client), "--max-tokens", "100", "--temperature",
                     "0", "--threads", "1", "--ignore-stop-tokens", "--json"});
    EXPECT_EQ(p.status, 0) << p.err;
    return Json::parse(p.out)["text"].get<std::string>();
  }
  static std::vector<std::string> all_alone() {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < 4; ++i) texts.push_back(alone(i));
    return texts;
  }
};

TEST_F(ServeRoles, SayWhatGenerateSaysAndAreSimulatedAlike) {
  const std::vector<std::string> texts = all_alone();
  const Process p = served(
      {"--roles", "prefill,decode", "--kv-blocks", "24", "--step-log", path("steps.json")},
      [&](auto port, pid_t pid) {
        EXPECT_EQ(stages_of(pid).size(), 2u);
        std::vector<std::thread> clients;
        for (std::size_t i = 0; i < 10; ++i) {
          clients.emplace_back([&, port, i] {
            Client client(port);
            client.send(post("/v1/completions", body(i)));
            if (i % 5 == 4) {  // it leaves after its first token, or while its blocks are sent
              client.receive(
                  [](const std::string& in) { return in.find("data:") != std::string::npos; });
              return;
            }
            EXPECT_EQ(text_of_stream(client.receive_all(60'000)), texts[i % 4]);
          });
        }
        for (std::thread& client : clients) client.join();
        EXPECT_TRUE(is_idle(port));
      });
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_THAT(p.err, HasSubstr("prefill in 1 stage, decode in 1 stage"));
  const std::string script =
      file("replay.lua",
           "local r = require('tessera').replay(require('tessera.host').arguments[1])\n"
           "print(r.identical, r.num_requests, r.first_difference)\n");
  const Process again = run_program({script, path("steps.json")});
  EXPECT_EQ(again.out, "true\t10\tnil\n") << again.err;
  const std::string steps = read(path("steps.json"));
  EXPECT_THAT(steps, HasSubstr("\"transferred\""));
}

TEST_F(ServeRoles, GoOnWhereAPoolComesBackAndEndEveryRequestOnceWhereItDoesNot) {
  const std::vector<std::string> texts = all_alone();
  const Process p = served({"--roles", "prefill,decode"}, [&](auto port, pid_t pid) {
    for (const int rank : {0, 1}) {
      std::vector<std::unique_ptr<Client>> clients;
      for (std::size_t i = 0; i < 4; ++i) {
        clients.push_back(std::make_unique<Client>(port));
        clients.back()->send(post("/v1/completions", body(i)));
      }
      std::string begun = clients[0]->receive(
          [](const std::string& in) { return in.find("data:") != std::string::npos; });
      kill(stages_of(pid).at(rank), SIGKILL);
      for (std::size_t i = 0; i < 4; ++i) {
        const std::string rest = clients[i]->receive_all(60'000);
        EXPECT_EQ(text_of_stream(i == 0 ? begun + rest : rest), texts[i]) << rank;
      }
    }
    EXPECT_TRUE(is_idle(port));
  });
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_THAT(p.err, HasSubstr("prefill, stage 1: "));
  EXPECT_THAT(p.err, HasSubstr("decode, stage 1: "));

  std::map<int, pid_t> left;
  std::vector<std::string> answers;
  const Process dead = served(
      {"--roles", "prefill,decode"},
      [&](auto port, pid_t pid) {
        std::vector<std::unique_ptr<Client>> clients;
        for (std::size_t i = 0; i < 6; ++i) {
          clients.push_back(std::make_unique<Client>(port));
          clients.back()->send(post("/v1/completions", body(i)));
        }
        clients[0]->receive(
            [](const std::string& in) { return in.find("data:") != std::string::npos; });
        pid_t before = 0;
        for (int kills = 0; kills < 3; ++kills) {  // it is started again twice a minute
          for (int i = 0; i < 3000; ++i) {
            left = stages_of(pid);
            if (left.contains(1) && left[1] != before) break;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          }
          kill(before = left.at(1), SIGKILL);
        }
        for (const auto& client : clients) answers.push_back(client->receive_all(60'000));
      },
      false);
  EXPECT_EQ(dead.status, 1);
  EXPECT_THAT(dead.err, HasSubstr("decode, stage 0"));
  for (const std::string& answer : answers) {
    const bool is_whole = answer.find("[DONE]") != std::string::npos;
    const bool is_error = answer.find("\"error\"") != std::string::npos;
    EXPECT_NE(is_whole, is_error) << answer.substr(std::max<std::size_t>(answer.size(), 300) - 300);
  }
  for (const auto& [rank, process] : left) EXPECT_NE(kill(process, 0), 0) << "rank " << rank;
}

TEST_F(ServeRoles, AreOneThatReadsAndOneThatDecodes) {
  const auto refuses = [&](const std::string& roles, const std::string& why) {
    const Process p = run_program({"serve", model(), "--port", "0", "--roles", roles});
    EXPECT_NE(p.status, 0) << roles;
    EXPECT_THAT(first_line(p.err), HasSubstr(why));
  };
  refuses("prefill", "--roles prefill,decode");
  refuses("decode,decode", "--roles prefill,decode");
  refuses("prefill,decode,decode", "there are 3 engines");
  refuses("prefill,encode", "encode");
  const Process p = run_program({"serve", plan(), "--model", model(), "--device", "cpu", "--port",
                                 "0", "--roles", "prefill,decode"});
  EXPECT_EQ(p.status, 2);
  EXPECT_THAT(first_line(p.err), HasSubstr("there are 2, and the plan has 1 replicas"));
}

class ServeTemplate : public FolderTest {};

TEST_F(ServeTemplate, Fault8OneThatIsNotUnderstoodIsRefusedByName) {
  for (const auto& entry : std::filesystem::directory_iterator(model())) {
    const std::string name = entry.path().filename().string();
    file("odd/" + name, read(entry.path().string()));
  }
  file("odd/chat_template.jinja", "{% include 'another' %}");
  std::filesystem::rename(path("odd"), path("grammar-opt-5m"));
  const Process p = served(
      {},
      [&](auto port, pid_t) {
        const Answer chat = ask(
            port, post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}]})"));
        EXPECT_EQ(chat.status, 400);
        EXPECT_THAT(chat.message(), HasSubstr("the statement 'include' is not understood"));
        EXPECT_EQ(ask(port, post("/v1/completions", R"({"prompt":"a","max_tokens":2})")).status,
                  200);
      },
      true, {path("grammar-opt-5m"), "--threads", "1"});
  EXPECT_EQ(p.status, 0) << p.err;
}

// Its chats are as load generators write them: contents of parts, fields that are null.
TEST_F(ServeTemplate, OfAUserLetsAModelWithoutOneChat) {
  file("mine.jinja", "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}");
  const Process p = served({"--chat-template", path("mine.jinja")}, [&](auto port, pid_t) {
    const Answer whole = ask(
        port, post("/v1/completions", R"({"prompt":"the cat","max_tokens":9,"temperature":0})"));
    const Answer stream = ask(
        port, post("/v1/chat/completions",
                   R"({"messages":[{"role":"user","content":[{"type":"text","text":"the cat"}]}],)"
                   R"("max_completion_tokens":9,"temperature":0,"stop":null,"ignore_eos":true,)"
                   R"("stream":true,"stream_options":{"include_usage":true}})"));
    std::string text;
    Json usage;
    for (const std::string& event : events_of(stream.body)) {
      if (event == "[DONE]") continue;
      const Json json = Json::parse(event);
      for (const Json& choice : json["choices"]) text += choice["delta"].value("content", "");
      if (json.contains("usage") && json["usage"].is_object()) usage = json["usage"];
    }
    EXPECT_EQ(text, whole.json()["choices"][0]["text"]);
    EXPECT_EQ(usage["completion_tokens"], 9) << stream.body;
  });
  EXPECT_EQ(p.status, 0) << p.err;
}

// An editor's plug-in: it opens a stream, has seen enough after three tokens and asks again.
TEST(ServeProgram, AnEditorThatAsksAgainAndAgainLeavesNothing) {
  constexpr int kTimes = 50;
  const auto has_three = [](const std::string& in) {
    int count = 0;
    for (std::size_t at = 0; (at = in.find("data:", at)) != std::string::npos; at += 5) ++count;
    return count >= 3;
  };
  const Process p = served({"--kv-blocks", "60"}, [&](auto port, pid_t) {
    for (int i = 0; i < kTimes; ++i) {
      Client client(port);
      client.send(post("/v1/completions", R"({"prompt":"the cat","max_tokens":240,"temperature":0,)"
                                          R"("ignore_eos":true,"stream":true})"));
      EXPECT_TRUE(has_three(client.receive(has_three)));
    }
    EXPECT_TRUE(is_idle(port));
    EXPECT_THAT(ask(port, get("/metrics")).body,
                HasSubstr(fmt::format("vllm:request_success_total{{finished_reason=\"abort\","
                                      "model_name=\"grammar-opt-5m\"}} {}\n",
                                      kTimes)));
  });
  EXPECT_EQ(p.status, 0) << p.err;
}

class ServeRefuses : public FolderTest {
 protected:
  void refuses(std::vector<std::string> words, const std::string& why, int status = 1) {
    words.insert(words.begin(), "serve");
    const Process p = run_program(words, {.environment = {{"TESSERA_API_KEY", ""}}});
    EXPECT_EQ(p.out, "");
    EXPECT_EQ(p.status, status) << p.err;
    EXPECT_THAT(first_line(p.err), HasSubstr(why));
  }
};

TEST_F(ServeRefuses, WhatMakesNoSenseBeforeItListens) {
  const Port taken;
  refuses({model(), "--port", std::to_string(taken.number())}, "Address already in use");
  refuses({model(), "--port", "0", "--host", "0.0.0.0"}, "give --api-key-file");
  refuses({model(), "--port", "0", "--host", "203.0.113.77"}, "cannot listen on 203.0.113.77");
  refuses({model(), "--port", "0", "--kv-blocks", "900000000"}, "KV blocks of 16 tokens take");
  refuses({model(), "--port", "0", "--max-model-len", "4096"}, "max_model_len is 4096");
  refuses({model(), "--port", "0", "--scheduler", "quantum"}, "quantum");
  refuses({model(), "--port", "70000"}, "port", 2);
  refuses({model(), "--prot", "1"}, "--port", 2);
  refuses({}, "name a model", 2);
  refuses({model(), "--port", "0", "--chat-template", file("t.jinja", "{% include 'x' %}")},
          "the statement 'include' is not understood");
  const std::string key = file("key", "0123456789abcdef");
  chmod(key.c_str(), 0644);
  refuses({model(), "--port", "0", "--api-key-file", key}, "others may read");
  for (const char* name : {"config.json", "model.safetensors"}) {
    file(std::string("bare/") + name, read(model() + "/" + name));
  }
  refuses({path("bare"), "--port", "0"}, "tokenizer");
  refuses({path("nothing"), "--port", "0"}, "nothing");
}

}  // namespace
}  // namespace tessera::test::serve_program_test
