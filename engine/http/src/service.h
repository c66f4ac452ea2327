#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "answering.h"
#include "engine.h"
#include "exchange.h"
#include "http_server.h"
#include "metrics.h"
#include "prepare.h"
#include "refusal.h"
#include "text_worker.h"

namespace tessera::http {

/// The endpoints: requests to the engine, and what comes of them back to their clients. All of it
/// but text is on the I/O thread.
class Service final : public Handler {
 public:
  struct Options {
    std::string api_key = {};         ///< empty: none is asked for
    std::string listens_on = {};      ///< an address of the loopback; empty: Host may be any
    std::int64_t max_unfinished = 0;  ///< choices that wait or run
    std::string page = {};            ///< HTML of /
  };
  Service(HttpServer& server, Engine& engine, const Premises& premises, Metrics& metrics,
          Options options);

  void handle(HttpRequest request, std::shared_ptr<Exchange> exchange) override;
  void too_slow() override { metrics_.too_slow(); }
  /// What the engine brought.
  void take(News news);
  /// Nothing new is taken; calls `done` once nothing is under way.
  void drain(std::function<void()> done);
  /// All that is under way ends with an error. @return how many requests that was
  std::int64_t fail_all(int status, const std::string& message);

 private:
  struct Place {
    std::shared_ptr<Answering> answering;
    std::size_t choice = 0;
    std::int64_t first = 0;  ///< number of its first choice
  };
  struct Coming {  ///< a request whose text is being read
    std::shared_ptr<Exchange> exchange;
    Answering::Clock::time_point came;
    bool has_left = false;
  };

  bool is_allowed(const RequestHead& head, Exchange& exchange) const;
  void get(const RequestHead& head, const std::shared_ptr<Exchange>& exchange);
  void show_events(const std::shared_ptr<Exchange>& exchange);
  void stop_showing(const Exchange* exchange);
  void post(HttpRequest request, std::shared_ptr<Exchange> exchange);
  void answer_text(std::string body, std::shared_ptr<Exchange> exchange, bool encodes);
  void admit(Prepared prepared, const Coming& coming);
  void leave(const std::shared_ptr<Answering>& answering, std::int64_t first, std::int64_t count);
  void look_whether_done();
  std::string models(bool one) const;
  static void refuse(Exchange& exchange, const Refusal& refusal);

  HttpServer& server_;
  Engine& engine_;
  const Premises& premises_;
  Metrics& metrics_;
  Options options_;
  std::unordered_map<std::int64_t, Place> places_;  ///< of choices that have not ended
  std::int64_t next_request_ = 0, num_coming_ = 0;
  std::int64_t created_;
  bool is_draining_ = false;
  std::function<void()> done_ = {};
  std::vector<std::shared_ptr<Exchange>> viewers_ = {};  ///< who listens at /events
  TextWorker text_, small_text_;                         // last: they call all of these
};

}  // namespace tessera::http
