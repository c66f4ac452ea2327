#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine_loop.h"
#include "fake_language_model.h"
#include "http_client.h"
#include "http_server.h"
#include "metrics.h"
#include "prepare.h"
#include "service.h"
#include "tessera/core/json.h"
#include "tessera/run/local_engine.h"

namespace tessera::http::test_server {

using namespace test::http;

/// A server of a model without arithmetic, in this process.
class TestServer {
 public:
  struct Options {
    std::string chat_template =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    std::string api_key = {};
    std::int64_t kv_blocks = 400, max_num_seqs = 8, max_waiting = 100;
    std::int64_t context = 512, batched_tokens = 64, step_us = 0;
    serving::EngineOptions engine = {};
    bool records = false;
    HttpServer::Limits limits = {};
  };

  explicit TestServer(Options options) : options_(std::move(options)) {
    model = std::make_shared<lm::fakes::FakeModel>(
        lm::fakes::FakeModel::Options{.max_context_tokens = options_.context});
    // Letters, and what follows from the last three tokens alone.
    model->logit = [](std::int32_t before, std::int32_t last, std::int32_t token) {
      const bool shown = (token >= 'a' && token <= 'z') || token >= lm::fakes::kBlankA;
      const auto seed = static_cast<std::uint64_t>(1000 * (before + 1) + last);
      return (shown ? 0.0f : -30.0f) +
             6 * lm::fakes::noise(seed, static_cast<std::uint64_t>(token), 1);
    };
    step_us = options_.step_us;
    model->before_step = [this] {
      ++num_steps;
      if (step_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(step_us));
    };
    serving::Replica replica{
        .name = "fake", .engine = options_.engine, .cost = std::make_shared<NoCost>()};
    replica.engine.max_num_seqs = options_.max_num_seqs;
    replica.engine.max_num_batched_tokens = options_.batched_tokens;
    replica.engine.block_size = 8;
    replica.kv_blocks = options_.kv_blocks;
    serving::Deployment deployment;
    deployment.replicas = {replica};
    replica = run::engine_of(deployment, *model, "test");
    premises_ = {.model = model, .name = "fake"};
    premises_.max_model_len = replica.engine.max_model_len;
    premises_.max_kv_tokens = replica.kv_tokens();
    if (options_.chat_template.empty()) {
      premises_.why_no_chat = "there is no chat template";
    } else {
      premises_.chat_template.emplace(options_.chat_template, "test");
    }
    server_ = std::make_unique<HttpServer>("127.0.0.1", 0, options_.limits);
    metrics_ = std::make_unique<Metrics>("fake", replica.engine, replica.kv_blocks);
    engine = std::make_unique<EngineLoop>(
        model, replica,
        [this](News news) {
          server_->post(
              [this, news = std::move(news)]() mutable { service->take(std::move(news)); });
        },
        options_.records);
    service = std::make_unique<Service>(
        *server_, *engine, premises_, *metrics_,
        Service::Options{.api_key = options_.api_key,
                         .listens_on = options_.api_key.empty() ? "127.0.0.1" : "",
                         .max_unfinished = options_.max_waiting + options_.max_num_seqs,
                         .page = "<p>page</p>"});
    server_->start(*service);
    port = server_->port();
    loop_ = std::thread([this] { engine->run(); });
  }
  TestServer() : TestServer(Options{}) {}
  ~TestServer() { end(); }
  void end() {
    if (!loop_.joinable()) return;
    engine->stop();
    loop_.join();
    server_->stop();
  }

  Answer ask(const std::string& request) const {
    Client client(port);
    client.send(request);
    return answer_of(client.receive_all());
  }
  Answer complete(const Json& body) const { return ask(post("/v1/completions", shown_json(body))); }
  Answer chat(const Json& body) const {
    return ask(post("/v1/chat/completions", shown_json(body)));
  }
  /// A number of /metrics.
  double metric(const std::string& name) const {
    const std::string text = ask(get("/metrics")).body;
    const std::size_t at = text.find("\n" + name);
    EXPECT_NE(at, std::string::npos) << name;
    const std::size_t end = text.find('\n', at + 1);
    const std::size_t blank = text.rfind(' ', end);
    return std::stod(text.substr(blank + 1, end - blank));
  }
  /// Until the engine has nothing to do; false where that takes longer.
  bool is_idle(int most_ms = 30'000) const {
    for (int i = 0; i < most_ms; ++i) {
      const EngineState state = engine->state();
      if (state.num_running + state.num_waiting + state.used_blocks == 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  void on_io(const std::function<void()>& run) { server_->post(run); }
  HttpServer& server() { return *server_; }

 private:
  struct NoCost final : serving::StepCost {
    std::size_t num_stages() const override { return 1; }
    serving::Ticks stage(const serving::StepLoad&, std::size_t) const override { return 0; }
    std::optional<serving::DecodeLine> decode_line(std::int64_t, std::int64_t) const override {
      return std::nullopt;
    }
  };

  Options options_;
  Premises premises_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<Metrics> metrics_;

 public:
  std::shared_ptr<lm::fakes::FakeModel> model;
  std::unique_ptr<EngineLoop> engine;
  std::unique_ptr<Service> service;  ///< ends first: what it still does calls those above
  std::int32_t port = 0;
  std::atomic<std::int64_t> num_steps = 0;
  /// What a step takes at least: long while a test does what has to happen before others, so that a
  /// machine that is busy may take seconds for it.
  std::atomic<std::int64_t> step_us = 0;

 private:
  std::thread loop_;
};

}  // namespace tessera::http::test_server
